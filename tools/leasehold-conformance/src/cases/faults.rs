//! Messages lost, repeated and hanging, between the client and the engine.

use std::time::Duration;

use leasehold_core::backend::Answer;
use leasehold_core::{ErrorKind, LeaseKind, LossReason, State, Usage};

use super::{always, case, ms, secs};
use crate::case::told_in_time;
use crate::{Case, Context, Fault, Outcome, Stopwatch, ensure, until};

pub(super) const CASES: &[Case] = &[
    case!(
        a_lost_reply_to_an_acquire,
        always,
        "When the reply to an acquire is lost, asking again gives the same lease"
    ),
    case!(
        an_acquire_that_arrives_after_it_was_given_up,
        always,
        "An acquire that was given up and arrives later gets nothing, and holds nothing"
    ),
    case!(
        an_error_after_the_fact_is_not_taken_for_a_no,
        always,
        "An error that does not say that nothing was done leaves nothing held"
    ),
    case!(
        a_waiter_that_is_refused_later_leaves_the_line,
        |c| c.ordered,
        "A waiter that is refused when it asks again leaves the line"
    ),
    case!(a_duplicated_acquire, always, "An acquire that arrives twice is one lease"),
    case!(
        a_lost_reply_to_a_release,
        always,
        "When the reply to a release is lost, it is repeated in the background until answered"
    ),
    case!(a_duplicated_release, always, "A release that arrives twice is one release, not a loss"),
    case!(
        a_hanging_acquire_keeps_to_the_callers_time,
        always,
        "An engine that does not answer cannot hold a caller beyond its own time"
    ),
    case!(
        renewals_fail_for_a_while,
        |c| c.lease == LeaseKind::Ttl,
        "Renewals that fail for a while are tried again, and nothing is lost"
    ),
    case!(
        renewals_fail_for_good,
        |c| c.lease == LeaseKind::Ttl,
        "When no renewal succeeds, the holder is notified before the lease expires"
    ),
    case!(
        pushes_are_lost,
        |c| c.push,
        "A waiter whose pushes are lost still gets the lock, within the time to ask again"
    ),
];

async fn a_lost_reply_to_an_acquire(context: Context) -> Outcome {
    let (client, faults) = context.faulty_client().await;
    let lock = client.lock(context.name("lock"));
    faults.on_acquire(&[Fault::LoseReply, Fault::LoseRequest, Fault::LoseReply]);
    let guard = lock.try_acquire().await?.ok_or("it is our own lease")?;
    let token = lock.status().await?.token;
    ensure!(token == Some(guard.token()), "the engine says {token:?}");
    guard.release().await?;
    let state = lock.status().await?.state;
    ensure!(state == State::Free, "{state:?}");
    Ok(())
}

async fn an_acquire_that_arrives_after_it_was_given_up(context: Context) -> Outcome {
    let (client, faults) = context.faulty_client().await;
    let lock = client.lock(context.name("lock"));
    faults.on_acquire(&[Fault::Delay]);
    let given_up = lock.acquire_within(ms(50)).await;
    ensure!(given_up.is_err_and(|error| error.kind() == ErrorKind::Timeout), "not given up");
    client.settle().await;
    let answers = faults.deliver().await?;
    ensure!(answers == [Answer::Ended], "{answers:?}");
    let state = lock.status().await?.state;
    ensure!(state == State::Free, "{state:?}");
    Ok(())
}

async fn an_error_after_the_fact_is_not_taken_for_a_no(context: Context) -> Outcome {
    let (client, faults) = context.faulty_client().await;
    let lock = client.lock(context.name("lock"));
    for kind in [ErrorKind::Timeout, ErrorKind::Unavailable, ErrorKind::Closed] {
        faults.on_acquire(&[Fault::Fail(kind)]);
        if let Some(guard) = lock.try_acquire().await? {
            guard.release().await?;
        }
        client.settle().await;
        let state = lock.status().await?.state;
        ensure!(state == State::Free, "after {kind:?}: {state:?}");
    }
    Ok(())
}

async fn a_waiter_that_is_refused_later_leaves_the_line(context: Context) -> Outcome {
    let (client, faults) = context.faulty_client().await;
    let (holder, name) = (context.client().await, context.name("lock"));
    let held = holder.lock(&name).ttl(secs(8)).acquire().await?;
    let lock = client.lock(&name);
    let waiting = tokio::spawn(async move { lock.acquire().await });
    until("it stands in line", || async {
        let status = holder.lock(&name).status().await;
        status.is_ok_and(|status| status.waiters.is_some_and(|waiters| waiters.len() == 1))
    })
    .await?;
    // It asks again when its time has come, and is refused for good.
    faults.on_acquire(&[Fault::Refuse(ErrorKind::Refused)]);
    let kind = waiting.await?.err().map(|error| error.kind());
    ensure!(kind == Some(ErrorKind::Refused), "{kind:?}");
    client.settle().await;
    let waiters = holder.lock(&name).status().await?.waiters.unwrap_or_default();
    ensure!(waiters.is_empty(), "{waiters:?}");
    held.release().await?;
    Ok(())
}

