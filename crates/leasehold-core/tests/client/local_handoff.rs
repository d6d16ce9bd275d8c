//! A lease that tasks of one process hand to each other: when they do, when they must not, and what
//! is left when a task leaves at a bad moment.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use leasehold_core::backend::Backend;
use leasehold_core::{Lock, Usage};

use super::bench::{got, waits};
use super::*;

#[tokio::test]
async fn a_lease_goes_to_the_next_task_with_a_larger_token_and_no_call() {
    let bench = Bench::new();
    let lock = bench.client.lock("a");
    let first = lock.acquire().await.unwrap();
    let (second, third) = (waits(&lock).await, waits(&lock).await);
    let token = first.token();
    first.release().await.unwrap();
    // The first had no reason to reserve tokens for others; one call does.
    assert_eq!(bench.faults.calls(), 2);
    let second = got(second).await;
    assert!(second.token() > token);
    let token = second.token();
    second.release().await.unwrap();
    let third = got(third).await;
    assert!(third.token() > token);
    assert_eq!(bench.faults.calls(), 2, "handed on in memory");
    let fourth = waits(&lock).await;
    drop(third);
    drop(got(fourth).await);
    bench.nothing_is_left().await;
    assert_eq!(bench.faults.calls(), 3);
}

#[tokio::test]
async fn a_passed_lease_is_renewed_and_lost_like_any_other() {
    let bench = Bench::new();
    let lock = bench.client.lock("a").ttl(secs(3));
    let first = lock.acquire().await.unwrap();
    let (second, third) = (waits(&lock).await, waits(&lock).await);
    first.release().await.unwrap();
    got(second).await.release().await.unwrap();
    let third = got(third).await;
    bench.pass(secs(30)).await;
    assert!(third.is_valid());
    bench.faults.cut_renewals(true);
    let (waiting, deadline) = (waits(&lock).await, third.remaining());
    bench.pass(deadline).await;
    assert!(!third.is_valid());
    // The waiter behind it did not wait for its guard to be dropped.
    bench.faults.cut_renewals(false);
    bench.pass(secs(1)).await;
    let fourth = got(waiting).await;
    assert!(fourth.token() > third.token());
    assert_eq!(third.release().await.unwrap_err().kind(), ErrorKind::Lost);
    assert!(fourth.is_valid());
}

