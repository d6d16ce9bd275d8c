//! Locks over a majority of independent nodes: what a node has to offer, and the backend over them.
//!
//! The protocol is `leasehold_proto::quorum`, described in `docs/quorum.md`. What is here carries
//! requests and replies, and tells people what the nodes say.

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
pub use members::{Members, found, members, refuse_other_max_ttl};
pub use memory::{MemoryNode, NodeFault};
pub use node::{Fitness, NodeEvent, NodeLease, NodeSink, QuorumNode, Step};
