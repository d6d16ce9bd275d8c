//! Removes the nodes of locks that are not needed any more.

use leasehold_core::clock::Clock;
use leasehold_core::{Name, Result, StoreUrl};
use zookeeper_client::Error as ZkError;

use crate::address::Address;
use crate::connect::open;
use crate::error::from_zk;
use crate::path;

/// Removes the nodes of the free locks whose names start with `names`, and returns their number.
/// The servers also remove them after a while.
///
/// # Errors
/// As [`connect`](crate::connect()); nodes that were removed before an error are not restored.
pub async fn forget(url: StoreUrl, names: &str) -> Result<u64> {
    let address = Address::parse(url)?;
    let session = open(&address, &Clock::system()).await?;
    let root = address.root.path();
    let nodes = session.list_now(root).await.map_err(|error| from_zk(error, root))?;
    let mut forgotten = 0;
    let ours = |name: &Name| name.as_str().starts_with(names);
    for name in nodes.iter().filter_map(|node| path::unescape(node)).filter(ours) {
        let lock = address.root.lock(&name);
        match session.delete(&lock).await {
            Ok(true) => forgotten += 1,
            Ok(false) | Err(ZkError::NotEmpty) => {}
            Err(error) => return Err(from_zk(error, &lock)),
        }
    }
    Ok(forgotten)
}
