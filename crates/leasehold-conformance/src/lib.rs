//! One suite for all backends: cases chosen by capability, faults, a holder process that can be
//! killed and stopped, and the matrix of which engine keeps which promise.
//!
//! The suite knows no engine. A test binary brings the [`Subject`]s, runs [`cases()`] against each,
//! and answers [`holder::role`] first, so that it can play the second process itself.

mod case;
pub mod cases;
mod faulty;
pub mod holder;
#[cfg(unix)]
pub mod kit;
mod matrix;
mod subject;

pub use case::{Case, Context, Outcome, Tries, cases, until};
pub use faulty::{Fault, Faults};
pub use matrix::{Mark, Matrix};
pub use subject::Subject;
