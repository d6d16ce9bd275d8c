//! Locks over a majority of independent nodes: Redlock with fencing tokens, over anything that offers the steps of a node.
//!
//! Programs whose nodes are Redis servers need only the crate `leasehold` and a `redlock://` URL.
//! Use this crate to build one lock service from several stores of your own: implement
//! [`QuorumNode`] for them.
//!
//! [`leasehold_proto::quorum`] implements the protocol as machines without I/O; the repository's
//! `docs/quorum.md` describes it for users. This crate carries requests and replies, and converts
//! the replies of nodes to messages.
//!
//! # What a node keeps
//!
//! Everything except the process id is data, and may be lost.
//!
//! | kept | per | what |
//! |---|---|---|
//! | process | node | the id of the running process, new at each start (Redis: `run_id`) |
//! | marker | node | process, nonce, longest ttl, admitted or waiting; any loss of data removes it |
//! | HW | node | the high-water mark: at least every counter that any lock ever had there |
//! | floor | node | HW when this process was admitted; a counter below it comes from older data |
//! | C | lock | the counter; dropped an hour after the last lease or release, or sooner (on Redis by `retain`), then HW replaces it |
//! | lease | lock | the attempt, and the end by the node's clock |
//! | ended | lock | the attempt that was ended last, and whether it held the lock |
//! | tombstones | lock | for 60 s: attempts that were ended without having held the lock |
//!
//! Every request names the process that it is meant for. A node checks first, in this order:
//!
//! 1. another process: `Refused(Stranger)`;
//! 2. no marker of this process, or one that waits: `Refused(NotAdmitted)`;
//! 3. `Acquire` or `Renew` with a ttl above the marker's: `Refused(TtlTooLong)`.
//!
//! Then it does the following in one atomic step. An expired lease counts as none.
//!
//! | request | condition: what the node does | reply |
//! |---|---|---|
//! | `Acquire(attempt, ttl, p)` | the attempt is `ended` or a tombstone: nothing | `Ended` |
//! | | another attempt has the lease: nothing | `Busy(C, remaining)` |
//! | | the attempt has the lease: nothing; the end does not move | `Granted(C)` |
//! | | free, and p is more than an hour ahead of the node's wall clock: nothing | `Refused(ClockAhead)` |
//! | | free: grants the lease with `C = max((max(C, floor), or HW without a C) + 1, p)`; nothing if that is above 2^53-1 (`Refused(UsedUp)`) | `Granted(C)` |
//! | `Commit(attempt, v, T)` | the attempt has the lease, C is v or T, and T >= v: `C = T` | `Committed` |
//! | | otherwise: nothing | `Moved` |
//! | `Renew(attempt, ttl, T, heal)` | the attempt is `ended` or a tombstone: nothing | `Ended` |
//! | | another attempt has the lease: nothing | `Busy(C, remaining)` |
//! | | the attempt has the lease: extends it, `C = max(max(C, floor), T)` | `Renewed` |
//! | | no attempt has it, with `heal`: grants it, `C = max(max(C, floor), or HW without a C, T)` | `Healed` |
//! | | no attempt has it, without `heal`: nothing | `Missing` |
//! | `Release(attempt)` | the attempt has the lease: frees the lock and writes `ended`; C does not change | `Released` |
//! | | the attempt does not have it: writes `ended` and a tombstone | `NotHeld` |
//! | | repeated while `ended` still names the attempt: nothing | as before |
//!
//! `HW = max(HW, C)` after each.
//!
//! - Healing uses HW too: where C was dropped, the node may have dropped tokens above T as well.
//! - Without tombstones, an acquire that arrives after its own release would occupy the node for a
//!   ttl, without a holder. In the simulator, a few clients on a bad network then blocked each
//!   other for many seconds.
//! - `ended` names one attempt only. If another attempt is ended first, the answer to a repeated
//!   release is `NotHeld`.
//!
//! # The driver
//!
//! One task per client runs all its attempts, for any number of locks. It adds to the machines:
//!
//! - **The client may repeat an attempt any number of times.** Each round has its own id at the
//!   nodes, so a late release of one round does not end the next. The last 32 bits of the id count
//!   the rounds.
//! - **A failed node costs its vote, but no time.** While the other nodes are a majority, a node
//!   that does not answer gets one step at a time; the other steps are not sent to it. If there is
//!   no majority without the node, it gets one call at a time, and steps wait for that call within
//!   their time limit.
//! - **An error says for each node why it did not vote.** If an attempt cannot reach a majority,
//!   the client releases it immediately. The caller gets the error when the other nodes have
//!   answered or timed out, and before its own wait ends.
//! - **A new connection alone loses no lease.** While the client asks a node for its process, steps wait for that answer. If
//!   there is none, the reply is `Unfit` and not `NotAdmitted`, which would count as a loss.
//! - **A stall of the client is not a failure of the nodes.** After a stall of more than 10 ms, the
//!   driver waits 5 ms more for replies, at most three times, before they count as missing.
//!   Validity does not change by that.
//! - **Renewals are sent before acquires.** Their time limits begin when there is room for them.
//! - **A waiter wakes once**, when a majority of the nodes, or all nodes that refused it, have reported the lock as free.
//! - **Requests that must fail are not sent.** If no lock can be granted until an operator acts, the client refuses every
//!   acquire after 3 s.
//!
//! # For authors of another driver
//!
//! [`Attempt`](leasehold_proto::quorum::Attempt) and [`Admission`](leasehold_proto::quorum::Admission) describe their calls.
//!
//! - Send a request to the process that `Admission::process` returns for the node. If it returns
//!   none, answer `Refused(NotAdmitted)` for a member that waits or is a twin, and `Refused(Unfit)`
//!   for one that is unknown. Also answer `Refused(Unfit)` if nothing could be sent, and `Unknown`
//!   if the answer was lost.
//! - On `Stranger`, on `NotAdmitted` and on a new connection, call `Admission::handle_doubt`.
//! - Renewal has no schedule of its own: [`leasehold_proto::Lease`] decides when, and
//!   `Attempt::renew` sends it.
//! - Drive an attempt until `is_done`, even if no caller waits for it. Keep `seen` for each lock.
//! - Run one `Admission` per client, for as long as the client lives.
//!
//! What follows is the page of the documentation; its links to other pages work in the repository.

#![cfg_attr(all(doc, not(doctest)), doc = include_str!("../docs.md"))]
#![cfg_attr(docsrs, feature(doc_cfg))]

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
pub use membership::Membership;
pub use memory::{MemoryNode, NodeFault};
pub use node::{Fitness, NodeEvent, NodeLease, NodeSink, QuorumNode, Step};
pub use set_up::{found, found_exactly, members};
