//! Cache protection over Redis: one load per missing key, no stale writes, no lost invalidation.
//!
//! [`Cache::get`] looks into the memory of this process, then into Redis. If both lack the value,
//! one process loads it: a *fill lease* in Redis excludes the others, and a fill never replaces a
//! newer value. [`Cache::begin_write`] encloses a write to the database, so that no reader fills an
//! old value during the write.
//!
//! ```
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use leasehold_cache::Cache;
//!
//! let users: Cache<u64, String> = Cache::builder("users").open("redis://127.0.0.1:6379")?;
//! // None: there is no such user, and that is remembered too.
//! let name = users.get(&42, |_| async { read_from_database(42).await }).await?;
//!
//! let write = users.begin_write(&[&42]).await?;
//! // ... the transaction ...
//! write.committed().await?;
//! # drop(name); Ok(()) }
//! # async fn read_from_database(id: u64) -> std::io::Result<Option<String>> { Ok(Some(id.to_string())) }
//! ```
//!
//! The entry of key `k` uses three keys in Redis, in one slot of a cluster:
//!
//! | key | what it holds |
//! |---|---|
//! | `{prefix:name:k}` | the entry: `L1`, one byte of flags, id (8 bytes: 5 of the server's run, 3 of the fill), soft expiry (Unix ms, 8), load time (µs, 4), schema (4, unless it is 0), payload |
//! | `{prefix:name:k}:l` | the fill lease: the token of the one load that may fill |
//! | `{prefix:name:k}:h` | writes in progress: token and expiry, by the server's clock |
//!
//! A hit in Redis is one plain `GET`.
//!
//! With the feature `filters`, a filter of the crate `leasehold-filters` excludes keys that do not
//! exist (`Builder::filter`).
//!
//! The example `service` serves a cache over HTTP, and shows under load what each protection does.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod builder;
mod cache;
mod compression;
mod early_refresh;
mod entry;
#[cfg(feature = "filters")]
mod filter;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod gate;
mod get;
mod get_many;
mod key;
mod listener;
mod load;
mod load_error;
mod local_entries;
mod owed;
#[cfg(feature = "filters")]
mod per_process;
mod reinvalidate;
mod remote;
mod settings;
mod single_flight;
mod state;
mod stats;
mod subscription;
#[cfg(all(feature = "outbox", any(feature = "mysql", feature = "postgres", feature = "sqlite")))]
mod transaction;
mod write;
mod write_hold;

pub use builder::Builder;
pub use cache::Cache;
#[cfg(feature = "filters")]
pub use filter::Filter;
pub use key::Key;
pub use leasehold_cache_redis::{BoxError, Codec, Error, ErrorKind, Result};
#[cfg(feature = "filters")]
pub use leasehold_filters::bloom;
#[cfg(all(
    feature = "outbox",
    any(feature = "mysql", feature = "postgres", feature = "sqlite")
))]
pub use leasehold_outbox as outbox;
pub use load::{Load, Source};
pub use settings::Mode;
pub use stats::Stats;
pub use write::{Invalidation, Write};
