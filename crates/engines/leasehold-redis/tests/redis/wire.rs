//! Locks in the formats of other libraries, beside those libraries and beside clients without the option.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use leasehold_conformance::until;
use leasehold_core::{Client, Error, ErrorKind, Forced, State, StoreUrl};
use leasehold_test_servers::{Needs, RedisServer, Value};

use crate::{Test, connect, ms, plain, secs, test};

pub(crate) const TESTS: &[Test] = &[
    test!(redis_py_and_leasehold_count_together),
    test!(the_key_is_what_the_library_writes),
    test!(redisson_would_see_a_writer_and_a_token),
    test!(values_of_others_are_waited_for_and_never_overwritten),
    test!(values_of_no_known_format_are_refused),
    test!(a_lock_that_another_library_overwrote_is_lost),
    test!(a_forced_release_ends_only_ours),
    test!(notes_last_as_long_as_the_lease_and_come_back),
    test!(clients_without_the_option_are_refused),
    test!(a_lock_of_clients_without_the_option_is_refused),
    test!(two_formats_of_one_name_are_refused),
    test!(clients_that_poll_get_a_gap),
    test!(there_is_no_order_among_libraries),
    test!(what_a_format_cannot_do_is_refused),
    test!(keys_that_look_like_locks_are_found_under_a_prefix),
    test!(a_free_lock_shows_its_last_holder_of_ours),
    test!(no_advice_is_about_admission),
    test!(the_advice_on_foreign_locks_has_the_options_that_they_need),
];

async fn try_wire(server: &RedisServer, options: &str) -> Result<Client, Error> {
    let url = format!("{}?{options}", server.url());
    let backend = leasehold_redis::connect_with_wire(StoreUrl::parse(&url)?).await?;
    Client::new(Arc::new(backend))
}

pub(crate) async fn wire(server: &RedisServer, options: &str) -> Client {
    try_wire(server, options).await.unwrap()
}

/// A program of redis-py that adds to the number in a file, as often as its argument says, and prints a line each time.
const COUNT: &str = r"
import os, sys, redis
port, path, times = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
server = redis.Redis(port=port)
for _ in range(times):
    lock = server.lock('counter', timeout=2, sleep=0.01)
    lock.acquire()
    with open(path) as file:
        number = int(file.read())
    mine = path + str(os.getpid())
    with open(mine, 'w') as file:
        file.write(str(number + 1))
    os.replace(mine, path)
    print('counted', flush=True)
    lock.release()
";

fn count_in_python(server: &RedisServer, path: &Path, times: u32) -> Child {
    let port = server.address().port().to_string();
    let mut python = Command::new("/usr/bin/python3");
    python.args(["-c", COUNT, &port]).arg(path).arg(times.to_string());
    python.stdout(Stdio::piped()).spawn().unwrap()
}

/// Three programs of redis-py, one of which is killed, and three clients of ours. Killed programs may have counted
/// without saying so, at most once each.
async fn redis_py_and_leasehold_count_together() {
    const TIMES: u32 = 40;
    if Needs::RedisPy.is_skipped() {
        return;
    }
    let server = plain();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("number");
    std::fs::write(&path, "0").unwrap();
    let mut programs: Vec<Child> = (0..3).map(|_| count_in_python(&server, &path, TIMES)).collect();
    let counted = Arc::<AtomicU32>::default();
    let mut ours = Vec::new();
    for number in 0..3 {
        let client = wire(&server, "wire=set-nx").await;
        let (path, counted) = (path.clone(), counted.clone());
        ours.push(tokio::spawn(async move {
            for _ in 0..TIMES {
                let guard = client.lock("counter").acquire_within(secs(60)).await.unwrap();
                let number_then: u32 = std::fs::read_to_string(&path).unwrap().parse().unwrap();
                let mine = path.with_extension(number.to_string());
                std::fs::write(&mine, (number_then + 1).to_string()).unwrap();
                tokio::task::yield_now().await;
                guard.ensure(secs(0)).unwrap();
                std::fs::rename(&mine, &path).unwrap();
                counted.fetch_add(1, Ordering::Relaxed);
                guard.release().await.unwrap();
            }
        }));
    }
    until("we have counted a few times", || async { counted.load(Ordering::Relaxed) > 5 })
        .await
        .unwrap();
    programs[0].kill().unwrap();
    for task in ours {
        task.await.unwrap();
    }
    let said = tokio::task::spawn_blocking(move || {
        let ends = programs.into_iter().map(|program| program.wait_with_output().unwrap());
        ends.map(|end| String::from_utf8(end.stdout).unwrap().lines().count() as u32).sum::<u32>()
    });
    let all = said.await.unwrap() + counted.load(Ordering::Relaxed);
    let number: u32 = std::fs::read_to_string(&path).unwrap().parse().unwrap();
    assert!(number == all || number == all + 1, "{number} is stored, {all} were counted");
}

