//! The ZooKeeper engine: ephemeral numbered nodes in Curator's layout, a watch on the predecessor
//! only, and tokens from the ensemble's log.
//!
//! Requires ZooKeeper 3.5 or newer. The repository's `docs/zookeeper.md` describes the guarantees
//! and the costs.

mod acquire;
mod address;
mod backend;
mod book;
mod card;
mod connect;
mod diagnose;
mod ending;
mod error;
mod examine;
mod keeper;
mod path;
mod renew;
mod session;
mod status;
mod store;
#[cfg_attr(not(feature = "tls"), path = "no_tls.rs")]
mod tls;

pub use backend::ZooKeeperBackend;
pub use connect::{connect, forget};
pub use examine::examine;
