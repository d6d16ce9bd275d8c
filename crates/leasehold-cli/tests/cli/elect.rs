//! Elections: `elect` and `leader`, with real processes.

use std::fs;

use leasehold_test_servers::{Needs, RedisServer, RedisSettings};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::support::{Running, WorkDir, runs, until};

/// A server of our own; `None` where none is installed and none is required.
fn server() -> Option<RedisServer> {
    (!Needs::Redis.is_skipped()).then(|| RedisServer::start(RedisSettings::new()).unwrap())
}

/// The work of a leader: a file lock of the judge finds a second one. It writes its name and its
/// process to the file `leads`, after the token.
const LEAD: &str = "exec flock -n -E 99 judge sh -c '
    echo $LEASEHOLD_TOKEN $0 $$ >> leads; exec sleep 600' $0";

/// A candidate that leads until it is ended.
fn candidate(place: &WorkDir, store: &str, value: &str) -> Running {
    let elect = ["elect", "--store", store, "--ttl", "3s", "--candidate", value, "a"];
    place.start(&[&elect[..], &["--", "sh", "-c", LEAD, value]].concat())
}

/// The terms until now: token, candidate, process.
fn terms(place: &WorkDir) -> Vec<(u64, String, i32)> {
    let parse = |line: &str| {
        let mut words = line.split(' ');
        let mut word = || words.next().unwrap().to_owned();
        (word().parse().unwrap(), word(), word().parse().unwrap())
    };
    place.read("leads").lines().map(parse).collect()
}

fn until_terms(place: &WorkDir, number: usize) -> (u64, String, i32) {
    until("the next leader works", || {
        let text = place.read("leads");
        text.ends_with('\n') && text.lines().count() >= number
    });
    assert_eq!(terms(place).len(), number);
    terms(place).pop().unwrap()
}

/// What `leader --watch --json` has printed until now: candidates, with `None` for no leader.
fn observed(place: &WorkDir) -> Vec<Option<String>> {
    let text = place.read("observed");
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let change = |line: &str| {
        let change: Value = serde_json::from_str(line).unwrap();
        assert!(change["time_unix_ms"].is_u64() && change["name"] == "a", "{line}");
        change["leader"]["candidate"].as_str().map(str::to_owned)
    };
    whole.lines().map(change).collect()
}

fn observe(place: &WorkDir, store: &str) -> Running {
    let watch = ["leader", "--store", store, "a", "--watch", "--json", "--interval", "10ms"];
    let observer = place.start_to("observed", &watch);
    until("the observer has looked", || !observed(place).is_empty());
    observer
}

/// Three candidates; the leader is killed, then told to end.
fn play(store: &str) {
    let place = WorkDir::new();
    let _observer = observe(&place, store);
    assert_eq!(observed(&place), [None]);
    let mut candidates = Vec::new();
    let mut leaders = Vec::new();
    for value in ["one", "two", "three"] {
        candidates.push((value, candidate(&place, store, value)));
    }
    let mut last = 0;
    for number in 1..=3 {
        let (token, leader, pid) = until_terms(&place, number);
        assert!(token > last, "tokens grow");
        last = token;
        until("the observer sees it", || observed(&place).last() == Some(&Some(leader.clone())));
        let at = candidates.iter().position(|(value, _)| *value == leader).expect("it lives");
        let (_, running) = candidates.remove(at);
        leaders.push(Some(leader));
        match number {
            1 => {
                running.send(Signal::SIGKILL);
                until("its command has ended", || !runs(pid));
            }
            _ => {
                running.send(Signal::SIGTERM);
                assert_eq!(running.end().code, 128 + 15, "it ends, and does not campaign again");
                assert!(!runs(pid));
            }
        }
    }
    until("the observer sees that there is no leader", || observed(&place).last() == Some(&None));
    let seen: Vec<_> = observed(&place).into_iter().filter(Option::is_some).collect();
    // `since_unix_ms` alone is no change: on a quorum it depends on the nodes that answer.
    assert_eq!(seen, leaders, "each leader once, in order: {}", place.read("observed"));
    let status: Value =
        serde_json::from_str(&place.run(&["status", "--store", store, "--json", "a"]).out).unwrap();
    assert_eq!((&status["state"], &status["holder"]), (&"free".into(), &Value::Null));
}

#[test]
fn of_three_candidates_one_leads_and_observers_see_each() {
    let place = WorkDir::new();
    play(&place.store());
    let Some(server) = server() else { return };
    play(&server.url());
}

