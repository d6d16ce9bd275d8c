//! What is done to the protocols of `leasehold-proto` to see whether they hold: every order of events
//! within a bound, and random scripts that several engines are compared by.

pub mod handoff_model;
pub mod quorum_model;
pub mod script;
pub mod simulator;
