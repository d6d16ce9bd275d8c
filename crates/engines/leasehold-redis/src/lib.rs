//! The Redis engine of Leasehold: locks on one server, behind Sentinel, in a Cluster, or over a quorum of
//! independent servers (Redlock).
//!
//! Programs use it through the crate `leasehold` with the feature `redis`. To use this crate alone:
//!
//! ```no_run
//! # #[tokio::main] async fn main() -> leasehold_core::Result<()> {
//! use leasehold_core::{Client, StoreUrl};
//!
//! let url = StoreUrl::parse("redis://127.0.0.1:6379")?;
//! let client = Client::new(std::sync::Arc::new(leasehold_redis::connect(url).await?))?;
//! let guard = client.lock("orders/555").acquire().await?;
//! println!("holding with token {}", guard.token());
//! guard.release().await?;
//! client.close().await;
//! # Ok(()) }
//! ```
//!
//! It needs Redis 7.0 or newer. [`connect`] lists the URLs; `rediss:` and the other schemes over TLS need the
//! feature `tls`.
//!
//! | what happens | what follows |
//! |---|---|
//! | the holder crashes | the next waiter acquires when the ttl ends (30 s by default) |
//! | the holder loses its connection | its guard is invalid before the server grants the lock to another client |
//! | a release | one script call hands the lock to the next waiter in order of arrival, and one push notifies it |
//! | the server loses its data | two clients may hold the lock; tokens still grow unless its clock also went back, so a check at the resource refuses the older holder |
//! | the same with `admission=strict` | no client acquires until the lost leases have ended |
//! | a minority of a quorum loses its data | those nodes do not vote until the lost leases have ended; the others grant |
//!
//! - One lock is a record of about 320 bytes, in one slot of a cluster. It expires within `retain` (40 minutes) after its last lease.
//! - Uncontended, acquire and release are one script call each.
//! - [`quorum`] opens the nodes of a `redlock:` URL. Its protocol is in `leasehold_quorum`.
//! - [`diagnose`] finds wrong settings of a server, [`forget`] removes records that no client
//!   needs.
//!
//! The repository's `docs/redis.md` has the guarantees, the options and the access rights, `docs/redis-wire.md` the bytes
//! of a record, and `docs/quorum.md` the quorum.
//!
//! What follows is the page of the store in the documentation; its links to other pages work in the repository.

#![cfg_attr(all(doc, not(doctest)), doc = include_str!("../docs.md"))]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod acquire;
mod address;
mod backend;
mod batcher;
mod call_limit;
mod command;
mod connect;
mod connection;
mod convert;
mod data_server;
mod doctor;
mod error;
mod forget;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod key;
mod latch;
mod node;
mod permits;
mod push;
mod push_support;
mod quorum;
mod release;
mod renew;
mod replica_policy;
mod replication;
mod reply;
mod request;
mod retain;
#[cfg(test)]
mod sample_requests;
mod scan;
mod scheme;
mod script;
mod semaphore;
mod sentinel_master;
mod shared;
mod source;
mod status;
mod supervisor;
#[cfg_attr(not(feature = "tls"), path = "no_tls.rs")]
mod tls;
mod topology;
mod waiters;
mod watched;
mod wire;
mod wire_format;

/// The version of the crate `redis` whose types [`data_client`], [`meaning`] and [`SentinelMaster`] use.
pub use ::redis;
pub use backend::RedisBackend;
pub use connect::{connect, connect_with_wire, names_a_wire, quorum_with_wire};
pub use data_server::data_client;
pub use doctor::{diagnose, foreign_locks};
pub use error::meaning;
pub use forget::forget;
pub use node::RedisNode;
pub use quorum::{Nodes, quorum};
pub use sentinel_master::SentinelMaster;
pub use wire::{WireBackend, WireQuorum};
