//! A story that has been played: its timeline, and what came of it in a sentence.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::Story;
use crate::simulator::{Entry, Plan, SECOND, Seen, Waiting, What};

/// The first token that is shown: the articles' holder has 33, the next one 34.
const FIRST_TOKEN: usize = 33;

/// A story that has been played.
#[derive(Clone, Debug)]
pub struct Tale {
    /// Which.
    pub story: &'static str,
    /// How it was played.
    pub plan: Plan,
    /// What was seen.
    pub seen: Seen,
    /// What happened, in order of time.
    pub entries: Vec<Entry>,
    prevention: &'static str,
    tokens: BTreeMap<u64, usize>,
}

impl Tale {
    pub(super) fn new(story: &Story, plan: Plan, seen: Seen, entries: Vec<Entry>) -> Self {
        let held = entries.iter().filter_map(|entry| match entry.what {
            What::Holds(_, Some(token)) => Some(token),
            _ => None,
        });
        // In the order of their size, whatever the order in which they were had.
        let held: BTreeSet<u64> = held.collect();
        let tokens = held.into_iter().zip(FIRST_TOKEN..).collect();
        Self { story: story.name, prevention: story.prevention, plan, seen, entries, tokens }
    }

    /// A token as it is shown: small, in the same order.
    pub fn token(&self, token: Option<u64>) -> Option<usize> {
        token.and_then(|token| self.tokens.get(&token)).copied()
    }

    /// From when to when each client took itself for the holder, and its token.
    pub fn beliefs(&self) -> Vec<(usize, u64, u64, Option<usize>)> {
        let mut open: BTreeMap<usize, (u64, u64, Option<usize>)> = BTreeMap::new();
        let mut all = Vec::new();
        for Entry { time, what } in &self.entries {
            match what {
                What::Holds(client, token) => {
                    open.insert(*client, (*time, u64::MAX, self.token(*token)));
                }
                What::ValidUntil(client, until) => {
                    if let Some(one) = open.get_mut(client) {
                        one.1 = *until;
                    }
                }
                What::Releases(client)
                | What::Loses(client)
                | What::NotValid(client)
                | What::Dies(client) => {
                    if let Some((from, until, token)) = open.remove(client) {
                        all.push((*client, from, until.min(*time), token));
                    }
                }
                _ => {}
            }
        }
        let end = self.plan.end;
        all.extend(
            open.into_iter()
                .map(|(client, (from, until, token))| (client, from, until.min(end), token)),
        );
        all
    }

    /// The timeline, a line for each thing that happened.
    pub fn timeline(&self) -> String {
        let mut lines: Vec<(u64, String)> = Vec::new();
        let (mut waits, mut listens) = (BTreeMap::new(), BTreeSet::new());
        for Entry { time, what } in &self.entries {
            let text = match what {
                What::Asks(client) | What::Denied(client) => {
                    let denied = matches!(what, What::Denied(_));
                    // Only the first of either is reported.
                    let before = waits.get(client).copied();
                    if before == Some(true) || before == Some(denied) {
                        continue;
                    }
                    waits.insert(*client, denied);
                    let does = if denied { "has to wait" } else { "asks for the lock" };
                    format!("{} {does}", person(*client))
                }
                What::Holds(client, token) => {
                    waits.remove(client);
                    let token = self.token(*token);
                    let token = token.map(|token| format!(", token {token}")).unwrap_or_default();
                    format!("{} holds the lock{token}", person(*client))
                }
                What::Releases(client) => format!("{} gives the lock back", person(*client)),
                What::Loses(client) => {
                    format!("{} is notified that it loses the lock, and stops", person(*client))
                }
                What::NotValid(client) => {
                    format!(
                        "{} looks at its clock: the lock is not valid any more",
                        person(*client)
                    )
                }
                What::Writes(client, plain, fenced) => {
                    let taken = |is: &bool| if *is { "taken" } else { "refused" };
                    let fence = match self.plan.setup.tokens() {
                        true => format!("; with a fence: {}", taken(fenced)),
                        false => String::new(),
                    };
                    let plain = taken(plain);
                    format!("{} writes; without a fence: {plain}{fence}", person(*client))
                }
                What::Claims(client) => {
                    format!("{}'s random value comes to the resource", person(*client))
                }
                What::ByValue(client, is) => {
                    let taken = if *is { "taken" } else { "refused" };
                    format!("{}'s write, by the random value: {taken}", person(*client))
                }
                What::Stops(client) => format!("{} is stopped", person(*client)),
                What::GoesOn(client) => format!("{} goes on", person(*client)),
                What::Dies(client) => format!("{} dies", person(*client)),
                // The first time is reported.
                What::Listens(client) if !listens.insert(*client) => continue,
                What::Listens(client) => format!("{} listens for a release", person(*client)),
                What::Tells(node, many) => {
                    format!("  node {}: the lock is free, and {} told", letter(*node), told(*many))
                }
                What::Node(node, text) => format!("  node {}: {text}", letter(*node)),
                What::Client(client, text) => format!("{}: {text}", person(*client)),
                What::Overlap(first, second) => format!(
                    "!! {} and {} both take themselves for the holder",
                    person(*first),
                    person(*second)
                ),
                What::Lease(..) | What::ValidUntil(..) => continue,
            };
            lines.push((*time, text));
        }
        for (client, _, until, _) in self.beliefs() {
            let ended = self.entries.iter().any(|entry| {
                entry.time == until
                    && matches!(entry.what, What::Releases(of) | What::Loses(of) | What::Dies(of)
                        | What::NotValid(of) if of == client)
            });
            if !ended && until < self.plan.end {
                lines.push((until, format!("{}'s lease is over by its own clock", person(client))));
            }
        }
        lines.sort_by_key(|(time, _)| *time);
        let mut out = String::new();
        for (time, text) in lines {
            let _ = writeln!(out, "{:>9.3} s  {text}", time as f64 / SECOND as f64);
        }
        out
    }

