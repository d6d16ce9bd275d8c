//! Connects to the ensemble of a `zookeeper:` URL.

use leasehold_core::clock::Clock;
use leasehold_core::{Error, ErrorKind, Result, StoreUrl};

use crate::ZooKeeperBackend;
use crate::address::{Address, invalid};
use crate::format::Format;
use crate::session::Session;
use crate::session_keeper;
use crate::wire::WireBackend;

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
    if let Some(wire) = address.format.name() {
        return Err(invalid(format!("wire={}; connect with connect_with_wire", wire)));
    }
    start(address).await
}

/// Returns true if a URL names another library's format.
///
/// **Unstable**, as [`leasehold_core::backend`] is: it is for authors of engines.
pub fn names_a_wire(url: &StoreUrl) -> bool {
    url.clone().take("wire").is_some()
}

/// Opens a session with the ensemble of a URL, for locks in another library's format: `wire=curator`
/// (`InterProcessMutex`) or `wire=kazoo` (`Lock`). The name of a lock is its path below the chroot, by default below the
/// top; a name that can be no path is escaped. Nodes are for every client, unless the URL has `acl=creator`.
///
/// # Errors
/// As [`connect`].
pub async fn connect_with_wire(url: StoreUrl) -> Result<WireBackend> {
    let address = Address::parse(url)?;
    match address.format {
        Format::Own => Err(invalid("no option wire; connect with connect")),
        Format::Curator | Format::Kazoo => Ok(WireBackend::new(start(address).await?)),
    }
}

async fn start(address: Address) -> Result<ZooKeeperBackend> {
    let clock = Clock::system();
    let session = open(&address, &clock).await?;
    Ok(ZooKeeperBackend::start(address, clock, session))
}

/// Opens a session for an address.
pub(crate) async fn open(address: &Address, clock: &Clock) -> Result<Session> {
    if tokio::runtime::Handle::try_current().is_err() {
        return Err(Error::new(
            ErrorKind::Invalid,
            "no tokio runtime; connect inside a tokio runtime",
        ));
    }
    session_keeper::open(address, clock, 1).await
}
