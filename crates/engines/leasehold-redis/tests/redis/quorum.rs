//! Locks over a majority of real servers that stop, restart, lose data, refuse and are full.

pub(crate) mod down;
pub(crate) mod faults;
pub(crate) mod init;
pub(crate) mod refused;

use std::sync::Arc;
use std::time::Duration;

use leasehold_conformance::until;
use leasehold_core::clock::Clock;
use leasehold_core::{Client, Error, ErrorKind, Forced, Guard, Lock, LossReason, State, StoreUrl};
use leasehold_quorum::{Founding, Member, Membership, QuorumBackend, QuorumNode, found, members};
use leasehold_test_servers::{ClockShim, RedisServer, RedisSettings};

use crate::{Test, ms, plain, secs, test};

pub(crate) const TESTS: &[Test] = &[
    test!(a_lock_passes_from_client_to_client_with_growing_tokens),
    test!(a_waiter_is_woken_by_the_release),
    test!(a_first_start_needs_init),
    test!(a_node_that_forgot_has_no_vote_until_its_leases_are_over),
    test!(a_node_that_restarts_with_its_data_waits_too),
    test!(when_most_nodes_forgot_nobody_is_let_in_before_init_after_loss),
    test!(one_server_with_admission_is_out_after_it_forgot),
    test!(tokens_grow_after_one_server_starts_again_with_older_data),
    test!(forget_keeps_the_record_of_a_lock_that_was_used_in_the_last_minute),
    test!(stopped_and_killed_nodes_do_not_keep_a_majority_from_granting),
    test!(full_nodes_still_renew_and_let_go),
    test!(scripts_that_were_flushed_are_loaded_again_and_applied_once),
    test!(loading_and_demoted_nodes_have_no_vote),
    test!(what_is_not_ours_is_left_alone_and_harms_no_other),
    test!(the_status_names_the_holder_and_force_ends_its_lease),
];

struct Servers(Vec<RedisServer>);

impl Servers {
    fn start(count: usize) -> Self {
        Self((0..count).map(|_| plain()).collect())
    }

    fn url(&self, options: &str) -> String {
        let places: Vec<String> =
            self.0.iter().map(|server| server.address().to_string()).collect();
        format!("redlock://{}?{options}", places.join(","))
    }

    fn each(&self, command: &[&str]) {
        self.0.iter().for_each(|server| drop(server.admin(command).unwrap()));
    }

    /// Sets the nodes up, for leases of at most two seconds.
    async fn founded(count: usize) -> (Self, String) {
        let servers = Self::start(count);
        let url = servers.url("max-ttl=2s&node-limit=200ms");
        init(&url, Founding::Vouched).await;
        (servers, url)
    }
}

fn nodes(url: &str) -> (Vec<Arc<dyn QuorumNode>>, Duration, Option<Duration>) {
    let mut url = StoreUrl::parse(url).unwrap();
    let nodes = leasehold_redis::quorum(&mut url).unwrap().unwrap();
    (nodes.nodes, nodes.max_ttl, nodes.node_limit)
}

pub(crate) async fn init(url: &str, founding: Founding) -> Membership {
    let (nodes, max_ttl, _) = nodes(url);
    found(nodes, max_ttl, founding, Clock::system(), |_| {}).await.unwrap()
}

async fn look(url: &str) -> Membership {
    let (nodes, max_ttl, _) = nodes(url);
    members(nodes, max_ttl, Clock::system()).await
}

async fn try_connect(url: &str) -> Result<Client, Error> {
    let (nodes, max_ttl, limit) = nodes(url);
    let mut builder = QuorumBackend::builder(nodes).max_ttl(max_ttl);
    if let Some(limit) = limit {
        builder = builder.node_limit(limit);
    }
    Client::new(Arc::new(builder.connect().await?))
}

pub(crate) async fn connect(url: &str) -> Client {
    try_connect(url).await.unwrap()
}

/// A client that has seen a loss looks again every second.
async fn comes_back(lock: &Lock) -> Guard {
    let guard = std::sync::Mutex::new(None);
    let held = || async {
        let held = lock.try_acquire().await.ok().flatten();
        *guard.lock().unwrap() = held;
        guard.lock().unwrap().is_some()
    };
    until("the lock can be acquired", held).await.unwrap();
    guard.into_inner().unwrap().unwrap()
}

