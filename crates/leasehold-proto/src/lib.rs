//! The protocols of Leasehold without I/O: state machines that take time and random numbers as arguments.
//!
//! This crate reads no clock, draws no random number and opens no connection. So the clients, the simulator and the model
//! checker run the same code.
//!
//! ```
//! use std::time::Duration;
//! use leasehold_proto::{Deadline, Now};
//!
//! let asked = Now { steady_ns: 0, wall_ns: 0 };
//! // A lease is valid from before the request was sent, for its ttl without the allowance for drift.
//! let until = Deadline::after(asked, Duration::from_secs(30) - leasehold_proto::drift(Duration::from_secs(30)));
//! assert!(!until.has_passed(Now { steady_ns: 29_000_000_000, ..asked }));
//! assert!(until.has_passed(Now { steady_ns: 30_000_000_000, ..asked }));
//! ```
//!
//! | module or type | what it decides |
//! | module or type | what it decides |
//! | [`handoff`] | the record of a lock on one server: who holds it, who is next, which tokens are used |
//! | [`semaphore`] | the record of a semaphore on one server: its limit, its numbered slots, who is next |
//! | [`read_write`] | the record of a read-write lock on one server: its read and write phases, its two queues |
//! | [`fifo`] | the token of a holder of a read-write lock on an engine with one queue for readers and writers |
//! | [`latch`] | the record of a latch: which parties have counted it down |
//! | [`quorum`] | one node of a quorum, an attempt over several nodes, and which nodes may vote |
//! | [`Deadline`], [`drift`] | until when a lease is valid, even if a clock runs slow |
//! | [`Token`], [`TokenBlock`] | fencing tokens, and the block of tokens that a grant reserves |
//!
//! The repository's `docs/evidence.md` lists what is checked exhaustively, and `docs/quorum.md`
//! describes the quorum.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod attempt;
pub mod client;
pub mod fifo;
pub mod handoff;
pub mod latch;
mod lease;
pub mod quorum;
pub mod read_write;
mod retry;
mod rules;
pub mod semaphore;
mod time;
mod timed_map;
mod token;

pub use attempt::{AttemptId, ClientId};
pub use lease::{Lease, LossReason, NotExtendable, Step, Terms, TooLate, drift, loss_margin};
pub use retry::Backoff;
pub use time::{Deadline, Now};
pub use token::{NotAToken, Token, TokenBlock};
