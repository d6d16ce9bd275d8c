//! Decides which nodes may vote. A node that may have lost leases waits until those leases have
//! ended, and learns from the other nodes how high tokens have grown.
//!
//! Redlock leaves this to an operator, who waits a ttl before restarting a node ("delayed
//! restart"). Here every client enforces it, with its own clock and a marker in the data of the
//! node.

mod founding;
mod tasks;

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use super::{Marker, ProcessId, Survey, admission_wait, majority};
use crate::{Deadline, Now};

use founding::FoundingPhase;
pub use founding::{Founding, Halt};
pub use tasks::{Task, TaskReply};

/// How long to wait for the reply of a node, and then before asking it again: 1 s.
const PATIENCE: Duration = Duration::from_secs(1);

/// What a client knows of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Member {
    /// The node does not answer.
    Unknown,
    /// The node may vote.
    Admitted(ProcessId),
    /// The node may have lost leases, and waits until they have ended. Zero: it cannot be admitted
    /// until enough other nodes are.
    Waiting(Duration),
    /// The node is the same process as another node of the list, and may not vote.
    Twin(usize),
}

/// Whether locks can be acquired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outlook {
    /// A majority may vote.
    Open,
    /// A majority can vote when this client has run for this time. Every client counts its own
    /// time.
    Later(Duration),
    /// Too few nodes answer.
    Unreachable,
    /// All nodes answer, and none has ever voted: an operator must set them up (`leasehold quorum
    /// init`).
    NotSetUp,
    /// Too many nodes have no marker, so no node knows how high tokens have grown. Either this is
    /// the first start, or an operator must repair the loss (`leasehold quorum init`).
    Forgotten,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Unknown,
    Admitted(ProcessId),
    /// Since when (steady clock) the node is known to wait with this marker.
    Waiting(Marker, u64),
    /// The wait has ended; the other nodes are being asked.
    Recovering(Marker),
    Twin(usize),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct MemberState {
    stage: Stage,
    /// The task whose reply is outstanding.
    waits: Option<(u32, Deadline)>,
    /// When to begin again.
    again: Option<Deadline>,
    /// The high-water marks that other nodes reported since this node began to recover.
    highs: BTreeMap<usize, u64>,
    /// The last answer of the node showed no sign that it has ever voted.
    unused: bool,
    /// The answer of the node to an operator's question about its past.
    survey: Option<Survey>,
    /// The marker that a first start has written to the node. It needs no wait.
    vouched: Option<Marker>,
    /// The longest ttl of the node, if an operator asks and its last answer said that it votes.
    grants: Option<Duration>,
}

/// Admits the nodes of one client; every client runs one all the time. It ignores calls that do not
/// fit.
///
/// The driver executes the tasks of [`poll_task`](Self::poll_task). It reports each reply with the
/// number of the task, or `Unknown` if there is no reply. It calls
/// [`handle_timeout`](Self::handle_timeout) at [`poll_timeout`](Self::poll_timeout).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Admission {
    max_ttl: Duration,
    phase: FoundingPhase,
    /// An operator sets the nodes up.
    founding: bool,
    /// An operator names a longest ttl, and nodes must not keep another.
    exact: bool,
    /// The nodes lost more than the remaining nodes can make up for.
    after_loss: bool,
    members: Vec<MemberState>,
    serial: u32,
    /// For which node each `High` was sent: (number of the task, its node, the node that recovers).
    asked: Vec<(u32, usize, usize)>,
    tasks: VecDeque<(usize, u32, Task)>,
}

