//! Attempts that cannot have a majority any more: they are told so once every node has had its say.
//!
//! What is known at the first moment is who did not vote. Who would have, and who else is in trouble,
//! is heard a round trip later, and belongs to what people are told.

use leasehold_proto::Now;
use leasehold_proto::quorum::{Denied, Reply, Why};

use super::Driver;

/// An attempt that was denied, and what was heard since.
#[derive(Debug)]
pub(super) struct Denial {
    denied: Denied,
    /// From nodes that had not answered by then.
    heard: Vec<(usize, Reply)>,
}

impl Driver {
    /// Tells who asked, if there is nothing more to be heard.
    pub(super) fn note_denied(&mut self, now: Now, number: usize, denied: Denied) {
        let Some(run) = self.runs.get_mut(number) else { return };
        match denied.why {
            Why::Unavailable if run.machine.unheard().next().is_some() => {
                run.denial = Some(Box::new(Denial { denied, heard: Vec::new() }));
            }
            _ => self.denied(now, number, &denied, &[]),
        }
    }

    /// A reply that comes after it was clear that there would be too few.
    pub(super) fn note_late(&mut self, number: usize, node: usize, reply: Reply) {
        let Some(run) = self.runs.get_mut(number) else { return };
        if let Some(denial) = &mut run.denial
            && run.machine.unheard().any(|open| open == node)
        {
            denial.heard.push((node, reply));
        }
    }

    /// Tells who asked, once all that was still on its way is here or had its time.
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
