//! Nodes with wrong clocks, busy nodes, and nodes over TLS with their own credentials.

use std::pin::pin;
use std::sync::Arc;

use leasehold_conformance::until;
use leasehold_core::backend::Origin;
use leasehold_core::clock::Clock;
use leasehold_core::proto::quorum::{NodeReply, Op, Task, TaskReply};
use leasehold_core::{AttemptId, ClientId, Guard, Lock, Name};
use leasehold_quorum::{Founding, Step};
use leasehold_test_servers::{Busy, Certificates, ClockShim, RedisServer, RedisSettings};

use super::{Servers, connect, init, nodes, try_connect, votes};
use crate::{Test, ms, secs, test};

pub(crate) const TESTS: &[Test] = &[
    test!(tokens_of_one_server_with_admission_rest_on_its_own_clock),
    test!(a_node_whose_clock_jumps_gives_the_lock_to_nobody_else),
    test!(most_nodes_whose_clocks_jump_give_growing_tokens_all_the_same),
    test!(an_answer_that_came_while_the_client_was_kept_from_running_counts),
    test!(busy_nodes_have_no_vote_and_come_back),
    test!(nodes_are_reached_over_tls_by_users_with_no_more_rights_than_it_takes, OpenSsl),
];

/// Waits until the lock can be acquired; tries again after a refusal.
async fn held(lock: &Lock) -> Guard {
    super::comes_back(lock).await
}

async fn tokens_of_one_server_with_admission_rest_on_its_own_clock() {
    let shim = ClockShim::build().unwrap();
    shim.set_offset(-1800.0).unwrap();
    let mut server = RedisServer::start(shim.on(RedisSettings::new())).unwrap();
    let url = format!("{}?admission=strict&max-ttl=1s&node-limit=200ms", server.url());
    let before = Clock::system().now().unix_us();
    let lock = connect(&url).await.lock("a").ttl(ms(900));
    let mut last = 0;
    for _ in 0..2 {
        let guard = held(&lock).await;
        let token = guard.token().get();
        assert!(token > last);
        // A clock an hour ahead of the server's would be refused at once, and mislead others.
        assert!(token < before - 1_000_000_000, "{token} is not by the server's clock");
        last = token;
        guard.release().await.unwrap();
        server.restart_empty().unwrap();
    }
}

/// Three nodes, each with its own wall clock.
async fn with_clocks() -> (Vec<ClockShim>, Servers, String) {
    let shims: Vec<ClockShim> = (0..3).map(|_| ClockShim::build().unwrap()).collect();
    let start = |shim: &ClockShim| RedisServer::start(shim.on(RedisSettings::new())).unwrap();
    let servers = Servers(shims.iter().map(start).collect());
    let url = servers.url("max-ttl=20s&node-limit=500ms");
    init(&url, Founding::Vouched).await;
    (shims, servers, url)
}

async fn a_node_whose_clock_jumps_gives_the_lock_to_nobody_else() {
    let (shims, servers, url) = with_clocks().await;
    let (one, two) = (connect(&url).await, connect(&url).await);
    let guard = one.lock("a").ttl(secs(20)).acquire_within(secs(20)).await.unwrap();
    everywhere(&servers).await;
    // The lease has ended there, and on no other node.
    shims[0].set_offset(600.0).unwrap();
    assert!(two.lock("a").ttl(secs(20)).try_acquire().await.unwrap().is_none());
    assert!(guard.is_valid());
    // And back, further than proposals may be ahead: the others continue without it.
    shims[0].set_offset(-7200.0).unwrap();
    let first = guard.token();
    guard.release().await.unwrap();
    let next = held(&two.lock("a").ttl(secs(20))).await;
    assert!(next.token() > first);
}

async fn most_nodes_whose_clocks_jump_give_growing_tokens_all_the_same() {
    let (shims, servers, url) = with_clocks().await;
    let (one, two) = (connect(&url).await, connect(&url).await);
    // Not renewed: a renewal would restore the lease that the jump ended.
    let guard = one.lock("a").lease(secs(20)).acquire_within(secs(20)).await.unwrap();
    everywhere(&servers).await;
    for shim in &shims[..2] {
        shim.set_offset(600.0).unwrap();
    }
    // Exclusion is not guaranteed then; the order of tokens is.
    let next = held(&two.lock("a").ttl(secs(20))).await;
    assert!(next.token() > guard.token());
}

