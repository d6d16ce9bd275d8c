//! Locks as programs use them: waiting, tokens, re-entry, holding times, what is left behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use leasehold_core::clock::Clock;
use leasehold_core::{Client, ErrorKind, LeaseKind, LossReason, OnLoss, Owner, Usage};

use super::{always, case, free, ms, secs};
use crate::case::{since, told_in_time};
use crate::{Case, Context, Outcome, Stopwatch, ensure, until};

pub(super) const CASES: &[Case] = &[
    case!(
        a_counter_under_the_lock_is_exact,
        always,
        "64 tasks that count under one lock lose no update, and their tokens only grow"
    ),
    case!(
        everybody_who_waits_gets_the_lock,
        always,
        "Every waiter acquires the lock, over several clients"
    ),
    case!(
        waiting_ends_in_time_and_leaves_nothing,
        always,
        "A waiter whose time is up leaves no entry, no task and no lease"
    ),
    case!(
        the_owner_enters_again,
        always,
        "The same owner enters again with the same token, and the lease ends with the last guard"
    ),
    case!(
        a_minimum_hold_keeps_others_out,
        always,
        "A lock with a minimum hold stays taken that long after a quick release: by the store where `a_kept_lock_stays_taken` is yes, else by its client, while that lives"
    ),
    case!(
        a_maximum_hold_ends_a_forgotten_guard,
        always,
        "A lock with a maximum hold ends then, even if the program forgets its guard"
    ),
    case!(
        work_is_cancelled_on_loss,
        always,
        "Work that runs under a lost lock is cancelled before the lease ends, at its next await point"
    ),
    case!(
        work_goes_on_when_it_is_only_to_be_told,
        always,
        "With the aggressive policy the work is notified of the loss and continues"
    ),
    case!(
        a_renewed_lease_outlives_its_ttl,
        |c| c.lease == LeaseKind::Ttl,
        "A guard is renewed for as long as it lives"
    ),
    case!(a_fixed_lease_ends, always, "A fixed lease is not renewed and ends on time"),
    case!(bounded
        a_forced_release_is_noticed,
        |c| c.force_release,
        "A holder whose lease was revoked by force is notified within this time"
    ),
    case!(
        a_closed_client_waits_no_more,
        always,
        "Closing a client ends its waiting, and leaves its guards alone"
    ),
    case!(
        wrong_knobs_are_refused_before_anything_is_sent,
        always,
        "Wrong names and times are refused before anything is sent; the error names the field and what is allowed"
    ),
];

async fn a_counter_under_the_lock_is_exact(context: Context) -> Outcome {
    count(&context, 2, 32, 5).await
}

async fn everybody_who_waits_gets_the_lock(context: Context) -> Outcome {
    count(&context, 8, 4, 2).await
}

/// `clients` x `tasks` tasks add one to a number `rounds` times each, with a gap between reading
/// and writing that only the lock protects.
async fn count(context: &Context, clients: usize, tasks: usize, rounds: u64) -> Outcome {
    let name = context.name("counter");
    let number = Arc::new(AtomicU64::new(0));
    let last_token = Arc::new(AtomicU64::new(0));
    let inside = Arc::new(AtomicBool::new(false));
    let mut connected = Vec::new();
    for _ in 0..clients {
        connected.push(context.client().await);
    }
    let clients: Vec<Client> = connected;
    let mut running = Vec::new();
    for task in 0..tasks * clients.len() {
        let lock = clients[task % clients.len()].lock(name.as_str());
        let (number, last, inside) = (number.clone(), last_token.clone(), inside.clone());
        running.push(tokio::spawn(async move {
            for _ in 0..rounds {
                let guard = lock.acquire().await?;
                ensure!(!inside.swap(true, Ordering::SeqCst), "two inside");
                let token = guard.token().get();
                let before = last.swap(token, Ordering::SeqCst);
                ensure!(token > before, "token {token} after {before}");
                let read = number.load(Ordering::SeqCst);
                tokio::task::yield_now().await;
                number.store(read + 1, Ordering::SeqCst);
                inside.store(false, Ordering::SeqCst);
                guard.release().await?;
            }
            Outcome::Ok(())
        }));
    }
    let wanted = running.len() as u64 * rounds;
    for task in running {
        task.await??;
    }
    let counted = number.load(Ordering::SeqCst);
    ensure!(counted == wanted, "{counted} of {wanted}");
    for client in &clients {
        client.settle().await;
        ensure!(client.usage() == Usage::default(), "left behind: {:?}", client.usage());
    }
    free(&clients[0], &name).await
}

