//! The line of waiters across processes: order, passing, the dead and the stopped.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use leasehold_core::backend::{Answer, Backend, Verdict};
use leasehold_core::clock::{Clock, ManualClock};
use leasehold_file::FileBackend;
use nix::sys::signal::Signal;
use tokio::time::timeout;

use crate::helper::Helper;
use crate::kit::{Kit, SOON, attempt, request, until, walk};

/// After this a waiter that is stopped is passed by the next.
const PASSED_WITHIN: Duration = Duration::from_millis(800);

/// A process of some that compete, and a task of it.
type Contender = (usize, u64);

async fn until_waiting(kit: &Kit, count: usize) {
    until("so many wait", SOON, async || {
        let waiters = kit.status("a").await.waiters.unwrap();
        (waiters.len() == count).then_some(())
    })
    .await;
}

fn waiting(dir: &std::path::Path) -> Helper {
    Helper::start(&["hold", dir.to_str().unwrap(), "a"])
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_of_many_processes_are_served_in_order_of_arrival() {
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::open(dir.path());
    let (holder, token) = kit.lock("a").await;
    let mut helpers = Vec::new();
    for count in 1..=6 {
        helpers.push(waiting(dir.path()));
        until_waiting(&kit, count).await;
    }
    let pids: Vec<u32> = helpers.iter().map(|helper| helper.pid().as_raw() as u32).collect();
    let waiters = kit.status("a").await.waiters.unwrap();
    assert_eq!(waiters.iter().map(|waiter| waiter.holder.pid).collect::<Vec<_>>(), pids);
    kit.release("a", holder, token).await;
    let mut last = token.get();
    for helper in &mut helpers {
        let next: u64 = helper.next().unwrap().parse().unwrap();
        assert!(next > last);
        last = next;
        let status = kit.status("a").await;
        assert_eq!(status.holder.unwrap().pid, helper.pid().as_raw() as u32);
        helper.resume();
        assert_eq!(helper.next().unwrap(), "Released");
    }
    until_waiting(&kit, 0).await;
    assert_eq!(walk(dir.path()), ["format", "locks/a.json", "locks/a.lock"]);
}

#[tokio::test]
async fn a_waiter_keeps_its_place_however_often_it_asks() {
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::open(dir.path());
    let (holder, token) = kit.lock("a").await;
    let waiting: Vec<_> = (0..3).map(|_| attempt()).collect();
    for _ in 0..3 {
        for (at, attempt) in waiting.iter().enumerate() {
            let answer = kit.ask("a", *attempt, true).await.unwrap();
            let Answer::Queued { place, .. } = answer else { panic!("{answer:?}") };
            assert_eq!(place, Some(at as u64));
        }
    }
    kit.release("a", holder, token).await;
    let answer = kit.ask("a", waiting[1], true).await.unwrap();
    assert!(matches!(answer, Answer::Queued { place: Some(1), .. }), "{answer:?}");
    assert_eq!(kit.end_attempt("a", waiting[0]).await, Verdict::Gone);
    let answer = kit.ask("a", waiting[1], true).await.unwrap();
    assert!(matches!(answer, Answer::Granted(_)), "{answer:?}");
}

#[tokio::test]
async fn a_fair_try_does_not_pass_those_who_wait_and_an_unfair_one_may() {
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::open(dir.path());
    let (holder, token) = kit.lock("a").await;
    let waiting = attempt();
    kit.ask("a", waiting, true).await.unwrap();
    kit.release("a", holder, token).await;
    assert!(kit.try_lock("a").await.is_none());
    let passing = request("a", attempt(), false).with_fair(false);
    let answer = kit.backend.acquire(passing).await.unwrap();
    assert!(matches!(answer, Answer::Granted(_)), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_that_gives_up_wakes_the_one_behind_it_and_nobody_else() {
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::open(dir.path());
    kit.lock("a").await;
    let waiting: Vec<_> = (0..3).map(|_| (Kit::open(dir.path()), attempt())).collect();
    for (kit, attempt) in &waiting {
        kit.ask("a", *attempt, true).await.unwrap();
    }
    waiting[0].0.end_attempt("a", waiting[0].1).await;
    until("the push", SOON, async || (waiting[1].0.heard() > 0).then_some(())).await;
    assert_eq!(waiting[2].0.heard(), 0);
    let answer = waiting[1].0.ask("a", waiting[1].1, true).await.unwrap();
    assert!(matches!(answer, Answer::Queued { place: Some(0), .. }), "{answer:?}");
}

#[tokio::test]
async fn a_try_that_does_not_wait_any_more_leaves_the_line() {
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::open(dir.path());
    let (holder, token) = kit.lock("a").await;
    let waiting = attempt();
    kit.ask("a", waiting, true).await.unwrap();
    let answer = kit.ask("a", waiting, false).await.unwrap();
    assert_eq!(answer, Answer::Busy { ask_again: None });
    until_waiting(&kit, 0).await;
    kit.release("a", holder, token).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_that_is_killed_holds_nobody_up_and_its_place_is_cleared() {
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::open(dir.path());
    let (holder, token) = kit.lock("a").await;
    let dying = [waiting(dir.path()), waiting(dir.path())];
    until_waiting(&kit, 2).await;
    let mut next = waiting(dir.path());
    until_waiting(&kit, 3).await;
    for helper in &dying {
        helper.signal(Signal::SIGKILL);
    }
    until_waiting(&kit, 1).await;
    kit.release("a", holder, token).await;
    let got = timeout(SOON, tokio::task::spawn_blocking(move || (next.next(), next)));
    let (said, mut next) = got.await.unwrap().unwrap();
    assert!(said.unwrap().parse::<u64>().unwrap() > token.get());
    next.resume();
    assert_eq!(next.next().unwrap(), "Released");
    assert_eq!(walk(dir.path()), ["format", "locks/a.json", "locks/a.lock"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_in_line_that_is_stopped_is_passed_within_the_bound() {
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::open(dir.path());
    let (holder, token) = kit.lock("a").await;
    let mut stopped = waiting(dir.path());
    until_waiting(&kit, 1).await;
    stopped.stop();
    // For the one behind it time passes when we say so, not while the machine does something else.
    let hand = ManualClock::new();
    let behind = Kit::with_clock(dir.path(), hand.clock());
    let attempt = attempt();
    let answer = behind.ask("a", attempt, true).await.unwrap();
    let Answer::Queued { place: Some(1), mut ask_again } = answer else { panic!("{answer:?}") };
    assert_eq!(kit.release("a", holder, token).await, Verdict::Released);
    let mut waited = Duration::ZERO;
    let passed = loop {
        hand.advance(ask_again);
        waited += ask_again;
        assert!(waited <= PASSED_WITHIN, "it is waited for after {waited:?}");
        match behind.ask("a", attempt, true).await.unwrap() {
            Answer::Granted(grant) => break grant.tokens.base(),
            Answer::Queued { ask_again: next, .. } => ask_again = next,
            other => panic!("{other:?}"),
        }
        assert!(!ask_again.is_zero(), "it asks without a pause");
    };
    stopped.signal(Signal::SIGCONT);
    behind.release("a", attempt, passed).await;
    assert!(stopped.next().unwrap().parse::<u64>().unwrap() > passed.get());
}

#[tokio::test]
async fn a_waiter_that_cannot_be_woken_is_told_to_ask_again_soon() {
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::open(dir.path());
    kit.lock("a").await;
    let unheard = FileBackend::open(dir.path(), Clock::system()).unwrap();
    for _ in 0..2 {
        let answer = unheard.acquire(request("a", attempt(), true)).await.unwrap();
        let Answer::Queued { ask_again, .. } = answer else { panic!("{answer:?}") };
        assert!(ask_again <= Duration::from_millis(100), "{ask_again:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn under_contention_of_many_processes_and_tasks_nobody_gets_it_twice_while_another_waits() {
    const PROCESSES: usize = 8;
    const TASKS: usize = 8;
    const TIMES: usize = 10;
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::open(dir.path());
    let (holder, first) = kit.lock("a").await;
    let role =
        ["contend", dir.path().to_str().unwrap(), "a", &TASKS.to_string(), &TIMES.to_string()];
    let helpers: Vec<Helper> = (0..PROCESSES).map(|_| Helper::start(&role)).collect();
    until_waiting(&kit, PROCESSES * TASKS).await;
    kit.release("a", holder, first).await;
    // The waiters that were in the queue after one token and acquired with another: id and both tokens.
    let mut waits: Vec<(Contender, u64, u64)> = Vec::new();
    for (process, mut helper) in helpers.into_iter().enumerate() {
        while let Some(line) = helper.next() {
            let mut numbers = line.split(' ').map(|word| word.parse::<u64>().unwrap());
            let mut next = || numbers.next().unwrap();
            waits.push(((process, next()), next(), next()));
        }
    }
    assert_eq!(waits.len(), PROCESSES * TASKS * TIMES);
    let owners: BTreeMap<u64, Contender> = waits.iter().map(|(who, _, own)| (*own, *who)).collect();
    assert_eq!(owners.len(), waits.len(), "a token was given twice");
    assert!(*owners.keys().next().unwrap() > first.get());
    for (who, last, own) in waits {
        let mut passed = HashSet::new();
        for (token, other) in owners.range(last + 1..own.max(last + 1)) {
            assert_ne!(*other, who, "{token} is of a wait before");
            assert!(passed.insert(*other), "{who:?} waited from {last} to {own}: {other:?} twice");
        }
    }
    assert!(!dir.path().join("locks/a.wait").exists());
}

#[tokio::test]
async fn one_call_removes_a_bounded_number_of_dead_waiters_and_the_next_calls_the_rest() {
    const DEAD: usize = 5000;
    const PER_CALL: usize = 64;
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::open(dir.path());
    let (holder, token) = kit.lock("a").await;
    let line = dir.path().join("locks/a.wait");
    let left = || std::fs::read_dir(&line).map_or(0, Iterator::count);
    let fill = || {
        std::fs::create_dir_all(&line).unwrap();
        for dead in 0..DEAD {
            let draft = if dead % 10 == 0 { "." } else { "" };
            std::fs::write(line.join(format!("{draft}{dead:020}-7-x")), "").unwrap();
        }
    };
    fill();
    let waiter = attempt();
    let answer = kit.ask("a", waiter, true).await.unwrap();
    assert!(matches!(answer, Answer::Queued { place: Some(0), .. }), "{answer:?}");
    assert!(left() > DEAD - PER_CALL, "one call removed {} files", DEAD + 1 - left());
    kit.release("a", holder, token).await;
    let before = left();
    let answer = kit.ask("a", waiter, true).await.unwrap();
    let Answer::Granted(grant) = answer else { panic!("{answer:?}") };
    // Its own place and the dead.
    assert!(before - left() <= PER_CALL + 1, "one call removed {} files", before - left());
    kit.release("a", waiter, grant.tokens.base()).await;
    while line.exists() {
        let before = left();
        let (holder, token) = kit.lock("a").await;
        kit.release("a", holder, token).await;
        assert!((1..=PER_CALL).contains(&(before - left())), "{} of {before}", before - left());
    }
    // The command too, which leaves the lock until the dead are removed.
    fill();
    let mut calls = 1;
    while kit.backend.forget("a").unwrap() == 0 {
        assert!(left() >= DEAD.saturating_sub(calls * PER_CALL), "{} after {calls} calls", left());
        calls += 1;
        assert!(calls <= DEAD, "the lock is never forgotten");
    }
    assert!(calls > 1 && !line.exists(), "{calls} calls");
}
