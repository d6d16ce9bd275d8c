//! Lists of nodes that are not a quorum: refused at connect, with the node and what to do.

use leasehold_conformance::until;
use leasehold_core::clock::Clock;
use leasehold_core::{Error, ErrorKind};
use leasehold_test_servers::{Proxy, RedisServer, RedisSettings};

use super::{Servers, connect, try_connect};
use crate::{Test, secs, test};

pub(crate) const TESTS: &[Test] = &[
    test!(a_ttl_above_the_longest_of_the_nodes_is_refused),
    test!(a_reader_is_refused_with_the_reason),
    test!(a_permit_is_refused_with_the_reason),
    test!(a_latch_is_refused_with_the_reason),
    test!(one_server_under_two_addresses_is_refused),
    test!(one_node_that_cannot_take_part_is_refused_with_what_to_do),
    test!(a_node_whose_eviction_policy_changes_loses_its_vote_when_it_is_looked_at),
    test!(a_node_that_evicts_is_not_admitted_after_its_wait),
    test!(one_node_with_other_credentials_is_named_and_they_are_not),
    test!(an_even_number_of_nodes_is_warned_of),
    test!(a_majority_that_nobody_answers_for_is_refused_and_a_minority_warned_of),
];

#[track_caller]
fn says(error: &Error, kind: ErrorKind, parts: &[&str]) {
    let text = error.to_string();
    assert_eq!(error.kind(), kind, "{text}");
    for part in parts {
        assert!(text.contains(part), "no {part:?} in {text:?}");
    }
}

/// The same nodes, with another node in the last place.
fn with_last(servers: &Servers, other: &str) -> String {
    let last = servers.0.last().unwrap().address().to_string();
    servers.url("max-ttl=2s&node-limit=200ms").replace(&last, other)
}

async fn a_ttl_above_the_longest_of_the_nodes_is_refused() {
    let (_servers, url) = Servers::founded(3).await;
    let error = connect(&url).await.lock("a").ttl(secs(3)).try_acquire().await.unwrap_err();
    says(
        &error,
        ErrorKind::Invalid,
        &[
            "ttl: 3s is more than max-ttl=2s, the longest that these nodes grant; use at most 2s",
            "--max-ttl",
        ],
    );
}

async fn a_reader_is_refused_with_the_reason() {
    let (_servers, url) = Servers::founded(3).await;
    let client = connect(&url).await;
    let lock = client.rw_lock("a").ttl(secs(1));
    for error in [
        lock.read().await.err(),
        lock.try_read().await.err(),
        lock.write().await.err(),
        lock.try_write().await.err(),
    ] {
        let parts = [
            "redlock: has no read-write locks",
            "no protocol yet agrees on it over a majority",
            "Client::lock",
            "another store",
        ];
        says(&error.unwrap(), ErrorKind::Unsupported, &parts);
    }
    // Nothing was sent: the lock is free.
    client.lock("a").ttl(secs(1)).try_acquire().await.unwrap().unwrap().release().await.unwrap();
}

async fn a_permit_is_refused_with_the_reason() {
    let (_servers, url) = Servers::founded(3).await;
    let semaphore = connect(&url).await.semaphore("a", 2).ttl(secs(1));
    for error in [
        semaphore.acquire().await.err(),
        semaphore.try_acquire().await.err(),
        semaphore.limit().await.err(),
        semaphore.set_limit(3).await.err(),
    ] {
        let parts = ["redlock: has no semaphores", "3 permits would fit", "another store"];
        says(&error.unwrap(), ErrorKind::Unsupported, &parts);
    }
}

async fn a_latch_is_refused_with_the_reason() {
    let (_servers, url) = Servers::founded(3).await;
    let latch = connect(&url).await.latch("a", 2);
    for error in [
        latch.count_down("one").await.err(),
        latch.wait().await.err(),
        latch.state().await.err(),
        latch.reset().await.err(),
    ] {
        let parts =
            ["redlock: has no latches", "a majority of servers does not count", "another store"];
        says(&error.unwrap(), ErrorKind::Unsupported, &parts);
    }
}

async fn one_server_under_two_addresses_is_refused() {
    let (servers, _) = Servers::founded(3).await;
    let proxy = Proxy::start(&servers.0[0]).unwrap();
    for other in [format!("localhost:{}", servers.0[0].port()), proxy.address().to_string()] {
        let error = try_connect(&with_last(&servers, &other)).await.unwrap_err();
        let first = servers.0[0].address().to_string();
        let parts = [&other, "is the same server as", &first, "each listed once"];
        says(&error, ErrorKind::Invalid, &parts);
    }
}