fn votes(members: &Membership) -> usize {
    members.nodes.iter().filter(|(_, member)| matches!(member, Member::Admitted(_))).count()
}

async fn a_lock_passes_from_client_to_client_with_growing_tokens() {
    let (_servers, url) = Servers::founded(5).await;
    let (one, two) = (connect(&url).await, connect(&url).await);
    let mut last = None;
    for round in 0..20 {
        let (first, second) = if round % 2 == 0 { (&one, &two) } else { (&two, &one) };
        let guard = first.lock("a").ttl(secs(1)).acquire_within(secs(10)).await.unwrap();
        assert!(second.lock("a").ttl(secs(1)).try_acquire().await.unwrap().is_none());
        assert!(Some(guard.token()) > last);
        last = Some(guard.token());
        guard.release().await.unwrap();
    }
}

async fn a_waiter_is_woken_by_the_release() {
    let (servers, url) = Servers::founded(3).await;
    let (one, two) = (connect(&url).await, connect(&url).await);
    let guard = one.lock("a").ttl(secs(2)).acquire().await.unwrap();
    // A node that the request of the holder has not reached would grant the lock to the waiter, which gives it back.
    let taken = || async {
        let taken = |server: &RedisServer| server.admin(&["EXISTS", "leasehold:{a}"]).unwrap();
        servers.0.iter().all(|server| taken(server).integer() == Some(1))
    };
    until("each node has the lease", taken).await.unwrap();
    let lock = two.lock("a").ttl(secs(2));
    let waiting = tokio::spawn(async move { lock.acquire_within(secs(20)).await });
    // It is stored at each node, with an end.
    let noted = || async {
        servers.0.iter().all(|server| {
            let lives = server.admin(&["PTTL", "leasehold:{a}:w"]).unwrap().integer();
            lives.is_some_and(|lives| lives > 0)
        })
    };
    until("the waiter is noted", noted).await.unwrap();
    let published = || servers.0.iter().map(publishes).collect::<Vec<_>>();
    assert_eq!(published(), [0, 0, 0]);
    guard.release().await.unwrap();
    let next = waiting.await.unwrap().unwrap();
    // The client that has released is noted: it would ask again after the waiter.
    let is_noted = || async {
        let all = ["ZRANGE", "leasehold:{a}:w", "0", "-1"];
        servers.0.iter().any(|server| {
            let noted = server.admin(&all).unwrap();
            noted.items().iter().any(|client| client.text().ends_with('~'))
        })
    };
    until("the one that has released is noted", is_noted).await.unwrap();
    next.release().await.unwrap();
    one.settle().await;
    two.settle().await;
    // More than once if the waiter asks between two releases: it is refused, and noted again.
    let published = published();
    assert!(published.iter().all(|calls| *calls > 0), "{published:?}");
}

/// Returns how often a server has published something.
fn publishes(server: &RedisServer) -> u64 {
    let stats = server.admin(&["INFO", "commandstats"]).unwrap().text();
    let calls =
        stats.split_once("cmdstat_publish:calls=").and_then(|(_, rest)| rest.split_once(','));
    calls.map_or(0, |(calls, _)| calls.parse().unwrap())
}

async fn a_first_start_needs_init() {
    let servers = Servers::start(3);
    let url = servers.url("max-ttl=20s");
    let client = connect(&url).await;
    let error = client.lock("a").ttl(secs(10)).try_acquire().await.unwrap_err();
    assert!(error.to_string().contains("quorum init"), "{error}");
    let members = init(&url, Founding::Vouched).await;
    assert_eq!((votes(&members), members.max_ttl), (3, Some(secs(20))));
    // A client that was connected before only needs time.
    comes_back(&client.lock("a").ttl(secs(10))).await.release().await.unwrap();
    // Set up already: nothing changes.
    assert_eq!(init(&url, Founding::AfterLoss).await, members);
}

