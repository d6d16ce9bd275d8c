//! `latch`: what it prints, and its exit codes.

use serde_json::Value;

use crate::support::{Done, LEASEHOLD, WorkDir};

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
        (&["--parties", "2", "--ttl", "1ms"], 125, "1s to 30d"),
        (&["--parties", "2", "--generation", "1", "--count-down", "a"], 76, "generation 1"),
    ] {
        let done = latch(&place, words);
        assert!(done.code == code && done.err.contains(why), "{words:?}: {done:?}");
    }
}
