//! Chaos with real processes: the servers of an engine and its clients are stopped, killed, restarted and
//! cut off while the clients count under a lock; afterwards what they wrote down is checked.
//!
//! `cargo xtask chaos` builds and runs it; `docs/evidence.md` says how to run it and what it found.

mod args;
mod check;
mod client;
mod cluster;
mod election;
mod failure;
mod fault;
mod gate;
mod journal;
mod kept_plan;
mod loss;
mod master_switch;
mod operator;
mod part;
mod plan;
mod progress;
mod replay;
mod report;
mod resource;
mod run;
mod setup;
mod shrink;
mod transfers;
mod workload;
mod written;

pub use args::main;

/// What goes wrong here is only ever shown.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// A second, in nanoseconds of the clock that counts suspend: all times here are of it.
pub(crate) const SECOND: u64 = 1_000_000_000;
/// A millisecond.
pub(crate) const MS: u64 = 1_000_000;

/// Of every lease.
pub(crate) const TTL: std::time::Duration = std::time::Duration::from_secs(1);

/// The time now.
pub(crate) fn now() -> u64 {
    leasehold::clock::Clock::system().now().steady_ns
}
