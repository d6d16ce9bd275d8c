//! `cargo xtask chaos`: real servers and clients under faults.

use crate::run::{cargo, open};

/// Hands everything on to `leasehold-chaos`, which knows the options.
pub(crate) fn chaos(args: &[String]) -> Result<bool, String> {
    open(cargo(["run", "-q", "--release", "-p", "leasehold-chaos", "--"]).args(args))
}
