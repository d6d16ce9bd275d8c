//! Releases every lease that nodes have granted or may still grant.

use core::time::Duration;

use super::node_state::Vote;
use super::{Attempt, AttemptPhase};
use crate::Now;
use crate::quorum::{Event, NodeReply, Op, Refusal, Rules};

/// The longest pause between two releases to a node that does not answer.
const LONGEST: Duration = Duration::from_secs(1);

impl<R: Rules> Attempt<R> {
    /// Ends the attempt in any state. It asks nodes that do not answer again until the lease has
    /// expired there.
    pub fn release(&mut self, now: Now) {
        if matches!(self.phase, AttemptPhase::Releasing { .. }) {
            return;
        }
        self.phase = AttemptPhase::Releasing { told: false };
        self.deadline = None;
        self.release_all(now, false);
        self.tell_released();
    }

    /// Asks every node that may have granted the lease to end the attempt. If `patient`, a node
    /// that has not answered is asked only when it grants late or times out: most such nodes have
    /// refused, and their answer is on its way.
    pub(super) fn release_all(&mut self, now: Now, patient: bool) {
        self.begin(now);
        for node in 0..self.node_states.len() {
            let Some(node_state) = self.node_states.get_mut(node) else { continue };
            if patient && node_state.waits.is_some() && node_state.vote == Vote::Silent {
                continue;
            }
            node_state.waits = None;
            if node_state.suspect {
                self.send_release(now, node);
            }
        }
    }

    pub(super) fn release_reply(&mut self, now: Now, node: usize, reply: NodeReply) {
        let Some(node_state) = self.node_states.get_mut(node) else { return };
        let releasing = node_state.releases > 0;
        match reply {
            NodeReply::Granted(_) if !releasing => return self.send_release(now, node),
            // It is asked (again) when it times out.
            NodeReply::Unknown => return,
            NodeReply::Refused(Refusal::Unfit) if releasing => return,
            _ => {}
        }
        node_state.waits = None;
        node_state.suspect = false;
        node_state.ended = Some(matches!(reply, NodeReply::Released | NodeReply::Notified));
        self.tell_released();
    }

    /// Returns the event when the result is known, or every node has had its time.
    fn tell_released(&mut self) {
        if self.phase != (AttemptPhase::Releasing { told: false }) {
            return;
        }
        let held = self.count(|node_state| node_state.ended == Some(true));
        let open = self.count(|node_state| node_state.waits.is_some() && node_state.releases < 2);
        if held < self.majority() && open > 0 {
            return;
        }
        let can_have =
            self.count(|node_state| node_state.ended == Some(true) || node_state.suspect);
        let held = match (held >= self.majority(), can_have >= self.majority()) {
            (true, _) => Some(true),
            (_, false) => Some(false),
            (false, true) => None,
        };
        self.phase = AttemptPhase::Releasing { told: true };
        self.events.push_back(Event::Released { held });
    }

    /// Repeats a release after its time limit.
    pub(super) fn release_again(&mut self, now: Now, node: usize) {
        let Some(node_state) = self.node_states.get_mut(node) else { return };
        node_state.waits = None;
        if node_state.suspect && !self.over.has_passed(now) {
            self.send_release(now, node);
        }
        self.tell_released();
    }

    /// Handles a late reply: it does not count. While a lease is being released, it is released on
    /// that node too.
    pub(super) fn late(&mut self, now: Now, node: usize, reply: NodeReply) {
        let Some(node_state) = self.node_states.get_mut(node) else { return };
        let has = matches!(reply, NodeReply::Granted(_) | NodeReply::Healed | NodeReply::Renewed);
        if has && matches!(self.phase, AttemptPhase::Releasing { .. }) && node_state.waits.is_none()
        {
            node_state.suspect = true;
            self.send_release(now, node);
        }
    }

    fn send_release(&mut self, now: Now, node: usize) {
        let Some(node_state) = self.node_states.get_mut(node) else { return };
        let limit = self.terms.limit.max(Duration::from_millis(1));
        let limit = limit.saturating_mul(1 << node_state.releases.min(10)).min(LONGEST);
        node_state.releases = node_state.releases.saturating_add(1);
        self.send(now, node, Op::Release { attempt: self.terms.attempt }, limit);
    }
}
