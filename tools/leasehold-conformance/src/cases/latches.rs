//! Latches: each party counts once, all waiters return, and nothing is undone.

use leasehold_core::backend::ValueSwap;
use leasehold_core::{Capability, Client, ErrorKind, Latch, Name, State, Status};
use tokio::task::JoinHandle;

use super::{case, ms, secs};
use crate::{Case, Context, Fault, Outcome, ensure};

pub(super) const CASES: &[Case] = &[
    case!(
        a_party_counts_once_and_all_waiters_return,
        latches,
        "A party counts once however often it is repeated, and every waiter of every client returns when all have counted"
    ),
    case!(
        parties_that_count_at_once_all_count,
        latches,
        "Parties of several clients that count down at the same time all count"
    ),
    case!(
        a_generation_begins_only_when_the_last_is_complete,
        latches,
        "A latch is reset only when it is complete, once, and a party that is late counts in its own generation"
    ),
    case!(
        a_lost_answer_counts_nothing_twice,
        latches,
        "A count or a reset whose answer was lost is repeated without effect"
    ),
    case!(
        a_forgotten_latch_expires,
        latches,
        "A latch that does not change for its ttl is removed, and its waiters are notified"
    ),
    case!(
        what_a_latch_cannot_do_is_refused,
        latches,
        "No party, another number of parties, 0 or more than 1,000 of them, and the name of a lock are refused, and nothing changes"
    ),
    case!(
        status_shows_a_latch,
        latches,
        "Status and list show a latch, and how many parties are missing; no client holds it"
    ),
    case!(
        a_name_is_a_latch_or_something_else,
        latches,
        "A lock, a reader or a permit under the name of a latch is refused, and the other way round; what the name has stays"
    ),
    case!(
        a_latch_of_a_newer_version_is_left_alone,
        latches,
        "A latch that a newer version wrote, and bytes that are no latch, are refused with the reason, and stay as they are"
    ),
];

fn latches(capability: &Capability) -> bool {
    capability.latches
}

type Waiting = JoinHandle<leasehold_core::Result<u64>>;

fn waits(client: &Client, name: &Name, parties: u32) -> Waiting {
    let latch = client.latch(name, parties);
    tokio::spawn(async move { latch.wait_within(secs(60)).await })
}

/// redisson#5349: when the latch reached zero, one waiter was woken, and the others waited on.
async fn a_party_counts_once_and_all_waiters_return(context: Context) -> Outcome {
    let (client, other) = (context.client().await, context.client().await);
    let name = context.name("import");
    let waiters: Vec<Waiting> =
        [&client, &client, &other, &other].map(|client| waits(client, &name, 3)).into();
    let (latch, theirs) = (client.latch(&name, 3), other.latch(&name, 3));
    for (latch, party, missing) in
        [(&latch, "a", 2), (&theirs, "a", 2), (&theirs, "b", 1), (&latch, "b", 1)]
    {
        let counted = latch.count_down(party).await?;
        ensure!(counted == missing, "{party}: {counted} are missing, not {missing}");
    }
    let state = theirs.state().await?;
    ensure!(state.counted == ["a", "b"] && state.missing == 1, "{state:?}");
    ensure!(waiters.iter().all(|waiter| !waiter.is_finished()), "a waiter did not wait for c");
    ensure!(theirs.count_down("c").await? == 0, "c is the last");
    for waiter in waiters {
        ensure!(waiter.await?? == state.generation, "another generation");
    }
    ensure!(latch.wait().await? == state.generation, "one that comes later");
    ensure!(latch.count_down("d").await? == 0, "nothing counts below zero");
    ensure!(latch.state().await?.counted == ["a", "b", "c"], "d counted");
    Ok(())
}

async fn parties_that_count_at_once_all_count(context: Context) -> Outcome {
    const EACH: u32 = 8;
    let clients = [context.client().await, context.client().await, context.client().await];
    let name = context.name("import");
    let parties = EACH * clients.len() as u32;
    let waiter = waits(&clients[0], &name, parties);
    let count = |client: &Client, party: String| {
        let latch = client.latch(&name, parties);
        tokio::spawn(async move { latch.count_down(&party).await })
    };
    let counts = clients
        .iter()
        .enumerate()
        .flat_map(|(at, client)| (0..EACH).map(move |party| (client, format!("{at}/{party}"))));
    let counts: Vec<_> = counts.map(|(client, party)| count(client, party)).collect();
    let mut least = parties;
    for counted in counts {
        least = least.min(counted.await??);
    }
    ensure!(least == 0, "{least} parties are missing after all have counted");
    waiter.await??;
    Ok(())
}

