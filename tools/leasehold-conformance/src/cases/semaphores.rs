//! Semaphores: at most as many slots as the limit says, in order of arrival, and nothing is left
//! behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold_core::{Capability, Client, ErrorKind, LeaseKind, Name, Permit, Semaphore, Usage};
use tokio::task::JoinHandle;

use super::dropped::poll_times;
use super::{case, ms, secs};
use crate::{Case, Context, Outcome, ensure, until};

const SHORT: Duration = Duration::from_millis(1_500);

pub(super) const CASES: &[Case] = &[
    case!(
        no_slot_is_held_twice,
        semaphores,
        "Under load no slot of a semaphore is held twice, its tokens grow, and no task waits forever"
    ),
    case!(
        a_dead_holder_gives_exactly_its_slots_back,
        |c| semaphores(c) && c.lease == LeaseKind::Ttl,
        "The slots of a holder that dies are free after its ttl, and no others; the next tokens are larger"
    ),
    case!(
        a_heavy_waiter_is_not_passed,
        |c| semaphores(c) && c.ordered,
        "A waiter for many slots is never passed by one for fewer, and all are served in order"
    ),
    case!(
        a_lower_limit_drains,
        semaphores,
        "A lower limit lets permits that are held go on, and no new one in until enough slots are back"
    ),
    case!(a_higher_limit_lets_waiters_in, semaphores, "A higher limit lets waiters in at once"),
    case!(
        a_permit_dropped_anywhere_leaves_nothing,
        semaphores,
        "An acquire of a permit that is dropped at any point leaves no permit and no waiter"
    ),
    case!(
        what_a_semaphore_cannot_grant_is_refused,
        semaphores,
        "No slot, more slots than the limit or 1,024, and a limit of 0 or above 10,000 are refused, and nothing changes"
    ),
];

fn semaphores(capability: &Capability) -> bool {
    capability.semaphores
}

type Waiting = JoinHandle<leasehold_core::Result<Permit>>;

/// Starts a task that waits for so many slots.
fn waits(semaphore: &Semaphore, slots: u32) -> Waiting {
    let semaphore = semaphore.clone();
    tokio::spawn(async move { semaphore.acquire_many(slots).await })
}

/// Waits until so many wait at the engine, or, if it keeps no queue, in this client.
async fn queued(client: &Client, semaphore: &Semaphore, many: usize) -> Outcome {
    let ordered = client.capability().ordered;
    let waiters = || async {
        let status = semaphore.status().await;
        match ordered {
            true => status.is_ok_and(|one| one.waiters.is_some_and(|all| all.len() == many)),
            false => client.usage().waiting == many,
        }
    };
    Ok(until("the waiters are queued", waiters).await?)
}

/// Waits until no slot is in use and no client waits.
async fn unused(client: &Client, semaphore: &Semaphore) -> Outcome {
    let unused = || async {
        semaphore.status().await.is_ok_and(|status| {
            status.permits.is_none_or(|permits| permits.held == 0)
                && status.waiters.is_none_or(|waiters| waiters.is_empty())
        })
    };
    until("no slot is in use and no client waits", unused).await?;
    client.settle().await;
    ensure!(client.usage() == Usage::default(), "{:?}", client.usage());
    Ok(())
}

