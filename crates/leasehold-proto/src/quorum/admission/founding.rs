//! Setting nodes up, for operators: what must be known of every node before any of them votes
//! without a wait.

use super::super::{Marker, ProcessId, Survey, majority};
use super::{Admission, Stage, Task, TaskReply};
use crate::Now;

/// Nodes are set up by an operator, and not by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Founding {
    /// The operator says that nobody holds a lock: nothing is waited for. Every node must answer,
    /// and none may ever have voted; where a majority votes already, the others join it after
    /// their wait.
    Vouched,
    /// More nodes have forgotten than tokens can be recovered from: a wait, and then tokens start
    /// at the wall clock.
    AfterLoss,
}

/// Why nodes are not set up. No node votes that did not before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Halt {
    /// A first start needs an answer of every node: see [`Admission::silent`].
    Silent,
    /// Fewer than a majority answer: see [`Admission::silent`].
    TooFew,
    /// This is no first start: this node votes, or has voted before it forgot or was restarted.
    Voted(usize),
    /// The first node is the same process as the second.
    Twin(usize, usize),
    /// This node changed, or stopped answering, after every node had answered. Only markers that
    /// wait were written.
    Changed(usize),
}

/// How far setting up has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// Every node is asked whether it has ever voted. Nothing has been written.
    Surveys(Founding),
    /// A first start: every node is given a marker that waits.
    Proposals,
    /// Every node is asked again: at one moment, between its marker and this answer, none voted.
    Check,
    /// Nothing is done any more.
    Halted(Halt),
    /// Nobody sets nodes up, or what needs more than the usual admission is over.
    Usual,
}

impl Admission {
    /// Why the nodes cannot be set up; nothing more is done then.
    pub fn halt(&self) -> Option<Halt> {
        match self.phase {
            Phase::Halted(halt) => Some(halt),
            _ => None,
        }
    }

    /// The nodes that did not answer an operator's first question.
    pub fn silent(&self) -> impl Iterator<Item = usize> + '_ {
        let silent = |(_, seat): &(usize, &super::Seat)| seat.survey.is_none();
        self.seats.iter().enumerate().filter(silent).map(|(node, _)| node)
    }

    /// What came of a task before nodes are admitted.
    pub(super) fn founding_reply(&mut self, now: Now, node: usize, reply: TaskReply, bits: u64) {
        let Some(seat) = self.seats.get_mut(node) else { return };
        match (self.phase, reply) {
            (Phase::Surveys(_), TaskReply::Survey(survey)) => seat.survey = Some(survey),
            (Phase::Surveys(_), _) => {}
            (Phase::Proposals, TaskReply::Marker(Some(marker))) if !marker.admitted => {
                seat.vouched = Some(marker);
            }
            (Phase::Check, TaskReply::Survey(survey))
                if !survey.voted && survey.look.current() == seat.vouched => {}
            _ => return self.stop(Halt::Changed(node)),
        }
        if self.seats.iter().all(|seat| seat.waits.is_none()) {
            self.next_phase(now, bits);
        }
    }

    /// A node has not answered in time.
    pub(super) fn founding_silence(&mut self, now: Now, node: usize) {
        if let Some(seat) = self.seats.get_mut(node) {
            seat.waits = None;
        }
        self.founding_reply(now, node, TaskReply::Unknown, 0);
    }

    fn next_phase(&mut self, now: Now, bits: u64) {
        match self.phase {
            Phase::Surveys(founding) => self.decide(now, founding, bits),
            Phase::Proposals => {
                self.phase = Phase::Check;
                self.send_all(now, |_| Task::Survey);
            }
            Phase::Check => {
                self.phase = Phase::Usual;
                let markers: Vec<Option<Marker>> =
                    self.seats.iter().map(|seat| seat.vouched).collect();
                for (node, marker) in markers.into_iter().enumerate() {
                    if let Some(marker) = marker {
                        self.recover(now, node, marker);
                    }
                }
            }
            Phase::Halted(_) | Phase::Usual => {}
        }
    }

    /// All nodes have said whether they have ever voted, or have had their time.
    fn decide(&mut self, now: Now, founding: Founding, bits: u64) {
        let nodes = self.seats.len();
        let surveys: Vec<(usize, Survey)> = self
            .seats
            .iter()
            .enumerate()
            .filter_map(|(at, seat)| Some((at, seat.survey?)))
            .collect();
        for (at, (node, survey)) in surveys.iter().enumerate() {
            let same = |(_, other): &&(usize, Survey)| other.look.process == survey.look.process;
            if let Some((of, _)) = surveys.iter().take(at).find(same) {
                return self.stop(Halt::Twin(*node, *of));
            }
        }
        let votes = |survey: &Survey| survey.look.current().is_some_and(|marker| marker.admitted);
        let voters = surveys.iter().filter(|(_, survey)| votes(survey)).count();
        // Where a majority votes nobody's word is needed: who joins it waits until it is safe.
        if voters >= majority(nodes) || founding == Founding::AfterLoss {
            if surveys.len() < majority(nodes) {
                return self.stop(Halt::TooFew);
            }
            self.after_loss = voters < majority(nodes);
            self.phase = Phase::Usual;
            return (0..nodes).for_each(|node| self.look(now, node));
        }
        if surveys.len() < nodes {
            return self.stop(Halt::Silent);
        }
        if let Some((node, _)) = surveys.iter().find(|(_, survey)| survey.voted) {
            return self.stop(Halt::Voted(*node));
        }
        self.phase = Phase::Proposals;
        let max_ttl = self.max_ttl;
        let processes: Vec<ProcessId> =
            surveys.iter().map(|(_, survey)| survey.look.process).collect();
        self.send_all(now, |node| match processes.get(node) {
            // Markers of one operator differ in their process; their nonce may be the same.
            Some(process) => Task::Propose { process: *process, nonce: bits, max_ttl },
            None => Task::Look,
        });
    }

    fn stop(&mut self, halt: Halt) {
        self.phase = Phase::Halted(halt);
        self.tasks.clear();
        for seat in &mut self.seats {
            (seat.waits, seat.again, seat.stage) = (None, None, Stage::Unknown);
        }
    }

    pub(super) fn send_all(&mut self, now: Now, task: impl Fn(usize) -> Task) {
        (0..self.seats.len()).for_each(|node| self.send(now, node, task(node)));
    }
}