async fn a_generation_begins_only_when_the_last_is_complete(context: Context) -> Outcome {
    let client = context.client().await;
    let latch = client.latch(context.name("round"), 1);
    let first = latch.state().await?.generation;
    refused(latch.reset().await, ErrorKind::Invalid)?;
    latch.count_down("a").await?;
    let next = latch.reset().await?;
    ensure!(next == first + 1, "{first} is followed by {next}");
    let of_first = latch.clone().of_generation(first);
    ensure!(of_first.reset().await? == next, "a repeated reset");
    ensure!(of_first.count_down("a").await? == 0, "its generation is complete");
    ensure!(of_first.wait().await? == first, "its generation is complete");
    let state = latch.state().await?;
    ensure!(state.generation == next && state.missing == 1, "{state:?}");
    refused(latch.wait_within(ms(1)).await, ErrorKind::Timeout)?;
    refused(latch.clone().of_generation(next + 1).wait().await, ErrorKind::Invalid)?;
    refused(latch.clone().of_generation(first - 1).wait().await, ErrorKind::Lost)?;
    Ok(())
}

async fn a_lost_answer_counts_nothing_twice(context: Context) -> Outcome {
    let (client, faults) = context.faulty_client().await;
    let latch = client.latch(context.name("import"), 2);
    let first = latch.state().await?.generation;
    let latch = latch.of_generation(first);
    for (party, missing) in [("a", 1), ("b", 0)] {
        faults.on_swap(&[Fault::LoseReply, Fault::LoseRequest, Fault::Duplicate]);
        let counted = loop {
            match latch.count_down(party).await {
                Ok(counted) => break counted,
                Err(error) => ensure!(error.kind() == ErrorKind::Unavailable, "{error}"),
            }
        };
        ensure!(counted == missing, "{party}: {counted} are missing, not {missing}");
    }
    faults.on_swap(&[Fault::LoseReply]);
    refused(latch.reset().await, ErrorKind::Unavailable)?;
    ensure!(latch.reset().await? == first + 1, "a reset was done twice");
    Ok(())
}

async fn a_forgotten_latch_expires(context: Context) -> Outcome {
    let client = context.client().await;
    let latch = client.latch(context.name("import"), 2).ttl(secs(1));
    latch.count_down("a").await?;
    let generation = latch.state().await?.generation;
    refused(latch.wait_within(secs(60)).await, ErrorKind::Lost)?;
    refused(latch.clone().of_generation(generation).count_down("b").await, ErrorKind::Lost)?;
    let state = latch.state().await?;
    ensure!(state.generation > generation && state.missing == 2, "{state:?} after {generation}");
    Ok(())
}

async fn what_a_latch_cannot_do_is_refused(context: Context) -> Outcome {
    let client = context.client().await;
    let name = context.name("import");
    let latch = client.latch(&name, 2);
    for party in ["", "a\nb", &"x".repeat(65)] {
        refused(latch.count_down(party).await, ErrorKind::Invalid)?;
    }
    refused(latch.reset().await, ErrorKind::Invalid)?;
    let state = client.lock(&name).status().await?.state;
    ensure!(state == State::Free, "a refused call has begun a latch");
    latch.count_down("a").await?;
    for party in ["", "a\nb", &"x".repeat(65)] {
        refused(latch.count_down(party).await, ErrorKind::Invalid)?;
    }
    for parties in [0, 1, 3, 1_001] {
        let other: Latch = client.latch(&name, parties);
        refused(other.count_down("b").await, ErrorKind::Invalid)?;
        refused(other.wait_within(ms(1)).await, ErrorKind::Invalid)?;
    }
    refused(client.latch(&name, 2).ttl(ms(1)).state().await, ErrorKind::Invalid)?;
    ensure!(latch.state().await?.counted == ["a"], "something changed");
    let lock = client.lock(&name);
    ensure!(lock.try_acquire().await.is_err(), "a lock of the name of a latch");
    ensure!(latch.state().await?.counted == ["a"], "the lock changed the latch");

    let other = context.name("lock");
    let guard = client.lock(&other).acquire().await?;
    ensure!(
        client.latch(&other, 1).count_down("a").await.is_err(),
        "a latch of the name of a lock"
    );
    guard.ensure(ms(0))?;
    guard.release().await?;
    Ok(())
}

