//! Turns a write lease into a read lease, or a read lease into a write lease, in one step. The
//! decisions are those of [`leasehold_proto::client::Conversion`].

use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::client::{AfterConversion, Conversion, Sound};
use leasehold_proto::{Backoff, Deadline, LossReason, Now, TokenBlock};
use leasehold_proto::{handoff, read_write};

use crate::Result;
use crate::backend::{
    AcquireRequest, ConvertRequest, Converted, Grant, Mode, Origin, ReleaseRequest,
};
use crate::common_errors::{lost, no_answer};
use crate::driver::Driver;
use crate::engine_request::{acquire_request, granted, held_tokens};
use crate::hold::Hold;
use crate::hold_end::record;
use crate::local_queue::{Handover, Wish};
use crate::pending_release::PendingRelease;
use crate::shared::{Shared, jitter};

/// The shortest and longest pause between two requests of a conversion.
const PAUSES: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(250));

/// How a conversion ended.
pub(crate) enum Outcome {
    /// The new lease.
    Held(Arc<Hold>),
    /// The upgrade was refused; the read lease continues.
    Refused,
}

/// A conversion under way. If its future is dropped, both attempts are ended.
struct Converting<'a> {
    driver: &'a Driver,
    from: &'a Arc<Hold>,
    next: AcquireRequest,
    /// `None` once it has ended.
    machine: Option<Conversion>,
}

/// Makes the writer of `from` a reader. The caller has claimed the end of that lease.
pub(crate) async fn downgrade(
    driver: &Driver,
    from: &Arc<Hold>,
    origin: &Arc<Origin>,
) -> Result<Arc<Hold>> {
    let next = request(&driver.shared, from, origin, Mode::Shared);
    driver.shared.reading.ask(next.attempt);
    let end = from.tokens.end(from.attempt, from.is_suspect(), None, Sound);
    let machine = Conversion::downgrade(end, next.attempt, Sound);
    let converting = Converting { driver, from, next, machine: Some(machine) };
    match converting.run_or_report_loss().await? {
        Outcome::Held(hold) => Ok(hold),
        Outcome::Refused => Err(lost(LossReason::NotOwner)),
    }
}

/// Makes the only reader of `from` a writer, unless another client reads or waits.
pub(crate) async fn upgrade(
    driver: &Driver,
    from: &Arc<Hold>,
    origin: &Arc<Origin>,
) -> Result<Outcome> {
    let shared = &driver.shared;
    let next = request(shared, from, origin, Mode::Exclusive);
    let now = shared.clock.now();
    if shared.queues.is_awaited(&from.name) || !from.claim_conversion() {
        return Ok(Outcome::Refused);
    }
    let Some(machine) = shared.reading.try_upgrade(from, next.attempt, now) else {
        from.continue_holding();
        return Ok(Outcome::Refused);
    };
    shared.reading.ask(next.attempt);
    let converting = Converting { driver, from, next, machine: Some(machine) };
    converting.run_or_report_loss().await
}

/// Builds the request for the new lease, with the terms of the old one.
fn request(shared: &Shared, from: &Hold, origin: &Arc<Origin>, mode: Mode) -> AcquireRequest {
    let (terms, on_loss) = (from.lease().terms(), from.on_loss());
    let (demand, fair, alone, origin) = (None, true, false, origin.clone());
    let wish = Wish { mode, demand, terms, fair, origin, on_loss, alone };
    acquire_request(&from.name, &wish, shared.new_attempt(mode), false, mode == Mode::Exclusive)
}

