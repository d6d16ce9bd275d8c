//! The memory backend: for tests and single processes, and the reference for engines that keep
//! a queue, push, rotate and keep.
//!
//! It implements the hand-off protocol for one node in memory: records with token blocks, a queue
//! of waiters, offers that the first renewal confirms, and a tombstone for an attempt whose
//! requests may still be on their way.

mod backend;
mod record;
mod store;

pub use backend::MemoryBackend;
pub use store::MemoryStore;
