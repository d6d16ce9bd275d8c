//! The client of Leasehold, which all engines share: locks, guards, renewal, waiting and the memory engine.
//!
//! Programs use the crate `leasehold`, which exports this API and opens any engine by its URL. Use this crate to write an
//! engine, or to build a client without the others:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> leasehold_core::Result<()> {
//! use std::sync::Arc;
//! use leasehold_core::{Client, memory::MemoryStore};
//!
//! let client = Client::new(Arc::new(MemoryStore::new().connect()))?;
//! let guard = client.lock("orders/555").acquire().await?;
//! assert!(guard.is_valid());
//! guard.release().await?;
//! client.close().await;
//! # Ok(()) }
//! ```
//!
//! - [`Client`], [`Lock`], [`Guard`], [`MultiLock`], [`MultiGuard`], [`RwLock`], [`Semaphore`], [`Permit`], [`Latch`], [`Owner`], [`Election`]: what programs use.
//! - [`backend::Backend`]: what an engine implements. `leasehold-conformance` has the tests that it must pass.
//! - [`doctor`]: what an engine reports about the settings of its server.
//! - [`telemetry`]: the metrics. Spans and events go to `tracing` under the target `leasehold_core`.
//! - [`clock`]: clocks, which tests replace.
//! - [`StoreUrl`], [`TlsFiles`], [`certificate_fault`], [`filesystem`], [`random`] and [`proto`]: for authors of engines, and
//!   **unstable** as [`backend`] is.
//!
//! The decisions that need no I/O are in `leasehold-proto`.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod acquire;
mod announce;
mod any_loss;
mod asks;
pub mod backend;
mod background_job;
mod cached_leases;
mod caching;
mod capability;
mod certificate;
mod client;
pub mod clock;
mod common_errors;
mod convert;
pub mod doctor;
mod driver;
mod election;
mod engine_request;
mod error;
mod extend;
pub mod filesystem;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod guard;
mod hold;
mod hold_end;
mod hold_traits;
mod keyed_mutex;
mod knobs;
pub mod latch;
mod latch_state;
mod late_releases;
mod leaders;
mod leadership;
mod local_handoff;
mod local_queue;
mod lock;
mod lock_changes;
pub mod memory;
mod multi_guard;
mod multi_lock;
mod name;
mod on_loss;
mod options;
mod owner;
mod patience;
mod pending_release;
mod permit;
mod permit_waiters;
pub mod random;
mod read_leases;
mod release;
mod renewal;
mod rw_guard;
mod rw_lock;
#[doc(hidden)]
pub mod safe_text;
mod scope;
mod semaphore;
mod settings;
mod shared;
mod stale_token;
mod status;
mod table_capacity;
pub mod telemetry;
mod timeout_error;
mod timer_buckets;
mod url;

pub use announce::Announce;
pub use any_loss::LostLock;
pub use capability::{Capability, LeaseKind, ReadOrder};
pub use certificate::certificate_fault;
pub use client::Client;
pub use election::Election;
pub use error::{Error, ErrorKind, Result, Retry};
pub use guard::Guard;
pub use latch::{Latch, LatchState};
pub use leaders::{Leader, Leaders};
pub use leadership::{Leadership, Term};
pub use leasehold_proto as proto;
pub use leasehold_proto::{
    AttemptId, ClientId, Deadline, LossReason, NotAToken, Now, Token, TokenBlock,
};
pub use lock::Lock;
pub use lock_changes::LockChanges;
pub use multi_guard::MultiGuard;
pub use multi_lock::MultiLock;
pub use name::{Name, NotAName};
pub use on_loss::OnLoss;
pub use owner::Owner;
pub use permit::Permit;
pub use rw_guard::{ReadGuard, Upgraded, WriteGuard};
pub use rw_lock::RwLock;
pub use semaphore::Semaphore;
pub use settings::ClientSettings;
pub use shared::Usage;
pub use stale_token::{Fenced, Stale};
pub use status::{Forced, Holder, Permits, Permitted, State, Status, Waiter};
/// What [`Guard::cancellation_token`] returns: the type of `tokio-util` 0.7, re-exported so that
/// programs need not depend on that crate in the same version.
pub use tokio_util::sync::CancellationToken;
pub use url::{AlsoUrls, StoreUrl, TlsFiles};
