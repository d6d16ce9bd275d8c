//! Several locks at once: `run NAME --also OTHER`.

use leasehold_test_servers::{Needs, RedisServer, RedisSettings};
use nix::sys::signal::Signal;

use crate::support::{Done, WorkDir, numbers, runs, until};

const HOLD: &str = "touch ready; while [ ! -e stop ]; do sleep 0.01; done";

/// A server of our own; `None` where none is installed and none is required.
fn server() -> Option<RedisServer> {
    (!Needs::Redis.is_skipped()).then(|| RedisServer::start(RedisSettings::new()).unwrap())
}

/// The state and token of a lock.
fn status(place: &WorkDir, store: &str, name: &str) -> (String, u64) {
    let done = place.run(&["status", "--store", store, "--json", name]);
    let status: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    (status["state"].as_str().unwrap().to_owned(), status["token"].as_u64().unwrap_or(0))
}

/// All locks are held while the command runs, whose environment has their tokens.
fn holds_all(store: &str) {
    let place = WorkDir::new();
    let script = "echo $LEASEHOLD_NAME $LEASEHOLD_TOKEN > main
        echo \"$LEASEHOLD_TOKENS\" > all; echo \"$LEASEHOLD_HELD\" > held; "
        .to_owned()
        + HOLD;
    let names = ["b c", "--also", "a", "--also", "d"];
    let run = [&["run", "--store", store], &names[..], &["--", "sh", "-c", &script]].concat();
    let running = place.start(&run);
    place.until_exists("ready");
    let mut tokens = Vec::new();
    for name in ["a", "b c", "d"] {
        let (state, token) = status(&place, store, name);
        assert_eq!(state, "held", "{name}");
        tokens.push(format!("{token} {name}\n"));
        assert_eq!(place.run(&["run", "--store", store, "-n", name, "touch", "ran"]).code, 1);
    }
    assert_eq!(place.read("all"), tokens.concat(), "sorted by the bytes of the names");
    let token = tokens[1].split(' ').next().unwrap();
    assert_eq!(place.read("main"), format!("b c {token}\n"));
    let held = place.read("held");
    assert!(held.lines().count() == 3 && held.contains("#b c\n"), "{held}");
    place.write("stop", "");
    assert_eq!(running.end().code, 0);
    for name in ["a", "b c", "d"] {
        assert_eq!(status(&place, store, name).0, "free");
    }
}

#[test]
fn all_locks_are_held_while_the_command_runs() {
    let place = WorkDir::new();
    holds_all(&place.store());
    let Some(server) = server() else { return };
    holds_all(&server.url());
}

/// If one lock is taken, nothing runs and no lock stays held.
fn all_or_nothing(store: &str) {
    let place = WorkDir::new();
    let holder = ["run", "--store", store, "b", "--", "sh", "-c", HOLD];
    let holder = place.start(&holder);
    place.until_exists("ready");
    let locks = ["a", "--also", "c", "--also", "b", "--", "touch", "ran"];
    let done = place.run(&[&["run", "--store", store, "-vn"], &locks[..]].concat());
    assert_eq!(done.code, 1, "{done:?}");
    assert!(done.err.contains("cannot acquire b: held by "), "{done:?}");
    let done = place.run(&[&["run", "--store", store, "-w", "300ms"], &locks[..]].concat());
    assert_eq!(done.code, 1, "{done:?}");
    assert!(done.err.contains("timed out after 300ms waiting for b: held by "), "{done:?}");
    assert!(done.err.contains(&format!("/{}", holder.pid())), "{done:?}");
    for name in ["a", "c"] {
        assert_eq!(status(&place, store, name).0, "free");
    }
    assert!(!place.path("ran").exists());

    let all = [&["run", "--store", store], &locks[..]].concat();
    let waiting = place.start_saying(&all, "err");
    until("it waits", || place.read("err").contains("waiting for b, held by "));
    assert_eq!(status(&place, store, "a").0, "held", "it was free, and comes first");
    place.write("stop", "");
    assert_eq!((holder.end().code, waiting.end().code), (0, 0));
    assert!(place.path("ran").exists());
}

#[test]
fn if_one_is_taken_none_is_held_and_the_message_names_it() {
    let place = WorkDir::new();
    all_or_nothing(&place.store());
    let Some(server) = server() else { return };
    all_or_nothing(&server.url());
}