async fn one_node_that_cannot_take_part_is_refused_with_what_to_do() {
    let (servers, _) = Servers::founded(3).await;
    let first = &servers.0[0];
    for (settings, kind, what_to_do) in [
        (
            RedisSettings::new().max_memory(1 << 30, "allkeys-lru"),
            ErrorKind::Refused,
            "set maxmemory-policy noeviction",
        ),
        (RedisSettings::new().replica_of(first), ErrorKind::Refused, "name its master"),
        (RedisSettings::new().cluster(), ErrorKind::Unsupported, "cluster-enabled"),
        (RedisSettings::new().sentinel("main", first, 1), ErrorKind::Unsupported, "Sentinel"),
        (
            RedisSettings::new().password("s3cret"),
            ErrorKind::Refused,
            "the server requires a password",
        ),
    ] {
        let server = RedisServer::start(settings).unwrap();
        let place = server.address().to_string();
        let error = try_connect(&with_last(&servers, &place)).await.unwrap_err();
        says(&error, kind, &[&place, what_to_do]);
    }
}

fn evicts(server: &RedisServer, policy: &str) {
    server.admin(&["CONFIG", "SET", "maxmemory-policy", policy]).unwrap();
}

async fn a_node_whose_eviction_policy_changes_loses_its_vote_when_it_is_looked_at() {
    let (mut servers, url) = Servers::founded(3).await;
    let lock = connect(&url).await.lock("a").ttl(secs(2));
    lock.acquire_within(secs(10)).await.unwrap().release().await.unwrap();
    servers.0[2].kill();
    evicts(&servers.0[1], "allkeys-lru");
    // The client checks the node again at each new connection.
    servers.0[1].admin(&["CLIENT", "KILL", "TYPE", "normal"]).unwrap();
    servers.0[1].admin(&["CLIENT", "KILL", "TYPE", "pubsub"]).unwrap();
    let place = servers.0[1].address().to_string();
    let refused = async || match lock.try_acquire().await {
        Ok(guard) => {
            if let Some(guard) = guard {
                guard.release().await.ok();
            }
            false
        }
        Err(error) => {
            let text = error.to_string();
            text.contains(&place) && text.contains("maxmemory-policy is allkeys-lru")
        }
    };
    until("the node has no vote", refused).await.unwrap();
    evicts(&servers.0[1], "noeviction");
    super::comes_back(&lock).await.release().await.unwrap();
}

async fn a_node_that_evicts_is_not_admitted_after_its_wait() {
    let (mut servers, url) = Servers::founded(3).await;
    let _client = connect(&url).await;
    servers.0[2].restart_empty().unwrap();
    evicts(&servers.0[2], "volatile-lru");
    let voted =
        || servers.0[2].admin(&["GET", "leasehold:node"]).unwrap().text().starts_with("N2A");
    // The longest ttl is 2 s: a node that may vote would be admitted by then.
    let until_then = Clock::system();
    until_then.sleep(secs(4)).await;
    assert!(!voted(), "it votes, and evicts leases");
    evicts(&servers.0[2], "noeviction");
    until("it is admitted", || async { voted() }).await.unwrap();
}

async fn one_node_with_other_credentials_is_named_and_they_are_not() {
    let (servers, _) = Servers::founded(3).await;
    let locked = RedisServer::start(RedisSettings::new().password("s3cret")).unwrap();
    let place = locked.address().to_string();
    for secret in ["default:wr0ng", "nobody:wr0ng"] {
        let url = with_last(&servers, &format!("{secret}@{place}"));
        let error = try_connect(&url).await.unwrap_err();
        says(&error, ErrorKind::Refused, &[&place, "wrong user or password"]);
        assert!(!format!("{error} {error:?}").contains("wr0ng"), "{error:?}");
    }
    // The credentials of one node are its own.
    let url = with_last(&servers, &format!("default:s3cret@{place}"));
    let client = connect(&url).await;
    client.lock("a").ttl(secs(2)).acquire_within(secs(10)).await.unwrap().release().await.unwrap();
}

async fn an_even_number_of_nodes_is_warned_of() {
    let (_servers, url) = Servers::founded(4).await;
    let client = connect(&url).await;
    let warned = |text: &String| text.contains("4 nodes tolerate no more failures (1) than 3");
    assert!(client.warnings().iter().any(warned), "{:?}", client.warnings());
}

async fn a_majority_that_nobody_answers_for_is_refused_and_a_minority_warned_of() {
    let (mut servers, url) = Servers::founded(3).await;
    let place = |servers: &Servers, number: usize| servers.0[number].address().to_string();
    servers.0[2].kill();
    let client = connect(&url).await;
    let silent = format!("{} does not answer", place(&servers, 2));
    assert!(client.warnings().contains(&silent), "{:?}", client.warnings());
    servers.0[1].kill();
    let error = try_connect(&url).await.unwrap_err();
    let parts = ["1 of 3 nodes answer, 2 must", &place(&servers, 1), &place(&servers, 2)];
    says(&error, ErrorKind::Unavailable, &parts);
}
