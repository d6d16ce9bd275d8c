//! `leasehold cache` by way of a stream of NATS JetStream.

use leasehold_test_servers::{
    NatsServer, NatsSettings, Needs, Postgres, RedisServer, RedisSettings,
};
use nix::sys::signal::Signal;
use serde_json::Value;

use super::{ENTRY, is_cached, row};
use crate::support::{WorkDir, until};

#[test]
fn the_relay_delivers_by_way_of_a_stream() {
    if Needs::Postgres.is_skipped() || Needs::Redis.is_skipped() || Needs::Nats.is_skipped() {
        return;
    }
    let (place, database) = (WorkDir::new(), Postgres::start(&[]).unwrap());
    let redis = RedisServer::start(RedisSettings::new()).unwrap();
    let nats = NatsServer::start(NatsSettings::new().user("app", "secret")).unwrap();
    let (url, store, broker) = (database.url(), redis.url(), nats.url_as("app", "secret"));
    let both = ["cache", "init", "--database", &url, "--to", &broker];
    let relay = ["cache", "relay", "--database", &url, "--to", &broker, "--json"];
    let apply = ["--store", &store, "cache", "apply", "--from", &broker, "--json"];
    let once = |command: &[&str]| {
        let done = place.run(&[command, &["--once"]].concat());
        let last = done.out.lines().last().unwrap_or_default();
        (serde_json::from_str::<Value>(last).unwrap_or_default(), done)
    };

    let done = place.run(&[&both[..], &["--print"]].concat());
    assert!(done.out.contains("CREATE TABLE") && done.out.contains("\"subjects\""), "{done:?}");
    assert_eq!(place.run(&both[..4]).code, 0);
    row(&database);
    for command in [&relay[..], &apply] {
        let (said, done) = once(command);
        assert_eq!(done.code, 69, "{done:?}");
        assert!(done.err.contains("leasehold cache init --to"), "{done:?}");
        assert!(said["problem"].is_string() && !format!("{done:?}").contains("secret"), "{done:?}");
    }
    for _ in 0..2 {
        assert_eq!(place.run(&both).code, 0);
    }
    redis.admin(&["SET", ENTRY, "old"]).unwrap();
    let (said, done) = once(&relay);
    assert!(done.code == 0 && said["delivered"] == 1, "{done:?}");
    assert!(is_cached(&redis), "it is in the stream");
    let (said, done) = once(&apply);
    assert!(done.code == 0 && said["applied"] == 1 && said["waiting"] == 0, "{done:?}");
    assert!(!is_cached(&redis));

    let often = ["--interval", "50ms"];
    let running = [&relay[..], &apply].map(|command| place.start(&[command, &often].concat()));
    redis.admin(&["SET", ENTRY, "old"]).unwrap();
    row(&database);
    until("it goes all the way", || !is_cached(&redis));
    for process in running {
        process.send(Signal::SIGTERM);
        let done = process.end();
        assert_eq!(done.code, 0, "{done:?}");
    }
    let bad = ["cache", "apply", "--from", "redis://u:secret@h", "--store", &store];
    let done = place.run(&bad);
    assert!(done.code == 125 && done.err.contains("nats://host:port"), "{done:?}");
    assert!(!done.err.contains("secret"), "{done:?}");
    let bad = ["cache", "apply", "--from", &broker, "--store", "file:/dev/null/nowhere"];
    assert!(place.run(&bad).err.contains("--store redis://host:port"));
}
