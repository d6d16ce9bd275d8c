//! Queues with very many dead waiters: one call removes a few of them, and live waiters get the
//! lock.

use leasehold_conformance::until;
use leasehold_core::StoreUrl;
use leasehold_core::backend::{Answer, Backend};
use leasehold_test_servers::RedisServer;

use crate::side::{Side, release, unheard};
use crate::{Test, calls, connect, plain, secs, test};

pub(crate) const TESTS: &[Test] = &[
    test!(a_living_waiter_behind_very_many_dead_ones_gets_the_lock_in_small_steps),
    test!(one_call_removes_a_few_dead_waiters_and_the_next_ones_go_on),
    test!(a_waiter_is_not_passed_while_dead_ones_stand_before_it),
    test!(each_ask_of_a_waiter_prolongs_the_queue),
];

/// The number of dead waiters, and how many one call removes at most (`DEAD` in record.lua).
const ALL: usize = 20_000;
const STEP: usize = 64;

/// Puts waiters of clients that no longer exist into the queue of lock `a`, before all others.
fn bury_line(server: &RedisServer) {
    for first in (0..ALL).step_by(1000) {
        let mut command = vec!["ZADD".to_owned(), "leasehold:{a}:q".to_owned()];
        for number in first..first + 1000 {
            command.push((number + 1).to_string());
            command.push(format!("{:016x}{number:08x}00000000000300000000000100020{{}}", 0xdead));
        }
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        server.admin(&command).unwrap();
    }
}

fn line(server: &RedisServer) -> usize {
    server.admin(&["ZCARD", "leasehold:{a}:q"]).unwrap().integer().unwrap() as usize
}

async fn a_living_waiter_behind_very_many_dead_ones_gets_the_lock_in_small_steps() {
    let server = plain();
    let mut side = Side::connect(&server.url()).await;
    let held = side.request(secs(600));
    let grant = side.granted(&held).await;
    let lock = connect(&server.url()).await.lock("a");
    let waiting = tokio::spawn(async move { lock.acquire_within(secs(60)).await });
    until("it stands in line", || async { line(&server) == 1 }).await.unwrap();
    bury_line(&server);
    let before = calls(&server);
    side.verdict(&release(&held, grant)).await;
    waiting.await.unwrap().unwrap().release().await.unwrap();
    let calls = (calls(&server) - before) as usize;
    assert!(calls >= ALL / STEP, "{ALL} dead waiters in {calls} calls");
    assert_eq!(line(&server), 0);
}

/// A backend without a client does nothing by itself: after a call it is as good as dead.
async fn alone(url: &str) -> leasehold_redis::RedisBackend {
    leasehold_redis::connect(StoreUrl::parse(url).unwrap()).await.unwrap()
}

/// Makes one call for the holder, which then stops. Returns whether the queue is shorter by this
/// many.
async fn holder_goes(server: &RedisServer) {
    let mut side = Side::connect(&server.url()).await;
    let backend = alone(&server.url()).await;
    let held = side.request(secs(600)).with_wait(false);
    let grant = match backend.acquire(held.clone()).await.unwrap() {
        Answer::Granted(grant) => grant,
        other => panic!("{other:?}"),
    };
    let waits = side.request(secs(600));
    side.queued(&waits).await;
    bury_line(server);
    // It leaves again: only dead waiters are left.
    side.verdict(&unheard(&waits)).await;
    let before = line(server);
    backend.release(release(&held, grant)).await.unwrap();
    let removed = before - line(server);
    assert!((1..=STEP).contains(&removed), "{removed} in one call");
}

async fn one_call_removes_a_few_dead_waiters_and_the_next_ones_go_on() {
    let server = plain();
    holder_goes(&server).await;
    // No client has continued with the queue: a new waiter does.
    let client = connect(&server.url()).await;
    let before = calls(&server);
    let guard = client.lock("a").acquire_within(secs(60)).await.unwrap();
    let calls = (calls(&server) - before) as usize;
    assert!(calls >= ALL / STEP - 1, "{calls} calls");
    guard.release().await.unwrap();
    assert_eq!(line(&server), 0);
}

async fn a_waiter_is_not_passed_while_dead_ones_stand_before_it() {
    let server = plain();
    holder_goes(&server).await;
    let mut first = Side::connect(&server.url()).await;
    let waits = first.request(secs(600));
    assert_eq!(first.queued(&waits).await, secs(0), "it goes on with the line");
    // A later client gets nothing, though no client holds the lock, and removes some.
    let second = alone(&server.url()).await;
    let asking = first.request(secs(600)).with_wait(false);
    let before = line(&server);
    let answer = second.acquire(asking.clone()).await.unwrap();
    assert!(matches!(answer, Answer::Busy { .. }), "{answer:?}");
    assert!(line(&server) < before);
    while line(&server) > 0 {
        second.acquire(asking.clone()).await.unwrap();
    }
    assert_eq!(first.pushed().await.0, waits.attempt);
}

async fn each_ask_of_a_waiter_prolongs_the_queue() {
    let server = plain();
    let mut side = Side::connect(&server.url()).await;
    let held = side.request(secs(600));
    side.granted(&held).await;
    let waits = side.request(secs(600));
    side.queued(&waits).await;
    server.admin(&["PEXPIRE", "leasehold:{a}:q", "5000"]).unwrap();
    side.queued(&waits).await;
    let left = server.admin(&["PTTL", "leasehold:{a}:q"]).unwrap().integer().unwrap();
    assert!(left > 600_000 + 2_100_000, "{left} ms");
    assert_eq!(line(&server), 1);
}
