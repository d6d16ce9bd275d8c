//! Connects to a server, and reports errors at once, with a next step.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use leasehold_core::clock::Clock;
use leasehold_core::proto::quorum::majority;
use leasehold_core::{Error, ErrorKind, Result, StoreUrl};
use tokio::sync::mpsc;

use crate::address::Address;
use crate::backend::RedisBackend;
use crate::batcher::Batcher;
use crate::command::{send, tracking, within};
use crate::key::Keys;
use crate::push_support;
use crate::quorum::{WireList, parse_wire};
use crate::replication::Replicas;
use crate::retain::RETAIN;
use crate::script::Scripts;
use crate::source::Source;
use crate::supervisor::Supervisor;
use crate::topology::{Cluster, Route, Servers, Store};
use crate::wire::{WireBackend, WireQuorum, too_few};

/// How long the first check of the server may take.
const LIMIT: Duration = Duration::from_secs(5);
/// How long to wait for the rest of several servers, once a majority is connected.
const GRACE: Duration = Duration::from_millis(400);

/// Connects to the server that a URL names.
///
/// | URL | server |
/// |---|---|
/// | `redis://[user[:password]@]host[:port][/db]` | over TCP |
/// | `rediss://…` | over TLS; `tls-ca=FILE`, `tls-cert=FILE`, `tls-key=FILE` (PEM) |
/// | `redis+unix:/path/to/socket` | over a unix socket; `db=N`, `user=NAME` |
/// | `redis+cluster://[user[:password]@]host[:port],...`, `rediss+cluster://` | the masters of a cluster, found by asking any of its nodes |
/// | `redis+sentinel://[user[:password]@]host[:port],.../NAME`, `rediss+sentinel://` | the master that sentinels name; `sentinel-user`, `sentinel-password-file`, `sentinel-tls=off` |
///
/// `password-file=FILE` keeps the password out of the URL. `prefix=TEXT` is the prefix of the keys
/// (default `leasehold`), `retain=TIME` how long the records of unused names stay (2 min to 720 h,
/// default 40 min). With `replicas=K` or `replicas=majority`, that many replicas must
/// acknowledge a grant, or the acquire fails.
///
/// # Errors
/// [`ErrorKind::Invalid`] for a URL that cannot be parsed; [`ErrorKind::Unavailable`] if the server
/// cannot be reached; [`ErrorKind::Refused`] for credentials, permissions, and a replica;
/// [`ErrorKind::Unsupported`] for a server older than 7.0, a node of a cluster, and a Sentinel.
pub async fn connect(url: StoreUrl) -> Result<RedisBackend> {
    connect_with(url, Clock::system()).await
}

/// Does the same with another clock.
pub(crate) async fn connect_with(url: StoreUrl, clock: Clock) -> Result<RedisBackend> {
    let store = Store::parse(url.clone())?;
    if let Some(wire) = &store.wire {
        let what = format!("wire={}; connect with connect_with_wire", wire.name());
        return Err(StoreUrl::invalid(what));
    }
    in_runtime()?;
    let keys = Keys::new(&store.prefix);
    let opened = open(store.what, &keys, Scripts::new(store.retain), &clock).await;
    let route = opened.map_err(|error| of_server(error, &store.place))?;
    let replicas = match store.replicas {
        None => None,
        Some(policy) => {
            let route =
                open(Store::parse(url)?.what, &keys, Scripts::new(store.retain), &clock).await?;
            policy.needs(route.replicas(&keys.node()).await?)?;
            Some(Replicas::new(policy, route, keys.clone()))
        }
    };
    let push = may_push(&route).await?;
    Ok(RedisBackend::new(route, push, replicas, keys, store.place, clock))
}

/// Returns true if a URL names another library's format.
///
/// **Unstable**, as [`leasehold_core::backend`] is: it is for authors of engines.
pub fn names_a_wire(url: &StoreUrl) -> bool {
    url.clone().take("wire").is_some()
}

/// Connects to the server that a URL names, for locks in another library's format: `wire=set-nx` (with `key-prefix=TEXT` or
/// `spring=REGISTRYKEY`), `wire=rueidis` (with `majority=M` and `key-prefix=TEXT`) or `wire=redisson`.
///
/// # Errors
/// As [`connect`]; [`ErrorKind::Invalid`] also for `replicas`, which other libraries' clients would not keep to.
pub async fn connect_with_wire(url: StoreUrl) -> Result<WireBackend> {
    let clock = Clock::system();
    let store = Store::parse(url)?;
    in_runtime()?;
    let Some(wire) = store.wire else {
        return Err(StoreUrl::invalid("no option wire; connect with connect"));
    };
    if store.replicas.is_some() {
        return Err(StoreUrl::invalid(
            "replicas with wire: clients of other libraries do not wait for replicas; name one of the two",
        ));
    }
    let scripts = wire.scripts(store.retain).map(Arc::new);
    let loaded = Scripts::new(store.retain).with_wire(scripts.clone());
    let keys = Keys::new(&store.prefix);
    let opened = open(store.what, &keys, loaded, &clock).await;
    let route = opened.map_err(|error| of_server(error, &store.place))?;
    let push = may_push(&route).await? && may_track(&route).await?;
    Ok(WireBackend::new(route, push, (wire, scripts), keys, store.place, clock))
}

