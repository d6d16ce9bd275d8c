//! Acquires a lock or a permit: gets a lease for the attempt, keeps it alive, and evaluates what a look at its queue
//! has shown.

use std::time::Duration;

use leasehold_core::backend::{AcquireRequest, Answer, Grant, Mode, Term};
use leasehold_core::proto::drift;
use leasehold_core::{Deadline, Result, TokenBlock};

use crate::asking::{Asking, Behind, Failed, Seen};
use crate::attempts::Live;
use crate::engine::{Engine, limit};
use crate::error::{leader_changed, leases_expire, no_answer};
use crate::lease::{Lease, seconds};
use crate::lease_keeper::Kept;
use crate::{permits, queue, readers};

/// The number of leases that may expire, or of changes by others that may come first, during one acquire
/// before it fails.
const TRIES: u32 = 32;
/// A lease that was kept alive within this fraction of the ttl is not kept alive again. The guard's
/// validity is shorter by that time, which is about the allowance for clock drift.
const YOUNG: u32 = 50;
/// A waiter sends its request again after this time at the latest. The request also keeps its lease
/// alive.
const ASK_AGAIN: Duration = Duration::from_secs(10);

/// Processes one acquire request.
pub(crate) async fn acquire(engine: &Engine, request: AcquireRequest) -> Result<Answer> {
    let key = engine.keys.of(&request.name, request.attempt, request.mode);
    let Some(live) = engine.attempts.begin(&request, key, seconds(request.ttl)) else {
        return Ok(Answer::Ended);
    };
    if live.created.is_none() && request.wait && request.mode == Mode::Exclusive {
        engine.watch_in_advance(&request);
    }
    let outcome = answer(engine, &request).await;
    let certain = outcome.as_ref().map_or_else(|error| error.kind().is_certain(), |_| true);
    if certain {
        engine.attempts.change(request.attempt, |live| live.open -= 1);
    }
    if (outcome.is_err() || matches!(outcome, Ok(Answer::Busy { .. })))
        && engine.put_away(request.attempt, outcome.is_ok())
    {
        engine.watcher.leave(request.attempt);
    }
    outcome
}

async fn answer(engine: &Engine, request: &AcquireRequest) -> Result<Answer> {
    let until = Deadline::after(engine.clock.now(), limit(request.ttl));
    for _ in 0..TRIES {
        let left = until.remaining(engine.clock.now());
        let Some((lease, fresh)) = engine.lease(request, left).await? else {
            return Ok(Answer::Ended);
        };
        let left = until.remaining(engine.clock.now());
        let live = engine.attempts.change(request.attempt, |live| {
            if live.created.is_none()
                && let Some(key) = engine.keys.of_lease(&request.name, lease.id)
            {
                live.key = key;
            }
            live.clone()
        });
        let Some(live) = live else {
            return Ok(Answer::Ended);
        };
        let sent = engine.clock.now();
        let young = sent.steady_ns.saturating_sub(live.alive.steady_ns)
            <= (request.ttl / YOUNG).as_nanos() as u64;
        let asking = Asking {
            engine,
            request,
            live: &live,
            lease,
            limit: left,
            believes_member: (fresh || young) && !engine.keys.is_wire(),
        };
        let look = look(&asking);
        let mut term = Term::Ttl;
        if young && !fresh {
            term = Term::Until(Deadline::after(
                live.alive,
                request.ttl.saturating_sub(drift(request.ttl)),
            ));
        }
        let (kept, seen) = match fresh || young {
            true => (None, look.await),
            false => {
                let keep = engine.clock.within(Some(until), engine.keeper.keep(lease.id));
                let (kept, seen) = tokio::join!(keep, look);
                (Some(kept.unwrap_or_else(|| Err(no_answer()))), seen)
            }
        };
        let seen = match seen {
            Ok(seen) => seen,
            Err(Failed::NoLease) => {
                engine.attempts.change(request.attempt, forget_lease);
                continue;
            }
            Err(Failed::Other(error)) => return Err(error),
        };
        match kept {
            None => {}
            Some(Ok(Kept::Gone)) => {
                // A new leader may not have the lease yet: no key may remain under it.
                let left = until.remaining(engine.clock.now());
                engine.revoke(lease.id, left).await?;
                engine.attempts.change(request.attempt, forget_lease);
                continue;
            }
            // A deposed leader may keep a lease alive that the new leader considers expired. Our read went
            // through the leader of its term: if both terms are equal, it was still the leader.
            Some(Ok(Kept::Alive { term, .. })) if term != seen.1 => {
                return Err(leader_changed());
            }
            Some(Ok(Kept::Alive { .. })) => {
                engine.attempts.change(request.attempt, |live| live.alive = sent);
            }
            Some(Err(error)) => return Err(error),
        }
        match note(engine, request, lease, term, seen.0)? {
            Some(answer) => return Ok(answer),
            None => continue,
        }
    }
    Err(leases_expire())
}

