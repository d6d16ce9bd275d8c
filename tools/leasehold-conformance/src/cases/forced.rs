//! Forced releases of one reader or one permit: the others keep what they have.

use std::time::Duration;

use leasehold_core::{
    AttemptId, Capability, Forced, Guard, LeaseKind, Name, Result, RwLock, Semaphore, Status,
};

use super::{case, ms, secs};
use crate::case::until_within;
use crate::{Case, Context, Outcome, ensure, until};

/// Renewed each 5 s: then an engine that does not push notices that a lease was ended.
const TTL: Duration = Duration::from_secs(15);

pub(super) const CASES: &[Case] = &[
    case!(
        a_forced_release_ends_one_reader_alone,
        |c| c.shared && c.force_release_attempt,
        "A forced release of one reader ends its lease alone; the last one lets the writer in"
    ),
    case!(
        a_forced_release_ends_one_permit_alone,
        |c| c.semaphores && c.force_release_attempt,
        "A forced release of one permit gives exactly its slots back, and their next token is larger"
    ),
    case!(
        a_forced_release_by_attempt_ends_the_holder_alone,
        |c| c.force_release && c.lease == LeaseKind::Ttl,
        "A forced release that names an attempt ends a lock that it holds, and no waiter, last holder or later lease"
    ),
    case!(
        a_forced_release_of_one_is_refused_where_it_is_not_known,
        is_refused,
        "Where an engine cannot end one reader or permit by force, that is refused, and nothing changes"
    ),
];

fn is_refused(capability: &Capability) -> bool {
    (capability.shared || capability.semaphores) && !capability.force_release_attempt
}

/// Waits until the holder's client knows that its lease was ended.
async fn noticed(guard: &Guard) -> Outcome {
    let lost = || async { !guard.is_valid() };
    Ok(until_within(secs(60), "the loss is noticed", lost).await?)
}

fn waiters(status: Result<Status>) -> usize {
    status.ok().and_then(|status| status.waiters).map_or(0, |waiters| waiters.len())
}

async fn no_attempt(context: &Context, name: &Name) -> Outcome<AttemptId> {
    let mut raw = context.raw().await;
    Ok(raw.request(name, TTL).attempt)
}

async fn a_forced_release_ends_one_reader_alone(context: Context) -> Outcome {
    let (one, two, operator) =
        (context.client().await, context.client().await, context.client().await);
    let name = context.name("lock");
    let of = |client: &leasehold_core::Client| -> RwLock { client.rw_lock(&name).ttl(TTL) };
    let lock = of(&operator);
    let (first, second) = (of(&one).read().await?, of(&two).read().await?);
    let stranger = no_attempt(&context, &name).await?;
    ensure!(lock.force_release_attempt(stranger).await? == Forced::NotHeld, "nobody held it");
    ensure!(first.is_valid() && second.is_valid(), "a stranger's release ended a reader");

    ensure!(lock.force_release_attempt(first.attempt()).await? == Forced::Ended, "not ended");
    noticed(&first).await?;
    ensure!(second.is_valid(), "the other reader was ended");
    let status = lock.status().await?;
    let left: Vec<_> = status.readers.iter().map(|reader| reader.attempt).collect();
    ensure!(left == [second.attempt()], "{left:?} read");
    let again = lock.force_release_attempt(first.attempt()).await?;
    ensure!(again == Forced::NotHeld, "ended twice: {again:?}");
    ensure!(lock.try_write().await?.is_none(), "a writer beside the other reader");
    ensure!(first.release().await.is_err(), "released what was ended");
    ensure!(second.is_valid(), "the late release ended the other reader");

    let writer = tokio::spawn({
        let lock = lock.clone();
        async move { lock.write_within(secs(60)).await }
    });
    if operator.capability().ordered {
        until("the writer waits", || async { waiters(lock.status().await) == 1 }).await?;
    }
    ensure!(lock.force_release_attempt(second.attempt()).await? == Forced::Ended, "not ended");
    let write = writer.await??;
    ensure!(write.token() > second.token(), "the token did not grow");
    noticed(&second).await?;
    ensure!(second.release().await.is_err(), "released what was ended");
    ensure!(write.is_valid(), "a late release ended the writer");
    write.release().await?;
    Ok(())
}

