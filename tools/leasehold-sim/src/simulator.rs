//! A seeded simulator over the pure machines: clients and nodes with clocks of their own, links that
//! lose, delay and repeat, pauses, crashes and forgetful nodes, and a resource with and without a fence.
//!
//! One seed sets everything. A [`Plan`] says what happens; [`plan`](plan()) draws one for a set-up and a kind
//! of fault. [`run`] plays it and hands back what was seen.

mod bugs;
mod client;
mod clock;
mod draw;
mod faults;
pub mod invariants;
mod node;
mod parcel;
mod plan;
mod resource;
mod rng;
mod setup;
mod trace;
mod world;

pub use bugs::Bug;
pub use draw::{Trouble, plan};
pub use faults::Fault;
pub use invariants::{Broken, Seen};
pub use plan::{Behaviour, Network, Plan, Waiting};
pub use rng::Rng;
pub use setup::{Belief, Memory, Setup};
pub use trace::{ClientChange, Entry, NodeChange, What};
pub use world::run;

/// A second, in the simulator's nanoseconds.
pub const SECOND: u64 = 1_000_000_000;
/// A millisecond.
pub const MS: u64 = 1_000_000;
