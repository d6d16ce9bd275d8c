//! Latches when replies are lost, requests are repeated, the server is full, or loses data; and names that are
//! used for a latch and for something else.

use leasehold_conformance::until;
use leasehold_core::backend::{Backend, ValueSwap};
use leasehold_core::{Client, ErrorKind, Latch, Name, Result, StoreUrl};
use leasehold_test_servers::{Direction, Pattern, Proxy, RedisServer, Shot, Value};

use crate::permits::content;
use crate::replicas::pair;
use crate::side::{Side, name};
use crate::{Test, calls, connect, earlier, ms, plain, secs, test};

pub(crate) const TESTS: &[Test] = &[
    test!(a_lost_reply_to_any_request_counts_nothing_twice),
    test!(every_request_repeated_counts_once),
    test!(a_late_request_does_not_replace_a_newer_value),
    test!(the_server_pushes_a_count_to_waiters),
    test!(a_name_is_a_lock_a_semaphore_or_a_latch),
    test!(clients_of_an_earlier_version_do_not_take_a_latch),
    test!(a_value_of_another_program_stays),
    test!(a_full_server_still_counts),
    test!(a_latch_expires_by_the_clock_of_the_server_after_its_last_change),
    test!(forget_leaves_a_latch),
    test!(waiters_learn_that_the_server_has_lost_its_data),
    test!(a_count_that_a_failover_could_lose_is_not_confirmed),
];

fn about_a() -> Pattern {
    Pattern::command("EVALSHA").and("{a}")
}

/// Requests to store a value.
fn stores_a() -> Pattern {
    about_a().and(Pattern::when(|words| words.get(5) == Some(&&b"S"[..])))
}

fn latch(client: &Client, parties: u32) -> Latch {
    client.latch("a", parties)
}

/// Repeats a request until it is answered.
async fn answered<T>(mut request: impl AsyncFnMut() -> Result<T>) -> T {
    loop {
        match request().await {
            Ok(answer) => return answer,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
        }
        tokio::time::sleep(ms(20)).await;
    }
}

/// Counts a latch of two parties down and resets it, with a fault before each request that the server gets.
async fn under_faults(prepare: impl Fn(&Proxy) -> Shot) {
    let server = plain();
    let proxy = Proxy::start(&server).unwrap();
    let (client, direct) = (connect(&proxy.url()).await, connect(&server.url()).await);
    let first = latch(&direct, 2).state().await.unwrap().generation;
    let shaken = latch(&client, 2).of_generation(first);
    let calm = latch(&direct, 2);
    for (party, missing) in [("a", 1), ("b", 0)] {
        let shot = prepare(&proxy);
        assert_eq!(answered(async || shaken.count_down(party).await).await, missing);
        assert!(shot.happened());
        assert_eq!(calm.state().await.unwrap().missing, missing);
    }
    prepare(&proxy);
    assert_eq!(answered(async || shaken.reset().await).await, first + 1);
    let state = calm.state().await.unwrap();
    assert_eq!((state.generation, state.missing), (first + 1, 2));
}

async fn a_lost_reply_to_any_request_counts_nothing_twice() {
    under_faults(|proxy| proxy.reset_at_reply_to(about_a())).await;
    // The second request of each step is the one that stores.
    under_faults(|proxy| proxy.reset_at_reply_to(stores_a())).await;
}

async fn every_request_repeated_counts_once() {
    under_faults(|proxy| proxy.duplicate(about_a())).await;
    under_faults(|proxy| proxy.duplicate(stores_a())).await;
}

async fn a_late_request_does_not_replace_a_newer_value() {
    let server = plain();
    let proxy = Proxy::start(&server).unwrap();
    let (client, direct) = (connect(&proxy.url()).await, connect(&server.url()).await);
    let calm = latch(&direct, 3);
    calm.count_down("a").await.unwrap();
    let held = proxy.hold(stores_a());
    let late = tokio::spawn({
        let latch = latch(&client, 3);
        async move { latch.count_down("b").await }
    });
    until("it is on its way", || async { held.is_caught() }).await.unwrap();
    assert_eq!(calm.count_down("c").await.unwrap(), 1);
    held.release();
    let late = late.await.unwrap();
    let counted = calm.state().await.unwrap().counted;
    assert!(counted.contains(&"a".to_owned()) && counted.contains(&"c".to_owned()), "{counted:?}");
    assert!(late.is_err() || counted.len() == 3, "{late:?}: {counted:?}");
}

