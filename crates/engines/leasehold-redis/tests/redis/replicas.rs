//! Grants that replicas must have: grants that a failover could lose are refused.

use leasehold_conformance::until;
use leasehold_core::backend::{Backend, Event};
use leasehold_core::{ErrorKind, State, StoreUrl, Token};
use leasehold_test_servers::{
    ClockShim, Direction, Proxy, RedisCluster, RedisSentinels, RedisServer, RedisSettings,
};

use crate::crowd::Crowd;
use crate::side::{Side, release};
use crate::{Test, connect, everything_works, plain, secs, test, try_connect};

pub(crate) const TESTS: &[Test] = &[
    test!(a_grant_that_a_failover_could_lose_is_refused),
    test!(tokens_fall_over_a_failover_only_where_a_clock_is_far_behind_and_writes_are_lost),
    test!(a_grant_says_how_many_replicas_have_it),
    test!(what_replicas_have_is_forgotten_with_the_lease_though_no_end_is_answered),
    test!(waiters_get_only_what_replicas_have),
    test!(readers_and_writers_get_only_what_replicas_have),
    test!(a_permit_that_a_failover_could_lose_is_refused),
    test!(waiters_get_only_permits_that_replicas_have),
    test!(a_failover_under_load_loses_no_grant),
    test!(in_a_cluster_the_replicas_of_the_slot_count),
    test!(what_cannot_be_is_said_at_connect),
];

/// A master, the proxy to it for its replica, and the replica.
pub(crate) fn pair() -> (RedisServer, Proxy, RedisServer) {
    pair_with(RedisSettings::new())
}

fn pair_with(settings: RedisSettings) -> (RedisServer, Proxy, RedisServer) {
    let master = plain();
    let between = Proxy::opaque(&master).unwrap();
    let follow = format!("replicaof 127.0.0.1 {}", between.address().port());
    let replica = RedisServer::start(settings.line(follow)).unwrap();
    // Each notifies the other a little later.
    leasehold_test_servers::wait("the replica follows", || {
        replica.info("master_link_status").is_ok_and(|link| link == "up")
            && master.info("slave0").is_ok_and(|link| link.contains("state=online"))
    })
    .unwrap();
    (master, between, replica)
}

/// Waits until the replica has the lock's record as the master has it.
async fn replicated(master: &RedisServer, replica: &RedisServer) {
    let record = master.admin(&["GET", "leasehold:{a}"]).unwrap();
    let has_it = || async { replica.admin(&["GET", "leasehold:{a}"]).unwrap() == record };
    until("the replica has it", has_it).await.unwrap();
}

/// Two clients believe that they hold the lock, unless the first was refused.
async fn holders_after_a_failover(options: &str) -> usize {
    let (mut master, between, replica) = pair();
    let name = Proxy::start(&master).unwrap();
    let client = connect(&format!("{}{options}", name.url())).await;
    client.lock("a").acquire().await.unwrap().release().await.unwrap();
    // Otherwise the lock is held there for longer than the first holder's renewal period.
    replicated(&master, &replica).await;
    // From here on the replica receives nothing.
    between.cut(Direction::ServerToClient);
    let first = client.lock("a").ttl(secs(60)).acquire().await;
    if let Err(error) = &first {
        assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
        assert!(error.to_string().contains("0 replicas have acknowledged"), "{error}");
        let status = client.lock("a").status().await.unwrap();
        assert_eq!(status.state, State::Free, "it was given back");
    }
    master.kill();
    replica.admin(&["REPLICAOF", "NO", "ONE"]).unwrap();
    name.point_to(&replica);
    let second = connect(&name.url()).await.lock("a").acquire_within(secs(60)).await.unwrap();
    let first = first.iter().filter(|guard| guard.is_valid());
    first.map(|guard| assert!(second.token() > guard.token(), "tokens protect")).count() + 1
}

