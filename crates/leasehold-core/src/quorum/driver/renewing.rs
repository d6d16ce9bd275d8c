//! Renewals of the client's: a batch of leases, each with a verdict of its own.

use leasehold_proto::Now;
use tokio::sync::oneshot;

use super::Driver;
use super::cases::Case;
use crate::Result;
use crate::backend::{Renewal, Renewed};

/// A batch whose verdicts are not all in.
#[derive(Debug)]
pub(super) struct Renewals {
    verdicts: Vec<Result<Renewed>>,
    open: usize,
    asker: oneshot::Sender<Vec<Result<Renewed>>>,
}

/// One lease of a batch, and its place there.
#[derive(Debug)]
pub(super) struct Renewing {
    batch: usize,
    place: usize,
    lease: Renewal,
}

impl Driver {
    pub(super) fn renew(
        &mut self,
        leases: Vec<Renewal>,
        asker: oneshot::Sender<Vec<Result<Renewed>>>,
    ) {
        // What is not held is lost. One more is open until all stand in line.
        let verdicts = leases.iter().map(|_| Ok(Renewed::Lost)).collect();
        let open = leases.len() + 1;
        let batch = self.renewals.insert(Renewals { verdicts, open, asker });
        let one = |(place, lease)| Renewing { batch, place, lease };
        self.renewing.extend(leases.into_iter().enumerate().map(one));
        self.close_one(batch);
    }

    /// Time limits begin with this, as those of an acquire do.
    pub(super) fn renew_one(&mut self, now: Now, Renewing { batch, place, lease }: Renewing) {
        let number = match self.cases.get(lease.attempt) {
            Some(Case::Held { run, .. }) => *run,
            _ => return self.close_one(batch),
        };
        // One that was not answered yet counts no more.
        self.not_renewed(now, number);
        let Some(run) = self.runs.get_mut(number) else { return self.close_one(batch) };
        run.renewal = Some((batch, place));
        run.asked = now;
        run.machine.renew(now, lease.ttl);
        self.pump(now, number);
    }

    /// The verdict on the renewal of a run, if one is waited for.
    pub(super) fn renewed(&mut self, number: usize, verdict: Result<Renewed>) {
        let renewal = self.runs.get_mut(number).and_then(|run| run.renewal.take());
        let Some((batch, place)) = renewal else { return };
        if let Some(renewals) = self.renewals.get_mut(batch)
            && let Some(slot) = renewals.verdicts.get_mut(place)
        {
            *slot = verdict;
        }
        self.close_one(batch);
    }

    /// Whether it was renewed is not known.
    pub(super) fn not_renewed(&mut self, now: Now, number: usize) {
        if self.runs.get(number).is_some_and(|run| run.renewal.is_some()) {
            self.renewed(number, Err(self.unrenewed(now, number)));
        }
    }

    fn close_one(&mut self, batch: usize) {
        let Some(renewals) = self.renewals.get_mut(batch) else { return };
        renewals.open -= 1;
        if renewals.open > 0 {
            return;
        }
        if let Some(Renewals { verdicts, asker, .. }) = self.renewals.remove(batch) {
            asker.send(verdicts).ok();
        }
    }
}