async fn a_node_that_forgot_has_no_vote_until_its_leases_are_over() {
    let (mut servers, url) = Servers::founded(5).await;
    let (one, two) = (connect(&url).await, connect(&url).await);
    for server in &servers.0[3..] {
        server.stop().unwrap();
    }
    // A bare majority, and no renewal that would reach the others.
    let guard = one.lock("a").lease(secs(2)).acquire_within(secs(10)).await.unwrap();
    servers.0[2].restart_empty().unwrap();
    for server in &servers.0[3..] {
        server.resume().unwrap();
    }
    while guard.is_valid() {
        let other = two.lock("a").ttl(secs(1)).try_acquire().await;
        assert!(!matches!(other, Ok(Some(_))) || !guard.is_valid(), "two hold it");
        tokio::time::sleep(ms(20)).await;
    }
    let next = two.lock("a").ttl(secs(1)).acquire_within(secs(20)).await.unwrap();
    assert!(next.token() > guard.token());
    // It votes again without action by an operator.
    let all = || async { votes(&look(&url).await) == 5 };
    until("all may vote again", all).await.unwrap();
    assert!(next.is_valid());
    next.release().await.unwrap();
}

async fn a_node_that_restarts_with_its_data_waits_too() {
    let mut servers: Vec<RedisServer> =
        (0..3).map(|_| RedisServer::start(RedisSettings::new().append_only()).unwrap()).collect();
    servers.truncate(3);
    let mut servers = Servers(servers);
    let url = servers.url("max-ttl=2s&node-limit=200ms");
    init(&url, Founding::Vouched).await;
    let client = connect(&url).await;
    let guard = client.lock("a").ttl(secs(2)).acquire().await.unwrap();
    servers.0[1].restart().unwrap();
    assert_eq!(votes(&look(&url).await), 2);
    let deadline = guard.deadline();
    until("it is renewed by the others", || async { guard.deadline() != deadline }).await.unwrap();
    let all = || async { votes(&look(&url).await) == 3 };
    until("all may vote again", all).await.unwrap();
    assert!(guard.is_valid());
    guard.release().await.unwrap();
}

async fn when_most_nodes_forgot_nobody_is_let_in_before_init_after_loss() {
    let (servers, url) = Servers::founded(5).await;
    let client = connect(&url).await;
    let guard = client.lock("a").ttl(secs(1)).acquire().await.unwrap();
    for server in &servers.0[..3] {
        server.admin(&["FLUSHALL"]).unwrap();
    }
    guard.lost().await;
    tokio::time::sleep(secs(3)).await; // Longer than a node would wait.
    let error = client.lock("a").ttl(secs(1)).try_acquire().await.unwrap_err();
    assert!(error.to_string().contains("--after-loss"), "{error}");
    let error = connect(&url).await.lock("b").ttl(secs(1)).try_acquire().await.unwrap_err();
    assert!(error.to_string().contains("--after-loss"), "{error}");
    assert_eq!(votes(&init(&url, Founding::AfterLoss).await), 5);
    let next = comes_back(&client.lock("a").ttl(secs(1))).await;
    assert!(next.token() > guard.token());
    next.release().await.unwrap();
}

async fn one_server_with_admission_is_out_after_it_forgot() {
    let server = plain();
    let url = format!("{}?admission=strict&max-ttl=1s&node-limit=5s", server.url());
    let client = connect(&url).await;
    // It is admitted by itself: there is no other node to ask.
    let guard = client.lock("a").ttl(ms(900)).acquire_within(secs(20)).await.unwrap();
    server.admin(&["FLUSHALL"]).unwrap();
    let other = connect(&url).await;
    let early = other.lock("a").ttl(ms(900)).try_acquire().await;
    assert!(!guard.is_valid() || !matches!(early, Ok(Some(_))), "{early:?}");
    drop(early);
    guard.lost().await;
    let next = other.lock("a").ttl(ms(900)).acquire_within(secs(20)).await.unwrap();
    assert!(next.token() > guard.token());
}