/// Connects to the independent servers of a URL `redlock://…?wire=set-nx` (with `key-prefix=TEXT` and `node-limit=TIME`), for
/// locks that other libraries keep at a majority of the same servers. Servers that are down now can join later.
///
/// # Errors
/// As [`connect`]; [`ErrorKind::Invalid`] also for formats and options that such lists of other libraries do not have;
/// [`ErrorKind::Unavailable`] if fewer than a majority answer.
pub async fn quorum_with_wire(url: StoreUrl) -> Result<WireQuorum> {
    quorum_with_wire_at(url, Clock::system()).await
}

/// Does the same with another clock.
pub(crate) async fn quorum_with_wire_at(mut url: StoreUrl, clock: Clock) -> Result<WireQuorum> {
    let WireList { addresses, wire, node_limit } = parse_wire(&mut url)?;
    in_runtime()?;
    let retain = addresses.first().map_or(RETAIN, |first| first.retain);
    let scripts = wire.scripts(retain).map(Arc::new);
    let mut servers = Vec::new();
    for Address { client, prefix, place, .. } in addresses {
        let loaded = Arc::new(Scripts::new(retain).with_wire(scripts.clone()));
        let (source, keys) = (Source::Server(client), Keys::new(&prefix));
        let (orders, receiver) = mpsc::unbounded_channel();
        let state = Supervisor::start_later(source, loaded.clone(), clock.clone(), receiver);
        servers.push((
            Batcher::new(state, orders, loaded, keys.clone(), clock.clone()),
            keys,
            place,
        ));
    }
    let count = servers.len();
    settle(&servers.iter().map(|(link, _, place)| (link, &**place)).collect::<Vec<_>>()).await?;
    let mut backends = Vec::new();
    for (link, keys, place) in servers {
        let route = Route::One(link, None);
        let push =
            may_push(&route).await.unwrap_or(true) && may_track(&route).await.unwrap_or(true);
        let format = (wire.clone(), scripts.clone());
        let backend = WireBackend::new(route, push, format, keys, place, clock.clone());
        backends.push(backend.one_of(count));
    }
    Ok(WireQuorum::new(backends, node_limit, clock))
}

/// Waits until a majority of the servers is connected, and then a moment for the others.
async fn settle(servers: &[(&Batcher, &str)]) -> Result<()> {
    let most = majority(servers.len());
    let connecting = servers.iter().map(|(link, place)| async move {
        link.connected(LIMIT).await.map_err(|error| of_server(error, place))
    });
    let mut connecting: FuturesUnordered<_> = connecting.collect();
    let (mut up, mut why) = (0, None);
    while up < most
        && let Some(connected) = connecting.next().await
    {
        match connected {
            Ok(()) => up += 1,
            Err(error) => why = why.or(Some(error)),
        }
    }
    if up >= most {
        let others = async { while connecting.next().await.is_some() {} };
        tokio::time::timeout(GRACE, others).await.ok();
        return Ok(());
    }
    let why = why.as_ref().map_or("", |error| error.message());
    Err(too_few(up, servers.len(), why))
}

fn in_runtime() -> Result<()> {
    match tokio::runtime::Handle::try_current() {
        Ok(_) => Ok(()),
        Err(_) => {
            Err(Error::new(ErrorKind::Invalid, "no tokio runtime; connect inside a tokio runtime"))
        }
    }
}

/// Names the server in an error: its reader may use several.
fn of_server(error: Error, place: &str) -> Error {
    let message = format!("server {}: {}", place, error.message());
    Error::new(error.kind(), message).with_retry(error.retry()).with_source(error)
}

/// Returns true if all servers can push.
async fn may_push(route: &Route) -> Result<bool> {
    let mut push = true;
    for link in route.all()? {
        // A node that is down does not matter; the others report the same.
        if let Ok(mut live) = link.live() {
            let trying = push_support::may_subscribe(&mut live.connection);
            push &= tokio::time::timeout(LIMIT, trying).await.unwrap_or(Ok(true))?;
        }
    }
    Ok(push)
}

/// Returns true if no server refuses to report changes of keys, by which waiters of other formats are woken.
async fn may_track(route: &Route) -> Result<bool> {
    for link in route.all()? {
        let Ok(mut live) = link.live() else { continue };
        let asked = within(LIMIT, send(&mut live.connection, &tracking())).await;
        if let Err(error) = asked
            && error.kind() != ErrorKind::Unavailable
        {
            tracing::warn!(%error, "this server reports no changes; waiters poll");
            return Ok(false);
        }
    }
    Ok(true)
}

/// Makes the connections.
async fn open(what: Servers, keys: &Keys, scripts: Scripts, clock: &Clock) -> Result<Route> {
    let scripts = Arc::new(scripts);
    let source = match what {
        Servers::One(source) => source,
        Servers::Cluster(seeds) => {
            let cluster = Cluster::start(seeds, keys.clone(), scripts, clock.clone());
            return Ok(Route::Cluster(cluster.await?));
        }
    };
    let (orders, receiver) = mpsc::unbounded_channel();
    let sentinels = source.sentinels();
    let starting = Supervisor::start(source, scripts.clone(), clock.clone(), receiver);
    let link = Batcher::new(starting.await?, orders, scripts, keys.clone(), clock.clone());
    link.check_publish().await?;
    Ok(Route::One(link, sentinels))
}
