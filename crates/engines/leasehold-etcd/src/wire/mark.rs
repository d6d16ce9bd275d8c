//! The mark among the keys of clients without the option `wire`: they are refused, since they would not exclude those of
//! the other library.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_core::backend::Covered;
use leasehold_core::{Deadline, Error, ErrorKind, Name, Now, Result};
use leasehold_etcd_api::{Compare, CompareOp, KeyValue, PutOptions, Txn, TxnOp, TxnResponse};

use super::Format;
use crate::engine::{Engine, LIMIT};
use crate::entry;
use crate::error::{Cause, leases_expire, strange};
use crate::key::Keys;
use crate::lease::Lease;
use crate::transaction::{first, kvs, none};

/// How often a mark is renewed, and a lease for marks is granted.
const EVERY: Duration = Duration::from_secs(60);
/// How long a mark stays at least. It outlives the lease of the lock for which it was made, too.
const STAYS: Duration = Duration::from_secs(300);
/// How many names are remembered; beyond that, names are marked again.
const MOST: usize = 10_000;
/// The number of leases that may expire before a mark fails.
const ROUNDS: usize = 8;
/// The number of native keys that are read. One client with `also` waits among them at a time.
const READ: i64 = 16;
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

    /// Has clients without the option refused under this name, for as long as a lease of this ttl lasts. Returns false if
    /// clients with `also` have the native lock, which are to be waited for.
    ///
    /// # Errors
    /// [`ErrorKind::Foreign`] if clients without the option, or with another format, use the name.
    pub(super) async fn mark(&self, name: &Name, ttl: Duration) -> Result<bool> {
        let (key, value) = (self.native.wire(name), self.value());
        let natives = || self.native.lock(name);
        let txn = |put: PutOptions| {
            let put = || TxnOp::put(&*key, &*value, Some(put.clone()));
            let create = Txn::new()
                .when([Compare::create_revision(&*key, CompareOp::Equal, 0), none(natives())])
                .and_then([put()])
                .or_else([TxnOp::get(&*key, None), first(natives(), READ)]);
            Txn::new()
                .when([Compare::value(&*key, CompareOp::Equal, &*value), none(natives())])
                .and_then([put()])
                .or_else([TxnOp::txn(create)])
        };
        let (answer, ends_ns) = self.put(ttl, txn).await?;
        let created = inner(&answer)?;
        if created.as_ref().is_none_or(|created| created.succeeded) {
            self.note(name, ends_ns);
            return Ok(true);
        }
        // The mark and the native keys, as of one moment.
        self.check(name, &value, kvs(created.as_ref(), 0))?;
        match kvs(created.as_ref(), 1).iter().all(|native| entry::is_also(&native.value)) {
            true => Ok(false),
            false => Err(used_without(name)),
        }
    }

    /// Looks for the mark of this format, for a client that holds the lock of the other library, and keeps clients without
    /// the option refused for as long as its lease lasts. Without such a mark, it removes what clients with `also` have
    /// left, unless this client relies on that (`held`).
    ///
    /// # Errors
    /// [`ErrorKind::Foreign`] for the mark of another format.
    pub(super) async fn cover(&self, name: &Name, ttl: Duration, held: bool) -> Result<Covered> {
        let (mark, also, value) = (self.native.wire(name), self.native.also(name), self.value());
        let needed = if held { &also } else { &mark };
        let txn = |put| {
            let remove = Txn::new()
                .when([
                    Compare::create_revision(&*mark, CompareOp::Equal, 0),
                    Compare::value(&*also, CompareOp::Equal, &*value),
                ])
                .and_then([TxnOp::delete(&*also)])
                .or_else([TxnOp::get(&*mark, None), TxnOp::get(&*also, None)]);
            Txn::new()
                .when([Compare::value(&**needed, CompareOp::Equal, &*value)])
                .and_then([TxnOp::put(&*also, &*value, Some(put))])
                .or_else([TxnOp::txn(remove)])
        };
        let (answer, _) = self.put(ttl, txn).await?;
        let Some(removed) = inner(&answer)? else { return Ok(Covered::Marked) };
        if !removed.succeeded {
            for op in [0, 1] {
                self.check(name, &value, kvs(Some(&removed), op))?;
            }
        }
        Ok(Covered::Open)
    }

    /// Executes a transaction that puts a key under a lease of the marks. Returns also when that lease ends, by the steady
    /// clock.
    async fn put(
        &self,
        ttl: Duration,
        txn: impl Fn(PutOptions) -> Txn,
    ) -> Result<(TxnResponse, u64)> {
        let clock = &self.engine.clock;
        let until = Deadline::after(clock.now(), LIMIT);
        let left = || until.remaining(clock.now());
        for _ in 0..ROUNDS {
            let (lease, granted) = self.lease(ttl, left()).await?;
            let txn = txn(PutOptions::new().with_lease(lease.id));
            match self.engine.txn(left(), txn).await {
                Ok(answer) => {
                    return Ok((answer, granted.steady_ns.saturating_add(nanos(lease.time()))));
                }
                Err(failed) if failed.cause == Cause::NoLease => {
                    self.marks().lease.take_if(|(known, _)| *known == lease);
                }
                Err(failed) => return Err(failed.error),
            }
        }
        Err(leases_expire())
    }

    /// Returns an error for the mark of another format.
    fn check(&self, name: &Name, value: &str, marks: Vec<KeyValue>) -> Result<()> {
        match marks.iter().find(|mark| mark.value != value.as_bytes()) {
            Some(mark) => Err(used_with(&String::from_utf8_lossy(&mark.value), name)),
            None => Ok(()),
        }
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
            if let Err(error) = marker.mark(&name, ttl).await {
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

/// Returns the answer of the transaction inside one whose comparisons failed; `None` if they did not fail.
fn inner(answer: &TxnResponse) -> Result<Option<TxnResponse>> {
    match answer.txn(0) {
        _ if answer.succeeded => Ok(None),
        Some(inner) => Ok(Some(inner.clone())),
        None => Err(strange("a transaction was not executed")),
    }
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
