//! `cargo xtask model`: explores the protocols exhaustively, within the bounds of the models' runs.

use crate::run::{cargo, open};

/// Hands everything on to the example of `leasehold-sim` that knows the runs.
pub(crate) fn model(args: &[String]) -> Result<bool, String> {
    let example = ["run", "-q", "--release", "-p", "leasehold-sim", "--example", "model", "--"];
    open(cargo(example).args(args))
}
