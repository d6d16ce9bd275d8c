//! A read-write lock: clients and one server's record, over a network that loses, repeats, delays
//! and reorders. Clients crash and give up, their tasks share read leases, and they convert leases.
//!
//! The record is `leasehold_proto::read_write`; [`primitive_model`](crate::primitive_model) has the
//! clients.

pub mod runs;

use std::time::Duration;

use leasehold_proto::handoff::{self, AcquireRequest, ReleaseRequest, Renewed};
use leasehold_proto::read_write::{self, Bug, Converted, Mode, Parts, Phase};
use leasehold_proto::{AttemptId, Now};

use crate::primitive_model::{
    Answer, Broken, Call, History, Holding, Lease, Primitive, Push, Reach, Setup, TICK, Want,
};

/// A read-write lock. One step grants to or removes `CAP` waiters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReadWrite<const CAP: usize>;

type Record<const CAP: usize> = read_write::Record<(), CAP, Option<Bug>>;

impl<const CAP: usize> Primitive for ReadWrite<CAP> {
    type Bug = Bug;
    type Record = Record<CAP>;
    const MOST_PUSHES: usize = 2 * CAP + 1;

    fn record(setup: &Setup<Self>) -> Record<CAP> {
        let waiter_lease = TICK * u32::from(setup.waiter_lease);
        Record::default().with_waiter_lease(waiter_lease).with_rules(setup.record_bug)
    }

    fn carry_out(
        record: &mut Record<CAP>,
        now: Now,
        call: &Call,
        ttl: Duration,
        reach: Reach<'_>,
    ) -> Answer {
        let reach = &mut |attempt, push| pushed(push).is_none_or(|push| reach(attempt, push));
        let request =
            |attempt| AcquireRequest { attempt, ttl, wait: true, fair: true, tokens: 1, tag: () };
        match *call {
            Call::Acquire(attempt, want, _) => {
                answer(record.acquire(now, mode(want), &request(attempt), reach))
            }
            Call::Renew(attempt, base) => {
                Answer::Renewed(match record.renew(now, attempt, base, ttl, reach) {
                    Renewed::Renewed { waiters, .. } => Some(waiters > 0),
                    Renewed::Lost => None,
                })
            }
            Call::End(release, _) => Answer::Ended(record.release(now, &release, reach)),
            Call::Convert(convert) => {
                let next = request(convert.next);
                Answer::Converted(match convert.mode {
                    Mode::Read => record.downgrade(now, &convert.end, &next, reach),
                    Mode::Write => record.upgrade(now, &convert.end, &next, convert.again, reach),
                })
            }
            // No operator changes the limit of a lock.
            Call::SetLimit(..) => Answer::Limit(false),
        }
    }

    fn leases(record: &Record<CAP>, now: Now) -> Vec<Lease> {
        let want = if record.phase(now) == Phase::Write { Want::Write } else { Want::Read };
        let base = record.base().map_or(0, |base| base.get());
        let lease = |member: &read_write::Member| Lease {
            attempt: member.attempt,
            base,
            until_ns: member.until_ns,
            confirmed: member.confirmed,
            slots: Vec::new(),
            want,
        };
        record.holders(now).map(lease).collect()
    }

    fn queue(record: &Record<CAP>) -> Vec<(AttemptId, Want)> {
        record.waiters().map(|waiter| (waiter.attempt, want(waiter.mode))).collect()
    }

    fn has_more(record: &Record<CAP>, _: Now) -> bool {
        record.needs_another_step()
    }

    fn judge(
        history: &mut History,
        before: (&Record<CAP>, &[Lease]),
        after: (&Record<CAP>, &[Lease]),
        now: Now,
        (call, answer): (&Call, &Answer),
        lives: &dyn Fn(AttemptId) -> bool,
    ) -> Option<Broken> {
        let step = Step { before, after, now };
        if let (Call::Convert(request), Answer::Converted(converted)) = (call, answer)
            && request.mode == Mode::Read
            && step.fails_to_downgrade(&request.end, request.next, *converted)
        {
            return Some(Broken::Downgrade);
        }
        let overtaken = step.overtakes(lives) || step.tries_patience(history, lives);
        overtaken.then_some(Broken::Overtaken)
    }

    fn waits_for_the_living(
        record: &Record<CAP>,
        now: Now,
        lives: &dyn Fn(AttemptId) -> bool,
    ) -> bool {
        // Readers that stay keep writers waiting, and a waiting writer keeps readers waiting.
        let writes = |(attempt, want): (AttemptId, Want)| want == Want::Write && lives(attempt);
        let reads = record.phase(now) == Phase::Read;
        reads
            && record.holders(now).any(|member| lives(member.attempt))
            && Self::queue(record).into_iter().any(writes)
    }

    fn collide(one: &Holding, other: &Holding) -> bool {
        one.want == Want::Write || other.want == Want::Write
    }
}

/// The record and its leases before and after a step.
struct Step<'a, const CAP: usize> {
    before: (&'a Record<CAP>, &'a [Lease]),
    after: (&'a Record<CAP>, &'a [Lease]),
    now: Now,
}

