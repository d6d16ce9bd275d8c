//! An engine that does not answer: every waiter gets an error after its own patience of 10 s.

#![allow(clippy::unwrap_used)]

use leasehold_core::backend::Event;
use leasehold_core::{Error, Guard, Lock};

use super::bench::{Waiting, got, waits};
use super::*;

#[track_caller]
fn is_unavailable(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

async fn hears_unavailable(waiting: Waiting) {
    assert!(waiting.is_finished(), "it waits for the timeout of other tasks");
    is_unavailable(&waiting.await.unwrap().unwrap_err());
}

#[tokio::test]
async fn nobody_in_line_waits_for_the_patience_of_those_before_it() {
    for fault in [Fault::LoseRequest, Fault::Hang] {
        let bench = Bench::new();
        bench.faults.on_acquire(&[fault; 1000]);
        bench.faults.on_release(&[Fault::LoseRequest; 1000]);
        let lock = bench.client.lock("a").ttl(secs(3));
        let mut early = Vec::new();
        for _ in 0..5 {
            early.push(waits(&lock).await);
        }
        let impatient = lock.clone();
        let impatient = tokio::spawn(async move { impatient.acquire_within(secs(2)).await });
        bench.pass(secs(4)).await;
        assert_eq!(impatient.await.unwrap().unwrap_err().kind(), ErrorKind::Timeout);
        let late = waits(&lock).await;
        bench.pass(ms(5800)).await;
        assert!(early.iter().all(|waiting| !waiting.is_finished()), "{fault:?}: too early");
        bench.pass(ms(400)).await;
        for waiting in early {
            hears_unavailable(waiting).await;
        }
        assert!(!late.is_finished(), "{fault:?}: it has its own timeout");
        // The last request may take a second longer than the rest of the timeout.
        bench.pass(secs(5)).await;
        hears_unavailable(late).await;
    }
}

#[tokio::test]
async fn what_was_heard_ends_the_silence_for_all_in_line() {
    let bench = Bench::new();
    let holder = bench.other_client().lock("a").acquire().await.unwrap();
    bench.faults.on_acquire(&[Fault::LoseRequest; 8]);
    let lock = bench.client.lock("a");
    let (front, behind) = (waits(&lock).await, waits(&lock).await);
    bench.pass(secs(9)).await; // By now it is in the engine's queue.
    assert_eq!(lock.status().await.unwrap().waiters.unwrap().len(), 1);
    front.abort();
    bench.pass(secs(20)).await;
    assert!(!behind.is_finished());
    holder.release().await.unwrap();
    got(behind).await.release().await.unwrap();
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn an_exchange_that_is_not_answered_counts() {
    let bench = Bench::new();
    let lock = bench.client.lock("a").ttl(secs(60));
    let first = lock.acquire().await.unwrap();
    let waiting = [waits(&lock).await, waits(&lock).await];
    bench.faults.on_acquire(&[Fault::LoseRequest; 1000]);
    bench.faults.on_release(&[Fault::Hang]);
    bench.faults.on_release(&[Fault::LoseRequest; 1000]);
    let releasing = tokio::spawn(first.release());
    bench.pass(ms(9800)).await;
    assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
    bench.pass(ms(400)).await;
    is_unavailable(&releasing.await.unwrap().unwrap_err());
    for waiting in waiting {
        hears_unavailable(waiting).await;
    }
}

#[tokio::test]
async fn whoever_hears_nothing_of_an_exchange_asks_while_it_has_patience() {
    let bench = Bench::new();
    let lock = bench.client.lock("a");
    let first = lock.acquire().await.unwrap();
    let next = waits(&lock).await;
    bench.faults.on_release(&[Fault::Hang]);
    let releasing = tokio::spawn(first.release());
    bench.pass(secs(11)).await;
    is_unavailable(&releasing.await.unwrap().unwrap_err());
    bench.pass(secs(1)).await;
    got(next).await.release().await.unwrap();
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn a_broken_connection_counts_from_when_it_broke() {
    let bench = Bench::new();
    let holder = bench.other_client().lock("a").acquire().await.unwrap();
    let lock = bench.client.lock("a");
    let waiting = [waits(&lock).await, waits(&lock).await];
    bench.faults.say(Event::Broken);
    bench.pass(secs(1)).await;
    bench.faults.say(Event::Reset); // It was re-established in time.
    bench.pass(secs(40)).await;
    assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
    bench.faults.on_acquire(&[Fault::LoseRequest; 1000]);
    bench.faults.say(Event::Broken);
    bench.pass(ms(9800)).await;
    assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
    bench.pass(ms(400)).await;
    for waiting in waiting {
        hears_unavailable(waiting).await;
    }
    holder.release().await.unwrap();
}

#[tokio::test]
async fn those_who_have_little_time_do_not_use_up_the_patience_of_others() {
    let bench = Bench::new();
    let lock = bench.client.lock("a");
    bench.faults.on_acquire(&[Fault::Hang; 40]);
    let hasty = |number: u32, lock: Lock| {
        tokio::spawn(async move { lock.acquire_within(ms(300) * number).await.map(drop) })
    };
    let hasty: Vec<_> = (1..=40).map(|number| hasty(number, lock.clone())).collect();
    others_run().await;
    let patient = waits(&lock).await;
    bench.pass(secs(13)).await;
    for hasty in hasty {
        assert_eq!(hasty.await.unwrap().unwrap_err().kind(), ErrorKind::Timeout);
    }
    got(patient).await.release().await.unwrap();
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn try_acquire_has_a_shorter_patience_of_its_own() {
    for fault in [Fault::LoseRequest, Fault::Hang] {
        let bench = Bench::new();
        bench.faults.on_acquire(&[fault; 1000]);
        bench.faults.on_release(&[Fault::LoseRequest; 1000]);
        let lock = bench.client.lock("a");
        let trying = tokio::spawn(async move { lock.try_acquire().await });
        bench.pass(ms(1900)).await;
        assert!(!trying.is_finished(), "{fault:?}: it asks again for 2 s");
        bench.pass(ms(300)).await;
        assert!(trying.is_finished(), "{fault:?}: it uses the timeout of waiting tasks");
        is_unavailable(&trying.await.unwrap().unwrap_err());
    }
}

/// Returns a client whose lease was lost because the backend is silent, and its guard.
async fn lost_in_silence(fault: Fault) -> (Bench, Guard) {
    let bench = Bench::new();
    let guard = bench.client.lock("a").ttl(secs(3)).acquire().await.unwrap();
    bench.faults.cut_renewals(true);
    bench.faults.on_release(&[fault; 1000]);
    bench.pass(secs(4)).await;
    guard.lost().await;
    (bench, guard)
}

#[tokio::test]
async fn a_release_after_a_known_loss_says_lost_and_waits_for_no_answer() {
    for fault in [Fault::LoseRequest, Fault::Hang] {
        let (_bench, guard) = lost_in_silence(fault).await;
        let releasing = tokio::spawn(guard.release());
        others_run().await; // The clock does not advance.
        assert!(releasing.is_finished(), "{fault:?}: it waits for an answer that has no effect");
        let error = releasing.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Lost, "{fault:?}: {error}");
    }
}

#[tokio::test]
async fn close_waits_for_no_lease_that_is_known_to_be_lost() {
    for fault in [Fault::LoseRequest, Fault::Hang] {
        let (bench, guard) = lost_in_silence(fault).await;
        drop(guard);
        let client = bench.client.clone();
        let closing = tokio::spawn(async move { client.close().await });
        others_run().await;
        assert!(closing.is_finished(), "{fault:?}: it waits for an answer that has no effect");
    }
}

#[tokio::test]
async fn close_waits_for_a_lease_whose_maximum_hold_is_over() {
    let bench = Bench::new();
    let guard = bench.client.lock("a").ttl(secs(30)).max_hold(secs(3)).acquire().await.unwrap();
    bench.faults.on_release(&[Fault::Hang]);
    bench.pass(ms(2_900)).await;
    guard.lost().await;
    drop(guard);
    let client = bench.client.clone();
    let closing = tokio::spawn(async move { client.close().await });
    others_run().await;
    assert!(!closing.is_finished(), "the engine still has the lease");
    bench.pass(secs(11)).await;
    assert!(closing.is_finished());
    bench.nothing_is_left().await;
}
