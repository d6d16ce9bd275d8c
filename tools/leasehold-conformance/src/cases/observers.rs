//! Observers of a lock are notified of its changes by the engine, without asking at intervals.

use std::time::Duration;

use leasehold_core::{Leader, Leaders, State};
use tokio::time::timeout;

use super::{case, secs};
use crate::{Case, Context, Outcome, ensure};

pub(super) const CASES: &[Case] = &[
    case!(
        observers_are_notified_of_each_leader,
        |c| c.observe,
        "An observer of an election is notified of each leader, and of its resignation, without asking at intervals"
    ),
    case!(
        an_observer_is_notified_of_a_forced_release,
        |c| c.observe && c.force_release,
        "An observer of an election is notified of a forced release"
    ),
    case!(
        observers_share_notifications_and_leave_nothing,
        |c| c.observe,
        "Several observers of one lock are all notified, and one that leaves and comes again too"
    ),
];

/// Observers do not ask at intervals within a test.
const RARELY: Duration = Duration::from_secs(3600);

/// Waits for the next change.
async fn next(leaders: &mut Leaders) -> Outcome<Option<Leader>> {
    let next = timeout(secs(20), leaders.next()).await;
    next.map_err(|_| "no change was pushed in 20 s")?.ok_or_else(|| "the stream ended".into())
}

async fn observers_are_notified_of_each_leader(context: Context) -> Outcome {
    let (client, other) = (context.client().await, context.client().await);
    let name = context.name("scheduler");
    let election = client.election(&name).observe_every(RARELY);
    let mut leaders = election.observe().await?;
    ensure!(next(&mut leaders).await?.is_none(), "a leader without a candidate");
    for candidate in ["one", "two", "three"] {
        let candidacy = other.election(&name).candidate(candidate);
        let leadership = candidacy.campaign().await?;
        let leader = next(&mut leaders).await?.ok_or("nobody leads")?;
        ensure!(leader.candidate == candidate, "{leader:?}");
        ensure!(leader.token == leadership.leadership().token(), "{leader:?}");
        leadership.resign().await?;
        ensure!(next(&mut leaders).await?.is_none(), "{candidate} has resigned");
    }
    Ok(())
}

async fn an_observer_is_notified_of_a_forced_release(context: Context) -> Outcome {
    let (client, other) = (context.client().await, context.client().await);
    let name = context.name("scheduler");
    let lock = other.lock(&name);
    let guard = lock.acquire().await?;
    let mut leaders = client.election(&name).observe_every(RARELY).observe().await?;
    ensure!(next(&mut leaders).await?.is_some(), "nobody leads");
    lock.force_release(guard.token()).await?;
    ensure!(next(&mut leaders).await?.is_none(), "its lease has ended");
    drop(guard);
    other.settle().await;
    Ok(())
}

async fn observers_share_notifications_and_leave_nothing(context: Context) -> Outcome {
    let (client, other) = (context.client().await, context.client().await);
    let name = context.name("lock");
    let (lock, observed) = (other.lock(&name), client.lock(&name));
    for _ in 0..3 {
        let mut several = Vec::new();
        for _ in 0..3 {
            several.push(observed.changes()?);
        }
        several.truncate(2);
        let guard = lock.acquire().await?;
        for changes in &mut several {
            until(changes, || async { Ok(observed.status().await?.state == State::Held) }).await?;
        }
        guard.release().await?;
        for changes in &mut several {
            until(changes, || async { Ok(observed.status().await?.state == State::Free) }).await?;
        }
    }
    Ok(())
}

/// Asks after each notification, until it is so.
async fn until<F>(changes: &mut leasehold_core::LockChanges, is_so: impl Fn() -> F) -> Outcome
where
    F: Future<Output = Outcome<bool>>,
{
    let asking = async {
        while !is_so().await? {
            changes.within(RARELY).await;
        }
        Ok(())
    };
    timeout(secs(20), asking).await.map_err(|_| "no change was pushed in 20 s")?
}
