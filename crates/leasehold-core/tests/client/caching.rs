//! Cached leases: a task takes one without a call, and no other client waits for one that no task holds.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use leasehold_core::backend::Event;
use leasehold_core::{ClientSettings, State, Usage};

use super::bench::{got, waits};
use super::*;

async fn state(bench: &Bench) -> State {
    bench.client.lock("a").status().await.unwrap().state
}

#[tokio::test]
async fn the_next_task_takes_a_cached_lease_with_a_larger_token_and_no_call() {
    let bench = Bench::new();
    let lock = bench.client.lock("a").cache(secs(1));
    let mut last = lock.acquire().await.unwrap();
    for round in 0..100 {
        let token = last.token();
        if round % 2 == 0 {
            last.release().await.unwrap();
        } else {
            drop(last);
        }
        let usage = bench.client.usage();
        assert_eq!((usage.held, usage.cached), (0, 1));
        last = match round % 3 {
            0 => lock.try_acquire().await.unwrap().unwrap(),
            _ => lock.acquire().await.unwrap(),
        };
        assert!(last.is_valid() && last.token() > token);
        assert_eq!(bench.client.usage().held, 1);
    }
    assert_eq!(bench.faults.calls(), 1);
    last.release().await.unwrap();
    assert_eq!(state(&bench).await, State::Held, "to the store");
    bench.client.close().await;
    bench.nothing_is_left().await;
    assert_eq!(bench.faults.calls(), 2);
}

