//! Invalidations that are committed with their change, and cannot be lost after that.
//!
//! A process that dies between its commit and [`Cache::invalidate`](crate::Cache::invalidate) leaves
//! an old value behind. [`Cache::invalidate_in_tx`](crate::Cache::invalidate_in_tx) writes a row into
//! an [`Outbox`] table inside the program's own transaction instead: it is there if, and only if, the
//! change is. A [`Relay`] reads the rows, invalidates in Redis, and then deletes them; so each
//! invalidation is made at least once, and a second time does no harm.
//!
//! Needs one of the features `mysql`, `postgres` and `sqlite`; with `outbox` or `nats` alone it is not there.
//!
//! ```no_run
//! # #[cfg(feature = "sqlite")]
//! # async fn example(pool: sqlx::SqlitePool) -> Result<(), Box<dyn std::error::Error>> {
//! use leasehold_cache::Cache;
//! use leasehold_cache::outbox::{Outbox, Relay};
//!
//! let users: Cache<u64, String> = Cache::builder("users").open("redis://127.0.0.1:6379")?;
//! let outbox = Outbox::new();
//! outbox.create(&pool).await?;
//!
//! let mut tx = pool.begin().await?;
//! sqlx::query("UPDATE users SET name = 'Ada' WHERE id = 42").execute(&mut *tx).await?;
//! users.invalidate_in_tx(&outbox, &mut tx, &[&42]).await?;
//! tx.commit().await?;
//!
//! // In one process or in several; `leasehold cache relay` is the same as a command.
//! let relay = Relay::builder(&outbox, &pool).open("redis://127.0.0.1:6379")?;
//! relay.run(std::future::pending()).await;
//! # Ok(()) }
//! ```
//!
//! With the feature `nats`, a relay puts the changes into a stream of NATS JetStream, and a
//! `Receiver` applies them on the other side of it.
//!
//! `docs/cache-outbox.md` in the repository has the table, the bounds and the figures.

mod batch;
mod bell;
mod connect;
mod merge;
#[cfg(feature = "nats")]
mod nats;
mod put;
mod redis;
mod refusal;
mod relay;
mod rows;
mod settings;
mod stats;
mod table;
mod transact;
mod transport;

pub use connect::Database;
#[cfg(feature = "nats")]
pub use nats::{NatsTransport, Receiver, ReceiverBuilder, ReceiverStats};
pub use redis::RedisTransport;
pub use relay::Relay;
pub use settings::RelayBuilder;
pub use stats::RelayStats;
pub use table::{Outbox, Parked};
pub use transport::{Change, Refused, Transport};