async fn the_server_pushes_a_count_to_waiters() {
    let server = plain();
    let (client, other) = (connect(&server.url()).await, connect(&server.url()).await);
    let counts = latch(&other, 3);
    counts.state().await.unwrap();
    let mut changes = client.lock("a").changes().unwrap();
    // What happened before the server was asked for reports.
    changes.within(secs(3600)).await;
    counts.count_down("one").await.unwrap();
    tokio::time::timeout(secs(60), changes.within(secs(3600))).await.expect("a push");
}

async fn a_name_is_a_lock_a_semaphore_or_a_latch() {
    let server = plain();
    let client = connect(&server.url()).await;
    let invalid = |error: leasehold_core::Error, kind: &str| {
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.message().contains(kind), "{error}");
    };
    let permit = client.semaphore("s", 2).acquire().await.unwrap();
    let guard = client.lock("l").acquire().await.unwrap();
    let read = client.rw_lock("r").read().await.unwrap();
    client.lock("f").acquire().await.unwrap().release().await.unwrap();
    latch(&client, 2).count_down("one").await.unwrap();
    client.settle().await;
    let before = without_tombstones(&server);
    for name in ["s", "l", "r", "f"] {
        let latch = client.latch(name, 2);
        for error in [
            latch.count_down("one").await.map(drop),
            latch.state().await.map(drop),
            latch.wait().await.map(drop),
            latch.reset().await.map(drop),
        ] {
            invalid(error.unwrap_err(), "a lock or a semaphore");
        }
        let side = Side::connect(&server.url()).await;
        let swap = |seen| ValueSwap::new(Name::new(name).unwrap(), seen, b"x".to_vec(), secs(9));
        for seen in [None, Some(b"y".to_vec())] {
            invalid(side.backend.swap_value(swap(seen)).await.unwrap_err(), "a lock or");
        }
    }
    let (lock, semaphore, both) = (client.lock("a"), client.semaphore("a", 2), client.rw_lock("a"));
    invalid(lock.acquire().await.unwrap_err(), "a latch");
    invalid(lock.try_acquire().await.unwrap_err(), "a latch");
    invalid(both.read().await.unwrap_err(), "a latch");
    invalid(both.try_read().await.unwrap_err(), "a latch");
    invalid(both.write().await.unwrap_err(), "a latch");
    invalid(semaphore.acquire().await.unwrap_err(), "a latch");
    invalid(semaphore.try_acquire().await.unwrap_err(), "a latch");
    invalid(semaphore.limit().await.unwrap_err(), "a latch");
    invalid(semaphore.set_limit(3).await.unwrap_err(), "a latch");
    invalid(lock.force_release(guard.token()).await.unwrap_err(), "a latch");
    let status = lock.status().await.unwrap();
    assert!(status.note.is_some_and(|note| note.contains("1 of 2 parties")), "status");
    client.settle().await;
    assert_eq!(without_tombstones(&server), before, "a refused request changed something");
    permit.release().await.unwrap();
    guard.release().await.unwrap();
    read.release().await.unwrap();
}

/// Returns the keys and their content. Requests that are refused may leave tombstones.
fn without_tombstones(server: &RedisServer) -> Vec<(String, Value)> {
    let mut all = content(server);
    all.retain(|(key, _)| !key.ends_with(":t"));
    all
}

async fn clients_of_an_earlier_version_do_not_take_a_latch() {
    let server = plain();
    let client = connect(&server.url()).await;
    latch(&client, 2).count_down("one").await.unwrap();
    let before = content(&server);
    let run = |script: String, arguments: &[&str]| {
        let words = [&["EVAL", &script, "1", "leasehold:{a}"], arguments].concat();
        server.admin(&words).unwrap().text()
    };
    let (stranger, base) = ("a".repeat(32), format!("{:016}", 7));
    let says = "300030000000000010002{}";
    let ended = format!("{stranger}{base}{base}300000000");
    let answers = [
        run(earlier::acquire(), &[&stranger, says]),
        run(earlier::release(), &[&format!("H0{stranger}{base}{base}")]),
        run(earlier::release(), &["", &ended]),
        run(earlier::rotate(), &[&ended, &format!("{stranger}{says}")]),
        run(earlier::renew(), &[&format!("{stranger}{base}"), "00030000"]),
        run(earlier::force(), &[&base]),
    ];
    assert_eq!(answers, ["XF", "L", "L", "LXF", "L", "XF"]);
    assert_eq!(content(&server), before, "an earlier version changed the latch");
}

