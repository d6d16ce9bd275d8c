//! Acquires a lock: puts the attempt's own key and reads the queue in front of it.

use std::time::Duration;

use etcd_client::{
    Compare, CompareOp, GetOptions, PutOptions, SortOrder, SortTarget, Txn, TxnOp, TxnResponse,
};
use leasehold_core::backend::{AcquireRequest, Answer, Grant, Mode, Term};
use leasehold_core::proto::drift;
use leasehold_core::{Deadline, Error, ErrorKind, Result, TokenBlock};

use crate::attempts::Live;
use crate::engine::{Engine, limit};
use crate::error::{Cause, leader_changed, strange};
use crate::lease::{Lease, seconds};
use crate::lease_keeper::Kept;
use crate::transaction::{count, created_at, delete, key_at, kv_at, revision, term, token};

/// The number of leases that may expire during one acquire before it fails.
const TRIES: u32 = 4;
/// A lease that was kept alive within this fraction of the ttl is not kept alive again. The guard's
/// validity is shorter by that time, which is about the allowance for clock drift.
const YOUNG: u32 = 50;
/// A waiter sends its request again after this time at the latest. The request also keeps its lease
/// alive.
const ASK_AGAIN: Duration = Duration::from_secs(10);

/// The state of the queue as the server reports it.
enum Seen {
    /// Our key is the first; `created` is its create revision, `revision` when it was last seen.
    First { created: i64, revision: i64 },
    /// The key before ours with its create revision, and the number of keys before ours.
    Behind { created: i64, key: Vec<u8>, at: i64, place: Option<u64>, revision: i64 },
    /// Another attempt holds or waits, and we have no key.
    Taken,
    /// Our key was deleted with its lease.
    Gone,
}

