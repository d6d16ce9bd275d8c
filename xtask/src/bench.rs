//! `cargo xtask bench NAME`: builds the benchmarks and runs one.

use crate::run::{cargo, open};

/// Hands everything on to `leasehold-bench`, which knows the names and options.
pub(crate) fn bench(args: &[String]) -> Result<bool, String> {
    open(cargo(["run", "--release", "-p", "leasehold-bench", "--"]).args(args))
}
