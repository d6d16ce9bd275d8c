//! `cargo xtask etcd-api`: writes the committed code of etcd's API from its `.proto` files.

use crate::run::{cargo, open};

/// Runs the test that compares the code, and lets it write instead. So the crates that generate it are built for this
/// test alone, and this program does not need them.
pub(crate) fn write() -> Result<bool, String> {
    let test = ["test", "-q", "-p", "leasehold-etcd-api", "--test", "generated"];
    open(cargo(test).env("LEASEHOLD_WRITE_ETCD_API", "1"))
}