#[tokio::test]
async fn a_lost_lease_is_never_passed_on() {
    let bench = Bench::new();
    let lock = bench.client.lock("a").ttl(secs(3));
    let first = lock.acquire().await.unwrap();
    let (second, third) = (waits(&lock).await, waits(&lock).await);
    first.release().await.unwrap();
    let second = got(second).await;
    // No task reads the clock before the release does.
    bench.hand.advance(secs(4));
    let other = bench.other_client();
    let token = second.token();
    second.release().await.unwrap_err();
    let third = got(third).await;
    assert!(third.is_valid() && third.token() > token);
    assert!(other.lock("a").try_acquire().await.unwrap().is_none());
    third.release().await.unwrap();
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn others_outside_wait_no_longer_than_the_quantum() {
    let bench = Bench::new();
    let (lock, other) = (bench.client.lock("a"), bench.other_client().lock("a"));
    let first = lock.acquire().await.unwrap();
    let mut ours = Vec::new();
    for _ in 0..4 {
        ours.push(waits(&lock).await);
    }
    first.release().await.unwrap();
    let second = got(ours.remove(0)).await;
    let outside = waits(&other).await;
    bench.hand.advance(ms(19));
    second.release().await.unwrap();
    let third = got(ours.remove(0)).await;
    bench.hand.advance(ms(1));
    third.release().await.unwrap();
    let outside = got(outside).await;
    others_run().await;
    assert!(!ours[0].is_finished() && !ours[1].is_finished());
    // Local tasks wait behind it with one attempt.
    assert_eq!(other.status().await.unwrap().waiters.unwrap().len(), 1);
    let again = waits(&other).await;
    outside.release().await.unwrap();
    let fourth = got(ours.remove(0)).await;
    bench.hand.advance(ms(25));
    // The other client has waited since before this lease began.
    fourth.release().await.unwrap();
    got(again).await.release().await.unwrap();
    got(ours.remove(0)).await.release().await.unwrap();
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn a_block_that_is_used_up_is_followed_by_a_higher_one() {
    let bench = Bench::new();
    let lock = bench.client.lock("a");
    let mut last = lock.acquire().await.unwrap();
    for _ in 0..40_000 {
        let lock = lock.clone();
        let next = tokio::spawn(async move { lock.acquire().await });
        tokio::task::yield_now().await;
        let token = last.token();
        // Blocks end near the clock, so the clock must advance.
        bench.hand.advance(Duration::from_micros(1));
        last.release().await.unwrap();
        last = next.await.unwrap().unwrap();
        assert!(last.token() > token);
    }
    last.release().await.unwrap();
    let calls = bench.faults.calls();
    assert!((4..8).contains(&calls), "{calls} calls for two blocks and a half");
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn whoever_leaves_the_line_costs_no_call() {
    let bench = Bench::new();
    let lock = bench.client.lock("a");
    let holder = lock.acquire().await.unwrap();
    let calls = bench.faults.calls();
    let (left, stays) = (waits(&lock).await, waits(&lock).await);
    left.abort();
    others_run().await;
    let late = lock.clone();
    let in_time = tokio::spawn(async move { late.acquire_within(ms(300)).await.map(drop) });
    bench.pass(ms(400)).await;
    assert_eq!(in_time.await.unwrap().unwrap_err().kind(), ErrorKind::Timeout);
    assert_eq!(bench.faults.calls(), calls);
    assert_eq!(bench.client.usage().waiting, 1);
    holder.release().await.unwrap();
    got(stays).await.release().await.unwrap();
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn the_next_keeps_the_place_of_one_who_leaves_the_front() {
    let bench = Bench::new();
    let (lock, other) = (bench.client.lock("a"), bench.other_client().lock("a"));
    let holder = other.acquire().await.unwrap();
    let (front, behind) = (waits(&lock).await, waits(&lock).await);
    let later = waits(&bench.other_client().lock("a")).await;
    let calls = bench.faults.calls();
    front.abort();
    others_run().await;
    assert_eq!(bench.faults.calls(), calls, "its attempt continues");
    assert_eq!(other.status().await.unwrap().waiters.unwrap().len(), 2);
    holder.release().await.unwrap();
    let behind = got(behind).await;
    assert!(!later.is_finished());
    behind.release().await.unwrap();
    got(later).await.release().await.unwrap();
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn one_who_wants_something_else_does_not_go_on_with_anothers_attempt() {
    let bench = Bench::new();
    let (lock, other) = (bench.client.lock("a"), bench.other_client().lock("a"));
    let holder = other.acquire().await.unwrap();
    let (front, behind) = (waits(&lock).await, waits(&lock.clone().metadata("else")).await);
    front.abort();
    others_run().await;
    let waiters = other.status().await.unwrap().waiters.unwrap();
    let metadata: Vec<_> = waiters.into_iter().map(|waiter| waiter.holder.metadata).collect();
    assert_eq!(metadata, [Some("else".to_owned())]);
    holder.release().await.unwrap();
    got(behind).await.release().await.unwrap();
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn another_ttl_is_asked_for_in_the_same_call_that_releases() {
    let bench = Bench::new();
    let lock = bench.client.lock("a");
    let first = lock.acquire().await.unwrap();
    let fixed = waits(&lock.clone().lease(secs(2))).await;
    let calls = bench.faults.calls();
    first.release().await.unwrap();
    let fixed = got(fixed).await;
    assert_eq!(bench.faults.calls(), calls + 1);
    let remaining = fixed.remaining();
    assert!(remaining > ms(1900) && remaining < secs(2), "{remaining:?}: all of its own lease");
    let again = waits(&lock).await;
    fixed.release().await.unwrap();
    got(again).await.release().await.unwrap();
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn what_the_next_one_wants_otherwise_is_not_passed_on() {
    for odd in [|lock: Lock| lock.ttl(secs(7)), |lock: Lock| lock.lease(secs(7))] {
        let bench = Bench::new();
        let (lock, odd) = (bench.client.lock("a"), odd(bench.client.lock("a")));
        let first = lock.acquire().await.unwrap();
        let waiting = [waits(&lock).await, waits(&odd).await, waits(&odd).await];
        first.release().await.unwrap();
        for (number, waiting) in waiting.into_iter().enumerate() {
            // Each holder has tokens left for the next.
            let guard = got(waiting).await;
            let ttl = if number == 0 { secs(30) } else { secs(7) };
            let left = guard.remaining();
            assert!(left < ttl && left > ttl - ttl / 10, "{number}: {left:?}");
            bench.hand.advance(ms(500));
            guard.release().await.unwrap();
        }
        bench.nothing_is_left().await;
    }
}

#[tokio::test]
async fn those_outside_who_wait_since_before_the_grant_count() {
    let bench = Bench::new();
    let lock = bench.client.lock("a");
    let holder = lock.acquire().await.unwrap();
    let (first, second) = (waits(&lock).await, waits(&lock).await);
    let outside = waits(&bench.other_client().lock("a")).await;
    bench.hand.advance(ms(20));
    holder.release().await.unwrap();
    let outside = got(outside).await;
    let others = waits(&bench.other_client().lock("a")).await;
    outside.release().await.unwrap();
    let first = got(first).await; // It has tokens to hand on.
    bench.hand.advance(ms(20));
    first.release().await.unwrap();
    got(others).await.release().await.unwrap();
    got(second).await.release().await.unwrap();
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn one_outside_who_has_gone_costs_no_more_than_one_call() {
    let bench = Bench::new();
    let (lock, other) = (bench.client.lock("a"), bench.other_client().lock("a"));
    let first = lock.acquire().await.unwrap();
    let (second, third, fourth) = (waits(&lock).await, waits(&lock).await, waits(&lock).await);
    first.release().await.unwrap();
    let second = got(second).await;
    let outside = waits(&other).await;
    outside.abort();
    others_run().await;
    bench.hand.advance(ms(20));
    let calls = bench.faults.calls();
    second.release().await.unwrap();
    got(third).await.release().await.unwrap();
    let fourth = got(fourth).await;
    assert_eq!(bench.faults.calls(), calls + 1);
    fourth.release().await.unwrap();
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn those_who_do_not_care_for_order_pass_on_for_a_second() {
    let bench = Bench::new();
    let lock = bench.client.lock("a").fair(false);
    let first = lock.acquire().await.unwrap();
    let mut ours = [waits(&lock).await, waits(&lock).await, waits(&lock).await].into_iter();
    first.release().await.unwrap();
    let second = got(ours.next().unwrap()).await;
    let outside = waits(&bench.other_client().lock("a")).await;
    bench.hand.advance(ms(999));
    second.release().await.unwrap();
    let third = got(ours.next().unwrap()).await;
    bench.hand.advance(ms(1));
    third.release().await.unwrap();
    got(outside).await.release().await.unwrap();
    got(ours.next().unwrap()).await.release().await.unwrap();
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn a_lease_acquired_past_the_line_does_not_lead_it() {
    let bench = Bench::new();
    let lock = bench.client.lock("a");
    let holder = bench.other_client().lock("a").acquire().await.unwrap();
    let (front, behind) = (waits(&lock).await, waits(&lock).await);
    let unfair = lock.clone().fair(false);
    bench.faults.cut_pushes(true);
    holder.release().await.unwrap();
    others_run().await;
    // The offer, which the front did not receive, has expired.
    bench.hand.advance(secs(2));
    let past = unfair.try_acquire().await.unwrap();
    bench.faults.cut_pushes(false);
    if let Some(past) = past {
        past.release().await.unwrap();
    }
    bench.pass(secs(15)).await;
    got(front).await.release().await.unwrap();
    got(behind).await.release().await.unwrap();
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn a_minimum_hold_is_not_cut_short_by_those_who_wait_here() {
    let bench = Bench::new();
    let lock = bench.client.lock("a");
    let first = lock.acquire().await.unwrap();
    let second = waits(&lock.clone().min_hold(secs(5))).await;
    first.release().await.unwrap();
    let second = got(second).await; // It has tokens to hand on.
    let next = waits(&lock).await;
    second.release().await.unwrap();
    bench.pass(ms(4900)).await;
    assert!(!next.is_finished());
    bench.pass(ms(600)).await;
    got(next).await.release().await.unwrap();
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn an_early_release_whose_future_is_dropped_waives_the_minimum_hold() {
    let bench = Bench::new();
    let lock = bench.client.lock("a").min_hold(secs(60));
    for is_polled in [false, true] {
        let mut releasing = Box::pin(lock.acquire().await.unwrap().release_early());
        if is_polled {
            tokio::select! {
                biased;
                released = &mut releasing => released.unwrap(),
                () = std::future::ready(()) => {}
            }
        }
        drop(releasing);
        bench.nothing_is_left().await;
    }
}

#[tokio::test]
async fn a_lease_passed_to_one_who_leaves_in_that_moment_goes_on() {
    for others in [0, 1] {
        let bench = Bench::new();
        let lock = bench.client.lock("a");
        let first = lock.acquire().await.unwrap();
        let (second, leaving) = (waits(&lock).await, waits(&lock).await);
        first.release().await.unwrap();
        let second = got(second).await;
        let mut third = Vec::new();
        for _ in 0..others {
            third.push(waits(&lock).await);
        }
        second.release().await.unwrap();
        leaving.abort(); // It has the lease and has not been polled since.
        for third in third {
            got(third).await.release().await.unwrap();
        }
        others_run().await;
        bench.nothing_is_left().await;
    }
}

#[tokio::test]
async fn an_exchange_whose_answer_is_lost_is_repeated_to_the_same_lease() {
    for fault in [Fault::LoseReply, Fault::LoseRequest, Fault::Duplicate] {
        let bench = Bench::new();
        let lock = bench.client.lock("a");
        let first = lock.acquire().await.unwrap();
        let next = waits(&lock).await;
        bench.faults.on_release(&[fault]);
        let released = first.release().await;
        assert_eq!(released.is_ok(), fault == Fault::Duplicate, "{fault:?}");
        bench.pass(secs(1)).await;
        let next = got(next).await;
        bench.pass(secs(60)).await;
        assert!(next.is_valid(), "{fault:?}");
        next.release().await.unwrap();
        bench.nothing_is_left().await;
    }
}

#[tokio::test]
async fn a_release_dropped_in_the_middle_of_an_exchange_is_finished() {
    let bench = Bench::new();
    let lock = bench.client.lock("a");
    let first = lock.acquire().await.unwrap();
    let next = waits(&lock).await;
    bench.faults.on_release(&[Fault::Hang]);
    let releasing = tokio::spawn(first.release());
    others_run().await;
    assert!(!next.is_finished());
    releasing.abort();
    got(next).await.release().await.unwrap();
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn who_leaves_during_an_exchange_leaves_nothing() {
    let bench = Bench::new();
    let lock = bench.client.lock("a");
    let first = lock.acquire().await.unwrap();
    let next = waits(&lock).await;
    bench.faults.on_release(&[Fault::LoseRequest]);
    first.release().await.unwrap_err();
    next.abort();
    bench.pass(secs(1)).await;
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn a_closed_client_lets_nobody_wait_in_line() {
    let bench = Bench::new();
    let lock = bench.client.lock("a");
    let holder = lock.acquire().await.unwrap();
    let waiting = [waits(&lock).await, waits(&lock).await];
    bench.client.close().await;
    for waiting in waiting {
        assert_eq!(waiting.await.unwrap().unwrap_err().kind(), ErrorKind::Closed);
    }
    holder.release().await.unwrap();
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn trying_does_not_ask_when_a_task_of_the_process_holds() {
    let bench = Bench::new();
    let lock = bench.client.lock("a");
    let held = lock.try_acquire().await.unwrap().unwrap();
    let calls = bench.faults.calls();
    assert!(lock.try_acquire().await.unwrap().is_none());
    assert_eq!(bench.faults.calls(), calls);
    let next = waits(&lock).await;
    held.release().await.unwrap();
    got(next).await.release().await.unwrap();
    bench.nothing_is_left().await;
}

/// Tasks of three clients on two threads leave at random moments, over a backend that loses
/// messages. There are never two holders, tokens grow, every task that stays acquires the lock, and
/// nothing is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_goes_wrong_at_random() {
    let store = MemoryStore::new();
    let (inside, last) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut clients = Vec::new();
    let mut tasks = Vec::new();
    for number in 0..3 {
        let faults = Faults::before(Arc::new(store.connect()));
        let backend: Arc<dyn Backend> = Arc::new(faults.clone());
        let client = Client::new(backend).unwrap();
        for task in 0..8 {
            let lock = client.lock("a").ttl(secs(30));
            let lock = if task == 7 { lock.metadata("odd") } else { lock };
            let (faults, inside, last) = (faults.clone(), inside.clone(), last.clone());
            tasks.push(tokio::spawn(async move {
                let mut dice = fastrand::Rng::with_seed(number * 100 + task);
                for _ in 0..50 {
                    if dice.u8(..60) == 0 {
                        let fault = [Fault::LoseReply, Fault::LoseRequest, Fault::Duplicate];
                        faults.on_acquire(&fault[..dice.usize(..3)]);
                        faults.on_release(&fault[dice.usize(..3)..]);
                    }
                    let wait = std::time::Duration::from_micros(dice.u64(..3000));
                    let acquired = match dice.u8(..4) {
                        0 => tokio::time::timeout(wait, lock.acquire()).await.ok(),
                        1 => Some(lock.acquire_within(wait).await),
                        _ => Some(lock.acquire().await),
                    };
                    let Some(Ok(guard)) = acquired else { continue };
                    assert!(!inside.swap(true, Ordering::SeqCst), "two holders");
                    let token = guard.token().get();
                    assert!(last.swap(token, Ordering::SeqCst) < token, "tokens grow");
                    if dice.u8(..3) == 0 {
                        tokio::task::yield_now().await;
                    }
                    assert!(inside.swap(false, Ordering::SeqCst));
                    match dice.u8(..3) {
                        0 => drop(guard),
                        1 => drop(tokio::time::timeout(wait / 100, guard.release()).await),
                        _ => drop(guard.release().await),
                    }
                }
            }));
        }
        clients.push(client);
    }
    for task in tasks {
        task.await.unwrap();
    }
    for client in &clients {
        client.settle().await;
        assert_eq!(client.usage(), Usage::default());
    }
    let status = clients[0].lock("a").status().await.unwrap();
    assert_eq!((status.state, status.waiters), (State::Free, Some(Vec::new())));
}

/// On one thread, with an engine that answers at once.
#[tokio::test]
async fn a_task_that_locks_again_and_again_lets_others_run() {
    let lock = Client::new(Arc::new(MemoryStore::new().connect())).unwrap().lock("a");
    let busy = tokio::spawn(async move {
        loop {
            lock.acquire().await.unwrap().release().await.unwrap();
        }
    });
    others_run().await;
    busy.abort();
}

/// No time passes, so the next renewal is not what reports the loss.
#[tokio::test]
async fn force_release_reaches_the_holder_and_its_local_queue_at_once() {
    let bench = Bench::new();
    let lock = bench.client.lock("a");
    let first = lock.acquire().await.unwrap();
    let (second, third) = (waits(&lock).await, waits(&lock).await);
    first.release().await.unwrap();
    let second = got(second).await;
    let outside = waits(&bench.other_client().lock("a")).await;
    bench.other_client().lock("a").force_release(second.token()).await.unwrap();
    let outside = got(outside).await;
    assert!(!second.is_valid(), "two valid guards");
    assert_eq!(second.lost().await, LossReason::NotOwner);
    assert_eq!(second.release().await.unwrap_err().kind(), ErrorKind::Lost);
    others_run().await;
    assert!(!third.is_finished(), "the lost lease was handed on");
    assert!(outside.is_valid());
    outside.release().await.unwrap();
    drop(got(third).await);
    bench.nothing_is_left().await;
}
