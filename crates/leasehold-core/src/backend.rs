//! The interface of an engine: the [`Backend`] trait, with its requests, replies and events.
//!
//! **Unstable.** This module is for authors of engines and is not covered by semantic versioning: its
//! items may change in any minor release. Depend on an exact version (`=x.y.z`). The types that
//! programs see, such as [`Status`] and [`Capability`], are not part of it: they are at the root of
//! the crate.
//!
//! Engines differ in which component orders the waiters (the engine, or none), and in how a waiter
//! learns that its turn has come (by a push, or by a repeated request). The client implements
//! waiting, renewal, loss, local queues and metrics once for all engines.

mod also;
mod attempt_mode;
mod changes;
mod ended_attempts;
mod event;
mod reply;
mod request;
mod semaphore;
mod stored_value;
mod swept_table;
pub mod wire;

use std::fmt;
use std::pin::Pin;

use leasehold_proto::{AttemptId, ClientId, Token};

pub use also::{AlsoBackend, Covered, Mark};
pub(crate) use attempt_mode::with_mode;
pub use attempt_mode::{Mode, mode_of};
pub use changes::{ChangeSource, Changes};
pub use ended_attempts::EndedAttempts;
pub use event::{Event, EventSink, Events};
pub use reply::{Answer, Converted, Ended, Grant, Renewed, Term, Verdict};
pub use request::{AcquireRequest, ConvertRequest, Origin, ReleaseRequest, Renewal};
pub use semaphore::{
    LimitChange, LimitChanged, StoredLimit, answer_of_semaphore, event_of_semaphore, is_a_lock,
    is_a_semaphore, refused_by_limit,
};
pub use stored_value::{ValueSwap, is_a_latch, is_a_newer_latch, is_no_latch};
pub use swept_table::SweptTable;

use crate::{Capability, Forced, Name, Result, Status};

