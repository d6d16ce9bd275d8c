//! The Redis engine: leases by ttl, fencing tokens, a first-come-first-served queue, and hand-over
//! to the next waiter in one script call and one push.
//!
//! Redis 7.0 or newer, or Valkey. The record's bytes and what is promised are described in the
//! repository's `docs/redis.md`. Beside it, what one of several independent servers does for locks
//! over a majority of them; see `docs/quorum.md`.

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
mod topology;
mod waiters;
mod watched;

pub use backend::RedisBackend;
pub use connect::connect;
pub use examine::examine;
pub use forget::forget;
pub use node::RedisNode;
pub use quorum::{Nodes, quorum};
pub use watched::WatchedMaster;