async fn a_duplicated_acquire(context: Context) -> Outcome {
    let (client, faults) = context.faulty_client().await;
    let lock = client.lock(context.name("lock"));
    faults.on_acquire(&[Fault::Duplicate]);
    lock.acquire().await?.release().await?;
    let state = lock.status().await?.state;
    ensure!(state == State::Free, "{state:?}");
    Ok(())
}

/// etcd#22123: after a resignation that failed, the session forgot that it was the leader. A resignation is a release.
async fn a_lost_reply_to_a_release(context: Context) -> Outcome {
    let (client, faults) = context.faulty_client().await;
    let lock = client.lock(context.name("lock"));
    for fault in [Fault::LoseReply, Fault::LoseRequest] {
        let guard = lock.acquire().await?;
        faults.on_release(&[fault, fault]);
        let kind = guard.release().await.err().map(|error| error.kind());
        ensure!(kind == Some(ErrorKind::Unavailable), "{kind:?}");
        client.settle().await;
        let state = lock.status().await?.state;
        ensure!(state == State::Free, "{fault:?}: {state:?}");
    }
    Ok(())
}

async fn a_duplicated_release(context: Context) -> Outcome {
    let (client, faults) = context.faulty_client().await;
    let guard = client.lock(context.name("lock")).acquire().await?;
    faults.on_release(&[Fault::Duplicate]);
    guard.release().await?;
    Ok(())
}

/// fabric8#7350: leadership was announced before the write that acquires it had succeeded.
async fn a_hanging_acquire_keeps_to_the_callers_time(context: Context) -> Outcome {
    let (client, faults) = context.faulty_client().await;
    faults.on_acquire(&[Fault::Hang]);
    let error = match client.lock(context.name("lock")).acquire_within(ms(50)).await {
        Err(error) => error,
        Ok(guard) => return Err(format!("{guard:?}").into()),
    };
    ensure!(error.kind() == ErrorKind::Timeout, "{error:?}");
    client.settle().await;
    ensure!(client.usage() == Usage::default(), "left behind: {:?}", client.usage());
    Ok(())
}

async fn renewals_fail_for_a_while(context: Context) -> Outcome {
    let (client, faults) = context.faulty_client().await;
    let guard = client.lock(context.name("lock")).ttl(secs(8)).acquire().await?;
    faults.cut_renewals(true);
    let sent = faults.calls();
    until("some renewals have failed", || async { faults.calls() >= sent + 3 }).await?;
    faults.cut_renewals(false);
    let deadline = guard.deadline();
    until("one comes through", || async { guard.deadline() != deadline }).await?;
    ensure!(guard.is_valid(), "lost");
    guard.release().await?;
    Ok(())
}

/// kubernetes#44887: a renewal that hung kept the leader in office after its lease had ended.
async fn renewals_fail_for_good(context: Context) -> Outcome {
    let (client, faults) = context.faulty_client().await;
    let (other, name) = (context.client().await, context.name("lock"));
    let stopwatch = Stopwatch::start();
    let guard = client.lock(&name).ttl(secs(2)).acquire().await?;
    faults.cut_renewals(true);
    let reason = guard.lost().await;
    told_in_time(&guard, &stopwatch)?;
    ensure!(reason == LossReason::Expired, "{reason:?}");
    ensure!(!guard.is_valid(), "valid after its loss");
    let next = other.lock(&name).acquire_within(secs(10)).await?;
    ensure!(guard.remaining() == Duration::ZERO, "two holders");
    faults.cut_renewals(false);
    let kind = guard.release().await.err().map(|error| error.kind());
    ensure!(kind == Some(ErrorKind::Lost), "{kind:?}");
    ensure!(next.is_valid(), "the late release touched its successor");
    next.release().await?;
    Ok(())
}

async fn pushes_are_lost(context: Context) -> Outcome {
    let (client, faults) = context.faulty_client().await;
    let (holder, name) = (context.client().await, context.name("lock"));
    let guard = holder.lock(&name).ttl(secs(4)).acquire().await?;
    faults.cut_pushes(true);
    let lock = client.lock(&name).ttl(secs(4));
    let waiting = tokio::spawn(async move { lock.acquire_within(secs(10)).await });
    until("it waits", || async { client.usage().waiting == 1 && faults.calls() > 0 }).await?;
    guard.release().await?;
    waiting.await??.release().await?;
    Ok(())
}
