//! Holders that die, stop, compete, or leave a descriptor behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use leasehold_core::State;
use leasehold_core::backend::{Answer, Backend};
use leasehold_core::clock::ManualClock;
use nix::sys::signal::Signal;
use tokio::time::timeout;

use crate::helper::Helper;
use crate::kit::{AT_ONCE, Kit, SOON, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_holder_frees_the_lock_at_once_and_the_next_token_is_larger() {
    let dir = tempfile::tempdir().unwrap();
    let (holder, token) = Helper::holding(dir.path(), "a");
    let hand = ManualClock::new();
    let kit = Kit::with_clock(dir.path(), hand.clock());
    let attempt = crate::kit::attempt();
    // Answered, so it stands in line and watches.
    assert!(matches!(kit.ask("a", attempt, true).await.unwrap(), Answer::Queued { .. }));
    holder.signal(Signal::SIGKILL);
    assert!(holder.was_killed());
    // Its files are closed now. On the waiter's clock no more time passes than this, however long the
    // machine takes.
    hand.advance(AT_ONCE);
    until("the push", SOON, async || (kit.heard() > 0).then_some(())).await;
    let answer = kit.ask("a", attempt, true).await.unwrap();
    let Answer::Granted(grant) = answer else { panic!("free, but {answer:?}") };
    let next = grant.tokens.base();
    assert!(next.get() > token);
    kit.release("a", attempt, next).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_released_lock_wakes_a_waiter_in_another_process_by_push() {
    let dir = tempfile::tempdir().unwrap();
    let (mut holder, _) = Helper::holding(dir.path(), "a");
    let kit = Kit::open(dir.path());
    let attempt = crate::kit::attempt();
    kit.ask("a", attempt, true).await.unwrap();
    assert_eq!(kit.heard(), 0);
    holder.resume();
    assert_eq!(holder.next().unwrap(), "Released");
    until("the push", SOON, async || (kit.heard() > 0).then_some(())).await;
    let token = kit.lock_as("a", attempt).await;
    kit.release("a", attempt, token).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_holder_keeps_the_lock_and_status_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let (holder, token) = Helper::holding(dir.path(), "a");
    let kit = Kit::open(dir.path());
    assert_eq!(kit.status("a").await.note, None);
    holder.stop();
    let status = kit.status("a").await;
    assert!(status.note.unwrap().contains("SIGSTOP"));
    assert_eq!(status.state, State::Held);
    assert_eq!(status.token.unwrap().get(), token);
    assert_eq!(status.holder.unwrap().pid, holder.pid().as_raw() as u32);
    assert!(kit.try_lock("a").await.is_none());
    holder.signal(Signal::SIGKILL);
    until("free", SOON, async || (!kit.is_held("a").await).then_some(())).await;
}

#[test]
fn many_processes_lose_no_update_and_tokens_grow_from_holder_to_holder() {
    const PROCESSES: u64 = 8;
    const TIMES: u64 = 25;
    let dir = tempfile::tempdir().unwrap();
    let counter = dir.path().join("counter");
    std::fs::write(&counter, "0").unwrap();
    // None of them finds the store made: they make it at the same time.
    let store = dir.path().join("store");
    let role =
        ["count", store.to_str().unwrap(), "a", counter.to_str().unwrap(), &TIMES.to_string()];
    let helpers: Vec<Helper> = (0..PROCESSES).map(|_| Helper::start(&role)).collect();
    let mut seen: Vec<(u64, u64)> = Vec::new();
    for mut helper in helpers {
        while let Some(line) = helper.next() {
            let (count, token) = line.split_once(' ').unwrap();
            seen.push((count.parse().unwrap(), token.parse().unwrap()));
        }
    }
    let total = PROCESSES * TIMES;
    assert_eq!(std::fs::read_to_string(&counter).unwrap(), total.to_string());
    seen.sort();
    assert!(seen.iter().map(|(count, _)| *count).eq(0..total));
    assert!(seen.windows(2).all(|pair| pair[0].1 < pair[1].1), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_duplicate_of_the_descriptor_keeps_the_lock_after_the_holder_died() {
    let dir = tempfile::tempdir().unwrap();
    let mut holder = Helper::start(&["hold-with-child", dir.path().to_str().unwrap(), "a"]);
    let token: u64 = holder.next().unwrap().parse().unwrap();
    let child: i32 = holder.next().unwrap().parse().unwrap();
    let kit = Kit::open(dir.path());
    let waiter = tokio::spawn({
        let kit = kit.clone();
        async move { kit.lock("a").await }
    });
    drop(holder);
    let status = until("the holder's end is seen", SOON, async || {
        Some(kit.status("a").await).filter(|status| status.note.is_some())
    })
    .await;
    assert!(status.note.unwrap().contains("has ended"));
    assert_eq!((status.state, status.token.unwrap().get()), (State::Held, token));
    assert!(!waiter.is_finished());
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(child), Signal::SIGKILL).unwrap();
    let (attempt, next) = timeout(SOON, waiter).await.unwrap().unwrap();
    assert!(next.get() > token);
    kit.release("a", attempt, next).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn release_frees_the_lock_although_a_duplicate_lives_and_wakes_by_push() {
    let dir = tempfile::tempdir().unwrap();
    let (ours, other) = (Kit::open(dir.path()), Kit::open(dir.path()));
    let (attempt, token) = ours.lock("a").await;
    let _duplicate = ours.backend.descriptor(attempt).unwrap();
    let waiting = crate::kit::attempt();
    other.ask("a", waiting, true).await.unwrap();
    ours.release("a", attempt, token).await;
    until("the push", SOON, async || (other.heard() > 0).then_some(())).await;
    let next = other.lock_as("a", waiting).await;
    assert!(next > token);
    other.release("a", waiting, next).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn looking_at_a_lock_never_makes_a_try_fail() {
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::open(dir.path());
    let (stop, looks) = (Arc::new(AtomicBool::new(false)), Arc::new([0; 2].map(AtomicU32::new)));
    let lookers: Vec<_> = (0..2)
        .map(|number| {
            let (kit, stop, looks) = (Kit::open(dir.path()), stop.clone(), looks.clone());
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    kit.status("a").await;
                    kit.backend.list("", 10).await.unwrap();
                    looks[number].fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    until("both look", SOON, async || {
        looks.iter().all(|looks| looks.load(Ordering::Relaxed) > 0).then_some(())
    })
    .await;
    for _ in 0..200 {
        let (attempt, grant) = kit.try_lock("a").await.expect("no other client wants the lock");
        kit.release("a", attempt, grant.tokens.base()).await;
    }
    stop.store(true, Ordering::Relaxed);
    for looker in lookers {
        timeout(SOON, looker).await.unwrap().unwrap();
    }
}

#[test]
fn locks_that_are_forgotten_while_they_are_used_have_one_holder_and_growing_tokens() {
    const TRIES: usize = 10_000;
    // In memory, where it is there: syncing to a disk would be nearly all of the time.
    let memory = std::path::Path::new("/dev/shm");
    let dir = tempfile::tempdir_in(memory).or_else(|_| tempfile::tempdir()).unwrap();
    let (store, witness) = (dir.path().join("store"), dir.path().join("witness"));
    std::fs::write(&witness, "0").unwrap();
    let store = store.to_str().unwrap();
    let forgetters: Vec<Helper> =
        (0..2).map(|_| Helper::start(&["forget-often", store, "a"])).collect();
    let role = ["hold-often", store, "a", witness.to_str().unwrap(), &TRIES.to_string()];
    let holders: Vec<Helper> = (0..2).map(|_| Helper::start(&role)).collect();
    let (mut holds, mut overlaps, mut wrong) = (0, 0, Vec::new());
    for mut holder in holders {
        while let Some(line) = holder.next() {
            holds += 1;
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["true", before, token]
                    if before.parse::<u64>().ok() < token.parse::<u64>().ok() => {}
                ["false", ..] => overlaps += 1,
                _ => wrong.push(line),
            }
        }
    }
    let forgotten = forgetters.into_iter().map(|mut forgetter| {
        forgetter.resume();
        forgetter.next().unwrap().parse::<u64>().unwrap()
    });
    let forgotten = forgotten.sum::<u64>();
    assert_eq!(overlaps, 0, "overlaps in {holds} holds; also wrong: {wrong:?}");
    assert!(wrong.is_empty(), "{wrong:?}");
    assert!(holds > 0 && forgotten > 0, "{holds} holds, {forgotten} forgotten");
}
