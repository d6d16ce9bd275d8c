//! The line of waiters across processes: order, passing, the dead and the stopped.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use leasehold_core::backend::{Answer, Ask, Backend, Verdict};
use leasehold_core::clock::Clock;
use leasehold_file::FileBackend;
use nix::sys::signal::Signal;
use tokio::time::timeout;

use crate::helper::Helper;
use crate::kit::{Kit, SOON, ask, attempt, until, walk};

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
        helper.go_on();
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
    assert_eq!(kit.give_up("a", waiting[0]).await, Verdict::Gone);
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
    let passing = Ask { fair: false, ..ask("a", attempt(), false) };
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
    waiting[0].0.give_up("a", waiting[0].1).await;
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
    next.go_on();
    assert_eq!(next.next().unwrap(), "Released");
    assert_eq!(walk(dir.path()), ["format", "locks/a.json", "locks/a.lock"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_in_line_that_is_stopped_is_passed_within_the_bound() {
    for _ in 0..5 {
        let dir = tempfile::tempdir().unwrap();
        let kit = Kit::open(dir.path());
        let (holder, token) = kit.lock("a").await;
        let mut stopped = waiting(dir.path());
        until_waiting(&kit, 1).await;
        stopped.stop();
        let behind = tokio::spawn({
            let kit = kit.clone();
            async move { kit.lock("a").await }
        });
        until_waiting(&kit, 2).await;
        kit.release("a", holder, token).await;
        let released = Instant::now();
        let (attempt, passed) = timeout(SOON, behind).await.unwrap().unwrap();
        let took = released.elapsed();
        stopped.signal(Signal::SIGCONT);
        kit.release("a", attempt, passed).await;
        assert!(stopped.next().unwrap().parse::<u64>().unwrap() > passed.get());
        // The bound is 0.8 s; the rest, and the tries, are for a busy machine.
        if took < Duration::from_secs(3) {
            return;
        }
    }
    panic!("it was waited for");
}

#[tokio::test]
async fn a_waiter_that_cannot_be_woken_is_told_to_ask_again_soon() {
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::open(dir.path());
    kit.lock("a").await;
    let unheard = FileBackend::open(dir.path(), Clock::system()).unwrap();
    for _ in 0..2 {
        let answer = unheard.acquire(ask("a", attempt(), true)).await.unwrap();
        let Answer::Queued { ask_again, .. } = answer else { panic!("{answer:?}") };
        assert!(ask_again <= Duration::from_millis(100), "{ask_again:?}");
    }
}

#[test]
fn under_contention_of_many_processes_and_tasks_nobody_starves() {
    // Processes that the machine does not let run say nothing of the line.
    let fair = (0..3).any(|_| contend() > 0.8);
    assert!(fair);
}

/// Jain's index of how often each task of many processes got the lock; 0 when one never got it.
fn contend() -> f64 {
    const PROCESSES: usize = 8;
    const TASKS: usize = 8;
    let dir = tempfile::tempdir().unwrap();
    let role = ["contend", dir.path().to_str().unwrap(), "a", &TASKS.to_string()];
    let mut helpers: Vec<Helper> = (0..PROCESSES).map(|_| Helper::start(&role)).collect();
    for helper in &mut helpers {
        assert_eq!(helper.next().as_deref(), Some("ready"));
    }
    let end = Clock::system().now().unix_ms() + 2_000;
    for helper in &mut helpers {
        helper.tell(&end.to_string());
    }
    let mut counts = HashMap::new();
    for (process, mut helper) in helpers.into_iter().enumerate() {
        while let Some(line) = helper.next() {
            let (task, count) = line.split_once(' ').unwrap();
            counts.insert((process, task.to_owned()), count.parse::<f64>().unwrap());
        }
    }
    assert_eq!(counts.len(), PROCESSES * TASKS);
    let total: f64 = counts.values().sum();
    let squares: f64 = counts.values().map(|count| count * count).sum();
    let jain = total * total / (counts.len() as f64 * squares);
    let least = counts.values().copied().fold(f64::MAX, f64::min);
    let most = counts.values().copied().fold(0.0, f64::max);
    println!(
        "{PROCESSES} x {TASKS}: {:.0} hand-offs/s, {least} to {most} for each, Jain {jain:.3}",
        total / 2.0
    );
    assert!(!dir.path().join("locks/a.wait").exists());
    if least > 0.0 { jain } else { 0.0 }
}