#[test]
fn of_three_candidates_on_a_quorum_one_leads_and_observers_see_each() {
    let Some((_servers, url)) = crate::quorum::servers() else { return };
    let place = WorkDir::new();
    assert_eq!(place.run(&["quorum", "init", "--yes", "--store", &url]).code, 0);
    play(&url);
}

#[test]
fn a_paused_leader_is_ended_before_the_next_one_leads() {
    let Some(server) = server() else { return };
    let (place, url) = (WorkDir::new(), server.url());
    let first = candidate(&place, &url, "first");
    let (token, _, pid) = until_terms(&place, 1);
    let _second = candidate(&place, &url, "second");
    first.send(Signal::SIGSTOP);
    let (next, leader, _) = until_terms(&place, 2);
    assert!(leader == "second" && next > token);
    assert!(!runs(pid), "the supervisor has ended it");
    first.send(Signal::SIGCONT);
    until("it campaigns again", || {
        let json = place.run(&["status", "--store", &url, "--json", "a"]).out;
        let status: Value = serde_json::from_str(&json).unwrap();
        status["waiters"].as_array().is_some_and(|all| all.len() == 1)
    });
    assert_eq!(terms(&place).len(), 2);
    first.send(Signal::SIGTERM);
    assert_eq!(first.end().code, 128 + 15);
}

#[test]
fn a_leader_that_is_deposed_campaigns_again() {
    let Some(server) = server() else { return };
    let (place, url) = (WorkDir::new(), server.url());
    let running = candidate(&place, &url, "only");
    for number in 1..=3 {
        let (token, _, pid) = until_terms(&place, number);
        if number == 3 {
            break;
        }
        let token = token.to_string();
        let done = place.run(&["force-release", "--store", &url, "a", "--token", &token]);
        assert_eq!(done.code, 0, "{done:?}");
        until("the command of the old term has ended", || !runs(pid));
    }
    running.send(Signal::SIGTERM);
    let done = running.end();
    assert_eq!(done.code, 128 + 15, "{done:?}");
    assert_eq!(done.err.matches("campaigning for a again").count(), 2, "{done:?}");
}

#[test]
fn a_store_that_is_away_ends_the_term_and_not_the_candidate() {
    let Some(mut server) = server() else { return };
    let (place, url) = (WorkDir::new(), server.url());
    let running = candidate(&place, &url, "only");
    let (_, _, pid) = until_terms(&place, 1);
    server.stop().unwrap();
    until("its command has ended", || !runs(pid));
    server.resume().unwrap();
    until_terms(&place, 2);
    running.send(Signal::SIGTERM);
    assert_eq!(running.end().code, 128 + 15);
    server.kill();
    let done = place.run(&["elect", "--store", &url, "a", "--", "touch", "ran"]);
    assert_eq!(done.code, 69, "at the first campaign the store must answer: {done:?}");
}

#[test]
fn a_waiting_candidate_names_the_leader_and_int_ends_both() {
    let place = WorkDir::new();
    let work = "trap 'exit 5' INT; touch ready; while :; do sleep 0.01; done";
    let leader = place.start(&["elect", "a", "--", "sh", "-c", work]);
    place.until_exists("ready");
    let waiter = place.start_saying(&["elect", "a", "--", "touch", "ran"], "err");
    until("it waits", || place.read("err").contains("waiting for a, held by "));
    assert!(place.read("err").contains(&format!("/{}", leader.pid())), "{}", place.read("err"));
    waiter.send(Signal::SIGINT);
    assert_eq!(waiter.end().code, 128 + 2);
    leader.send(Signal::SIGINT);
    let done = leader.end();
    assert_eq!(done.code, 5, "its command got the signal: {done:?}");
    assert!(!done.err.contains("campaigning"), "{done:?}");
    assert!(!place.path("ran").exists());
    assert_eq!(place.run(&["leader", "a"]).code, 1);
}

#[test]
fn the_config_file_sets_the_ttl_of_a_leader() {
    let place = WorkDir::new();
    place.write("config/leasehold/config.toml", "[run]\nttl = \"2s\"\nmax-hold = \"1s\"\n");
    let store = format!("sqlite:{}", place.path("locks.db").display());
    let work = "touch ready; while [ ! -e stop ]; do sleep 0.01; done";
    let elect = |more: &[&str]| {
        let running =
            place.start(&[&["elect", "--store", &store, "a"], more, &["-c", work]].concat());
        place.until_exists("ready");
        let json = place.run(&["status", "--store", &store, "--json", "a"]).out;
        let status: Value = serde_json::from_str(&json).unwrap();
        place.write("stop", "");
        assert_eq!(running.end().code, 0, "a leader has no max-hold");
        fs::remove_file(place.path("ready")).unwrap();
        fs::remove_file(place.path("stop")).unwrap();
        status["remaining_ms"].as_u64().unwrap()
    };
    assert!(elect(&[]) <= 2000, "the default is 30 s");
    assert!(elect(&["--ttl", "1h"]) > 30_000, "the option counts first");
}

