//! Locks that other libraries keep at a majority of independent servers, when servers stop, hang, forget and disagree.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use leasehold_conformance::until;
use leasehold_core::proto::drift;
use leasehold_core::{Client, Error, ErrorKind, Forced, State, StoreUrl};
use leasehold_test_servers::{RedisServer, Value};

use crate::{Test, plain, secs, test};

pub(crate) const TESTS: &[Test] = &[
    test!(each_server_has_the_key_of_the_library),
    test!(a_majority_of_another_library_is_waited_for),
    test!(a_minority_of_another_library_is_passed_and_left_alone),
    test!(a_refused_round_leaves_nothing_behind),
    test!(one_of_three_servers_may_be_down),
    test!(a_server_that_forgot_gets_the_key_back_and_two_never_hold),
    test!(a_server_that_hung_is_free_after_the_release),
    test!(the_clock_of_a_server_may_run_fast),
    test!(a_token_is_known_to_a_majority_before_it_is_used),
    test!(a_lock_that_a_majority_lost_is_lost),
    test!(clients_count_together_while_a_server_hangs),
    test!(clients_of_one_of_the_servers_are_refused),
    test!(a_forced_release_ends_the_lease_at_all_servers),
    test!(what_a_list_of_servers_cannot_do_is_refused),
    test!(the_doctor_says_that_nothing_keeps_a_server_out_that_forgot),
];

const THEIRS: &str = "\u{1}\u{fffd}20 bytes of rslock";

struct Servers(Vec<RedisServer>);

impl Servers {
    fn start() -> Self {
        Self((0..3).map(|_| plain()).collect())
    }

    fn url(&self, options: &str) -> String {
        let places: Vec<String> =
            self.0.iter().map(|server| server.address().to_string()).collect();
        format!("redlock://{}?wire=set-nx{options}", places.join(","))
    }

    async fn client(&self) -> Client {
        // A busy machine is slower than the default allows.
        try_connect(&self.url("&node-limit=5s")).await.unwrap()
    }

    /// As another library's script does it, on these servers.
    fn take(&self, servers: &[usize]) {
        for at in servers {
            self.0[*at].admin(&["SET", "a", THEIRS, "NX", "PX", "600000"]).unwrap();
        }
    }

    fn values(&self) -> Vec<Option<Vec<u8>>> {
        let value = |server: &RedisServer| match server.admin(&["GET", "a"]).unwrap() {
            Value::Bytes(bytes) => Some(bytes),
            _ => None,
        };
        self.0.iter().map(value).collect()
    }
}

async fn try_connect(url: &str) -> Result<Client, Error> {
    let backend = leasehold_redis::quorum_with_wire(StoreUrl::parse(url)?).await?;
    Client::new(Arc::new(backend))
}

fn theirs() -> Option<Vec<u8>> {
    Some(THEIRS.as_bytes().to_vec())
}

async fn each_server_has_the_key_of_the_library() {
    let servers = Servers::start();
    let client = servers.client().await;
    let guard = client.lock("a").acquire().await.unwrap();
    let all = || async { servers.values().iter().all(Option::is_some) };
    until("each server has the lock", all).await.unwrap();
    for value in servers.values().into_iter().flatten() {
        assert!(value.starts_with(b"leasehold:"), "{}", value.escape_ascii());
    }
    let status = client.lock("a").status().await.unwrap();
    assert_eq!((status.state, status.token), (State::Held, Some(guard.token())));
    guard.release().await.unwrap();
    let free = || async { servers.values() == [None, None, None] };
    until("no server has it", free).await.unwrap();
    let prefixed = try_connect(&servers.url("&key-prefix=redlock:&node-limit=5s")).await.unwrap();
    let guard = prefixed.lock("b").acquire().await.unwrap();
    let keys = |server: &RedisServer| server.admin(&["EXISTS", "redlock:b"]).unwrap().integer();
    assert!(servers.0.iter().filter(|server| keys(server) == Some(1)).count() >= 2);
    guard.release().await.unwrap();
}

async fn a_majority_of_another_library_is_waited_for() {
    let servers = Servers::start();
    let client = servers.client().await;
    servers.take(&[0, 2]);
    let lock = client.lock("a");
    assert!(lock.try_acquire().await.unwrap().is_none());
    let status = lock.status().await.unwrap();
    assert_eq!(status.state, State::Held);
    assert!(status.note.is_some_and(|note| note.contains("another library")));
    let waiting = tokio::spawn(async move { lock.acquire_within(secs(60)).await });
    servers.0[2].admin(&["DEL", "a"]).unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    assert_eq!(servers.values()[0], theirs());
}