/// A boxed future, so that the backend can be chosen at run time.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The connection of one client to an engine.
///
/// Rules for implementors:
/// - Every call may be repeated with the same attempt and must then have the same effect (`acquire`
///   returns the same lease and tokens). Calls of different attempts never affect each other.
/// - The client must end only attempts that were granted or queued. A request that was refused, or
///   answered `Busy` without waiting, leaves nothing behind.
/// - An error whose kind is certain ([`ErrorKind::is_certain`](crate::ErrorKind::is_certain)) means
///   that nothing was done. After any other error the result is unknown, and the caller repeats the
///   request or ends the attempt.
/// - Every call ends within a time limit of the backend. The futures may be dropped at any await
///   point; the caller then ends the attempt with `suspect` set.
/// - An `acquire` that arrives after the release of its own attempt is refused.
pub trait Backend: Send + Sync + fmt::Debug + 'static {
    /// Returns what this engine supports. It never changes for a connection.
    fn capability(&self) -> &Capability;

    /// Returns where the locks are, for display and logs, without credentials.
    fn place(&self) -> String;

    /// Returns warnings for the user about the engine, as seen when the client connected.
    fn warnings(&self) -> &[String] {
        &[]
    }

    /// Tells the backend which client uses it, and where to send events. Called once, before any
    /// other call.
    fn attach(&self, client: ClientId, events: EventSink);

    /// Requests a lease.
    fn acquire(&self, request: AcquireRequest) -> BoxFuture<'_, Result<Answer>>;

    /// Renews a batch of leases. The answers are in the order of the leases. A renewal that fails
    /// or hangs must not delay the others.
    fn renew<'a>(&'a self, leases: &'a [Renewal]) -> BoxFuture<'a, Vec<Result<Renewed>>>;

    /// Ends an attempt in any state: releases its lease, or leaves the queue.
    fn release(&self, release: ReleaseRequest) -> BoxFuture<'_, Result<Ended>>;

    /// Turns a lease into a lease of the other mode, in one step: no other client gets in between.
    /// Engines with [`shared`](Capability::shared) implement it.
    fn convert(&self, request: ConvertRequest) -> BoxFuture<'_, Result<Converted>> {
        let error =
            self.capability().no_read_write_locks().during("convert", Some(&request.next.name));
        Box::pin(std::future::ready(Err(error)))
    }

    /// Returns the limit of a semaphore; `None` if none is stored. Engines with
    /// [`semaphores`](Capability::semaphores) implement it.
    fn limit<'a>(&'a self, name: &'a Name) -> BoxFuture<'a, Result<Option<StoredLimit>>> {
        let error = self.capability().no_semaphores().during("limit", Some(name));
        Box::pin(std::future::ready(Err(error)))
    }

    /// Changes the limit of a semaphore if its version is still the named one. Engines with
    /// [`semaphores`](Capability::semaphores) implement it.
    fn set_limit(&self, change: LimitChange) -> BoxFuture<'_, Result<LimitChanged>> {
        let error = self.capability().no_semaphores().during("set-limit", Some(&change.name));
        Box::pin(std::future::ready(Err(error)))
    }

    /// Returns the value stored under a name; `None` if there is none, or if it has expired. Engines with
    /// [`latches`](Capability::latches) implement it.
    fn value<'a>(&'a self, name: &'a Name) -> BoxFuture<'a, Result<Option<Vec<u8>>>> {
        let error = self.capability().no_latches().during("status", Some(name));
        Box::pin(std::future::ready(Err(error)))
    }

    /// Replaces the value of a name if it is still the one that the client has read; returns whether it did. A name
    /// of a lock or a semaphore is refused. Engines with [`latches`](Capability::latches) implement it.
    fn swap_value(&self, swap: ValueSwap) -> BoxFuture<'_, Result<bool>> {
        let error = self.capability().no_latches().during("count-down", Some(&swap.name));
        Box::pin(std::future::ready(Err(error)))
    }

    /// Returns the holder and the waiters of a lock. Never affects the lock.
    fn status<'a>(&'a self, name: &'a Name) -> BoxFuture<'a, Result<Status>>;

    /// Returns what is marked each time the state of a lock may have changed since this call, except
    /// by the mere end of a lease. `None` if the engine does not push that (see
    /// [`observe`](Capability::observe)): observers then ask for the status at intervals.
    ///
    /// Outside a runtime it may return `None`, too. Changes while the connection was interrupted are marked when it is
    /// established again. An engine that finds out later that it cannot push drops the source.
    fn watch(&self, _name: &Name) -> Option<Changes> {
        None
    }

    /// Returns at most `limit` known locks whose names start with `prefix`, ordered by name.
    fn list<'a>(&'a self, prefix: &'a str, limit: usize) -> BoxFuture<'a, Result<Vec<Status>>>;

    /// Ends the lease that `token` belongs to, if it is still the current lease.
    fn force_release<'a>(&'a self, name: &'a Name, token: Token) -> BoxFuture<'a, Result<Forced>>;

    /// Ends the lease of one reader, or one permit of a semaphore, and leaves the others. `mode` says which of them the
    /// name has. Engines with [`force_release_attempt`](Capability::force_release_attempt) implement it.
    fn force_release_attempt<'a>(
        &'a self,
        name: &'a Name,
        _attempt: AttemptId,
        _mode: Mode,
    ) -> BoxFuture<'a, Result<Forced>> {
        let error = self.capability().no_forced_attempts().during("force-release", Some(name));
        Box::pin(std::future::ready(Err(error)))
    }

    /// Returns a duplicate of the descriptor that keeps a session lease alive, for a process that
    /// must outlive this one. `None` if leases are not kept by a descriptor.
    #[cfg(unix)]
    fn descriptor(&self, _attempt: AttemptId) -> Option<std::os::fd::OwnedFd> {
        None
    }

    /// Returns duplicates of all descriptors that keep a session lease alive.
    #[cfg(unix)]
    fn descriptors(&self, attempt: AttemptId) -> Vec<std::os::fd::OwnedFd> {
        self.descriptor(attempt).into_iter().collect()
    }

    /// Returns how many replicas have acknowledged the grant of an attempt that holds. `None` if
    /// the store asks no replicas, or has none.
    fn replicas(&self, _attempt: AttemptId) -> Option<usize> {
        None
    }

    /// Ends an attempt without waiting, when no runtime is left to do it properly. Only engines
    /// that need no runtime implement it. For others, a client of `leasehold::connect` opens a
    /// second connection ([`ClientSettings::reopen`](crate::ClientSettings::reopen)).
    fn abandon(&self, _end: &ReleaseRequest) {}
}
