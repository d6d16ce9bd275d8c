//! Tests of the statement that takes a lock, and what stops it, on each engine.
use std::sync::atomic::Ordering;
use std::time::Duration;

use leasehold_core::backend::{AcquireRequest, Answer, Origin, ReleaseRequest, Verdict};
use leasehold_core::clock::Clock;
use leasehold_core::proto::handoff::TOKEN_LEAD;
use leasehold_core::{AttemptId, ClientId, Name, StoreUrl};
use leasehold_test_servers::{MariaDb, Needs, Postgres};

use crate::address::Address;
use crate::hold::Hold;
use crate::pool::Lane;
use crate::record::{self, Found, Question, Record};
use crate::release::Known;
use crate::routines::FREED;
use crate::store::Store;
use crate::tables::Tables;
use crate::take_statement::{take, taken};

const LIMIT: Duration = Duration::from_secs(20);

fn request(name: &str, attempt: u32, tokens: u32) -> AcquireRequest {
    let attempt = AttemptId::new(ClientId::from_bits(1), attempt, 7);
    AcquireRequest::new(Name::new(name).unwrap(), attempt, Duration::from_secs(30))
        .with_wait(true)
        .with_tokens(tokens)
        .with_origin(Origin::new("host", 1, None))
}

fn end(request: &AcquireRequest, answer: &Answer) -> ReleaseRequest {
    let Answer::Granted(grant) = answer else { panic!("{answer:?}") };
    ReleaseRequest::new(request.name.clone(), request.attempt).with_base(grant.tokens.base())
}

async fn ask(store: &Store, request: &AcquireRequest) -> Answer {
    store.ask(request, false, false, store.within(LIMIT)).await.unwrap().answer
}

async fn store_at(url: &str) -> Store {
    let address = Address::parse(StoreUrl::parse(url).unwrap()).unwrap();
    let store = Store::new(&address, Clock::system());
    store.prepare().await.unwrap();
    store
}

/// Asks for what a step of this request needs.
async fn asked(store: &Store, request: &AcquireRequest, hold: Hold) -> Record {
    let (name, attempts) = (&request.name, [request.attempt]);
    let question = Question { name, attempts: &attempts, shared: true, readers: false, hold };
    let packet = record::ask(&store.tables, &question);
    let replies = store.run(Lane::Usual, &packet, store.within(LIMIT)).await.unwrap();
    match Record::read(&replies, &question).unwrap() {
        Found::Record(record) => *record,
        other => panic!("{other:?}"),
    }
}

/// Runs a test on SQLite, PostgreSQL and MariaDB.
async fn on_each(mut test: impl AsyncFnMut(Store)) {
    let place = tempfile::tempdir().unwrap();
    test(store_at(&format!("sqlite:{}", place.path().join("locks.db").display())).await).await;
    if !Needs::Postgres.is_skipped() {
        let server = Postgres::start(&[]).unwrap();
        test(store_at(&server.url()).await).await;
        // Without the functions, in other tables.
        let without = store_at(&format!("{}?prefix=plain", server.url())).await;
        without.no_routines_until.store(u64::MAX, Ordering::Relaxed);
        test(without).await;
    }
    if !Needs::MySql.is_skipped() {
        let server = MariaDb::start(&["--sql-mode=SIMULTANEOUS_ASSIGNMENT"]).unwrap();
        test(store_at(&server.url()).await).await;
    }
}

