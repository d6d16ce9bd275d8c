//! Which nodes may vote: a node that may have forgotten leases waits until they are over, and
//! learns from the others how high tokens have grown.
//!
//! Redlock leaves this to an operator who waits a ttl before starting a node again ("delayed
//! restart"); here every client enforces it, by its own clock and a marker in the node's data.

mod founding;
mod tasks;

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use super::{Marker, ProcessId, Survey, admission_wait, majority};
use crate::{Deadline, Now};

use founding::Phase;
pub use founding::{Founding, Halt};
pub use tasks::{Task, TaskReply};

/// How long a node is waited for, and then left alone before it is looked at again.
const PATIENCE: Duration = Duration::from_secs(1);

/// What is known of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Member {
    /// Nothing: it does not answer.
    Unknown,
    /// It has a vote.
    Admitted(ProcessId),
    /// It may have forgotten leases, and waits until they are over. Zero: it cannot be admitted
    /// until enough others are.
    Waiting(Duration),
    /// It is the same process as another node of the list, and has no vote.
    Twin(usize),
}

/// Whether locks can be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outlook {
    /// A majority may vote.
    Open,
    /// A majority will vote after so long, without anybody doing anything.
    Later(Duration),
    /// Too few nodes answer.
    Unreachable,
    /// All nodes answer, and none has ever voted: an operator sets them up (`leasehold quorum
    /// init`).
    NotSetUp,
    /// So many nodes have no marker that nobody knows how high tokens have grown: the first start,
    /// or a loss that only an operator can mend (`leasehold quorum init`).
    Forgotten,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Unknown,
    Admitted(ProcessId),
    /// Since when (steady clock) it is known to wait with this marker.
    Waiting(Marker, u64),
    /// The wait is over; the others are being asked.
    Recovering(Marker),
    Twin(usize),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Seat {
    stage: Stage,
    /// The task whose reply is waited for.
    waits: Option<(u32, Deadline)>,
    /// When to begin again.
    again: Option<Deadline>,
    /// What the others said since this node began to recover.
    highs: BTreeMap<usize, u64>,
    /// When it was last asked, nothing showed that it has ever voted.
    unused: bool,
    /// What the node said of its past when an operator asked.
    survey: Option<Survey>,
    /// The marker that a first start has written there. It needs no wait.
    vouched: Option<Marker>,
}

/// Every client runs one for its nodes, all the time. Calls that do not fit do nothing.
///
/// The driver carries out what [`poll_task`](Self::poll_task) gives. It reports each reply with
/// the task's number, `Unknown` where there will be none, and calls [`handle_timeout`](Self::handle_timeout) when
/// [`poll_timeout`](Self::poll_timeout) has come.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Admission {
    max_ttl: Duration,
    phase: Phase,
    /// More was lost than the nodes that are left can make up for.
    after_loss: bool,
    seats: Vec<Seat>,
    serial: u32,
    /// For whom a `High` was asked: (number of the task, its node, the node that recovers).
    asked: Vec<(u32, usize, usize)>,
    tasks: VecDeque<(usize, u32, Task)>,
}

impl Admission {
    /// Looks at all nodes. `max_ttl` is what new markers say, if no node is known to have granted
    /// more; `founding` is for operators only, and see [`halt`](Self::halt).
    pub fn new(now: Now, nodes: usize, max_ttl: Duration, founding: Option<Founding>) -> Self {
        let seat = Seat {
            stage: Stage::Unknown,
            waits: None,
            again: None,
            highs: BTreeMap::new(),
            unused: false,
            survey: None,
            vouched: None,
        };
        let mut admission = Self {
            max_ttl,
            phase: founding.map_or(Phase::Usual, Phase::Surveys),
            after_loss: false,
            seats: vec![seat; nodes],
            serial: 0,
            asked: Vec::new(),
            tasks: VecDeque::new(),
        };
        match founding {
            Some(_) => admission.send_all(now, |_| Task::Survey),
            None => (0..nodes).for_each(|node| admission.look(now, node)),
        }
        admission
    }

    /// What is known of a node.
    pub fn member(&self, now: Now, node: usize) -> Member {
        match self.seats.get(node).map(|seat| seat.stage) {
            Some(Stage::Admitted(process)) => Member::Admitted(process),
            Some(Stage::Waiting(marker, since)) => Member::Waiting(Duration::from_nanos(
                self.wait_ends(marker, since).saturating_sub(now.steady_ns),
            )),
            Some(Stage::Recovering(_)) => Member::Waiting(Duration::ZERO),
            Some(Stage::Twin(of)) => Member::Twin(of),
            Some(Stage::Unknown) | None => Member::Unknown,
        }
    }

    /// The process that votes for this node, if it has a vote.
    pub fn process(&self, node: usize) -> Option<ProcessId> {
        match self.seats.get(node)?.stage {
            Stage::Admitted(process) => Some(process),
            _ => None,
        }
    }

