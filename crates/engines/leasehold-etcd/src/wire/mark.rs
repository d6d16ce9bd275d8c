//! The mark among the keys of clients without the option `wire`: they are refused, since they would not exclude those of
//! the other library.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use etcd_client::{Compare, CompareOp, PutOptions, Txn, TxnOp};
use leasehold_core::backend::Covered;
use leasehold_core::{Deadline, Error, ErrorKind, Name, Now, Result};

use super::Format;
use crate::engine::{Engine, LIMIT};
use crate::error::Cause;
use crate::key::Keys;
use crate::lease::Lease;
use crate::transaction::{any, kv_at, none};

/// How often a mark is renewed, and a lease for marks is granted.
const EVERY: Duration = Duration::from_secs(60);
/// How long a mark stays at least. It outlives the lease of the lock for which it was made, too.
const STAYS: Duration = Duration::from_secs(300);
/// How many names are remembered; beyond that, names are marked again.
const MOST: usize = 10_000;
/// The number of changes by others that may come first before a mark fails.
const ROUNDS: usize = 8;
/// What each mark begins with.
const MARK: &str = "leasehold wire ";

/// Marks names for one client. Clones share their state.
#[derive(Clone)]
pub(super) struct Marker {
    engine: Engine,
    /// The keys of clients without the option.
    native: Arc<Keys>,
    format: Format,
    marks: Arc<Mutex<Marks>>,
}

#[derive(Default)]
struct Marks {
    /// The lease of the latest marks, and when it was granted. It is not kept alive.
    lease: Option<(Lease, Now)>,
    names: HashMap<Name, Marked>,
}

struct Marked {
    /// When the mark is to be renewed.
    again: Deadline,
    /// When its lease ends, by the steady clock.
    ends_ns: u64,
}

impl Marker {
    pub(super) fn new(engine: Engine, native: Keys, format: Format) -> Self {
        Self { engine, native: Arc::new(native), format, marks: Arc::default() }
    }

    /// Returns true if the keys of clients without the option begin like those of this lock, so that they would be in
    /// its queue.
    pub(super) fn is_covered_by(&self, name: &Name) -> bool {
        self.native.begin_as(&self.engine.keys.lock(name).0)
    }

    /// Returns true if the mark of a name is to be renewed for a lease of this ttl.
    pub(super) fn is_due(&self, name: &Name, ttl: Duration) -> bool {
        let now = self.engine.clock.now();
        let until = now.steady_ns.saturating_add(nanos(ttl));
        let marks = self.marks();
        marks
            .names
            .get(name)
            .is_none_or(|marked| marked.again.has_passed(now) || marked.ends_ns < until)
    }

    /// Has clients without the option refused under this name, for as long as a lease of this ttl lasts. Returns an error
    /// if they use it.
    ///
    /// # Errors
    /// [`ErrorKind::Foreign`] if clients with other options use the name.
    pub(super) async fn mark(&self, name: &Name, ttl: Duration) -> Result<Option<Error>> {
        let (engine, clock) = (&self.engine, &self.engine.clock);
        let until = Deadline::after(clock.now(), LIMIT);
        let left = || until.remaining(clock.now());
        let (key, value) = (self.native.wire(name), self.value());
        let mut exists = self.marks().names.contains_key(name);
        for _ in 0..ROUNDS {
            let (lease, granted) = self.lease(ttl, left()).await?;
            let as_expected = match exists {
                true => Compare::value(&*key, CompareOp::Equal, &*value),
                false => Compare::create_revision(&*key, CompareOp::Equal, 0),
            };
            let put = PutOptions::new().with_lease(lease.id);
            let txn = Txn::new()
                .when([as_expected, none(self.native.lock(name))])
                .and_then([TxnOp::put(&*key, &*value, Some(put))])
                .or_else([TxnOp::get(&*key, None), any(self.native.lock(name))]);
            let answer = match engine.txn(left(), txn).await {
                Ok(answer) => answer,
                Err(failed) if failed.cause == Cause::NoLease => {
                    self.marks().lease.take_if(|(known, _)| *known == lease);
                    continue;
                }
                Err(failed) => return Err(failed.error),
            };
            if answer.succeeded() {
                let ends_ns = granted.steady_ns.saturating_add(nanos(lease.time()));
                self.note(name, ends_ns);
                return Ok(None);
            }
            let mark = kv_at(&answer, 0, 0);
            if let Some(mark) = mark.as_ref().filter(|mark| mark.value() != value.as_bytes()) {
                return Err(used_with(&String::from_utf8_lossy(mark.value()), name));
            }
            if kv_at(&answer, 1, 0).is_some() {
                return Ok(Some(used_without(name)));
            }
            exists = mark.is_some();
        }
        Err(unsettled())
    }