/// etcd#21128: the key of a failed campaign stayed, and was elected later. A campaign is an acquire.
async fn waiting_ends_in_time_and_leaves_nothing(context: Context) -> Outcome {
    let (holder, other) = (context.client().await, context.client().await);
    let name = context.name("lock");
    let guard = holder.lock(&name).acquire().await?;
    ensure!(other.lock(&name).try_acquire().await?.is_none(), "two hold it");
    let mut waiting = Vec::new();
    for number in 0..50 {
        let lock = other.lock(&name);
        waiting.push(tokio::spawn(async move { lock.acquire_within(ms(number % 7 * 10)).await }));
    }
    for task in waiting {
        let kind = task.await?.err().map(|error| error.kind());
        ensure!(kind == Some(ErrorKind::Timeout), "{kind:?}");
    }
    let zero = other.lock(&name).wait(Duration::ZERO).acquire().await;
    ensure!(zero.is_err_and(|error| error.kind() == ErrorKind::Timeout), "no wait, no time");
    other.settle().await;
    ensure!(other.usage() == Usage::default(), "left behind: {:?}", other.usage());
    let status = holder.lock(&name).status().await?;
    ensure!(status.waiters.is_none_or(|waiters| waiters.is_empty()), "waiters are left");
    ensure!(guard.is_valid(), "the holder was disturbed");
    guard.release().await?;
    free(&other, &name).await
}

async fn the_owner_enters_again(context: Context) -> Outcome {
    let client = context.client().await;
    let (owner, stranger) = (Owner::new(), Owner::new());
    let lock = client.lock(context.name("lock"));
    let (one, two) = tokio::join!(lock.acquire_as(&owner), lock.acquire_as(&owner));
    let (one, two) = (one?, two?);
    let three = two.reenter()?;
    ensure!(one.token() == two.token() && two.token() == three.token(), "another token");
    let refused = lock.clone().wait(ms(20)).acquire_as(&stranger).await;
    ensure!(refused.is_err_and(|error| error.kind() == ErrorKind::Timeout), "a stranger entered");
    one.release().await?;
    drop(two);
    ensure!(three.is_valid() && lock.try_acquire().await?.is_none(), "ended with the first guard");
    let token = three.token();
    three.release().await?;
    let again = lock.acquire_as(&owner).await?;
    ensure!(again.token() > token, "a new lease with an old token");
    again.release().await?;
    Ok(())
}

