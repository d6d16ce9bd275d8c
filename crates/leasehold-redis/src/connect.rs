//! Connecting: what is wrong is said at once, and with a next step.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::clock::Clock;
use leasehold_core::{Error, ErrorKind, Result, StoreUrl};
use tokio::sync::mpsc;

use crate::address::Address;
use crate::backend::RedisBackend;
use crate::key::Keys;
use crate::link::Link;
use crate::script::Scripts;
use crate::supervisor::Supervisor;

/// How long the first look at the server may take.
const LIMIT: Duration = Duration::from_secs(5);

/// Connects to the server that a URL names.
///
/// | URL | server |
/// |---|---|
/// | `redis://[user[:password]@]host[:port][/db]` | over TCP |
/// | `rediss://…` | over TLS; `tls-ca=FILE`, `tls-cert=FILE`, `tls-key=FILE` (PEM) |
/// | `redis+unix:/path/to/socket` | over a unix socket; `db=N`, `user=NAME` |
///
/// With `password-file=FILE` the password does not stand in the URL; `prefix=TEXT` is what keys
/// begin with (default `leasehold`).
///
/// # Errors
/// [`ErrorKind::Invalid`] for a URL that is not understood; [`ErrorKind::Unavailable`] when the
/// server cannot be reached; [`ErrorKind::Refused`] for credentials and permissions;
/// and for a replica; [`ErrorKind::Unsupported`] for a server older than 7.0, a node of a cluster
/// and a Sentinel.
pub async fn connect(url: StoreUrl) -> Result<RedisBackend> {
    connect_with(url, Clock::system()).await
}

/// The same by another clock.
pub(crate) async fn connect_with(url: StoreUrl, clock: Clock) -> Result<RedisBackend> {
    let address = Address::parse(url)?;
    if tokio::runtime::Handle::try_current().is_err() {
        return Err(Error::new(ErrorKind::Invalid, "no tokio runtime here: connect inside one"));
    }
    let keys = Keys::new(&address.prefix);
    let scripts = Arc::new(Scripts::new());
    let (orders, receiver) = mpsc::unbounded_channel();
    let live = Supervisor::start(address.client, scripts.clone(), clock.clone(), receiver).await?;
    let link = Link::new(live, orders, scripts, keys.clone(), clock.clone());
    look(&link).await?;
    Ok(RedisBackend::new(link, keys, address.place, clock))
}

/// The right to push is needed only when somebody waits; better to hear of it now.
async fn look(link: &Link) -> Result<()> {
    let mut publish = redis::cmd("PUBLISH");
    publish.arg("leasehold:c:0000000000000000").arg("");
    link.command(&publish, LIMIT).await.map(drop)
}