async fn a_grant_that_a_failover_could_lose_is_refused() {
    assert_eq!(holders_after_a_failover("").await, 2, "that is what it is for");
    assert_eq!(holders_after_a_failover("?replicas=1").await, 1);
    assert_eq!(holders_after_a_failover("?replicas=majority").await, 1);
}

/// Returns the tokens before and after a failover to a replica whose clock is this many seconds
/// behind.
async fn tokens_over_a_failover(shim: &ClockShim, behind: f64, lost: bool) -> (Token, Token) {
    shim.set_offset(-behind).unwrap();
    let (mut master, between, replica) = pair_with(shim.on(RedisSettings::new()));
    let token = async |server: &RedisServer| {
        let guard = connect(&server.url()).await.lock("a").acquire().await.unwrap();
        let token = guard.token();
        guard.release().await.unwrap();
        token
    };
    let replicated = async || replicated(&master, &replica).await;
    token(&master).await;
    // With the release: by this replica's clock the lease would last another hour.
    replicated().await;
    if lost {
        between.cut(Direction::ServerToClient);
    }
    let before = token(&master).await;
    if !lost {
        replicated().await;
    }
    master.kill();
    // The least time that a failover takes.
    tokio::time::sleep(secs(1)).await;
    replica.admin(&["REPLICAOF", "NO", "ONE"]).unwrap();
    (before, token(&replica).await)
}

async fn tokens_fall_over_a_failover_only_where_a_clock_is_far_behind_and_writes_are_lost() {
    let shim = ClockShim::build().unwrap();
    for (behind, lost, grows) in [(3600.0, false, true), (0.5, true, true), (3600.0, true, false)] {
        let (before, after) = tokens_over_a_failover(&shim, behind, lost).await;
        assert_eq!(after > before, grows, "{behind} s behind, lost {lost}: {before} {after}");
    }
}

async fn a_grant_says_how_many_replicas_have_it() {
    let (master, between, _replica) = pair();
    let url = format!("{}?replicas=1", master.url());
    everything_works(&url).await;
    let client = connect(&url).await;
    let guard = client.lock("a").acquire().await.unwrap();
    assert_eq!(guard.replicas(), Some(1));
    guard.release().await.unwrap();
    let plain = connect(&master.url()).await.lock("a").acquire().await.unwrap();
    assert_eq!(plain.replicas(), None);
    plain.release().await.unwrap();
    let forgotten = leasehold_redis::forget(StoreUrl::parse(&url).unwrap(), "all/").await;
    assert_eq!(forgotten.unwrap(), 39);
    between.cut(Direction::ServerToClient);
    assert_eq!(client.lock("a").acquire().await.unwrap_err().kind(), ErrorKind::Refused);
    between.heal();
    between.kill_connections();
    until("the replica follows again", || async {
        client.lock("a").try_acquire().await.is_ok_and(|guard| guard.is_some())
    })
    .await
    .unwrap();
}

async fn what_replicas_have_is_forgotten_with_the_lease_though_no_end_is_answered() {
    let (master, _between, _replica) = pair();
    let proxy = Proxy::start(&master).unwrap();
    let mut side = Side::connect(&format!("{}?replicas=1", proxy.url())).await;
    let request = side.request(secs(60));
    let grant = side.granted(&request).await;
    assert_eq!(side.backend.replicas(request.attempt), Some(1));
    proxy.refuse_connections(true).unwrap();
    proxy.kill_connections();
    while !matches!(side.next_event().await, Event::Broken) {}
    side.release(&release(&request, grant)).await.unwrap_err();
    assert_eq!(side.backend.replicas(request.attempt), None, "it would stay for ever");
}

