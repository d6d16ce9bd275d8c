//! A lease that is handed on, or an attempt that is inherited, while another event happens at the
//! same moment: a loss, a late answer, a waiter that leaves.

#![allow(clippy::unwrap_used)]

use leasehold_core::backend::{AcquireRequest, Answer, Event, Grant, Origin, Term};
use leasehold_core::proto::TokenBlock;
use leasehold_core::{AttemptId, Name};

use super::bench::{got, second_before, stands_in_line, stands_no_more, waits};
use super::*;

#[tokio::test]
async fn what_was_said_of_an_earlier_attempt_is_not_taken_for_the_next_one() {
    let bench = Bench::new();
    let other = bench.other_client().lock("a");
    let holder = other.acquire().await.unwrap();
    let waiting = waits(&bench.client.lock("a").ttl(secs(1))).await;
    // It asks again; the lease is pushed while that request is on its way.
    bench.faults.on_acquire(&[Fault::Late]);
    bench.pass(secs(15)).await;
    bench.hand.advance(ms(800));
    holder.release().await.unwrap();
    others_run().await;
    // The request gets the same lease, but its answer arrives too late.
    bench.hand.advance(ms(100));
    let hand = bench.hand.clone();
    bench.faults.before_next_answer(move || hand.advance(ms(150)));
    bench.faults.arrive();
    others_run().await;
    bench.pass(secs(1)).await;
    let guard = got(waiting).await;
    let status = other.status().await.unwrap();
    assert_eq!(status.holder.map(|holder| holder.attempt), Some(guard.attempt()));
    assert_eq!(status.token, Some(guard.token()));
    guard.release().await.unwrap();
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn a_lease_lost_on_its_way_to_the_next_leaves_that_one_in_line() {
    for others in [0, 1] {
        let bench = Bench::new();
        let (lock, other) = (bench.client.lock("a").ttl(secs(3)), bench.other_client().lock("a"));
        let first = lock.acquire().await.unwrap();
        let second = waits(&lock).await;
        let third = lock.acquire();
        tokio::pin!(third);
        stands_in_line(third.as_mut()).await;
        let mut fourth = Vec::new();
        for _ in 0..others {
            fourth.push(waits(&lock).await);
        }
        first.release().await.unwrap();
        got(second).await.release().await.unwrap();
        // The third has the lease and does not know; it expires, and others acquire it.
        let outside = waits(&other).await;
        bench.pass(secs(4)).await;
        let outside = got(outside).await;
        stands_in_line(third.as_mut()).await;
        assert_eq!(other.status().await.unwrap().waiters.unwrap().len(), 1);
        assert_eq!(bench.client.usage().queues, 1);
        outside.release().await.unwrap();
        others_run().await;
        stands_no_more(third).await.release().await.unwrap();
        for fourth in fourth {
            got(fourth).await.release().await.unwrap();
        }
        bench.nothing_is_left().await;
    }
}

#[tokio::test]
async fn an_attempt_that_somebody_else_asked_for_once_is_not_suspect() {
    let bench = Bench::new();
    let lock = bench.client.lock("a");
    let first = lock.acquire().await.unwrap();
    let (second, third) = (waits(&lock).await, waits(&lock).await);
    first.release().await.unwrap();
    got(second).await.release().await.unwrap();
    drop(got(third).await);
    let (fourth, fifth) = (lock.acquire().await.unwrap(), waits(&lock).await);
    drop(fourth);
    got(fifth).await.release().await.unwrap();
    bench.nothing_is_left().await;
    assert_eq!(bench.faults.suspects(), 0);
}

#[tokio::test]
async fn an_attempt_that_somebody_else_asked_for_twice_is_suspect() {
    for dropped in [false, true] {
        let bench = Bench::new();
        let lock = bench.client.lock("a");
        let first = lock.acquire().await.unwrap();
        let second = waits(&lock).await;
        bench.faults.on_release(&[Fault::LoseReply]);
        match dropped {
            true => drop(first),
            false => drop(first.release().await.unwrap_err()),
        }
        let third = waits(&lock).await;
        bench.pass(secs(1)).await;
        got(second).await.release().await.unwrap();
        got(third).await.release().await.unwrap();
        bench.nothing_is_left().await;
        assert_eq!(bench.faults.suspects(), 1, "{dropped}");
    }
}

#[tokio::test]
async fn the_end_of_a_passed_lease_is_told_in_time() {
    let bench = Bench::new();
    let lock = bench.client.lock("a");
    let first = lock.acquire().await.unwrap();
    let second = waits(&lock).await;
    let third = waits(&lock.clone().max_hold(ms(900))).await;
    first.release().await.unwrap();
    let second = got(second).await;
    others_run().await;
    second.release().await.unwrap();
    let third = got(third).await;
    let told = third.cancellation_token();
    bench.pass(ms(500)).await;
    assert!(!told.is_cancelled());
    bench.pass(ms(300)).await;
    assert!(told.is_cancelled() && !third.remaining().is_zero(), "not before its end");
}

#[tokio::test]
async fn a_lease_passed_to_one_who_is_never_polled_ends_by_its_ttl() {
    let bench = Bench::new();
    let lock = bench.client.lock("a").ttl(secs(3));
    let third = lock.acquire();
    tokio::pin!(third);
    second_before(&lock, third.as_mut()).await.release().await.unwrap();
    let outside = waits(&bench.other_client().lock("a")).await;
    bench.pass(secs(4)).await;
    got(outside).await.release().await.unwrap();
    third.await.unwrap().release().await.unwrap();
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn what_one_who_leaves_has_not_heard_yet_is_not_lost() {
    let bench = Bench::new();
    let holder = bench.other_client().lock("a").ttl(secs(60)).acquire().await.unwrap();
    let faults = Faults::before(Arc::new(bench.store.connect()));
    let crashes = connect(&bench.hand, Arc::new(faults.clone()));
    let crashing = waits(&crashes.lock("a").ttl(secs(1))).await;
    let lock = bench.client.lock("a");
    let behind = {
        let front = lock.acquire();
        tokio::pin!(front);
        stands_in_line(front.as_mut()).await;
        let behind = waits(&lock).await;
        faults.cut_renewals(true);
        faults.on_release(&[Fault::Hang; 9]);
        // The front learns that its turn comes in one second, not in fifteen, and leaves.
        holder.release().await.unwrap();
        others_run().await;
        behind
    };
    drop(crashing);
    bench.pass(ms(1500)).await;
    got(behind).await.release().await.unwrap();
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn each_is_told_its_own_half_of_an_exchange_that_is_refused() {
    for dropped in [false, true] {
        let bench = Bench::new();
        let lock = bench.client.lock("a");
        let first = lock.acquire().await.unwrap();
        let (second, third) = (waits(&lock).await, waits(&lock).await);
        bench.faults.on_release(&[Fault::Refuse(ErrorKind::Refused)]);
        match dropped {
            true => drop(first),
            false => first.release().await.unwrap(),
        }
        others_run().await;
        assert_eq!(second.await.unwrap().unwrap_err().kind(), ErrorKind::Refused);
        got(third).await.release().await.unwrap();
        bench.nothing_is_left().await;
    }
}

#[tokio::test]
async fn a_refused_exchange_that_was_sent_before_leaves_a_suspect_attempt() {
    for dropped in [false, true] {
        let bench = Bench::new();
        let lock = bench.client.lock("a");
        let first = lock.acquire().await.unwrap();
        let second = waits(&lock).await;
        bench.faults.on_release(&[Fault::LoseRequest, Fault::Refuse(ErrorKind::Refused)]);
        match dropped {
            true => drop(first),
            false => drop(first.release().await.unwrap_err()),
        }
        bench.pass(secs(1)).await;
        assert_eq!(second.await.unwrap().unwrap_err().kind(), ErrorKind::Refused);
        bench.nothing_is_left().await;
        assert_eq!(bench.faults.suspects(), 1, "the first request may still arrive");
    }
}

#[tokio::test]
async fn what_an_exchange_does_before_it_is_refused_is_told_all_the_same() {
    let bench = Bench::new();
    let lock = bench.client.lock("a").ttl(secs(3));
    let first = lock.acquire().await.unwrap();
    let second = waits(&lock).await;
    bench.faults.on_release(&[Fault::Fail(ErrorKind::Refused)]);
    first.release().await.unwrap();
    others_run().await;
    assert_eq!(second.await.unwrap().unwrap_err().kind(), ErrorKind::Refused);
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn whoever_is_behind_one_that_was_refused_asks_at_once() {
    let bench = Bench::new();
    let lock = bench.client.lock("a");
    let first = lock.acquire().await.unwrap();
    let (second, third) = (waits(&lock).await, waits(&lock).await);
    bench.faults.on_release(&[Fault::Refuse(ErrorKind::Refused); 2]);
    assert_eq!(first.release().await.unwrap_err().kind(), ErrorKind::Refused);
    others_run().await;
    assert_eq!(second.await.unwrap().unwrap_err().kind(), ErrorKind::Refused);
    assert_eq!(lock.status().await.unwrap().waiters.unwrap().len(), 1);
    bench.pass(secs(31)).await; // The lease that could not be released.
    got(third).await.release().await.unwrap();
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn a_late_ask_of_one_whose_attempt_was_inherited_gets_nothing() {
    let bench = Bench::new();
    let holder = bench.other_client().lock("a").acquire().await.unwrap();
    let lock = bench.client.lock("a");
    bench.faults.on_acquire(&[Fault::Delay]);
    let (front, behind) = (waits(&lock).await, waits(&lock).await);
    front.abort();
    others_run().await;
    holder.release().await.unwrap();
    got(behind).await.release().await.unwrap();
    bench.nothing_is_left().await;
    assert_eq!(bench.faults.deliver().await.unwrap(), [Answer::Ended]);
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn the_next_waiter_repeats_a_request_that_was_in_flight() {
    let bench = Bench::new();
    let holder = bench.other_client().lock("a").acquire().await.unwrap();
    let lock = bench.client.lock("a");
    let (front, behind) = (waits(&lock).await, waits(&lock).await);
    bench.faults.cut_pushes(true);
    holder.release().await.unwrap();
    bench.faults.on_acquire(&[Fault::Hang]);
    bench.faults.say(Event::Freed { name: Name::new("a").unwrap() });
    others_run().await;
    front.abort();
    got(behind).await.release().await.unwrap();
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn a_message_that_arrives_with_the_answer_to_an_exchange_is_not_lost() {
    let bench = Bench::new();
    let lock = bench.client.lock("a");
    let first = lock.acquire().await.unwrap();
    let second = waits(&lock.clone().lease(secs(2))).await;
    let outside = waits(&bench.other_client().lock("a")).await;
    bench.faults.on_release(&[Fault::Late]);
    let releasing = tokio::spawn(first.release());
    others_run().await;
    let calls = bench.faults.calls();
    // The waiter runs after both have arrived.
    bench.faults.say(Event::Freed { name: Name::new("a").unwrap() });
    bench.faults.arrive();
    others_run().await;
    releasing.await.unwrap().unwrap();
    assert_eq!(bench.faults.calls(), calls + 1, "the waiter asks, as the message says");
    got(outside).await.release().await.unwrap();
    got(second).await.release().await.unwrap();
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn the_validity_of_what_an_exchange_grants_counts_from_before_it_was_sent() {
    let bench = Bench::new();
    let lock = bench.client.lock("a").ttl(secs(30));
    let first = lock.acquire().await.unwrap();
    let second = waits(&lock).await;
    bench.faults.on_release(&[Fault::Late]);
    let releasing = tokio::spawn(first.release());
    others_run().await;
    bench.hand.advance(secs(8));
    bench.faults.arrive();
    let second = got(second).await;
    assert!(second.remaining() <= secs(22), "{:?}", second.remaining());
    releasing.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_lost_lease_is_not_passed_on_though_nobody_has_noticed() {
    let bench = Bench::new();
    let lock = bench.client.lock("a").ttl(secs(3));
    let third = lock.acquire();
    tokio::pin!(third);
    let second = second_before(&lock, third.as_mut()).await;
    bench.hand.advance(secs(4));
    drop(second);
    // It is polled before the task that would report the loss.
    let third = stands_no_more(third).await;
    assert!(third.is_valid());
    third.release().await.unwrap();
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn a_push_for_one_who_has_just_left_is_not_taken_by_the_next() {
    let bench = Bench::new();
    let holder = bench.other_client().lock("a").acquire().await.unwrap();
    let lock = bench.client.lock("a").metadata("odd");
    let behind = {
        let front = lock.acquire();
        tokio::pin!(front);
        stands_in_line(front.as_mut()).await;
        let behind = waits(&bench.client.lock("a")).await;
        holder.release().await.unwrap();
        behind
    };
    let behind = got(behind).await;
    assert_eq!(lock.status().await.unwrap().token, Some(behind.token()));
    behind.release().await.unwrap();
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn after_a_gap_in_what_is_heard_who_asks_asks_again_and_who_holds_takes_care() {
    let bench = Bench::new();
    let (lock, other) = (bench.client.lock("a"), bench.other_client().lock("a"));
    let holder = other.acquire().await.unwrap();
    let (first, second, third) = (waits(&lock).await, waits(&lock).await, waits(&lock).await);
    bench.faults.cut_pushes(true);
    holder.release().await.unwrap();
    bench.faults.say(Event::Reset);
    got(first).await.release().await.unwrap();
    let second = got(second).await;
    let outside = waits(&other).await;
    bench.faults.say(Event::Reset);
    others_run().await;
    bench.hand.advance(ms(20));
    second.release().await.unwrap();
    got(outside).await.release().await.unwrap();
    bench.faults.say(Event::Reset);
    got(third).await.release().await.unwrap();
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn a_grant_that_nobody_here_asked_for_is_given_back() {
    let bench = Bench::new();
    let guard = bench.other_client().lock("a").acquire().await.unwrap();
    let calls = bench.faults.calls();
    let tokens = TokenBlock::single(guard.token());
    let grant = Grant::new(tokens, Term::Ttl, false);
    let (name, attempt) = (guard.name().clone(), guard.attempt());
    bench.faults.say(Event::Granted { name, attempt, grant });
    others_run().await;
    assert_eq!(bench.faults.calls(), calls + 1);
}

#[tokio::test]
async fn trying_asks_when_the_lease_that_this_process_had_is_over() {
    let bench = Bench::new();
    let lock = bench.client.lock("a").ttl(secs(3));
    let _held = lock.acquire().await.unwrap();
    bench.hand.advance(secs(4)); // No task has noticed.
    lock.try_acquire().await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_lease_lost_on_its_way_is_given_back_before_it_ends() {
    let bench = Bench::new();
    let lock = bench.client.lock("a").ttl(secs(3));
    let third = lock.acquire();
    tokio::pin!(third);
    second_before(&lock, third.as_mut()).await.release().await.unwrap();
    // Its loss was reported, but for the engine it lasts a little longer.
    bench.pass(ms(2800)).await;
    stands_no_more(third).await.release().await.unwrap();
    bench.nothing_is_left().await;
}

/// Repeats a request after the end of its attempt: the engine grants it a lease.
async fn repeat_an_ask(bench: &Bench, attempt: AttemptId) {
    let request = AcquireRequest::new(Name::new("a").unwrap(), attempt, secs(30))
        .with_origin(Origin::new("host", 1, None));
    let answer = bench.faults.acquire(request).await.unwrap();
    assert!(matches!(answer, Answer::Granted(_)), "{answer:?}");
}

#[tokio::test]
async fn a_lease_that_nobody_has_is_ended_when_somebody_wants_it() {
    let bench = Bench::new();
    let guard = bench.client.lock("a").acquire().await.unwrap();
    let attempt = guard.attempt();
    guard.release().await.unwrap();
    repeat_an_ask(&bench, attempt).await;
    let outside = waits(&bench.other_client().lock("a")).await;
    bench.pass(ms(1100)).await;
    got(outside).await.release().await.unwrap();
    assert_eq!(bench.faults.suspects(), 1, "in case it is repeated once more");
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn a_lease_that_somebody_has_is_not_ended_because_others_want_it() {
    let bench = Bench::new();
    let other = bench.other_client().lock("a");
    // It bypasses the queue, and no answer has arrived.
    let hung = bench.client.lock("a");
    bench.faults.on_acquire(&[Fault::LoseReply, Fault::Late]);
    let trying = tokio::spawn(async move { hung.try_acquire().await });
    others_run().await;
    let outside = waits(&other).await;
    bench.pass(ms(1_800)).await; // Longer than a stray is tolerated, shorter than one try.
    bench.faults.arrive();
    others_run().await;
    let held = trying.await.unwrap().unwrap().expect("it was granted");
    assert!(held.is_valid() && !outside.is_finished());
    drop(held);
    got(outside).await.release().await.unwrap();
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn a_lost_lease_is_not_ended_early_because_others_want_it() {
    let bench = Bench::new();
    let held = bench.client.lock("a").ttl(secs(30)).acquire().await.unwrap();
    bench.faults.cut_renewals(true);
    let told = held.cancellation_token();
    while !told.is_cancelled() {
        bench.pass(ms(100)).await;
    }
    // A program that cleans up may rely on the rest of it.
    let outside = waits(&bench.other_client().lock("a")).await;
    bench.pass(ms(1200)).await;
    assert!(held.remaining() > ms(500), "{:?}", held.remaining());
    assert!(!outside.is_finished(), "ended while a program relied on it");
    drop(held);
    got(outside).await.release().await.unwrap();
    bench.nothing_is_left().await;
}

/// Guards detect their loss at the same moment as the background task, many times: neither may wait
/// for the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn losses_that_are_seen_from_two_sides_at_once_block_nobody() {
    let client = Client::new(Arc::new(MemoryStore::new().connect())).unwrap();
    for round in 0..40 {
        let mut waiting = tokio::task::JoinSet::new();
        for number in 0..50 {
            let lock = client.lock(format!("{round}/{number}")).lease(Duration::from_millis(60));
            let guard = lock.acquire().await.unwrap();
            waiting.spawn(async move { guard.lost().await });
        }
        while let Some(reason) = waiting.join_next().await {
            reason.unwrap();
        }
    }
}

#[tokio::test]
async fn a_cancellation_token_fires_under_notify_too() {
    let bench = Bench::new();
    let lock = bench.client.lock("a").ttl(secs(30)).max_hold(secs(1)).on_loss(OnLoss::Notify);
    let guard = lock.acquire().await.unwrap();
    let told = guard.cancellation_token();
    others_run().await;
    assert!(!told.is_cancelled());
    bench.pass(ms(1_100)).await;
    assert!(told.is_cancelled());
}