    /// Whether locks can be had.
    pub fn outlook(&self, now: Now) -> Outlook {
        let members = (0..self.seats.len()).map(|node| self.member(now, node));
        let (mut admitted, mut unknown, mut longest) = (0, 0, Duration::ZERO);
        for member in members {
            match member {
                Member::Admitted(_) => admitted += 1,
                Member::Unknown => unknown += 1,
                Member::Waiting(left) => longest = longest.max(left),
                Member::Twin(_) => {}
            }
        }
        let majority = majority(self.seats.len());
        // A single node has nobody to ask: it waits, and starts at its own wall clock.
        match admitted {
            _ if admitted >= majority => Outlook::Open,
            _ if self.after_loss || (self.seats.len() == 1 && unknown == 0) => {
                Outlook::Later(longest)
            }
            _ if admitted + unknown >= majority => Outlook::Unreachable,
            _ if self.seats.iter().all(|seat| seat.unused) => Outlook::NotSetUp,
            _ => Outlook::Forgotten,
        }
    }

    /// A node has refused a vote (`Stranger`, `NotAdmitted`), or its connection was made anew.
    pub fn handle_doubt(&mut self, now: Now, node: usize) {
        if let Some(Seat { stage: Stage::Admitted(_), .. }) = self.seats.get(node) {
            self.look(now, node);
        }
    }

    /// What came of a task. `bits` are random: the nonce of a proposal that may follow.
    pub fn handle_reply(
        &mut self,
        now: Now,
        node: usize,
        serial: u32,
        reply: TaskReply,
        bits: u64,
    ) {
        if let Some(at) = self.asked.iter().position(|asked| (asked.0, asked.1) == (serial, node)) {
            let (_, _, pupil) = self.asked.swap_remove(at);
            return self.high_reply(now, node, pupil, reply);
        }
        let Some(seat) = self.seats.get_mut(node) else { return };
        if seat.waits.is_none_or(|(waits, _)| waits != serial) {
            return;
        }
        seat.waits = None;
        if self.phase != Phase::Usual {
            return self.founding_reply(now, node, reply, bits);
        }
        if let TaskReply::Look(look) = reply {
            seat.unused = !look.voted;
        }
        match reply {
            TaskReply::Look(look) => match look.current() {
                Some(marker) => self.marker(now, node, marker),
                None => {
                    // What the process before has granted may last as long as it said.
                    self.learn(now, look.marker);
                    let task =
                        Task::Propose { process: look.process, nonce: bits, max_ttl: self.max_ttl };
                    self.send(now, node, task);
                }
            },
            TaskReply::Marker(Some(marker)) => self.marker(now, node, marker),
            TaskReply::Marker(None) => self.look(now, node),
            // A stranger too: two servers may take turns behind one address.
            _ => self.pause(now, node),
        }
    }

