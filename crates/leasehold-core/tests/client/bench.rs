//! The base of all client tests: a store, a clock that the test moves, and tasks that wait in the
//! queue.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use leasehold_conformance::Faults;
pub(crate) use leasehold_conformance::manual_time::{
    Acquiring, connect, ms, others_run, pass_by, secs, stands_in_line,
};
use leasehold_core::clock::ManualClock;
use leasehold_core::memory::MemoryStore;
use leasehold_core::{Client, Error, Guard, Lock, State, Usage};
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
