//! Fenced values in Redis: one script compares the token and sets the value. Needs the feature
//! `fence-redis`.
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
//! written.into_result()?; // `Stale` if a later holder has written
//!
//! guard.release().await?;
//! client.close().await;
//! # Ok(()) }
//! ```
//!
//! Any connection of the crate `redis` 1.8 can be used: single server, Sentinel or cluster.
//!
//! # What is stored
//!
//! The value is a plain string under its own key, so readers continue to use GET. The fence is the
//! largest token seen, stored as 16 digits under `{key}:fence`, or under `key:fence` if the key has
//! a `{tag}`. Both keys are in the same cluster slot, and each has its own time to live. (A hash
//! would need only one key. But all readers would have to change, and before Redis 7.4 its fields
//! could not expire at different times.)
//!
//! A value without a fence accepts the first token.
//!
//! # Limits
//!
//! - The fence does not stop a program that writes with plain SET or DEL. Permissions (`ACL`) can.
//! - If Redis loses the fence's key, a late write is accepted. Redis loses it by eviction, by
//!   FLUSHALL, by a restart without persistence, or by a failover that loses the last writes. Keep
//!   fenced values on a server with `noeviction`.
//! - Keys with a `}` but no `{tag}` are refused, because no other key is certain to be in the same
//!   slot.
//! - A repeated write of the same holder is accepted: the token orders holders, not the writes of
//!   one holder.

mod key;
mod newer;
mod owner;
mod script;
mod settings;

/// The version of the crate `redis` whose connections the methods take.
pub use ::redis;
pub use newer::FencedValue;
pub use owner::Owned;
pub use settings::RedisFence;
