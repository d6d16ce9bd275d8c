//! Distributed locks with leases, fencing tokens and early notification of a lost lock.
//!
//! ```
//! # #[tokio::main] async fn main() -> leasehold::Result<()> {
//! let client = leasehold::connect("memory:").await?; // or file:/var/lib/my-service/locks
//! let lock = client.lock("orders/555"); // no I/O yet
//!
//! let guard = lock.acquire().await?; // waits until the lock is available
//! assert!(lock.try_acquire().await?.is_none()); // does not wait
//! assert!(guard.is_valid() && guard.token().get() > 0);
//! guard.release().await?; // an error if the lock was lost before this call
//!
//! lock.run(|guard| async move {
//!     // The work. If the lock is lost, this future is dropped at its next await point.
//!     println!("holding {} with token {}", guard.name(), guard.token());
//! })
//! .await?;
//! client.close().await; // call it last: it waits for the releases of dropped guards
//! # Ok(()) }
//! ```
//!
//! - A [`Guard`] decides its validity by the clock, not by a flag. It reports a loss before its
//!   lease expires.
//! - Every guard has a fencing [`Token`], which is larger for each later holder of the lock. The
//!   module [`fence`] has the checks for the protected resource.
//! - Bind a guard to a name: `let _ = lock.acquire().await?` drops the guard, and so releases the
//!   lock, immediately.
//! - Release and renewal compare the id of the attempt that acquired the lock, so a late release
//!   does not affect a later holder.
//! - [`Client::lock_all`] acquires several locks or none of them. [`Client::semaphore`] lets up to
//!   a limit in. [`Client::election`] elects a leader. [`Client::latch`] waits for several parties.
//! - Waiters acquire in the order in which they began to wait. The client is notified when its
//!   turn comes, so it does not poll.
//! - If all work for a key goes to one instance, its tasks wait in memory and send fewer requests.
//!   The module [`route`] computes which instance that is.
//!
//! The guarantees of each engine are in the repository's `docs/guarantees.md`. Programs without an
//! async runtime use [`blocking`]. The module [`telemetry`] lists the metrics; spans and events go
//! to `tracing` under the target `leasehold_core`.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod blocking;
mod connect;
pub mod doctor;
pub mod fence;
mod init;
pub mod quorum;
pub mod route;
mod store_url;

/// Updates rows that many tasks write at the same time. Needs one of the features `mysql`,
/// `postgres` and `sqlite`.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub use leasehold_sql::rows;

/// **Unstable**: the interface of engines. Its items may change in any minor release; programs that only use locks
/// do not need it.
#[doc(inline)]
pub use leasehold_core::backend;

/// For the command and the server of this repository; no part of the interface.
#[doc(hidden)]
pub use leasehold_core::safe_text;

pub use connect::{
    connect, connect_on_own_thread, connect_with, forget, missing_features, open, schemes,
};
pub use init::{init, init_statements};
pub use leasehold_core::{
    AttemptId, CancellationToken, Capability, Client, ClientId, ClientSettings, Deadline, Election,
    Error, ErrorKind, Forced, Guard, Holder, Latch, LatchState, Leader, Leaders, Leadership,
    LeaseKind, Lock, LockChanges, LossReason, LostLock, MultiGuard, MultiLock, Name, NotAName,
    NotAToken, OnLoss, Owner, Permit, Permits, Permitted, ReadGuard, Result, Retry, RwLock,
    Semaphore, State, Status, StoreUrl, Term, Token, Upgraded, Usage, Waiter, WriteGuard, clock,
    memory, telemetry,
};

/// The types and functions that most programs need.
pub mod prelude {
    pub use crate::{Client, Error, ErrorKind, Guard, Lock, OnLoss, Owner, Token, connect};
}
