//! `run --shared`: readers together, a writer alone, in real processes.

use leasehold_test_servers::{
    Needs, RedisServer, RedisSettings, ZooKeeperServer, ZooKeeperSettings,
};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::quorum;
use crate::support::{Running, WorkDir, runs, until};

/// Starts a reader that ends when the file `stop-NAME` is there, and waits until it runs.
fn reader(place: &WorkDir, name: &str) -> Running {
    reader_on(place, &[], name)
}

/// Does so with these options.
fn reader_on(place: &WorkDir, options: &[&str], name: &str) -> Running {
    let script = format!(
        "echo $$ > pid-{name}; echo $LEASEHOLD_TOKEN > token-{name}; \
         while [ ! -e stop-{name} ]; do sleep 0.01; done"
    );
    let command = ["run", "--shared", "a", "--", "sh", "-c", &script];
    let running = place.start(&[options, &command].concat());
    until("the reader runs", || place.read(&format!("token-{name}")).ends_with('\n'));
    running
}

fn status(place: &WorkDir) -> Value {
    serde_json::from_str(&place.run(&["status", "a", "--json"]).out).unwrap()
}

fn pids(status: &Value) -> Vec<i64> {
    let holders = status["holders"].as_array().unwrap();
    holders.iter().map(|holder| holder["pid"].as_i64().unwrap()).collect()
}

#[test]
fn two_shared_runs_run_together_and_a_run_waits_for_both() {
    let place = WorkDir::new();
    let (one, two) = (reader(&place, "one"), reader(&place, "two"));
    assert_eq!(place.read("token-one"), place.read("token-two"), "two tokens in a phase");
    assert_eq!(place.run(&["run", "-n", "a", "touch", "ran"]).code, 1);
    let (writer, err) = place.start_waiting(&["a", "--", "touch", "ran"]);
    assert!(place.read(&err).contains("held by 2 readers"), "{}", place.read(&err));
    place.write("stop-one", "");
    assert_eq!(one.end().code, 0);
    let shown = status(&place);
    assert_eq!((shown["state"].as_str(), pids(&shown)), (Some("shared"), vec![two.pid().into()]));
    assert_eq!(shown["waiters"].as_array().unwrap().len(), 1, "{shown}");
    assert!(!place.path("ran").exists());
    place.write("stop-two", "");
    assert_eq!((two.end().code, writer.end().code), (0, 0));
    assert!(place.path("ran").exists());
}

#[test]
fn shared_runs_on_redis_run_together_and_a_run_waits_for_both() {
    if Needs::Redis.is_skipped() {
        return;
    }
    let server = RedisServer::start(RedisSettings::new()).unwrap();
    run_together(&WorkDir::new(), &server.url());
}

#[test]
fn shared_runs_in_a_database_run_together_and_a_run_waits_for_both() {
    let place = WorkDir::new();
    run_together(&place, &format!("sqlite:{}", place.path("locks.db").display()));
}

#[test]
fn shared_runs_on_zookeeper_run_together_and_a_run_waits_for_both() {
    if Needs::ZooKeeper.is_skipped() {
        return;
    }
    let server = ZooKeeperServer::start(ZooKeeperSettings::new()).unwrap();
    run_together(&WorkDir::new(), &server.url());
}

fn run_together(place: &WorkDir, url: &str) {
    let store = ["--store", url];
    let (one, two) = (reader_on(place, &store, "one"), reader_on(place, &store, "two"));
    assert_eq!(place.read("token-one"), place.read("token-two"), "two tokens in a phase");
    let run = |words: &[&str]| place.run(&[&store[..], words].concat());
    assert_eq!(run(&["run", "-n", "a", "touch", "ran"]).code, 1);
    let (writer, _) = place.start_waiting(&["--store", url, "a", "--", "touch", "ran"]);
    assert_eq!(run(&["run", "-n", "-s", "a", "touch", "ran"]).code, 1, "a writer waits");
    let shown: Value = serde_json::from_str(&run(&["status", "a", "--json"]).out).unwrap();
    assert_eq!((shown["state"].as_str(), pids(&shown).len()), (Some("shared"), 2), "{shown}");
    place.write("stop-one", "");
    assert_eq!(one.end().code, 0);
    assert!(!place.path("ran").exists());
    place.write("stop-two", "");
    assert_eq!((two.end().code, writer.end().code), (0, 0));
    assert!(place.path("ran").exists());
}

