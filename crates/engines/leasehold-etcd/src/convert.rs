//! Makes a writer a reader, or the other way round, in one transaction: the key stays in its place in the queue, and
//! its value names the new attempt and mode.

use leasehold_core::backend::{ConvertRequest, Converted, Grant, Mode, Term};
use leasehold_core::proto::drift;
use leasehold_core::proto::fifo::converted;
use leasehold_core::{Deadline, Error, ErrorKind, Result, Token, TokenBlock};
use leasehold_etcd_api::{Compare, CompareOp, GetOptions, PutOptions, Txn, TxnOp};

use crate::attempts::{Conversion, Live};
use crate::engine::{Engine, limit};
use crate::entry::{self, Entry};
use crate::lease_keeper::Kept;
use crate::queue::{last, used_up};
use crate::record::{self, Record};
use crate::transaction::{count, key_at, kv_at, revision, term};

/// The number of changes by others that may come first before a request fails.
const ROUNDS: usize = 32;

/// Processes one request to convert a lease.
pub(crate) async fn convert(engine: &Engine, request: &ConvertRequest) -> Result<Converted> {
    let (end, next) = (&request.end, &request.next);
    let until = Deadline::after(engine.clock.now(), limit(next.ttl));
    for _ in 0..ROUNDS {
        let converting = Converting { engine, request, until };
        let done = match engine.attempts.convert(end.attempt, end.base, next.attempt) {
            Conversion::Done(live) => Some(converting.again(&live).await?),
            Conversion::Over(held) => Some(converting.is_over(held).await?),
            Conversion::Held(live) => converting.step(&live).await?,
        };
        if let Some(done) = done {
            return Ok(done);
        }
    }
    let what = "other clients changed the queue each time; try again";
    Err(Error::new(ErrorKind::Unavailable, what))
}

/// A conversion in progress.
struct Converting<'a> {
    engine: &'a Engine,
    request: &'a ConvertRequest,
    until: Deadline,
}

/// The queue, as of one revision.
struct Look {
    own: Option<Entry>,
    record: Record,
    /// Other attempts are in the queue.
    beside: bool,
    /// A writer is behind ours.
    wanted: bool,
    revision: i64,
    term: u64,
}

