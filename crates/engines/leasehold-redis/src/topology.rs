//! How a client finds its server: by address, by asking sentinels, or as the owner of a slot.

mod cluster;
mod discover;
mod masters;
pub(crate) mod nodes;
mod once;
mod redirect;
mod route;
mod slot;

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Error, ErrorKind, Result, StoreUrl};
use redis::Client;

use crate::address::Address;
use crate::replica_policy::Policy;
use crate::source::{Seeds, Source, Watched, sentinel};
use crate::wire_format::{Wire, no_admission};
pub(crate) use cluster::Cluster;
pub(crate) use discover::seen;
pub(crate) use route::Route;
pub(crate) use slot::{slot, tag};

/// The additional options of a URL.
const OPTIONS: &[&str] = &["also", "replicas", "wire", "key-prefix", "spring", "majority"];

/// What a URL names.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) what: Servers,
    pub(crate) replicas: Option<Policy>,
    pub(crate) prefix: String,
    /// How long records of unused names stay.
    pub(crate) retain: Duration,
    pub(crate) place: String,
    /// Another library's format, if the URL names one.
    pub(crate) wire: Option<Wire>,
}

/// One server at a time, or the nodes of a cluster.
#[derive(Debug)]
pub(crate) enum Servers {
    One(Source),
    Cluster(Seeds),
}

impl Store {
    pub(crate) fn parse(mut url: StoreUrl) -> Result<Self> {
        let replicas = Policy::take(&mut url)?;
        let wire = Wire::take(&mut url)?;
        if wire.is_some() {
            no_admission(&mut url)?;
        }
        match url.scheme() {
            "redis+sentinel" | "rediss+sentinel" => {
                let Watched { sentinels, prefix, retain, place } = sentinel::parse(url, OPTIONS)?;
                let what = Servers::One(Source::Watched(Arc::new(sentinels)));
                Ok(Self { what, replicas, prefix, retain, place, wire })
            }
            "redis+cluster" | "rediss+cluster" => {
                let seeds = Seeds::parse(url, 6379, OPTIONS)?;
                if let Some(db) = seeds.rest.as_ref().or(seeds.db.as_ref()) {
                    let what = format!("store URL: database {db:?}; a cluster has only one");
                    return Err(Error::new(ErrorKind::Invalid, what));
                }
                let (prefix, retain, place) =
                    (seeds.prefix.clone(), seeds.retain, seeds.place.clone());
                Ok(Self { what: Servers::Cluster(seeds), replicas, prefix, retain, place, wire })
            }
            _ => {
                let Address { client, prefix, retain, place } = Address::parse_with(
                    url,
                    &["admission", "also", "replicas", "wire", "key-prefix", "spring", "majority"],
                )?;
                let what = Servers::One(Source::Server(client));
                Ok(Self { what, replicas, prefix, retain, place, wire })
            }
        }
    }
}

impl Servers {
    /// Returns clients of all servers that keep locks now.
    pub(crate) async fn clients(&self) -> Result<Vec<Client>> {
        match self {
            Self::One(source) => Ok(vec![source.client().await?]),
            Self::Cluster(seeds) => discover::clients(seeds).await,
        }
    }
}
