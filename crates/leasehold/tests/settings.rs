//! Every way to create a client takes the same settings, and uses them.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use leasehold::clock::ManualClock;
use leasehold::memory::MemoryStore;
use leasehold::{Client, ClientSettings, Guard, blocking};

/// Returns settings, and the clock that is one of them.
fn settings() -> (ClientSettings, ManualClock) {
    let hand = ManualClock::new();
    (ClientSettings::new().clock(hand.clock()), hand)
}

/// Checks that a guard of a client counts by the clock of its settings.
fn counts_by(hand: &ManualClock, guard: &Guard) {
    assert!(guard.remaining() > Duration::from_secs(29));
    hand.advance(Duration::from_secs(31));
    assert!(!guard.is_valid());
}

#[tokio::test]
async fn async_clients_use_their_settings() {
    let memory = || Arc::new(MemoryStore::new().connect());
    for way in 0..4 {
        let (settings, hand) = settings();
        let client = match way {
            0 => leasehold::connect_with("memory:", settings).await,
            1 => leasehold::connect_on_own_thread("memory:", settings).await,
            2 => Client::with_settings(memory(), settings),
            _ => Client::on_own_thread(move || async move { Ok(memory() as _) }, settings).await,
        };
        let guard = client.unwrap().lock("a").acquire().await.unwrap();
        counts_by(&hand, &guard);
    }
}

#[test]
fn a_blocking_client_uses_its_settings() {
    let (settings, hand) = settings();
    let client = blocking::connect_with("memory:", settings).unwrap();
    let guard = client.lock("a").acquire().unwrap();
    counts_by(&hand, guard.as_async());
}
