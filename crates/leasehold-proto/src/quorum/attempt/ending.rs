//! Releases every lease that nodes have granted or may still grant.

use core::time::Duration;

use super::seat::Vote;
use super::{Attempt, Phase};
use crate::Now;
use crate::quorum::{Event, Op, Refusal, Reply};

/// The longest pause between two releases to a node that does not answer.
const LONGEST: Duration = Duration::from_secs(1);

impl Attempt {
    /// Ends the attempt in any state. It asks nodes that do not answer again until the lease has
    /// expired there.
    pub fn release(&mut self, now: Now) {
        if matches!(self.phase, Phase::Ending { .. }) {
            return;
        }
        self.phase = Phase::Ending { told: false };
        self.deadline = None;
        self.release_all(now, false);
        self.tell_released();
    }

    /// Asks every node that may have granted the lease to end the attempt. If `patient`, a node
    /// that has not answered is asked only when it grants late or times out: most such nodes have
    /// refused, and their answer is on its way.
    pub(super) fn release_all(&mut self, now: Now, patient: bool) {
        self.begin(now);
        for node in 0..self.seats.len() {
            let Some(seat) = self.seats.get_mut(node) else { continue };
            if patient && seat.waits.is_some() && seat.vote == Vote::Silent {
                continue;
            }
            seat.waits = None;
            if seat.suspect {
                self.send_release(now, node);
            }
        }
    }

    pub(super) fn release_reply(&mut self, now: Now, node: usize, reply: Reply) {
        let Some(seat) = self.seats.get_mut(node) else { return };
        let releasing = seat.releases > 0;
        match reply {
            Reply::Granted(_) if !releasing => return self.send_release(now, node),
            // It is asked (again) when it times out.
            Reply::Unknown => return,
            Reply::Refused(Refusal::Unfit) if releasing => return,
            _ => {}
        }
        seat.waits = None;
        seat.suspect = false;
        seat.ended = Some(reply == Reply::Released);
        self.tell_released();
    }

    /// Returns the event when the result is known, or every node has had its time.
    fn tell_released(&mut self) {
        if self.phase != (Phase::Ending { told: false }) {
            return;
        }
        let held = self.count(|seat| seat.ended == Some(true));
        let open = self.count(|seat| seat.waits.is_some() && seat.releases < 2);
        if held < self.majority() && open > 0 {
            return;
        }
        let can_have = self.count(|seat| seat.ended == Some(true) || seat.suspect);
        let held = match (held >= self.majority(), can_have >= self.majority()) {
            (true, _) => Some(true),
            (_, false) => Some(false),
            (false, true) => None,
        };
        self.phase = Phase::Ending { told: true };
        self.events.push_back(Event::Released { held });
    }

    /// Repeats a release after its time limit.
    pub(super) fn release_again(&mut self, now: Now, node: usize) {
        let Some(seat) = self.seats.get_mut(node) else { return };
        seat.waits = None;
        if seat.suspect && !self.over.has_passed(now) {
            self.send_release(now, node);
        }
        self.tell_released();
    }

    /// Handles a late reply: it does not count. While a lease is being released, it is released on
    /// that node too.
    pub(super) fn late(&mut self, now: Now, node: usize, reply: Reply) {
        let Some(seat) = self.seats.get_mut(node) else { return };
        let has = matches!(reply, Reply::Granted(_) | Reply::Healed | Reply::Renewed);
        if has && matches!(self.phase, Phase::Ending { .. }) && seat.waits.is_none() {
            seat.suspect = true;
            self.send_release(now, node);
        }
    }

    fn send_release(&mut self, now: Now, node: usize) {
        let Some(seat) = self.seats.get_mut(node) else { return };
        let limit = self.terms.limit.max(Duration::from_millis(1));
        let limit = limit.saturating_mul(1 << seat.releases.min(10)).min(LONGEST);
        seat.releases = seat.releases.saturating_add(1);
        self.send(now, node, Op::Release { attempt: self.terms.attempt }, limit);
    }
}
