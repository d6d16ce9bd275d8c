//! `cargo xtask bench NAME`: builds the benchmarks and runs one.

use std::process::Command;

use crate::run::{cargo, open, quiet};

/// Hands everything on to `leasehold-bench`, which knows the names and options.
pub(crate) fn bench(args: &[String]) -> Result<bool, String> {
    open(command().arg("--").args(args))
}

/// What builds and runs it. etcd is among the engines where what its client's build needs is installed.
pub(crate) fn command() -> Command {
    let mut run = cargo(["run", "--release", "-p", "leasehold-bench"]);
    if quiet(Command::new("protoc").arg("--version")).is_ok() {
        run.args(["--features", "etcd"]);
    }
    run
}