    /// What is due now. Safe to call at any time and any number of times.
    pub fn handle_timeout(&mut self, now: Now) {
        for node in 0..self.seats.len() {
            let Some(Seat { stage, waits, again, .. }) = self.seats.get(node) else { continue };
            // By the steady clock alone: a wall clock that jumps ahead must not shorten the wait.
            if let Stage::Waiting(marker, since) = *stage
                && now.steady_ns >= self.wait_ends(marker, since)
            {
                self.recover(now, node, marker);
            } else if waits.is_some_and(|(_, due)| due.has_passed(now)) {
                match self.phase {
                    Phase::Usual => self.pause(now, node),
                    _ => self.founding_silence(now, node),
                }
            } else if again.is_some_and(|again| again.has_passed(now)) {
                // One that waits may have been admitted by another client.
                self.look(now, node);
            }
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) has something to do.
    pub fn poll_timeout(&self, now: Now) -> Option<Deadline> {
        let due = |seat: &Seat| {
            let wait = match seat.stage {
                Stage::Waiting(marker, since) => {
                    let left = self.wait_ends(marker, since).saturating_sub(now.steady_ns);
                    Some(Deadline::after(now, Duration::from_nanos(left)))
                }
                _ => None,
            };
            [wait, seat.waits.map(|(_, due)| due), seat.again]
        };
        self.seats.iter().flat_map(due).flatten().reduce(Deadline::min)
    }

    /// The next task: at which node, its number, and what.
    pub fn poll_task(&mut self) -> Option<(usize, u32, Task)> {
        self.tasks.pop_front()
    }

    /// Leases may last as long as a marker says, and are waited for.
    fn learn(&mut self, now: Now, marker: Option<Marker>) {
        if let Some(marker) = marker {
            self.prolong(now, marker.max_ttl);
        }
    }

    /// Leases may last so long. Whoever has waited for less waits anew, even if its wait was over.
    fn prolong(&mut self, now: Now, max_ttl: Duration) {
        if max_ttl <= self.max_ttl {
            return;
        }
        self.max_ttl = max_ttl;
        for (node, seat) in self.seats.iter_mut().enumerate() {
            if let Stage::Recovering(pupil) = seat.stage
                && pupil.max_ttl < max_ttl
            {
                seat.stage = Stage::Waiting(pupil, now.steady_ns);
                seat.again = Some(Deadline::after(now, PATIENCE));
                seat.waits = None;
                let admits = |task: &Task| matches!(task, Task::Admit { .. });
                self.tasks.retain(|(at, _, task)| *at != node || !admits(task));
            }
        }
    }

    /// A node's current marker has been seen.
    fn marker(&mut self, now: Now, node: usize, marker: Marker) {
        self.learn(now, Some(marker).filter(|marker| marker.admitted));
        let twin = (0..self.seats.len()).find(|other| {
            *other != node
                && self.seats.get(*other).is_some_and(|seat| match seat.stage {
                    Stage::Admitted(process) => process == marker.process,
                    Stage::Waiting(other, _) | Stage::Recovering(other) => {
                        other.process == marker.process
                    }
                    Stage::Unknown | Stage::Twin(_) => false,
                })
        });
        let Some(seat) = self.seats.get_mut(node) else { return };
        seat.again = None;
        match (twin, seat.stage) {
            (Some(of), _) => {
                seat.stage = Stage::Twin(of);
                seat.again = Some(Deadline::after(now, PATIENCE));
            }
            (None, _) if marker.admitted => seat.stage = Stage::Admitted(marker.process),
            (None, Stage::Waiting(known, _)) if known == marker => {
                seat.again = Some(Deadline::after(now, PATIENCE));
            }
            (None, Stage::Recovering(known)) if known == marker => self.recover(now, node, marker),
            _ => {
                seat.stage = Stage::Waiting(marker, now.steady_ns);
                seat.again = Some(Deadline::after(now, PATIENCE));
            }
        }
    }

    /// The wait is over: asks all others that may vote, now and not before.
    fn recover(&mut self, now: Now, node: usize, marker: Marker) {
        self.asked.retain(|(_, _, pupil)| *pupil != node);
        let others: Vec<(usize, ProcessId)> = (0..self.seats.len())
            .filter(|other| *other != node)
            .filter_map(|other| Some((other, self.process(other)?)))
            .collect();
        let Some(seat) = self.seats.get_mut(node) else { return };
        seat.stage = Stage::Recovering(marker);
        seat.highs.clear();
        seat.again = Some(Deadline::after(now, PATIENCE));
        for (other, process) in &others {
            self.serial += 1;
            self.asked.push((self.serial, *other, node));
            self.tasks.push_back((*other, self.serial, Task::High { process: *process }));
        }
        self.admit(now, node);
    }

    /// Another node has said how high its tokens have grown, for the sake of this one.
    fn high_reply(&mut self, now: Now, other: usize, node: usize, reply: TaskReply) {
        let Some(Seat { stage: Stage::Recovering(marker), highs, .. }) = self.seats.get_mut(node)
        else {
            return;
        };
        match reply {
            TaskReply::High { max_ttl, .. } if max_ttl > marker.max_ttl.max(self.max_ttl) => {
                self.prolong(now, max_ttl);
            }
            TaskReply::High { high, .. } => {
                highs.insert(other, high);
            }
            TaskReply::Refused(_) => self.handle_doubt(now, other),
            _ => {}
        }
        self.admit(now, node);
    }

    /// Admits a node that recovers, once enough others were heard.
    fn admit(&mut self, now: Now, node: usize) {
        let open = self.asked.iter().any(|(_, _, pupil)| *pupil == node);
        let alone = self.seats.len() == 1;
        let enough = majority(self.seats.len());
        let Some(seat) = self.seats.get_mut(node) else { return };
        let Stage::Recovering(marker) = seat.stage else { return };
        let mut floor = seat.highs.values().copied().max().unwrap_or(0);
        if self.after_loss || seat.vouched == Some(marker) {
            // No node that has voted has zero.
            floor = floor.max(now.unix_us()).max(1);
            if open {
                return;
            }
        } else if !alone && seat.highs.len() < enough {
            return;
        }
        seat.again = None;
        // Clients' clocks differ, and the next admission may be another client's; the node has one.
        let floor = (!alone).then_some(floor);
        let task = Task::Admit { process: marker.process, nonce: marker.nonce, floor };
        self.send(now, node, task);
    }

    fn wait_ends(&self, marker: Marker, since: u64) -> u64 {
        let wait = admission_wait(marker.max_ttl.max(self.max_ttl));
        since.saturating_add(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX))
    }

    fn look(&mut self, now: Now, node: usize) {
        if let Some(seat) = self.seats.get_mut(node) {
            if !matches!(seat.stage, Stage::Waiting(..) | Stage::Recovering(_)) {
                seat.stage = Stage::Unknown;
            }
            seat.again = None;
        }
        self.send(now, node, Task::Look);
    }

    /// No answer: once more, later.
    fn pause(&mut self, now: Now, node: usize) {
        if let Some(seat) = self.seats.get_mut(node) {
            seat.waits = None;
            seat.again = Some(Deadline::after(now, PATIENCE));
        }
    }

    fn send(&mut self, now: Now, node: usize, task: Task) {
        self.serial += 1;
        if let Some(seat) = self.seats.get_mut(node) {
            seat.waits = Some((self.serial, Deadline::after(now, task.limit())));
            self.tasks.push_back((node, self.serial, task));
        }
    }
}

#[cfg(test)]
#[path = "admission_tests.rs"]
mod tests;
