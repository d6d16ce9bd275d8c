//! `run --limit` and `limit`: up to as many runs at a time, each with its own slot, in real processes.

use leasehold_test_servers::{Needs, RedisServer, RedisSettings};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::quorum;
use crate::support::{Running, WorkDir, until};

/// Starts a run that ends when the file `stop-NAME` is there, and waits until it runs.
fn holder(place: &WorkDir, limit: &str, name: &str) -> Running {
    let running = later(place, limit, name);
    until("the run has a slot", || place.read(&format!("slot-{name}")).ends_with('\n'));
    running
}

/// Starts such a run.
fn later(place: &WorkDir, limit: &str, name: &str) -> Running {
    let script = format!(
        "echo $LEASEHOLD_TOKEN > token-{name}; echo $LEASEHOLD_SLOT > slot-{name}; \
         while [ ! -e stop-{name} ]; do sleep 0.01; done"
    );
    place.start(&["run", "--limit", limit, "gpu", "--", "sh", "-c", &script])
}

fn status(place: &WorkDir) -> Value {
    serde_json::from_str(&place.run(&["status", "gpu", "--json"]).out).unwrap()
}

fn number(place: &WorkDir, file: &str) -> u64 {
    place.read(file).trim().parse().unwrap()
}

#[test]
fn runs_with_a_limit_run_together_and_each_has_its_slot() {
    let place = WorkDir::new();
    let (one, two) = (holder(&place, "2", "one"), holder(&place, "2", "two"));
    assert_eq!((number(&place, "slot-one"), number(&place, "slot-two")), (0, 1));
    assert_eq!(place.run(&["run", "-n", "--limit", "2", "gpu", "touch", "ran"]).code, 1);
    assert!(!place.path("ran").exists());
    let third = later(&place, "2", "three");
    until("the third one waits", || {
        status(&place)["waiters"].as_array().is_some_and(|all| all.len() == 1)
    });
    let shown = status(&place);
    assert_eq!(shown["state"], "permits", "{shown}");
    assert_eq!((&shown["limit"], &shown["held_slots"]), (&2.into(), &2.into()), "{shown}");
    assert_eq!(shown["waiters"][0]["slots"], 1, "{shown}");
    let slots: Vec<_> = shown["holders"].as_array().unwrap().iter().map(|h| &h["slots"]).collect();
    assert_eq!(slots, [&Value::from(vec![0]), &Value::from(vec![1])], "{shown}");
    assert_eq!(shown["holders"][0]["token"], number(&place, "token-one"), "{shown}");
    let lines = place.run(&["status", "gpu"]).out;
    assert!(lines.contains("limit") && lines.contains("in use"), "{lines}");
    let row = place.run(&["list"]).out;
    assert!(row.contains("gpu") && row.contains("2 of 2 slots"), "{row}");
    place.write("stop-one", "");
    assert_eq!(one.end().code, 0);
    until("the third one runs", || place.read("slot-three").ends_with('\n'));
    assert_eq!(number(&place, "slot-three"), 0, "not the slot that is free");
    assert!(number(&place, "token-three") > number(&place, "token-one"));
    place.write("stop-two", "");
    place.write("stop-three", "");
    assert_eq!((two.end().code, third.end().code), (0, 0));
    let shown = status(&place);
    assert_eq!((shown["state"].as_str(), &shown["held_slots"]), (Some("free"), &0.into()));
}

/// redisson#3046: the permits of a process that was killed never came back.
#[test]
fn a_run_that_is_killed_gives_exactly_its_slot_back() {
    let place = WorkDir::new();
    let (one, two) = (holder(&place, "2", "one"), holder(&place, "2", "two"));
    one.send(Signal::SIGKILL);
    let next = holder(&place, "2", "next");
    assert_eq!(number(&place, "slot-next"), 0);
    assert!(number(&place, "token-next") > number(&place, "token-one"));
    assert_eq!(place.run(&["run", "-n", "--limit", "2", "gpu", "true"]).code, 1);
    place.write("stop-two", "");
    place.write("stop-next", "");
    assert_eq!((two.end().code, next.end().code), (0, 0));
    drop(one.end());
}

