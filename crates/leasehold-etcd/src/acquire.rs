//! Asking for a lock: a key of one's own, and a look at the line before it.

use std::time::Duration;

use etcd_client::{
    Compare, CompareOp, GetOptions, KeyValue, PutOptions, SortOrder, SortTarget, Txn, TxnOp,
    TxnOpResponse, TxnResponse,
};
use leasehold_core::backend::{Answer, Ask, Grant, Mode, Term};
use leasehold_core::proto::drift;
use leasehold_core::{Deadline, Error, ErrorKind, Result, Token, TokenBlock};

use crate::attempts::Live;
use crate::backend::{Engine, limit};
use crate::error::{Cause, leader_changed, strange};
use crate::keeper::Kept;
use crate::lease::{Lease, seconds};
use crate::release::{self, delete};

/// Leases that may end under an ask before it is called an error.
const TRIES: u32 = 4;
/// A lease that was kept alive within this part of the ttl need not be again: the guard is valid
/// that much shorter, about as much as it gives up for the drift of clocks.
const YOUNG: u32 = 50;
/// Who waits asks again after this long at the latest, and keeps its lease alive thereby.
const ASK_AGAIN: Duration = Duration::from_secs(10);

/// What the server says about the line.
enum Seen {
    /// Our key is the first, and has this create revision; and was still there at the other.
    First { created: i64, revision: i64 },
    /// This key, of this create revision, is the one before ours; and how many are before in all.
    Behind { created: i64, key: Vec<u8>, at: i64, place: Option<u64>, revision: i64 },
    /// Somebody holds or waits, and we have no key.
    Taken,
    /// Our key has gone with its lease.
    Gone,
}

/// Answers an ask.
pub(crate) async fn acquire(engine: &Engine, ask: Ask) -> Result<Answer> {
    if ask.mode != Mode::Exclusive {
        return Err(Error::new(ErrorKind::Unsupported, "etcd: shared mode is not supported"));
    }
    if engine.attempts.begin(&ask, seconds(ask.ttl)).is_none() {
        return Ok(Answer::Ended);
    }
    let outcome = answer(engine, &ask).await;
    let certain = outcome.as_ref().map_or_else(|error| error.kind().is_certain(), |_| true);
    if certain {
        engine.attempts.change(ask.attempt, |live| live.open -= 1);
    }
    if outcome.is_err() || matches!(outcome, Ok(Answer::Busy { .. })) {
        engine.put_away(ask.attempt, outcome.is_ok());
    }
    outcome
}

async fn answer(engine: &Engine, ask: &Ask) -> Result<Answer> {
    let until = Deadline::after(engine.clock.now(), limit(ask.ttl));
    for _ in 0..TRIES {
        let left = until.remaining(engine.clock.now());
        let Some((lease, fresh)) = engine.lease(ask, left).await? else {
            return Ok(Answer::Ended);
        };
        let left = until.remaining(engine.clock.now());
        let Some(live) = engine.attempts.change(ask.attempt, |live| live.clone()) else {
            return Ok(Answer::Ended);
        };
        let sent = engine.clock.now();
        let look = look(engine, ask, &live, lease, left);
        let young = sent.steady_ns.saturating_sub(live.alive.steady_ns)
            <= (ask.ttl / YOUNG).as_nanos() as u64;
        let mut term = Term::Ttl;
        if young && !fresh {
            term = Term::Until(Deadline::after(live.alive, ask.ttl.saturating_sub(drift(ask.ttl))));
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
                engine.attempts.change(ask.attempt, forget_lease);
                continue;
            }
            Err(Failed::Other(error)) => return Err(error),
        };
        match kept {
            None => {}
            Some(Ok(Kept::Gone)) => {
                // A leader that is new may not know it yet: no key may stay behind on it.
                let left = until.remaining(engine.clock.now());
                release::revoke(engine, lease.id, left).await?;
                engine.attempts.change(ask.attempt, forget_lease);
                continue;
            }
            // Who leads no more may keep alive what the others believe to have ended. Our look went
            // through the leader of its term: if they are one and the same, it still led then.
            Some(Ok(Kept::Alive { term, .. })) if term != seen.1 => {
                return Err(leader_changed());
            }
            Some(Ok(Kept::Alive { .. })) => {
                engine.attempts.change(ask.attempt, |live| live.alive = sent);
            }
            Some(Err(error)) => return Err(error),
        }
        match note(engine, ask, lease, term, seen.0)? {
            Some(answer) => return Ok(answer),
            None => continue,
        }
    }
    Err(Error::new(ErrorKind::Unavailable, "leases have ended as soon as they were granted"))
}

fn forget_lease(live: &mut Live) {
    *live = Live { asked: live.asked, open: live.open, ..Live::default() };
}

fn silent() -> Error {
    Error::new(ErrorKind::Unavailable, "the server did not answer in time")
}

/// Draws the conclusion; `None` to begin anew.
fn note(
    engine: &Engine,
    ask: &Ask,
    lease: Lease,
    term: Term,
    seen: Seen,
) -> Result<Option<Answer>> {
    let Ask { attempt, name, .. } = ask;
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
            Ok(Some(Answer::Granted(Grant { tokens, term, wanted: false })))
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
            // The lease may be alive: somebody has removed the key.
            engine.attempts.change(*attempt, |live| {
                (live.created, live.before, live.held) = (None, None, false);
            });
            Ok(None)
        }
    }
}

