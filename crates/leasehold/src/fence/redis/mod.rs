//! Fenced values in Redis: the token is compared and the value set in one script. Needs the
//! feature `fence-redis`.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use leasehold::fence::redis::RedisFence;
//!
//! let client = leasehold::connect("memory:").await?;
//! let guard = client.lock("orders/555").acquire().await?;
//!
//! let redis = redis::Client::open("redis://127.0.0.1:6379")?;
//! let mut connection = redis.get_multiplexed_async_connection().await?;
//!
//! let fence = RedisFence::new();
//! let written = fence.set_if_newer(&mut connection, "order:555", "paid", guard.token()).await?;
//! written.into_result()?; // `Stale` when a later holder has written
//!
//! guard.release().await?;
//! client.close().await;
//! # Ok(()) }
//! ```
//!
//! Any connection of crate `redis` 1.8 will do: single, with Sentinel, cluster.
//!
//! # What is stored
//!
//! The value is a plain string under its own key, so that programs that only read go on with GET
//! and need to know nothing. Its fence, the largest token seen, is 16 digits under `{key}:fence`
//! (or `key:fence` where the key has a `{tag}` already): in the same cluster slot, and with a time
//! to live of its own. A hash of both would be one key, but change how everybody reads, and its
//! fields could not end at different times before Redis 7.4.
//!
//! A value that was there before takes the first token that comes.
//!
//! # Limits
//!
//! - A program that writes with plain SET or DEL is not stopped. Permissions can (`ACL`).
//! - Redis forgets what it is told to: eviction of the fence's key, FLUSHALL, a restart without
//!   persistence, or a failover that loses the last writes take the mark with them, and a late
//!   write passes. Keep fenced values on a server with `noeviction`.
//! - Keys with a `}` but no `{tag}` are refused, since no second key is sure to share their slot.
//! - A repeated write of one holder passes: the token orders holders, not the writes of one.

mod key;
mod newer;
mod owner;
mod script;
mod settings;

pub use newer::FencedValue;
pub use owner::Owned;
pub use settings::RedisFence;