async fn a_minimum_hold_keeps_others_out(context: Context) -> Outcome {
    let (one, two) = (context.client().await, context.client().await);
    let name = context.name("lock");
    let clock = Clock::system();
    let start = clock.now();
    let guard = one.lock(&name).min_hold(ms(300)).acquire().await?;
    let token = guard.token();
    let lock = two.lock(&name);
    let waiting = tokio::spawn(async move { lock.acquire_within(secs(10)).await });
    until("it waits", || async { two.usage().waiting == 1 }).await?;
    clock.sleep(ms(20)).await; // The ask itself is on its way; both orders must do.
    let released = tokio::spawn(guard.release());
    let next = waiting.await??;
    let waited = since(start);
    ensure!(waited >= ms(295), "the next got in after {waited:?}");
    ensure!(next.token() > token, "tokens went back");
    released.await??;
    let dropped = context.name("dropped");
    let start = clock.now();
    drop(one.lock(&dropped).min_hold(secs(1)).acquire().await?);
    if one.capability().keep {
        one.settle().await;
    }
    let next = match two.lock(&dropped).try_acquire().await? {
        Some(guard) => guard,
        None => two.lock(&dropped).acquire().await?,
    };
    let waited = since(start);
    ensure!(waited >= ms(995), "a dropped guard forgot its minimum hold: free after {waited:?}");
    next.release().await?;
    let both = context.name("both");
    let guard = one.lock(&both).max_hold(secs(3)).min_hold(secs(3)).acquire().await?;
    guard.release().await?;
    two.lock(&both).acquire_within(secs(10)).await?.release().await?;
    let waived = one.lock(&dropped).min_hold(secs(60)).acquire().await?;
    waived.release_early().await?;
    two.lock(&dropped).acquire_within(secs(10)).await?.release().await?;
    Ok(())
}

async fn a_maximum_hold_ends_a_forgotten_guard(context: Context) -> Outcome {
    let (one, two) = (context.client().await, context.client().await);
    let (name, hold) = (context.name("lock"), ms(1500));
    let (stopwatch, start) = (Stopwatch::start(), Clock::system().now());
    let guard = one.lock(&name).ttl(secs(5)).max_hold(hold).acquire().await?;
    let lost = guard.lost().await;
    told_in_time(&guard, &stopwatch)?;
    ensure!(lost == LossReason::MaxHold, "{lost:?}");
    ensure!(!guard.is_valid(), "valid after its loss");
    let token = guard.token();
    std::mem::forget(guard);
    let next = match two.lock(&name).try_acquire().await? {
        Some(guard) => guard,
        None => two.lock(&name).acquire_within(secs(10)).await?,
    };
    let held = since(start);
    ensure!(held >= hold - ms(5), "it passed on before its end, after {held:?}");
    ensure!(next.token() > token, "tokens went back");
    next.release().await?;
    Ok(())
}

async fn work_is_cancelled_on_loss(context: Context) -> Outcome {
    let client = context.client().await;
    let name = context.name("lock");
    let stopwatch = Stopwatch::start();
    let (fires, fired) = tokio::sync::oneshot::channel();
    let lock = client.lock(&name).ttl(secs(5)).max_hold(ms(1500));
    let done = lock
        .run(|guard| async move {
            let token = guard.cancellation_token();
            tokio::spawn(async move {
                token.cancelled().await;
                fires.send(told_in_time(&guard, &stopwatch)).ok();
            });
            std::future::pending::<()>().await;
        })
        .await;
    fired.await??;
    ensure!(done.is_err_and(|error| error.kind() == ErrorKind::Lost), "the work was not stopped");
    let value = client.lock(&name).run(|guard| async move { guard.is_valid() }).await?;
    ensure!(value, "the work ran without the lock");
    Ok(())
}

async fn work_goes_on_when_it_is_only_to_be_told(context: Context) -> Outcome {
    let client = context.client().await;
    let name = context.name("lock");
    let lock = client.lock(&name).ttl(secs(30)).max_hold(ms(500)).on_loss(OnLoss::Notify);
    let told = lock
        .run(|guard| async move {
            let fires = guard.cancellation_token();
            let reason = guard.lost().await;
            let fired = tokio::time::timeout(secs(5), fires.cancelled()).await.is_ok();
            (reason, fired)
        })
        .await?;
    ensure!(told == (LossReason::MaxHold, true), "{told:?}");
    Ok(())
}

async fn a_renewed_lease_outlives_its_ttl(context: Context) -> Outcome {
    let (one, two) = (context.client().await, context.client().await);
    let name = context.name("lock");
    let guard = one.lock(&name).ttl(secs(4)).acquire().await?;
    let second = two.lock(&name).acquire_within(secs(6)).await;
    ensure!(second.is_err(), "a second client acquired the lock");
    ensure!(guard.is_valid(), "lost while it was renewed");
    guard.release().await?;
    Ok(())
}

