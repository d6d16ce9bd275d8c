//! Cache invalidations that are committed together with their change, and are never lost after
//! that.
//!
//! If a process dies between its commit and the invalidation of a cache, the cache keeps an old
//! value. With this crate, the transaction also inserts a row into an `Outbox` table: the row
//! exists if, and only if, the change does. A `Relay` reads the rows, invalidates the keys in
//! Redis, and then deletes the rows. So each invalidation is delivered at least once; a second
//! delivery does no harm.
//!
//! Needs one of the features `mysql`, `postgres` and `sqlite`; without them the crate is empty.
//!
//! ```no_run
//! # #[cfg(feature = "sqlite")]
//! # async fn example(pool: sqlx::SqlitePool) -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use leasehold_outbox::{Change, Outbox, Relay};
//!
//! let outbox = Outbox::new();
//! outbox.create(&pool).await?;
//!
//! let mut tx = pool.begin().await?;
//! sqlx::query("UPDATE users SET name = 'Ada' WHERE id = 42").execute(&mut *tx).await?;
//! // As `Cache::invalidate_in_tx` of the crate `leasehold-cache` does.
//! let change = Change::new("leasehold-cache:users", "42", Duration::ZERO);
//! outbox.insert(&mut tx, &[change]).await?;
//! tx.commit().await?;
//!
//! // In one process or in several; `leasehold cache relay` is the same as a command.
//! let relay = Relay::builder(&outbox, &pool).open("redis://127.0.0.1:6379")?;
//! relay.run(std::future::pending()).await;
//! # Ok(()) }
//! ```
//!
//! With the feature `nats`, a relay publishes the changes to a stream of NATS JetStream, and a
//! `Receiver` on the other side applies them.
//!
//! `docs/cache-outbox.md` in the repository has the table, the limits and measurements.

#![cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(all(doctest, feature = "postgres"))]
#[doc = include_str!("../README.md")]
struct Readme;

mod commit_notice;
mod database;
mod error;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod insert;
mod limits;
mod merge;
#[cfg(feature = "nats")]
mod nats;
mod redis_transport;
mod refusal;
mod relay;
mod rows;
mod table;
mod transport;

pub use database::Database;
pub use error::database_error;
pub use leasehold::rows::Engine;
pub use leasehold_cache_redis::{Error, ErrorKind, Result};
#[cfg(feature = "nats")]
pub use nats::{NatsTransport, Receiver, ReceiverBuilder, ReceiverStats};
pub use redis_transport::RedisTransport;
pub use relay::{Relay, RelayBuilder, RelayStats};
pub use table::{Outbox, Parked};
pub use transport::{Change, Refused, Transport};
