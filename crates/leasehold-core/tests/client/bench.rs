//! The base of all client tests: a store, a clock that the test moves, and tasks that wait in the
//! queue.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use leasehold_conformance::Faults;
use leasehold_core::backend::Backend;
use leasehold_core::clock::ManualClock;
use leasehold_core::memory::MemoryStore;
use leasehold_core::{Client, ClientSettings, Error, Guard, Lock, State, Usage};
use tokio::task::JoinHandle;

/// A store, a client with injected faults, and the clock of both.
pub(crate) struct Bench {
    pub(crate) hand: ManualClock,
    pub(crate) store: MemoryStore,
    pub(crate) client: Client,
    pub(crate) faults: Faults,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let hand = ManualClock::new();
        let store = MemoryStore::with_clock(hand.clock());
        let faults = Faults::before(Arc::new(store.connect()));
        let client = connect(&hand, Arc::new(faults.clone()));
        Self { hand, store, client, faults }
    }

    pub(crate) fn other_client(&self) -> Client {
        connect(&self.hand, Arc::new(self.store.connect()))
    }

    /// Moves the clock in steps of a tenth of a second, and lets all tasks run in between.
    pub(crate) async fn pass(&self, time: Duration) {
        pass_by(&self.hand, ms(100), time).await;
    }

    /// Checks that no client holds or waits for `a`, and that the client keeps nothing of it.
    pub(crate) async fn nothing_is_left(&self) {
        self.client.settle().await;
        assert_eq!(self.client.usage(), Usage::default());
        let status = self.client.lock("a").status().await.unwrap();
        assert_eq!((status.state, status.waiters), (State::Free, Some(Vec::new())));
    }
}

pub(crate) fn connect(hand: &ManualClock, backend: Arc<dyn Backend>) -> Client {
    Client::with_settings(backend, ClientSettings::new().clock(hand.clock()))
        .expect("inside a runtime")
}

/// Moves a clock in small steps, and lets all tasks run in between.
pub(crate) async fn pass_by(hand: &ManualClock, step: Duration, time: Duration) {
    let mut left = time;
    while !left.is_zero() {
        hand.advance(step.min(left));
        left = left.saturating_sub(step);
        others_run().await;
    }
}

/// On a single-threaded runtime, every task that can run has run after this.
pub(crate) async fn others_run() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

pub(crate) fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(crate) type Waiting = JoinHandle<Result<Guard, Error>>;

/// Starts a task that waits for the lock in the queue.
pub(crate) async fn waits(lock: &Lock) -> Waiting {
    let lock = lock.clone();
    let waiting = tokio::spawn(async move { lock.acquire().await });
    others_run().await;
    assert!(!waiting.is_finished());
    waiting
}

/// Returns the guard of a task whose turn has come.
pub(crate) async fn got(waiting: Waiting) -> Guard {
    others_run().await;
    assert!(waiting.is_finished(), "its turn has come");
    waiting.await.unwrap().unwrap()
}

pub(crate) type Acquiring<'a, F> = std::pin::Pin<&'a mut F>;

/// Polls a waiter, which then waits until it is polled again.
pub(crate) async fn stands_in_line<F: Future>(acquiring: Acquiring<'_, F>) {
    tokio::select! {
        biased;
        _ = acquiring => panic!("it is taken"),
        () = others_run() => {}
    }
}

/// Polls a waiter whose turn has come.
pub(crate) async fn stands_no_more<F: Future<Output = Result<Guard, Error>>>(
    acquiring: Acquiring<'_, F>,
) -> Guard {
    tokio::select! {
        biased;
        guard = acquiring => guard.unwrap(),
        () = others_run() => panic!("its turn has come"),
    }
}

/// Lets a first task hand the lock to a second one, which is polled, with the third behind it,
/// which is not.
pub(crate) async fn second_before<F: Future>(lock: &Lock, third: Acquiring<'_, F>) -> Guard {
    let first = lock.acquire().await.unwrap();
    let second = waits(lock).await;
    stands_in_line(third).await;
    first.release().await.unwrap();
    got(second).await
}
