//! What happens on real ZooKeeper servers when sessions, connections, servers and permissions fail.

// A set-up that fails is a failed test.
#![allow(clippy::unwrap_used)]

mod also;
mod ensemble;
mod foreign_nodes;
mod herd;
mod latches;
mod lost_messages;
mod newer;
mod observers;
mod permits;
mod readers;
mod record_proxy;
mod records;
mod refused;
mod sessions;
mod wire;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use leasehold_conformance::runner::{self, Test};
use leasehold_conformance::{Raw, holder, test, until};
use leasehold_core::backend::AcquireRequest;
use leasehold_core::{Client, ClientSettings, Error, ErrorKind, Name, State, StoreUrl};
use leasehold_test_servers::{Needs, ZooKeeperServer, ZooKeeperSettings};

/// No test takes longer than this; one that does hangs.
const LIMIT: Duration = Duration::from_secs(120);

fn main() -> ExitCode {
    if let Some(code) = holder::played(async |url| try_connect(&url).await) {
        return code;
    }
    let groups = [
        ("ensemble", ensemble::TESTS),
        ("herd", herd::TESTS),
        ("latches", latches::TESTS),
        ("lost", lost_messages::TESTS),
        ("neighbours", foreign_nodes::TESTS),
        ("newer", newer::TESTS),
        ("observers", observers::TESTS),
        ("permits", permits::TESTS),
        ("readers", readers::TESTS),
        ("records", records::TESTS),
        ("refused", refused::TESTS),
        ("sessions", sessions::TESTS),
        ("wire", wire::TESTS),
        ("also", also::TESTS),
    ];
    runner::run(Needs::ZooKeeper, LIMIT, &groups)
}

async fn try_connect(url: &str) -> Result<Client, Error> {
    let url = StoreUrl::parse(url)?;
    // A machine with much to do may be long in electing a leader.
    let settings = ClientSettings::new().patience(secs(60));
    if leasehold_zookeeper::names_a_wire(&url) {
        let backend = leasehold_zookeeper::connect_with_wire(url).await?;
        return Client::with_settings(Arc::new(backend), settings);
    }
    Client::with_settings(Arc::new(leasehold_zookeeper::connect(url).await?), settings)
}

/// A machine with much to do may not answer in the time that short sessions leave.
async fn connect(url: &str) -> Client {
    loop {
        match try_connect(url).await {
            Ok(client) => return client,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
        }
    }
}

fn plain() -> ZooKeeperServer {
    ZooKeeperServer::start(ZooKeeperSettings::new()).unwrap()
}

/// A backend without the client before it.
async fn raw(url: &str, client: u64) -> Raw {
    let backend = leasehold_zookeeper::connect(StoreUrl::parse(url).unwrap()).await.unwrap();
    Raw::attach(Arc::new(backend), client)
}

/// An ask of a new attempt that waits for lock `a`.
fn waits(raw: &mut Raw) -> AcquireRequest {
    raw.request(&Name::new("a").unwrap(), secs(30)).with_wait(true)
}

/// Waits until no client holds a lock or waits for it.
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

/// Waits until this many stand in line behind the holder.
async fn waiting(client: &Client, name: &str, count: usize) {
    until("they stand in line", || async {
        let status = client.lock(name).status().await;
        status.is_ok_and(|status| status.waiters.is_some_and(|waiters| waiters.len() == count))
    })
    .await
    .unwrap();
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
