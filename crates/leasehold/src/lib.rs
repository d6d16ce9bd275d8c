//! Distributed locks: of many processes that might do the same work, one does it at a time.
//!
//! ```
//! # #[tokio::main] async fn main() -> leasehold::Result<()> {
//! let client = leasehold::connect("memory:").await?; // or file:/var/lib/my-service/locks
//! let lock = client.lock("orders/555"); // no I/O yet
//!
//! let guard = lock.acquire().await?; // waits
//! assert!(lock.try_acquire().await?.is_none()); // does not
//! assert!(guard.is_valid() && guard.token().get() > 0);
//! guard.release().await?; // says whether it was held until here
//!
//! lock.run(|guard| async move {
//!     // The work: dropped at its next await point when the lock is lost.
//!     println!("holding {} with token {}", guard.name(), guard.token());
//! })
//! .await?;
//! client.close().await; // the last line: what was dropped is released before the process ends
//! # Ok(()) }
//! ```
//!
//! - A [`Guard`] is valid by the clock, never by a flag; it is told of loss before its lease ends.
//! - Every guard carries a fencing [`Token`] that grows from holder to holder; [`fence`] has the
//!   checks for the other side.
//! - A guard must be bound to a name: `let _ = lock.acquire().await?` drops, and so releases, it at
//!   once.
//! - Releasing and renewing compare the attempt that acquired, so a late release never touches
//!   somebody else's lock.
//! - Work that can be kept on one instance waits less: [`route`] says whose key it is.
//! - Waiting is in order, and a waiter is woken when it is its turn.
//!
//! What each engine promises is in the repository's `docs/guarantees.md`. Programs without an
//! async runtime use [`blocking`]. Metrics are listed in [`telemetry`]; spans and events go to
//! `tracing` under the target `leasehold_core`.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod blocking;
mod connect;
pub mod doctor;
pub mod fence;
mod init;
pub mod quorum;
pub mod route;

/// Rows that many tasks write. Needs one of the features `mysql`, `postgres` and `sqlite`.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub use leasehold_sql::rows;

pub use connect::{connect, connect_on_own_thread, forget, open, schemes};
pub use init::{init, init_statements};
pub use leasehold_core::backend::{
    Backend, Capability, Forced, Holder, LeaseKind, State, Status, Waiter,
};
pub use leasehold_core::{
    AttemptId, Client, ClientBuilder, Deadline, Error, ErrorKind, Guard, Lock, LossReason, Name,
    NotAToken, OnLoss, Owner, Result, Retry, StoreUrl, Token, Usage, backend, clock, memory,
    telemetry,
};

/// What a program that locks needs most.
pub mod prelude {
    pub use crate::{Client, Error, ErrorKind, Guard, Lock, OnLoss, Owner, Token, connect};
}