async fn a_fixed_lease_ends(context: Context) -> Outcome {
    let (one, two) = (context.client().await, context.client().await);
    let name = context.name("lock");
    let guard = one.lock(&name).lease(ms(300)).acquire().await?;
    guard.lost().await;
    ensure!(!guard.is_valid(), "valid after its loss");
    let next = two.lock(&name).acquire_within(secs(10)).await?;
    let kind = guard.release().await.err().map(|error| error.kind());
    ensure!(kind == Some(ErrorKind::Lost), "{kind:?}");
    ensure!(next.is_valid(), "the late release touched its successor");
    next.release().await?;
    Ok(())
}

async fn a_forced_release_is_noticed(context: Context) -> Outcome {
    let (one, two) = (context.client().await, context.client().await);
    let name = context.name("lock");
    let guard = one.lock(&name).ttl(secs(6)).acquire().await?;
    let stopwatch = Stopwatch::start();
    two.lock(&name).force_release(guard.token()).await?;
    let lost = guard.lost().await;
    context.in_time(stopwatch.elapsed(), secs(6), 0)?;
    ensure!(lost == LossReason::NotOwner, "{lost:?}");
    ensure!(guard.remaining() == Duration::ZERO, "time left on another client's lock");
    let kind = guard.release().await.err().map(|error| error.kind());
    ensure!(kind == Some(ErrorKind::Lost), "{kind:?}");
    Ok(())
}

async fn a_closed_client_waits_no_more(context: Context) -> Outcome {
    let (holder, client) = (context.client().await, context.client().await);
    let name = context.name("lock");
    let held = holder.lock(&name).acquire().await?;
    let own = client.lock(context.name("own")).acquire().await?;
    let lock = client.lock(&name);
    let waiting = tokio::spawn(async move { lock.acquire().await });
    until("it waits", || async { client.usage().waiting == 1 }).await?;
    client.close().await;
    let kind = waiting.await?.err().map(|error| error.kind());
    ensure!(kind == Some(ErrorKind::Closed), "{kind:?}");
    let kind = client.lock(&name).try_acquire().await.err().map(|error| error.kind());
    ensure!(kind == Some(ErrorKind::Closed), "{kind:?}");
    ensure!(own.is_valid() && held.is_valid(), "closing ended a guard");
    own.release().await?;
    held.release().await?;
    free(&holder, &name).await
}

async fn wrong_knobs_are_refused_before_anything_is_sent(context: Context) -> Outcome {
    let (client, faults) = context.faulty_client().await;
    let name = context.name("lock");
    let lock = || client.lock(&name);
    for (lock, field) in [
        (client.lock(""), "name"),
        (client.lock("x".repeat(513)), "name"),
        (client.lock("a\nb"), "name"),
        (lock().ttl(Duration::ZERO), "ttl"),
        (lock().ttl(ms(9)), "ttl"),
        (lock().ttl(secs(86_401)), "ttl"),
        (lock().lease(ms(9)), "lease"),
        (lock().lease(secs(5)).max_hold(secs(4)), "lease"),
        (lock().lease(secs(5)).ttl(secs(4)), "lease"),
        (lock().max_hold(Duration::ZERO), "max_hold"),
        (lock().min_hold(secs(5)).max_hold(secs(4)), "min_hold"),
        (lock().renew_after(secs(30)), "renew_after"),
        (lock().metadata("x".repeat(1025)), "metadata"),
    ] {
        let error = match lock.try_acquire().await {
            Err(error) => error,
            Ok(guard) => return Err(format!("{field} was accepted: {guard:?}").into()),
        };
        ensure!(error.kind() == ErrorKind::Invalid, "{error:?}");
        ensure!(error.message().starts_with(&format!("{field}: ")), "{error}");
    }
    ensure!(faults.calls() == 0, "something was sent");
    Ok(())
}
