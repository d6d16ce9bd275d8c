//! Where a connection finds its server: a single server, the master that sentinels name, or a node
//! of a cluster.

mod seeds;
pub(crate) mod sentinel;

use std::sync::Arc;

use leasehold_core::{Error, ErrorKind, Result, StoreUrl};
use redis::Client;

pub(crate) use seeds::{Maker, Seeds};
pub(crate) use sentinel::{Sentinels, Watched};

/// A host and a port.
pub(crate) type HostPort = (String, u16);

/// The error for a server that is not a node of a cluster.
pub(crate) const NO_NODE: &str = "the server is not in cluster mode (cluster-enabled no); name it with \
                       redis://HOST:PORT";

/// Returns the sentinels of a URL without options for locks.
pub(crate) fn sentinels(url: StoreUrl) -> Result<Sentinels> {
    sentinel::parse(url, &[]).map(|watched| watched.sentinels)
}

/// Where a connection finds its server.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// A single server.
    Server(Client),
    /// The master that sentinels name.
    Watched(Arc<Sentinels>),
    /// A node of a cluster.
    Node(Client),
}

impl Source {
    /// Returns the server to connect to now.
    pub(crate) async fn client(&self) -> Result<Client> {
        match self {
            Self::Server(client) | Self::Node(client) => Ok(client.clone()),
            Self::Watched(sentinels) => sentinels.master().await,
        }
    }

    /// Returns the sentinels, if any.
    pub(crate) fn sentinels(&self) -> Option<Arc<Sentinels>> {
        match self {
            Self::Watched(sentinels) => Some(sentinels.clone()),
            _ => None,
        }
    }

    /// Waits until another server must be used.
    pub(crate) async fn moved(&self) {
        match self {
            Self::Server(_) | Self::Node(_) => std::future::pending().await,
            Self::Watched(sentinels) => sentinels.moved().await,
        }
    }

    /// Refuses a server that cannot keep locks, by its mode and its role.
    pub(crate) fn check(&self, mode: Option<&str>, role: Option<&str>) -> Result<()> {
        let unsupported = |what: &str| Err(Error::new(ErrorKind::Unsupported, what));
        match (mode, self) {
            (Some("cluster"), Self::Node(_)) => {}
            (Some(_), Self::Node(_)) => return unsupported(NO_NODE),
            (Some("cluster"), _) => {
                return unsupported(
                    "the server is a node of a cluster (cluster-enabled yes); \
                     name it with redis+cluster://HOST:PORT",
                );
            }
            (Some("sentinel"), _) => {
                return unsupported(
                    "the server is a Sentinel, which keeps no data; name it with \
                     redis+sentinel://HOST:PORT/MASTER-NAME, or name the server it watches",
                );
            }
            _ => {}
        }
        match (role, self) {
            (Some("replica"), Self::Server(_)) => {
                let what = "the server is a replica, which cannot grant locks; name its master, or \
                            its sentinels with redis+sentinel://HOST:PORT/MASTER-NAME";
                Err(Error::new(ErrorKind::Refused, what))
            }
            (Some("replica"), Self::Watched(sentinels)) => Err(sentinels.not_yet()),
            (Some("replica"), Self::Node(_)) => {
                let what = "the node is a replica; its master serves the slots";
                Err(Error::new(ErrorKind::Unavailable, what))
            }
            _ => Ok(()),
        }
    }
}

/// Formats a host and a port for display.
pub(crate) fn shown((host, port): &HostPort) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}
