//! Sets nodes up for operators: what must be known about every node before any node votes without a
//! wait.

use core::time::Duration;

use super::super::{Marker, ProcessId, Survey, majority};
use super::{Admission, Stage, Task, TaskReply};
use crate::Now;

/// How an operator sets nodes up; nodes never do it by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Founding {
    /// The operator states that no client holds a lock, so there is no wait. Every node must
    /// answer, and none may ever have voted. If a majority already votes, the other nodes join it
    /// after their wait.
    Vouched,
    /// Too many nodes lost their data to recover the tokens. The nodes wait, and then tokens start
    /// at the wall clock.
    AfterLoss,
}

/// The reason why nodes are not set up. A node that did not vote before does not vote now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Halt {
    /// A first start needs an answer of every node: see [`Admission::silent`].
    Silent,
    /// Fewer than a majority answer: see [`Admission::silent`].
    TooFew,
    /// This is not a first start: this node votes, or voted before it lost data or restarted.
    Voted(usize),
    /// The first node is the same process as the second.
    Twin(usize, usize),
    /// This node changed, or stopped answering, after every node had answered. The client wrote
    /// only markers that wait.
    Changed(usize),
    /// This node keeps another longest ttl: see [`Admission::refuse_other_max_ttl`].
    OtherMaxTtl(usize, Duration),
}

/// How far the set-up has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum FoundingPhase {
    /// The client asks every node for its marker, and at a first start whether it has ever voted.
    /// It has written nothing.
    Surveys(Founding),
    /// First start: the client writes a marker that waits to every node.
    Proposals,
    /// The client asks every node again: no node voted at one moment between its marker and this
    /// answer.
    Check,
    /// The set-up has stopped.
    Halted(Halt),
    /// No set-up, or only the usual admission is left.
    Usual,
}

impl Admission {
    /// Returns why the nodes cannot be set up; the machine does nothing more then.
    pub fn halt(&self) -> Option<Halt> {
        match self.phase {
            FoundingPhase::Halted(halt) => Some(halt),
            _ => None,
        }
    }

