//! The pure half of Leasehold: state machines that take time and randomness as arguments.
//!
//! This crate does no I/O, reads no clock and draws no random number. The client, a simulator and a
//! model checker can therefore drive the same code.

mod attempt;
pub mod handoff;
mod lease;
pub mod quorum;
mod retry;
mod time;
mod token;

pub use attempt::{AttemptId, ClientId};
pub use lease::{Lease, LossReason, Step, Terms, TooLate, drift, loss_margin};
pub use retry::Backoff;
pub use time::{Deadline, Now};
pub use token::{NotAToken, Token, TokenBlock};
