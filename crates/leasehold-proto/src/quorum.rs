//! Redlock with tokens: one lock over independent nodes, some of which may have lost data.
//!
//! There are three machines. A [`Node`] is what one node does atomically; the memory nodes run it
//! unchanged, and tests compare the scripts of a server with it. An [`Attempt`] is the attempt of
//! one client to acquire the lock from a majority of the nodes, to hold it and to release it. An
//! [`Admission`] decides which nodes may vote. Time and randomness are arguments; drivers carry
//! requests and replies.
//!
//! The voting is that of the Redlock algorithm (Redis documentation, "Distributed Locks with
//! Redis"). Tokens and admission are described in `docs/quorum.md`.

mod admission;
mod after_denied;
mod attempt;
mod marker;
mod messages;
mod node;
mod rules;

use core::time::Duration;

pub use admission::{Admission, Founding, Halt, Member, Outlook, Task, TaskReply};
pub use after_denied::AfterDenied;
pub use attempt::Attempt;
pub use marker::{Look, Marker, ProcessId, Survey};
pub use messages::{AttemptTerms, Denied, Event, NodeReply, Op, Refusal, Request, Tally, Why};
pub use node::{Lease, Node};
#[doc(hidden)]
pub use rules::{Bug, Rules};

/// The longest ttl that nodes grant unless they were set up with another limit: 60 s. A node that
/// may have lost leases does not vote for about as long.
pub const MAX_TTL: Duration = Duration::from_secs(60);
/// How far a proposed token may be ahead of a node's own clock; the node refuses tokens beyond it.
/// A single wrong clock therefore cannot use up the tokens.
pub const AHEAD: Duration = Duration::from_secs(3600);
/// How long a node remembers the counter of a lock after its last lease. After that, the node uses
/// its high-water mark instead.
pub const RETENTION: Duration = Duration::from_secs(3600);

/// How long a node refuses an attempt that was ended before its acquire arrived.
pub const TOMBSTONE: Duration = crate::handoff::TOMBSTONE;

/// Returns how many of the *configured* nodes are a majority.
pub const fn majority(nodes: usize) -> usize {
    nodes / 2 + 1
}

/// Returns the default time to wait for one of `nodes` nodes: ttl/200, between 5 and 50 ms. A
/// single node gets ttl/4, between 5 ms and 1 s, because no other node could answer instead.
pub fn node_limit(ttl: Duration, nodes: usize) -> Duration {
    match nodes {
        1 => (ttl / 4).clamp(Duration::from_millis(5), Duration::from_secs(1)),
        _ => (ttl / 200).clamp(Duration::from_millis(5), Duration::from_millis(50)),
    }
}

/// Returns how long a node does not vote after it may have lost leases. Every lease that it may
/// have granted has ended by then; the time includes 1 % for clocks that run at different rates.
pub fn admission_wait(max_ttl: Duration) -> Duration {
    max_ttl.saturating_add(max_ttl / 100)
}

#[cfg(test)]
#[path = "quorum_tests.rs"]
mod tests;