    /// Looks for the mark of this format, for a client that holds the lock of the other library, and keeps clients without
    /// the option refused for as long as its lease lasts. Without such a mark, it removes what clients with `also` have
    /// left, unless this client relies on that (`held`).
    ///
    /// # Errors
    /// As [`mark`](Self::mark).
    pub(super) async fn cover(&self, name: &Name, ttl: Duration, held: bool) -> Result<Covered> {
        let (engine, clock) = (&self.engine, &self.engine.clock);
        let until = Deadline::after(clock.now(), LIMIT);
        let left = || until.remaining(clock.now());
        let (mark, also, value) = (self.native.wire(name), self.native.also(name), self.value());
        let needed = if held { &also } else { &mark };
        for _ in 0..ROUNDS {
            let (lease, _) = self.lease(ttl, left()).await?;
            let put = PutOptions::new().with_lease(lease.id);
            let txn = Txn::new()
                .when([Compare::value(&**needed, CompareOp::Equal, &*value)])
                .and_then([TxnOp::put(&*also, &*value, Some(put))])
                .or_else([TxnOp::get(&*mark, None), TxnOp::get(&*also, None)]);
            let answer = match engine.txn(left(), txn).await {
                Ok(answer) => answer,
                Err(failed) if failed.cause == Cause::NoLease => {
                    self.marks().lease.take_if(|(known, _)| *known == lease);
                    continue;
                }
                Err(failed) => return Err(failed.error),
            };
            if answer.succeeded() {
                return Ok(Covered::Marked);
            }
            let (marked, left_behind) = (kv_at(&answer, 0, 0), kv_at(&answer, 1, 0));
            for found in marked.iter().chain(&left_behind) {
                if found.value() != value.as_bytes() {
                    return Err(used_with(&String::from_utf8_lossy(found.value()), name));
                }
            }
            match left_behind {
                _ if held => return Ok(Covered::Open),
                _ if marked.is_some() => {}
                None => return Ok(Covered::Open),
                Some(found) => {
                    let when = [
                        Compare::create_revision(&*mark, CompareOp::Equal, 0),
                        Compare::mod_revision(&*also, CompareOp::Equal, found.mod_revision()),
                    ];
                    let txn = Txn::new().when(when).and_then([TxnOp::delete(&*also, None)]);
                    let answer = engine.txn(left(), txn).await.map_err(|failed| failed.error)?;
                    if answer.succeeded() {
                        return Ok(Covered::Open);
                    }
                }
            }
        }
        Err(unsettled())
    }

    fn value(&self) -> String {
        format!("{MARK}{}", self.format.text())
    }

    /// Renews the mark of a name whose lock is held, in the background: the lock is held in any case.
    pub(super) fn renew(&self, name: &Name, ttl: Duration) {
        if !self.is_due(name, ttl) {
            return;
        }
        let (marker, name) = (self.clone(), name.clone());
        self.engine.spawn(async move {
            if let Err(error) | Ok(Some(error)) = marker.mark(&name, ttl).await {
                tracing::debug!(%name, %error, "cannot renew the mark of the lock");
            }
        });
    }

    /// Returns a lease for marks, which was granted within the last minute and lasts long enough.
    async fn lease(&self, ttl: Duration, limit: Duration) -> Result<(Lease, Now)> {
        let asked = STAYS.max(ttl) + EVERY;
        let now = self.engine.clock.now();
        if let Some((lease, granted)) = self.marks().lease
            && lease.time() >= asked
            && !Deadline::after(granted, EVERY).has_passed(now)
        {
            return Ok((lease, granted));
        }
        let lease = self.engine.grant(asked, limit).await?;
        self.marks().lease = Some((lease, now));
        Ok((lease, now))
    }

    /// Notes that a name was marked now.
    fn note(&self, name: &Name, ends_ns: u64) {
        let now = self.engine.clock.now();
        let names = &mut self.marks().names;
        if names.len() >= MOST {
            names.retain(|_, marked| !marked.again.has_passed(now));
        }
        if names.len() >= MOST {
            names.clear();
        }
        names.insert(name.clone(), Marked { again: Deadline::after(now, EVERY), ends_ns });
    }

    fn marks(&self) -> MutexGuard<'_, Marks> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn unsettled() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "other clients changed the mark of the name each time; try again",
    )
}

fn used_without(name: &Name) -> Error {
    let what = format!(
        "clients without the option wire use the lock {name}, and this client would not exclude them; give all clients \
         the same option, and stop the others for five minutes before"
    );
    Error::new(ErrorKind::Foreign, what)
}

fn used_with(mark: &str, name: &Name) -> Error {
    let mark = mark.strip_prefix(MARK).unwrap_or(mark);
    let what = format!(
        "clients with wire={mark} use the lock {name}, and this client would not exclude them; give all clients \
         the same option, and stop the others for five minutes before"
    );
    Error::new(ErrorKind::Foreign, what)
}