async fn waiters_get_only_what_replicas_have() {
    let (master, between, _replica) = pair();
    let url = format!("{}?replicas=1", master.url());
    let (one, two) = (connect(&url).await, connect(&url).await);
    let wait = || {
        let lock = two.lock("a").ttl(secs(60));
        tokio::spawn(async move { lock.acquire_within(secs(60)).await })
    };
    let stands = || async {
        let queue = master.admin(&["ZCARD", "leasehold:{a}:q"]).unwrap();
        queue.integer() == Some(1)
    };
    let held = one.lock("a").ttl(secs(60)).acquire().await.unwrap();
    let waiting = wait();
    until("it stands in line", stands).await.unwrap();
    held.release().await.unwrap();
    let next = waiting.await.unwrap().unwrap();
    assert_eq!(next.replicas(), Some(1));
    next.release().await.unwrap();
    let held = one.lock("a").ttl(secs(60)).acquire().await.unwrap();
    let waiting = wait();
    until("it stands in line", stands).await.unwrap();
    between.cut(Direction::ServerToClient);
    held.release().await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap_err().kind(), ErrorKind::Refused);
    assert_eq!(one.lock("a").status().await.unwrap().state, State::Free);
}

/// Writers have leases in the record of readers: with readers before, behind and beside them.
async fn readers_and_writers_get_only_what_replicas_have() {
    let (master, between, _replica) = pair();
    let url = format!("{}?replicas=1", master.url());
    let (one, two, three) = (connect(&url).await, connect(&url).await, connect(&url).await);
    let lock = |client: &leasehold_core::Client| client.rw_lock("a").ttl(secs(60));
    let queued = |number: i64| {
        let count = |key: &str| master.admin(&["ZCARD", key]).unwrap().integer().unwrap();
        let all = move || count("leasehold:{a}:q") + count("leasehold:{a}:r");
        until("it stands in line", move || {
            let all = all();
            async move { all == number }
        })
    };
    let read = lock(&one).read().await.unwrap();
    assert_eq!(read.replicas(), Some(1));
    let waiting = lock(&two);
    let writer = tokio::spawn(async move { waiting.write_within(secs(60)).await });
    queued(1).await.unwrap();
    let waiting = lock(&three);
    let reader = tokio::spawn(async move { waiting.read_within(secs(60)).await });
    queued(2).await.unwrap();
    read.release().await.unwrap();
    let write = writer.await.unwrap().unwrap();
    assert_eq!(write.replicas(), Some(1));
    let read = write.downgrade().await.unwrap();
    assert_eq!(read.replicas(), Some(1));
    let other = reader.await.unwrap().unwrap();
    assert_eq!(other.token(), read.token(), "one phase");
    other.release().await.unwrap();
    let write = read.try_upgrade().await.unwrap();
    let leasehold_core::Upgraded::Write(write) = write else { panic!("no other client reads") };
    assert_eq!(write.replicas(), Some(1));
    write.release().await.unwrap();

    between.cut(Direction::ServerToClient);
    for error in [lock(&one).try_read().await.err(), lock(&two).try_write().await.err()] {
        assert_eq!(error.unwrap().kind(), ErrorKind::Refused);
    }
    assert_eq!(one.lock("a").status().await.unwrap().state, State::Free, "it was given back");
}

async fn a_permit_that_a_failover_could_lose_is_refused() {
    for (options, holders) in [("", 2), ("?replicas=1", 1), ("?replicas=majority", 1)] {
        let (mut master, between, replica) = pair();
        let name = Proxy::start(&master).unwrap();
        let client = connect(&format!("{}{options}", name.url())).await;
        let semaphore = client.semaphore("a", 1).ttl(secs(60));
        semaphore.acquire().await.unwrap().release().await.unwrap();
        replicated(&master, &replica).await;
        between.cut(Direction::ServerToClient);
        let first = semaphore.acquire().await;
        if let Err(error) = &first {
            assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
            assert!(error.to_string().contains("0 replicas have acknowledged"), "{error}");
            let permits = semaphore.status().await.unwrap().permits.unwrap();
            assert_eq!(permits.held, 0, "it was given back");
        }
        master.kill();
        replica.admin(&["REPLICAOF", "NO", "ONE"]).unwrap();
        name.point_to(&replica);
        let semaphore = connect(&name.url()).await.semaphore("a", 1);
        let second = semaphore.acquire_within(secs(60)).await.unwrap();
        let valid = first.iter().filter(|permit| permit.is_valid());
        let valid = valid.map(|permit| assert!(second.token() > permit.token(), "tokens protect"));
        assert_eq!(valid.count() + 1, holders, "{options}");
    }
}