async fn status_shows_a_latch(context: Context) -> Outcome {
    let client = context.client().await;
    let latch = client.latch(context.name("latch"), 2);
    latch.count_down("a").await?;
    let name = latch.name()?;
    let is_shown = |status: &Status| {
        let note = status.note.as_deref().unwrap_or_default();
        let says = note.contains("latch: 1 of 2 parties are missing");
        let is_kept = status.remaining.is_some_and(|left| !left.is_zero());
        let is_alone = status.holder.is_none() && status.readers.is_empty();
        says && is_kept && is_alone && status.permits.is_none()
    };
    let status = client.lock(name).status().await?;
    ensure!(is_shown(&status), "{status:?}");
    if client.capability().list {
        let listed = client.list(name.as_str(), 10).await?;
        ensure!(listed.iter().any(|one| one.name == *name && is_shown(one)), "{listed:?}");
    }
    ensure!(latch.state().await?.counted == ["a"], "it was disturbed");
    Ok(())
}

async fn a_name_is_a_latch_or_something_else(context: Context) -> Outcome {
    let client = context.client().await;
    let capability = client.capability().clone();
    let latch = client.latch(context.name("latch"), 2);
    latch.count_down("a").await?;
    let name = latch.name()?;
    refused(client.lock(name).try_acquire().await, ErrorKind::Invalid)?;
    if capability.shared {
        refused(client.rw_lock(name).try_read().await, ErrorKind::Invalid)?;
    }
    if capability.semaphores {
        let semaphore = client.semaphore(name, 2);
        refused(semaphore.try_acquire().await, ErrorKind::Invalid)?;
        refused(semaphore.limit().await, ErrorKind::Invalid)?;
        refused(semaphore.set_limit(3).await, ErrorKind::Invalid)?;
    }
    let state = latch.state().await?;
    ensure!(state.counted == ["a"] && state.missing == 1, "{state:?}");

    let refuses = |name: Name| {
        let latch = client.latch(name, 1);
        async move {
            refused(latch.count_down("a").await, ErrorKind::Invalid)?;
            refused(latch.wait_within(ms(1)).await, ErrorKind::Invalid)?;
            refused(latch.reset().await, ErrorKind::Invalid)
        }
    };
    if capability.shared {
        let read = client.rw_lock(context.name("read")).read().await?;
        refuses(context.name("read")).await?;
        read.ensure(ms(0))?;
        read.release().await?;
    }
    if capability.semaphores {
        let permit = client.semaphore(context.name("semaphore"), 2).acquire().await?;
        refuses(context.name("semaphore")).await?;
        permit.ensure(ms(0))?;
        permit.release().await?;
    }
    Ok(())
}

async fn a_latch_of_a_newer_version_is_left_alone(context: Context) -> Outcome {
    let (raw, client) = (context.raw().await, context.client().await);
    for (what, bytes) in
        [("newer", "leasehold latch 2\nanything"), ("foreign", "leasehold latch 1\nanything")]
    {
        let (name, bytes) = (context.name(what), bytes.as_bytes().to_vec());
        let swap = ValueSwap::new(name.clone(), None, bytes.clone(), secs(600));
        ensure!(raw.backend.swap_value(swap).await?, "{what}: not stored");
        let latch = client.latch(&name, 1);
        for error in [
            latch.count_down("a").await.err(),
            latch.wait_within(ms(1)).await.err(),
            latch.reset().await.err(),
            latch.state().await.err(),
        ] {
            let error = error.ok_or_else(|| format!("{what}: not refused"))?;
            ensure!(error.kind() == ErrorKind::Foreign, "{what}: {error}");
        }
        ensure!(client.lock(&name).try_acquire().await.is_err(), "{what}: a lock of that name");
        ensure!(raw.backend.value(&name).await? == Some(bytes), "{what}: it has changed");
    }
    Ok(())
}

fn refused<T: std::fmt::Debug>(done: leasehold_core::Result<T>, kind: ErrorKind) -> Outcome {
    let error = done.err().ok_or_else(|| format!("not refused, but {kind:?} was expected"))?;
    ensure!(error.kind() == kind, "{kind:?} was expected, not {:?}: {error}", error.kind());
    Ok(())
}
