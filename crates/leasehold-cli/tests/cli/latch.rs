//! `latch`: what it prints, and its exit codes.

use serde_json::{Value, json};

use crate::quorum;
use crate::support::{Done, LEASEHOLD, WorkDir, until};

/// Runs `latch a` in a store of its own.
fn latch(place: &WorkDir, arguments: &[&str]) -> Done {
    let mut command = place.program(LEASEHOLD);
    command.env("__LEASEHOLD_TEST_MEMORY", "1").args(["--store", "memory:", "latch", "a"]);
    Done::new(command.args(arguments).output().unwrap())
}

#[test]
fn a_latch_prints_how_many_parties_are_missing() {
    let place = WorkDir::new();
    for (words, code, printed) in [
        (&["--parties", "2"][..], 1, "2\n"),
        (&["--parties", "2", "--count-down", "orders"], 0, "1\n"),
        (&["--parties", "1", "--count-down", "orders"], 0, "0\n"),
        (&["--parties", "1", "--count-down", "orders", "--wait"], 0, "0\n"),
        (&["--parties", "2", "--count-down", "orders", "--wait", "--within", "1ms"], 1, "1\n"),
        (&["--parties", "2", "--wait", "--within", "0"], 1, "2\n"),
    ] {
        let done = latch(&place, words);
        assert_eq!((done.code, done.out.as_str()), (code, printed), "{words:?}: {}", done.err);
    }
    let over = latch(&place, &["--parties", "2", "--wait", "--within", "1ms"]);
    assert!(over.err.contains("a: 2 of 2 parties are missing"), "{}", over.err);
    let object: Value = serde_json::from_str(
        &latch(&place, &["--parties", "2", "--count-down", "b", "--json"]).out,
    )
    .unwrap();
    assert_eq!((&object["name"], &object["parties"]), (&"a".into(), &2.into()), "{object}");
    assert_eq!((&object["missing"], &object["counted"][0]), (&1.into(), &"b".into()), "{object}");
    assert!(object["generation"].is_u64(), "{object}");
}

#[test]
fn what_a_latch_cannot_do_is_refused() {
    let place = WorkDir::new();
    let long = "x".repeat(65);
    for (words, code, why) in [
        (&[][..], 125, "--parties"),
        (&["--parties", "0"], 125, "from 1 to 1000"),
        (&["--parties", "1001"], 125, "from 1 to 1000"),
        (&["--parties", "2", "--count-down", ""], 125, "1 to 64"),
        (&["--parties", "2", "--count-down", &long], 125, "1 to 64"),
        (&["--parties", "2", "--count-down", "a\nb"], 125, "control characters"),
        (&["--parties", "2", "--reset"], 125, "2 of 2 parties are missing"),
        (&["--parties", "2", "--reset", "--wait"], 125, "--reset"),
        (&["--parties", "2", "--within", "1s"], 125, "--wait"),
        (&["--parties", "2", "--ttl", "1ms"], 125, "latch a: ttl: a latch has 1s to 30d"),
        (&["--parties", "2", "--generation", "1", "--count-down", "a"], 76, "generation 1"),
        (&["--parties", "2", "--generation", "1"], 76, "generation 1 of the latch never began"),
    ] {
        let done = latch(&place, words);
        assert!(done.code == code && done.err.contains(why), "{words:?}: {done:?}");
    }
    // None of them has begun a latch of two parties.
    for words in [&["--count-down", ""][..], &["--count-down", "a\nb"], &["--reset"]] {
        let done = place.run(&[&["latch", "b", "--parties", "2"], words].concat());
        assert_eq!(done.code, 125, "{done:?}");
    }
    assert_eq!(place.run(&["latch", "b", "--parties", "3"]).out, "3\n");
}

#[test]
fn a_store_without_latches_says_why() {
    let Some((_servers, url)) = quorum::servers() else { return };
    let done = WorkDir::new().run(&["--store", &url, "latch", "a", "--parties", "2"]);
    assert_eq!(done.code, 125, "{done:?}");
    let parts = ["has no latches", "a majority of servers does not count", "another store"];
    assert!(parts.iter().all(|part| done.err.contains(part)), "{done:?}");
}

fn json(done: &Done) -> Value {
    serde_json::from_str(&done.out).unwrap()
}