impl Converting<'_> {
    fn reads(&self) -> bool {
        self.request.next.mode == Mode::Shared
    }

    fn left(&self) -> std::time::Duration {
        self.until.remaining(self.engine.clock.now())
    }

    async fn look(&self, live: &Live) -> Result<Look> {
        let (keys, name) = (&self.engine.keys, &self.request.next.name);
        let ((first, end), (writers, writers_end)) = (keys.lock(name), keys.writers(name));
        let all = GetOptions::new().with_range(end).with_count_only();
        let gets = [
            TxnOp::get(&*live.key, None),
            TxnOp::get(keys.phase(name), None),
            TxnOp::get(first, Some(all)),
            TxnOp::get(writers, Some(last(writers_end, 1))),
        ];
        let answer = self.engine.txn(self.left(), Txn::new().and_then(gets)).await?;
        let own = kv_at(&answer, 0, 0).and_then(|kv| Entry::read(keys, &kv));
        let own = own.filter(|own| Some(own.created) == live.created);
        let place = live.created.unwrap_or_default();
        Ok(Look {
            own,
            record: Record::read(kv_at(&answer, 1, 0).as_ref())?,
            beside: count(&answer, 2).is_none_or(|all| all > 1),
            wanted: key_at(&answer, 3, 0).is_some_and(|(_, writer)| writer > place),
            revision: revision(&answer),
            term: term(&answer),
        })
    }

    /// Converts the lease, unless it must be refused; `None` if the queue has changed meanwhile.
    async fn step(&self, live: &Live) -> Result<Option<Converted>> {
        let (end, next) = (&self.request.end, &self.request.next);
        let (Some(lease), Some(held)) = (live.lease, live.token) else {
            return Ok(Some(self.lost()));
        };
        let sent = self.engine.clock.now();
        let keep = self.engine.clock.within(Some(self.until), self.engine.keeper.keep(lease.id));
        let (kept, look) = tokio::join!(keep, self.look(live));
        let look = look?;
        // The lease counts from its last keep-alive that is certain.
        if matches!(kept, Some(Ok(Kept::Alive { term, .. })) if term == look.term) {
            self.engine.attempts.change(end.attempt, |live| live.alive = sent);
        }
        let Some(own) = &look.own else { return Ok(Some(self.lost())) };
        if own.attempt == next.attempt {
            let token = look.record.token_of(own.created);
            return Ok(Some(token.map_or_else(|| self.lost(), |token| self.done(token, &look))));
        }
        if own.attempt != end.attempt || own.reads() == self.reads() {
            return Ok(Some(self.lost()));
        }
        if !self.reads() && look.beside {
            return self.refuse(live, own, &look).await;
        }
        let new = converted(look.record.phase, held, own.created).ok_or_else(used_up)?;
        let (keys, name) = (&self.engine.keys, &next.name);
        let phase = keys.phase(name);
        let mut when = vec![
            Compare::mod_revision(&*own.key, CompareOp::Equal, own.changed),
            Compare::mod_revision(&*phase, CompareOp::Equal, look.record.changed),
        ];
        if !self.reads() {
            let (first, end) = keys.lock(name);
            let alone = Compare::create_revision(first, CompareOp::Equal, own.created);
            when.push(alone.with_range(end));
        }
        let value = entry::write_converted(next, self.engine.clock.now().unix_ms());
        let txn = Txn::new().when(when).and_then([
            TxnOp::put(&*own.key, value, Some(PutOptions::new().with_ignore_lease())),
            TxnOp::put(phase, record::write(new), None),
        ]);
        if self.engine.attempts.change(end.attempt, |live| live.converting = true).is_none() {
            return Ok(Some(self.lost()));
        }
        let called = self.engine.txn_called(self.left(), txn).await?;
        if !called.value.succeeded {
            // A first copy of it may have been executed.
            if !called.again && !live.converting {
                self.engine.attempts.change(end.attempt, |live| live.converting = false);
            }
            return Ok(None);
        }
        Ok(Some(self.done(new.token, &look)))
    }

    /// Enters the new lease.
    fn done(&self, token: Token, look: &Look) -> Converted {
        let (engine, end, next) = (self.engine, &self.request.end, &self.request.next);
        if !engine.attempts.converted(end.attempt, next.attempt, next.mode, token) {
            return self.lost();
        }
        engine.watcher.leave(end.attempt);
        let Some(live) = engine.attempts.change(next.attempt, |live| live.clone()) else {
            return self.lost();
        };
        engine.watcher.guard(next.attempt, &next.name, live.key.clone(), look.revision, false);
        if self.reads() && !look.wanted {
            let writers = engine.keys.writers(&next.name);
            engine.watcher.expect_writer(next.attempt, &next.name, writers, look.revision);
        }
        self.granted(&live, look.wanted)
    }

    fn granted(&self, live: &Live, wanted: bool) -> Converted {
        let (Some(lease), Some(token)) = (live.lease, live.token) else { return self.lost() };
        let ttl = self.request.next.ttl.min(lease.time());
        let until = Deadline::after(live.alive, ttl.saturating_sub(drift(ttl)));
        Converted::Granted(Grant::new(TokenBlock::single(token), Term::Until(until), wanted))
    }

    /// Answers a repeated request.
    async fn again(&self, live: &Live) -> Result<Converted> {
        let look = self.look(live).await?;
        Ok(self.granted(live, look.wanted && self.reads()))
    }

    /// Refuses an upgrade beside other attempts. If a copy of the request may still arrive, the key is changed first:
    /// the copy compares its last change.
    async fn refuse(&self, live: &Live, own: &Entry, look: &Look) -> Result<Option<Converted>> {
        if self.request.again || live.converting {
            let seal = Txn::new()
                .when([Compare::mod_revision(&*own.key, CompareOp::Equal, own.changed)])
                .and_then([TxnOp::put(
                    &*own.key,
                    &*own.value,
                    Some(PutOptions::new().with_ignore_lease()),
                )]);
            if !self.engine.txn(self.left(), seal).await?.succeeded {
                return Ok(None);
            }
            let end = self.request.end.attempt;
            self.engine.attempts.change(end, |live| live.converting = false);
        }
        self.engine.attempts.refuse(self.request.next.attempt);
        Ok(Some(Converted::Refused { wanted: look.wanted }))
    }

    /// Answers a request for a conversion that has ended or was refused before.
    async fn is_over(&self, held: Option<Live>) -> Result<Converted> {
        match held.filter(|live| !self.reads() && live.mode == Mode::Shared) {
            Some(live) => Ok(Converted::Refused { wanted: self.look(&live).await?.wanted }),
            None => Ok(Converted::Lost),
        }
    }

    /// Ends the new attempt: there is nothing left to convert.
    fn lost(&self) -> Converted {
        self.engine.attempts.refuse(self.request.next.attempt);
        Converted::Lost
    }
}