impl<const CAP: usize> Step<'_, CAP> {
    /// A phase has begun, of this mode. An offer to a writer that is granted again, since it came too
    /// late, is the same turn.
    fn begun(&self) -> Option<Mode> {
        let again = || self.after.1.iter().all(|lease| self.was_member(lease.attempt));
        match self.after.0.phase(self.now) {
            _ if self.after.0.base() == self.before.0.base() => None,
            Phase::Write if again() => None,
            Phase::Read => Some(Mode::Read),
            Phase::Write => Some(Mode::Write),
            Phase::Free | Phase::Kept => None,
        }
    }

    /// A writer asked to downgrade its lease, which has not ended, and is not a reader now. A late
    /// request may have granted its attempt another lease.
    fn fails_to_downgrade(
        &self,
        end: &ReleaseRequest,
        next: AttemptId,
        converted: Converted,
    ) -> bool {
        let held = |leases: &[Lease], attempt, want| {
            leases.iter().any(|lease| (lease.attempt, lease.want) == (attempt, want))
        };
        let owns =
            self.before.0.base() == end.base && held(self.before.1, end.attempt, Want::Write);
        let granted = matches!(converted, Converted::Granted { .. });
        let refused = self.before.0.is_refused(self.now, next);
        owns && !refused && !(granted && held(self.after.1, next, Want::Read))
    }

    /// Attempts that hold a lease now, did not before, and are not members that ask again.
    fn entered(&self) -> impl Iterator<Item = AttemptId> {
        let new_phase = self.begun().is_some();
        let attempts = self.after.1.iter().map(|lease| lease.attempt);
        attempts.filter(move |attempt| new_phase || !self.was_member(*attempt))
    }

    /// The attempt was a member of the phase before the step. Its lease may have expired.
    fn was_member(&self, attempt: AttemptId) -> bool {
        let members = Parts::from(self.before.0.clone()).members;
        members.iter().any(|member| member.attempt == attempt)
    }

    /// An attempt has entered before a living one of its mode that came first, or a reader has joined
    /// a phase for which a living writer waits.
    fn overtakes(&self, lives: &dyn Fn(AttemptId) -> bool) -> bool {
        let after = Self::waiters(self.after.0);
        let before = Self::waiters(self.before.0);
        if after.is_empty() || !after.iter().any(|(attempt, _)| lives(*attempt)) {
            return false;
        }
        let place = |attempt| before.iter().position(|(one, _)| *one == attempt);
        let mode =
            if self.after.0.phase(self.now) == Phase::Write { Want::Write } else { Want::Read };
        let joins = self.begun().is_none() && mode == Want::Read;
        let overtakes = |entered: AttemptId| {
            let own = place(entered).unwrap_or(usize::MAX);
            after.iter().any(|(attempt, want)| {
                let came = place(*attempt);
                let waited = came.is_some() && lives(*attempt);
                let first = *want == mode && came.is_some_and(|came| came < own);
                waited && (first || joins && *want == Want::Write)
            })
        };
        self.entered().any(overtakes)
    }

    /// Counts the phases that begin before a waiter's: for a reader at most one write phase, and one
    /// for each `CAP` readers ahead; for a writer at most one read phase, and one for each writer
    /// ahead.
    fn tries_patience(&self, history: &mut History, lives: &dyn Fn(AttemptId) -> bool) -> bool {
        let waiters = Self::waiters(self.after.0);
        let begun = self.begun().map(want);
        history.patience.retain(|attempt, _| waiters.iter().any(|(one, _)| one == attempt));
        let mut lost = false;
        for (at, (attempt, mode)) in waiters.iter().enumerate() {
            let Some(patience) = history.patience.get_mut(attempt) else {
                let ahead = waiters[..at].iter().filter(|(_, other)| other == mode).count();
                let ahead = if *mode == Want::Read { ahead / CAP } else { ahead };
                let turn = usize::from(want(self.after.0.turn()) != *mode);
                history.patience.insert(*attempt, ahead + turn);
                continue;
            };
            if begun.is_some_and(|begun| begun != *mode) {
                lost |= *patience == 0 && lives(*attempt);
                *patience = patience.saturating_sub(1);
            }
        }
        lost
    }

    fn waiters(record: &Record<CAP>) -> Vec<(AttemptId, Want)> {
        ReadWrite::<CAP>::queue(record)
    }
}

fn mode(want: Want) -> Mode {
    if want == Want::Write { Mode::Write } else { Mode::Read }
}

fn want(mode: Mode) -> Want {
    match mode {
        Mode::Read => Want::Read,
        Mode::Write => Want::Write,
    }
}

fn answer(answer: read_write::Answer) -> Answer {
    let ask_again = answer.ask_again();
    match answer {
        read_write::Answer::Granted { tokens, waiters } => {
            Answer::Granted { tokens, slots: Vec::new(), wanted: waiters > 0 }
        }
        read_write::Answer::Queued { .. } | read_write::Answer::Busy(_) => {
            Answer::Queued(ask_again)
        }
        read_write::Answer::Ended | read_write::Answer::UsedUp => Answer::Over,
    }
}

/// The push as the model has it. No operator of a run ends a lease.
fn pushed(push: handoff::Push) -> Option<Push> {
    Some(match push {
        handoff::Push::Granted { tokens, offer, waiters } => {
            Push::Granted { tokens, slots: Vec::new(), offer, wanted: waiters > 0 }
        }
        handoff::Push::Next { remaining, .. } => Push::Next(remaining),
        handoff::Push::Wanted { .. } => Push::Wanted,
        handoff::Push::Lost { .. } => return None,
    })
}