impl Admission {
    /// Starts with a look at all nodes. New markers contain `max_ttl`, unless a node is known to
    /// have granted a longer ttl. `founding` is for operators only; see [`halt`](Self::halt).
    pub fn new(now: Now, nodes: usize, max_ttl: Duration, founding: Option<Founding>) -> Self {
        let member = MemberState {
            stage: Stage::Unknown,
            waits: None,
            again: None,
            highs: BTreeMap::new(),
            unused: false,
            survey: None,
            vouched: None,
            grants: None,
        };
        let mut admission = Self {
            max_ttl,
            phase: founding.map_or(FoundingPhase::Usual, FoundingPhase::Surveys),
            founding: founding.is_some(),
            exact: false,
            after_loss: false,
            members: vec![member; nodes],
            serial: 0,
            asked: Vec::new(),
            tasks: VecDeque::new(),
        };
        match founding {
            // After a loss only the markers count; a search through all keys would take long.
            Some(Founding::AfterLoss) => admission.send_all(now, |_| Task::Look),
            Some(Founding::Vouched) => admission.send_all(now, |_| Task::Survey),
            None => (0..nodes).for_each(|node| admission.look(now, node)),
        }
        admission
    }

    /// Stops the set-up if a node keeps another longest ttl: a node that votes, and after a loss
    /// also a node that waits. (At a first start, the marker of a node that waits is replaced,
    /// since any client that connects writes such a marker.) Call it before the first answer.
    pub fn refuse_other_max_ttl(&mut self) {
        self.exact = true;
    }

    /// Returns what is known of a node.
    pub fn member(&self, now: Now, node: usize) -> Member {
        match self.members.get(node).map(|member| member.stage) {
            Some(Stage::Admitted(process)) => Member::Admitted(process),
            Some(Stage::Waiting(marker, since)) => Member::Waiting(Duration::from_nanos(
                self.wait_ends(marker, since).saturating_sub(now.steady_ns),
            )),
            Some(Stage::Recovering(_)) => Member::Waiting(Duration::ZERO),
            Some(Stage::Twin(of)) => Member::Twin(of),
            Some(Stage::Unknown) | None => Member::Unknown,
        }
    }

    /// Returns the process that votes for this node, if the node may vote.
    pub fn process(&self, node: usize) -> Option<ProcessId> {
        match self.members.get(node)?.stage {
            Stage::Admitted(process) => Some(process),
            _ => None,
        }
    }

    /// Returns whether locks can be acquired.
    pub fn outlook(&self, now: Now) -> Outlook {
        let members = (0..self.members.len()).map(|node| self.member(now, node));
        let (mut admitted, mut unknown, mut longest) = (0, 0, Duration::ZERO);
        for member in members {
            match member {
                Member::Admitted(_) => admitted += 1,
                Member::Unknown => unknown += 1,
                Member::Waiting(left) => longest = longest.max(left),
                Member::Twin(_) => {}
            }
        }
        let majority = majority(self.members.len());
        // A single node has no other node to ask: it waits, and starts at its own wall clock.
        match admitted {
            _ if admitted >= majority => Outlook::Open,
            _ if self.after_loss || (self.members.len() == 1 && unknown == 0) => {
                Outlook::Later(longest)
            }
            _ if admitted + unknown >= majority => Outlook::Unreachable,
            _ if self.members.iter().all(|member| member.unused) => Outlook::NotSetUp,
            _ => Outlook::Forgotten,
        }
    }

    /// Records that a node refused a vote (`Stranger`, `NotAdmitted`), or has a new connection.
    pub fn handle_doubt(&mut self, now: Now, node: usize) {
        if let Some(MemberState { stage: Stage::Admitted(_), .. }) = self.members.get(node) {
            self.look(now, node);
        }
    }

