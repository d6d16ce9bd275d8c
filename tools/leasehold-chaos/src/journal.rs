//! What a client process writes down, a line at a time, and what is read from that afterwards: who
//! took itself for the holder, and how long.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::str::FromStr;
use std::{collections::BTreeMap, fmt};

use crate::failure::{Failure, FailureKind};
use crate::loss::{Losses, Watched};
use crate::part::Part;
use crate::{MS, TTL};

/// A loss by the clock is reported this long before the deadline; the holder counts on no lease
/// from then on.
const MARGIN: u64 = TTL.as_nanos() as u64 / 10 + 2 * MS;

/// A line. Holds are numbered by the process; times are the client's own readings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum JournalEntry {
    /// It asked at one moment, and had the lock at another. Those that passed a lease on inside the
    /// process have the same attempt.
    Held { hold: u64, asked: u64, got: u64, token: u64, deadline: u64, attempt: String, part: Part },
    /// Read before the guard was asked, which said that it is valid.
    Valid { hold: u64, at: u64, deadline: u64 },
    /// About to be given back.
    Ended { hold: u64, at: u64, end: HoldEnd, deadline: u64 },
    /// When it wanted the file lock of the judge, another holder had it.
    Met { hold: u64, at: u64 },
    /// It has given the file lock of the judge back.
    Left { hold: u64, at: u64 },
    /// An observer of an election has seen the leader with this token; 0 if there is no leader.
    Observed { at: u64, token: u64 },
    /// The store named the attempts that wait, the first in line first; it was asked and answered at these times.
    Waiting { asked: u64, at: u64, queue: Vec<String> },
    /// An acquire, a connect or a release failed, as it may while something explains it.
    Failed { at: u64, told: FailureKind, what: String },
    /// The client dropped something, or ended it in another hard way.
    Abandoned { at: u64, what: String },
    /// Something that may not happen.
    Wrong(String),
    /// It has got the lock after the end was told, and nothing is left in the process.
    Done,
}

/// How a hold ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HoldEnd {
    /// The guard was valid.
    Valid,
    /// It was not, by the clock.
    Expired,
    /// It was not, for another reason: the servers said so.
    Told,
}

impl fmt::Display for JournalEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held { hold, asked, got, token, deadline, attempt, part } => {
                write!(f, "held {hold} {asked} {got} {token} {deadline} {attempt} {part}")
            }
            Self::Valid { hold, at, deadline } => write!(f, "valid {hold} {at} {deadline}"),
            Self::Ended { hold, at, end, deadline } => {
                let end = match end {
                    HoldEnd::Valid => "valid",
                    HoldEnd::Expired => "expired",
                    HoldEnd::Told => "told",
                };
                write!(f, "ended {hold} {at} {end} {deadline}")
            }
            Self::Met { hold, at } => write!(f, "met {hold} {at}"),
            Self::Left { hold, at } => write!(f, "left {hold} {at}"),
            Self::Observed { at, token } => write!(f, "observed {at} {token}"),
            Self::Waiting { asked, at, queue } => {
                write!(f, "line {asked} {at} {}", queue.join(","))
            }
            Self::Failed { at, told, what } => {
                write!(f, "failed {at} {} {}", told.name(), what.replace('\n', " "))
            }
            Self::Abandoned { at, what } => write!(f, "abandoned {at} {what}"),
            Self::Wrong(what) => write!(f, "wrong {}", what.replace('\n', " ")),
            Self::Done => f.write_str("done"),
        }
    }
}

impl FromStr for JournalEntry {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let no_line = || format!("no line of a journal: {line:?}");
        let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
        let words: Vec<&str> = rest.split(' ').collect();
        let number =
            |at: usize| words.get(at).and_then(|word| word.parse().ok()).ok_or_else(no_line);
        Ok(match kind {
            "held" => Self::Held {
                hold: number(0)?,
                asked: number(1)?,
                got: number(2)?,
                token: number(3)?,
                deadline: number(4)?,
                attempt: words.get(5).ok_or_else(no_line)?.to_string(),
                part: match words.get(6) {
                    Some(part) => part.parse().map_err(|()| no_line())?,
                    None => Part::Whole,
                },
            },
            "valid" => Self::Valid { hold: number(0)?, at: number(1)?, deadline: number(2)? },
            "ended" => {
                let end = match words.get(2) {
                    Some(&"valid") => HoldEnd::Valid,
                    Some(&"expired") => HoldEnd::Expired,
                    Some(&"told") => HoldEnd::Told,
                    _ => return Err(no_line()),
                };
                Self::Ended { hold: number(0)?, at: number(1)?, end, deadline: number(3)? }
            }
            "met" => Self::Met { hold: number(0)?, at: number(1)? },
            "left" => Self::Left { hold: number(0)?, at: number(1)? },
            "observed" => Self::Observed { at: number(0)?, token: number(1)? },
            "line" => {
                let queue = words.get(2).ok_or_else(no_line)?.split(',').map(str::to_owned);
                Self::Waiting { asked: number(0)?, at: number(1)?, queue: queue.collect() }
            }
            "failed" => {
                let told =
                    words.get(1).and_then(|word| FailureKind::named(word)).ok_or_else(no_line)?;
                let what = rest.splitn(3, ' ').nth(2).ok_or_else(no_line)?.to_owned();
                Self::Failed { at: number(0)?, told, what }
            }
            "abandoned" => {
                let what = rest.split_once(' ').ok_or_else(no_line)?.1.to_owned();
                Self::Abandoned { at: number(0)?, what }
            }
            "wrong" => Self::Wrong(rest.to_owned()),
            "done" => Self::Done,
            _ => return Err(no_line()),
        })
    }
}

