//! Removes the nodes of names that are not needed any more.

use leasehold_core::clock::Clock;
use leasehold_core::{Error, ErrorKind, Name, Result, StoreUrl};
use zookeeper_client::Error as ZkError;

use crate::address::Address;
use crate::connect::open;
use crate::error::from_zk;
use crate::format::Format;
use crate::kind::Kind;
use crate::path::{LATCH, WIRE};
use crate::permits::Semaphore;
use crate::session::Session;
use crate::{latch_value, path};

/// Removes the nodes of the names that start with `names` and are free locks, expired latches or marks of the option
/// `wire`, or semaphores without permits whose limit was never changed; returns their number. The servers also remove those of locks after a while.
///
/// # Errors
/// As [`connect`](crate::connect()); nodes that were removed before an error are not restored.
pub async fn forget(url: StoreUrl, names: &str) -> Result<u64> {
    let address = Address::parse(url)?;
    if address.format != Format::Own {
        return Err(Error::new(
            ErrorKind::Unsupported,
            "forget with wire: the nodes of another library's locks cannot be told from other nodes; leave wire out to \
             remove expired marks",
        ));
    }
    let session = open(&address, &Clock::system()).await?;
    let root = address.root.path();
    let nodes = session.list_now(root).await.map_err(|error| from_zk(error, root))?;
    let mut forgotten = 0;
    let ours = |name: &Name| name.as_str().starts_with(names);
    for name in nodes.iter().filter_map(|node| path::unescape(node)).filter(ours) {
        let lock = address.root.lock(&name);
        match session.delete(&lock).await {
            Ok(true) => forgotten += 1,
            Ok(false) => {}
            Err(ZkError::NotEmpty) => forgotten += u64::from(empty(&session, &lock).await?),
            Err(error) => return Err(from_zk(error, &lock)),
        }
    }
    Ok(forgotten)
}

/// Removes the node of a name with what is below it, if that is not needed. Returns whether it did.
async fn empty(session: &Session, lock: &str) -> Result<bool> {
    let failed = |error| from_zk(error, lock);
    let listed = session.queue_now(lock).await.map_err(failed)?;
    let nodes = listed.as_ref().map(|(nodes, _)| &**nodes).unwrap_or_default();
    let is_unused = match Kind::of(nodes, lock) {
        Ok(Kind::Latch | Kind::Marked) => {
            latch_value::removed_expired(session, lock, nodes, &[LATCH, WIRE]).await?
        }
        Ok(Kind::Semaphore) => is_unused(session, &path::semaphore(lock)).await?,
        _ => false,
    };
    match is_unused {
        true => match session.delete(lock).await {
            Err(ZkError::NotEmpty) => Ok(false),
            deleted => deleted.map_err(failed),
        },
        false => Ok(false),
    }
}

/// Removes a semaphore without permits and waiters whose limit the next client stores again.
async fn is_unused(session: &Session, path: &str) -> Result<bool> {
    let semaphore = match Semaphore::now(session, path).await {
        Ok(Some(semaphore)) => semaphore,
        Ok(None) => return Ok(false),
        // A newer version wrote it: others are removed all the same.
        Err(error) if error.kind() == ErrorKind::Foreign => return Ok(false),
        Err(error) => return Err(error),
    };
    if semaphore.record.limit().version > 1 || !semaphore.nodes.is_empty() {
        return Ok(false);
    }
    match session.remove_value(path, semaphore.view.stat.version).await {
        Ok(()) => Ok(true),
        Err(ZkError::NotEmpty | ZkError::BadVersion | ZkError::NoNode) => Ok(false),
        Err(error) => Err(from_zk(error, path)),
    }
}
