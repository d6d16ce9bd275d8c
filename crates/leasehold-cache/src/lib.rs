//! A cache in front of a database that neither collapses nor lies.
//!
//! [`Cache::get`] looks into this process, then into Redis, and loads what is in neither: once for
//! the whole fleet, by a *fill lease*, and never over something newer. [`Cache::begin_write`]
//! brackets a write to the database, so that no reader puts an old value back while it is under way.
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
//! One entry of key `k` is three keys in Redis, in one slot of a cluster:
//!
//! | key | what it holds |
//! |---|---|
//! | `{prefix:name:k}` | the entry: `L1`, one byte of flags, id (8 bytes: 5 of the server's run, 3 of the fill), soft expiry (Unix ms, 8), load time (µs, 4), schema (4, unless it is 0), payload |
//! | `{prefix:name:k}:l` | the fill lease: the token of the one load that may fill |
//! | `{prefix:name:k}:h` | writes under way: token and expiry, by the server's clock |
//!
//! A hit in Redis is one plain `GET`.
//!
//! Beside the cache: [`bloom`], filters that know which keys do not exist; [`bitmap`], sets of numbers;
//! [`once`], rows that are saved once and work that is done once.
//!
//! The example `service` has it all behind HTTP routes, with a load that shows what each defence does.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod bitmap;
pub mod bloom;
mod breaker;
mod builder;
mod cache;
mod codec;
mod early;
mod entry;
mod error;
mod filter;
mod flight;
mod get;
mod health;
mod hearing;
mod hold;
mod lag;
mod link;
mod listen;
mod local;
mod many;
pub mod once;
#[cfg(all(feature = "outbox", any(feature = "mysql", feature = "postgres", feature = "sqlite")))]
pub mod outbox;
mod per_process;
mod redrive;
mod remote;
mod run;
mod server;
mod stats;
mod user;
mod wire;
mod words;
mod write;

pub use builder::{Builder, Mode};
pub use cache::{Cache, Key};
pub use codec::Codec;
pub use error::{BoxError, Error, ErrorKind, Result};
pub use filter::Filter;
pub use get::{Load, Source};
pub use stats::Stats;
pub use write::{Invalidation, Write};
