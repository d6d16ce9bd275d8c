//! Locks in two formats at once (`also`), beside clients of another library, with `wire`, and without an option.

mod migration;

use std::sync::Arc;

use leasehold_conformance::until;
use leasehold_core::backend::{AcquireRequest, AlsoBackend, Answer, Backend, Mark};
use leasehold_core::{AttemptId, Client, ClientId, ErrorKind, Name, State, StoreUrl};
use leasehold_test_servers::RedisServer;

pub(crate) use self::migration::Role;
use self::migration::eight_processes_move_from_redis_py_one_after_the_other;
use crate::wire::{number, shown, wire};
use crate::{Test, connect, ms, plain, secs, test};

pub(crate) const TESTS: &[Test] = &[
    test!(both_keys_are_held_and_freed),
    test!(a_mark_of_its_format_is_accepted_and_stays_for_its_lease),
    test!(a_mark_that_no_client_with_wire_renews_goes),
    test!(a_client_with_wire_waits_for_one_with_also),
    test!(a_mark_of_another_format_is_refused_and_leaves_nothing),
    test!(a_lost_key_or_mark_is_a_lost_lease),
    test!(a_process_that_was_killed_frees_both_after_its_ttl),
    test!(a_killed_client_stops_those_with_wire_for_its_ttl_alone),
    test!(an_acquire_that_finds_a_foreign_value_marks_nothing),
    test!(a_waiter_that_leaves_frees_the_foreign_key),
    test!(a_mark_outlives_a_long_lease),
    test!(tokens_grow_between_a_step_and_its_neighbours),
    test!(eight_processes_move_from_redis_py_one_after_the_other),
];

/// What a URL with `also` opens.
async fn backend(url: &str, options: &str) -> AlsoBackend {
    let parse = |url: String| StoreUrl::parse(&url).unwrap();
    let foreign = parse(format!("{url}?wire={options}"));
    let foreign = leasehold_redis::connect_with_wire(foreign).await.unwrap().beside_native();
    let foreign = Arc::new(foreign);
    let native = leasehold_redis::connect(parse(url.to_owned())).await.unwrap();
    let mark: Arc<dyn Mark> = foreign.clone();
    AlsoBackend::new(foreign, Arc::new(native), Some(mark))
}

async fn also(server: &RedisServer, options: &str) -> Client {
    Client::new(Arc::new(backend(&server.url(), options).await)).unwrap()
}

/// Whether a client without an option is refused by a mark.
async fn is_refused(native: &Client, name: &str) -> bool {
    match native.lock(name).try_acquire().await {
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Foreign, "{error}");
            assert!(error.to_string().contains("option wire"), "{error}");
            true
        }
        Ok(guard) => {
            if let Some(guard) = guard {
                guard.release().await.unwrap();
            }
            false
        }
    }
}

const RECORD: &str = "leasehold:{a}";

fn has_record(server: &RedisServer) -> bool {
    shown(server, &["GETRANGE", RECORD, "0", "1"]) == "L1"
}

/// Goes to the time at which no client with `wire` has been seen for five minutes.
fn pass_five_minutes(server: &RedisServer, record: &str, format: &str) {
    let text = format!("leasehold wire also:{:016}:{format}", 0);
    server.admin(&["SET", record, &text, "XX", "KEEPTTL"]).unwrap();
}

async fn both_keys_are_held_and_freed() {
    let server = plain();
    let native = connect(&server.url()).await;
    for (format, key) in [("set-nx", "a"), ("redisson", "a"), ("set-nx&key-prefix=p:", "p:a")] {
        server.admin(&["FLUSHALL"]).unwrap();
        let client = also(&server, format).await;
        let guard = client.lock("a").acquire().await.unwrap();
        assert_eq!(number(&server, &["EXISTS", key]), 1);
        assert!(native.lock("a").try_acquire().await.unwrap().is_none());
        let status = native.lock("a").status().await.unwrap();
        assert_eq!(status.token, Some(guard.token()), "the token is the native one");
        assert_eq!(client.lock("a").status().await.unwrap().token, Some(guard.token()));
        let waiting = {
            let lock = native.lock("a");
            tokio::spawn(async move { lock.acquire_within(secs(60)).await })
        };
        guard.release().await.unwrap();
        assert_eq!(number(&server, &["EXISTS", key]), 0);
        let theirs = waiting.await.unwrap().unwrap();
        assert!(client.lock("a").try_acquire().await.unwrap().is_none());
        assert_eq!(number(&server, &["EXISTS", key]), 0, "{key} is given back");
        let waiting = {
            let lock = client.lock("a");
            tokio::spawn(async move { lock.acquire_within(secs(60)).await })
        };
        until("the foreign lock is taken first", || async {
            number(&server, &["EXISTS", key]) == 1
        })
        .await
        .unwrap();
        theirs.release().await.unwrap();
        waiting.await.unwrap().unwrap().release().await.unwrap();
    }
}