    /// Records the result of a task. `bits` are random: the nonce of a proposal that may follow.
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
        let Some(member) = self.members.get_mut(node) else { return };
        if member.waits.is_none_or(|(waits, _)| waits != serial) {
            return;
        }
        member.waits = None;
        if self.phase != FoundingPhase::Usual {
            return self.founding_reply(now, node, reply, bits);
        }
        if let TaskReply::Look(look) = reply {
            member.unused = !look.voted;
        }
        match reply {
            TaskReply::Look(look) => match look.current() {
                Some(marker) => self.marker(now, node, marker, bits),
                None => {
                    // A lease of the previous process may last as long as its marker says.
                    self.learn(now, look.marker);
                    let (process, max_ttl) = (look.process, self.agreed().unwrap_or(self.max_ttl));
                    let task = Task::Propose { process, nonce: bits, max_ttl, first: false };
                    self.send(now, node, task);
                }
            },
            TaskReply::Marker(Some(marker)) => self.marker(now, node, marker, bits),
            TaskReply::Marker(None) => self.look(now, node),
            // Also for a stranger: two servers may alternate behind one address.
            _ => self.pause(now, node),
        }
    }

    /// Does what is due now. Callers may call it at any time and any number of times.
    pub fn handle_timeout(&mut self, now: Now) {
        for node in 0..self.members.len() {
            let Some(MemberState { stage, waits, again, .. }) = self.members.get(node) else {
                continue;
            };
            // Use the steady clock alone: a wall clock that jumps ahead must not shorten the wait.
            if let Stage::Waiting(marker, since) = *stage
                && now.steady_ns >= self.wait_ends(marker, since)
            {
                self.recover(now, node, marker);
            } else if waits.is_some_and(|(_, due)| due.has_passed(now)) {
                match self.phase {
                    FoundingPhase::Usual => self.pause(now, node),
                    _ => self.founding_silence(now, node),
                }
            } else if again.is_some_and(|again| again.has_passed(now)) {
                // Another client may have admitted a waiting node.
                self.look(now, node);
            }
        }
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) has something to do.
    pub fn poll_timeout(&self, now: Now) -> Option<Deadline> {
        let due = |member: &MemberState| {
            let wait = match member.stage {
                Stage::Waiting(marker, since) => {
                    let left = self.wait_ends(marker, since).saturating_sub(now.steady_ns);
                    Some(Deadline::after(now, Duration::from_nanos(left)))
                }
                _ => None,
            };
            [wait, member.waits.map(|(_, due)| due), member.again]
        };
        self.members.iter().flat_map(due).flatten().reduce(Deadline::min)
    }

    /// Returns the next task: its node, its number, and the task.
    pub fn poll_task(&mut self) -> Option<(usize, u32, Task)> {
        self.tasks.pop_front()
    }

    /// Records the longest ttl of a marker. Leases may last that long, and nodes wait for them.
    fn learn(&mut self, now: Now, marker: Option<Marker>) {
        if let Some(marker) = marker {
            self.prolong(now, marker.max_ttl);
        }
    }

    /// Records that leases may last this long. A node that waited less waits again, even after its
    /// wait.
    fn prolong(&mut self, now: Now, max_ttl: Duration) {
        if max_ttl <= self.max_ttl {
            return;
        }
        self.max_ttl = max_ttl;
        for (node, member) in self.members.iter_mut().enumerate() {
            if let Stage::Recovering(pupil) = member.stage
                && pupil.max_ttl < max_ttl
            {
                member.stage = Stage::Waiting(pupil, now.steady_ns);
                member.again = Some(Deadline::after(now, PATIENCE));
                member.waits = None;
                let admits = |task: &Task| matches!(task, Task::Admit { .. });
                self.tasks.retain(|(at, _, task)| *at != node || !admits(task));
            }
        }
    }

    /// Records the current marker of a node. `bits` are the nonce if an operator replaces it.
    fn marker(&mut self, now: Now, node: usize, marker: Marker, bits: u64) {
        self.learn(now, Some(marker).filter(|marker| marker.admitted));
        self.note_grants(node, marker);
        let twin = (0..self.members.len()).find(|other| {
            *other != node
                && self.members.get(*other).is_some_and(|member| match member.stage {
                    Stage::Admitted(process) => process == marker.process,
                    Stage::Waiting(other, _) | Stage::Recovering(other) => {
                        other.process == marker.process
                    }
                    Stage::Unknown | Stage::Twin(_) => false,
                })
        });
        let Some(member) = self.members.get_mut(node) else { return };
        member.again = None;
        match (twin, member.stage) {
            (Some(of), _) => {
                member.stage = Stage::Twin(of);
                member.again = Some(Deadline::after(now, PATIENCE));
            }
            (None, _) if marker.admitted => member.stage = Stage::Admitted(marker.process),
            (None, Stage::Waiting(known, _)) if known == marker => {
                member.again = Some(Deadline::after(now, PATIENCE));
            }
            (None, Stage::Recovering(known)) if known == marker => self.recover(now, node, marker),
            _ => {
                member.stage = Stage::Waiting(marker, now.steady_ns);
                member.again = Some(Deadline::after(now, PATIENCE));
            }
        }
        if twin.is_none()
            && let Some(max_ttl) = self.replacement(node, marker)
        {
            let process = marker.process;
            self.send(now, node, Task::Propose { process, nonce: bits, max_ttl, first: true });
        }
    }

    /// Asks all other nodes that may vote, after the wait and not before it.
    fn recover(&mut self, now: Now, node: usize, marker: Marker) {
        self.asked.retain(|(_, _, pupil)| *pupil != node);
        let others: Vec<(usize, ProcessId)> = (0..self.members.len())
            .filter(|other| *other != node)
            .filter_map(|other| Some((other, self.process(other)?)))
            .collect();
        let Some(member) = self.members.get_mut(node) else { return };
        member.stage = Stage::Recovering(marker);
        member.highs.clear();
        member.again = Some(Deadline::after(now, PATIENCE));
        for (other, process) in &others {
            self.serial += 1;
            self.asked.push((self.serial, *other, node));
            self.tasks.push_back((*other, self.serial, Task::High { process: *process }));
        }
        self.admit(now, node);
    }

    /// Records the high-water mark that another node reported for the recovery of this node.
    fn high_reply(&mut self, now: Now, other: usize, node: usize, reply: TaskReply) {
        let Some(MemberState { stage: Stage::Recovering(marker), highs, .. }) =
            self.members.get_mut(node)
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

    /// Admits a recovering node when enough other nodes have answered.
    fn admit(&mut self, now: Now, node: usize) {
        let open = self.asked.iter().any(|(_, _, pupil)| *pupil == node);
        let alone = self.members.len() == 1;
        let enough = majority(self.members.len());
        let Some(member) = self.members.get_mut(node) else { return };
        let Stage::Recovering(marker) = member.stage else { return };
        if self.replacement(node, marker).is_some() {
            return self.wait_anew(now, node, marker);
        }
        let Some(member) = self.members.get_mut(node) else { return };
        let mut floor = member.highs.values().copied().max().unwrap_or(0);
        if self.after_loss || member.vouched == Some(marker) {
            // A node that has voted never has zero.
            floor = floor.max(now.unix_us()).max(1);
            if open {
                return;
            }
        } else if !alone && member.highs.len() < enough {
            return;
        }
        member.again = None;
        // Clocks of clients differ, and another client may do the next admission; a node has one clock.
        let floor = (!alone).then_some(floor);
        let task = Task::Admit { process: marker.process, nonce: marker.nonce, floor };
        self.send(now, node, task);
    }

    fn wait_ends(&self, marker: Marker, since: u64) -> u64 {
        let wait = admission_wait(marker.max_ttl.max(self.max_ttl));
        since.saturating_add(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX))
    }

    fn look(&mut self, now: Now, node: usize) {
        if let Some(member) = self.members.get_mut(node) {
            if !matches!(member.stage, Stage::Waiting(..) | Stage::Recovering(_)) {
                member.stage = Stage::Unknown;
            }
            member.again = None;
        }
        self.send(now, node, Task::Look);
    }

    /// Schedules another try after no answer.
    fn pause(&mut self, now: Now, node: usize) {
        if let Some(member) = self.members.get_mut(node) {
            member.waits = None;
            member.again = Some(Deadline::after(now, PATIENCE));
        }
    }

    fn send(&mut self, now: Now, node: usize, task: Task) {
        self.serial += 1;
        if let Some(member) = self.members.get_mut(node) {
            member.waits = Some((self.serial, Deadline::after(now, task.limit())));
            self.tasks.push_back((node, self.serial, task));
        }
    }
}

#[cfg(test)]
#[path = "admission_tests.rs"]
mod tests;