#[test]
fn a_waiting_run_keeps_later_shared_ones_out() {
    let place = WorkDir::new();
    let first = reader(&place, "one");
    let (writer, _) = place.start_waiting(&["a", "--", "sh", "-c", "echo writer >> order"]);
    assert_eq!(place.run(&["run", "-n", "-s", "a", "touch", "ran"]).code, 1);
    assert!(!place.path("ran").exists());
    let (late, _) = place.start_waiting(&["-s", "a", "--", "sh", "-c", "echo reader >> order"]);
    let waiters = status(&place)["waiters"].clone();
    assert_eq!((&waiters[0]["shared"], &waiters[1]["shared"]), (&false.into(), &true.into()));
    place.write("stop-one", "");
    assert_eq!((first.end().code, writer.end().code, late.end().code), (0, 0, 0));
    assert_eq!(place.read("order"), "writer\nreader\n");
}

#[test]
fn killing_one_shared_run_ends_its_command_and_leaves_the_others() {
    let place = WorkDir::new();
    let (one, two) = (reader(&place, "one"), reader(&place, "two"));
    let (writer, _) = place.start_waiting(&["a", "--", "touch", "ran"]);
    one.send(Signal::SIGKILL);
    let command = place.read("pid-one").trim().parse().unwrap();
    until("its command is killed", || !runs(command));
    until("it has left", || pids(&status(&place)) == [i64::from(two.pid())]);
    assert!(runs(two.pid()) && !place.path("ran").exists());
    place.write("stop-two", "");
    assert_eq!((two.end().code, writer.end().code), (0, 0));
}

#[test]
fn all_readers_are_shown_with_their_token() {
    let place = WorkDir::new();
    let readers = [reader(&place, "one"), reader(&place, "two")];
    let shown = status(&place);
    let mut expected: Vec<i64> = readers.iter().map(|reader| reader.pid().into()).collect();
    let mut found = pids(&shown);
    expected.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, expected, "{shown}");
    for holder in shown["holders"].as_array().unwrap() {
        let token: u64 = place.read("token-one").trim().parse().unwrap();
        assert_eq!((&holder["token"], &shown["token"]), (&token.into(), &token.into()));
        assert!(holder["owner"].is_string(), "{shown}");
    }
    let text = place.run(&["status", "a"]).out;
    assert!(expected.iter().all(|pid| text.contains(&format!("/{pid}"))), "{text}");
    let listed = place.run(&["list"]).out;
    assert!(listed.contains("shared") && listed.contains(" +1 "), "{listed}");
    let watch = place.start_to("changes", &["watch", "a", "--interval", "10ms"]);
    until("watch says it", || place.read("changes").contains(" shared by "));
    let line = place.read("changes");
    assert!(expected.iter().all(|pid| line.contains(&format!("/{pid}"))), "{line}");
    drop(watch);
    let done = place.run(&["force-release", "a", "--token", &shown["token"].to_string()]);
    assert_eq!(done.code, 125);
    assert!(done.err.contains("end the processes of all readers instead"), "{done:?}");
}

#[test]
fn a_reader_has_no_minimum_hold() {
    let place = WorkDir::new();
    let done = place.run(&["run", "-s", "--min-hold", "1s", "a", "touch", "ran"]);
    assert_eq!(done.code, 125, "{done:?}");
    assert!(done.err.contains("only a writer can have one"), "{done:?}");
    assert!(!place.path("ran").exists());
    // That of the config file is for writers.
    place.write("config/leasehold/config.toml", "[run]\nmin-hold = \"1s\"\n");
    let done = place.run(&["run", "-s", "a", "true"]);
    assert_eq!(done.code, 0, "{done:?}");
}

#[test]
fn a_store_without_shared_locks_says_so_and_names_one_with_them() {
    let Some((_servers, url)) = quorum::servers() else { return };
    let place = WorkDir::new();
    let done = place.run(&["run", "--shared", "--store", &url, "a", "touch", "ran"]);
    assert_eq!(done.code, 125, "{done:?}");
    let parts =
        ["has no locks that readers share", "over a majority of nodes", "file:", "--shared"];
    assert!(parts.iter().all(|part| done.err.contains(part)), "{done:?}");
    assert!(!place.path("ran").exists());
}