async fn the_key_is_what_the_library_writes() {
    let server = plain();
    for (options, key) in [
        ("wire=set-nx", "a/b"),
        ("wire=set-nx&key-prefix=redlock:", "redlock:a/b"),
        ("wire=set-nx&spring=reg", "reg:a/b"),
    ] {
        server.admin(&["FLUSHALL"]).unwrap();
        let client = wire(&server, options).await;
        let guard = client.lock("a/b").acquire().await.unwrap();
        let value = shown(&server, &["GET", key]);
        assert!(value.contains("leasehold:"), "{key}: {value}");
        let left = number(&server, &["PTTL", key]);
        assert!((1..=30_000).contains(&left), "{left}");
        guard.release().await.unwrap();
        assert_eq!(number(&server, &["EXISTS", key]), 0);
    }
}

/// Returns the answer of the server, for tests of what is in it.
pub(crate) fn shown(server: &RedisServer, command: &[&str]) -> String {
    text(&server.admin(command).unwrap())
}

fn text(value: &Value) -> String {
    match value {
        Value::Bytes(bytes) => bytes.escape_ascii().to_string(),
        Value::Array(values) => values.iter().map(text).collect::<Vec<_>>().join(" "),
        other => format!("{other:?}"),
    }
}

pub(crate) fn number(server: &RedisServer, command: &[&str]) -> i64 {
    let answer = shown(server, command);
    let digits: String = answer.chars().filter(|c| c.is_ascii_digit() || *c == '-').collect();
    digits.parse().ok().unwrap_or_else(|| panic!("{answer} is no number"))
}

async fn redisson_would_see_a_writer_and_a_token() {
    let server = plain();
    let client = wire(&server, "wire=redisson").await;
    let lock = client.lock("orders").ttl(secs(3600));
    let guard = lock.acquire().await.unwrap();
    let fields = shown(&server, &["HGETALL", "orders"]);
    assert!(fields.contains("mode") && fields.contains("write"), "{fields}");
    assert!(fields.contains(":write") && fields.contains("leasehold:"), "{fields}");
    let left = number(&server, &["PTTL", "orders"]);
    assert!(
        (1..=30_000).contains(&left),
        "a waiter that misses the message sleeps that long: {left}"
    );
    let token = number(&server, &["GET", "redisson_lock_token:{orders}"]) as u64;
    assert_eq!(guard.token().get(), token);
    guard.release().await.unwrap();
    // A RFencedLock takes the next one.
    server.admin(&["INCR", "redisson_lock_token:{orders}"]).unwrap();
    let next = lock.acquire().await.unwrap();
    assert_eq!(next.token().get(), token + 2);
    next.release().await.unwrap();
}

async fn values_of_others_are_waited_for_and_never_overwritten() {
    let server = plain();
    let set_nx = wire(&server, "wire=set-nx").await;
    let redisson = wire(&server, "wire=redisson").await;
    server.admin(&["SET", "bytes", "\u{1}\u{fffd}x", "PX", "600000"]).unwrap();
    server.admin(&["SET", "endless", "someone"]).unwrap();
    server.admin(&["HSET", "plain", "8743c9c0-0795-4907-87fd-6c719a6b4586:1", "2"]).unwrap();
    server.admin(&["HSET", "reads", "mode", "read", "a:1", "1", "b:2", "1"]).unwrap();
    for (client, name) in
        [(&set_nx, "bytes"), (&set_nx, "endless"), (&redisson, "plain"), (&redisson, "reads")]
    {
        let before = shown(&server, &["DUMP", name]);
        assert!(client.lock(name).try_acquire().await.unwrap().is_none(), "{name}");
        let status = client.lock(name).status().await.unwrap();
        assert_eq!(status.state, State::Held, "{name}");
        assert!(status.note.is_some_and(|note| note.contains("another library")), "{name}");
        assert_eq!(shown(&server, &["DUMP", name]), before, "{name}");
        // It is ours as soon as they delete it.
        let lock = client.lock(name);
        let waiting = tokio::spawn(async move { lock.acquire_within(secs(60)).await });
        server.admin(&["DEL", name]).unwrap();
        waiting.await.unwrap().unwrap().release().await.unwrap();
    }
}

