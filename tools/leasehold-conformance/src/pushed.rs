//! Waits for the pushes of an engine to its observers.

use std::time::Duration;

use leasehold_core::{Lock, LockChanges, State};

use crate::until_answered;

/// Longer than a test: without a push it fails.
const NEVER: Duration = Duration::from_secs(3600);
const LIMIT: Duration = Duration::from_secs(60);

/// Reads the state after each change that is pushed, until the lock has this one. It is read over another connection
/// than the one of the pushes, so a read can fail after a push: then it is read again.
///
/// # Panics
/// If the engine pushes no such change within a minute.
pub async fn pushed_until(changes: &mut LockChanges, lock: &Lock, state: State) {
    let pushed = async {
        while until_answered(|| lock.status()).await.expect("the state").state != state {
            changes.within(NEVER).await;
        }
    };
    let pushed = tokio::time::timeout(LIMIT, pushed).await;
    pushed.unwrap_or_else(|_| panic!("{state:?} was not pushed"));
}
