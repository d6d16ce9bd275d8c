//! The etcd engine of Leasehold: each attempt has a key, and the oldest key of a lock holds it.
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
//! It needs etcd 3.4 or newer, and `protoc` to build. [`connect`] lists the URLs.
//!
//! | what happens | what follows |
//! |---|---|
//! | the holder crashes | the next waiter acquires when the holder's etcd lease ends: its ttl in whole seconds, 2 s at least |
//! | the holder is cut off | its guard is invalid before its etcd lease ends |
//! | a release | the next waiter watches exactly this key, and is notified by the deletion |
//! | a member fails | the others decide; without a majority no client acquires, and holders lose their locks before their deadline |
//! | an ensemble is restored from a backup | locks and tokens go back with it; see the repository's `docs/etcd.md` |
//!
//! - A fencing token is the revision at which the holder's key was created, so it grows without any clock.
//! - Waiters acquire in the order in which their keys were created.
//! - [`examine`] finds wrong settings of an ensemble.
//!
//! The repository's `docs/etcd.md` has the keys, the guarantees, the options and the costs.

mod acquire;
mod address;
mod attempts;
mod backend;
mod connect;
mod doctor;
mod engine;
mod error;
mod extend;
mod key;
mod lease;
mod lease_keeper;
mod members;
mod release;
mod renew;
mod status;
mod transaction;
mod watcher;

pub use backend::EtcdBackend;
pub use connect::connect;
pub use doctor::examine;
