//! The ZooKeeper engine: ephemeral numbered nodes in Curator's layout, a watch on the predecessor
//! only, and tokens from the ensemble's log.
//!
//! ZooKeeper 3.5 or newer. What is promised and what it costs is described in the repository's
//! `docs/zookeeper.md`.

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

pub use backend::ZooKeeperBackend;
pub use connect::{connect, forget};
pub use examine::examine;
