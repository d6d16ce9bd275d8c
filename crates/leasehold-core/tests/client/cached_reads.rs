//! Cached read leases: a task joins one without a call, and no writer waits for one that no task reads under.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use leasehold_core::backend::Event;
use leasehold_core::{ClientSettings, ReadGuard, RwLock, State, Upgraded, Usage, WriteGuard};
use tokio::task::JoinHandle;

use super::*;

fn caching(bench: &Bench) -> RwLock {
    bench.client.rw_lock("a").cache(secs(20))
}

/// Reads and releases, and returns the token.
async fn read(lock: &RwLock) -> u64 {
    let guard = lock.read().await.unwrap();
    let token = guard.token().get();
    guard.release().await.unwrap();
    token
}

/// Lets another client wait to write.
fn writes(bench: &Bench) -> JoinHandle<WriteGuard> {
    let lock = bench.other_client().rw_lock("a");
    tokio::spawn(async move { lock.write().await.unwrap() })
}

async fn written(writing: JoinHandle<WriteGuard>) -> u64 {
    others_run().await;
    assert!(writing.is_finished(), "its turn has come");
    let guard = writing.await.unwrap();
    let token = guard.token().get();
    guard.release().await.unwrap();
    token
}

#[tokio::test]
async fn the_next_reader_joins_a_cached_read_lease_with_its_token_and_no_call() {
    let bench = Bench::new();
    let lock = caching(&bench);
    let token = read(&lock).await;
    for round in 0..100 {
        let usage = bench.client.usage();
        assert_eq!((usage.held, usage.cached), (0, 1));
        let one = match round % 2 {
            0 => lock.read().await.unwrap(),
            _ => lock.try_read().await.unwrap().unwrap(),
        };
        let two = lock.read().await.unwrap();
        assert!(one.is_valid() && [one.token().get(), two.token().get()] == [token; 2]);
        assert_eq!((bench.client.usage().held, bench.client.usage().cached), (1, 0));
        drop(one);
        assert_eq!(bench.client.usage().cached, 0, "another task reads");
        two.release().await.unwrap();
    }
    assert_eq!(bench.faults.calls(), 1);
    assert_eq!(lock.status().await.unwrap().state, State::Shared, "to the store");
    // A client outside reads beside it.
    let outside = bench.other_client().rw_lock("a").try_read().await.unwrap().unwrap();
    assert_eq!(outside.token().get(), token);
    outside.release().await.unwrap();
    bench.client.close().await;
    bench.nothing_is_left().await;
    assert_eq!(bench.faults.calls(), 2);
}