#[test]
fn the_limit_is_shown_and_changed_and_another_one_is_refused() {
    let place = WorkDir::new();
    let none = place.run(&["limit", "gpu"]);
    assert_eq!((none.code, none.out.as_str()), (1, ""), "{}", none.err);
    assert!(none.err.contains("gpu has no limit yet"), "{}", none.err);
    let one = holder(&place, "1", "one");
    assert_eq!(place.run(&["limit", "gpu"]).out, "1\n");
    let wrong = place.run(&["run", "-n", "--limit", "3", "gpu", "true"]);
    assert_eq!(wrong.code, 125, "{}", wrong.err);
    assert!(
        wrong.err.contains("has limit 1") && wrong.err.contains("leasehold limit"),
        "{}",
        wrong.err
    );
    let waiter = later(&place, "1", "two");
    until("the second one waits", || {
        status(&place)["waiters"].as_array().is_some_and(|all| all.len() == 1)
    });
    let changed = place.run(&["limit", "gpu", "2", "--json"]);
    let object: Value = serde_json::from_str(&changed.out).unwrap();
    assert_eq!((changed.code, &object["limit"]), (0, &2.into()), "{object}");
    until("the second one runs", || place.read("slot-two").ends_with('\n'));
    assert_eq!(number(&place, "slot-two"), 1);
    place.write("stop-one", "");
    place.write("stop-two", "");
    assert_eq!((one.end().code, waiter.end().code), (0, 0));
}

#[test]
fn a_lower_limit_ends_no_run() {
    let place = WorkDir::new();
    let (one, two) = (holder(&place, "2", "one"), holder(&place, "2", "two"));
    assert_eq!(place.run(&["limit", "gpu", "1"]).code, 0);
    let next = || place.run(&["run", "-n", "--limit", "1", "gpu", "true"]).code;
    assert_eq!((next(), &status(&place)["held_slots"]), (1, &2.into()));
    place.write("stop-two", "");
    assert_eq!(two.end().code, 0);
    assert_eq!(next(), 1, "one slot is in use, and the limit is 1");
    place.write("stop-one", "");
    assert_eq!(one.end().code, 0, "it kept its slot until its end");
    assert_eq!(next(), 0);
}

#[test]
fn a_limit_is_not_mixed_with_readers_other_locks_or_a_lock_of_this_name() {
    let place = WorkDir::new();
    for words in [
        &["run", "--limit", "2", "--shared", "gpu", "true"][..],
        &["run", "--limit", "2", "--also", "other", "gpu", "true"],
        &["run", "--limit", "2", "--min-hold", "1s", "gpu", "true"],
        &["run", "--limit", "0", "gpu", "true"],
        &["run", "--limit", "10001", "gpu", "true"],
        &["limit", "gpu", "0"],
    ] {
        let refused = place.run(words);
        assert_eq!(refused.code, 125, "{words:?}: {}", refused.err);
        assert!(refused.err.contains("limit") || refused.err.contains("NUMBER"), "{}", refused.err);
    }
    assert_eq!(place.run(&["run", "lock", "true"]).code, 0);
    let refused = place.run(&["run", "--limit", "2", "lock", "true"]);
    assert_eq!(refused.code, 125, "{}", refused.err);
    assert!(refused.err.contains("belongs to a lock"), "{}", refused.err);
    assert_eq!(place.run(&["run", "--limit", "2", "gpu", "true"]).code, 0);
    let refused = place.run(&["run", "gpu", "true"]);
    assert_eq!(refused.code, 125, "{}", refused.err);
    assert!(refused.err.contains("belongs to a semaphore"), "{}", refused.err);
}

#[test]
fn an_inner_run_may_take_another_slot() {
    let place = WorkDir::new();
    let inner = "leasehold run -n --limit 2 gpu -- sh -c 'echo $LEASEHOLD_SLOT > inner'";
    let script = format!("PATH=\"$(dirname \"$1\"):$PATH\"; {inner}");
    let program = env!("CARGO_BIN_EXE_leasehold");
    let words = ["run", "--limit", "2", "gpu", "--", "sh", "-c", &script, "sh", program];
    let outer = place.run(&words);
    assert_eq!(outer.code, 0, "{}", outer.err);
    assert_eq!(place.read("inner"), "1\n");
    let tries = script.replace("--limit 2 gpu", "--limit 1 one");
    let words = ["run", "--limit", "1", "one", "--", "sh", "-c", &tries, "sh", program];
    assert_eq!(place.run(&words).code, 1, "it does not wait");
    let script = script.replace("-n --limit 2 gpu", "--limit 1 one");
    let words = ["run", "--limit", "1", "one", "--", "sh", "-c", &script, "sh", program];
    let outer = place.run(&words);
    assert!(outer.code == 125 && outer.err.contains("wait for itself"), "{outer:?}");
}

