//! One suite for all backends: cases chosen by capability, faults, a holder process that can be
//! killed and stopped, and the matrix of which engine keeps which promise.
//!
//! The suite knows no engine. A test binary brings the [`Subject`]s, runs [`cases()`] against each,
//! and calls [`holder::played`] first, so that it can play the second process itself. Other test
//! binaries on real servers hand their tables of tests to [`runner`].
//!
//! **Unstable**: the crate is for the tests of engines, and is not covered by semantic versioning. Its types may change in any minor release, so
//! they are not `#[non_exhaustive]`.

#![allow(clippy::disallowed_methods, reason = "tests measure time")]

pub mod also;
mod bound;
mod case;
pub mod cases;
pub mod crowd;
pub mod examples;
mod faulty;
mod forced;
mod frozen;
pub mod holder;
pub mod manual_time;
mod matrix;
pub mod newer;
pub mod pages;
mod patient;
mod pushed;
#[cfg(unix)]
mod reconnects;
#[cfg(unix)]
pub mod runner;
mod stopwatch;
mod subject;

pub use bound::Bound;
pub use case::{Case, Context, Outcome, Raw, Tries, says, until};
pub use cases::cases;
pub use faulty::{Fault, Faults};
pub use forced::force_release_is_pushed;
pub use frozen::before_any_time_limit;
pub use matrix::{Mark, Matrix};
#[cfg(unix)]
pub use patient::until_answered;
pub use pushed::pushed_until;
pub use reconnects::reconnects;
pub use stopwatch::Stopwatch;
pub use subject::Subject;