async fn waiters_get_only_permits_that_replicas_have() {
    let (master, between, _replica) = pair();
    let url = format!("{}?replicas=1", master.url());
    let (one, two) = (connect(&url).await, connect(&url).await);
    let semaphore = one.semaphore("a", 2).ttl(secs(60));
    let wait = || {
        let semaphore = two.semaphore("a", 2).ttl(secs(60));
        tokio::spawn(async move { semaphore.acquire_many_within(2, secs(60)).await })
    };
    let waits = || async {
        let queue = master.admin(&["ZCARD", "leasehold:{a}:pq"]).unwrap();
        queue.integer() == Some(1)
    };
    let held = semaphore.acquire().await.unwrap();
    let waiting = wait();
    until("it waits", waits).await.unwrap();
    held.release().await.unwrap();
    let next = waiting.await.unwrap().unwrap();
    assert_eq!(next.slots(), [0, 1]);
    next.release().await.unwrap();
    let held = semaphore.acquire().await.unwrap();
    let waiting = wait();
    until("it waits", waits).await.unwrap();
    between.cut(Direction::ServerToClient);
    held.release().await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap_err().kind(), ErrorKind::Refused);
    assert_eq!(semaphore.status().await.unwrap().permits.unwrap().held, 0);
}

async fn a_failover_under_load_loses_no_grant() {
    let mut all = RedisSentinels::start(RedisSettings::new(), RedisSettings::new()).unwrap();
    let crowd = Crowd::start(&format!("{}?replicas=majority", all.url()), 20, &["a".into()]).await;
    crowd.progress(50).await;
    crowd.stay().await;
    all.servers[0].kill();
    all.master_after(0).unwrap();
    crowd.leave();
    crowd.progress(50).await;
    let seen = crowd.stop().await;
    println!("sentinel, replicas=majority, master killed under 20 clients: {seen:?}");
    assert_eq!((seen.overlaps, seen.fallen), (0, 0), "{seen:?}");
}

async fn in_a_cluster_the_replicas_of_the_slot_count() {
    let mut cluster = RedisCluster::start(RedisSettings::new()).unwrap();
    let url = format!("{}?replicas=majority", cluster.url());
    everything_works(&url).await;
    let client = connect(&url).await;
    let names = ["a", "b", "c", "d", "e", "f"];
    for name in names {
        let guard = client.lock(name).acquire().await.unwrap();
        assert_eq!(guard.replicas(), Some(1));
        guard.release().await.unwrap();
    }
    // The replica of one master is down: only its slots are refused.
    cluster.nodes[3].kill();
    let mut refused = 0;
    for name in names {
        let slot = usize::from(cluster.slot(&format!("leasehold:{{{name}}}")).unwrap());
        let there = RedisCluster::range(0).contains(&slot);
        let guard = client.lock(name).acquire().await;
        assert_eq!(guard.is_err(), there, "{name}: {guard:?}");
        refused += usize::from(there);
    }
    assert!((1..names.len()).contains(&refused), "{refused}");
}

async fn what_cannot_be_is_said_at_connect() {
    let server = plain();
    let majority = format!("{}?replicas=majority", server.url());
    let error = try_connect(&majority).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert!(error.to_string().contains("no known replicas"), "{error}");
    let error = try_connect(&format!("{}?replicas=some", server.url())).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    let client = connect(&format!("{}?replicas=1", server.url())).await;
    let error = client.lock("a").acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
}