async fn a_mark_of_its_format_is_accepted_and_stays_for_its_lease() {
    let server = plain();
    let native = connect(&server.url()).await;
    for format in ["set-nx", "redisson"] {
        server.admin(&["FLUSHALL"]).unwrap();
        let marking = wire(&server, &format!("wire={format}")).await;
        marking.lock("a").acquire().await.unwrap().release().await.unwrap();
        // The last client with wire was here five minutes ago, but for a moment.
        server.admin(&["PEXPIRE", RECORD, "20000"]).unwrap();
        let client = also(&server, format).await;
        let lock = client.lock("a").ttl(secs(30)).renew_after(ms(200));
        let guard = lock.acquire().await.unwrap();
        assert!(number(&server, &["PTTL", RECORD]) > 20_000, "as long as the lease");
        assert!(is_refused(&native, "a").await);
        assert!(marking.lock("a").try_acquire().await.unwrap().is_none());
        let deadline = guard.deadline();
        until("it is renewed", || async { guard.deadline() != deadline }).await.unwrap();
        assert_eq!(lock.status().await.unwrap().token, Some(guard.token()));
        guard.release().await.unwrap();
        assert!(is_refused(&native, "a").await, "the mark still lasts");
        let theirs = marking.lock("a").try_acquire().await.unwrap().unwrap();
        assert!(client.lock("a").try_acquire().await.unwrap().is_none());
        theirs.release().await.unwrap();
    }
}

async fn a_mark_that_no_client_with_wire_renews_goes() {
    let server = plain();
    let native = connect(&server.url()).await;
    let marking = wire(&server, "wire=set-nx").await;
    marking.lock("a").acquire().await.unwrap().release().await.unwrap();
    let client = also(&server, "set-nx").await;
    let guard = client.lock("a").renew_after(ms(200)).acquire().await.unwrap();
    let before = guard.token();
    pass_five_minutes(&server, RECORD, "set-nx");
    let deadline = guard.deadline();
    until("it is renewed", || async { guard.deadline() != deadline }).await.unwrap();
    assert!(is_refused(&native, "a").await, "the holder relies on the mark");
    guard.release().await.unwrap();
    let guard = client.lock("a").acquire().await.unwrap();
    assert!(has_record(&server) && guard.token() > before);
    assert!(!is_refused(&native, "a").await);
    guard.release().await.unwrap();
    // A client with wire that comes again, as in a rollback, marks it again.
    let theirs = marking.lock("a").acquire().await.unwrap();
    theirs.release().await.unwrap();
    let marking = wire(&server, "wire=set-nx").await;
    marking.lock("a").acquire().await.unwrap().release().await.unwrap();
    assert!(is_refused(&native, "a").await);
    client.lock("a").acquire().await.unwrap().release().await.unwrap();
}

async fn a_client_with_wire_waits_for_one_with_also() {
    let server = plain();
    let native = connect(&server.url()).await;
    for format in ["set-nx", "redisson"] {
        server.admin(&["FLUSHALL"]).unwrap();
        let client = also(&server, format).await;
        let guard = client.lock("a").acquire().await.unwrap();
        assert!(has_record(&server), "there was no mark");
        let marking = wire(&server, &format!("wire={format}")).await;
        assert!(marking.lock("a").try_acquire().await.unwrap().is_none(), "no error");
        let waiting = {
            let lock = marking.lock("a");
            tokio::spawn(async move { lock.acquire_within(secs(60)).await })
        };
        guard.release().await.unwrap();
        let theirs = waiting.await.unwrap().unwrap();
        assert!(is_refused(&native, "a").await);
        theirs.release().await.unwrap();
        // With the native lock alone it is an error.
        server.admin(&["FLUSHALL"]).unwrap();
        let ours = native.lock("a").acquire().await.unwrap();
        let marking = wire(&server, &format!("wire={format}")).await;
        let error = marking.lock("a").acquire().await.unwrap_err();
        assert!(error.to_string().contains("without the option wire"), "{error}");
        assert_eq!(number(&server, &["EXISTS", "a"]), 0);
        ours.release().await.unwrap();
    }
}

