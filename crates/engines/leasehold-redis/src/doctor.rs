//! Checks for what can harm locks on Redis: one server, a server that sentinels watch, a cluster,
//! or the nodes of a quorum.

mod access;
mod cluster;
mod damaged;
mod foreign;
mod foreign_format;
pub(crate) mod health;
mod permissions;
mod probe;
mod quorum;
mod records;
mod sentinel;

use leasehold_core::doctor::Diagnosis;
use leasehold_core::{Error, ErrorKind, Result, StoreUrl};
use redis::Client;

use crate::connect::names_a_wire;
use crate::key::Keys;
use crate::quorum::{WireList, parse, parse_wire};
use crate::source::Source;
use crate::topology::{Servers, Store};
pub use foreign::foreign_locks;
use probe::{Found, Probe};

/// The role of a server, which decides what matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// It keeps the locks alone.
    Single,
    /// It keeps the locks in the format of another library, which knows no admission.
    Shared,
    /// The master that sentinels name.
    Watched,
    /// A master of a cluster.
    Cluster,
    /// One node of a quorum, which cannot vote after it may have lost leases.
    Node,
}

/// Checks the servers of a URL, as far as the user's permissions allow. Acquires no lock and
/// changes no key: it tests the permission to write on a key that does not exist.
///
/// # Errors
/// [`ErrorKind::Invalid`] for a URL that cannot be parsed; [`ErrorKind::Unavailable`] if no server
/// answers.
pub async fn diagnose(mut url: StoreUrl) -> Result<Diagnosis> {
    if tokio::runtime::Handle::try_current().is_err() {
        return Err(Error::new(
            ErrorKind::Invalid,
            "no tokio runtime; call diagnose inside a tokio runtime",
        ));
    }
    if url.scheme().starts_with("redlock") && names_a_wire(&url) {
        let WireList { addresses, node_limit, .. } = parse_wire(&mut url)?;
        return quorum::diagnose(&addresses, node_limit, false).await;
    }
    if let Some((addresses, _, limit)) = parse(&mut url)? {
        return quorum::diagnose(&addresses, limit, true).await;
    }
    let Store { what, prefix, place, replicas, wire, .. } = Store::parse(url)?;
    let part = wire.map_or(Part::Single, |_| Part::Shared);
    match what {
        Servers::One(Source::Watched(sentinels)) => {
            sentinel::diagnose(&sentinels, &place, &prefix, replicas.is_some()).await
        }
        Servers::One(source) => {
            let client = source.client().await?;
            Ok(diagnose_server(&client, &place, &prefix, part).await?.diagnosis)
        }
        Servers::Cluster(seeds) => cluster::diagnose(&seeds, replicas.is_some()).await,
    }
}

/// Checks one server.
///
/// # Errors
/// [`ErrorKind::Unavailable`] if it does not answer; a refusal is a finding.
async fn diagnose_server(client: &Client, place: &str, prefix: &str, part: Part) -> Result<Found> {
    let mut probe = match Probe::reach(client, place).await {
        Ok(probe) => probe,
        Err(error) => return refused(place, error),
    };
    probe.look_at_kind(part).await;
    probe.measure().await;
    health::look(&mut probe, part).await;
    let db = client.get_connection_info().redis_settings().db();
    records::look(&mut probe, prefix, db, part).await;
    permissions::look(&mut probe, &Keys::new(prefix), part).await;
    access::look(&mut probe, client).await;
    Ok(probe.into_found())
}

/// Turns a refusal into a finding; a server that does not answer is an error.
fn refused(place: &str, error: Error) -> Result<Found> {
    if error.kind() == ErrorKind::Unavailable {
        return Err(error);
    }
    let mut diagnosis = Diagnosis::at(place);
    diagnosis.refused(&error);
    Ok(Found { diagnosis, ..Found::default() })
}

/// Adds the cost of a failover, if one can happen.
fn failover(diagnosis: &mut Diagnosis, acknowledged: bool) {
    let why = "replication is asynchronous: a promoted replica may not have received the last \
               grants, and then grants the lock to a second holder";
    match acknowledged {
        false => diagnosis.note(
            "failover",
            "a grant counts before any replica has it",
            why,
            "add replicas=majority to the URL, and fence the resource",
        ),
        true => diagnosis.note(
            "failover",
            "a grant counts when replicas have acknowledged it",
            "a failover loses fewer grants, but may lose some: the promoted replica need not be \
             one of these replicas",
            "fence the resource",
        ),
    }
}