pub(crate) fn token(revision: i64) -> Result<Token> {
    let token = u64::try_from(revision).ok().and_then(Token::new);
    token.ok_or_else(|| {
        Error::new(
            ErrorKind::Foreign,
            format!("the server's revision {revision} is no token: tokens end at 2^53-1"),
        )
    })
}

enum Failed {
    NoLease,
    Other(Error),
}

impl From<crate::members::Failed> for Failed {
    fn from(failed: crate::members::Failed) -> Self {
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

/// Puts our key if it is not there, and looks at the line; with the term of who answered.
async fn look(
    engine: &Engine,
    ask: &Ask,
    live: &Live,
    lease: Lease,
    limit: Duration,
) -> Result<(Seen, u64), Failed> {
    let own = engine.keys.of(&ask.name, ask.attempt);
    let created = match live.created {
        Some(created) => created,
        None => {
            let txn = if ask.wait {
                enter(engine, ask, &own, lease)
            } else {
                attempt(engine, ask, &own, lease)
            };
            let called = engine.txn_called(limit, txn).await;
            let again = called.as_ref().map_or_else(|failed| failed.again, |called| called.again);
            engine.attempts.change(ask.attempt, |live| live.resent |= again);
            let answer = called?.value;
            match entered(&answer, &own, ask.wait)? {
                Entered::Seen(seen) => return Ok((seen, term(&answer))),
                Entered::Already { created, lease: on } if on == lease.id => created,
                Entered::Already { created, .. } => {
                    // It would go with a lease that nobody keeps alive.
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
    let (first, end) = engine.keys.lock(&ask.name);
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

fn put(ask: &Ask, engine: &Engine, own: &[u8], lease: Lease) -> TxnOp {
    let value = crate::status::write(ask, engine.clock.now().unix_ms());
    TxnOp::put(own, value, Some(PutOptions::new().with_lease(lease.id)))
}

/// Puts our key behind the others, whoever they are, and names the last of them.
fn enter(engine: &Engine, ask: &Ask, own: &[u8], lease: Lease) -> Txn {
    let (first, end) = engine.keys.lock(&ask.name);
    let last_two = GetOptions::new()
        .with_range(end)
        .with_sort(SortTarget::Create, SortOrder::Descend)
        .with_keys_only()
        .with_limit(2);
    Txn::new()
        .when([Compare::create_revision(own, CompareOp::Equal, 0)])
        .and_then([put(ask, engine, own, lease), TxnOp::get(first, Some(last_two))])
        .or_else([get(own)])
}

/// Puts our key if there is no other.
fn attempt(engine: &Engine, ask: &Ask, own: &[u8], lease: Lease) -> Txn {
    let (first, end) = engine.keys.lock(&ask.name);
    let empty = Compare::create_revision(first, CompareOp::Equal, 0).with_range(end);
    Txn::new().when([empty]).and_then([put(ask, engine, own, lease)]).or_else([get(own)])
}

enum Entered {
    Seen(Seen),
    /// The key was there, and hangs on this lease.
    Already {
        created: i64,
        lease: i64,
    },
}

fn entered(answer: &TxnResponse, own: &[u8], wait: bool) -> Result<Entered> {
    if !answer.succeeded() {
        return Ok(match kv_at(answer, 0, 0) {
            Some(kv) => Entered::Already { created: kv.create_revision(), lease: kv.lease() },
            None if wait => return Err(strange("a key that is there is not there")),
            None => Entered::Seen(Seen::Taken),
        });
    }
    let created = revision(answer);
    if !wait {
        return Ok(Entered::Seen(Seen::First { created, revision: created }));
    }
    match key_at(answer, 1, 0) {
        Some((key, at)) if key == own && at == created => {}
        _ => return Err(strange("a key that was put is not the last")),
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

pub(crate) fn revision(answer: &TxnResponse) -> i64 {
    answer.header().map_or(0, |header| header.revision())
}

pub(crate) fn term(answer: &TxnResponse) -> u64 {
    answer.header().map_or(0, |header| header.raft_term())
}

/// The create revision of a key that was found.
pub(crate) fn created_at(answer: &TxnResponse, op: usize, place: usize) -> Option<i64> {
    key_at(answer, op, place).map(|(_, created)| created)
}

/// A key that one of the operations has found, and its create revision.
fn key_at(answer: &TxnResponse, op: usize, place: usize) -> Option<(Vec<u8>, i64)> {
    let kv = kv_at(answer, op, place)?;
    Some((kv.key().to_vec(), kv.create_revision()))
}

fn kv_at(answer: &TxnResponse, op: usize, place: usize) -> Option<KeyValue> {
    match answer.op_responses().get(op)? {
        TxnOpResponse::Get(found) => found.kvs().get(place).cloned(),
        _ => None,
    }
}

fn count(answer: &TxnResponse, op: usize) -> Option<u64> {
    match answer.op_responses().get(op)? {
        TxnOpResponse::Get(found) => u64::try_from(found.count()).ok(),
        _ => None,
    }
}
