//! `leasehold cache`: the outbox table is made, and what lies in it is delivered to Redis.

mod killed;
#[cfg(feature = "nats")]
mod stream;

use std::process::Stdio;

use leasehold_test_servers::{Needs, Postgres, RedisServer, RedisSettings, Value};
use nix::sys::signal::Signal;

use crate::blocked::{full_pipe, is_blocked_at};
use crate::support::{Running, WorkDir, until};

/// An entry, as the cache names it.
const ENTRY: &str = "{leasehold-cache:users:42}";

fn row(database: &Postgres) {
    let columns = "cache, name, hold_ms, queued_us, due_us, tries";
    let values = "'leasehold-cache:users', '42', 0, 0, 0, 0";
    let insert = format!("INSERT INTO leasehold_cache_outbox ({columns}) VALUES ({values})");
    database.sql(&insert).unwrap();
}

fn is_cached(redis: &RedisServer) -> bool {
    redis.admin(&["EXISTS", ENTRY]).unwrap() == Value::Integer(1)
}

#[test]
fn the_relay_delivers_what_is_in_the_outbox() {
    if Needs::Postgres.is_skipped() || Needs::Redis.is_skipped() {
        return;
    }
    let place = WorkDir::new();
    let database = Postgres::start(&[]).unwrap();
    let mut redis = RedisServer::start(RedisSettings::new()).unwrap();
    let (url, store) = (database.url(), redis.url());
    let relay = ["--store", &store, "cache", "relay", "--database", &url, "--json"];
    let once = [&relay[..], &["--once"]].concat();

    let done = place.run(&once);
    assert_eq!(done.code, 69, "{done:?}");
    assert!(done.err.contains("leasehold cache init"), "{done:?}");
    let init = ["cache", "init", "--database", &url];
    let done = place.run(&[&init[..], &["--print"]].concat());
    assert!(done.out.contains("CREATE TABLE IF NOT EXISTS \"leasehold_cache_outbox\""), "{done:?}");
    assert_eq!(place.run(&once).code, 69, "printing has made the table");
    for _ in 0..2 {
        assert_eq!(place.run(&init).code, 0);
    }

    redis.admin(&["SET", ENTRY, "old"]).unwrap();
    row(&database);
    let done = place.run(&once);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(!is_cached(&redis));
    let object: serde_json::Value = serde_json::from_str(done.out.trim()).unwrap();
    assert!(object["delivered"] == 1 && object["oldest_ms"] == 0, "{object}");

    // While Redis is down, the row stays.
    redis.kill();
    row(&database);
    assert_eq!(place.run(&once).code, 69);
    redis.start_again().unwrap();
    redis.admin(&["SET", ENTRY, "old"]).unwrap();
    let running = place.start(&[&relay[..], &["--interval", "50ms"]].concat());
    until("the row is delivered", || !is_cached(&redis));
    redis.admin(&["SET", ENTRY, "old"]).unwrap();
    row(&database);
    until("the next is delivered too", || !is_cached(&redis));
    running.send(Signal::SIGTERM);
    let done = running.end();
    assert_eq!(done.code, 0, "{done:?}");
    let last: serde_json::Value = serde_json::from_str(done.out.lines().last().unwrap()).unwrap();
    assert_eq!(last["delivered"], 2, "{done:?}");
    assert_eq!(database.sql("SELECT COUNT(*) FROM leasehold_cache_outbox").unwrap(), "0");
}

#[test]
fn relay_goes_on_while_its_output_is_blocked() {
    if Needs::Postgres.is_skipped() || Needs::Redis.is_skipped() {
        return;
    }
    let place = WorkDir::new();
    let database = Postgres::start(&[]).unwrap();
    let redis = RedisServer::start(RedisSettings::new()).unwrap();
    let (url, store) = (database.url(), redis.url());
    assert_eq!(place.run(&["cache", "init", "--database", &url]).code, 0);
    for (descriptor, options) in [(1, &["--json"][..]), (2, &[])] {
        let relay = ["--store", &store, "cache", "relay", "--database", &url, "--interval", "50ms"];
        let mut command = place.leasehold(&[&relay[..], options].concat());
        let (_reader, writer) = full_pipe();
        match descriptor {
            1 => command.stdout(writer),
            _ => command.stdout(Stdio::null()).stderr(writer),
        };
        let mut running = Running::from(command.spawn().unwrap());
        until("its output is blocked", || is_blocked_at(running.pid(), descriptor));
        redis.admin(&["SET", ENTRY, "old"]).unwrap();
        row(&database);
        until("the row is delivered", || !is_cached(&redis));
        running.send(Signal::SIGTERM);
        assert_eq!(running.until_ended().code(), Some(0));
    }
}

#[test]
fn what_the_relay_cannot_use_is_named() {
    let place = WorkDir::new();
    let database = format!("sqlite:{}", place.path("shop.db").display());
    let redis = "redis://127.0.0.1:1";
    for (arguments, says) in [
        (&["--database", &database][..], "--store redis://host:port"),
        (&["--database", "nonsense", "--store", redis], "--database"),
        (&["--database", "redis://h", "--store", redis], "--database"),
        (&["--database", "postgres://h/app?schema=shop", "--store", redis], "schema"),
        (&["--database", "postgres://h/app?listen=off", "--store", redis], "listen"),
        (&["--database", "sqlite:/x?create=no", "--store", redis], "create"),
        (&["--database", "sqlite:/x?prefix=a", "--store", redis], "prefix"),
        (&["--database", &database, "--store", redis, "--table", "a b"], "table"),
        (&["--database", &database, "--store", redis, "--batch", "0"], "batch"),
        (&["--database", &database, "--store", redis, "--poll", "1ms"], "poll"),
        (&["--store", redis], "--database"),
        (&["--database", &database, "--to", "http://u:secret@h"], "redis://host"),
        #[cfg(feature = "nats")]
        (&["--database", &database, "--to", "nats://u:secret@h?colour=red"], "colour"),
        #[cfg(feature = "nats")]
        (&["--database", &database, "--to", "tls://u:secret@"], "host is missing"),
    ] {
        let done = place.run(&[&["cache", "relay"], arguments].concat());
        assert_eq!(done.code, 125, "{done:?}");
        assert!(done.err.contains(says), "{says}: {done:?}");
        assert!(!done.err.contains("secret"), "{done:?}");
    }
    let nowhere = "postgres://u:secret@127.0.0.1:1/app";
    for call in [&["cache", "init"][..], &["cache", "relay", "--once", "--store", redis]] {
        let done = place.run(&[call, &["--database", nowhere]].concat());
        assert_eq!(done.code, 69, "{done:?}");
        let step = "check that postgres://…@127.0.0.1:1/app (--database) runs";
        assert!(done.err.contains(step) && !done.err.contains("secret"), "{done:?}");
    }
    let done = place.run(&["cache", "init"]);
    assert!(done.code == 125 && done.err.contains("--database"), "{done:?}");
    // A wrong path makes no database.
    let done = place.run(&["cache", "relay", "--database", &database, "--store", redis, "--once"]);
    assert_eq!(done.code, 69, "{done:?}");
    assert!(!place.path("shop.db").exists());
}