async fn values_of_no_known_format_are_refused() {
    let server = plain();
    server.admin(&["RPUSH", "list", "a"]).unwrap();
    server.admin(&["SET", "text", "a"]).unwrap();
    server.admin(&["HSET", "hash", "a", "1"]).unwrap();
    for (options, name) in [
        ("wire=set-nx", "list"),
        ("wire=set-nx", "hash"),
        ("wire=redisson", "list"),
        ("wire=redisson", "text"),
    ] {
        server.admin(&["DEL", &format!("leasehold:{{{name}}}")]).unwrap();
        let before = shown(&server, &["DUMP", name]);
        let client = wire(&server, options).await;
        let error = client.lock(name).try_acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Foreign, "{name}: {error}");
        assert!(error.to_string().contains("another name"), "{error}");
        assert_eq!(shown(&server, &["DUMP", name]), before);
    }
}

async fn a_lock_that_another_library_overwrote_is_lost() {
    let server = plain();
    for (options, name, theirs) in [
        ("wire=set-nx", "a", &["SET", "a", "theirs", "PX", "600000"][..]),
        ("wire=redisson", "b", &["HSET", "b", "theirs:7", "1"]),
    ] {
        let client = wire(&server, options).await;
        let guard = client.lock(name).renew_after(secs(1)).acquire().await.unwrap();
        server.admin(theirs).unwrap();
        guard.lost().await;
        let before = shown(&server, &["DUMP", name]);
        guard.release().await.unwrap_err();
        assert_eq!(shown(&server, &["DUMP", name]), before, "their value was changed");
    }
}

async fn a_forced_release_ends_only_ours() {
    let server = plain();
    for options in ["wire=set-nx", "wire=redisson"] {
        server.admin(&["FLUSHALL"]).unwrap();
        let client = wire(&server, options).await;
        let lock = client.lock("a");
        let guard = lock.acquire().await.unwrap();
        let status = lock.status().await.unwrap();
        assert_eq!(status.token, Some(guard.token()));
        assert_eq!(status.holder.unwrap().pid, std::process::id());
        let earlier = leasehold_core::Token::new(guard.token().get() + 1).unwrap();
        assert_eq!(lock.force_release(earlier).await.unwrap(), Forced::Other(guard.token()));
        assert_eq!(lock.force_release(guard.token()).await.unwrap(), Forced::Ended);
        assert_eq!(lock.force_release(guard.token()).await.unwrap(), Forced::NotHeld);
        guard.release().await.unwrap_err();
    }
}

/// Status and a forced release need the notes beside the lock.
async fn notes_last_as_long_as_the_lease_and_come_back() {
    const MINUTE: i64 = 60_000;
    let server = plain();
    for (options, key) in [
        ("wire=set-nx", "a"),
        ("wire=redisson", "a"),
        ("wire=rueidis&majority=2", "rueidislock:0:a"),
    ] {
        server.admin(&["FLUSHALL"]).unwrap();
        let client = wire(&server, options).await;
        let notes = format!("leasehold:wire:{{{key}}}:{key}");
        let lock = client.lock("a").ttl(secs(30)).renew_after(ms(200));
        let guard = lock.acquire().await.unwrap();
        let token = guard.token();
        // As after most of the time; then the server has evicted them.
        for end in ["600000", "1"] {
            server.admin(&["PEXPIRE", &notes, end]).unwrap();
            until("a renewal keeps them", || async {
                number(&server, &["PTTL", &notes]) > 40 * MINUTE
            })
            .await
            .unwrap();
        }
        let status = lock.status().await.unwrap();
        assert_eq!(status.token, Some(token), "{options}");
        assert_eq!(status.holder.unwrap().pid, std::process::id(), "{options}");
        assert_eq!(lock.force_release(token).await.unwrap(), Forced::Ended, "{options}");
        guard.lost().await;
        guard.release().await.unwrap_err();
    }
    // A lease of a day is renewed three times.
    let client = wire(&server, "wire=set-nx").await;
    let lock = client.lock("b").ttl(secs(86_400));
    let guard = lock.acquire().await.unwrap();
    let notes = "leasehold:wire:{b}:b";
    assert!(number(&server, &["PTTL", notes]) > (24 * 60 + 39) * MINUTE);
    server.admin(&["DEL", notes]).unwrap();
    assert_eq!(lock.status().await.unwrap().token, None);
    let error = lock.force_release(guard.token()).await.unwrap_err();
    assert!(error.to_string().contains("next renewal"), "{error}");
    guard.release().await.unwrap();
}