#[tokio::test]
async fn a_lease_is_not_cached_unless_that_is_asked_for() {
    let bench = Bench::new();
    bench.client.lock("a").acquire().await.unwrap().release().await.unwrap();
    bench.nothing_is_left().await;
    let settings = ClientSettings::new().clock(bench.hand.clock()).cache(secs(1));
    let caching = Client::with_settings(Arc::new(bench.store.connect()), settings).unwrap();
    caching.lock("a").cache(Duration::ZERO).acquire().await.unwrap().release().await.unwrap();
    assert_eq!(caching.usage().cached, 0);
    caching.lock("a").acquire().await.unwrap().release().await.unwrap();
    assert_eq!(caching.usage().cached, 1);
    // A client that is dropped gives its leases back.
    drop(caching);
    others_run().await;
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn another_client_gets_a_cached_lease_at_once() {
    let bench = Bench::new();
    let lock = bench.client.lock("a").cache(secs(20));
    let first = lock.acquire().await.unwrap();
    let token = first.token();
    first.release().await.unwrap();
    let other = bench.other_client().lock("a");
    assert!(other.try_acquire().await.unwrap().is_none());
    let waiting = tokio::spawn(async move { other.acquire().await });
    let outside = got(waiting).await;
    assert!(outside.token() > token);
    let ours = waits(&lock).await;
    outside.release().await.unwrap();
    let ours = got(ours).await;
    ours.release().await.unwrap();
    bench.client.close().await;
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn a_lease_that_others_wait_for_is_not_cached() {
    let bench = Bench::new();
    let lock = bench.client.lock("a").cache(secs(20));
    let first = lock.acquire().await.unwrap();
    let outside = waits(&bench.other_client().lock("a")).await;
    first.release().await.unwrap();
    assert_eq!(bench.client.usage().cached, 0);
    let outside = got(outside).await;
    let (ours, again) = (waits(&lock).await, waits(&bench.other_client().lock("a")).await);
    outside.release().await.unwrap();
    // The push of this grant says that another client waits.
    got(ours).await.release().await.unwrap();
    assert_eq!(bench.client.usage().cached, 0);
    got(again).await.release().await.unwrap();
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn an_unused_lease_is_given_back_after_its_time_and_not_renewed() {
    let bench = Bench::new();
    let lock = bench.client.lock("a").ttl(secs(30)).cache(secs(2));
    lock.acquire().await.unwrap().release().await.unwrap();
    bench.pass(ms(1_900)).await;
    assert_eq!(bench.client.usage().cached, 1);
    // Each use begins the time anew.
    lock.acquire().await.unwrap().release().await.unwrap();
    bench.pass(ms(1_900)).await;
    assert_eq!(bench.client.usage().cached, 1);
    assert_eq!(bench.faults.calls(), 1);
    bench.pass(ms(200)).await;
    bench.nothing_is_left().await;
    assert_eq!(bench.faults.calls(), 2);
}

#[tokio::test]
async fn a_lease_is_cached_only_while_a_task_would_have_enough_of_it() {
    let bench = Bench::new();
    let lock = bench.client.lock("a").ttl(secs(30)).cache(secs(60));
    lock.acquire().await.unwrap().release().await.unwrap();
    bench.pass(secs(12)).await;
    assert_eq!(bench.faults.calls(), 1, "renewed though no task holds it");
    let guard = lock.acquire().await.unwrap();
    bench.pass(ms(200)).await;
    assert!(guard.remaining() > secs(29), "a task holds it, so it is renewed: {guard:?}");
    guard.release().await.unwrap();
    bench.pass(secs(19)).await;
    assert_eq!(bench.client.usage().cached, 1);
    bench.pass(secs(1)).await;
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn after_a_pause_past_the_ttl_the_next_task_asks_the_engine() {
    let bench = Bench::new();
    let lock = bench.client.lock("a").ttl(secs(30)).cache(secs(20));
    let first = lock.acquire().await.unwrap();
    let token = first.token();
    first.release().await.unwrap();
    // No task of this client runs meanwhile.
    bench.hand.advance(secs(35));
    let outside = bench.other_client().lock("a").try_acquire().await.unwrap().unwrap();
    assert!(outside.token() > token);
    assert!(lock.try_acquire().await.unwrap().is_none());
    let ours = waits(&lock).await;
    assert!(outside.is_valid());
    let token = outside.token();
    outside.release().await.unwrap();
    assert!(got(ours).await.token() > token);
    bench.client.close().await;
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn a_lost_push_costs_at_most_the_rest_of_the_ttl() {
    for times in [0, 1, 3] {
        let bench = Bench::new();
        let lock = bench.client.lock("a").ttl(secs(30)).cache(secs(3600));
        for _ in 0..=times {
            lock.acquire().await.unwrap().release().await.unwrap();
        }
        bench.faults.cut_pushes(true);
        let outside = waits(&bench.other_client().lock("a")).await;
        bench.pass(secs(30)).await;
        got(outside).await.release().await.unwrap();
        bench.nothing_is_left().await;
    }
}

#[tokio::test]
async fn the_first_waiter_repeats_a_lost_push() {
    let bench = Bench::new();
    let lock = bench.client.lock("a").ttl(secs(300)).cache(secs(3600));
    lock.acquire().await.unwrap().release().await.unwrap();
    bench.faults.cut_pushes(true);
    let outside = waits(&bench.other_client().lock("a")).await;
    bench.faults.cut_pushes(false);
    // The waiter's slow poll.
    bench.pass(ms(15_100)).await;
    got(outside).await.release().await.unwrap();
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn the_renewal_of_a_lease_that_tasks_use_in_turn_tells_of_a_waiter() {
    let bench = Bench::new();
    let lock = bench.client.lock("a").ttl(secs(30)).cache(secs(3600));
    let first = lock.acquire().await.unwrap();
    bench.faults.cut_pushes(true);
    let outside = waits(&bench.other_client().lock("a")).await;
    first.release().await.unwrap();
    assert_eq!(bench.client.usage().cached, 1, "nothing was heard of the waiter");
    let mut passed = 0;
    while !outside.is_finished() {
        let guard = lock.acquire().await.unwrap();
        bench.pass(ms(500)).await;
        guard.release().await.unwrap();
        others_run().await;
        passed += 1;
        assert!(passed <= 21, "a third of the ttl, and its renewal");
    }
    bench.faults.cut_pushes(false);
    got(outside).await.release().await.unwrap();
    bench.client.close().await;
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn nothing_stays_cached_when_the_connection_breaks() {
    let bench = Bench::new();
    let lock = bench.client.lock("a").cache(secs(20));
    lock.acquire().await.unwrap().release().await.unwrap();
    bench.faults.say(Event::Broken);
    others_run().await;
    bench.nothing_is_left().await;
    lock.acquire().await.unwrap().release().await.unwrap();
    bench.nothing_is_left().await;
    let over = lock.acquire().await.unwrap();
    bench.faults.say(Event::Reset);
    others_run().await;
    over.release().await.unwrap();
    // The store may have lost its data while this lease was held.
    bench.nothing_is_left().await;
    lock.acquire().await.unwrap().release().await.unwrap();
    assert_eq!(bench.client.usage().cached, 1);
    bench.faults.say(Event::Reset);
    others_run().await;
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn a_forced_release_ends_a_cached_lease() {
    let bench = Bench::new();
    let lock = bench.client.lock("a").cache(secs(20));
    let first = lock.acquire().await.unwrap();
    let token = first.token();
    first.release().await.unwrap();
    bench.other_client().lock("a").force_release(token).await.unwrap();
    others_run().await;
    bench.nothing_is_left().await;
    let outside = bench.other_client().lock("a").try_acquire().await.unwrap().unwrap();
    assert!(outside.token() > token);
    assert!(lock.try_acquire().await.unwrap().is_none());
    outside.release().await.unwrap();
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn a_task_that_cannot_use_the_cached_lease_gives_it_back_first() {
    let bench = Bench::new();
    let lock = bench.client.lock("a").ttl(secs(30)).cache(secs(20));
    let first = lock.acquire().await.unwrap();
    let mut token = first.token();
    first.release().await.unwrap();
    for other in [lock.clone().ttl(secs(60)), lock.clone().ttl(secs(30)).renew_after(secs(5))] {
        let guard = other.try_acquire().await.unwrap().expect("nobody else holds it");
        assert!(guard.token() > token);
        token = guard.token();
        guard.release().await.unwrap();
        lock.acquire().await.unwrap().release().await.unwrap();
    }
    let fixed = bench.client.lock("a").lease(secs(5)).acquire().await.unwrap();
    assert!(fixed.token() > token && fixed.remaining() <= secs(5));
    fixed.release().await.unwrap();
    assert_eq!(bench.client.usage().cached, 0);
    lock.acquire().await.unwrap().release().await.unwrap();
    let reader = bench.client.rw_lock("a").try_read().await.unwrap().expect("nobody writes");
    assert!(reader.token() > token);
    assert_eq!(bench.client.usage().cached, 0);
    reader.release().await.unwrap();
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn a_task_that_leaves_while_it_gives_a_lease_back_leaves_nothing() {
    for fault in [Fault::Hang, Fault::LoseRequest, Fault::LoseReply, Fault::Late] {
        let bench = Bench::new();
        let lock = bench.client.lock("a").ttl(secs(3)).cache(secs(1));
        lock.acquire().await.unwrap().release().await.unwrap();
        bench.faults.on_release(&[fault]);
        let longer = lock.clone().ttl(secs(60));
        let acquiring = tokio::spawn(async move { longer.acquire().await });
        others_run().await;
        acquiring.abort();
        drop(acquiring);
        bench.faults.arrive();
        // The ttl of the lease that was cached, and the time of a cached one.
        bench.pass(secs(5)).await;
        let free = bench.other_client().lock("a").try_acquire().await.unwrap();
        free.unwrap_or_else(|| panic!("{fault:?}")).release().await.unwrap();
        // The patience with a release that is never answered.
        bench.pass(secs(11)).await;
        bench.nothing_is_left().await;
    }
}

#[tokio::test]
async fn a_minimum_hold_comes_before_caching() {
    let bench = Bench::new();
    let lock = bench.client.lock("a").min_hold(secs(5)).cache(secs(20));
    lock.acquire().await.unwrap().release().await.unwrap();
    assert_eq!((bench.client.usage().cached, state(&bench).await), (0, State::Kept));
    bench.pass(secs(6)).await;
    let guard = lock.acquire().await.unwrap();
    bench.pass(secs(6)).await;
    guard.release().await.unwrap();
    assert_eq!(bench.client.usage().cached, 1);
}

#[tokio::test]
async fn the_lease_that_was_used_least_recently_goes_first() {
    let bench = Bench::new();
    let lock = |number: u32| bench.client.lock(format!("many/{number}")).cache(secs(600));
    for number in 0..10_000 {
        lock(number).acquire().await.unwrap().release().await.unwrap();
    }
    assert_eq!(bench.client.usage().cached, 10_000);
    lock(0).acquire().await.unwrap().release().await.unwrap();
    lock(10_000).acquire().await.unwrap().release().await.unwrap();
    assert_eq!(bench.client.usage().cached, 10_000);
    bench.client.settle().await;
    for (number, expected) in [(0, State::Held), (1, State::Free), (2, State::Held)] {
        let status = lock(number).status().await.unwrap();
        assert_eq!(status.state, expected, "{number}");
    }
    bench.client.close().await;
    assert_eq!(bench.client.usage(), Usage::default());
    assert_eq!(lock(2).status().await.unwrap().state, State::Free);
}

#[tokio::test]
async fn wrong_combinations_are_refused_before_anything_is_sent() {
    let bench = Bench::new();
    let lock = bench.client.lock("a");
    for (lock, part) in [
        (lock.clone().cache(secs(1)).lease(secs(5)), "cache: 1s is set"),
        (lock.clone().cache(Duration::from_micros(999)), "cache: 999µs"),
        (lock.clone().cache(secs(86_401)), "cache: 86401s"),
    ] {
        let error = lock.acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.message().starts_with(part), "{error}");
    }
    assert_eq!(bench.faults.calls(), 0);
}

/// Two clients that cache, and a third that does not, take one lock in turn.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn releases_that_race_with_takes_and_pushes_never_make_two_holders() {
    let store = MemoryStore::new();
    let (inside, last) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut running = Vec::new();
    let clients = [ms(0), ms(1), ms(1000)].map(|cache| {
        let settings = ClientSettings::new().cache(cache);
        Client::with_settings(Arc::new(store.connect()), settings).unwrap()
    });
    for client in &clients {
        for task in 0..3 {
            let (lock, inside, last) = (client.lock("a"), inside.clone(), last.clone());
            running.push(tokio::spawn(async move {
                for round in 0..300_u32 {
                    let guard = lock.acquire().await.unwrap();
                    assert!(!inside.swap(true, Ordering::SeqCst), "two holders");
                    let token = guard.token().get();
                    assert!(last.swap(token, Ordering::SeqCst) < token, "tokens grow");
                    if (round + task) % 5 == 0 {
                        tokio::task::yield_now().await;
                    }
                    inside.store(false, Ordering::SeqCst);
                    match round % 2 {
                        0 => drop(guard),
                        _ => guard.release().await.unwrap(),
                    }
                    if (round + task) % 7 == 0 {
                        tokio::time::sleep(ms(1)).await;
                    }
                }
            }));
        }
    }
    for task in running {
        task.await.unwrap();
    }
    for client in &clients {
        client.close().await;
        assert_eq!(client.usage(), Usage::default());
    }
    let status = store_client(&store).lock("a").status().await.unwrap();
    assert_eq!(status.state, State::Free);
}

fn store_client(store: &MemoryStore) -> Client {
    Client::new(Arc::new(store.connect())).unwrap()
}
