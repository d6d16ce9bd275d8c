//! What servers do while they cannot write.

use leasehold_test_servers::{
    DiskShim, EtcdServer, EtcdSettings, Full, MariaDb, Postgres, RedisServer, RedisSettings, wait,
};
use serde_json::json;

pub(crate) const TESTS: &[(&str, fn())] = &[
    ("disk::redis_refuses_writes_while_its_disk_is_full", redis_refuses_writes),
    ("disk::etcd_ends_when_its_disk_is_full", etcd_ends),
    ("disk::postgres_loses_nothing_to_a_full_disk", postgres_loses_nothing),
    ("disk::mariadb_loses_nothing_to_a_full_disk", mariadb_loses_nothing),
];

fn redis_refuses_writes() {
    let disk = DiskShim::build().unwrap();
    for full in [Full::Growth, Full::Writes] {
        let [preload, file] = disk.env();
        let settings = RedisSettings::new().append_only().line("appendfsync no");
        let settings = settings.env(preload.0, preload.1).env(file.0, file.1);
        let mut server = RedisServer::start(settings).unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        disk.fill(elsewhere.path(), full).unwrap();
        server.admin(&["SET", "a", "0"]).unwrap();
        disk.fill(&server.data(), full).unwrap();
        let mut told = String::new();
        wait("a write is refused", || {
            told = server.admin(&["INCR", "a"]).err().map(|e| e.to_string()).unwrap_or_default();
            told.contains("MISCONF")
        })
        .unwrap();
        let value = server.admin(&["GET", "a"]).unwrap().text();
        disk.free().unwrap();
        let status = || server.info("aof_last_write_status").unwrap();
        wait("it has written what it answered", || status() == "ok").unwrap();
        server.restart().unwrap();
        assert_eq!(server.admin(&["GET", "a"]).unwrap().text(), value);
        // What it answers before it knows is lost when it is killed.
        disk.fill(&server.data(), full).unwrap();
        server.admin(&["SET", "a", "lost"]).unwrap();
        server.kill();
        disk.free().unwrap();
        server.start_again().unwrap();
        assert_eq!(server.admin(&["GET", "a"]).unwrap().text(), value);
    }
}

fn etcd_ends() {
    let mut server = EtcdServer::start(EtcdSettings::new()).unwrap();
    let put = |server: &EtcdServer| server.call("kv/put", &json!({"key": "YQ==", "value": "Yg=="}));
    put(&server).unwrap();
    server.refuse_writes(true).unwrap();
    assert!(put(&server).is_err());
    wait("it has ended", || server.has_ended()).unwrap();
    server.kill();
    server.start_again().unwrap();
    put(&server).unwrap();
    server.refuse_writes(true).unwrap();
    server.refuse_writes(false).unwrap();
    // It ends if it wrote something of its own in between.
    wait("it has ended or serves", || server.has_ended() || put(&server).is_ok()).unwrap();
    if server.has_ended() {
        server.start_again().unwrap();
    }
    put(&server).unwrap();
}

/// Inserts rows until the server refuses one; how many it took.
fn rows_until_refused(insert: impl Fn() -> std::io::Result<String>) -> usize {
    let mut rows = 0;
    wait("a row is refused", || {
        let refused = insert().is_err();
        rows += usize::from(!refused);
        refused
    })
    .unwrap();
    rows
}

fn postgres_loses_nothing() {
    let disk = DiskShim::build().unwrap();
    let mut server = Postgres::start_in(&[], disk.env().into()).unwrap();
    server.sql("CREATE TABLE a (n text)").unwrap();
    disk.fill(&server.data(), Full::Writes).unwrap();
    let rows = rows_until_refused(|| server.sql("INSERT INTO a VALUES ('b')"));
    disk.free().unwrap();
    wait("it has ended or serves", || server.has_ended() || server.sql("SELECT 1").is_ok())
        .unwrap();
    if server.has_ended() {
        server.restart().unwrap();
    }
    assert_eq!(server.sql("SELECT count(*) FROM a").unwrap(), rows.to_string());
}

fn mariadb_loses_nothing() {
    let disk = DiskShim::build().unwrap();
    let options = ["--innodb-use-native-aio=OFF"];
    let mut server = MariaDb::start_in(&options, disk.env().into()).unwrap();
    server.sql("CREATE TABLE a (n text) ENGINE=InnoDB").unwrap();
    disk.fill(&server.data(), Full::Writes).unwrap();
    let rows = rows_until_refused(|| server.sql("INSERT INTO a VALUES ('b')"));
    disk.free().unwrap();
    wait("it has ended or serves", || server.has_ended() || server.sql("SELECT 1").is_ok())
        .unwrap();
    if server.has_ended() {
        server.restart().unwrap();
    }
    assert_eq!(server.sql("SELECT count(*) FROM a").unwrap(), rows.to_string());
}