async fn clients_without_the_option_are_refused() {
    let server = plain();
    let native = connect(&server.url()).await;
    // Its free record does not hinder.
    native.lock("a").acquire().await.unwrap().release().await.unwrap();
    let client = wire(&server, "wire=set-nx").await;
    let guard = client.lock("a").acquire().await.unwrap();
    for round in 0..2 {
        let error = native.lock("a").try_acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Foreign, "{round}: {error}");
        assert!(error.to_string().contains("option wire"), "{error}");
    }
    guard.release().await.unwrap();
    native.lock("a").try_acquire().await.unwrap_err();
    // Five minutes later.
    server.admin(&["DEL", "leasehold:{a}"]).unwrap();
    native.lock("a").acquire().await.unwrap().release().await.unwrap();
}

async fn a_lock_of_clients_without_the_option_is_refused() {
    let server = plain();
    let native = connect(&server.url()).await;
    let guard = native.lock("a").acquire().await.unwrap();
    let client = wire(&server, "wire=redisson").await;
    let error = client.lock("a").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Foreign, "{error}");
    assert!(error.to_string().contains("without the option wire"), "{error}");
    assert_eq!(number(&server, &["EXISTS", "a"]), 0);
    guard.ensure(secs(0)).unwrap();
    guard.release().await.unwrap();
}

async fn two_formats_of_one_name_are_refused() {
    let server = plain();
    let first = wire(&server, "wire=set-nx").await;
    first.lock("a").acquire().await.unwrap().release().await.unwrap();
    for options in ["wire=redisson", "wire=set-nx&key-prefix=redlock:"] {
        let other = wire(&server, options).await;
        let error = other.lock("a").try_acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Foreign, "{error}");
        assert!(error.to_string().contains("wire=set-nx"), "{error}");
    }
}

/// Clients of ours are woken by the server, and would win every time against clients that look a few times a second.
async fn clients_that_poll_get_a_gap() {
    let server = plain();
    let client = wire(&server, "wire=set-nx").await;
    let lock = client.lock("a");
    for _ in 0..40 {
        lock.acquire().await.unwrap().release().await.unwrap();
    }
    let acquired = async || {
        let mut in_a_row = 0;
        while let Some(guard) = lock.try_acquire().await.unwrap() {
            guard.release().await.unwrap();
            in_a_row += 1;
            if in_a_row == 40 {
                break;
            }
        }
        in_a_row
    };
    assert_eq!(acquired().await, 40, "no other library was seen");
    server.admin(&["SET", "a", "theirs"]).unwrap();
    assert!(lock.try_acquire().await.unwrap().is_none());
    server.admin(&["DEL", "a"]).unwrap();
    assert!(acquired().await < 40, "no gap");
    lock.acquire_within(secs(60)).await.unwrap().release().await.unwrap();
}

