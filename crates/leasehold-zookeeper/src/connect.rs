//! From a `zookeeper:` URL to a backend.

use leasehold_core::clock::Clock;
use leasehold_core::{Error, ErrorKind, Name, Result, StoreUrl};
use zookeeper_client::Error as ZkError;

use crate::ZooKeeperBackend;
use crate::address::Address;
use crate::error::from_zk;
use crate::keeper;
use crate::path;
use crate::session::Session;

/// Opens a session with the ensemble that a URL names.
///
/// | URL | ensemble |
/// |---|---|
/// | `zookeeper://[user:password@]host[:port],host[:port],...[/chroot]` | over TCP |
/// | `zookeepers://...` | over TLS; `tls-ca=FILE`, for client certificates `tls-cert=FILE` and `tls-key=FILE` (PEM) |
///
/// The chroot is the node under which the locks are (default `/leasehold`); what is missing of it
/// is made. `session=30s` is the time limit that is asked for; leases are valid for half of what
/// the servers agree to. `user=NAME` and `password-file=FILE` keep the password out of the URL.
/// `acl=creator` has the nodes belong to that user alone, which is the default with a user;
/// `acl=open` lets everybody at them.
///
/// # Errors
/// [`ErrorKind::Invalid`] for a URL that is not understood, or without a tokio runtime;
/// [`ErrorKind::Unavailable`] when no server gives a session, with what is wrong with each;
/// [`ErrorKind::Refused`] for credentials and certificates.
pub async fn connect(url: StoreUrl) -> Result<ZooKeeperBackend> {
    let address = Address::parse(url)?;
    let clock = Clock::system();
    let session = open(&address, &clock).await?;
    Ok(ZooKeeperBackend::start(address, clock, session))
}

/// Removes the nodes of the free locks whose names start with `names`, and says of how many. The
/// servers do so themselves after a while.
///
/// # Errors
/// As [`connect`]; what was removed before an error stays so.
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

async fn open(address: &Address, clock: &Clock) -> Result<Session> {
    if tokio::runtime::Handle::try_current().is_err() {
        return Err(Error::new(ErrorKind::Invalid, "no tokio runtime here: connect inside one"));
    }
    keeper::open(address, clock, 1).await
}
