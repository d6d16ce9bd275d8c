//! Databases: what a commit promises, poolers, replicas, rights, and a file's place.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use leasehold_test_servers::{ClockShim, MariaDb, Needs, PgBouncer, Postgres};

use super::finds;
use crate::support::{Done, WorkDir};

/// As a server for locks should be; the kit's own does not sync.
const SOUND: &[&str] = &["fsync=on", "synchronous_commit=on"];

fn postgres(options: &[&str]) -> Option<Postgres> {
    if Needs::Postgres.is_skipped() {
        return None;
    }
    Some(Postgres::start(options).unwrap())
}

#[test]
fn a_sound_postgres_is_0_and_one_that_may_forget_is_named() {
    let Some(server) = postgres(SOUND) else { return };
    finds(&server.url(), 0, &["note no-tables"]);
    finds(&format!("{}?create=no", server.url()), 2, &["problem no-tables"]);
    let place = WorkDir::new();
    assert_eq!(place.run(&["run", "--store", &server.url(), "a", "true"]).code, 0);
    finds(&server.url(), 0, &[]);
    // What stands with the role comes before what the server was started with.
    let set = |setting: &str| {
        server.sql(&format!("ALTER ROLE leasehold SET {setting}")).unwrap();
    };
    set("synchronous_commit = off");
    set("default_transaction_isolation = 'serializable'");
    finds(&server.url(), 1, &["warning synchronous-commit", "warning isolation"]);
    set("default_transaction_read_only = on");
    let (code, found) = super::doctor(&server.url());
    assert_eq!(code, 2, "{found:#}");
    assert!(super::ids(&found).contains(&"problem read-only".to_owned()), "{found:#}");
}

#[test]
fn a_pooler_in_transaction_mode_is_named_until_the_url_says_where_to_listen() {
    if Needs::Pooler.is_skipped() {
        return;
    }
    let Some(server) = postgres(SOUND) else { return };
    let pooler = PgBouncer::start(&server, 4).unwrap();
    let found = finds(&pooler.url(), 1, &["warning pooler", "note no-tables"]);
    assert!(found["findings"][0]["change"].as_str().unwrap().contains("listen="), "{found:#}");
    finds(&format!("{}?listen=off", pooler.url()), 0, &["note pooler", "note no-tables"]);
    finds(&format!("{}?listen={}", pooler.url(), server.address()), 0, &["note no-tables"]);
}

#[test]
fn rights_on_the_tables_are_tried_and_nothing_is_changed() {
    let Some(server) = postgres(SOUND) else { return };
    let place = WorkDir::new();
    assert_eq!(place.run(&["run", "--store", &server.url(), "a", "true"]).code, 0);
    server.sql("CREATE ROLE poor LOGIN PASSWORD 's3cret'").unwrap();
    server.sql("GRANT SELECT ON ALL TABLES IN SCHEMA public TO poor").unwrap();
    let found = finds(&server.url_as("poor", "s3cret"), 2, &["problem rights"]);
    let what = found["findings"][0]["what"].as_str().unwrap();
    assert!(what.contains("UPDATE on leasehold_locks"), "{what}");
    assert!(!what.contains("SELECT on") && !found.to_string().contains("s3cret"), "{what}");
    finds(&server.url_as("poor", "wrong"), 2, &["problem refused"]);
}

#[test]
fn mariadb_is_looked_at() {
    if Needs::MySql.is_skipped() {
        return;
    }
    let server = MariaDb::start(&["--innodb-flush-log-at-trx-commit=1"]).unwrap();
    let place = WorkDir::new();
    assert_eq!(place.run(&["run", "--store", &server.url(), "a", "true"]).code, 0);
    finds(&server.url(), 0, &[]);
    server.sql("SET GLOBAL innodb_flush_log_at_trx_commit = 2").unwrap();
    finds(&server.url(), 1, &["warning durability"]);
    server.sql("SET GLOBAL read_only = 1").unwrap();
    let (code, found) = super::doctor(&server.url());
    assert_eq!(code, 2, "{found:#}");
    assert!(super::ids(&found).contains(&"problem read-only".to_owned()), "{found:#}");
}

#[test]
fn a_sqlite_file_is_looked_at_and_not_made() {
    let place = WorkDir::new();
    let file = place.path("locks.db");
    let url = format!("sqlite:{}", file.display());
    finds(&url, 0, &["note absent"]);
    let nowhere = format!("sqlite:{}", place.path("no/such/locks.db").display());
    finds(&nowhere, 2, &["problem no-directory"]);
    assert!(!file.exists());
    assert_eq!(place.run(&["run", "--store", &url, "a", "true"]).code, 0);
    finds(&url, 0, &[]);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    finds(&url, 1, &["warning mode"]);
    // A process that ends leaves the log, from which SQLite restores the file.
    for part in ["locks.db-wal", "locks.db-shm"] {
        let _ = fs::remove_file(place.path(part));
    }
    fs::write(&file, "not a database, but long enough to be taken for one".repeat(100)).unwrap();
    let (code, found) = super::doctor(&url);
    assert_eq!(code, 2, "{found:#}");
}

#[test]
fn the_clock_of_a_database_is_compared_with_ours() {
    let shim = ClockShim::build().unwrap();
    // The client under test may be off as well as the server.
    shim.set_offset(5.0).unwrap();
    let Some(server) = postgres(SOUND) else { return };
    let place = WorkDir::new();
    let mut command = place.leasehold(&["doctor", "--json", "--store", &server.url()]);
    let done = Done::new(command.envs(shim.env()).output().unwrap());
    assert_eq!(done.code, 1, "{done:?}");
    assert!(done.out.contains("5.0 s behind the local clock"), "{done:?}");
}