async fn a_forced_release_ends_one_permit_alone(context: Context) -> Outcome {
    let (one, two, operator) =
        (context.client().await, context.client().await, context.client().await);
    let name = context.name("semaphore");
    let of = |client: &leasehold_core::Client| -> Semaphore { client.semaphore(&name, 3).ttl(TTL) };
    let semaphore = of(&operator);
    let (first, second) = (of(&one).acquire_many(2).await?, of(&two).acquire().await?);
    let stranger = no_attempt(&context, &name).await?;
    ensure!(semaphore.force_release_attempt(stranger).await? == Forced::NotHeld, "nobody held it");
    let next = tokio::spawn({
        let semaphore = semaphore.clone();
        async move { semaphore.acquire_many_within(2, secs(60)).await }
    });
    if operator.capability().ordered {
        until("it waits", || async { waiters(semaphore.status().await) == 1 }).await?;
    }
    ensure!(semaphore.force_release_attempt(first.attempt()).await? == Forced::Ended, "not ended");
    let next = next.await??;
    ensure!(next.slots() == first.slots(), "{:?} after {:?}", next.slots(), first.slots());
    ensure!(next.token() > first.token(), "the token did not grow");
    noticed(&first).await?;
    ensure!(second.is_valid(), "the other permit was ended");
    let again = semaphore.force_release_attempt(first.attempt()).await?;
    ensure!(again == Forced::NotHeld, "ended twice: {again:?}");
    ensure!(first.release().await.is_err(), "released what was ended");
    ensure!(next.is_valid() && second.is_valid(), "a late release ended another permit");
    let held = semaphore.status().await?.permits.map(|permits| permits.held);
    ensure!(held == Some(3), "{held:?} slots are in use");
    next.release().await?;
    second.release().await?;
    Ok(())
}

async fn a_forced_release_by_attempt_ends_the_holder_alone(context: Context) -> Outcome {
    let (one, two) = (context.client().await, context.client().await);
    let name = context.name("lock");
    let (held, lock) = (one.lock(&name).ttl(TTL).acquire().await?, two.lock(&name).ttl(TTL));
    let stranger = no_attempt(&context, &name).await?;
    ensure!(lock.force_release_attempt(stranger).await? == Forced::NotHeld, "nobody held it");
    held.ensure(ms(0))?;
    ensure!(lock.force_release_attempt(held.attempt()).await? == Forced::Ended, "not ended");
    let next = lock.acquire().await?;
    noticed(&held).await?;
    let again = lock.force_release_attempt(held.attempt()).await?;
    ensure!(again == Forced::NotHeld, "the last holder held it: {again:?}");
    ensure!(next.is_valid(), "a later lease was ended");
    ensure!(held.release().await.is_err(), "released what was ended");
    next.release().await?;
    let free = lock.force_release_attempt(stranger).await?;
    ensure!(free == Forced::NotHeld, "nobody holds it: {free:?}");
    Ok(())
}

async fn a_forced_release_of_one_is_refused_where_it_is_not_known(context: Context) -> Outcome {
    let client = context.client().await;
    let refused = |forced: Result<Forced>| {
        let kind = forced.err().map(|error| error.kind());
        (kind != Some(leasehold_core::ErrorKind::Unsupported)).then(|| format!("{kind:?}"))
    };
    if client.capability().shared {
        let lock = client.rw_lock(context.name("lock"));
        let read = lock.read().await?;
        let kind = refused(lock.force_release_attempt(read.attempt()).await);
        ensure!(kind.is_none(), "a reader: {kind:?}");
        read.release().await?;
    }
    if client.capability().semaphores {
        let semaphore = client.semaphore(context.name("semaphore"), 1);
        let permit = semaphore.acquire().await?;
        let kind = refused(semaphore.force_release_attempt(permit.attempt()).await);
        ensure!(kind.is_none(), "a permit: {kind:?}");
        permit.release().await?;
    }
    Ok(())
}