    /// What happened, in a sentence, and what would have prevented it, in another.
    pub fn moral(&self) -> String {
        let mut happened = self.happened();
        if let Some(first) = happened.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        format!("{happened} {}", self.prevention)
    }

    fn happened(&self) -> String {
        let overlap = self.entries.iter().find_map(|entry| match entry.what {
            What::Overlap(first, second) => Some((entry.time, first, second)),
            _ => None,
        });
        let in_vain: Vec<String> = (0..self.plan.clients.len())
            .filter(|client| {
                let is = |what: &What| match what {
                    What::Holds(of, _) | What::Dies(of) => of == client,
                    _ => false,
                };
                !self.entries.iter().any(|entry| is(&entry.what))
            })
            .map(person)
            .collect();
        let lost = match (self.seen.lost_plain, self.seen.refused) {
            (0, _) => String::new(),
            (lost, _) if !self.plan.setup.tokens() => format!(", and {} lost", updates(lost)),
            (lost, refused) => format!(
                ", and {} lost; a fence refused {} and lost none",
                updates(lost),
                if refused == 1 { "one write".to_owned() } else { format!("{refused} writes") }
            ),
        };
        match overlap {
            Some((time, first, second)) => format!(
                "At {:.1} s {} got the lock while {} still took itself for its holder{lost}{}.",
                time as f64 / SECOND as f64,
                person(second),
                person(first),
                match in_vain.is_empty() {
                    true => String::new(),
                    false => format!("; {} waited in vain", in_vain.join(" and ")),
                }
            ),
            None if !in_vain.is_empty() => {
                format!("{} waited in vain until the end{lost}.", in_vain.join(" and "))
            }
            None if !lost.is_empty() => {
                format!("A write came after its lease had ended{lost}.")
            }
            None if self.plan.waiting != Waiting::Asks && self.seen.gap < SECOND => format!(
                "There were never two holders; the clients asked {} times for {} holds.",
                self.seen.asks, self.seen.holds
            ),
            None => format!(
                "There were never two holders, and the lock was {:.1} s without one while a client \
                 wanted it.",
                self.seen.gap as f64 / SECOND as f64
            ),
        }
    }
}

fn told(many: usize) -> String {
    match many {
        0 => "no waiter is".to_owned(),
        1 => "one who waits is".to_owned(),
        many => format!("{many} who wait are"),
    }
}

fn updates(count: u64) -> String {
    if count == 1 { "one update was".to_owned() } else { format!("{count} updates were") }
}

/// A client's name.
pub(super) fn person(client: usize) -> String {
    format!("client {}", client + 1)
}

/// A node's name.
pub(super) fn letter(node: usize) -> char {
    char::from(b'A' + (node % 26) as u8)
}