async fn no_slot_is_held_twice(context: Context) -> Outcome {
    const LIMIT: u32 = 3;
    let name = context.name("semaphore");
    let first = context.client().await;
    // For each slot its last token; while it is held, with the highest bit.
    const HELD: u64 = 1 << 63;
    let slots: Arc<[AtomicU64; LIMIT as usize]> = Arc::default();
    let wrong = Arc::new(AtomicU64::new(0));
    let mut tasks = Vec::new();
    for number in 0..3_u64 {
        let client = if number == 0 { first.clone() } else { context.client().await };
        for task in 0..4_u64 {
            let semaphore = client.semaphore(&name, LIMIT);
            let (slots, wrong) = (slots.clone(), wrong.clone());
            tasks.push(tokio::spawn(async move {
                for round in 0..6 {
                    let many = 1 + ((number + task + round) % 3) as u32;
                    let permit = semaphore.acquire_many(many).await?;
                    let token = permit.token().get();
                    for slot in permit.slots() {
                        let before = slots[*slot as usize].swap(token | HELD, Ordering::SeqCst);
                        wrong.fetch_add(u64::from(before >= token), Ordering::SeqCst);
                    }
                    tokio::time::sleep(ms(1)).await;
                    for slot in permit.slots() {
                        slots[*slot as usize].store(token, Ordering::SeqCst);
                    }
                    match round % 2 {
                        0 => permit.release().await?,
                        _ => drop(permit),
                    }
                }
                Ok::<_, leasehold_core::Error>(())
            }));
        }
    }
    for task in tasks {
        task.await??;
    }
    ensure!(wrong.load(Ordering::SeqCst) == 0, "{wrong:?} times held twice, or a smaller token");
    unused(&first, &first.semaphore(&name, LIMIT)).await
}

/// redisson#3046: the permits of a holder that crashed never came back.
async fn a_dead_holder_gives_exactly_its_slots_back(context: Context) -> Outcome {
    let (client, faulty) = (context.client().await, context.faulty_client().await);
    let name = context.name("semaphore");
    let dead = faulty.0.semaphore(&name, 3).ttl(SHORT);
    // As long as usual: it is to be kept on a machine that has no time to renew it for a while.
    let alive = client.semaphore(&name, 3);
    let one = alive.acquire().await?;
    faulty.1.cut_renewals(true);
    let lost = dead.acquire_many(2).await?;
    let next = alive.acquire_many(2).await?;
    ensure!(next.slots() == lost.slots(), "{:?} after {:?}", next.slots(), lost.slots());
    ensure!(next.token() > lost.token(), "the token did not grow");
    ensure!(!lost.is_valid(), "two permits of the same slots");
    ensure!(one.is_valid() && alive.try_acquire().await?.is_none(), "the other permit was ended");
    ensure!(lost.release().await.is_err(), "released what was lost");
    ensure!(next.is_valid() && alive.try_acquire().await?.is_none(), "a late release ended it");
    next.release().await?;
    one.release().await?;
    unused(&client, &alive).await
}

async fn a_heavy_waiter_is_not_passed(context: Context) -> Outcome {
    let (one, two) = (context.client().await, context.client().await);
    let name = context.name("semaphore");
    let (semaphore, other) = (one.semaphore(&name, 3), two.semaphore(&name, 3));
    let (first, second) = (semaphore.acquire_many(2).await?, semaphore.acquire().await?);
    let heavy = waits(&other, 3);
    queued(&one, &semaphore, 1).await?;
    let light = waits(&semaphore, 1);
    queued(&one, &semaphore, 2).await?;
    let last = waits(&other, 2);
    queued(&one, &semaphore, 3).await?;
    first.release().await?;
    ensure!(semaphore.try_acquire().await?.is_none(), "passed those who wait");
    ensure!(!light.is_finished() && !last.is_finished(), "passed the first waiter");
    second.release().await?;
    let heavy = heavy.await??;
    ensure!(heavy.slots() == [0, 1, 2], "{:?}", heavy.slots());
    ensure!(!light.is_finished() && !last.is_finished(), "more slots than the limit");
    heavy.release().await?;
    let (light, last) = (light.await??, last.await??);
    ensure!((light.slot(), last.slots()) == (0, &[1, 2][..]), "not in order");
    light.release().await?;
    last.release().await?;
    unused(&one, &semaphore).await
}