#[tokio::test]
async fn a_read_lease_is_not_cached_unless_that_is_asked_for() {
    let bench = Bench::new();
    read(&bench.client.rw_lock("a")).await;
    bench.nothing_is_left().await;
    let settings = ClientSettings::new().clock(bench.hand.clock()).cache(secs(1));
    let caching = Client::with_settings(Arc::new(bench.store.connect()), settings).unwrap();
    read(&caching.rw_lock("a").cache(Duration::ZERO)).await;
    assert_eq!(caching.usage(), Usage::default());
    read(&caching.rw_lock("a")).await;
    assert_eq!(caching.usage().cached, 1);
    // A client that is dropped gives its leases back.
    drop(caching);
    others_run().await;
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn a_writer_of_another_client_gets_a_cached_read_lease_at_once() {
    let bench = Bench::new();
    let lock = caching(&bench);
    let mut last = 0;
    for _ in 0..3 {
        let token = read(&lock).await;
        assert!(token > last);
        assert_eq!(bench.client.usage().cached, 1);
        assert!(bench.other_client().rw_lock("a").try_write().await.unwrap().is_none());
        last = written(writes(&bench)).await;
        assert!(last > token);
    }
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn a_read_lease_that_a_writer_waits_for_is_not_cached() {
    let bench = Bench::new();
    let lock = caching(&bench);
    let first = lock.read().await.unwrap();
    let outside = writes(&bench);
    others_run().await;
    drop(first);
    assert_eq!(bench.client.usage().cached, 0);
    written(outside).await;
    // The holder of a lease that was cached before learns of a writer too.
    read(&lock).await;
    let taken = lock.read().await.unwrap();
    let outside = writes(&bench);
    others_run().await;
    taken.release().await.unwrap();
    assert_eq!(bench.client.usage().cached, 0);
    written(outside).await;
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn an_unused_read_lease_is_given_back_after_its_time_and_not_renewed() {
    let bench = Bench::new();
    let lock = bench.client.rw_lock("a").cache(secs(2));
    read(&lock).await;
    bench.pass(ms(1_900)).await;
    // Each use begins the time anew.
    read(&lock).await;
    bench.pass(ms(1_900)).await;
    assert_eq!((bench.client.usage().cached, bench.faults.calls()), (1, 1));
    bench.pass(ms(200)).await;
    bench.nothing_is_left().await;
    assert_eq!(bench.faults.calls(), 2);
    let lock = bench.client.rw_lock("a").cache(secs(60));
    read(&lock).await;
    bench.pass(secs(12)).await;
    assert_eq!(bench.faults.calls(), 3, "renewed though no task reads");
    let guard = lock.read().await.unwrap();
    bench.pass(ms(200)).await;
    assert!(guard.remaining() > secs(29), "a task reads, so it is renewed: {guard:?}");
    guard.release().await.unwrap();
    bench.pass(secs(19)).await;
    assert_eq!(bench.client.usage().cached, 1);
    bench.pass(secs(1)).await;
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn after_a_pause_past_the_ttl_the_next_reader_asks_the_engine() {
    let bench = Bench::new();
    let lock = caching(&bench);
    let token = read(&lock).await;
    // No task of this client runs meanwhile.
    bench.hand.advance(secs(35));
    let outside = bench.other_client().rw_lock("a").try_write().await.unwrap().unwrap();
    assert!(outside.token().get() > token);
    assert!(lock.try_read().await.unwrap().is_none());
    let token = outside.token().get();
    outside.release().await.unwrap();
    assert!(read(&lock).await > token);
    bench.client.close().await;
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn a_lost_push_costs_a_writer_at_most_the_rest_of_the_ttl() {
    for times in [1, 2, 4] {
        let bench = Bench::new();
        let lock = bench.client.rw_lock("a").ttl(secs(30)).cache(secs(3600));
        for _ in 0..times {
            read(&lock).await;
        }
        bench.faults.cut_pushes(true);
        let outside = writes(&bench);
        bench.pass(secs(30)).await;
        written(outside).await;
        bench.nothing_is_left().await;
    }
}

#[tokio::test]
async fn the_first_writer_repeats_a_lost_push() {
    let bench = Bench::new();
    read(&bench.client.rw_lock("a").ttl(secs(300)).cache(secs(3600))).await;
    bench.faults.cut_pushes(true);
    let outside = writes(&bench);
    others_run().await;
    bench.faults.cut_pushes(false);
    // The writer's slow poll.
    bench.pass(ms(15_100)).await;
    written(outside).await;
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn no_read_lease_stays_cached_when_messages_may_have_been_missed() {
    let bench = Bench::new();
    let lock = caching(&bench);
    read(&lock).await;
    bench.faults.say(Event::Broken);
    others_run().await;
    bench.nothing_is_left().await;
    let calls = bench.faults.calls();
    read(&lock).await;
    assert!(bench.faults.calls() > calls, "it was taken after a break");
    bench.nothing_is_left().await;
    let over = lock.read().await.unwrap();
    bench.faults.say(Event::Reset);
    others_run().await;
    // The store may have lost its data while this lease was held. Tasks join it, since it is renewed.
    let calls = bench.faults.calls();
    read(&lock).await;
    assert_eq!(bench.faults.calls(), calls);
    over.release().await.unwrap();
    bench.nothing_is_left().await;
    read(&lock).await;
    assert_eq!(bench.client.usage().cached, 1);
    bench.faults.say(Event::Reset);
    others_run().await;
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn a_writer_of_the_same_client_gets_the_cached_read_lease_first() {
    let bench = Bench::new();
    let lock = caching(&bench);
    // The message of the store does not help here.
    bench.faults.cut_pushes(true);
    let mut last = read(&lock).await;
    for round in 0..4 {
        let write = match round % 2 {
            0 => lock.try_write().await.unwrap().expect("no other task reads"),
            _ => lock.write().await.unwrap(),
        };
        assert!(write.token().get() > last);
        last = write.token().get();
        write.release().await.unwrap();
        assert_eq!(bench.client.usage().cached, 1, "a write lease");
        let token = read(&lock).await;
        assert!(token > last);
        last = token;
        assert_eq!(bench.client.usage().cached, 1, "a read lease");
    }
    bench.client.close().await;
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn a_read_lease_is_not_cached_while_a_task_of_the_client_waits_to_write() {
    let bench = Bench::new();
    let lock = caching(&bench);
    let read = lock.read().await.unwrap();
    bench.faults.cut_pushes(true);
    let writer = lock.clone();
    let writing = tokio::spawn(async move { writer.write().await.unwrap() });
    others_run().await;
    read.release().await.unwrap();
    assert_eq!(bench.client.usage().cached, 0);
    bench.faults.cut_pushes(false);
    bench.pass(secs(16)).await;
    written(writing).await;
    bench.client.close().await;
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn a_reader_that_cannot_use_the_cached_lease_gives_it_back_first() {
    let bench = Bench::new();
    let lock = caching(&bench);
    read(&lock).await;
    let longer = lock.clone().ttl(secs(60)).read().await.unwrap();
    assert!(longer.remaining() > secs(50));
    assert_eq!((bench.client.usage().held, bench.client.usage().cached), (1, 0));
    // Two read leases of one client: the later one stays.
    read(&lock).await;
    longer.release().await.unwrap();
    bench.client.settle().await;
    assert_eq!((bench.client.usage().held, bench.client.usage().cached), (0, 1));
    bench.client.close().await;
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn a_forced_release_ends_a_cached_read_lease() {
    let bench = Bench::new();
    let lock = caching(&bench);
    let guard = lock.read().await.unwrap();
    let token = guard.token();
    drop(guard);
    assert_eq!(bench.client.usage().cached, 1);
    bench.other_client().rw_lock("a").force_release(token).await.unwrap();
    others_run().await;
    bench.nothing_is_left().await;
    let outside = bench.other_client().rw_lock("a").try_write().await.unwrap().unwrap();
    assert!(outside.token() > token);
    assert!(lock.try_read().await.unwrap().is_none());
    outside.release().await.unwrap();
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn converted_leases_are_cached_too() {
    let bench = Bench::new();
    let lock = caching(&bench);
    let write = lock.write().await.unwrap();
    let down: ReadGuard = write.downgrade().await.unwrap();
    let token = down.token();
    down.release().await.unwrap();
    let calls = bench.faults.calls();
    let again = lock.read().await.unwrap();
    assert_eq!((again.token(), bench.faults.calls()), (token, calls));
    let Upgraded::Write(write) = again.try_upgrade().await.unwrap() else { panic!("refused") };
    let token = write.token();
    write.release().await.unwrap();
    let calls = bench.faults.calls();
    let write = lock.write().await.unwrap();
    assert!(write.token() > token && bench.faults.calls() == calls);
    drop(write);
    bench.client.close().await;
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn readers_and_writers_share_the_bound_of_cached_leases() {
    let bench = Bench::new();
    let lock = |number: u32| bench.client.rw_lock(format!("many/{number}")).cache(secs(600));
    for number in 0..10_000 {
        match number % 2 {
            0 => drop(lock(number).read().await.unwrap()),
            _ => drop(lock(number).write().await.unwrap()),
        }
    }
    assert_eq!(bench.client.usage().cached, 10_000);
    drop(lock(0).read().await.unwrap());
    drop(lock(10_000).read().await.unwrap());
    assert_eq!(bench.client.usage().cached, 10_000);
    bench.client.settle().await;
    for (number, expected) in [(0, State::Shared), (1, State::Free), (2, State::Shared)] {
        assert_eq!(lock(number).status().await.unwrap().state, expected, "{number}");
    }
    bench.client.close().await;
    assert_eq!(bench.client.usage(), Usage::default());
}

/// Clients that cache for different times, and tasks of each that read and write in turn.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn readers_that_race_with_writers_and_give_backs_are_never_beside_a_writer() {
    let store = MemoryStore::new();
    let inside = Arc::new(AtomicI64::new(0));
    let mut running = Vec::new();
    let clients = [ms(0), ms(1), ms(1000)].map(|cache| {
        let settings = ClientSettings::new().cache(cache);
        Client::with_settings(Arc::new(store.connect()), settings).unwrap()
    });
    for client in &clients {
        for task in 0..4 {
            let (lock, inside) = (client.rw_lock("a"), inside.clone());
            running.push(tokio::spawn(async move {
                for round in 0..200_u32 {
                    if (round + task) % 7 == 0 {
                        let write = lock.write().await.unwrap();
                        assert_eq!(inside.fetch_sub(1000, Ordering::SeqCst), 0, "not alone");
                        tokio::task::yield_now().await;
                        inside.fetch_add(1000, Ordering::SeqCst);
                        drop(write);
                    } else {
                        let read = lock.read().await.unwrap();
                        assert!(inside.fetch_add(1, Ordering::SeqCst) >= 0, "beside a writer");
                        if round % 3 == 0 {
                            tokio::task::yield_now().await;
                        }
                        inside.fetch_sub(1, Ordering::SeqCst);
                        read.release().await.unwrap();
                    }
                }
            }));
        }
    }
    for task in running {
        tokio::time::timeout(secs(60), task).await.expect("a message was lost").unwrap();
    }
    for client in &clients {
        client.close().await;
        assert_eq!(client.usage(), Usage::default());
    }
}