/// The journal of one process, for writing. Each line is one write, so that it is there as a whole
/// or not at all, whichever process is killed.
#[derive(Debug)]
pub(crate) struct Journal(File);

impl Journal {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(OpenOptions::new().create(true).append(true).open(path)?))
    }

    /// Adds a line; a disk that is full ends the process, which the judge then misses.
    pub(crate) fn write(&self, line: &JournalEntry) {
        if let Err(error) = (&self.0).write_all(format!("{line}\n").as_bytes()) {
            eprintln!("the journal cannot be written: {error}");
            std::process::exit(1);
        }
    }
}

/// A process had the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    /// The number of the client's process.
    pub(crate) client: u32,
    /// Of the process: holds that were passed on inside it share their lease.
    pub(crate) lease: u32,
    /// Before the lease was asked for, by this hold or by one that it was passed on from.
    pub(crate) asked: u64,
    /// Before this hold was asked for.
    pub(crate) wanted: u64,
    /// It took itself for the holder from here on,
    pub(crate) got: u64,
    /// at least until here.
    pub(crate) until: u64,
    pub(crate) token: u64,
    pub(crate) part: Part,
}

impl Hold {
    /// Whether the two may not be at the same time. Readers at the same time are of one phase, and have one token.
    pub(crate) fn conflicts(&self, other: &Self) -> bool {
        let of_phases = (self.part, other.part) == (Part::Read, Part::Read);
        self.part.conflicts(other.part) || (of_phases && self.token != other.token)
    }

    /// The lease, among those of all processes.
    pub(crate) fn lease(&self) -> (u32, u32) {
        (self.client, self.lease)
    }

    /// In words; times in seconds from a moment on.
    pub(crate) fn told(&self, start: u64) -> String {
        let seconds = |time: u64| (i128::from(time) - i128::from(start)) as f64 / 1e9;
        let [asked, got, until] = [self.asked, self.got, self.until].map(seconds);
        let Self { client, token, .. } = self;
        format!(
            "client {client} asked at {asked:.3} s, held from {got:.3} s to {until:.3} s with token \
             {token}"
        )
    }
}

/// How the acquires of writers that are dropped are named, where others read.
pub(crate) const DROPPED_WRITES: &str = "dropped acquires to write";

/// The client dropped something, or ended it in another hard way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Abandoned {
    pub(crate) at: u64,
    pub(crate) what: String,
}

/// A journal that has been read.
#[derive(Debug, Default)]
pub(crate) struct Story {
    pub(crate) holds: Vec<Hold>,
    /// What it received instead of what it asked for.
    pub(crate) failed: Vec<Failure>,
    /// What the client dropped or ended in another hard way.
    pub(crate) abandoned: Vec<Abandoned>,
    pub(crate) wrong: Vec<String>,
    pub(crate) done: bool,
    pub(crate) losses: Losses,
    /// When it got the lock, by the attempt.
    pub(crate) granted: BTreeMap<String, u64>,
    pub(crate) queues: Vec<Waiting>,
    /// When it has seen leaders of an election, by their tokens; 0 if there is no leader.
    pub(crate) observed: Vec<(u64, u64)>,
    /// When it may have had a file lock of the judge.
    pub(crate) spans: BTreeMap<u64, Span>,
    /// When another holder had it.
    pub(crate) met: Vec<Met>,
}

/// A time in which a process may have had a file lock of the judge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) client: u32,
    pub(crate) hold: u64,
    pub(crate) part: Part,
    pub(crate) from: u64,
    pub(crate) until: u64,
}

