//! Tests the protocols of `leasehold-proto`: every order of events within a bound, random scripts
//! that compare several engines, seeded runs with faults, and the stories that are built on them.
//!
//! **Unstable**: the crate is for the tests of Leasehold and for `leasehold lab`, and is not covered by semantic versioning. Its types may change in any minor release, so
//! they are not `#[non_exhaustive]`.

mod dice;
#[cfg(feature = "model")]
pub mod fifo_model;
#[cfg(feature = "model")]
pub mod file_model;
#[cfg(feature = "model")]
pub mod handoff_model;
pub mod lab;
#[cfg(feature = "model")]
pub mod primitive_model;
#[cfg(feature = "model")]
pub mod quorum_model;
#[cfg(feature = "model")]
pub mod read_write_model;
pub mod script;
#[cfg(feature = "model")]
pub mod search;
#[cfg(feature = "model")]
pub mod semaphore_model;
mod shrink;
pub mod simulator;

pub use dice::Dice;
pub use shrink::shrink;
