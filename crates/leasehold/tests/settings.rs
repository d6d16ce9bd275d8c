//! Every way to create a client takes the same settings, and uses them.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold::clock::ManualClock;
use leasehold::memory::MemoryStore;
use leasehold::{Client, ClientSettings, ErrorKind, Guard, blocking};
use leasehold_conformance::{Fault, Faults};

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

#[tokio::test]
async fn calls_to_a_silent_engine_end_by_the_clock_and_the_patience_of_the_settings() {
    for own_thread in [false, true] {
        let hand = ManualClock::new();
        let settings = ClientSettings::new()
            .clock(hand.clock())
            .patience(Duration::from_secs(7))
            .try_patience(Duration::from_secs(3));
        let faults = Faults::before(Arc::new(MemoryStore::new().connect()));
        faults.on_acquire(&[Fault::Hang; 100]);
        let backend = Arc::new(faults);
        let client = match own_thread {
            false => Client::with_settings(backend, settings),
            true => Client::on_own_thread(move || async move { Ok(backend as _) }, settings).await,
        };
        let client = client.unwrap();
        assert_eq!(gives_up(&hand, client.lock("a").try_acquire()).await, 3, "{own_thread}");
        assert_eq!(gives_up(&hand, client.lock("b").acquire()).await, 7, "{own_thread}");
    }
}

/// Returns after how many seconds a call fails, by the clock that is driven by hand.
async fn gives_up<T: std::fmt::Debug>(
    hand: &ManualClock,
    call: impl Future<Output = leasehold::Result<T>>,
) -> u64 {
    let mut call = std::pin::pin!(call);
    for seconds in 0..60 {
        // A real pause: the client may live on another thread.
        let wait = tokio::time::timeout(Duration::from_millis(50), &mut call).await;
        if let Ok(outcome) = wait {
            assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Unavailable);
            return seconds;
        }
        hand.advance(Duration::from_secs(1));
    }
    panic!("it waits for ever");
}

#[test]
fn leases_that_a_runtime_left_are_ended_over_the_connection_of_the_settings() {
    for by_url in [false, true] {
        let opened = Arc::new(AtomicBool::new(false));
        let settings = ClientSettings::new().reopen({
            let opened = opened.clone();
            move || {
                opened.store(true, Ordering::SeqCst);
                Box::pin(async { Ok(Arc::new(MemoryStore::new().connect()) as _) })
            }
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let guard = runtime.block_on(async {
            let client = match by_url {
                true => leasehold::connect_with("memory:", settings).await,
                false => Client::with_settings(Arc::new(MemoryStore::new().connect()), settings),
            };
            client.unwrap().lock("a").acquire().await.unwrap()
        });
        drop(runtime);
        drop(guard);
        assert!(opened.load(Ordering::SeqCst), "by URL: {by_url}");
    }
}
