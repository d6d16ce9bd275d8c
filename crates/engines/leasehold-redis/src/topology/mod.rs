//! How a client finds its server: by address, by asking sentinels, or as the owner of a slot.

mod cluster;
mod discover;
mod masters;
mod nodes;
mod once;
mod redirect;
mod route;
mod seeds;
mod sentinel;
mod slot;

use std::sync::Arc;

use leasehold_core::{Error, ErrorKind, Result, StoreUrl};
use redis::Client;

pub(crate) use seeds::Seeds;
use sentinel::Watched;

use crate::address::Address;
use crate::replication::Policy;
pub(crate) use cluster::Cluster;
pub(crate) use discover::seen;
pub(crate) use route::Route;
pub(crate) use sentinel::Sentinels;

/// A host and a port.
pub(crate) type Place = (String, u16);

/// The additional options of a URL.
const OPTIONS: &[&str] = &["replicas"];

/// The error for a server that is not a node of a cluster.
const NO_NODE: &str = "the server is not in cluster mode (cluster-enabled no); name it with \
                       redis://HOST:PORT";

/// What a URL names.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) what: What,
    pub(crate) replicas: Option<Policy>,
    pub(crate) prefix: String,
    pub(crate) place: String,
}

/// Returns the sentinels of a URL without options for locks.
pub(crate) fn sentinels(url: StoreUrl) -> Result<Sentinels> {
    sentinel::parse(url, &[]).map(|watched| watched.sentinels)
}

/// One server at a time, or the nodes of a cluster.
#[derive(Debug)]
pub(crate) enum What {
    One(Source),
    Cluster(Seeds),
}

impl Store {
    pub(crate) fn parse(mut url: StoreUrl) -> Result<Self> {
        let replicas = Policy::take(&mut url)?;
        match url.scheme() {
            "redis+sentinel" | "rediss+sentinel" => {
                let Watched { sentinels, prefix, place } = sentinel::parse(url, OPTIONS)?;
                let what = What::One(Source::Watched(Arc::new(sentinels)));
                Ok(Self { what, replicas, prefix, place })
            }
            "redis+cluster" | "rediss+cluster" => {
                let seeds = Seeds::parse(url, 6379, OPTIONS)?;
                if let Some(db) = seeds.rest.as_ref().or(seeds.db.as_ref()) {
                    let what = format!("store URL: database {db:?}; a cluster has only one");
                    return Err(Error::new(ErrorKind::Invalid, what));
                }
                let (prefix, place) = (seeds.prefix.clone(), seeds.place.clone());
                Ok(Self { what: What::Cluster(seeds), replicas, prefix, place })
            }
            _ => {
                let Address { client, prefix, place } =
                    Address::parse_with(url, &["admission", "replicas"])?;
                let what = What::One(Source::Server(client));
                Ok(Self { what, replicas, prefix, place })
            }
        }
    }
}

impl What {
    /// Returns clients of all servers that keep locks now.
    pub(crate) async fn clients(&self) -> Result<Vec<Client>> {
        match self {
            Self::One(source) => Ok(vec![source.client().await?]),
            Self::Cluster(seeds) => discover::clients(seeds).await,
        }
    }
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

fn shown((host, port): &Place) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}