/// A client of another library that comes later may have the lock first: no queue is common.
async fn there_is_no_order_among_libraries() {
    let server = plain();
    for (options, take) in [
        ("wire=set-nx", "redis.call('SET', KEYS[1], ARGV[1])"),
        ("wire=redisson", "redis.call('HSET', KEYS[1], ARGV[1] .. ':1', 1)"),
    ] {
        server.admin(&["FLUSHALL"]).unwrap();
        server.admin(&["EVAL", take, "1", "a", "first"]).unwrap();
        let client = wire(&server, options).await;
        let lock = client.lock("a");
        let waiting = tokio::spawn(async move { lock.acquire_within(secs(60)).await });
        // The server knows who looks at the key until it changes.
        let asked = || async { server.info("tracking_total_keys").unwrap() != "0" };
        until("ours waits", asked).await.unwrap();
        let pass = format!("redis.call('DEL', KEYS[1]); {take}");
        server.admin(&["EVAL", &pass, "1", "a", "later"]).unwrap();
        until("ours waits again", asked).await.unwrap();
        assert!(!waiting.is_finished(), "{options}");
        server.admin(&["DEL", "a"]).unwrap();
        waiting.await.unwrap().unwrap().release().await.unwrap();
    }
}

async fn what_a_format_cannot_do_is_refused() {
    let server = plain();
    let client = wire(&server, "wire=redisson").await;
    let refused = |error: Error| {
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    };
    refused(client.rw_lock("a").try_read().await.unwrap_err());
    refused(client.semaphore("a", 2).try_acquire().await.unwrap_err());
    refused(client.latch("a", 2).state().await.unwrap_err());
    refused(client.list("", 10).await.unwrap_err());
    let error = try_wire(&server, "wire=set-nx&replicas=1").await.unwrap_err();
    assert!(error.to_string().contains("replicas"), "{error}");
    let error = try_wire(&server, "wire=setnx").await.unwrap_err();
    assert!(error.to_string().contains("set-nx"), "{error}");
}

async fn a_free_lock_shows_its_last_holder_of_ours() {
    let server = plain();
    for (name, options) in [
        ("a", "wire=set-nx&key-prefix=a:"),
        ("b", "wire=redisson"),
        ("c", "wire=rueidis&majority=2"),
    ] {
        let client = wire(&server, options).await;
        let lock = client.lock(name);
        let status = lock.status().await.unwrap();
        assert!(status.state == State::Free && status.holder.is_none(), "{status:?}");
        assert!(status.note.unwrap().contains("no client of Leasehold"), "{options}");
        let guard = lock.acquire().await.unwrap();
        let held = lock.status().await.unwrap();
        let token = guard.token();
        guard.release().await.unwrap();
        let status = lock.status().await.unwrap();
        assert_eq!((status.state, status.token), (State::Free, Some(token)), "{options}");
        assert_eq!(status.holder, held.holder);
        assert_eq!(status.since_unix_ms, held.since_unix_ms);
        assert!(status.note.unwrap().contains("other libraries leave no record"), "{options}");
    }
}

/// The formats of other libraries have none.
async fn no_advice_is_about_admission() {
    let server = plain();
    let diagnose = async |options: &str| {
        let url = StoreUrl::parse(&format!("{}{options}", server.url())).unwrap();
        let found = leasehold_redis::diagnose(url).await.unwrap().findings;
        let found = found.into_iter().find(|found| found.id == "persistence");
        found.expect("it saves nothing").change
    };
    assert!(diagnose("").await.contains("admission=strict"));
    let change = diagnose("?wire=set-nx").await;
    assert!(change.contains("appendonly yes") && !change.contains("admission"), "{change}");
    let error = try_wire(&server, "wire=set-nx&admission=strict").await.unwrap_err();
    assert!(error.to_string().contains("admission with wire"), "{error}");
}

