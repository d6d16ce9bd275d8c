//! Tests that on SQLite a holder sends nothing while no task waits, by counting packets.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use leasehold_conformance::until;
use leasehold_core::clock::Clock;
use leasehold_core::{Client, StoreUrl};

use crate::backend::SqlBackend;

impl SqlBackend {
    /// Returns how many packets this client has sent.
    fn packets(&self) -> u64 {
        self.store().pool.packets.load(Ordering::Relaxed)
    }
}

#[tokio::test]
async fn a_holder_behind_whom_no_task_waits_asks_sqlite_nothing() {
    let place = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", place.path().join("locks.db").display());
    let connect = async || crate::connect(StoreUrl::parse(&url).unwrap()).await.unwrap();
    let backend = Arc::new(connect().await);
    let (one, two) =
        (Client::new(backend.clone()).unwrap(), Client::new(Arc::new(connect().await)).unwrap());
    let lock = one.lock("a").ttl(Duration::from_secs(6));
    let held = lock.acquire().await.unwrap();
    let other = two.lock("a").ttl(Duration::from_secs(600));
    let waits = tokio::spawn(async move { other.acquire().await?.release().await });
    until("the other client waits", || async { two.usage().waiting == 1 }).await.unwrap();
    // Before the first renewal this client would not poll in any case, so wait for a renewal.
    let held_since = backend.packets();
    until("it renews", || async { backend.packets() > held_since }).await.unwrap();
    let before = backend.packets();
    Clock::system().sleep(Duration::from_secs(3)).await;
    // Renewals come every 2 s; polls would come every 0.5 s.
    let sent = backend.packets() - before;
    assert!(sent <= 3, "{sent} packets in 3 s while no task of this client waits");
    // A local task waits: from then on the client polls for waiters of others. Fewer packets than
    // that are renewals, in the time of this test.
    let local = tokio::spawn(async move { lock.acquire().await?.release().await });
    until("it polls", || async { backend.packets() > before + 12 }).await.unwrap();
    held.release().await.unwrap();
    waits.await.unwrap().unwrap();
    local.await.unwrap().unwrap();
}