/// A process wanted a file lock of the judge, and another one had it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Met {
    pub(crate) client: u32,
    pub(crate) hold: u64,
    pub(crate) at: u64,
    pub(crate) part: Part,
}

/// Attempts that waited, as the store named them to a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) asked: u64,
    pub(crate) at: u64,
    /// The first in line first.
    pub(crate) queue: Vec<String>,
}

impl Story {
    /// The kernel gives back what a process had when it has ended.
    pub(crate) fn end_spans(&mut self, ended: u64) {
        for span in self.spans.values_mut() {
            span.until = span.until.min(ended);
        }
    }

    /// Reads a process's journal; `gone` is when it was killed, if it was.
    pub(crate) fn read(text: &str, client: u32, gone: Option<u64>) -> Self {
        let mut story = Self::default();
        let mut open: BTreeMap<u64, Open> = BTreeMap::new();
        let mut leases: BTreeMap<String, (u64, u32)> = BTreeMap::new();
        for line in text.lines() {
            match line.parse() {
                Ok(JournalEntry::Held { hold, asked, got, token, deadline, attempt, part }) => {
                    let (next, wanted) = (leases.len() as u32, asked);
                    story.granted.entry(attempt.clone()).or_insert(got);
                    let (asked, lease) = *leases.entry(attempt).or_insert((asked, next));
                    let begun = Hold { client, lease, asked, wanted, got, until: got, token, part };
                    story
                        .spans
                        .insert(hold, Span { client, hold, part, from: got, until: u64::MAX });
                    let watched = Watched::new(got, deadline);
                    open.insert(hold, Open { begun, deadline, watched });
                }
                Ok(JournalEntry::Valid { hold, at, deadline }) => {
                    if let Some(one) = open.get_mut(&hold) {
                        one.begun.until = at;
                        one.deadline = deadline;
                        story.wrong.extend(one.look(at, deadline));
                    }
                }
                Ok(JournalEntry::Met { hold, at }) => {
                    let part = story.spans.get(&hold).map(|one| one.part).unwrap_or_default();
                    story.met.push(Met { client, hold, at, part });
                }
                Ok(JournalEntry::Left { hold, at }) => {
                    if let Some(span) = story.spans.get_mut(&hold) {
                        span.until = at;
                    }
                }
                Ok(JournalEntry::Observed { at, token }) => story.observed.push((at, token)),
                Ok(JournalEntry::Waiting { asked, at, queue }) => {
                    story.queues.push(Waiting { asked, at, queue });
                }
                Ok(JournalEntry::Ended { hold, at, end, deadline }) => {
                    let ended = open.remove(&hold);
                    if end == HoldEnd::Expired && ended.is_some() {
                        story.losses.add(at, deadline);
                    }
                    story.holds.extend(ended.map(|one| one.ended(at, end, deadline)));
                }
                Ok(JournalEntry::Failed { at, told, what }) => {
                    story.failed.push(Failure { client, at, told, what });
                }
                Ok(JournalEntry::Abandoned { at, what }) => {
                    story.abandoned.push(Abandoned { at, what })
                }
                Ok(JournalEntry::Wrong(what)) => story.wrong.push(what),
                Ok(JournalEntry::Done) => story.done = true,
                Err(error) => story.wrong.push(error),
            }
        }
        let gone = gone.unwrap_or(u64::MAX);
        let left = open.into_values().map(|one| one.ended(gone, HoldEnd::Expired, one.deadline));
        story.holds.extend(left);
        story
    }
}

struct Open {
    begun: Hold,
    deadline: u64,
    watched: Watched,
}

impl Open {
    /// What the guard did wrong, in words.
    fn look(&mut self, at: u64, deadline: u64) -> Option<String> {
        let what = self.watched.look(at, deadline)?;
        Some(format!("the guard with token {} {what}, {deadline}, at {at}", self.begun.token))
    }

