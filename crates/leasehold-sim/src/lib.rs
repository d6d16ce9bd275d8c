//! What is done to the protocols of `leasehold-proto` to see whether they hold: every order of events
//! within a bound, random scripts that several engines are compared by, seeded runs with faults, and
//! the stories that are told with them.

mod dice;
#[cfg(feature = "model")]
pub mod file_model;
#[cfg(feature = "model")]
pub mod handoff_model;
pub mod lab;
#[cfg(feature = "model")]
pub mod quorum_model;
pub mod script;
mod shrink;
pub mod simulator;

pub use dice::Dice;
pub use shrink::shrink;
