//! Databases of our own: PostgreSQL, the same behind a pooler in transaction mode, MariaDB, SQLite.

use std::sync::atomic::{AtomicUsize, Ordering};

use leasehold_conformance::{Subject, until_answered};
use leasehold_test_servers::{Galera, MariaDb, Needs, PgBouncer, Postgres};

use crate::subjects::{Setup, by_url};

/// Set to try a Galera cluster too, which no run does by itself.
const GALERA: &str = "LEASEHOLD_GALERA";

/// The servers, for as long as the tests run.
#[derive(Default)]
pub(crate) struct Databases {
    _pooler: Option<PgBouncer>,
    _postgres: Option<Postgres>,
    _mariadb: Option<MariaDb>,
    _galera: Option<Galera>,
}

pub(crate) fn add(setup: &mut Setup) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("locks.db");
    setup.subjects.push(by_url("sqlite", format!("sqlite:{}", file.display())));
    setup.directories.push(directory);
    if !Needs::Postgres.is_missing() {
        let server = Postgres::start(&["max_connections=400"]).unwrap();
        setup.subjects.push(by_url("postgres", server.url()));
        if !Needs::Pooler.is_missing() {
            let pooler = PgBouncer::start(&server, 8).unwrap();
            // Both run at once, with the same names: tables of its own.
            let url = format!("{}?prefix=pooled", pooler.url());
            setup.subjects.push(by_url("postgres-pgbouncer", url));
            setup.databases._pooler = Some(pooler);
        } else {
            setup.missing.push("postgres-pgbouncer");
        }
        server.sql(&shedlock("TIMESTAMP", "")).unwrap();
        server.sql("GRANT SELECT, INSERT, UPDATE ON shedlock TO leasehold").unwrap();
        let url = format!("{}?wire=shedlock", server.url());
        setup.subjects.push(by_url("postgres-shedlock", url));
        server.sql(&shedlock("TIMESTAMP", "").replacen("shedlock", "shedlock_also", 1)).unwrap();
        server.sql("GRANT SELECT, INSERT, UPDATE ON shedlock_also TO leasehold").unwrap();
        let url = format!("{}?also=shedlock&table=shedlock_also&prefix=also", server.url());
        setup.subjects.push(by_url("postgres-also", url));
        setup.databases._postgres = Some(server);
    } else {
        let subjects = ["postgres", "postgres-pgbouncer", "postgres-shedlock", "postgres-also"];
        setup.missing.extend(subjects);
    }
    if !Needs::MySql.is_missing() {
        let server = MariaDb::start(&["--max-connections=400"]).unwrap();
        setup.subjects.push(by_url("mysql", server.url()));
        // Without a collation of bytes, names that differ in case only are one lock.
        server.sql(&shedlock("DATETIME(3)", "COLLATE utf8mb4_nopad_bin ")).unwrap();
        let url = format!("{}?wire=shedlock", server.url());
        setup.subjects.push(by_url("mysql-shedlock", url));
        let table = shedlock("DATETIME(3)", "COLLATE utf8mb4_nopad_bin ");
        server.sql(&table.replacen("shedlock", "shedlock_also", 1)).unwrap();
        let url = format!("{}?also=shedlock&table=shedlock_also&prefix=also", server.url());
        setup.subjects.push(by_url("mysql-also", url));
        setup.databases._mariadb = Some(server);
    } else {
        setup.missing.extend(["mysql", "mysql-shedlock", "mysql-also"]);
    }
    if std::env::var_os(GALERA).is_some() {
        galera(setup);
    }
}

/// A cluster of three nodes. All clients are at its first node, as `leasehold doctor` says, or take turns at the other two. There a
/// read waits for what the other nodes have written: without, a client may see a lock as it was.
fn galera(setup: &mut Setup) {
    let cluster = Galera::start(3, &["--max-connections=400"]).unwrap();
    let [first, others @ ..] = cluster.nodes() else { panic!("{cluster:?}") };
    setup.subjects.push(by_url("mysql-galera", first.url()));
    let each: Vec<String> =
        others.iter().map(|node| format!("{}?prefix=each", node.url())).collect();
    others.iter().for_each(|node| drop(node.sql("SET GLOBAL wsrep_sync_wait = 15").unwrap()));
    let (reached, next) = (each[0].clone(), AtomicUsize::new(0));
    let connect = move || {
        let url = each[next.fetch_add(1, Ordering::Relaxed) % each.len()].clone();
        async move { until_answered(|| leasehold::open(&url)).await.unwrap() }
    };
    setup.subjects.push(Subject::new("mysql-galera-nodes", connect).with_url(reached));
    setup.databases._galera = Some(cluster);
}

/// ShedLock's table, with room for the longest names of the suite.
fn shedlock(time: &str, collation: &str) -> String {
    format!(
        "CREATE TABLE shedlock(name VARCHAR(512) {collation}NOT NULL, lock_until {time} NOT NULL, locked_at {time} NOT NULL, \
         locked_by VARCHAR(255) NOT NULL, PRIMARY KEY (name))"
    )
}
