//! Releases of the client, leases without a holder, and losses.

use leasehold_proto::Now;
use tokio::sync::oneshot;

use super::Driver;
use super::attempts::AttemptState;
use crate::explain;
use leasehold_core::backend::{Ended, Event, ReleaseRequest, Renewed, Verdict};
use leasehold_core::{Error, Result};

type Ender = Option<oneshot::Sender<Result<Ended>>>;

impl Driver {
    /// Releases an attempt. After the answer, the driver keeps asking nodes that may still have the
    /// lease.
    pub(super) fn release(&mut self, now: Now, release: &ReleaseRequest, ender: Ender) {
        if let Some(AttemptState::Asking { run, .. }) = self.attempts.get(release.attempt) {
            // A denied attempt has nothing left to release.
            self.tell_denied(now, *run, true);
        }
        let verdict = match self.attempts.get(release.attempt) {
            None => {
                let verdict = if release.base.is_none() { Verdict::Gone } else { Verdict::Unknown };
                self.attempts.set(release.attempt, AttemptState::Ended(verdict));
                verdict
            }
            Some(AttemptState::Refused { waits, .. }) => {
                if *waits {
                    self.waits.leave(&release.name);
                }
                self.attempts.set(release.attempt, AttemptState::Ended(Verdict::Gone));
                Verdict::Gone
            }
            Some(AttemptState::Asking { run, .. } | AttemptState::Held { run, .. }) => {
                let number = *run;
                let Some(run) = self.runs.get_mut(number) else { return };
                if run.machine.deadline().is_some_and(|end| end.has_passed(now)) {
                    // It has expired, though no task has noticed: it was lost, even if nodes say otherwise.
                    self.lost(now, number, false);
                    self.pump(now, number);
                    return answer(ender, Ok(Verdict::Lost));
                }
                self.attempts.set(release.attempt, AttemptState::Releasing { run: number });
                // A holder does not wait: a noted wait belongs to another attempt of this client.
                if run.waits && !run.held {
                    self.waits.leave(&run.name);
                }
                run.ender = ender;
                run.asked = now;
                run.machine.release(now);
                self.renewed(number, Ok(Renewed::Lost));
                self.pump(now, number);
                return;
            }
            Some(AttemptState::Releasing { run }) => {
                if let Some(run) = self.runs.get_mut(*run) {
                    run.ender = ender;
                }
                return;
            }
            Some(AttemptState::Ended(verdict)) => *verdict,
        };
        answer(ender, Ok(verdict));
    }

    /// Handles a machine that has released its leases, as far as nodes answer.
    pub(super) fn released(&mut self, now: Now, number: usize, held: Option<bool>) {
        let Some(run) = self.runs.get_mut(number) else { return };
        if run.notified != 0 {
            self.waits.passed(now, run.asked, &run.name, run.notified);
        }
        let (ender, client, was_held) = (run.ender.take(), run.client.take(), run.held);
        let Some(client) = client else { return };
        let (verdict, told) = match (was_held, held) {
            (false, _) => (Verdict::Gone, Ok(Verdict::Gone)),
            (true, Some(true)) => (Verdict::Released, Ok(Verdict::Released)),
            (true, Some(false)) => (Verdict::Lost, Ok(Verdict::Lost)),
            (true, None) => (Verdict::Unknown, Err(self.unreleased(number))),
        };
        self.attempts.set(client, AttemptState::Ended(verdict));
        answer(ender, told);
    }

    fn unreleased(&self, number: usize) -> Error {
        match self.runs.get(number) {
            Some(run) => explain::unreleased(&run.machine, &self.admission),
            None => explain::driver_gone(),
        }
    }

    /// Handles a lost lease: a majority does not have it any more, or it has expired. The rest of it is
    /// released. The client is notified with `tell`; otherwise its own clock detects the loss.
    pub(super) fn lost(&mut self, now: Now, number: usize, tell: bool) {
        let Some(run) = self.runs.get_mut(number) else { return };
        run.machine.release(now);
        let (client, asks) = (run.client.take(), run.renewal.is_some());
        self.renewed(number, Ok(Renewed::Lost));
        let Some(client) = client else { return };
        let state = self.attempts.set(client, AttemptState::Ended(Verdict::Lost));
        if tell && !asks && matches!(state, Some(AttemptState::Held { .. })) {
            self.sink.send(Event::Lost { attempt: client, base: None });
        }
    }
}

fn answer(ender: Ender, verdict: Result<Verdict>) {
    if let Some(ender) = ender {
        ender.send(verdict.map(|verdict| Ended::new(verdict, None))).ok();
    }
}