impl Converting<'_> {
    /// Runs the conversion. If it fails, the client holds nothing any more, and the work that waits for
    /// the cancellation token of the old lease is cancelled.
    async fn run_or_report_loss(self) -> Result<Outcome> {
        let from = self.from;
        let outcome = self.run().await;
        if outcome.is_err() {
            from.lost_signal().cancel();
        }
        outcome
    }

    async fn run(mut self) -> Result<Outcome> {
        let shared = self.driver.shared.clone();
        let start = shared.clock.now();
        // The old lease protects the work only until its deadline.
        let patience = Deadline::after(start, shared.patience);
        let until = self.from.lease().deadline().map_or(patience, |end| end.min(patience));
        let mut pauses = Backoff::new(PAUSES.0, PAUSES.1);
        let mut failure = None;
        loop {
            let sent = shared.clock.now();
            if until.has_passed(sent) || shared.is_closed() {
                return Err(failure.unwrap_or_else(no_answer));
            }
            match self.ask(&shared, sent, until).await {
                Ok(converted) => return self.finish(converted, sent),
                Err(error) if error.kind().is_certain() => return Err(error),
                Err(error) => failure = Some(error),
            }
            let pause = shared.clock.sleep(pauses.next(jitter()));
            shared.clock.within(Some(until), pause).await;
        }
    }

    /// Sends the request once.
    async fn ask(&mut self, shared: &Shared, sent: Now, until: Deadline) -> Result<Converted> {
        let Some(machine) = &mut self.machine else { return Err(no_answer()) };
        machine.handle_sent();
        let request = machine.request();
        let end = ReleaseRequest::of_machine(self.from.name.clone(), request.end);
        let request = ConvertRequest { end, next: self.next.clone(), again: request.again };
        let answer = shared.called(sent, until, None, shared.backend.convert(request)).await;
        let answer = answer.unwrap_or_else(|| Err(no_answer()));
        if answer.as_ref().is_err_and(|error| !error.kind().is_certain()) {
            machine.handle_unanswered();
        }
        answer
    }

    fn finish(mut self, converted: Converted, sent: Now) -> Result<Outcome> {
        let Some(machine) = self.machine.take() else { return Err(no_answer()) };
        let (grant, answer) = match converted {
            Converted::Granted(grant) => (Some(grant), granted_answer(grant)),
            Converted::Refused { wanted } => {
                (None, read_write::Converted::Refused { waiters: wanted.into() })
            }
            Converted::Lost => (None, read_write::Converted::Lost),
        };
        let abandon = machine.abandon();
        match (machine.handle_reply(answer), grant) {
            (AfterConversion::Granted { tokens, wanted, suspect }, Some(grant)) => {
                match self.hold(grant, tokens, suspect, sent) {
                    Some(hold) => {
                        self.begin(&hold, wanted);
                        Ok(Outcome::Held(hold))
                    }
                    None => {
                        self.end(abandon, false);
                        Err(lost(LossReason::Expired))
                    }
                }
            }
            (AfterConversion::Refused { wanted }, _) => {
                self.driver.shared.reading.refuse_upgrade(self.from, wanted);
                self.from.continue_holding();
                Ok(Outcome::Refused)
            }
            (AfterConversion::Lost(ends), _) => {
                self.end(ends, false);
                Err(lost(LossReason::NotOwner))
            }
            (AfterConversion::Granted { .. }, None) => {
                self.end(abandon, false);
                Err(lost(LossReason::NotOwner))
            }
        }
    }

    /// Builds the hold of the new lease; `None` if its grant arrived after it had expired.
    fn hold(
        &self,
        grant: Grant,
        tokens: TokenBlock,
        suspect: bool,
        sent: Now,
    ) -> Option<Arc<Hold>> {
        let shared = &self.driver.shared;
        let now = shared.clock.now();
        let terms = self.from.lease().terms();
        let lease = granted(grant, Vec::new()).lease(sent, now, terms, jitter(), Sound).ok()?;
        let (name, attempt) = (self.from.name.clone(), self.next.attempt);
        let tokens = held_tokens(self.next.mode, tokens);
        let mut hold = Hold::new(name, attempt, tokens, lease, now, suspect);
        hold.set_on_loss(self.from.on_loss());
        hold.set_cache(self.from.cache());
        Some(Arc::new(hold))
    }

    /// Replaces the old lease by the new one in the books of the client.
    fn begin(&self, hold: &Arc<Hold>, wanted: bool) {
        let shared = &self.driver.shared;
        let now = shared.clock.now();
        hold.inherit_lost_signal(self.from);
        self.close(now, true);
        shared.meters.of(hold.mode()).acquired.increment(1);
        shared.look_after(hold);
        match self.next.mode {
            Mode::Shared => shared.reading.begin(hold, wanted),
            // Where a lease is not passed on inside the process, none leads the local queue.
            Mode::Exclusive if shared.passes => shared.lead(hold, wanted, now),
            Mode::Exclusive | Mode::Permit => {}
        }
        if shared.reading.asked(hold.attempt) {
            shared.wanted(&hold.name, hold.attempt);
        }
        tracing::debug!(name = %hold.name, token = hold.token().get(), mode = ?self.next.mode, "lock converted");
    }

    /// Removes the old lease from the books of the client. `released`: it was held until now, unless
    /// its loss was reported before.
    fn close(&self, now: Now, released: bool) {
        let shared = &self.driver.shared;
        shared.forget(self.from);
        let is_reported = {
            let mut lease = self.from.lease();
            lease.release(now);
            lease.loss().is_some()
        };
        if !is_reported {
            record(shared, self.from, released, now);
        }
        match self.next.mode {
            Mode::Exclusive | Mode::Permit => {
                shared.reading.remove(self.from);
            }
            // Local writers ask the engine: the lease that they waited for is a read lease now.
            Mode::Shared => {
                let (name, attempt) = (&self.from.name, Some(self.from.attempt));
                shared.queues.next(name, attempt, |_, _| (Handover::Ask(None), ()));
            }
        }
    }

    /// Ends these attempts at the engine, and the old lease here. `released`: it was held until now.
    fn end(&self, ends: impl IntoIterator<Item = handoff::ReleaseRequest>, released: bool) {
        self.close(self.driver.shared.clock.now(), released);
        for end in ends {
            let release = ReleaseRequest::of_machine(self.from.name.clone(), end);
            self.driver.end(Some(PendingRelease::new(release, self.next.ttl)));
        }
    }
}

impl Drop for Converting<'_> {
    fn drop(&mut self) {
        self.driver.shared.reading.asked(self.next.attempt);
        if let Some(machine) = self.machine.take() {
            self.end(machine.abandon(), true);
        }
    }
}

fn granted_answer(grant: Grant) -> read_write::Converted {
    read_write::Converted::Granted { tokens: grant.tokens, waiters: grant.wanted.into() }
}
