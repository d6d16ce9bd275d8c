//! Locks over a majority of independent nodes: the contract of a node, and the backend over the
//! nodes.
//!
//! `leasehold_proto::quorum` implements the protocol, which `docs/quorum.md` describes. This module
//! carries requests and replies, and turns the replies of nodes into messages.

mod backend;
mod connect;
mod driver;
mod explain;
mod members;
mod memory;
mod node;
mod slab;
mod status;
mod steward;
mod timers;

pub use backend::QuorumBackend;
pub use connect::QuorumBuilder;
pub use leasehold_proto::quorum::{Founding, MAX_TTL, Member, Outlook};
pub use members::{Members, found, found_exactly, members};
pub use memory::{MemoryNode, NodeFault};
pub use node::{Fitness, NodeEvent, NodeLease, NodeSink, QuorumNode, Step};