async fn a_value_of_another_program_stays() {
    let server = plain();
    let client = connect(&server.url()).await;
    for command in [
        &["SET", "leasehold:{a}", "of another program"][..],
        &["SET", "leasehold:{a}", ""],
        &["SET", "leasehold:{a}", "leasehold latch 2\n"],
        &["SET", "leasehold:{a}", "L3 a newer version"],
        &["ZADD", "leasehold:{a}", "1", "one"],
    ] {
        server.admin(&["DEL", "leasehold:{a}"]).unwrap();
        server.admin(command).unwrap();
        let before = content(&server);
        let error = latch(&client, 2).count_down("one").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Foreign, "{command:?}: {error}");
        assert_eq!(content(&server), before, "{command:?}");
    }
}

async fn a_full_server_still_counts() {
    let server = plain();
    let client = connect(&server.url()).await;
    let latch = latch(&client, 2);
    latch.count_down("one").await.unwrap();
    server.admin(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]).unwrap();
    server.admin(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    let error = client.latch("b", 2).count_down("one").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert_eq!(latch.count_down("two").await.unwrap(), 0);
    latch.wait().await.unwrap();
}

async fn a_latch_expires_by_the_clock_of_the_server_after_its_last_change() {
    let server = plain();
    let client = connect(&server.url()).await;
    let latch = latch(&client, 3).ttl(secs(1000));
    let lives = || server.admin(&["PTTL", "leasehold:{a}"]).unwrap().integer().unwrap();
    for party in ["one", "two"] {
        latch.count_down(party).await.unwrap();
        assert!((1..=1_000_000).contains(&lives()), "{}", lives());
        server.admin(&["PEXPIRE", "leasehold:{a}", "500000"]).unwrap();
    }
    latch.count_down("two").await.unwrap();
    latch.state().await.unwrap();
    assert!(lives() <= 500_000, "nothing has changed, and it lives longer");
    latch.count_down("three").await.unwrap();
    assert!(lives() > 500_000);
}

async fn forget_leaves_a_latch() {
    let server = plain();
    let client = connect(&server.url()).await;
    latch(&client, 1).count_down("one").await.unwrap();
    let before = content(&server);
    let forgotten = leasehold_redis::forget(StoreUrl::parse(&server.url()).unwrap(), "").await;
    assert_eq!(forgotten.unwrap(), 0);
    assert_eq!(content(&server), before);
}

async fn waiters_learn_that_the_server_has_lost_its_data() {
    let server = plain();
    let client = connect(&server.url()).await;
    let latch = latch(&client, 2);
    let generation = latch.state().await.unwrap().generation;
    let waiting = tokio::spawn({
        let latch = latch.clone();
        async move { latch.wait().await }
    });
    let before = calls(&server);
    until("it waits", || async { calls(&server) > before }).await.unwrap();
    server.admin(&["SCRIPT", "FLUSH"]).unwrap();
    server.admin(&["FLUSHALL"]).unwrap();
    assert_eq!(waiting.await.unwrap().unwrap_err().kind(), ErrorKind::Lost);
    assert!(latch.state().await.unwrap().generation > generation);
}

async fn a_count_that_a_failover_could_lose_is_not_confirmed() {
    let (mut master, between, replica) = pair();
    let proxy = Proxy::start(&master).unwrap();
    let client = connect(&format!("{}?replicas=1", proxy.url())).await;
    let latch = latch(&client, 3);
    assert_eq!(latch.count_down("one").await.unwrap(), 2);
    let side = Side::connect(&format!("{}?replicas=1", proxy.url())).await;
    // From here on the replica receives nothing.
    between.cut(Direction::ServerToClient);
    let unsure = latch.count_down("two").await.unwrap_err();
    assert_eq!(unsure.kind(), ErrorKind::Unavailable, "{unsure}");
    assert!(unsure.to_string().contains("0 replicas have acknowledged"), "{unsure}");
    // The master has it; a repeat must not be told so either.
    let again = latch.count_down("two").await.unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Unavailable, "{again}");
    assert_eq!(side.backend.value(&name()).await.unwrap_err().kind(), ErrorKind::Unavailable);
    master.kill();
    replica.admin(&["REPLICAOF", "NO", "ONE"]).unwrap();
    let new = connect(&replica.url()).await;
    let latch = self::latch(&new, 3);
    assert_eq!(latch.state().await.unwrap().counted, ["one"]);
    assert_eq!(latch.count_down("two").await.unwrap(), 1);
}
