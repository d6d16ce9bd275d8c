//! Waiting: notified at once if the server can notify, polled if it cannot; dead waiters do not
//! block.

use leasehold_conformance::{Stopwatch, force_release_is_pushed, until};
use leasehold_core::State;
use leasehold_core::backend::{AcquireRequest, Answer, Backend, Event, Renewed};
use leasehold_core::clock::Clock;
use leasehold_test_servers::{MariaDb, Postgres};

use crate::side::{Side, name, release, unheard};
use crate::{Test, connect, ms, secs, test};

pub(crate) const TESTS: &[Test] = &[
    test!(a_connection_that_listens_is_made_anew, Postgres),
    test!(an_outage_is_over_also_for_those_who_gave_up, Postgres),
    test!(the_holder_is_told_that_somebody_waits_on_postgres, Postgres),
    test!(the_holder_is_told_that_somebody_waits_on_mysql, MySql),
    test!(the_database_s_clock_decides, Postgres),
    test!(force_release_reaches_the_holder_at_once, Postgres),
    test!(a_client_behind_dead_waiters_waits_an_offer_for_each, Postgres),
    test!(a_thousand_waiters_are_served_in_order, Nothing),
    test!(queueing_and_a_hand_off_by_push_take_a_packet_each, Postgres),
    test!(a_message_that_is_older_than_the_answer_is_not_believed, Postgres),
];

fn waits(side: &mut Side) -> AcquireRequest {
    side.request(secs(60)).with_wait(true)
}

async fn a_connection_that_listens_is_made_anew() {
    let server = Postgres::start(&[]).unwrap();
    let (mut one, mut two) =
        (Side::connect(&server.url(), 1).await, Side::connect(&server.url(), 2).await);
    let listeners = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'";
    for round in 0..3 {
        let held = one.request(secs(60));
        let grant = one.granted(&held).await;
        let request = waits(&mut two);
        assert_eq!(two.queued(&request).await, Some(0));
        until("it listens", || async { server.sql(listeners).unwrap() == "1" }).await.unwrap();
        if round > 0 {
            let kill = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                       WHERE query LIKE 'LISTEN%'";
            assert_eq!(server.sql(kill).unwrap(), "1");
        }
        one.verdict(&release(&held, grant)).await;
        let offered = two.pushed(&request).await;
        assert!(offered.tokens.base() > grant.tokens.top());
        assert_eq!(two.renew(&request, offered).await.unwrap(), Renewed::Renewed);
        two.verdict(&release(&request, offered)).await;
    }
}

async fn an_outage_is_over_also_for_those_who_gave_up() {
    let mut server = Postgres::start(&[]).unwrap();
    let mut one = Side::connect(&server.url(), 1).await;
    let mut two = Side::connect(&server.url(), 2).await;
    let held = one.request(secs(60));
    one.granted(&held).await;
    let request = waits(&mut two);
    two.queued(&request).await;
    server.kill();
    while !matches!(two.events.recv().await.unwrap(), Event::Broken) {}
    assert!(two.backend.release(unheard(&request)).await.is_err());
    server.start_again().unwrap();
    while !matches!(two.events.recv().await.unwrap(), Event::Reset) {}
}

async fn the_holder_is_told_that_somebody_waits_on_postgres() {
    let server = Postgres::start(&[]).unwrap();
    told(&server.url()).await;
}

async fn the_holder_is_told_that_somebody_waits_on_mysql() {
    let server = MariaDb::start(&[]).unwrap();
    told(&server.url()).await;
}

async fn told(url: &str) {
    let (mut one, mut two) = (Side::connect(url, 1).await, Side::connect(url, 2).await);
    let held = one.request(secs(60)).with_tokens(100).with_wait(true);
    one.granted(&held).await;
    let request = waits(&mut two);
    two.queued(&request).await;
    wanted(&mut one, &held).await;
}

/// Waits until the holder is notified that a client waits.
async fn wanted(side: &mut Side, held: &AcquireRequest) {
    loop {
        match side.events.recv().await.unwrap() {
            Event::Wanted { attempt, name: lock } if attempt == held.attempt => {
                return assert_eq!(lock, name());
            }
            _ => {}
        }
    }
}

/// Moves rows in time, as a clock jump would: only the database decides when a lease ends.
async fn the_database_s_clock_decides() {
    let server = Postgres::start(&[]).unwrap();
    let (mut one, mut two) =
        (Side::connect(&server.url(), 1).await, Side::connect(&server.url(), 2).await);
    let held = one.request(secs(60));
    let grant = one.granted(&held).await;
    server.sql("UPDATE leasehold_locks SET until_us = until_us + 200000000000").unwrap();
    let status = one.status().await;
    assert!(status.note.is_some_and(|note| note.contains("force-release")), "a stuck lock is seen");
    let next = two.request(secs(60));
    assert!(matches!(two.backend.acquire(next.clone()).await.unwrap(), Answer::Busy { .. }));
    server.sql("UPDATE leasehold_locks SET until_us = until_us - 300000000000").unwrap();
    assert_eq!(one.status().await.state, State::Free);
    assert_eq!(one.renew(&held, grant).await.unwrap(), Renewed::Lost);
    // Its clock goes back by an hour: tokens still grow.
    server.sql("UPDATE leasehold_locks SET top = top + 3600000000").unwrap();
    let other = two.granted(&next).await;
    assert!(other.tokens.base().get() > grant.tokens.top().get() + 3_600_000_000);
}

