//! The memory backend: for tests and single processes, and the reference for engines that keep
//! a queue, push, rotate and keep.
//!
//! Each lock is the hand-off machine of `leasehold-proto`; what is here gives it the time, a way to
//! the clients, and the names of people.

mod backend;
mod examine;
mod record;
mod store;

pub use backend::MemoryBackend;
pub use examine::examine;
pub use store::MemoryStore;
