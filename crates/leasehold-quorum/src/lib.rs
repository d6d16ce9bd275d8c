//! Locks over a majority of independent nodes: Redlock with fencing tokens, over anything that offers the steps of a node.
//!
//! Programs whose nodes are Redis servers need only the crate `leasehold` and a `redlock://` URL. Use this crate to make one
//! lock service of several stores of your own: implement [`QuorumNode`] for one of them.
//!
//! `leasehold_proto::quorum` implements the protocol, which the repository's `docs/quorum.md` describes. This crate
//! carries requests and replies, and turns the replies of nodes into messages.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod admission_driver;
mod backend;
mod connect;
mod driver;
mod explain;
mod fitness;
mod membership;
mod memory;
mod node;
mod set_up;
mod slab;
mod status;
mod telemetry;
mod timers;

pub use backend::QuorumBackend;
pub use connect::QuorumBuilder;
pub use leasehold_proto::quorum::{Founding, MAX_TTL, Member, Outlook};
pub use membership::Members;
pub use memory::{MemoryNode, NodeFault};
pub use node::{Fitness, NodeEvent, NodeLease, NodeSink, QuorumNode, Step};
pub use set_up::{found, found_exactly, members};
