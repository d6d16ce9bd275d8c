//! A forced release as the holder's process sees it, for engines that push it.

use std::time::Duration;

use leasehold_core::{Client, Forced, LossReason};

use crate::case::{Outcome, until};
use crate::ensure;

/// Much longer than [`until`] waits: no renewal and no end of a lease is what the test sees.
const TTL: Duration = Duration::from_secs(600);

/// A task of `one` holds and two wait behind it, `two` waits outside and then ends the lease by
/// force: the holder loses it at once, its local queue does not pass it on, and `two` gets the lock.
pub async fn force_release_is_pushed(one: &Client, two: &Client, operator: &Client) -> Outcome {
    let lock = one.lock("forced").ttl(TTL);
    let held = lock.acquire().await?;
    // Each releases at once: which of the two comes first is chance.
    let behind = [lock.clone(), lock.clone()]
        .map(|lock| tokio::spawn(async move { lock.acquire().await?.release().await }));
    until("two wait in the holder's process", || async { one.usage().waiting == 2 }).await?;
    let outside = two.lock("forced").ttl(TTL);
    let outside = tokio::spawn(async move { outside.acquire().await });
    let queued = || async {
        let status = operator.lock("forced").status().await;
        status.is_ok_and(|status| status.waiters.is_some_and(|waiters| !waiters.is_empty()))
    };
    until("the other client stands in the queue", queued).await?;
    let forced = operator.lock("forced").force_release(held.token()).await?;
    ensure!(forced == Forced::Ended, "{forced:?}");
    until("the holder loses the lease", || async { !held.is_valid() }).await?;
    ensure!(held.lost().await == LossReason::NotOwner, "another reason");
    until("the other client gets the lock", || async { outside.is_finished() }).await?;
    let next = outside.await??;
    ensure!(held.release().await.is_err(), "the lost lease was released");
    ensure!(behind.iter().all(|task| !task.is_finished()), "the lost lease was passed on");
    ensure!(next.is_valid(), "the late release touched its successor");
    next.release().await?;
    for task in behind {
        task.await??;
    }
    Ok(())
}
