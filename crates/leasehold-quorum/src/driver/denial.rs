//! Attempts that cannot reach a majority: the caller gets the error once every node has replied or
//! timed out.
//!
//! At first only the nodes that did not vote are known. A round trip later the driver also knows
//! how others would have voted, and which other nodes fail. The error contains both.

use leasehold_proto::Now;
use leasehold_proto::quorum::{Denied, NodeReply, Why};

use super::Driver;

/// A denied attempt, with the replies since then.
#[derive(Debug)]
pub(super) struct Denial {
    denied: Denied,
    /// Replies of nodes that had not answered by then.
    heard: Vec<(usize, NodeReply)>,
}

impl Driver {
    /// Reports the denial to the caller, if no further reply is expected.
    pub(super) fn note_denied(&mut self, now: Now, number: usize, denied: Denied) {
        let Some(run) = self.runs.get_mut(number) else { return };
        match denied.why {
            Why::Unavailable if run.machine.unheard().next().is_some() => {
                run.denial = Some(Box::new(Denial { denied, heard: Vec::new() }));
            }
            _ => self.denied(now, number, &denied, &[]),
        }
    }

    /// Records a reply that arrives after the denial was certain.
    pub(super) fn note_late(&mut self, number: usize, node: usize, reply: NodeReply) {
        let Some(run) = self.runs.get_mut(number) else { return };
        if let Some(denial) = &mut run.denial
            && run.machine.unheard().any(|open| open == node)
        {
            denial.heard.push((node, reply));
        }
    }

    /// Reports the denial to the caller, once every outstanding reply has arrived or timed out.
    pub(super) fn tell_denied(&mut self, now: Now, number: usize, at_once: bool) {
        let Some(run) = self.runs.get_mut(number) else { return };
        if run.denial.is_none() || (!at_once && run.machine.unheard().next().is_some()) {
            return;
        }
        if let Some(denial) = run.denial.take() {
            self.denied(now, number, &denial.denied, &denial.heard);
        }
    }
}
