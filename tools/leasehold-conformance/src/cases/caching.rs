//! Leases that a client caches.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold_core::{Capability, Client, LeaseKind, Name, State};

use super::process::url;
use super::{case, free, ms, secs};
use crate::holder::Process;
use crate::{Case, Context, Outcome, ensure, until};

pub(super) const CASES: &[Case] = &[
    case!(
        a_cached_lease_is_taken_without_a_call,
        caches,
        "A task takes a lease that its client has cached with a larger token and without a call"
    ),
    case!(
        a_cached_lease_goes_to_whoever_waits,
        caches,
        "A cached lease goes to another client as soon as it waits"
    ),
    case!(
        a_lost_push_delays_whoever_waits_by_the_ttl_at_most,
        caches,
        "If the message that another client waits is lost, it waits for the rest of the ttl at the most"
    ),
    case!(
        a_cached_lease_is_given_back_in_the_end,
        caches,
        "A cached lease is given back after its time, and when its client is closed"
    ),
    case!(
        a_cached_lease_can_be_ended_by_force,
        |c| caches(c) && c.force_release,
        "A cached lease that was ended by force is taken by no task"
    ),
    case!(
        tokens_grow_over_clients_that_cache,
        caches,
        "Tasks of clients that cache and of one that does not hold a lock one at a time, with tokens that grow"
    ),
    case!(
        a_cached_read_lease_is_joined_without_a_call,
        |c| caches(c) && c.shared,
        "A task reads under a lease that its client has cached, with the token of the phase and without a call"
    ),
    case!(
        a_cached_read_lease_goes_to_a_writer_that_waits,
        |c| caches(c) && c.shared,
        "A cached read lease goes to a writer as soon as it waits, of another client or of its own"
    ),
    case!(
        a_lost_push_delays_a_writer_by_the_ttl_at_most,
        |c| caches(c) && c.shared,
        "If the message that a writer waits is lost, it waits for the rest of the ttl of a cached read lease at the most"
    ),
    case!(
        process a_killed_client_keeps_a_cached_read_lease_for_its_ttl_at_most,
        |c| caches(c) && c.shared,
        "A read lease that a killed client had cached ends by its ttl"
    ),
    case!(
        process a_killed_client_keeps_a_cached_lease_for_its_ttl_at_most,
        caches,
        "A lease that a killed client had cached ends by its ttl"
    ),
    case!(
        process a_stopped_client_takes_no_cached_lease_that_is_over,
        |c| caches(c) && c.lease == LeaseKind::Ttl,
        "A client that was stopped longer than the ttl asks the store before it holds again"
    ),
];

fn caches(capability: &Capability) -> bool {
    capability.cached_leases
}

async fn a_cached_lease_is_taken_without_a_call(context: Context) -> Outcome {
    let ((client, faults), name) = (context.faulty_client().await, context.name("lock"));
    let lock = client.lock(&name).ttl(secs(3600)).cache(secs(600));
    let mut last = lock.acquire().await?;
    for _ in 0..20 {
        let token = last.token();
        last.release().await?;
        last = lock.acquire().await?;
        ensure!(last.token() > token, "{} after {token}", last.token());
    }
    // A client gives its cached leases back when its subscription begins, which may be just now.
    ensure!(faults.calls() <= 3, "{} calls", faults.calls());
    last.release().await?;
    ensure!(lock.status().await?.state == State::Held, "the store sees the lease");
    client.close().await;
    free(&context.client().await, &name).await
}

async fn a_cached_lease_goes_to_whoever_waits(context: Context) -> Outcome {
    let (client, other, name) =
        (context.client().await, context.client().await, context.name("lock"));
    let lock = client.lock(&name).ttl(secs(3600)).cache(secs(1800));
    let (mut last, mut cached) = (0, 0);
    for _ in 0..5 {
        let guard = lock.acquire_within(secs(20)).await?;
        ensure!(guard.token().get() > last, "the token went back");
        last = guard.token().get();
        guard.release().await?;
        cached += client.usage().cached;
        let guard = other.lock(&name).acquire_within(secs(20)).await?;
        ensure!(guard.token().get() > last, "the token went back");
        last = guard.token().get();
        guard.release().await?;
    }
    ensure!(cached >= 4, "cached {cached} times of 5");
    client.close().await;
    free(&other, &name).await
}