#[test]
fn an_inner_run_that_the_outer_ones_leave_too_few_slots_is_refused() {
    let place = WorkDir::new();
    let program = env!("CARGO_BIN_EXE_leasehold");
    let nested = |options: &[&str]| {
        let mut words = vec!["run", "--limit", "3", "gpu"];
        for (level, option) in options.iter().enumerate() {
            if level > 0 {
                words.extend([program, "run", "--limit", "3", "gpu"]);
            }
            words.extend(["--weight", option, "--"]);
        }
        words.extend(["touch", "ran"]);
        let done = place.run(&words);
        let ran = place.path("ran").exists();
        let _ = std::fs::remove_file(place.path("ran"));
        (done.code, ran, done.err)
    };
    for (weights, held) in [
        (&["3", "1"][..], "3 of 3"),
        (&["2", "2"], "2 of 3"),
        (&["1", "1", "2"], "2 of 3"),
        (&["1", "1", "1", "1"], "3 of 3"),
    ] {
        let (code, ran, said) = nested(weights);
        assert_eq!((code, ran), (125, false), "{weights:?}: {said}");
        assert!(said.contains(&format!("holds {held} slots of gpu")), "{weights:?}: {said}");
    }
    for weights in [&["2", "1"][..], &["1", "2"], &["1", "1", "1"]] {
        let (code, ran, said) = nested(weights);
        assert_eq!((code, ran), (0, true), "{weights:?}: {said}");
    }
    // Permits that have ended do not count, though their runs are named in the environment.
    let mut command = place.program(program);
    command.env("LEASEHOLD_HELD_SLOTS", format!("1-2-3 3 {}#gpu", place.store()));
    let done = command.args(["run", "--limit", "3", "gpu", "--", "true"]).output().unwrap();
    assert!(done.status.success(), "{done:?}");
}

#[test]
fn a_token_of_no_permit_ends_none() {
    let place = WorkDir::new();
    let store = format!("sqlite:{}", place.path("locks.db").display());
    let script = "$LEASEHOLD --store $LEASEHOLD_STORE force-release gpu --token 1";
    let words = ["run", "--store", &store, "--limit", "2", "gpu", "--", "sh", "-c", script];
    let done = place.run(&words);
    assert!(done.code == 1 && done.err.contains("no permit has token 1"), "{done:?}");
}

#[test]
fn a_run_takes_as_many_slots_as_its_weight() {
    let place = WorkDir::new();
    let script = "echo $LEASEHOLD_SLOT/$LEASEHOLD_SLOTS > slots; touch ready; \
                  while [ ! -e stop ]; do sleep 0.01; done";
    let heavy = place.start_ready(&["--limit", "3", "--weight", "2", "gpu"], script);
    assert_eq!(place.read("slots"), "0/0 1\n");
    let try_for = |weight: &str| {
        place.run(&["run", "-n", "--limit", "3", "--weight", weight, "gpu", "true"]).code
    };
    assert_eq!((try_for("2"), try_for("1")), (1, 0));
    let shown = status(&place);
    assert_eq!(shown["held_slots"], 2, "{shown}");
    assert_eq!(shown["holders"][0]["slots"], Value::from(vec![0, 1]), "{shown}");
    place.write("stop", "");
    assert_eq!(heavy.end().code, 0);
    assert_eq!(try_for("3"), 0);
}