#[tokio::test]
async fn one_statement_takes_a_lock_that_is_new_free_or_over_and_no_other() {
    on_each(async |store| {
        let until = store.within(LIMIT);
        let mut token = 0;
        // New, then free: with the requested tokens, above the earlier ones.
        for tokens in [3, 1, 2] {
            let request = request("a", tokens, tokens);
            let answer = ask(&store, &request).await;
            let Answer::Granted(grant) = &answer else { panic!("{answer:?}") };
            let block = grant.tokens;
            assert_eq!(block.top().get() - block.base().get() + 1, u64::from(tokens));
            assert!(block.base().get() > token);
            token = block.top().get();
            let (ended, _) =
                store.end(&end(&request, &answer), Known::default(), until).await.unwrap();
            assert_eq!(ended.verdict, Verdict::Released);
        }
        // Held: an attempt that does not wait gets the time left, and the holder keeps it.
        let holder = request("a", 9, 1);
        let held = ask(&store, &holder).await;
        let other = request("a", 10, 1).with_wait(false);
        let busy = ask(&store, &other).await;
        assert!(matches!(busy, Answer::Busy { ask_again: Some(_) }), "{busy:?}");
        // Another statement that finds it free did not check the whole row.
        let packet = take(&store.tables, &request("a", 13, 1), store.stamp(), None);
        let replies = store.run(Lane::Usual, &packet.plain, until).await.unwrap();
        assert_eq!(taken(&replies, &request("a", 13, 1)).unwrap(), None);
        let status = store.status(&holder.name, until).await.unwrap();
        assert_eq!(status.token, end(&holder, &held).base, "{status:?}");
        // The same attempt again: the same lease.
        let again = ask(&store, &holder).await;
        assert_eq!(again, held);
        // Expired: its ttl has ended.
        let short = request("b", 11, 1).with_ttl(Duration::from_millis(20));
        let first = ask(&store, &short).await;
        let (mut next, asking) = (Answer::Ended, request("b", 12, 1));
        while !matches!(next, Answer::Granted(_)) {
            assert!(!store.is_over(until), "{next:?}");
            next = ask(&store, &asking.clone().with_wait(false)).await;
        }
        assert!(end(&asking, &next).base > end(&short, &first).base);
    })
    .await;
}

#[tokio::test]
async fn who_has_lost_once_stops_those_who_need_one_statement() {
    on_each(async |store| {
        let until = store.within(LIMIT);
        let quick = request("a", 1, 1);
        let held = ask(&store, &quick).await;
        let late = request("a", 2, 1);
        assert!(
            asked(&store, &late, Hold::Statements).await.has_queue,
            "the row is not marked as having waiters"
        );
        // The holder's release and another acquire now take a step each, and unmark the row.
        let mut open = false;
        assert!(store.release_at_once(&end(&quick, &held), until, &mut open).await.unwrap() == 0);
        let (ended, _) = store.end(&end(&quick, &held), Known::default(), until).await.unwrap();
        assert_eq!(ended.verdict, Verdict::Released);
        assert!(!asked(&store, &late, Hold::Nothing).await.has_queue, "no client waits");
    })
    .await;
}

#[tokio::test]
async fn without_the_functions_of_the_database_the_statements_do_it() {
    if Needs::Postgres.is_skipped() {
        return;
    }
    let server = Postgres::start(&[]).unwrap();
    let with = store_at(&server.url()).await;
    let until = with.within(LIMIT);
    let mut attempts = 0..;
    let mut pair = async |store: &Store| {
        let request = request("a", attempts.next().unwrap(), 1);
        let held = ask(store, &request).await;
        let (ended, _) = store.end(&end(&request, &held), Known::default(), until).await.unwrap();
        assert_eq!(ended.verdict, Verdict::Released);
    };
    pair(&with).await;
    let drop_all = || {
        for routine in with.tables.routines() {
            let (head, _) = routine.split_once('(').unwrap();
            let name = head.strip_prefix("CREATE OR REPLACE FUNCTION ").unwrap();
            server.sql(&format!("DROP FUNCTION {name}")).unwrap();
        }
    };
    // A user with the right creates them, and uses them.
    drop_all();
    pair(&with).await;
    assert!(with.uses_routines());
    // A user without the right works without them.
    drop_all();
    let without = store_at(&format!("{}?create=no", server.url())).await;
    pair(&without).await;
    assert!(!without.uses_routines());
    pair(&without).await;
    crate::init(StoreUrl::parse(&server.url()).unwrap()).await.unwrap();
    let again = store_at(&format!("{}?create=no", server.url())).await;
    pair(&again).await;
    assert!(again.uses_routines(), "init has not created them again");
}

