//! The pure half of Leasehold: state machines that are given time and randomness as arguments.
//!
//! Nothing in here does I/O, reads a clock or draws a random number, so that the client, a
//! simulator and a model checker can drive the same code.

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