#[test]
fn a_weight_is_refused_without_a_limit_or_above_it() {
    let place = WorkDir::new();
    for (words, why) in [
        (&["run", "--weight", "2", "gpu", "true"][..], "--limit"),
        (&["run", "--limit", "3", "--weight", "0", "gpu", "true"], "from 1 to 1024"),
        (&["run", "--limit", "3", "--weight", "1025", "gpu", "true"], "from 1 to 1024"),
        (
            &["run", "--limit", "3", "--weight", "4", "gpu", "true"],
            "--weight: must be between 1 and --limit, which is 3, got 4",
        ),
    ] {
        let refused = place.run(words);
        assert!(refused.code == 125 && refused.err.contains(why), "{words:?}: {}", refused.err);
    }
    assert_eq!(place.run(&["limit", "gpu"]).code, 1, "a limit was stored");
}

#[test]
fn a_store_without_semaphores_says_why_and_names_one_with_them() {
    let Some((_servers, url)) = quorum::servers() else { return };
    let place = WorkDir::new();
    for words in [
        &["run", "--limit", "2", "gpu", "touch", "ran"][..],
        &["limit", "gpu"],
        &["limit", "gpu", "3"],
    ] {
        let done = place.run(&[&["--store", &url], words].concat());
        assert_eq!(done.code, 125, "{words:?}: {done:?}");
        let parts = ["has no semaphores", "3 permits would fit", "file:", "without a limit"];
        assert!(parts.iter().all(|part| done.err.contains(part)), "{words:?}: {done:?}");
    }
    let zh = place.run(&["--store", &url, "--lang", "zh", "limit", "gpu"]);
    assert!(zh.err.contains("没有信号量（多数派不能计数：") && !zh.err.contains("nodes"), "{zh:?}");
    assert!(!place.path("ran").exists());
}

#[test]
fn one_server_with_an_option_that_has_locks_alone_says_which_to_leave_out() {
    if Needs::Redis.is_skipped() {
        return;
    }
    let server = RedisServer::start(RedisSettings::new()).unwrap();
    let place = WorkDir::new();
    for option in ["admission=strict", "wire=set-nx"] {
        let url = format!("{}?{option}", server.url());
        let name = option.split('=').next().unwrap();
        for words in [
            &["run", "--limit", "2", "gpu", "true"][..],
            &["run", "--shared", "gpu", "true"],
            &["latch", "gpu", "--parties", "2", "--count-down", "a"],
        ] {
            let done = place.run(&[&["--store", &url], words].concat());
            assert_eq!(done.code, 125, "{words:?}: {done:?}");
            let parts = [name, "locks alone; leave it out"];
            assert!(parts.iter().all(|part| done.err.contains(part)), "{words:?}: {done:?}");
        }
        let zh = place.run(&["--store", &url, "--lang", "zh", "limit", "gpu"]);
        assert!(zh.err.contains("请去掉该选项"), "{zh:?}");
    }
}

/// redisson#3046: the permits of a process that was killed never came back.
#[test]
fn on_redis_a_killed_run_gives_exactly_its_slots_back_after_its_ttl() {
    if Needs::Redis.is_skipped() {
        return;
    }
    let server = RedisServer::start(RedisSettings::new()).unwrap();
    let (place, url) = (WorkDir::new(), server.url());
    let run = |weight: &str, ttl: &str, name: &str| {
        let script = format!(
            "echo $LEASEHOLD_SLOTS > slots-{name}; while [ ! -e stop-{name} ]; do sleep 0.01; done"
        );
        let running = place.start(&[
            "--store", &url, "run", "--limit", "3", "--weight", weight, "--ttl", ttl, "gpu", "--",
            "sh", "-c", &script,
        ]);
        until("the run has its slots", || place.read(&format!("slots-{name}")).ends_with('\n'));
        running
    };
    let (killed, other) = (run("2", "2s", "killed"), run("1", "60s", "other"));
    killed.send(Signal::SIGKILL);
    let next = run("2", "60s", "next");
    assert_eq!(place.read("slots-killed"), "0 1\n");
    assert_eq!(
        (place.read("slots-other"), place.read("slots-next")),
        ("2\n".into(), "0 1\n".into())
    );
    let full = ["--store", &url, "run", "-n", "--limit", "3", "gpu", "true"];
    assert_eq!(place.run(&full).code, 1, "a slot of another run came back");
    place.write("stop-other", "");
    place.write("stop-next", "");
    assert_eq!((other.end().code, next.end().code), (0, 0));
    drop(killed.end());
}
