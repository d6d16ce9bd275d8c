//! Futures dropped at every await point, panics, guards dropped in the wrong place, runtimes that end.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use leasehold_core::clock::Clock;
use leasehold_core::{LeaseKind, Usage};

use super::{always, case, free, free_within};
use crate::{Case, Context, Outcome, ensure, until};

pub(super) const CASES: &[Case] = &[
    case!(
        an_acquire_dropped_anywhere_leaves_nothing,
        always,
        "An acquire that is dropped at any point leaves no lease and no waiter"
    ),
    case!(
        a_waiting_acquire_dropped_anywhere_leaves_nothing,
        always,
        "The same while it waits, and while the lock is being handed to it"
    ),
    case!(
        a_release_dropped_anywhere_is_finished,
        always,
        "A release that is dropped at any point is finished in the background"
    ),
    case!(a_panic_releases, always, "A task that panics releases what it held"),
    case!(
        a_guard_dropped_outside_a_runtime_is_released,
        always,
        "A guard can be dropped on any thread, outside any runtime"
    ),
    case!(
        a_runtime_that_ends_takes_its_guards_along,
        always,
        "When the runtime ends, guards are notified or keep their session; dropping them later is safe"
    ),
    case!(
        a_client_on_its_own_thread_outlives_a_runtime,
        always,
        "A client with a renewal thread of its own goes on when a runtime ends"
    ),
];

const TTL: Duration = Duration::from_secs(1);
/// For one that is to be renewed though the machine is slow.
const LONGER: Duration = Duration::from_secs(6);

/// Polls a future `times` times, letting others run in between.
pub(super) async fn poll_times<T>(future: impl Future<Output = T>, times: usize) -> Option<T> {
    let mut future = pin!(future);
    for _ in 0..times {
        let polled = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await;
        if let Poll::Ready(done) = polled {
            return Some(done);
        }
        Clock::system().sleep(Duration::from_micros(300)).await;
    }
    None
}

async fn an_acquire_dropped_anywhere_leaves_nothing(context: Context) -> Outcome {
    let client = context.client().await;
    let name = context.name("lock");
    for polls in 0.. {
        let guard = poll_times(client.lock(&name).ttl(TTL).acquire(), polls).await;
        let done = guard.is_some();
        drop(guard);
        client.settle().await;
        free(&client, &name).await?;
        ensure!(client.usage() == Usage::default(), "{polls}: {:?}", client.usage());
        if done {
            break;
        }
    }
    Ok(())
}

async fn a_waiting_acquire_dropped_anywhere_leaves_nothing(context: Context) -> Outcome {
    let (holder, client) = (context.client().await, context.client().await);
    let name = context.name("lock");
    for polls in 1..12 {
        let guard = holder.lock(&name).acquire().await?;
        let lock = client.lock(&name).ttl(TTL);
        let mut waiting = Box::pin(lock.acquire());
        poll_times(waiting.as_mut(), polls).await;
        guard.release().await?;
        let got = poll_times(waiting.as_mut(), polls / 2).await;
        drop((waiting, got));
        client.settle().await;
        free(&client, &name).await?;
        ensure!(client.usage() == Usage::default(), "{polls}: {:?}", client.usage());
    }
    Ok(())
}

async fn a_release_dropped_anywhere_is_finished(context: Context) -> Outcome {
    let client = context.client().await;
    let name = context.name("lock");
    for polls in 0..4 {
        let guard = client.lock(&name).ttl(TTL).acquire().await?;
        poll_times(guard.release(), polls).await;
        client.settle().await;
        free(&client, &name).await?;
    }
    Ok(())
}

async fn a_panic_releases(context: Context) -> Outcome {
    let client = context.client().await;
    let name = context.name("lock");
    let lock = client.lock(&name);
    let task = tokio::spawn(async move {
        let _guard = lock.acquire().await;
        std::panic::resume_unwind(Box::new("injected"));
    });
    ensure!(task.await.is_err_and(|error| error.is_panic()), "it did not panic");
    free(&client, &name).await
}

async fn a_guard_dropped_outside_a_runtime_is_released(context: Context) -> Outcome {
    let client = context.client().await;
    let name = context.name("lock");
    let guard = client.lock(&name).acquire().await?;
    let thread = std::thread::spawn(move || drop(guard));
    ensure!(thread.join().is_ok(), "dropping a guard panicked");
    free(&client, &name).await
}

/// Runs something in a runtime of its own, which is then shut down.
async fn in_short_lived_runtime<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, String> {
    let short_lived = move || {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let done = runtime.block_on(work);
        runtime.shutdown_timeout(Duration::from_secs(5));
        Ok(done)
    };
    let thread = std::thread::spawn(short_lived);
    let joined = tokio::task::spawn_blocking(move || thread.join()).await;
    joined.map_err(|error| error.to_string())?.map_err(|_| "it panicked".to_owned())?
}

async fn a_runtime_that_ends_takes_its_guards_along(context: Context) -> Outcome {
    let (watcher, name) = (context.client().await, context.name("lock"));
    let (inner, lock) = (context.clone(), name.clone());
    let (client, guard) = in_short_lived_runtime(async move {
        let client = inner.client().await;
        let guard = client.lock(&lock).ttl(TTL).acquire().await;
        drop(client.lock(inner.name("dropped")).ttl(TTL).acquire().await);
        (client, guard)
    })
    .await?;
    let guard = guard?;
    let session = client.capability().lease == LeaseKind::Session;
    ensure!(guard.is_valid() == session, "valid although no task renews it");
    let later = client.lock(context.name("later")).try_acquire().await;
    ensure!(later.is_err(), "acquired although no task can renew it");
    drop(guard);
    // A session of 6 s that no client ends must expire.
    let limit = Duration::from_secs(20);
    free_within(limit, &watcher, &name).await?;
    free_within(limit, &watcher, &context.name("dropped")).await
}

async fn a_client_on_its_own_thread_outlives_a_runtime(context: Context) -> Outcome {
    let (watcher, name) = (context.client().await, context.name("lock"));
    let (subject, lock) = (context.subject.clone(), name.clone());
    let guard = in_short_lived_runtime(async move {
        let open = || async move { Ok(subject.connect().await) };
        let client = leasehold_core::Client::on_own_thread(open, Default::default()).await?;
        client.lock(&lock).ttl(LONGER).acquire().await
    })
    .await??;
    let before = guard.deadline();
    if before.is_some() {
        until("it is renewed", || async { guard.deadline() != before }).await?;
    }
    ensure!(guard.is_valid(), "lost with the runtime");
    drop(guard);
    free(&watcher, &name).await
}
