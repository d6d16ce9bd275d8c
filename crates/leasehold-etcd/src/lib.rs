//! The etcd engine of Leasehold: a key for each attempt, ordered by revision, and a watch on the predecessor.
//!
//! Requires etcd 3.4 or newer. The repository's `docs/etcd.md` describes the keys, the guarantees
//! and the costs.

mod acquire;
mod address;
mod attempts;
mod backend;
mod connect;
mod error;
mod examine;
mod keeper;
mod key;
mod lease;
mod members;
mod release;
mod renew;
mod status;
mod watcher;

pub use backend::EtcdBackend;
pub use connect::connect;
pub use examine::examine;
