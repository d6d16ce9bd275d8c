//! Asks nodes of a cluster which node serves which slots.

use std::time::Duration;

use futures_util::future::join_all;
use leasehold_core::{Error, ErrorKind, Result};
use redis::{Client, Cmd, Value};

use super::nodes::Owners;
use crate::command::{send, within};
use crate::connection::connect_to;
use crate::error::{from_redis, strange};
use crate::source::{HostPort, Maker, NO_NODE, Seeds, shown};

/// How long a node may take to answer.
pub(super) const LIMIT: Duration = Duration::from_secs(1);

/// Asks the nodes of a URL which node serves which slots.
pub(super) async fn discover(seeds: &[HostPort], maker: &Maker) -> Result<Owners> {
    let asking = seeds.iter().map(|(host, port)| async move {
        let asked = ask(&maker.client(host, *port)?).await;
        asked
            .map(|text| (host.clone(), text))
            .map_err(|error| (shown(&(host.clone(), *port)), error))
            .map_err(|(place, error)| {
                Error::new(error.kind(), format!("{place}: {error}")).with_source(error)
            })
    });
    let (mut answers, mut errors) = (Vec::new(), Vec::new());
    for answer in join_all(asking).await {
        match answer {
            Ok(answer) => answers.push(answer),
            Err(error) => errors.push(error),
        }
    }
    // Errors that an operator must fix come before temporary errors.
    if answers.is_empty() {
        let worst = errors.iter().position(|error: &Error| error.kind().is_certain());
        let none = || Error::new(ErrorKind::Invalid, "store URL: the hosts are missing");
        return Err(errors.into_iter().nth(worst.unwrap_or_default()).unwrap_or_else(none));
    }
    Owners::read(&answers, maker.tls())
}

/// Returns clients of all masters.
pub(super) async fn clients(seeds: &Seeds) -> Result<Vec<Client>> {
    let owners = discover(&seeds.hosts, &seeds.maker).await?;
    owners.owners.iter().map(|owner| seeds.maker.client(&owner.place.0, owner.place.1)).collect()
}

/// A master as the nodes of a URL report it: its place, and how to connect to it.
pub(crate) type Master = (String, Client);

/// Returns all masters that serve slots, and an error if no node serves some of the slots.
pub(crate) async fn seen(seeds: &Seeds) -> Result<(Vec<Master>, Result<()>)> {
    let owners = discover(&seeds.hosts, &seeds.maker).await?;
    let master = |place: &HostPort| Ok((shown(place), seeds.maker.client(&place.0, place.1)?));
    let masters = owners.serving().map(|owner| master(&owner.place)).collect::<Result<_>>()?;
    Ok((masters, owners.check()))
}

async fn ask(client: &Client) -> Result<String> {
    let limit = 5 * LIMIT;
    let mut connection = connect_to(client, limit, None).await?;
    let asking = async { Ok(send(&mut connection, &cluster_nodes()).await) };
    text(within(limit, asking).await?.map_err(explain)?)
}

pub(super) fn cluster_nodes() -> Cmd {
    let mut command = redis::cmd("CLUSTER");
    command.arg("NODES");
    command
}

pub(super) fn text(answer: Value) -> Result<String> {
    redis::from_redis_value(answer).map_err(|error| strange(error.to_string()))
}

/// Adds what to do to the error of a server that is not a node of a cluster.
fn explain(error: redis::RedisError) -> Error {
    let text = error.to_string();
    if text.contains("cluster support disabled") || text.contains("unknown command") {
        return Error::new(ErrorKind::Unsupported, NO_NODE).with_source(error);
    }
    from_redis(error)
}