/// On a separate runtime with one thread, as `main` has in many programs.
async fn an_answer_that_came_while_the_client_was_kept_from_running_counts() {
    let (servers, url) = Servers::founded(1).await;
    let client = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let node = nodes(&url).0.remove(0);
            let TaskReply::Look(look) = node.task(Task::Look).await else { panic!("no answer") };
            let steps = |limit| {
                let attempt = AttemptId::new(ClientId::from_bits(1), 1, 0);
                let op = Op::Release { attempt };
                let origin = Arc::new(Origin::new("", 0, None));
                let name = Name::new("a").unwrap();
                node.steps(look.process, vec![Step::new(name, op, origin)], limit)
            };
            assert_eq!(steps(secs(20)).await, [NodeReply::NotHeld]);
            servers.0[0].stop().unwrap();
            let mut asking = pin!(steps(ms(20)));
            for _ in 0..20 {
                tokio::select! {
                    biased;
                    replies = &mut asking => panic!("{replies:?}"),
                    () = tokio::task::yield_now() => {}
                }
            }
            servers.0[0].resume().unwrap();
            // No task of this runtime can run, and the server answers.
            std::thread::sleep(secs(1));
            assert_eq!(asking.await, [NodeReply::NotHeld]);
        });
    });
    client.join().unwrap();
}

async fn busy_nodes_have_no_vote_and_come_back() {
    let (servers, url) = Servers::founded(3).await;
    let client = connect(&url).await;
    let lock = client.lock("a").ttl(secs(2));
    let busy = servers.0[0].make_busy().unwrap();
    held(&lock).await.release().await.unwrap();
    let more: Busy<'_> = servers.0[1].make_busy().unwrap();
    // The third reports that it is busy until the previous release has reached it.
    let refused = || async {
        let Err(error) = lock.try_acquire().await.map(|held| assert!(held.is_none())) else {
            return false;
        };
        assert!(error.to_string().contains(&servers.0[1].address().to_string()), "{error}");
        true
    };
    until("the busy ones are missed", refused).await.unwrap();
    drop((busy, more));
    let guard = held(&lock).await;
    everywhere(&servers).await;
    drop(guard);
}

/// Waits until all nodes have the lease: a slow node may get it later.
async fn everywhere(servers: &Servers) {
    until("all nodes have it", || async {
        let leased = |server: &RedisServer| {
            let record = server.admin(&["GETRANGE", "leasehold:{a}", "53", "68"]).unwrap().text();
            record.parse::<u64>().is_ok_and(|end| end > 0)
        };
        servers.0.iter().all(leased)
    })
    .await
    .unwrap();
}

async fn nodes_are_reached_over_tls_by_users_with_no_more_rights_than_it_takes() {
    let certificates = Certificates::make().unwrap();
    let rights = "on >s3cret ~leasehold:* &leasehold:* -@all +evalsha +script|load +get +set +mget \
        +setrange +time +publish +subscribe +unsubscribe +exists +pexpire +zadd +zrem +zrange \
        +zrank +zscore +zremrangebyscore +zcard +unlink +scan +ping +hello +auth +select +getrange +info \
        +zpopmin";
    let settings = RedisSettings::new().tls(&certificates).user("app", rights);
    let servers: Vec<RedisServer> =
        (0..3).map(|_| RedisServer::start(settings.clone()).unwrap()).collect();
    let places: Vec<String> = servers
        .iter()
        .map(|server| format!("localhost:{}", server.tls_address().unwrap().port()))
        .collect();
    let url = |login: &str, certificate: &str| {
        let (ca, places) = (certificates.authority(), places.join(","));
        let ca = ca.display();
        format!("redlocks://{login}@{places}?tls-ca={ca}{certificate}&max-ttl=2s&node-limit=500ms")
    };
    let (certificate, key) = (certificates.client(), certificates.client_key());
    let known = format!("&tls-cert={}&tls-key={}", certificate.display(), key.display());
    let good = url("app:s3cret", &known);
    assert_eq!(votes(&init(&good, Founding::Vouched).await), 3);
    let (one, two) = (connect(&good).await, connect(&good).await);
    let guard = one.lock("a").ttl(secs(2)).acquire_within(secs(20)).await.unwrap();
    let lock = two.lock("a").ttl(secs(2));
    let waiting = tokio::spawn(async move { lock.acquire_within(secs(20)).await });
    // The release then does all that it can: it notifies the waiter, and notes the client that releases.
    let noted = |server: &RedisServer| server.admin(&["EXISTS", "leasehold:{a}:w"]).unwrap();
    let all_noted = || async { servers.iter().all(|server| noted(server).integer() == Some(1)) };
    until("each node has noted the waiter", all_noted).await.unwrap();
    let first = guard.token();
    guard.release().await.unwrap();
    assert!(waiting.await.unwrap().unwrap().token() > first);
    // Without a certificate, or with a wrong password, the error names the node.
    for bad in [url("app:s3cret", ""), url("app:wr0ng", &known)] {
        let error = try_connect(&bad).await.unwrap_err().to_string();
        assert!(error.contains("localhost:") && !error.contains("wr0ng"), "{error}");
    }
}