    /// Iterates over the nodes that did not answer the operator's first question.
    pub fn silent(&self) -> impl Iterator<Item = usize> + '_ {
        let silent = |(_, member): &(usize, &super::MemberState)| member.survey.is_none();
        self.members.iter().enumerate().filter(silent).map(|(node, _)| node)
    }

    /// Records the result of a task before nodes are admitted.
    pub(super) fn founding_reply(&mut self, now: Now, node: usize, reply: TaskReply, bits: u64) {
        let Some(member) = self.members.get_mut(node) else { return };
        match (self.phase, reply) {
            (FoundingPhase::Surveys(_), TaskReply::Survey(survey)) => member.survey = Some(survey),
            (FoundingPhase::Surveys(_), TaskReply::Look(look)) => {
                member.survey = Some(Survey { look, voted: look.voted });
            }
            (FoundingPhase::Surveys(_), _) => {}
            (FoundingPhase::Proposals, TaskReply::Marker(Some(marker))) if !marker.admitted => {
                member.vouched = Some(marker);
            }
            (FoundingPhase::Check, TaskReply::Survey(survey))
                if !survey.voted && survey.look.current() == member.vouched => {}
            _ => return self.stop(Halt::Changed(node)),
        }
        if self.members.iter().all(|member| member.waits.is_none()) {
            self.next_phase(now, bits);
        }
    }

    /// Records that a node did not answer in time.
    pub(super) fn founding_silence(&mut self, now: Now, node: usize) {
        if let Some(member) = self.members.get_mut(node) {
            member.waits = None;
        }
        self.founding_reply(now, node, TaskReply::Unknown, 0);
    }

    fn next_phase(&mut self, now: Now, bits: u64) {
        match self.phase {
            FoundingPhase::Surveys(founding) => self.decide(now, founding, bits),
            FoundingPhase::Proposals => {
                self.phase = FoundingPhase::Check;
                self.send_all(now, |_| Task::Survey);
            }
            FoundingPhase::Check => {
                self.phase = FoundingPhase::Usual;
                let markers: Vec<Option<Marker>> =
                    self.members.iter().map(|member| member.vouched).collect();
                for (node, marker) in markers.into_iter().enumerate() {
                    if let Some(marker) = marker {
                        self.recover(now, node, marker);
                    }
                }
            }
            FoundingPhase::Halted(_) | FoundingPhase::Usual => {}
        }
    }

    /// Decides when all nodes have answered whether they ever voted, or have timed out.
    fn decide(&mut self, now: Now, founding: Founding, bits: u64) {
        let nodes = self.members.len();
        let surveys: Vec<(usize, Survey)> = self
            .members
            .iter()
            .enumerate()
            .filter_map(|(at, member)| Some((at, member.survey?)))
            .collect();
        for (at, (node, survey)) in surveys.iter().enumerate() {
            let same = |(_, other): &&(usize, Survey)| other.look.process == survey.look.process;
            if let Some((of, _)) = surveys.iter().take(at).find(same) {
                return self.stop(Halt::Twin(*node, *of));
            }
        }
        let kept = |(node, survey): &(usize, Survey)| {
            let marker = survey.look.current()?;
            let keeps = marker.admitted || founding == Founding::AfterLoss;
            (keeps && marker.max_ttl != self.max_ttl).then_some((*node, marker.max_ttl))
        };
        if self.exact
            && let Some((node, max_ttl)) = surveys.iter().find_map(kept)
        {
            return self.stop(Halt::OtherMaxTtl(node, max_ttl));
        }
        let votes = |survey: &Survey| survey.look.current().is_some_and(|marker| marker.admitted);
        let voters = surveys.iter().filter(|(_, survey)| votes(survey)).count();
        // If a majority votes, no statement is needed: a node that joins waits until it is safe.
        if voters >= majority(nodes) || founding == Founding::AfterLoss {
            if surveys.len() < majority(nodes) {
                return self.stop(Halt::TooFew);
            }
            self.after_loss = voters < majority(nodes);
            self.phase = FoundingPhase::Usual;
            for (node, survey) in &surveys {
                if self.after_loss {
                    // New markers allow as much at all nodes, in whatever order the nodes answer.
                    let before = survey.look.marker.filter(|_| survey.look.current().is_none());
                    self.learn(now, before);
                }
                if let Some(marker) = survey.look.current() {
                    self.note_grants(*node, marker);
                }
            }
            return (0..nodes).for_each(|node| self.look(now, node));
        }
        if surveys.len() < nodes {
            return self.stop(Halt::Silent);
        }
        if let Some((node, _)) = surveys.iter().find(|(_, survey)| survey.voted) {
            return self.stop(Halt::Voted(*node));
        }
        self.phase = FoundingPhase::Proposals;
        let max_ttl = self.max_ttl;
        let processes: Vec<ProcessId> =
            surveys.iter().map(|(_, survey)| survey.look.process).collect();
        self.send_all(now, |node| match processes.get(node) {
            // The markers of one operator differ in their process; their nonce may be the same.
            Some(process) => Task::Propose { process: *process, nonce: bits, max_ttl, first: true },
            None => Task::Look,
        });
    }

    /// Records, for an operator, the longest ttl of a node that votes.
    pub(super) fn note_grants(&mut self, node: usize, marker: Marker) {
        if self.founding
            && let Some(member) = self.members.get_mut(node)
        {
            member.grants = marker.admitted.then_some(marker.max_ttl);
        }
    }

    /// Returns, for an operator, the longest ttl that each node of a majority grants.
    pub(super) fn agreed(&self) -> Option<Duration> {
        let grants = || self.members.iter().filter_map(|member| member.grants);
        let all = self.members.len();
        grants().find(|max_ttl| grants().filter(|other| other == max_ttl).count() >= majority(all))
    }

    /// Returns the longest ttl that an operator writes in place of a marker that waits, if it allows another.
    /// Any client that connects writes such a marker, and two values must not vote.
    ///
    /// If the other nodes make up for the loss, the old marker is not needed: a node is admitted only after `m` others
    /// have said what they grant, and each majority that granted a longer lease includes one of them. After a
    /// greater loss it may be the only trace of longer leases. Then only a marker is replaced that another client
    /// wrote after the first answer of the same process.
    pub(super) fn replacement(&self, node: usize, marker: Marker) -> Option<Duration> {
        let wanted = if self.after_loss {
            let look = self.members.get(node)?.survey?.look;
            let is_later = look.process == marker.process && look.current().is_none();
            is_later.then_some(self.max_ttl)?
        } else {
            self.agreed()?
        };
        (!marker.admitted && marker.max_ttl != wanted).then_some(wanted)
    }

    /// Begins the wait of a node anew, and asks for its marker.
    pub(super) fn wait_anew(&mut self, now: Now, node: usize, marker: Marker) {
        if let Some(member) = self.members.get_mut(node) {
            member.stage = Stage::Waiting(marker, now.steady_ns);
        }
        self.look(now, node);
    }

    fn stop(&mut self, halt: Halt) {
        self.phase = FoundingPhase::Halted(halt);
        self.tasks.clear();
        for member in &mut self.members {
            (member.waits, member.again, member.stage) = (None, None, Stage::Unknown);
        }
    }

    pub(super) fn send_all(&mut self, now: Now, task: impl Fn(usize) -> Task) {
        (0..self.members.len()).for_each(|node| self.send(now, node, task(node)));
    }
}
