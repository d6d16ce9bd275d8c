//! Tests on a clock that they move: clients on it, and tasks that wait in the queue.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::backend::Backend;
use leasehold_core::clock::ManualClock;
use leasehold_core::{Client, ClientSettings};

/// Returns a number of seconds.
pub fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Returns a number of milliseconds.
pub fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A future that a test polls by hand.
pub type Acquiring<'a, F> = Pin<&'a mut F>;

/// Creates a client whose clock the test moves.
///
/// # Panics
/// Outside a tokio runtime.
pub fn connect(hand: &ManualClock, backend: Arc<dyn Backend>) -> Client {
    Client::with_settings(backend, ClientSettings::new().clock(hand.clock()))
        .expect("inside a runtime")
}

/// Moves a clock in small steps, and lets all tasks run in between.
pub async fn pass_by(hand: &ManualClock, step: Duration, time: Duration) {
    let mut left = time;
    while !left.is_zero() {
        hand.advance(step.min(left));
        left = left.saturating_sub(step);
        others_run().await;
    }
}

/// On a single-threaded runtime, every task that can run has run after this.
pub async fn others_run() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

/// Polls a waiter, which then waits until it is polled again.
///
/// # Panics
/// If the waiter has acquired the lock.
pub async fn stands_in_line<F: Future>(acquiring: Acquiring<'_, F>) {
    tokio::select! {
        biased;
        _ = acquiring => panic!("it is taken"),
        () = others_run() => {}
    }
}
