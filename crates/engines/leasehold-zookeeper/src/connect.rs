//! Connects to the ensemble of a `zookeeper:` URL.

use leasehold_core::clock::Clock;
use leasehold_core::{Error, ErrorKind, Name, Result, StoreUrl};
use zookeeper_client::Error as ZkError;

use crate::ZooKeeperBackend;
use crate::address::Address;
use crate::error::from_zk;
use crate::path;
use crate::session::Session;
use crate::session_keeper;

/// Opens a session with the ensemble of a URL.
///
/// | URL | connection |
/// |---|---|
/// | `zookeeper://[user:password@]host[:port],host[:port],...[/chroot]` | over TCP |
/// | `zookeepers://...` | over TLS; `tls-ca=FILE`, for client certificates `tls-cert=FILE` and `tls-key=FILE` (PEM) |
///
/// The chroot is the root node of the locks (default `/leasehold`); it is created if it does not
/// exist. `session=30s` is the requested session timeout (default 30 s); leases are valid for half
/// of the timeout that the servers grant. `user=NAME` and `password-file=FILE` keep the password
/// out of the URL. With `acl=creator`, only the user of the URL has access to the nodes; this is
/// the default if the URL names a user. With `acl=open`, every client has access.
///
/// # Errors
/// [`ErrorKind::Invalid`] for an invalid URL, or outside a tokio runtime;
/// [`ErrorKind::Unavailable`] if no server opens a session, with the reason for each server;
/// [`ErrorKind::Refused`] if the servers refuse the credentials or the certificate.
pub async fn connect(url: StoreUrl) -> Result<ZooKeeperBackend> {
    let address = Address::parse(url)?;
    let clock = Clock::system();
    let session = open(&address, &clock).await?;
    Ok(ZooKeeperBackend::start(address, clock, session))
}

/// Removes the nodes of the free locks whose names start with `names`, and returns their number.
/// The servers also remove them after a while.
///
/// # Errors
/// As [`connect`]; nodes that were removed before an error are not restored.
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
        return Err(Error::new(
            ErrorKind::Invalid,
            "no tokio runtime; connect inside a tokio runtime",
        ));
    }
    session_keeper::open(address, clock, 1).await
}