#[tokio::test]
async fn blocks_that_nobody_uses_never_carry_tokens_far_beyond_the_clock() {
    on_each(async |store| {
        let until = store.within(LIMIT);
        for round in 0..50 {
            let request = request("a", round, TOKEN_LEAD);
            let answer = ask(&store, &request).await;
            let Answer::Granted(grant) = &answer else { panic!("{answer:?}") };
            let (base, top) = (grant.tokens.base().get(), grant.tokens.top().get());
            let clock_us = Clock::system().now().unix_us();
            let bound = clock_us + u64::from(TOKEN_LEAD);
            assert!(top <= bound.max(base), "round {round}: {} us ahead", top - clock_us);
            // The end names no used token, so the whole block stays reserved.
            store.end(&end(&request, &answer), Known::default(), until).await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn one_step_removes_a_bounded_number_of_dead_waiters_and_the_next_steps_the_rest() {
    const DEAD: u64 = 5000;
    const PER_STEP: u64 = 64;
    on_each(async |store| {
        let until = store.within(6 * LIMIT);
        let Tables { dialect, locks, waiters, .. } = &store.tables;
        let rows = async || {
            let count = dialect.plain(&[format!("SELECT COUNT(*) FROM {waiters}")]);
            let replies = store.run(Lane::Usual, &count, until).await.unwrap();
            replies[0].rows[0][0].unsigned().unwrap()
        };
        let holder = request("a", 1, 1).with_ttl(20 * LIMIT);
        let held = ask(&store, &holder).await;
        let dead = |ticket: u64| AttemptId::new(ClientId::from_bits(2), ticket as u32, 7);
        let name = dialect.bytes(b"a");
        let values: Vec<String> = (1..=DEAD)
            .map(|ticket| {
                let attempt = dialect.bytes(&dead(ticket).to_bytes());
                format!("({attempt}, {name}, {ticket}, 2, 1, 30000000, 1, {name}, 1, 1)")
            })
            .collect();
        let columns =
            "attempt, name, ticket, client, holder, ttl_us, tokens, person, asked_us, seen_us";
        let values = values.join(", ");
        let fill = dialect.atomic(&[
            format!("INSERT INTO {waiters} ({columns}) VALUES {values}"),
            format!("UPDATE {locks} SET ticket = {DEAD}, line = 1 WHERE name = {name}"),
        ]);
        store.run(Lane::Usual, &fill, until).await.unwrap();
        // The live waiter is behind all dead ones, and therefore first.
        let live = request("a", 2, 1);
        let queued = ask(&store, &live).await;
        assert!(matches!(queued, Answer::Queued { place: Some(0), .. }), "{queued:?}");
        let mut left = rows().await;
        assert!((DEAD + 1 - PER_STEP..=DEAD).contains(&left), "{left} of {DEAD} are left");
        // A waiter that counted as dead asks again while its row still exists.
        let late = AcquireRequest::new(Name::new("a").unwrap(), dead(DEAD), LIMIT).with_wait(true);
        let queued = ask(&store, &late).await;
        assert!(matches!(queued, Answer::Queued { place: Some(1), .. }), "{queued:?}");
        let (ended, _) = store.end(&end(&holder, &held), Known::default(), until).await.unwrap();
        assert_eq!(ended.verdict, Verdict::Released);
        for next in [live, late] {
            let answer = ask(&store, &next).await;
            let (ended, _) =
                store.end(&end(&next, &answer), Known::default(), until).await.unwrap();
            assert_eq!(ended.verdict, Verdict::Released);
        }
        let mut others = 3..;
        let mut now = rows().await;
        while now > 0 {
            left = now;
            let other = request("a", others.next().unwrap(), 1);
            let answer = ask(&store, &other).await;
            store.end(&end(&other, &answer), Known::default(), until).await.unwrap();
            now = rows().await;
            assert!((1..=2 * PER_STEP).contains(&(left - now)), "{now} of {left} after two steps");
        }
        // Nothing is left to remove: single statements take and free the lock again.
        let other = request("a", 0, 1);
        let answer = ask(&store, &other).await;
        assert!(
            store.release_at_once(&end(&other, &answer), until, &mut false).await.unwrap() == FREED
        );
    })
    .await;
}

#[tokio::test]
async fn a_late_release_is_not_told_released_once_the_row_was_removed() {
    on_each(async |store| {
        let until = store.within(3 * LIMIT);
        // The plain statement first, then the function, if there is one.
        for (name, no_routines_until) in [("a", u64::MAX), ("b", 0)] {
            store.no_routines_until.store(no_routines_until, Ordering::Relaxed);
            let first = request(name, 1, 1).with_ttl(Duration::from_millis(100));
            let answer = ask(&store, &first).await;
            let late = end(&first, &answer);
            while store.forget(name).await.unwrap() == 0 {
                assert!(!store.is_over(until), "the lease does not end");
            }
            let answer = ask(&store, &request(name, 2, 1)).await;
            assert!(matches!(answer, Answer::Granted(_)), "{answer:?}");
            let (ended, _) = store.end(&late, Known::default(), until).await.unwrap();
            assert_eq!(ended.verdict, Verdict::Unknown, "{name}: the lease was lost");
        }
    })
    .await;
}