/// The keys and values are those of the libraries.
async fn the_advice_on_foreign_locks_has_the_options_that_they_need() {
    let (uuid, added) =
        ("8743c9c0-0795-4907-87fd-6c719a6b4586", "ADDED:2026-01-01T00:00:00.000Z@host:8743c9c0");
    let py = "c0ffee00d9cb11f0a16570867728950e";
    // The server reads escapes of bytes in its scripts only.
    const RAW: &str = "local text = string.rep('\\245', tonumber(ARGV[1])) \
                       return redis.call('SET', KEYS[1], text, 'PX', 600000)";
    let server = plain();
    for (key, value) in [
        ("d1", py),
        ("d2", "h0PJwAeVSQeH_WxxmmtFhg"),
        ("redlock:d3", uuid),
        ("myreg:d4", uuid),
        ("job-lock:default:d8", added),
    ] {
        server.admin(&["SET", key, value, "PX", "600000"]).unwrap();
    }
    server.admin(&["SET", "d5", py]).unwrap();
    server.admin(&["EVAL", RAW, "1", "d6", "20"]).unwrap();
    server.admin(&["EVAL", RAW, "1", "rueidislock:0:d7", "24"]).unwrap();
    let found = async |options: &str| {
        let url = StoreUrl::parse(&format!("{}{options}", server.url())).unwrap();
        let found = leasehold_redis::foreign_locks(url, "").await.unwrap();
        assert!(found.unseen.is_empty(), "{:?}", found.unseen);
        let texts = found.findings.iter();
        let texts = texts.map(|found| format!("{} | {} | {}", found.what, found.why, found.change));
        texts.collect::<Vec<String>>()
    };
    let has = |found: &[String], parts: &[&str]| {
        let all = |text: &String| parts.iter().all(|part| text.contains(part));
        assert_eq!(found.iter().filter(|text| all(text)).count(), 1, "{parts:?}: {found:#?}");
    };
    let all = found("").await;
    assert_eq!(all.len(), 6, "{all:#?}");
    has(&all, &["3 keys", "bsm", "would not exclude", "use wire=set-nx:"]);
    has(&all, &["1 keys without an end", "d5", "for ever", "timeout"]);
    has(&all, &["pottery", "wire=set-nx&key-prefix=redlock:,", "names without"]);
    has(&all, &["ShedLock", "wire=set-nx&key-prefix=job-lock:default:,", "names without"]);
    has(&all, &["Spring", "wire=set-nx&spring=myreg ", "names without"]);
    has(&all, &["rueidislock", "wire=rueidis&majority=KEYMAJORITY,", "names without"]);
    // What the URL has needs no change, and the rest does.
    let shared = found("?wire=set-nx").await;
    has(&shared, &["3 keys", "excludes their holders", "keep the option"]);
    has(&shared, &["pottery", "would not exclude", "key-prefix=redlock:"]);
    has(&shared, &["1 keys without an end", "d5", "timeout"]);
    let shared = found("?wire=set-nx&key-prefix=redlock:").await;
    has(&shared, &["pottery", "excludes their holders"]);
    has(&shared, &["3 keys", "would not exclude"]);
    let shared = found("?wire=set-nx&spring=myreg").await;
    has(&shared, &["Spring", "excludes their holders"]);
    let shared = found("?wire=rueidis&majority=2").await;
    has(&shared, &["rueidislock", "excludes their holders"]);
}

async fn keys_that_look_like_locks_are_found_under_a_prefix() {
    let server = plain();
    let (hex, uuid) = ("0f8fad5bd9cb469fa16570867728950e", "8743c9c0-0795-4907-87fd-6c719a6b4586");
    for (key, value) in
        [("jobs*/a", hex), ("jobs*/b", uuid), ("jobs*/c", "a session"), ("jobsx/d", hex)]
    {
        server.admin(&["SET", key, value, "PX", "600000"]).unwrap();
    }
    server.admin(&["SET", "jobs*/without-an-end", hex]).unwrap();
    server.admin(&["HSET", "jobs*/e", "mode", "read", &format!("{uuid}:1"), "1"]).unwrap();
    server.admin(&["HSET", "jobs*/f", "name", "value"]).unwrap();
    server.admin(&["RPUSH", "jobs*/g", hex]).unwrap();
    let url = StoreUrl::parse(&server.url()).unwrap();
    let found = leasehold_redis::foreign_locks(url.clone(), "jobs*/").await.unwrap();
    let texts: Vec<String> =
        found.findings.iter().map(|found| format!("{} {}", found.what, found.change)).collect();
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(texts[0].contains("1 keys") && texts[0].contains("jobs*/e"), "{texts:?}");
    assert!(texts[0].contains("wire=redisson"), "{texts:?}");
    assert!(texts[1].contains("2 keys") && texts[1].contains("wire=set-nx"), "{texts:?}");
    assert!(!texts[1].contains("prefix"), "{texts:?}");
    assert!(found.unseen.is_empty());
    for number in 0..1100 {
        server.admin(&["SET", &format!("many/{number}"), "x"]).unwrap();
    }
    let found = leasehold_redis::foreign_locks(url, "many/").await.unwrap();
    assert!(found.findings.is_empty());
    assert!(found.unseen[0].why.contains("longer prefix"), "{:?}", found.unseen);
}