#[test]
fn a_signal_during_the_wait_releases_all_of_them() {
    let place = WorkDir::new();
    let _holder = place.start_ready(&["b"], HOLD);
    let (waiting, _) = place.start_waiting(&["a", "--also", "b", "--", "touch", "ran"]);
    waiting.send(Signal::SIGTERM);
    assert_eq!(waiting.end().code, 128 + 15);
    assert_eq!(status(&place, &place.store(), "a").0, "free");
}

#[test]
fn the_loss_of_one_ends_the_command_and_is_named() {
    let Some(server) = server() else { return };
    let (place, url) = (WorkDir::new(), server.url());
    let script = "echo $$ > pid; touch ready; exec sleep 60";
    let running = place.start(&[
        "run", "--store", &url, "--ttl", "9s", "a", "--also", "b", "--", "sh", "-c", script,
    ]);
    place.until_exists("ready");
    let token = status(&place, &url, "b").1.to_string();
    let done = place.run(&["force-release", "--store", &url, "b", "--token", &token]);
    assert_eq!(done.code, 0, "{done:?}");
    let done = running.end();
    assert_eq!(done.code, 76, "{done:?}");
    assert!(done.err.contains("the lock b is lost"), "{done:?}");
    assert!(!runs(numbers(&place.read("pid"))[0]));
}

#[test]
fn killed_leasehold_frees_all_of_them_after_its_group_has_ended() {
    let place = WorkDir::new();
    let script = "echo $$ > pid; touch ready; exec sleep 60";
    let running = place.start_ready(&["a", "--also", "b"], script);
    running.send(Signal::SIGKILL);
    let next = "kill -0 $(cat pid) 2> /dev/null && touch overlap; true";
    let done = place.run(&["run", "b", "--also", "a", "--", "sh", "-c", next]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(!place.path("overlap").exists());
}

#[test]
fn a_nested_run_of_any_of_them_is_refused() {
    let place = WorkDir::new();
    for inner in [&["b"][..], &["c", "--also", "b"], &["c", "--also", "a"]] {
        let mut command = place.leasehold(&["run", "a", "--also", "b", "--", "sh", "-c"]);
        command.arg("$LEASEHOLD run $INNER -- touch ran").env("INNER", inner.join(" "));
        let done = Done::new(command.output().unwrap());
        assert_eq!(done.code, 125, "{inner:?} {done:?}");
        assert!(done.err.contains("wait for itself") && !place.path("ran").exists(), "{done:?}");
    }
}

#[test]
fn runs_in_opposite_order_do_not_deadlock() {
    let place = WorkDir::new();
    let script = "for i in 1 2 3 4 5 6 7 8 9 10; do
        $LEASEHOLD --store $PLACE run $1 --also $2 -- sh -c 'echo $(($(cat n) + 1)) > n' || exit 9
    done";
    place.write("n", "0");
    let loops = [("a", "b"), ("b", "a"), ("b", "c"), ("c", "a")].map(|(one, other)| {
        let mut command = place.program("sh");
        command.args(["-c", script, "sh", one, other]).env("PLACE", place.store());
        crate::support::Running::new(&mut command)
    });
    for one in loops {
        let done = one.end();
        assert_eq!(done.code, 0, "{done:?}");
    }
    assert_eq!(status(&place, &place.store(), "a").0, "free");
}

#[test]
fn wrong_names_are_refused_before_anything_is_done() {
    let many: Vec<String> = (0..65).map(|number| format!("--also={number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let place = WorkDir::new();
    for (also, part) in [
        (&["--also", ""][..], "names: number 2 is empty"),
        (&["--also", "b", "--also", "c\n"], "names: number 3 has the control character U+000A"),
        (&["--also", "b", "--also", "a"], "names: a is given twice"),
        (&many, "names: more than 64 are given"),
    ] {
        let done = place.run(&[&["run", "a"], also, &["--", "touch", "ran"]].concat());
        assert_eq!(done.code, 125, "{done:?}");
        assert!(done.err.contains(part), "{part}: {done:?}");
    }
    assert!(!place.path("ran").exists());
    let most = [&["run", "a"], &many[..63], &["--", "touch", "ran"]].concat();
    assert_eq!(place.run(&most).code, 0);
    assert!(place.path("ran").exists());
}
