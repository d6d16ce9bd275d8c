//! Redlock with tokens: one lock over independent nodes, some of which may forget what they knew.
//!
//! Three machines. A [`Node`] is what one node does atomically; the memory nodes run it as it is,
//! and the scripts of a server are compared with it. An [`Attempt`] is one client's try to get
//! the lock from a majority of the nodes, to keep it and to give it back. An [`Admission`] decides
//! which nodes may vote. Time and randomness are arguments; drivers carry requests and replies.
//!
//! The voting is that of the Redlock algorithm (Redis documentation, "Distributed Locks with
//! Redis"). Tokens and admission are described in `docs/quorum.md`.

mod admission;
mod attempt;
mod marker;
mod node;
mod words;

use core::time::Duration;

pub use admission::{Admission, Founding, Halt, Member, Outlook, Task, TaskReply};
pub use attempt::Attempt;
pub use marker::{Look, Marker, ProcessId, Survey};
pub use node::{Lease, Node};
pub use words::{Denied, Event, Op, Refusal, Reply, Request, Tally, Terms, Why};

/// The longest ttl that nodes grant unless they were set up otherwise. A node that may have
/// forgotten stays out for about as long.
pub const MAX_TTL: Duration = Duration::from_secs(60);
/// A node refuses proposed tokens further ahead of its own clock than this, so that one wrong
/// clock cannot use the tokens up.
pub const AHEAD: Duration = Duration::from_secs(3600);
/// How long a node remembers a lock's own counter after its last lease; then its high-water mark
/// stands in.
pub const RETENTION: Duration = Duration::from_secs(3600);

/// How long a node refuses an attempt that was ended before its acquire arrived.
pub const TOMBSTONE: Duration = crate::handoff::TOMBSTONE;

/// How many of the *configured* nodes are a majority.
pub const fn majority(nodes: usize) -> usize {
    nodes / 2 + 1
}

/// How long one node is waited for unless configured otherwise: ttl/200, between 5 and 50 ms.
pub fn node_limit(ttl: Duration) -> Duration {
    (ttl / 200).clamp(Duration::from_millis(5), Duration::from_millis(50))
}

/// How long a node stays out after it may have forgotten: every lease it can have granted before
/// is over then, and 1 % for clocks of different rates.
pub fn admission_wait(max_ttl: Duration) -> Duration {
    max_ttl.saturating_add(max_ttl / 100)
}

#[cfg(test)]
#[path = "quorum_tests.rs"]
mod tests;
