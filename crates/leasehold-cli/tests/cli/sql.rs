//! The command on databases: all of them do what they do elsewhere, and `init` makes their tables.

use leasehold_test_servers::{MariaDb, Needs, Postgres};

use crate::support::{WorkDir, until};

#[test]
fn everything_works_on_sqlite() {
    let place = WorkDir::new();
    let store = format!("sqlite:{}", place.path("locks.db").display());
    everything(&place, &store);
}

#[test]
fn everything_works_on_postgres() {
    if Needs::Postgres.is_skipped() {
        return;
    }
    let server = Postgres::start(&[]).unwrap();
    everything(&WorkDir::new(), &server.url());
}

#[test]
fn everything_works_on_mysql() {
    if Needs::MySql.is_skipped() {
        return;
    }
    let server = MariaDb::start(&[]).unwrap();
    everything(&WorkDir::new(), &server.url());
}

fn everything(place: &WorkDir, store: &str) {
    let run = |arguments: &[&str]| place.run(&[&["--store", store], arguments].concat());
    let without = format!("{store}?create=no");
    let done = place.run(&["--store", &without, "status", "a"]);
    assert_eq!(done.code, 69, "{done:?}");
    assert!(done.err.contains("leasehold init"), "{done:?}");

    let done = run(&["init", "--print"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.out.contains("CREATE TABLE IF NOT EXISTS leasehold_locks"), "{done:?}");
    let done = place.run(&["--store", &without, "status", "a"]);
    assert_eq!(done.code, 69, "printing made the tables: {done:?}");
    for _ in 0..2 {
        assert_eq!(run(&["init"]).code, 0);
    }
    assert_eq!(place.run(&["--store", &without, "status", "a"]).code, 1);

    let script = "touch ready; while [ ! -e stop ]; do sleep 0.01; done; exit 4";
    let running = place.start(&["--store", store, "run", "a/b", "--", "sh", "-c", script]);
    place.until_exists("ready");
    let done = run(&["run", "-n", "a/b", "true"]);
    assert_eq!(done.code, 1, "{done:?}");
    let waiting = place.start(&["--store", store, "run", "a/b", "true"]);
    until("it waits", || run(&["status", "--json", "a/b"]).out.contains("\"waiters\":[{"));
    let done = run(&["list", "a/"]);
    assert!(done.code == 0 && done.out.contains("a/b"), "{done:?}");
    place.write("stop", "");
    assert_eq!(running.end().code, 4);
    assert_eq!(waiting.end().code, 0);

    let done = run(&["force-release", "a/b", "--token", "1"]);
    assert_eq!(done.code, 1, "no client holds it: {done:?}");
    assert_eq!(run(&["status", "a/b"]).code, 1);
}

#[test]
fn a_store_that_needs_nothing_says_so() {
    let place = WorkDir::new();
    let done = place.run(&["init"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.err.contains("needs no tables"), "{done:?}");
    assert_eq!(place.run(&["init", "--print"]).out, "");
}
