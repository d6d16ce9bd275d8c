//! `cargo xtask bench NAME`: builds the benchmarks and runs one.

use std::process::Command;

use crate::run::{cargo, open};

/// Hands everything on to `leasehold-bench`, which knows the names and options.
pub(crate) fn bench(args: &[String]) -> Result<bool, String> {
    open(command().arg("--").args(args))
}

/// What builds and runs it.
pub(crate) fn command() -> Command {
    cargo(["run", "--release", "-p", "leasehold-bench"])
}