async fn a_minority_of_another_library_is_passed_and_left_alone() {
    let servers = Servers::start();
    let client = servers.client().await;
    servers.take(&[1]);
    let guard = client.lock("a").renew_after(secs(1)).acquire().await.unwrap();
    let before = guard.deadline();
    until("it is renewed", || async { guard.deadline() != before }).await.unwrap();
    assert_eq!(servers.values()[1], theirs());
    guard.release().await.unwrap();
    assert_eq!(servers.values()[1], theirs());
}

async fn a_refused_round_leaves_nothing_behind() {
    let servers = Servers::start();
    let client = servers.client().await;
    servers.take(&[0, 1]);
    for _ in 0..3 {
        assert!(client.lock("a").try_acquire().await.unwrap().is_none());
        let given_back = || async { servers.values() == [theirs(), theirs(), None] };
        until("the third server is free", given_back).await.unwrap();
    }
}

async fn one_of_three_servers_may_be_down() {
    let mut servers = Servers::start();
    let client = servers.client().await;
    servers.0[1].kill();
    let late = servers.client().await;
    let lock = client.lock("a").renew_after(secs(1));
    let guard = lock.acquire_within(secs(60)).await.unwrap();
    assert!(late.lock("a").try_acquire().await.unwrap().is_none());
    let before = guard.deadline();
    until("it is renewed", || async { guard.deadline() != before }).await.unwrap();
    guard.release().await.unwrap();
    late.lock("a").acquire_within(secs(60)).await.unwrap().release().await.unwrap();
    servers.0[2].kill();
    let error = client.lock("a").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("1 of 3 servers answer"), "{error}");
    let error = try_connect(&servers.url("")).await.unwrap_err();
    assert!(error.to_string().contains("1 of 3 servers answer"), "{error}");
}

async fn a_server_that_forgot_gets_the_key_back_and_two_never_hold() {
    let mut servers = Servers::start();
    let (one, two) = (servers.client().await, servers.client().await);
    let guard = one.lock("a").renew_after(secs(1)).acquire().await.unwrap();
    // One after the other: without the repair two of three would have forgotten it.
    for at in 0..3 {
        let all = || async { servers.values().iter().all(Option::is_some) };
        until("each server has the lock", all).await.unwrap();
        assert!(two.lock("a").try_acquire().await.unwrap().is_none());
        servers.0[at].restart_empty().unwrap();
        assert!(two.lock("a").try_acquire().await.is_ok_and(|held| held.is_none()));
    }
    guard.ensure(secs(0)).unwrap();
    guard.release().await.unwrap();
}

async fn a_server_that_hung_is_free_after_the_release() {
    let servers = Servers::start();
    let client = try_connect(&servers.url("&node-limit=200ms")).await.unwrap();
    servers.0[2].stop().unwrap();
    let lock = client.lock("a");
    let guard = until_held(&lock).await;
    guard.release().await.unwrap();
    servers.0[2].resume().unwrap();
    // What it received meanwhile is the acquire and then the release.
    until_held(&lock).await.release().await.unwrap();
    let free = || async { servers.values()[2].is_none() };
    until("the third server is free", free).await.unwrap();
}

/// With a short time limit, a busy machine needs more than one round.
async fn until_held(lock: &leasehold_core::Lock) -> leasehold_core::Guard {
    let held = std::sync::Mutex::new(None);
    until("the lock can be acquired", || async {
        let guard = lock.try_acquire().await.ok().flatten();
        *held.lock().unwrap() = guard;
        held.lock().unwrap().is_some()
    })
    .await
    .unwrap();
    held.into_inner().unwrap().unwrap()
}

async fn the_clock_of_a_server_may_run_fast() {
    let servers = Servers::start();
    let client = servers.client().await;
    let ttl = secs(100);
    let guard = client.lock("a").lease(ttl).acquire().await.unwrap();
    // A server whose clock gains up to 1 % ends the lease no earlier than the guard.
    let (left, margin) = (guard.remaining(), drift(ttl));
    assert!(left <= ttl - margin && margin >= ttl / 100, "{left:?}, {margin:?}");
    guard.release().await.unwrap();
}

async fn a_token_is_known_to_a_majority_before_it_is_used() {
    let servers = Servers::start();
    let client = servers.client().await;
    let lock = client.lock("a");
    lock.acquire().await.unwrap().release().await.unwrap();
    // The clock of a holder was half an hour ahead, and only this server is left that knows.
    let ahead = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + secs(1800);
    let token = format!("{:016}", ahead.as_micros());
    servers.0[0].admin(&["HSET", "leasehold:wire:{a}:a", "t", &token]).unwrap();
    servers.0[2].stop().unwrap();
    let guard = until_held(&lock).await;
    let first = guard.token();
    guard.release().await.unwrap();
    assert!(u128::from(first.get()) > ahead.as_micros(), "{first}");
    servers.0[2].resume().unwrap();
    servers.0[0].stop().unwrap();
    let guard = until_held(&lock).await;
    let next = guard.token();
    servers.0[0].resume().unwrap();
    guard.release().await.unwrap();
    assert!(next > first, "{first} and then {next}");
}

