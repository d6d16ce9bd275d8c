//! The memory backend: for tests and single processes, and the reference for engines that support
//! queues, pushes, `rotate` and `keep`.
//!
//! Each lock is the read-write record, and each semaphore the semaphore record, of `leasehold-proto`. This module adds the time, a way to
//! reach the clients, and the names of the holders.

mod backend;
mod doctor;
mod entry;
mod record;
mod semaphore;
mod store;
mod value;

pub use backend::MemoryBackend;
pub use doctor::diagnose;
pub use store::MemoryStore;