    /// The least that the guard was believed: a clock that had passed the deadline was believed
    /// until the loss was told, a loss that the servers told until it was last found valid.
    fn ended(&self, at: u64, end: HoldEnd, deadline: u64) -> Hold {
        let known = self.begun.until;
        let until = match end {
            HoldEnd::Valid => at.min(deadline),
            HoldEnd::Expired => at.min(deadline.saturating_sub(MARGIN)).max(known),
            HoldEnd::Told => known,
        };
        Hold { until, ..self.begun }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SECOND;

    #[test]
    fn every_line_is_read_as_it_was_written() {
        for line in [
            JournalEntry::Held {
                hold: 1,
                asked: 2,
                got: 3,
                token: 4,
                deadline: 5,
                attempt: "a".into(),
                part: Part::Read,
            },
            JournalEntry::Observed { at: 1, token: 0 },
            JournalEntry::Met { hold: 1, at: 2 },
            JournalEntry::Left { hold: 1, at: 2 },
            JournalEntry::Valid { hold: 1, at: 2, deadline: 3 },
            JournalEntry::Ended { hold: 1, at: 2, end: HoldEnd::Valid, deadline: 3 },
            JournalEntry::Ended { hold: 1, at: 2, end: HoldEnd::Expired, deadline: 3 },
            JournalEntry::Ended { hold: 1, at: 2, end: HoldEnd::Told, deadline: 3 },
            JournalEntry::Waiting { asked: 1, at: 2, queue: vec!["a".into(), "b".into()] },
            JournalEntry::Failed {
                at: 7,
                told: FailureKind::Away,
                what: "no server is there".into(),
            },
            JournalEntry::Failed {
                at: 8,
                told: FailureKind::Foreign,
                what: "a newer version".into(),
            },
            JournalEntry::Abandoned { at: 9, what: "dropped guards".into() },
            JournalEntry::Wrong("a thing".into()),
            JournalEntry::Done,
        ] {
            assert_eq!(line.to_string().parse(), Ok(line));
        }
        assert!("held 1 2".parse::<JournalEntry>().is_err());
        assert!(Story::read("held 1\n", 1, None).wrong.len() == 1, "a line without its end");
    }

    fn until(end: &str, gone: Option<u64>) -> u64 {
        let begun = format!(
            "held 1 0 {SECOND} 7 {} a\nvalid 1 {} {}",
            2 * SECOND,
            3 * SECOND / 2,
            12 * SECOND / 5
        );
        let story = Story::read(&format!("{begun}\n{end}"), 3, gone);
        assert_eq!((story.holds.len(), story.wrong.len()), (1, 0));
        let hold = story.holds[0];
        assert_eq!((hold.client, hold.asked, hold.got, hold.token), (3, 0, SECOND, 7));
        hold.until
    }

    #[test]
    fn belief_lasts_until_the_lock_is_given_back_or_lost_or_the_process_gone() {
        let (at, deadline) = (2 * SECOND, 12 * SECOND / 5);
        assert_eq!(until(&format!("ended 1 {at} valid {deadline}"), None), at);
        assert_eq!(until(&format!("ended 1 {at} told {deadline}"), None), 3 * SECOND / 2);
        let late = 9 * SECOND;
        assert_eq!(until(&format!("ended 1 {late} expired {deadline}"), None), deadline - MARGIN);
        assert_eq!(until("", Some(at)), at, "killed before its deadline");
        assert_eq!(until("", Some(late)), deadline - MARGIN, "stopped, and killed after it");
    }

    #[test]
    fn a_loss_that_was_not_reported_in_time_is_found_in_the_journal() {
        let read = |looks: &[u64]| {
            let deadline = SECOND + 988 * MS;
            let begun = format!("held 1 0 {SECOND} 7 {deadline} a\n");
            let look = |at: &u64| format!("valid 1 {} {deadline}\n", SECOND + at * MS);
            let ended = format!("ended 1 {} expired {deadline}\n", SECOND + 990 * MS);
            let looks: String = looks.iter().map(look).collect();
            Story::read(&[begun, looks, ended].concat(), 3, None)
        };
        let kept = read(&[5, 10, 880]);
        assert_eq!((kept.wrong.len(), kept.losses), (0, Losses { before: 0, after: 1 }));
        let broken = read(&[5, 10, 900, 905]).wrong;
        assert!(broken.len() == 1 && broken[0].contains("did not report its loss"), "{broken:?}");
        let broken = read(&[989]).wrong;
        assert!(broken.len() == 1 && broken[0].contains("after its deadline"), "{broken:?}");
    }

    #[test]
    fn a_lease_that_was_passed_on_was_asked_for_once() {
        let held = |hold: u64, asked: u64, attempt: &str| {
            format!(
                "held {hold} {asked} {} {hold} 900 {attempt}\nended {hold} {} valid 900\n",
                asked + 1,
                asked + 2
            )
        };
        let text = [held(1, 10, "a"), held(2, 20, "a"), held(3, 30, "b")].concat();
        let story = Story::read(&text, 1, None);
        let asked: Vec<u64> = story.holds.iter().map(|hold| hold.asked).collect();
        assert_eq!(asked, [10, 10, 30]);
        let leases: Vec<u32> = story.holds.iter().map(|hold| hold.lease).collect();
        assert_eq!(leases, [0, 0, 1]);
    }
}