#[test]
fn a_command_that_ends_by_itself_resigns_and_its_code_goes_through() {
    let place = WorkDir::new();
    let done = place.run(&["elect", "a", "-c", "echo $LEASEHOLD_NAME; exit 7"]);
    assert_eq!((done.code, done.out.as_str(), done.err.as_str()), (7, "a\n", ""));
    let inner = ["elect", "a", "--", "sh", "-c", "$LEASEHOLD run a -- touch inner"];
    let done = place.run(&inner);
    assert!(done.code == 125 && done.err.contains("wait for itself"), "{done:?}");
    assert_eq!(place.run(&["elect", "a", "--", "no-such-program"]).code, 127);
    assert_eq!(place.run(&["status", "a"]).code, 1, "free");
}

#[test]
fn the_leader_is_printed_for_people_scripts_and_programs() {
    let place = WorkDir::new();
    let done = place.run(&["leader", "a"]);
    assert_eq!((done.code, done.out.as_str()), (1, ""), "{done:?}");
    assert_eq!(done.err, "leasehold: a has no leader\n");
    let json = |place: &WorkDir| -> Value {
        serde_json::from_str(&place.run(&["leader", "a", "--json"]).out).unwrap()
    };
    assert_eq!(json(&place), serde_json::json!({ "name": "a", "leader": null }));

    let script =
        "echo $LEASEHOLD_TOKEN > token; touch ready; while [ ! -e stop ]; do sleep 0.01; done";
    let elect = ["elect", "a", "--candidate", "10.0.0.7:8080", "--", "sh", "-c", script];
    let running = place.start(&elect);
    place.until_exists("ready");
    let done = place.run(&["leader", "a"]);
    assert_eq!((done.code, done.out.as_str()), (0, "10.0.0.7:8080\n"), "{done:?}");
    let waiter = place.start_saying(&["elect", "a", "--", "touch", "ran"], "err");
    until("it names the leader", || {
        place.read("err").contains("waiting for a, held by 10.0.0.7:8080")
    });
    waiter.send(Signal::SIGINT);
    assert_eq!(waiter.end().code, 128 + 2);
    let token: u64 = place.read("token").trim().parse().unwrap();
    let leader = &json(&place)["leader"];
    assert_eq!((&leader["candidate"], &leader["token"]), (&"10.0.0.7:8080".into(), &token.into()));
    assert!(leader["since_unix_ms"].is_u64());
    let status = place.run(&["status", "a"]).out;
    assert!(status.contains("10.0.0.7:8080"), "the lock shows it too: {status}");

    let _watch = place.start_to("lines", &["leader", "a", "--watch", "--interval", "10ms"]);
    until("it prints the leader", || place.read("lines").ends_with('\n'));
    place.write("stop", "");
    assert_eq!(running.end().code, 0);
    until("it prints that there is none", || place.read("lines").lines().count() == 2);
    let lines = place.read("lines");
    let led = format!(" a leader 10.0.0.7:8080, token {token}\n");
    assert!(lines.contains(&led) && lines.ends_with(" a no leader\n"), "{lines}");

    fs::remove_file(place.path("ready")).unwrap();
    let running = place.start(&["elect", "a", "-c", "touch ready; exec sleep 60"]);
    place.until_exists("ready");
    let done = place.run(&["leader", "a"]);
    assert!(done.out.ends_with(&format!("/{}\n", running.pid())), "HOST/PID: {done:?}");
}

#[test]
fn wrong_candidates_are_refused_before_anything_is_done() {
    let place = WorkDir::new();
    let long = "x".repeat(1025);
    for (arguments, part) in [
        (["a", "--candidate", ""], "candidate: is empty"),
        (["a", "--candidate", &long], "candidate: has 1025 bytes"),
        (["a", "--candidate", "b\tc"], "candidate: has the control character U+0009 at byte 1"),
        (["", "--candidate", "b"], "name: is empty"),
    ] {
        let done = place.run(&[&["elect"], &arguments[..], &["--", "touch", "ran"]].concat());
        assert_eq!(done.code, 125, "{done:?}");
        assert!(done.err.contains(part), "{part}: {done:?}");
    }
    assert_eq!(place.run(&["leader", ""]).code, 125);
    assert!(!place.path("ran").exists());
}
