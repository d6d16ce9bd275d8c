//! Several locks at once: all of them or none, in one order, and a loss of one is a loss of all.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use leasehold_core::{Client, Error, ErrorKind, MultiLock, Name, State, Token, Usage};

use super::dropped::poll_times;
use super::{always, case, free, ms, secs};
use crate::case::until_within;
use crate::{Case, Context, Outcome, ensure, until};

/// Renewed each 5 s: then an engine that does not push notices that a lease was ended.
const TTL: Duration = Duration::from_secs(15);

pub(super) const CASES: &[Case] = &[
    case!(
        several_locks_are_acquired_together_or_not_at_all,
        always,
        "Several locks are acquired together or not at all: if one is taken, the others are free again after the wait, and its holder is not touched"
    ),
    case!(
        several_locks_are_acquired_in_the_order_of_their_names,
        always,
        "Several locks are acquired in the order of their names' bytes, however they are given; a name that is given twice is refused before anything is sent"
    ),
    case!(
        the_loss_of_one_of_several_locks_is_that_of_all,
        |c| c.force_release,
        "If one of several locks is lost, its holder is notified and their release says so; the others stay taken until then, and a later holder of the lost one is not touched"
    ),
    case!(
        several_locks_in_any_order_never_deadlock,
        always,
        "Clients that acquire the same locks in different orders all get them, one at a time, with tokens that grow"
    ),
    case!(
        several_locks_dropped_anywhere_leave_nothing,
        always,
        "An acquire of several locks that is dropped at any point leaves no lease and no waiter"
    ),
];

/// Names in the order of their bytes.
fn names<const N: usize>(context: &Context, names: [&str; N]) -> [Name; N] {
    names.map(|name| context.name(name))
}

fn taken(done: leasehold_core::Result<impl Sized>, kind: ErrorKind) -> Outcome<Error> {
    let error = done.err().ok_or_else(|| format!("acquired, but {kind:?} was expected"))?;
    ensure!(error.kind() == kind, "{kind:?} was expected: {error}");
    Ok(error)
}

/// Waits until no client holds one of these locks or waits for it.
async fn all_free(client: &Client, names: &[Name]) -> Outcome {
    for name in names {
        free(client, name).await?;
    }
    Ok(())
}

async fn several_locks_are_acquired_together_or_not_at_all(context: Context) -> Outcome {
    let (holder, client) = (context.client().await, context.client().await);
    let names = names(&context, ["a", "b", "c"]);
    let [a, b, c] = &names;
    let both: MultiLock = client.lock_all([c, b, a]).ttl(TTL);
    let mut tokens = [0; 3];
    for taken_one in &names {
        let others: Vec<Name> = names.iter().filter(|name| *name != taken_one).cloned().collect();
        let held = holder.lock(taken_one).acquire().await?;
        ensure!(both.try_acquire().await?.is_none(), "acquired, though {taken_one} is taken");
        all_free(&holder, &others).await?;
        for wait in [ms(0), ms(300)] {
            let error = taken(both.acquire_within(wait).await, ErrorKind::Timeout)?;
            ensure!(error.name() == Some(taken_one), "{taken_one} is taken: {error}");
            all_free(&holder, &others).await?;
        }
        client.settle().await;
        ensure!(client.usage() == Usage::default(), "left behind: {:?}", client.usage());
        held.ensure(ms(0))?;
        let status = client.lock(taken_one).status().await?;
        let token = status.token;
        ensure!(status.state == State::Held && token == Some(held.token()), "{status:?}");
        // Those that were given back can be acquired, and their tokens go on.
        held.release().await?;
        let guard = both.acquire().await?;
        for (name, last) in names.iter().zip(&mut tokens) {
            ensure!(holder.lock(name).try_acquire().await?.is_none(), "two hold {name}");
            let token = guard.token_of(name).map_or(0, Token::get);
            ensure!(token > *last, "token {token} of {name} after {last}");
            *last = token;
        }
        guard.release().await?;
        all_free(&holder, &names).await?;
    }
    Ok(())
}