fn forget_lease(live: &mut Live) {
    let Live { key, mode, asked, open, .. } = std::mem::take(live);
    *live = Live { key, mode, asked, open, ..Live::default() };
}

/// Evaluates what the server reported; `None` means start again.
fn note(
    engine: &Engine,
    request: &AcquireRequest,
    lease: Lease,
    term: Term,
    seen: Seen,
) -> Result<Option<Answer>> {
    let AcquireRequest { attempt, name, mode, .. } = request;
    match seen {
        Seen::Held(held) => {
            let key = engine.attempts.change(*attempt, |live| {
                live.created = Some(held.created);
                live.before = None;
                live.token = Some(held.token);
                live.has_record = held.has_record;
                let before = std::mem::replace(&mut live.held, true);
                (live.key.clone(), before)
            });
            let Some((key, before)) = key else { return Ok(Some(Answer::Ended)) };
            if !before {
                let is_wire = engine.keys.is_wire();
                engine.watcher.guard(*attempt, name, key, held.revision, is_wire);
                if *mode == Mode::Shared && !held.wanted {
                    let writers = engine.keys.writers(name);
                    engine.watcher.expect_writer(*attempt, name, writers, held.revision);
                }
            }
            let grant = Grant::new(TokenBlock::single(held.token), term, held.wanted);
            Ok(Some(match mode {
                Mode::Permit => Answer::Permit { grant, slots: held.slots },
                _ => Answer::Granted(grant),
            }))
        }
        Seen::Behind(Behind { created, revision, key, before, wait, place }) => {
            let gone = engine.attempts.change(*attempt, |live| {
                live.created = Some(created);
                live.held = false;
                live.waited = true;
                // The key was watched in advance, and was deleted before the answer arrived.
                let gone = before.is_some() && live.gone.take().is_some_and(|gone| gone == key);
                live.before = before.filter(|_| !gone).map(|at| (key.clone(), at));
                gone
            });
            match gone {
                None => return Ok(Some(Answer::Ended)),
                Some(true) => return Ok(None),
                Some(false) => {}
            }
            engine.watcher.follow(*attempt, name, key, revision, wait);
            let ask_again = (lease.time() / 3).min(ASK_AGAIN);
            Ok(Some(Answer::Queued { place, ask_again }))
        }
        Seen::Taken => Ok(Some(Answer::Busy { ask_again: None })),
        Seen::Changed => Ok(None),
        Seen::Gone => {
            // The lease may be alive: another program has deleted the key.
            engine.attempts.change(*attempt, |live| {
                (live.created, live.before, live.held) = (None, None, false);
            });
            Ok(None)
        }
    }
}

/// Puts our key if it does not exist, and looks whose turn it is; also returns the answering leader's term.
async fn look(asking: &Asking<'_>) -> Result<(Seen, u64), Failed> {
    match asking.request.mode {
        Mode::Permit => permits::look(asking).await,
        Mode::Shared => readers::look(asking).await,
        _ => queue::look(asking).await,
    }
}