#[test]
fn a_complete_latch_begins_the_next_generation() {
    let place = WorkDir::new();
    let latch =
        |words: &[&str]| place.run(&[&["latch", "a", "--parties", "2", "--json"], words].concat());
    latch(&["--count-down", "orders"]);
    let first = json(&latch(&["--count-down", "customers"]));
    assert_eq!(first["missing"], 0, "{first}");
    let named = first["generation"].to_string();
    let reset = |words: &[&str]| {
        let done = latch(&[&["--reset"], words].concat());
        assert_eq!(done.code, 0, "{done:?}");
        let object = json(&done);
        assert_eq!(
            (&object["missing"], &object["counted"]),
            (&2.into(), &Value::from(Vec::<u8>::new()))
        );
        object["generation"].as_u64().unwrap()
    };
    let next = reset(&["--generation", &named]);
    assert_eq!(next, first["generation"].as_u64().unwrap() + 1);
    assert_eq!(reset(&["--generation", &named]), next, "a repeated reset");
    let now = latch(&[]);
    assert_eq!((now.code, json(&now)["generation"].as_u64()), (1, Some(next)), "{now:?}");
    // A party that is late cannot count in the next generation, and a waiter of the earlier one returns.
    for words in [&["--count-down", "late"][..], &["--wait"], &[]] {
        let late = latch(&[&["--generation", &named], words].concat());
        assert_eq!((late.code, &json(&late)["missing"]), (0, &0.into()), "{late:?}");
    }
    assert_eq!(json(&latch(&[]))["missing"], 2);
    // A generation that has not begun, and one that this latch never had, are not complete.
    for (generation, code, why) in
        [("99999999999999", 125, "has not begun"), ("9", 76, "was removed")]
    {
        let wrong = latch(&["--generation", generation]);
        assert_eq!((wrong.code, wrong.out.as_str()), (code, ""), "{wrong:?}");
        assert!(wrong.err.contains(why), "{wrong:?}");
    }
    assert_eq!(place.run(&["latch", "b", "--parties", "1", "--count-down", "x"]).out, "0\n");
    let plain = place.run(&["latch", "b", "--parties", "1", "--reset"]);
    assert_eq!((plain.code, plain.out.as_str()), (0, "1\n"), "{plain:?}");
}

#[test]
fn a_wait_ends_when_the_last_party_has_counted() {
    let place = WorkDir::new();
    let wait = place.start(&["latch", "a", "--parties", "1", "--wait"]);
    until("the latch is there", || {
        json(&place.run(&["status", "a", "--json"]))["latch"].is_object()
    });
    assert_eq!(place.run(&["latch", "a", "--parties", "1", "--count-down", "orders"]).code, 0);
    let done = wait.end();
    assert_eq!((done.code, done.out.as_str()), (0, "0\n"), "{done:?}");
}

#[test]
fn a_wait_for_a_latch_that_is_removed_is_76() {
    let place = WorkDir::new();
    // The store removes the latch after its ttl, while this one waits.
    let wait = place.start(&["latch", "a", "--parties", "1", "--ttl", "1s", "--wait"]);
    let done = wait.end();
    assert_eq!((done.code, done.out.as_str()), (76, ""), "{done:?}");
    let parts = ["of the latch never began, was removed", "with a longer ttl"];
    assert!(parts.iter().all(|part| done.err.contains(part)), "{done:?}");
    // The next client begins a new generation.
    let next = place.run(&["latch", "a", "--parties", "1"]);
    assert_eq!((next.code, next.out.as_str()), (1, "1\n"), "{next:?}");
}

#[test]
fn status_list_and_watch_show_a_latch() {
    let place = WorkDir::new();
    let counted = place.run(&["latch", "a", "--parties", "2", "--count-down", "orders", "--json"]);
    let forced = place.run(&["force-release", "a", "--token", "1"]);
    assert!(forced.code != 0 && forced.err.contains("belongs to a latch"), "{forced:?}");
    let led = place.run(&["leader", "a"]);
    assert!(led.code == 125 && led.err.contains("belongs to a latch"), "{led:?}");
    let generation = json(&counted)["generation"].clone();
    let expected = json!({
        "generation": generation, "parties": 2, "missing": 1, "counted": ["orders"],
    });
    for words in [&["status", "a", "--json"][..], &["list", "--json"]] {
        let object = json(&place.run(words));
        assert_eq!((&object["state"], &object["latch"]), (&"latch".into(), &expected), "{words:?}");
    }
    let watch = place.start_to("changes", &["watch", "a", "--json", "--interval", "10ms"]);
    let change = |missing: u32| {
        let text = place.read("changes");
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let mut changes = whole.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        changes.any(|change| change["latch"]["missing"] == missing)
    };
    until("watch shows it", || change(1));
    assert_eq!(place.run(&["latch", "a", "--parties", "2", "--count-down", "b"]).code, 0);
    until("watch shows the change", || change(0));
    drop(watch);
}

#[test]
fn a_latch_of_a_newer_version_is_named_as_such() {
    let place = WorkDir::new();
    let store = format!("file:{}", place.path("store").display());
    let latch = ["--store", &store, "latch", "a", "--parties", "2", "--count-down", "orders"];
    assert_eq!(place.run(&latch).code, 0);
    let record = place.path("store/locks/a.json");
    let newer =
        std::fs::read_to_string(&record).unwrap().replace("leasehold latch 1", "leasehold latch 2");
    std::fs::write(&record, &newer).unwrap();
    for words in [
        &latch[2..],
        &["latch", "a", "--parties", "2", "--reset"],
        &["force-release", "a", "--token", "1"],
        &["run", "a", "true"],
        &["leader", "a"],
    ] {
        let done = place.run(&[&latch[..2], words].concat());
        assert!(done.code != 0 && !done.err.contains("--reset"), "{words:?}: {done:?}");
        let says = if ["run", "leader"].contains(&words[0]) {
            "belongs to a latch"
        } else {
            "newer version"
        };
        assert!(done.err.contains(says), "{words:?}: {done:?}");
    }
    let doctor = place.run(&["--store", &store, "doctor"]);
    assert!(doctor.out.contains("a newer version of leasehold has written"), "{doctor:?}");
    assert_eq!(std::fs::read_to_string(&record).unwrap(), newer);
}
