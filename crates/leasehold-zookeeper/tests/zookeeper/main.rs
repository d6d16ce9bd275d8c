//! What happens on real ZooKeeper servers when sessions, connections, servers and permissions fail.

// A set-up that fails is a failed test.
#![allow(clippy::unwrap_used)]

mod ensemble;
mod herd;
mod lost;
mod neighbours;
mod refused;
mod sessions;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use leasehold_conformance::kit::{Needs, ZooKeeperServer, ZooKeeperSettings};
use leasehold_conformance::runner::{self, Test};
use leasehold_conformance::{holder, test, until};
use leasehold_core::backend::{Ask, Backend, Event, EventSink, Mode, Origin, State};
use leasehold_core::{AttemptId, Client, ClientId, Error, ErrorKind, Name, StoreUrl};
use tokio::sync::mpsc::UnboundedReceiver;

/// No test takes longer than this; one that does hangs.
const LIMIT: Duration = Duration::from_secs(120);

fn main() -> ExitCode {
    if let Some(code) = holder::played(async |url| try_connect(&url).await) {
        return code;
    }
    let groups = [
        ("ensemble", ensemble::TESTS),
        ("herd", herd::TESTS),
        ("lost", lost::TESTS),
        ("neighbours", neighbours::TESTS),
        ("refused", refused::TESTS),
        ("sessions", sessions::TESTS),
    ];
    runner::run(Needs::ZooKeeper, LIMIT, &groups)
}

async fn try_connect(url: &str) -> Result<Client, Error> {
    let backend = leasehold_zookeeper::connect(StoreUrl::parse(url)?).await?;
    Client::new(Arc::new(backend))
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
struct Raw {
    backend: Arc<dyn Backend>,
    events: UnboundedReceiver<Event>,
    client: ClientId,
    sequence: u32,
}

impl Raw {
    async fn connect(url: &str, client: u64) -> Self {
        let url = StoreUrl::parse(url).unwrap();
        let backend: Arc<dyn Backend> = Arc::new(leasehold_zookeeper::connect(url).await.unwrap());
        let client = ClientId::from_bits(client);
        let (sink, events) = EventSink::channel();
        backend.attach(client, sink);
        Self { backend, events, client, sequence: 0 }
    }

    /// An ask of a new attempt that waits.
    fn ask(&mut self, name: &str) -> Ask {
        self.sequence += 1;
        Ask {
            name: Name::new(name).unwrap(),
            attempt: AttemptId::new(self.client, self.sequence, 0),
            mode: Mode::Exclusive,
            ttl: secs(30),
            wait: true,
            fair: true,
            tokens: 1,
            origin: Arc::new(Origin::new("host", 1, None)),
        }
    }
}

/// Waits until nobody holds a lock or waits for it.
async fn free(client: &Client, name: &str) {
    until("the lock is free and nobody waits", || async {
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