async fn a_mark_of_another_format_is_refused_and_leaves_nothing() {
    let server = plain();
    wire(&server, "wire=set-nx").await.lock("a").acquire().await.unwrap().release().await.unwrap();
    for format in ["redisson", "set-nx&key-prefix=p:"] {
        let client = also(&server, format).await;
        let error = client.lock("a").try_acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Foreign, "{error}");
        assert!(error.to_string().contains("wire=set-nx"), "{error}");
        assert_eq!(number(&server, &["EXISTS", "a", "p:a"]), 0);
    }
    // A name of another kind is refused too, without a mark.
    server.admin(&["DEL", RECORD]).unwrap();
    server.admin(&["RPUSH", RECORD, "x"]).unwrap();
    let client = also(&server, "set-nx").await;
    let error = client.lock("a").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Foreign, "{error}");
    assert_eq!(number(&server, &["EXISTS", "a"]), 0);
}

async fn a_lost_key_or_mark_is_a_lost_lease() {
    let server = plain();
    for (is_marked, key) in [(false, "a"), (false, RECORD), (true, "a"), (true, RECORD)] {
        server.admin(&["FLUSHALL"]).unwrap();
        if is_marked {
            let marking = wire(&server, "wire=set-nx").await;
            marking.lock("a").acquire().await.unwrap().release().await.unwrap();
        }
        let client = also(&server, "set-nx").await;
        let guard = client.lock("a").renew_after(ms(200)).acquire().await.unwrap();
        server.admin(&["DEL", key]).unwrap();
        guard.lost().await;
        guard.release().await.unwrap_err();
        until("neither is kept", || async {
            let status = client.lock("a").status().await.unwrap();
            status.state == State::Free && number(&server, &["EXISTS", "a"]) == 0
        })
        .await
        .unwrap();
    }
}

async fn a_process_that_was_killed_frees_both_after_its_ttl() {
    let server = plain();
    let name = Name::new("a").unwrap();
    for is_marked in [false, true] {
        let (native, marking) = (connect(&server.url()).await, wire(&server, "wire=set-nx").await);
        server.admin(&["FLUSHALL"]).unwrap();
        if is_marked {
            marking.lock("a").acquire().await.unwrap().release().await.unwrap();
        }
        let killed = backend(&server.url(), "set-nx").await;
        let attempt = AttemptId::new(ClientId::from_bits(7), 1, 0);
        let request = AcquireRequest::new(name.clone(), attempt, secs(1));
        assert!(matches!(killed.acquire(request).await.unwrap(), Answer::Granted(_)));
        drop(killed);
        let client = also(&server, "set-nx").await;
        client.lock("a").acquire_within(secs(60)).await.unwrap().release().await.unwrap();
        if is_marked {
            assert!(is_refused(&native, "a").await);
        } else {
            native.lock("a").acquire_within(secs(60)).await.unwrap().release().await.unwrap();
        }
        marking.lock("a").acquire_within(secs(60)).await.unwrap().release().await.unwrap();
    }
}