async fn several_locks_are_acquired_in_the_order_of_their_names(context: Context) -> Outcome {
    let (holder, other) = (context.client().await, context.client().await);
    let (client, faults) = context.faulty_client().await;
    // The first is below "a" in bytes, and "10" is below "2".
    let names = names(&context, ["B", "a10", "a2", "c"]);
    let [first, second, third, last] = &names;
    for given in [[second, first, second], [last, first, last]] {
        let lock = client.lock_all(given);
        for refused in [
            taken(lock.acquire_within(secs(5)).await, ErrorKind::Invalid)?,
            taken(lock.try_acquire().await, ErrorKind::Invalid)?,
        ] {
            let text = refused.to_string();
            ensure!(text.contains(given[0].as_str()) && text.contains("twice"), "{text}");
        }
    }
    ensure!(faults.calls() == 0, "something was sent");

    let held = holder.lock(second).acquire().await?;
    let waiting = tokio::spawn({
        let lock = client.lock_all([last, third, second, first]).ttl(TTL);
        async move { lock.acquire_within(secs(60)).await }
    });
    let holds_the_first = || async {
        let status = holder.lock(first).status().await;
        status.is_ok_and(|status| status.state == State::Held)
    };
    until("the first lock is held", holds_the_first).await?;
    until("it waits", || async { client.usage().waiting == 1 }).await?;
    for name in [third, last] {
        let guard = other.lock(name).try_acquire().await?;
        let guard = guard.ok_or_else(|| format!("{name} is held before {second}"))?;
        guard.release().await?;
    }
    held.release().await?;
    let guard = waiting.await??;
    ensure!(guard.names().eq(names.iter()), "{:?}", guard.names().collect::<Vec<_>>());
    for name in &names {
        ensure!(other.lock(name).try_acquire().await?.is_none(), "two hold {name}");
    }
    guard.release().await?;
    all_free(&holder, &names).await
}

async fn the_loss_of_one_of_several_locks_is_that_of_all(context: Context) -> Outcome {
    let (client, other) = (context.client().await, context.client().await);
    let names = names(&context, ["a", "b", "c"]);
    for lost_one in &names {
        let guard = client.lock_all(&names).ttl(TTL).acquire().await?;
        let fires = guard.cancellation_token();
        let token = guard.token_of(lost_one).ok_or("no token")?;
        other.lock(lost_one).force_release(token).await?;
        let next = other.lock(lost_one).acquire_within(secs(60)).await?;
        ensure!(next.token() > token, "token {} after {token}", next.token());
        let noticed = || async { fires.is_cancelled() };
        until_within(secs(60), "the loss is noticed", noticed).await?;
        let lost = guard.lost().await;
        ensure!(lost.name == *lost_one, "{lost_one} was lost, not {}", lost.name);
        ensure!(!guard.is_valid() && guard.ensure(ms(0)).is_err(), "valid after a loss");
        for name in names.iter().filter(|name| *name != lost_one) {
            let held = other.lock(name).try_acquire().await?;
            ensure!(held.is_none(), "{name} was given back under the work that relies on it");
        }
        let error = taken(guard.release().await, ErrorKind::Lost)?;
        ensure!(error.name() == Some(lost_one), "{lost_one} was lost: {error}");
        ensure!(next.is_valid(), "the release touched the next holder");
        next.release().await?;
        all_free(&other, &names).await?;
    }
    Ok(())
}

async fn several_locks_in_any_order_never_deadlock(context: Context) -> Outcome {
    const ROUNDS: usize = 4;
    let names = names(&context, ["a", "b", "c"]);
    let [a, b, c] = &names;
    let inside: Arc<[AtomicBool; 3]> = Arc::default();
    let tokens: Arc<[AtomicU64; 3]> = Arc::default();
    let mut tasks = Vec::new();
    for given in [[a, b, c], [c, b, a], [b, c, a], [c, a, b]] {
        let lock = context.client().await.lock_all(given).ttl(secs(30));
        let (inside, tokens, names) = (inside.clone(), tokens.clone(), names.clone());
        tasks.push(tokio::spawn(async move {
            for _ in 0..ROUNDS {
                let guard = lock.acquire_within(secs(60)).await?;
                for (at, name) in names.iter().enumerate() {
                    ensure!(!inside[at].swap(true, Ordering::SeqCst), "two hold {name}");
                    let token = guard.token_of(name).map_or(0, Token::get);
                    let before = tokens[at].swap(token, Ordering::SeqCst);
                    ensure!(token > before, "token {token} of {name} after {before}");
                }
                tokio::task::yield_now().await;
                for held in &*inside {
                    held.store(false, Ordering::SeqCst);
                }
                guard.release().await?;
            }
            Outcome::Ok(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    all_free(&context.client().await, &names).await
}

async fn several_locks_dropped_anywhere_leave_nothing(context: Context) -> Outcome {
    let (holder, client) = (context.client().await, context.client().await);
    let names = names(&context, ["a", "b"]);
    let lock = client.lock_all(&names).ttl(TTL);
    for is_taken in [false, true] {
        for polls in 0..40 {
            let held = match is_taken {
                true => Some(holder.lock(&names[1]).acquire().await?),
                false => None,
            };
            let mut acquiring = Box::pin(lock.acquire());
            let mut guard = poll_times(acquiring.as_mut(), polls / 2).await;
            // Its turn comes while it is being dropped.
            drop(held);
            if guard.is_none() {
                guard = poll_times(acquiring.as_mut(), polls % 2).await;
            }
            let is_done = guard.is_some();
            drop((acquiring, guard));
            client.settle().await;
            all_free(&holder, &names).await?;
            ensure!(client.usage() == Usage::default(), "{polls}: {:?}", client.usage());
            if is_done && !is_taken {
                break;
            }
        }
    }
    Ok(())
}
