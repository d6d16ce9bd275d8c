//! Renewals of the client: a batch of leases, each with its own result.

use leasehold_proto::Now;
use tokio::sync::oneshot;

use super::Driver;
use super::attempts::AttemptState;
use leasehold_core::Result;
use leasehold_core::backend::{Renewal, Renewed};

/// A batch whose results are not complete.
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
        // A lease that is not held is lost. One extra stays open until all are queued.
        let verdicts = leases.iter().map(|_| Ok(Renewed::Lost)).collect();
        let open = leases.len() + 1;
        let batch = self.renewals.insert(Renewals { verdicts, open, asker });
        let one = |(place, lease)| Renewing { batch, place, lease };
        self.renewing.extend(leases.into_iter().enumerate().map(one));
        self.close_one(batch);
    }

    /// Renews one lease. Time limits start here, as for an acquire.
    pub(super) fn renew_one(&mut self, now: Now, Renewing { batch, place, lease }: Renewing) {
        let number = match self.attempts.get(lease.attempt) {
            Some(AttemptState::Held { run, .. }) => *run,
            _ => return self.close_one(batch),
        };
        // An earlier renewal without an answer does not count any more.
        self.not_renewed(now, number);
        let Some(run) = self.runs.get_mut(number) else { return self.close_one(batch) };
        run.renewal = Some((batch, place));
        run.asked = now;
        run.machine.renew(now, lease.ttl);
        self.pump(now, number);
    }

    /// Reports the result of the renewal of a run, if the client waits for it.
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

    /// Reports that the result of a renewal is unknown.
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
