//! The etcd engine of Leasehold: each attempt has a key, and the oldest key of a lock, or the oldest ones of
//! readers, hold it.
//!
//! Programs use it through the crate `leasehold` with the feature `etcd`. To use this crate alone:
//!
//! ```no_run
//! # #[tokio::main] async fn main() -> leasehold_core::Result<()> {
//! use leasehold_core::{Client, StoreUrl};
//!
//! let url = StoreUrl::parse("etcd://one,two,three")?;
//! let client = Client::new(std::sync::Arc::new(leasehold_etcd::connect(url).await?))?;
//! let guard = client.lock("orders/555").acquire().await?;
//! println!("holding with token {}", guard.token());
//! guard.release().await?;
//! client.close().await;
//! # Ok(()) }
//! ```
//!
//! It needs etcd 3.4 or newer. [`connect`] lists the URLs. [`connect_with_wire`] connects for locks
//! in the format of Go's `concurrency.Mutex`, jetcd and `etcdctl lock`.
//!
//! | what happens | what follows |
//! |---|---|
//! | the holder crashes | the next waiter acquires when the holder's etcd lease expires: its ttl in whole seconds, at least 2 s |
//! | the holder loses its connection | its guard is invalid before its etcd lease expires |
//! | a release | the next waiter watches exactly this key, and the deletion notifies it |
//! | a member fails | the other members continue; without a majority no client acquires, and holders lose their locks before their deadline |
//! | a cluster is restored from a backup | locks and tokens are restored to the old state; see the repository's `docs/etcd.md` |
//!
//! - A fencing token is the revision at which the holder's key was created, so it grows without any clock. All readers
//!   of a phase have one, which is stored beside the queue.
//! - Waiters acquire in the order in which their keys were created.
//! - [`diagnose`] finds wrong settings of a cluster.
//!
//! # Requests
//!
//! | operation | proposals (written by a majority) | other requests |
//! |---|---|---|
//! | acquire and release, no other client wants the lock | 2 | 1 keep-alive, on a stream that stays open; none if the lease was kept alive within the last fiftieth of the ttl |
//! | the first acquire of a client, or with a new ttl | 1 more: the lease | opening the streams |
//! | acquire and release to read | 3: the second stores the token of the phase, unless an earlier reader did | 2 reads if it does not wait, and a watch after 100 ms |
//! | downgrade, upgrade | 1 | 1 read, 1 keep-alive |
//! | permit and its release, no client waits | 2; 1 more for a client that waits | 1 read of all keys of the semaphore |
//! | change of a latch | 3: the lease, the key; later the earlier lease | 1 read |
//! | hand-off to a waiter | 1: the release; the waiter's key was 1 when it joined the queue | 1 event, 1 read, 1 keep-alive |
//! | renewal of n locks | 0 | n keep-alives, n/100 reads of up to 100 keys |
//! | extending a fixed lease beyond its etcd lease | 2: the new lease, the key; later 1: revoking the old lease | 1 read, and 1 of a batch |
//! | lock held for longer than a second | 0 | 1 watch |
//! | observing a name | 0 | 1 stream with 1 watch, for all its observers |
//! | try that finds the lock taken | 0 | 1 transaction that writes nothing |
//!
//! A hand-off takes two round trips, the first of which is written to disk. The tests `waiters::` and
//! `clean_releases_use_the_same_lease_again` count requests at the server.
//!
//! - A renewal sends a keep-alive and a read of the key at the same time. The leader keeps a lease alive without the other
//!   members, but a majority must confirm the read. The renewal counts only if both answers come from the same term, so a
//!   replaced leader cannot renew a lease.
//! - No waiter depends on a watch. A waiter asks again after a third of its lease, after 10 s at the latest; each such request
//!   also keeps its lease alive.
//! - A waiter's watch starts at the current revision, since etcd serves watches that start in the past only every 100 ms. If
//!   there were writes between the read of the queue and this start, the client reads the watched key once more.
//! - A holder watches its key from the revision at which the client last saw it, so it misses no deletion when a stream is
//!   opened again. If the cluster has compacted that revision, the client reads the key.
//! - The client probes a stream that has watches every 3 s.
//!
//! The repository's `docs/etcd.md` has the options, the guarantees, the limits and the keys.
//!
//! What follows is the page of the store in the documentation; its links to other pages work in the repository.

#![cfg_attr(all(doc, not(doctest)), doc = include_str!("../docs.md"))]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod acquire;
mod address;
mod asking;
mod attempts;
mod backend;
mod connect;
mod convert;
mod doctor;
mod engine;
mod entry;
mod error;
mod extend;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod kept_limits;
mod key;
mod latch;
mod lease;
mod lease_keeper;
mod limit;
mod login;
mod members;
mod observe;
mod permits;
mod queue;
mod readers;
mod record;
mod release;
mod renew;
mod status;
mod successor;
mod transaction;
mod watcher;
mod wire;

pub use backend::EtcdBackend;
pub use connect::{connect, connect_with_wire, names_a_wire};
pub use doctor::diagnose;
pub use wire::WireBackend;
