//! A client on a clock that the test moves, and tasks that wait in the queue. The tests of core have the same few
//! functions: a package's tests cannot share code with those of another one.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::backend::Backend;
use leasehold_core::clock::ManualClock;
use leasehold_core::{Client, ClientSettings};

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

pub(crate) type Acquiring<'a, F> = std::pin::Pin<&'a mut F>;

/// Polls a waiter, which then waits until it is polled again.
pub(crate) async fn stands_in_line<F: Future>(acquiring: Acquiring<'_, F>) {
    tokio::select! {
        biased;
        _ = acquiring => panic!("it is taken"),
        () = others_run() => {}
    }
}