async fn a_lost_push_delays_whoever_waits_by_the_ttl_at_most(context: Context) -> Outcome {
    let ((client, faults), name) = (context.faulty_client().await, context.name("lock"));
    let other = context.client().await;
    let lock = client.lock(&name).ttl(secs(3)).cache(secs(3600));
    let first = lock.acquire().await?;
    let token = first.token();
    faults.cut_pushes(true);
    first.release().await?;
    let outside = other.lock(&name).acquire_within(secs(20)).await?;
    ensure!(outside.token() > token, "the token went back");
    until("it is given back", || async { client.usage().cached == 0 }).await?;
    outside.release().await?;
    faults.cut_pushes(false);
    client.close().await;
    free(&other, &name).await
}

async fn a_cached_lease_is_given_back_in_the_end(context: Context) -> Outcome {
    let (client, other, name) =
        (context.client().await, context.client().await, context.name("lock"));
    client.lock(&name).ttl(secs(3600)).cache(ms(300)).acquire().await?.release().await?;
    free(&other, &name).await?;
    client.lock(&name).ttl(secs(3600)).cache(secs(600)).acquire().await?.release().await?;
    client.close().await;
    ensure!(other.lock(&name).try_acquire().await?.is_some(), "not given back");
    let (dropped, name) = (context.client().await, context.name("dropped"));
    dropped.lock(&name).ttl(secs(3600)).cache(secs(600)).acquire().await?.release().await?;
    drop(dropped);
    free(&other, &name).await
}

async fn a_cached_lease_can_be_ended_by_force(context: Context) -> Outcome {
    let (client, other, name) =
        (context.client().await, context.client().await, context.name("lock"));
    let lock = client.lock(&name).ttl(secs(3600)).cache(secs(600));
    let first = lock.acquire().await?;
    let token = first.token();
    first.release().await?;
    other.lock(&name).force_release(token).await?;
    until("it is notified", || async { client.usage().cached == 0 }).await?;
    let outside = other.lock(&name).try_acquire().await?.ok_or("it is not free")?;
    ensure!(outside.token() > token, "the token went back");
    ensure!(lock.try_acquire().await?.is_none(), "two hold it");
    outside.release().await?;
    Ok(())
}

async fn a_cached_read_lease_is_joined_without_a_call(context: Context) -> Outcome {
    let ((client, faults), name) = (context.faulty_client().await, context.name("lock"));
    let lock = client.rw_lock(&name).ttl(secs(3600)).cache(secs(600));
    let (mut tokens, mut last) = (Vec::new(), lock.read().await?);
    for _ in 0..20 {
        tokens.push(last.token());
        last.release().await?;
        last = lock.read().await?;
    }
    tokens.dedup();
    // A client gives its cached leases back when its subscription begins, which may be just now.
    ensure!(faults.calls() <= 3 && tokens.len() <= 2, "{} calls, {tokens:?}", faults.calls());
    last.release().await?;
    ensure!(client.usage().cached == 1, "it is not cached");
    ensure!(lock.status().await?.state == State::Shared, "the store does not see the lease");
    let other = context.client().await;
    let beside = other.rw_lock(&name).try_read().await?.ok_or("no reader beside it")?;
    beside.release().await?;
    client.close().await;
    free(&other, &name).await
}

async fn a_cached_read_lease_goes_to_a_writer_that_waits(context: Context) -> Outcome {
    let (client, other, name) =
        (context.client().await, context.client().await, context.name("lock"));
    let lock = client.rw_lock(&name).ttl(secs(3600)).cache(secs(1800));
    let (mut last, mut cached) = (0, 0);
    for round in 0..6 {
        let guard = lock.read_within(secs(20)).await?;
        ensure!(guard.token().get() > last, "the token went back");
        last = guard.token().get();
        guard.release().await?;
        cached += client.usage().cached;
        let writer = if round % 2 == 0 { other.rw_lock(&name) } else { lock.clone() };
        let guard = writer.write_within(secs(20)).await?;
        ensure!(guard.token().get() > last, "the token went back");
        last = guard.token().get();
        guard.release().await?;
    }
    ensure!(cached >= 5, "cached {cached} times of 6");
    client.close().await;
    free(&other, &name).await
}

