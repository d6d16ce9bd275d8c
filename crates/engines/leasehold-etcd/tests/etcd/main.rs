//! What happens on real etcd servers when members, streams, leases, processes and permissions fail.

// A set-up that fails is a failed test.
#![allow(clippy::unwrap_used)]

mod also;
mod earlier;
mod extend;
mod leases;
mod members;
mod newer;
mod observers;
mod permits;
mod readers;
mod refused;
mod streams;
mod waiters;
mod wire;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use leasehold_conformance::runner::{self, Test};
use leasehold_conformance::{Raw, holder, test, until};
use leasehold_core::backend::{AcquireRequest, Backend};
use leasehold_core::{Client, ClientSettings, Error, Name, State, StoreUrl};
use leasehold_etcd_api::{Client as Etcd, ConnectOptions, GetOptions, KeyValue};
use leasehold_test_servers::{EtcdServer, EtcdSettings, Needs};

/// No test takes longer; one that does hangs.
const LIMIT: Duration = Duration::from_secs(120);

fn main() -> ExitCode {
    if let Some(code) = holder::played(async |url| try_connect(&url).await) {
        return code;
    }
    let groups = [
        ("earlier", earlier::TESTS),
        ("extend", extend::TESTS),
        ("leases", leases::TESTS),
        ("members", members::TESTS),
        ("newer", newer::TESTS),
        ("observers", observers::TESTS),
        ("permits", permits::TESTS),
        ("readers", readers::TESTS),
        ("refused", refused::TESTS),
        ("streams", streams::TESTS),
        ("waiters", waiters::TESTS),
        ("wire", wire::TESTS),
        ("also", also::TESTS),
    ];
    runner::run(Needs::Etcd, LIMIT, &groups)
}

async fn try_connect(url: &str) -> Result<Client, Error> {
    let url = StoreUrl::parse(url)?;
    let backend: Arc<dyn Backend> = match leasehold_etcd::names_a_wire(&url) {
        true => Arc::new(leasehold_etcd::connect_with_wire(url).await?),
        false => Arc::new(leasehold_etcd::connect(url).await?),
    };
    Client::with_settings(backend, ClientSettings::new().patience(secs(30)))
}

async fn connect(url: &str) -> Client {
    try_connect(url).await.unwrap()
}

fn server() -> EtcdServer {
    EtcdServer::start(EtcdSettings::new()).unwrap()
}

fn cluster() -> Vec<EtcdServer> {
    EtcdServer::start_all(3, &EtcdSettings::new()).unwrap()
}

fn url_of(members: &[EtcdServer]) -> String {
    let places: Vec<String> = members.iter().map(EtcdServer::place).collect();
    format!("etcd://{}", places.join(","))
}

/// A client of etcd itself, for what operators do.
async fn operator(server: &EtcdServer) -> Etcd {
    Etcd::connect(&server.plain_url(), &ConnectOptions::new()).await.unwrap()
}

/// A backend without the client before it.
async fn raw(server: &EtcdServer, client: u64) -> Raw {
    let url = StoreUrl::parse(&server.url()).unwrap();
    Raw::attach(Arc::new(leasehold_etcd::connect(url).await.unwrap()), client)
}

/// An ask of a new attempt that waits for lock `a`.
fn waits(raw: &mut Raw, ttl: Duration) -> AcquireRequest {
    raw.request(&Name::new("a").unwrap(), ttl).with_wait(true)
}

/// Waits until so many keys are watched at a server.
async fn watched(server: &EtcdServer, count: usize) {
    until(&format!("{count} keys are watched"), || async {
        server.metric("etcd_debugging_mvcc_watcher_total").unwrap() == count as f64
    })
    .await
    .unwrap();
}

/// Waits until a server has no lease any more.
async fn no_lease(operator: &Etcd) {
    until("no lease is left", || async {
        operator.clone().leases().await.unwrap().leases.is_empty()
    })
    .await
    .unwrap();
}

/// Waits until a lock is free and no client waits.
async fn free(client: &Client, name: &str) {
    until("the lock is free and no client waits", || async {
        let status = client.lock(name).status().await;
        status.is_ok_and(|status| {
            status.state == State::Free && status.waiters.is_none_or(|waiters| waiters.is_empty())
        })
    })
    .await
    .unwrap();
}

/// Waits until so many clients wait.
async fn waiting(client: &Client, name: &str, count: usize) {
    until("they wait", || async {
        let status = client.lock(name).status().await;
        status.is_ok_and(|status| status.waiters.is_some_and(|waiters| waiters.len() == count))
    })
    .await
    .unwrap();
}

/// Returns the keys of a server.
async fn keys(operator: &Etcd) -> Vec<KeyValue> {
    let all = Some(GetOptions::new().with_prefix());
    operator.clone().get("leasehold/", all).await.unwrap().kvs
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
