//! What the looks at queues share: the attempt that looks, and what it can see.

use std::time::Duration;

use leasehold_core::backend::{AcquireRequest, is_a_latch, is_a_semaphore};
use leasehold_core::{Error, ErrorKind, Name, Token};
use leasehold_etcd_api::{KeyValue, PutOptions, Txn, TxnResponse};

use crate::attempts::Live;
use crate::engine::Engine;
use crate::error::Cause;
use crate::key::Part;
use crate::lease::Lease;
use crate::transaction::{delete, term};
use crate::watcher::Wait;

/// The state of the queue as the server reports it.
pub(crate) enum Seen {
    Held(Held),
    Behind(Behind),
    /// Another attempt holds or waits, and we have no key.
    Taken,
    /// Our key was deleted with its lease.
    Gone,
    /// Another client came first: look again.
    Changed,
}

/// Our turn has come.
pub(crate) struct Held {
    /// The create revision of our key, and the revision at which it was last seen.
    pub(crate) created: i64,
    pub(crate) revision: i64,
    pub(crate) token: Token,
    /// The slots of a permit.
    pub(crate) slots: Vec<u32>,
    /// A writer waits behind a reader.
    pub(crate) wanted: bool,
    /// A record of the readers' token is stored.
    pub(crate) has_record: bool,
}

/// Another attempt has its turn first.
pub(crate) struct Behind {
    /// The create revision of our key, and the revision of the look.
    pub(crate) created: i64,
    pub(crate) revision: i64,
    /// The key to watch, with its create revision if it is that of the attempt directly before ours, for a writer.
    pub(crate) key: Vec<u8>,
    pub(crate) before: Option<i64>,
    pub(crate) wait: Wait,
    /// The number of attempts before ours.
    pub(crate) place: Option<u64>,
}

pub(crate) enum Failed {
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

/// An attempt whose turn is looked for.
pub(crate) struct Asking<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) request: &'a AcquireRequest,
    pub(crate) live: &'a Live,
    pub(crate) lease: Lease,
    pub(crate) limit: Duration,
    /// The lease needs no keep-alive now, and no other program writes keys of attempts: a member that lags behind may
    /// say whose turn it is.
    pub(crate) believes_member: bool,
}

impl Asking<'_> {
    pub(crate) fn own(&self) -> &[u8] {
        &self.live.key
    }

    /// Executes a transaction that puts our key.
    pub(crate) async fn put(&self, txn: Txn) -> Result<TxnResponse, Failed> {
        let called = self.engine.txn_called(self.limit, txn).await;
        let again = called.as_ref().map_or_else(|failed| failed.again, |called| called.again);
        self.engine.attempts.change(self.request.attempt, |live| live.resent |= again);
        Ok(called?.value)
    }

    /// Executes another transaction.
    pub(crate) async fn txn(&self, txn: Txn) -> Result<TxnResponse, Failed> {
        Ok(self.engine.txn(self.limit, txn).await?)
    }

    /// Returns true if this is our key. In the format of other libraries, another program may have put it under
    /// another lease.
    pub(crate) fn is_own(&self, kv: Option<&KeyValue>, created: i64) -> bool {
        let is_under = |kv: &KeyValue| !self.engine.keys.is_wire() || self.live.owns(kv.lease);
        kv.is_some_and(|kv| kv.create_revision == created && is_under(kv))
    }

    pub(crate) fn options(&self) -> PutOptions {
        PutOptions::new().with_lease(self.lease.id)
    }

    pub(crate) fn unix_ms(&self) -> u64 {
        self.engine.clock.now().unix_ms()
    }

    /// Handles a key of ours that existed before it was put: `None` if it is under the lease.
    pub(crate) async fn under_another_lease(
        &self,
        own: &KeyValue,
    ) -> Result<Option<(Seen, u64)>, Failed> {
        if own.lease == self.lease.id {
            return Ok(None);
        }
        if self.engine.keys.is_wire() {
            // It is another program's key now. With another lease, ours is another one.
            return Err(Failed::NoLease);
        }
        // The key would expire with its other lease, which no client keeps alive.
        let created = own.create_revision.unsigned_abs();
        let answer = self.txn(delete(self.own(), created)).await?;
        Ok(Some((Seen::Gone, term(&answer))))
    }
}

/// Returns the error for a lock whose name is that of this key.
pub(crate) fn other_kind(engine: &Engine, key: &[u8]) -> Error {
    match engine.keys.read(key) {
        Some((_, Part::Latch)) => is_a_latch(),
        Some((name, Part::Wire)) => used_with_wire(&name),
        _ => is_a_semaphore(),
    }
}

/// Returns the error for a lock that clients with the option `wire` use.
pub(crate) fn used_with_wire(name: &Name) -> Error {
    let what = format!(
        "clients with the option wire use the lock {name}, and this client would not exclude them; give it the option \
         also with their format, until the last of them has ended for five minutes"
    );
    Error::new(ErrorKind::Foreign, what)
}