async fn a_lost_push_delays_a_writer_by_the_ttl_at_most(context: Context) -> Outcome {
    let ((client, faults), name) = (context.faulty_client().await, context.name("lock"));
    let other = context.client().await;
    let first = client.rw_lock(&name).ttl(secs(3)).cache(secs(3600)).read().await?;
    let token = first.token();
    faults.cut_pushes(true);
    first.release().await?;
    let outside = other.rw_lock(&name).write_within(secs(20)).await?;
    ensure!(outside.token() > token, "the token went back");
    until("it is given back", || async { client.usage().cached == 0 }).await?;
    outside.release().await?;
    faults.cut_pushes(false);
    client.close().await;
    free(&other, &name).await
}

async fn a_killed_client_keeps_a_cached_read_lease_for_its_ttl_at_most(
    context: Context,
) -> Outcome {
    let (client, name) = (context.client().await, context.name("lock"));
    let mut holder = caching_process(&context, &client, &name, Process::caching_read).await?;
    holder.kill();
    let guard = client.rw_lock(&name).write_within(secs(20)).await?;
    ensure!(guard.token().get() > holder.token, "the token went back");
    guard.release().await?;
    Ok(())
}

async fn tokens_grow_over_clients_that_cache(context: Context) -> Outcome {
    const CLIENTS: u64 = 3;
    const TASKS: u64 = 4;
    const ROUNDS: u64 = 25;
    let name = context.name("lock");
    let (inside, last) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (mut running, mut clients) = (Vec::new(), Vec::new());
    for number in 0..CLIENTS {
        let client = context.client().await;
        for task in 0..TASKS {
            let lock = client.lock(&name).cache(secs(number * 600));
            let (inside, last) = (inside.clone(), last.clone());
            running.push(tokio::spawn(async move {
                for round in 0..ROUNDS {
                    let guard = lock.acquire_within(secs(60)).await?;
                    ensure!(inside.fetch_add(1, Ordering::SeqCst) == 0, "two hold it");
                    let token = guard.token().get();
                    let before = last.swap(token, Ordering::SeqCst);
                    ensure!(before < token, "{token} after {before}");
                    tokio::task::yield_now().await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    guard.release().await?;
                    if (round + task) % 5 == 0 {
                        tokio::time::sleep(ms(1)).await;
                    }
                }
                Outcome::Ok(())
            }));
        }
        clients.push(client);
    }
    for task in running {
        task.await??;
    }
    for client in clients {
        client.close().await;
    }
    free(&context.client().await, &name).await
}

/// Starts a process that caches a lease of 5 s. One that has given it back since is started anew: its
/// subscription began late, or the machine stood still.
async fn caching_process(
    context: &Context,
    client: &Client,
    name: &Name,
    start: fn(&str, &str, Duration) -> Result<Process, String>,
) -> Outcome<Process> {
    for _ in 0..20 {
        let holder = start(url(context)?, name.as_str(), secs(5))?;
        if client.lock(name).status().await?.state != State::Free {
            return Ok(holder);
        }
    }
    Err("it never cached the lease".into())
}

async fn a_killed_client_keeps_a_cached_lease_for_its_ttl_at_most(context: Context) -> Outcome {
    let (client, name) = (context.client().await, context.name("lock"));
    let lock = client.lock(&name);
    let mut holder = caching_process(&context, &client, &name, Process::caching).await?;
    holder.kill();
    let guard = lock.acquire_within(secs(20)).await?;
    ensure!(guard.token().get() > holder.token, "the token went back");
    guard.release().await?;
    Ok(())
}

async fn a_stopped_client_takes_no_cached_lease_that_is_over(context: Context) -> Outcome {
    let (client, name) = (context.client().await, context.name("lock"));
    let mut holder = caching_process(&context, &client, &name, Process::caching).await?;
    holder.stop();
    let guard = client.lock(&name).acquire_within(secs(20)).await?;
    ensure!(guard.token().get() > holder.token, "the token went back");
    holder.resume();
    let taken = holder.ask("take")?;
    ensure!(taken == "taken", "while another client holds the lock it said {taken}");
    ensure!(guard.is_valid(), "the successor was touched");
    let token = guard.token().get();
    guard.release().await?;
    let retaken: u64 = holder.ask("take")?.parse()?;
    ensure!(retaken > token, "{retaken} after {token}");
    Ok(())
}