async fn tokens_grow_after_one_server_starts_again_with_older_data() {
    let mut server = plain();
    let url = format!("{}?admission=strict&max-ttl=1s&node-limit=5s", server.url());
    init(&url, Founding::Vouched).await;
    let client = connect(&url).await;
    let mut tokens = Vec::new();
    for round in 0..5 {
        let guard = client.lock("a").ttl(ms(900)).acquire_within(secs(20)).await.unwrap();
        tokens.push(guard.token());
        guard.release().await.unwrap();
        if round == 1 {
            server.admin(&["SAVE"]).unwrap();
        }
    }
    drop(client);
    server.restart().unwrap();
    let left = server.admin(&["EXISTS", "leasehold:{a}"]).unwrap().integer();
    assert_eq!(left, Some(1), "the older data are there");
    let client = connect(&url).await;
    let guard = client.lock("a").ttl(ms(900)).acquire_within(secs(20)).await.unwrap();
    assert!(Some(&guard.token()) > tokens.last(), "{tokens:?}, then {:?}", guard.token());
    guard.release().await.unwrap();
}

async fn forget_keeps_the_record_of_a_lock_that_was_used_in_the_last_minute() {
    let shim = ClockShim::build().unwrap();
    shim.set_offset(0.0).unwrap();
    let servers = Servers(
        (0..3).map(|_| RedisServer::start(shim.on(RedisSettings::new())).unwrap()).collect(),
    );
    let url = servers.url("max-ttl=2s&node-limit=5s");
    init(&url, Founding::Vouched).await;
    let client = connect(&url).await;
    let first = client.lock("a").ttl(secs(2)).acquire_within(secs(20)).await.unwrap();
    first.release().await.unwrap();
    let forget = || leasehold_redis::forget(StoreUrl::parse(&url).unwrap(), "");
    // By this record the nodes refuse requests of the attempt that arrive late.
    assert_eq!(forget().await.unwrap(), 0);
    shim.set_offset(30.0).unwrap();
    assert_eq!(forget().await.unwrap(), 0);
    shim.set_offset(100.0).unwrap();
    assert_eq!(forget().await.unwrap(), 1);
}