async fn a_lower_limit_drains(context: Context) -> Outcome {
    let client = context.client().await;
    let name = context.name("semaphore");
    let semaphore = client.semaphore(&name, 3);
    let mut held = Vec::new();
    for slot in 0..3 {
        held.push(semaphore.acquire().await?);
        ensure!(held[slot].slot() == slot as u32, "slot {}", held[slot].slot());
    }
    semaphore.set_limit(2).await?;
    ensure!(semaphore.limit().await? == Some(2), "not stored");
    ensure!(held.iter().all(|permit| permit.is_valid()), "a permit was ended");
    held.remove(0).release().await?;
    ensure!(semaphore.try_acquire().await?.is_none(), "two of two slots are in use");
    held.remove(0).release().await?;
    let next = semaphore.try_acquire().await?.ok_or("one of two slots is free")?;
    ensure!(next.slot() == 0, "slot {}", next.slot());
    ensure!(semaphore.try_acquire().await?.is_none(), "two of two slots are in use");
    ensure!(held[0].is_valid(), "the permit above the limit was ended");
    held.remove(0).release().await?;
    next.release().await?;
    unused(&client, &semaphore).await
}

async fn a_higher_limit_lets_waiters_in(context: Context) -> Outcome {
    let (one, two) = (context.client().await, context.client().await);
    let name = context.name("semaphore");
    let (semaphore, other) = (one.semaphore(&name, 1), two.semaphore(&name, 1));
    let held = semaphore.acquire().await?;
    let waiter = waits(&other, 1);
    queued(&two, &other, 1).await?;
    let error = semaphore.clone().set_limit(0).await.err().ok_or("a limit of 0")?;
    ensure!(error.kind() == ErrorKind::Invalid, "{error}");
    semaphore.set_limit(2).await?;
    let next = waiter.await??;
    ensure!(next.slot() == 1 && held.is_valid(), "slot {}", next.slot());
    // The other client still expects the previous limit.
    let error = other.try_acquire().await.err().ok_or("another limit than the stored one")?;
    ensure!(error.kind() == ErrorKind::Invalid, "{error}");
    next.release().await?;
    held.release().await?;
    unused(&one, &semaphore).await
}

async fn a_permit_dropped_anywhere_leaves_nothing(context: Context) -> Outcome {
    let (client, other) = (context.client().await, context.client().await);
    let name: Name = context.name("semaphore");
    let (semaphore, holding) = (client.semaphore(&name, 2), other.semaphore(&name, 2));
    for taken in [false, true] {
        for polls in 0..40 {
            let held = if taken { Some(holding.acquire().await?) } else { None };
            let mut acquiring = std::pin::pin!(semaphore.acquire_many(2));
            let permit = poll_times(&mut acquiring, polls / 2).await;
            // Its turn comes while it is being dropped.
            drop(held);
            let permit = match permit {
                Some(permit) => Some(permit),
                None => poll_times(&mut acquiring, polls % 2).await,
            };
            let done = permit.is_some();
            drop(permit);
            if done && !taken {
                break;
            }
        }
        // The futures of this loop are dropped by now.
        unused(&client, &semaphore).await?;
        unused(&other, &holding).await?;
    }
    Ok(())
}

async fn what_a_semaphore_cannot_grant_is_refused(context: Context) -> Outcome {
    let client = context.client().await;
    let name = context.name("semaphore");
    for (slots, limit) in [(0, 2), (3, 2), (1_025, 2_000), (1, 0), (1, 10_001)] {
        let error = client.semaphore(&name, limit).try_acquire_many(slots).await.err();
        let kind = error.as_ref().map(leasehold_core::Error::kind);
        ensure!(kind == Some(ErrorKind::Invalid), "{slots} of {limit}: {error:?}");
    }
    let stay = client.semaphore(&name, 2).min_hold(secs(1)).try_acquire().await.err();
    ensure!(stay.is_some_and(|error| error.kind() == ErrorKind::Invalid), "a minimum hold");
    ensure!(client.semaphore(&name, 2).limit().await?.is_none(), "a limit was stored");
    let semaphore = client.semaphore(&name, 2);
    semaphore.acquire_many(2).await?.release().await?;
    unused(&client, &semaphore).await
}