/// No client comes in between that would clean up.
async fn a_killed_client_stops_those_with_wire_for_its_ttl_alone() {
    let server = plain();
    let name = Name::new("a").unwrap();
    for option in [None, Some("set-nx"), Some("redisson")] {
        server.admin(&["FLUSHALL"]).unwrap();
        let attempt = AttemptId::new(ClientId::from_bits(7), 1, 0);
        let request = AcquireRequest::new(name.clone(), attempt, secs(1));
        let killed: Box<dyn Backend> = match option {
            Some(format) => Box::new(backend(&server.url(), format).await),
            None => {
                let url = StoreUrl::parse(&server.url()).unwrap();
                Box::new(leasehold_redis::connect(url).await.unwrap())
            }
        };
        assert!(matches!(killed.acquire(request).await.unwrap(), Answer::Granted(_)));
        drop(killed);
        let format = format!("wire={}", option.unwrap_or("set-nx"));
        let marking = wire(&server, &format).await;
        until("it has the lock", || async {
            match marking.lock("a").try_acquire().await {
                Ok(guard) => guard.is_some(),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Foreign, "{error}");
                    false
                }
            }
        })
        .await
        .unwrap();
        // Then clients without the option are refused.
        assert!(is_refused(&connect(&server.url()).await, "a").await);
    }
}

async fn an_acquire_that_finds_a_foreign_value_marks_nothing() {
    let server = plain();
    server.admin(&["SET", "a", "0123456789abcdef0123456789abcdef"]).unwrap();
    let mistaken = wire(&server, "wire=redisson").await;
    let error = mistaken.lock("a").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Foreign);
    server.admin(&["DEL", "a"]).unwrap();
    let right = wire(&server, "wire=set-nx").await;
    right.lock("a").try_acquire().await.unwrap().unwrap().release().await.unwrap();
    let error = mistaken.lock("a").try_acquire().await.unwrap_err();
    assert!(error.to_string().contains("wire=set-nx use the lock a"), "{error}");
    assert!(error.to_string().contains("this client, of redisson,"), "{error}");
}

async fn a_waiter_that_leaves_frees_the_foreign_key() {
    let server = plain();
    let native = connect(&server.url()).await;
    let guard = native.lock("a").acquire().await.unwrap();
    let client = also(&server, "set-nx").await;
    let lock = client.lock("a");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    until("it waits", || async { number(&server, &["ZCARD", "leasehold:{a}:q"]) == 1 })
        .await
        .unwrap();
    waiting.abort();
    until("both are free of it", || async {
        let queue = number(&server, &["EXISTS", "leasehold:{a}:q"]);
        (queue, number(&server, &["EXISTS", "a"])) == (0, 0)
    })
    .await
    .unwrap();
    let error = client.lock("a").acquire_within(ms(300)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    client.settle().await;
    assert_eq!(number(&server, &["EXISTS", "a"]), 0);
    guard.release().await.unwrap();
}

async fn a_mark_outlives_a_long_lease() {
    let server = plain();
    let client = wire(&server, "wire=set-nx").await;
    let guard = client.lock("a").ttl(secs(3600)).acquire().await.unwrap();
    assert!(number(&server, &["PTTL", RECORD]) > 3_600_000);
    guard.release().await.unwrap();
    client.lock("a").acquire().await.unwrap().release().await.unwrap();
    assert!(number(&server, &["PTTL", RECORD]) > 3_600_000, "it is not shortened");
}

async fn tokens_grow_between_a_step_and_its_neighbours() {
    let server = plain();
    let native = connect(&server.url()).await;
    for format in ["redisson", "set-nx", "rueidis&majority=2"] {
        server.admin(&["FLUSHALL"]).unwrap();
        let both = also(&server, format).await;
        let mut last = 0;
        for step in ["also", "wire", "mark ends", "also", "wire", "also", "unused", "also"]
            .into_iter()
            .chain(["also", "native", "also", "wire", "wire", "also"])
        {
            let marking = wire(&server, &format!("wire={format}")).await;
            let client = match step {
                "also" => &both,
                "wire" => &marking,
                "native" => &native,
                "unused" => {
                    pass_five_minutes(&server, RECORD, format);
                    continue;
                }
                _ => {
                    server.admin(&["DEL", RECORD]).unwrap();
                    continue;
                }
            };
            let guard = client.lock("a").acquire_within(secs(60)).await.unwrap();
            let token = guard.token().get();
            assert!(token > last, "{format}, {step}: {last} and then {token}");
            assert_eq!(client.lock("a").status().await.unwrap().token, Some(guard.token()));
            last = token;
            guard.release().await.unwrap();
        }
        if format == "redisson" {
            let theirs = number(&server, &["INCR", "redisson_lock_token:{a}"]) as u64;
            assert!(theirs > last, "RFencedLock: {last} and then {theirs}");
        }
    }
}