async fn force_release_reaches_the_holder_at_once() {
    let server = Postgres::start(&[]).unwrap();
    let (one, two, operator) =
        (connect(&server.url()).await, connect(&server.url()).await, connect(&server.url()).await);
    // It listens for a waiting task, and for a while after.
    let (held, lock) = (one.lock("another").acquire().await.unwrap(), one.lock("another"));
    let waiting = tokio::spawn(async move { lock.acquire().await?.release().await });
    let listeners = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'";
    until("it listens", || async { server.sql(listeners).unwrap() == "1" }).await.unwrap();
    held.release().await.unwrap();
    waiting.await.unwrap().unwrap();
    force_release_is_pushed(&one, &two, &operator).await.unwrap();
}

/// So many that the client is not among the first, which each step notifies of the next lease.
const DEAD: u32 = 4;

async fn a_client_behind_dead_waiters_waits_an_offer_for_each() {
    let server = Postgres::start(&[]).unwrap();
    let mut holder = Side::connect(&server.url(), 1).await;
    let held = holder.request(secs(600)).with_ttl(secs(600));
    let grant = holder.granted(&held).await;
    let mut dead = Side::connect(&server.url(), 2).await;
    for _ in 0..DEAD {
        let request = waits(&mut dead);
        dead.queued(&request).await.unwrap();
    }
    drop(dead);
    let client = connect(&server.url()).await;
    let lock = client.lock("a");
    let next = tokio::spawn(async move { lock.acquire().await });
    let listeners = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'";
    until("it listens", || async { server.sql(listeners).unwrap() == "1" }).await.unwrap();
    // It has just polled, as it does when the connection is up.
    Clock::system().sleep(ms(500)).await;
    let stopwatch = Stopwatch::start();
    holder.verdict(&release(&held, grant)).await;
    let guard = next.await.unwrap().unwrap();
    let took = stopwatch.elapsed();
    guard.release().await.unwrap();
    // 2 s for each of them, 2 s until the client polls, and a slow machine.
    assert!(took < secs(2 * u64::from(DEAD) + 2 + 4), "{took:?} behind {DEAD} dead waiters");
}

async fn a_thousand_waiters_are_served_in_order() {
    const WAITERS: u64 = 1000;
    let place = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", place.path().join("locks.db").display());
    let (mut one, mut two) = (Side::connect(&url, 1).await, Side::connect(&url, 2).await);
    let held = one.request(secs(60));
    let grant = one.granted(&held).await;
    let mut asks = Vec::new();
    for place in 0..WAITERS {
        let request = waits(&mut two);
        assert_eq!(two.queued(&request).await, Some(place));
        asks.push(request);
    }
    let status = one.status().await;
    assert_eq!(status.waiters.unwrap().len() + status.more_waiters, WAITERS as usize);
    one.verdict(&release(&held, grant)).await;
    let mut last = grant.tokens.top();
    for request in &asks[..50] {
        let offered = two.pushed(request).await;
        assert!(offered.tokens.base() > last);
        last = offered.tokens.top();
        two.verdict(&release(request, offered)).await;
    }
    assert_eq!(two.queued(&asks[999]).await, Some(948));
}

/// A client queues without a step of the record. From a release to the push: one call of a function, which hands
/// the lock on and sends the whole lease to the waiter. Each call is one packet in the server's log. A poll may
/// happen meanwhile, but not each time.
async fn queueing_and_a_hand_off_by_push_take_a_packet_each() {
    const PACKET: &str = "statement: SET LOCAL lock_timeout";
    const STEP: &str = "LEFT JOIN leasehold_locks";
    let server = Postgres::start(&["log_statement=all"]).unwrap();
    let (mut one, mut two) =
        (Side::connect(&server.url(), 1).await, Side::connect(&server.url(), 2).await);
    let mut least = usize::MAX;
    for _ in 0..5 {
        let held = one.request(secs(60)).with_tokens(100).with_wait(true);
        let grant = one.granted(&held).await;
        let request = waits(&mut two);
        assert_eq!(two.queued(&request).await, Some(0));
        wanted(&mut one, &held).await;
        let listeners = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'";
        until("both listen", || async { server.sql(listeners).unwrap() == "2" }).await.unwrap();
        let before = server.log().matches(PACKET).count();
        one.verdict(&release(&held, grant)).await;
        let offered = two.pushed(&request).await;
        least = least.min(server.log().matches(PACKET).count() - before);
        two.verdict(&release(&request, offered)).await;
    }
    assert_eq!(least, 1, "{}", server.log());
    assert_eq!(server.log().matches(STEP).count(), 0, "{}", server.log());
}

/// A message about a lease that had ended when the server answered that the attempt waits.
async fn a_message_that_is_older_than_the_answer_is_not_believed() {
    let server = Postgres::start(&[]).unwrap();
    let (mut one, mut two) =
        (Side::connect(&server.url(), 1).await, Side::connect(&server.url(), 2).await);
    let held = one.request(secs(60));
    let grant = one.granted(&held).await;
    let request = waits(&mut two);
    two.queued(&request).await;
    let listeners = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'";
    until("it listens", || async { server.sql(listeners).unwrap() == "1" }).await.unwrap();
    let base = grant.tokens.top().get() + 1;
    let (client, attempt) = (request.attempt.client(), request.attempt);
    let old = format!("G{attempt} 1000000 {base} {base} 2000000 0");
    server.sql(&format!("SELECT pg_notify('leasehold_locks_{client}', '{old}')")).unwrap();
    // The real message comes after it, on the same connection.
    one.verdict(&release(&held, grant)).await;
    let offered = two.pushed(&request).await;
    assert!(
        offered.tokens.base().get() > base,
        "it believed a lease that the server did not grant"
    );
    assert_eq!(two.renew(&request, offered).await.unwrap(), Renewed::Renewed);
}
