//! The command on etcd: all that it does with a store.

use leasehold_test_servers::{EtcdServer, EtcdSettings, Needs};
use nix::sys::signal::Signal;

use crate::support::{WorkDir, children, until};
use crate::watch::Watch;

/// A server of our own; `None`, and a word, where none is installed and none is required.
fn server() -> Option<EtcdServer> {
    if Needs::Etcd.is_skipped() {
        return None;
    }
    Some(EtcdServer::start(EtcdSettings::new()).unwrap())
}

#[test]
fn eight_loops_of_fifty_runs_count_to_four_hundred() {
    let Some(server) = server() else { return };
    crate::counter::count_in(&WorkDir::new(), &server.url(), 50);
}

#[test]
fn a_lock_is_shown_watched_listed_and_ended() {
    let Some(server) = server() else { return };
    let (place, url) = (WorkDir::new(), server.url());
    let script = "trap 'exit 9' TERM; touch ready; while :; do sleep 0.01; done";
    let running = place.start(&["run", "--store", &url, "jobs/one", "--", "sh", "-c", script]);
    place.until_exists("ready");
    let shown = place.run(&["status", "--store", &url, "--json", "jobs/one"]);
    let shown: serde_json::Value = serde_json::from_str(&shown.out).unwrap();
    assert_eq!(shown["state"], "held", "{shown}");
    let token = shown["token"].to_string();
    let mut watch = Watch::start(&place, &["--store", &url, "jobs/one", "--json"]);
    while !watch.line().contains("\"held\"") {}
    let listed = place.run(&["list", "--store", &url, "jobs/"]);
    assert!(listed.out.contains("jobs/one"), "{}", listed.out);
    let refused = place.run(&["run", "-n", "--store", &url, "jobs/one", "--", "true"]);
    assert_eq!(refused.code, 1);
    let ended = place.run(&["force-release", "--store", &url, "jobs/one", "--token", &token]);
    assert_eq!(ended.code, 0, "{}", ended.err);
    assert_eq!(running.end().code, 76);
    while !watch.line().contains("\"free\"") {}
    until("it is free", || {
        place.run(&["run", "-n", "--store", &url, "jobs/one", "--", "true"]).code == 0
    });
}

#[test]
fn signal_ends_the_minimum_hold_and_the_lock_with_it() {
    let Some(server) = server() else { return };
    let (place, url) = (WorkDir::new(), server.url());
    let run = ["run", "--store", &url, "--ttl", "10m", "--min-hold", "1h", "a", "touch", "ready"];
    let running = place.start(&run);
    place.until_exists("ready");
    until("it keeps the lock without a command", || children(running.pid()).is_empty());
    assert_eq!(place.run(&["run", "-n", "--store", &url, "a", "true"]).code, 1);
    running.send(Signal::SIGTERM);
    assert_eq!(running.end().code, 143);
    assert_eq!(place.run(&["run", "-n", "--store", &url, "a", "true"]).code, 0);
}