async fn stopped_and_killed_nodes_do_not_keep_a_majority_from_granting() {
    let (mut servers, url) = Servers::founded(5).await;
    let client = connect(&url).await;
    servers.0[0].stop().unwrap();
    servers.0[1].kill();
    let guard = client.lock("a").ttl(secs(2)).acquire_within(secs(10)).await.unwrap();
    // Also a client that connects now.
    let late = connect(&url).await;
    assert!(late.lock("a").ttl(secs(2)).try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    late.lock("a").ttl(secs(2)).acquire_within(secs(10)).await.unwrap().release().await.unwrap();
    servers.0[2].kill();
    let error = client.lock("a").ttl(secs(2)).try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let killed = servers.0[2].address().to_string();
    assert!(error.to_string().contains(&killed), "{error}");
    let error = try_connect(&url).await.unwrap_err();
    assert!(error.to_string().contains("2 of 5 nodes answer"), "{error}");
    servers.0[0].resume().unwrap();
    let guard = client.lock("a").ttl(secs(2)).acquire_within(secs(20)).await.unwrap();
    guard.release().await.unwrap();
}

async fn full_nodes_still_renew_and_let_go() {
    let (servers, url) = Servers::founded(3).await;
    let client = connect(&url).await;
    let guard = client.lock("a").ttl(secs(1)).acquire().await.unwrap();
    servers.each(&["CONFIG", "SET", "maxmemory", "1"]);
    let error = client.lock("b").ttl(secs(1)).try_acquire().await.unwrap_err();
    assert!(error.to_string().contains("refused"), "{error}");
    let deadline = guard.deadline();
    until("it is renewed", || async { guard.deadline() != deadline }).await.unwrap();
    // Also in one call with an acquire.
    let lock = client.lock("b").ttl(secs(1));
    let (released, refused) = tokio::join!(guard.release(), lock.try_acquire());
    released.unwrap();
    assert!(refused.is_err());
    assert_eq!(client.lock("a").status().await.unwrap().state, State::Free);
}

async fn scripts_that_were_flushed_are_loaded_again_and_applied_once() {
    let (servers, url) = Servers::founded(3).await;
    let client = connect(&url).await;
    servers.each(&["SCRIPT", "FLUSH"]);
    let guard = client.lock("a").ttl(secs(2)).try_acquire().await.unwrap().unwrap();
    let token = guard.token();
    servers.each(&["SCRIPT", "FLUSH"]);
    guard.release().await.unwrap();
    let status = client.lock("a").status().await.unwrap();
    assert_eq!(status.state, State::Free);
    servers.each(&["SCRIPT", "FLUSH"]);
    let next = client.lock("a").ttl(secs(2)).try_acquire().await.unwrap().unwrap();
    assert!(next.token() > token);
}

async fn loading_and_demoted_nodes_have_no_vote() {
    let (mut servers, url) = Servers::founded(3).await;
    let client = connect(&url).await;
    let lock = client.lock("a").ttl(secs(2));
    let (first, rest) = servers.0.split_at_mut(1);
    let loads = format!("node {} refused: ", first[0].address());
    let loading = first[0].restart_loading().unwrap();
    lock.acquire_within(secs(10)).await.unwrap().release().await.unwrap();
    let master = plain();
    let port = master.port().to_string();
    rest[0].admin(&["REPLICAOF", "127.0.0.1", &port]).unwrap();
    let error = lock.try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let is_named = || async {
        lock.try_acquire().await.is_err_and(|error| error.to_string().contains(&loads))
    };
    until("the one that loads says so", is_named).await.unwrap();
    // A full synchronisation may take seconds to begin.
    until("the other has the data of its master", || async {
        rest[0].info("master_link_status").is_ok_and(|status| status == "up")
    })
    .await
    .unwrap();
    rest[0].admin(&["REPLICAOF", "NO", "ONE"]).unwrap();
    loading.finish().unwrap();
    // One lost its data, the other has the data of another node: two of three.
    let error = lock.acquire_within(secs(5)).await.unwrap_err();
    assert!(error.to_string().contains("--after-loss"), "{error}");
    init(&url, Founding::AfterLoss).await;
    comes_back(&lock).await.release().await.unwrap();
}

async fn what_is_not_ours_is_left_alone_and_harms_no_other() {
    let (servers, url) = Servers::founded(3).await;
    let client = connect(&url).await;
    servers.each(&["SET", "leasehold:{text}", "550e8400-e29b-41d4"]);
    servers.each(&["HSET", "leasehold:{hash}", "a", "1"]);
    servers.each(&["SET", "leasehold:{newer}", "Q2 and what comes after"]);
    for name in ["text", "hash", "newer"] {
        assert!(client.lock(name).ttl(secs(1)).try_acquire().await.is_err());
        let error = client.lock(name).status().await.unwrap_err();
        assert!(error.to_string().contains(&format!("leasehold:{{{name}}}")), "{error}");
    }
    let text = servers.0[0].admin(&["GET", "leasehold:{text}"]).unwrap().text();
    assert_eq!(text, "550e8400-e29b-41d4");
    let mut asking = Vec::new();
    for number in 0..64 {
        let name = if number == 7 { "hash".to_owned() } else { format!("n{number}") };
        let lock = client.lock(name).ttl(secs(2));
        asking.push(tokio::spawn(async move { lock.try_acquire().await.is_ok() }));
    }
    let mut good = 0;
    for task in asking {
        good += usize::from(task.await.unwrap());
    }
    assert_eq!(good, 63);
}

async fn the_status_names_the_holder_and_force_ends_its_lease() {
    let (_servers, url) = Servers::founded(3).await;
    let (one, two) = (connect(&url).await, connect(&url).await);
    let guard = one.lock("a/1").ttl(secs(2)).metadata("who I am").acquire().await.unwrap();
    let status = two.lock("a/1").status().await.unwrap();
    assert_eq!((status.state, status.token), (State::Held, Some(guard.token())));
    let holder = status.holder.unwrap();
    assert_eq!((holder.pid, holder.metadata.as_deref()), (std::process::id(), Some("who I am")));
    let names: Vec<String> = two
        .list("a/", 10)
        .await
        .unwrap()
        .into_iter()
        .map(|status| status.name.to_string())
        .collect();
    assert_eq!(names, ["a/1"]);
    assert_eq!(two.lock("a/1").force_release(guard.token()).await.unwrap(), Forced::Ended);
    assert_eq!(guard.lost().await, LossReason::NotOwner);
}
