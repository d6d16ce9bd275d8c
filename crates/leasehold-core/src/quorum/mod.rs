//! Locks over a majority of independent nodes: what a node has to offer, and the backend over them.

mod node;

pub use node::{Fitness, NodeEvent, NodeLease, NodeSink, QuorumNode, Step};
