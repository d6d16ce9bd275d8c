//! The Redis engine: leases by ttl, fencing tokens, a first-come-first-served queue, and a hand-off
//! to the next waiter in one script call and one push.
//!
//! It needs Redis 7.0 or newer, or Valkey. The repository's `docs/redis.md` describes the bytes of
//! a record and the guarantees. The crate also implements one node of a quorum of independent
//! servers; see `docs/quorum.md`.

mod address;
mod backend;
mod connect;
mod error;
mod examine;
mod forget;
mod key;
mod link;
mod mute;
mod node;
mod push;
mod quorum;
mod replication;
mod reply;
mod request;
mod scan;
mod script;
mod status;
mod supervisor;
#[cfg_attr(not(feature = "tls"), path = "no_tls.rs")]
mod tls;
mod topology;
mod waiters;
mod watched;

pub use backend::RedisBackend;
pub use connect::connect;
pub use error::meaning;
pub use examine::examine;
pub use forget::forget;
pub use node::RedisNode;
pub use quorum::{Nodes, quorum};
pub use watched::WatchedMaster;
