//! `cargo xtask model`: explores the hand-off protocol exhaustively, within the bounds of its runs.

use crate::run::{cargo, open};

/// Hands everything on to the example of `leasehold-sim` that knows the runs.
pub(crate) fn model(args: &[String]) -> Result<bool, String> {
    let example = ["run", "-q", "--release", "-p", "leasehold-sim", "--example", "model", "--"];
    open(cargo(example).args(args))
}