async fn a_lock_that_a_majority_lost_is_lost() {
    let servers = Servers::start();
    let client = servers.client().await;
    let guard = client.lock("a").renew_after(secs(1)).acquire().await.unwrap();
    for server in &servers.0[..2] {
        server.admin(&["SET", "a", THEIRS, "PX", "600000"]).unwrap();
    }
    guard.lost().await;
    guard.release().await.unwrap_err();
    assert_eq!(servers.values()[..2], [theirs(), theirs()]);
}

async fn clients_count_together_while_a_server_hangs() {
    const TIMES: u32 = 25;
    let servers = Servers::start();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("number");
    std::fs::write(&path, "0").unwrap();
    let counted = Arc::<AtomicU32>::default();
    let mut tasks = Vec::new();
    for number in 0..3 {
        let client = try_connect(&servers.url("&node-limit=300ms")).await.unwrap();
        let (path, counted) = (path.clone(), counted.clone());
        tasks.push(tokio::spawn(async move {
            let mine = path.with_extension(number.to_string());
            for _ in 0..TIMES {
                let guard = client.lock("a").acquire_within(secs(60)).await.unwrap();
                let number_then: u32 = std::fs::read_to_string(&path).unwrap().parse().unwrap();
                std::fs::write(&mine, (number_then + 1).to_string()).unwrap();
                tokio::task::yield_now().await;
                guard.ensure(secs(0)).unwrap();
                std::fs::rename(&mine, &path).unwrap();
                counted.fetch_add(1, Ordering::Relaxed);
                guard.release().await.unwrap();
            }
        }));
    }
    for (at, server) in servers.0.iter().enumerate() {
        let many = 5 * (at as u32 + 1);
        until("some were counted", || async { counted.load(Ordering::Relaxed) > many })
            .await
            .unwrap();
        server.stop().unwrap();
        until("some more were counted", || async { counted.load(Ordering::Relaxed) > many + 3 })
            .await
            .unwrap();
        server.resume().unwrap();
    }
    for task in tasks {
        task.await.unwrap();
    }
    let number: u32 = std::fs::read_to_string(&path).unwrap().parse().unwrap();
    assert_eq!((number, counted.load(Ordering::Relaxed)), (3 * TIMES, 3 * TIMES));
}

async fn clients_of_one_of_the_servers_are_refused() {
    let servers = Servers::start();
    let client = servers.client().await;
    let guard = client.lock("a").acquire().await.unwrap();
    for at in 0..3 {
        let url = format!("{}?wire=set-nx", servers.0[at].url());
        let url = StoreUrl::parse(&url).unwrap();
        let one = Client::new(Arc::new(leasehold_redis::connect_with_wire(url).await.unwrap()));
        let marked = || async {
            let answer = one.as_ref().unwrap().lock("a").try_acquire().await;
            answer.is_err_and(|error| error.to_string().contains("at 3 servers"))
        };
        until("a client of one server is refused", marked).await.unwrap();
    }
    guard.release().await.unwrap();
}

async fn a_forced_release_ends_the_lease_at_all_servers() {
    let servers = Servers::start();
    let client = servers.client().await;
    let lock = client.lock("a").renew_after(secs(1));
    let guard = lock.acquire().await.unwrap();
    let other = leasehold_core::Token::new(guard.token().get() + 1).unwrap();
    assert_eq!(lock.force_release(other).await.unwrap(), Forced::Other(guard.token()));
    assert_eq!(lock.force_release(guard.token()).await.unwrap(), Forced::Ended);
    guard.lost().await;
    guard.release().await.unwrap_err();
    lock.acquire_within(secs(60)).await.unwrap().release().await.unwrap();
}

async fn what_a_list_of_servers_cannot_do_is_refused() {
    let servers = Servers::start();
    let client = servers.client().await;
    let refused = |error: Error| assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    refused(client.rw_lock("a").try_read().await.unwrap_err());
    refused(client.semaphore("a", 2).try_acquire().await.unwrap_err());
    refused(client.latch("a", 2).state().await.unwrap_err());
    refused(client.list("", 10).await.unwrap_err());
    let mut url = StoreUrl::parse(&servers.url("")).unwrap();
    let error = leasehold_redis::quorum(&mut url).unwrap_err();
    assert!(error.to_string().contains("leave out wire"), "{error}");
}

async fn the_doctor_says_that_nothing_keeps_a_server_out_that_forgot() {
    let servers = Servers::start();
    let found =
        leasehold_redis::diagnose(StoreUrl::parse(&servers.url("")).unwrap()).await.unwrap();
    let has = |id: &str| found.findings.iter().any(|finding| finding.id == id);
    assert!(has("no-admission") && !has("no-votes"), "{:?}", found.findings);
}