/// Processes one acquire request.
pub(crate) async fn acquire(engine: &Engine, request: AcquireRequest) -> Result<Answer> {
    if request.mode != Mode::Exclusive {
        return Err(Error::new(ErrorKind::Unsupported, "etcd: shared mode is not supported"));
    }
    if engine.attempts.begin(&request, seconds(request.ttl)).is_none() {
        return Ok(Answer::Ended);
    }
    let outcome = answer(engine, &request).await;
    let certain = outcome.as_ref().map_or_else(|error| error.kind().is_certain(), |_| true);
    if certain {
        engine.attempts.change(request.attempt, |live| live.open -= 1);
    }
    if outcome.is_err() || matches!(outcome, Ok(Answer::Busy { .. })) {
        engine.put_away(request.attempt, outcome.is_ok());
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
        let Some(live) = engine.attempts.change(request.attempt, |live| live.clone()) else {
            return Ok(Answer::Ended);
        };
        let sent = engine.clock.now();
        let look = look(engine, request, &live, lease, left);
        let young = sent.steady_ns.saturating_sub(live.alive.steady_ns)
            <= (request.ttl / YOUNG).as_nanos() as u64;
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
                (Some(kept.unwrap_or_else(|| Err(silent()))), seen)
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
    Err(Error::new(
        ErrorKind::Unavailable,
        "leases expired immediately after they were granted; check the clock and load of the \
         cluster",
    ))
}

fn forget_lease(live: &mut Live) {
    *live = Live { asked: live.asked, open: live.open, ..Live::default() };
}

fn silent() -> Error {
    Error::new(ErrorKind::Unavailable, "the server did not answer in time")
}

/// Evaluates what the server reported; `None` means start again.
fn note(
    engine: &Engine,
    request: &AcquireRequest,
    lease: Lease,
    term: Term,
    seen: Seen,
) -> Result<Option<Answer>> {
    let AcquireRequest { attempt, name, .. } = request;
    match seen {
        Seen::First { created, revision } => {
            let token = token(created)?;
            let held = engine.attempts.change(*attempt, |live| {
                live.created = Some(created);
                live.before = None;
                std::mem::replace(&mut live.held, true)
            });
            let Some(held) = held else { return Ok(Some(Answer::Ended)) };
            if !held {
                engine.watcher.guard(*attempt, name, engine.keys.of(name, *attempt), revision);
            }
            let tokens = TokenBlock::single(token);
            Ok(Some(Answer::Granted(Grant::new(tokens, term, false))))
        }
        Seen::Behind { created, key, at, place, revision } => {
            let noted = engine.attempts.change(*attempt, |live| {
                live.created = Some(created);
                live.before = Some((key.clone(), at));
                live.held = false;
            });
            if noted.is_none() {
                return Ok(Some(Answer::Ended));
            }
            engine.watcher.follow(*attempt, name, key, revision);
            let ask_again = (lease.time() / 3).min(ASK_AGAIN);
            Ok(Some(Answer::Queued { place, ask_again }))
        }
        Seen::Taken => Ok(Some(Answer::Busy { ask_again: None })),
        Seen::Gone => {
            // The lease may be alive: another program has deleted the key.
            engine.attempts.change(*attempt, |live| {
                (live.created, live.before, live.held) = (None, None, false);
            });
            Ok(None)
        }
    }
}

enum Failed {
    NoLease,
    Other(Error),
}

impl From<crate::members::FailedCall> for Failed {
    fn from(failed: crate::members::FailedCall) -> Self {
        match failed.cause {
            Cause::NoLease => Self::NoLease,
            _ => Self::Other(failed.error),
        }
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

/// Puts our key if it does not exist, and reads the queue; also returns the answering leader's term.
async fn look(
    engine: &Engine,
    request: &AcquireRequest,
    live: &Live,
    lease: Lease,
    limit: Duration,
) -> Result<(Seen, u64), Failed> {
    let own = engine.keys.of(&request.name, request.attempt);
    let created = match live.created {
        Some(created) => created,
        None => {
            let txn = if request.wait {
                enter(engine, request, &own, lease)
            } else {
                attempt(engine, request, &own, lease)
            };
            let called = engine.txn_called(limit, txn).await;
            let again = called.as_ref().map_or_else(|failed| failed.again, |called| called.again);
            engine.attempts.change(request.attempt, |live| live.resent |= again);
            let answer = called?.value;
            match entered(&answer, &own, request.wait)? {
                Entered::Seen(seen) => return Ok((seen, term(&answer))),
                Entered::Already { created, lease: on } if on == lease.id => created,
                Entered::Already { created, .. } => {
                    // The key would expire with its other lease, which no client keeps alive.
                    let created = created.unsigned_abs();
                    let answer = engine.txn(limit, delete(&own, created)).await?;
                    return Ok((Seen::Gone, term(&answer)));
                }
            }
        }
    };
    if let Some((key, at)) = &live.before {
        let answer = engine.txn(limit, Txn::new().and_then([get(&own), get(key)])).await?;
        let [ours, theirs] = [0, 1].map(|place| created_at(&answer, place, 0));
        if ours != Some(created) {
            return Ok((Seen::Gone, term(&answer)));
        }
        if theirs == Some(*at) {
            let (key, revision) = (key.clone(), revision(&answer));
            let seen = Seen::Behind { created, key, at: *at, place: None, revision };
            return Ok((seen, term(&answer)));
        }
    }
    let (first, end) = engine.keys.lock(&request.name);
    let before = GetOptions::new()
        .with_range(end)
        .with_max_create_revision(created - 1)
        .with_sort(SortTarget::Create, SortOrder::Descend)
        .with_keys_only()
        .with_limit(1);
    let txn = Txn::new().and_then([get(&own), TxnOp::get(first, Some(before))]);
    let answer = engine.txn(limit, txn).await?;
    if created_at(&answer, 0, 0) != Some(created) {
        return Ok((Seen::Gone, term(&answer)));
    }
    let seen = match key_at(&answer, 1, 0) {
        None => Seen::First { created, revision: revision(&answer) },
        Some((key, at)) => {
            Seen::Behind { created, key, at, place: None, revision: revision(&answer) }
        }
    };
    Ok((seen, term(&answer)))
}

fn get(key: &[u8]) -> TxnOp {
    TxnOp::get(key, Some(GetOptions::new().with_keys_only()))
}

fn put(request: &AcquireRequest, engine: &Engine, own: &[u8], lease: Lease) -> TxnOp {
    let value = crate::status::write(request, engine.clock.now().unix_ms());
    TxnOp::put(own, value, Some(PutOptions::new().with_lease(lease.id)))
}

/// Puts our key at the end of the queue, and returns the last key before it.
fn enter(engine: &Engine, request: &AcquireRequest, own: &[u8], lease: Lease) -> Txn {
    let (first, end) = engine.keys.lock(&request.name);
    let last_two = GetOptions::new()
        .with_range(end)
        .with_sort(SortTarget::Create, SortOrder::Descend)
        .with_keys_only()
        .with_limit(2);
    Txn::new()
        .when([Compare::create_revision(own, CompareOp::Equal, 0)])
        .and_then([put(request, engine, own, lease), TxnOp::get(first, Some(last_two))])
        .or_else([get(own)])
}

/// Puts our key if the queue is empty.
fn attempt(engine: &Engine, request: &AcquireRequest, own: &[u8], lease: Lease) -> Txn {
    let (first, end) = engine.keys.lock(&request.name);
    let empty = Compare::create_revision(first, CompareOp::Equal, 0).with_range(end);
    Txn::new().when([empty]).and_then([put(request, engine, own, lease)]).or_else([get(own)])
}

enum Entered {
    Seen(Seen),
    /// The key existed, under this lease.
    Already {
        created: i64,
        lease: i64,
    },
}

fn entered(answer: &TxnResponse, own: &[u8], wait: bool) -> Result<Entered> {
    if !answer.succeeded() {
        return Ok(match kv_at(answer, 0, 0) {
            Some(kv) => Entered::Already { created: kv.create_revision(), lease: kv.lease() },
            None if wait => return Err(strange("a key that exists was not returned")),
            None => Entered::Seen(Seen::Taken),
        });
    }
    let created = revision(answer);
    if !wait {
        return Ok(Entered::Seen(Seen::First { created, revision: created }));
    }
    match key_at(answer, 1, 0) {
        Some((key, at)) if key == own && at == created => {}
        _ => return Err(strange("a key that was just put is not the last")),
    }
    let seen = match key_at(answer, 1, 1) {
        None => Seen::First { created, revision: created },
        Some((key, at)) => {
            let place = count(answer, 1).and_then(|count| count.checked_sub(2));
            Seen::Behind { created, key, at, place, revision: created }
        }
    };
    Ok(Entered::Seen(seen))
}
