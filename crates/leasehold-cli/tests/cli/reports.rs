//! `list` and `status`, for people and for programs.

use serde_json::Value;

use crate::support::WorkDir;

const HOLD: &str = "touch ready; while [ ! -e stop ]; do sleep 0.01; done";

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn list_is_an_aligned_table() {
    let place = WorkDir::new();
    let holder = place.start_ready(&["jobs/long-name"], HOLD);
    place.run(&["run", "b", "true"]);
    let done = place.run(&["list"]);
    let lines: Vec<_> = done.out.lines().collect();
    assert_eq!(lines.len(), 3, "{done:?}");
    let words: Vec<_> = lines[0].split_whitespace().collect();
    assert_eq!(words, ["NAME", "STATE", "HOLDER", "SINCE", "TOKEN", "WAITERS"]);
    let state = lines[0].find("STATE").unwrap();
    assert!(lines[1].starts_with("b ") && lines[1][state..].starts_with("free"), "{done:?}");
    assert!(lines[2].starts_with("jobs/long-name") && lines[2][state..].starts_with("held"));
    assert!(lines[2].contains(&format!("/{}", holder.pid())), "{done:?}");
    assert!(lines[2].contains("just now") || lines[2].contains(" s "), "{done:?}");
    assert_eq!(place.run(&["list", "jobs/"]).out.lines().count(), 2);
}

#[test]
fn list_json_is_one_object_a_line() {
    let place = WorkDir::new();
    let holder = place.start_ready(&["a"], HOLD);
    place.run(&["run", "b", "true"]);
    let done = place.run(&["list", "--json"]);
    let all: Vec<_> = done.out.lines().map(json).collect();
    assert_eq!(all.len(), 2);
    assert_eq!((&all[0]["name"], &all[0]["state"]), (&"a".into(), &"held".into()));
    assert_eq!(all[0]["holder"]["pid"], holder.pid());
    assert_eq!(all[0]["holder"]["owner"].as_str().unwrap().len(), 32);
    assert!(all[0]["since_unix_ms"].as_u64().unwrap() > 1_700_000_000_000);
    assert_eq!(all[1]["state"], "free");
}

#[test]
fn status_shows_the_holder_and_its_code_says_whether_it_is_held() {
    let place = WorkDir::new();
    assert_eq!(place.run(&["status", "a"]).code, 1);
    let holder = place.start_ready(&["a"], HOLD);
    let done = place.run(&["status", "a"]);
    assert_eq!(done.code, 0);
    assert!(done.out.contains(&format!("/{}", holder.pid())), "{done:?}");
    assert!(done.out.contains("\nowner"), "{done:?}");
    assert_eq!(place.run(&["status", "-q", "a"]).out, "");
    assert_eq!(json(&place.run(&["status", "--json", "a"]).out)["state"], "held");
    place.write("stop", "");
    assert_eq!(holder.end().code, 0);
    assert_eq!(place.run(&["status", "a"]).code, 1);
}

#[test]
fn status_shows_the_queue_with_place_who_since_when_and_what() {
    let place = WorkDir::new();
    let _holder = place.start_ready(&["a"], HOLD);
    let waiters = ["first", "the second"]
        .map(|what| place.start_waiting(&["--metadata", what, "a", "--", "true"]).0);
    let done = place.run(&["status", "a"]);
    let lines: Vec<_> = done.out.lines().collect();
    let head = lines.iter().position(|line| line.starts_with("waiters ")).unwrap();
    assert!(lines[head].ends_with(" 2"), "{done:?}");
    for (at, (waiter, what)) in waiters.iter().zip(["first", "the second"]).enumerate() {
        let line = lines[head + 1 + at];
        let words: Vec<_> = line.split_whitespace().collect();
        assert_eq!(words[0], ["1st", "2nd"][at], "{done:?}");
        assert!(words[1].ends_with(&format!("/{}", waiter.pid())), "{done:?}");
        assert!(words[2].starts_with("20") && words[2].ends_with('Z'), "{done:?}");
        assert!(line.ends_with(what), "{done:?}");
    }
    let column = |line: &str, what| line.find(what).unwrap();
    assert_eq!(column(lines[head + 1], "first"), column(lines[head + 2], "the second"));
    let all = json(&place.run(&["status", "--json", "a"]).out);
    assert_eq!((&all["waiters"][1]["place"], &all["more_waiters"]), (&2.into(), &0.into()));
    assert_eq!(all["waiters"][1]["pid"], waiters[1].pid());
    assert_eq!(all["waiters"][1]["metadata"], "the second");
}

#[test]
fn metadata_is_what_was_given_or_nothing() {
    let place = WorkDir::new();
    let text = format!("名{}", "字".repeat(400));
    let _a = place.start_ready(&["--metadata", &text, "a"], HOLD);
    let shown = json(&place.run(&["status", "--json", "a"]).out);
    let shown = shown["holder"]["metadata"].as_str().unwrap().to_owned();
    assert!(shown.len() <= 1024 && shown.len() > 1020 && text.starts_with(&shown));
}

#[test]
fn metadata_is_the_program_alone_unless_more_is_given() {
    let place = WorkDir::new();
    let holder = place.start_ready(&["a"], "touch ready; : s3cret; sleep 60");
    let done = place.run(&["status", "--json", "a"]);
    assert_eq!(json(&done.out)["holder"]["metadata"], "sh");
    for entry in std::fs::read_dir(place.path("store/locks")).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read(&path).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&text).contains("s3cret"), "{path:?}");
    }
    drop(holder);
    let script = "$LEASEHOLD --store $S status --json b";
    let mut command = place.leasehold(&["run", "b", "-c", script]);
    let output = command.env("S", place.store()).env("SHELL", "/bin/sh").output().unwrap();
    assert_eq!(json(&String::from_utf8(output.stdout).unwrap())["holder"]["metadata"], "/bin/sh");
    let _b = place.start_ready(&["--metadata", "", "c"], "touch ready; sleep 60");
    assert_eq!(json(&place.run(&["status", "--json", "c"]).out)["holder"]["metadata"], Value::Null);
}

#[test]
fn list_held_leaves_out_what_nobody_holds() {
    let place = WorkDir::new();
    let _holder = place.start_ready(&["c"], HOLD);
    for name in ["a", "b"] {
        place.run(&["run", name, "true"]);
    }
    let names = |options: &[&str]| -> Vec<String> {
        let done = place.run(&[&["list", "--json"], options].concat());
        done.out.lines().map(|line| json(line)["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&[]), ["a", "b", "c"]);
    assert_eq!(names(&["--held"]), ["c"]);
    assert_eq!(names(&["--held", "--limit", "1"]), ["c"], "the limit is for what is shown");
    assert!(names(&["--held", "b"]).is_empty());
}

#[test]
fn status_of_a_free_lock_says_when_it_was_last_taken_or_that_it_never_was() {
    let place = WorkDir::new();
    let done = place.run(&["status", "a"]);
    assert!(done.out.contains("never held") && !done.out.contains("last"), "{done:?}");
    place.run(&["run", "a", "true"]);
    let done = place.run(&["status", "a"]);
    let line = done.out.lines().find(|line| line.starts_with("last taken")).unwrap();
    assert!(line.ends_with("just now") || line.ends_with(" s ago"), "{line}");
    assert!(!done.out.contains("since") && !done.out.contains("never held"), "{done:?}");
    let _holder = place.start_ready(&["a"], HOLD);
    let done = place.run(&["status", "a"]);
    assert!(done.out.contains("\nsince ") && !done.out.contains("last"), "{done:?}");
}

#[test]
fn json_of_a_free_lock_has_a_last_holder_and_no_holder() {
    let place = WorkDir::new();
    let holder = place.start_ready(&["a"], HOLD);
    let pid = holder.pid();
    let all = |place: &WorkDir| {
        let [status, list] = [&["status", "--json", "a"][..], &["list", "--json"]]
            .map(|command| json(&place.run(command).out));
        [status, list, json(&crate::watch::Watch::start(place, &["a", "--json"]).line())]
    };
    for one in all(&place) {
        assert_eq!((&one["state"], &one["holder"]["pid"]), (&"held".into(), &pid.into()), "{one}");
        assert!(one["since_unix_ms"].is_u64(), "{one}");
        assert_eq!(one.get("last_holder"), Some(&Value::Null), "{one}");
        assert_eq!(one.get("last_since_unix_ms"), Some(&Value::Null), "{one}");
    }
    place.write("stop", "");
    assert_eq!(holder.end().code, 0);
    for one in all(&place) {
        assert_eq!((&one["state"], &one["last_holder"]["pid"]), (&"free".into(), &pid.into()));
        assert!(one["last_since_unix_ms"].is_u64(), "{one}");
        assert_eq!(one.get("holder"), Some(&Value::Null), "{one}");
        assert_eq!(one.get("since_unix_ms"), Some(&Value::Null), "{one}");
    }
}

#[test]
fn escapes_in_foreign_text_are_shown_and_not_obeyed() {
    let place = WorkDir::new();
    let text = "\u{1b}[31mred\u{202e}txet\n";
    let name = "user\u{2066}s";
    let _a = place.start_ready(&["--metadata", text, name], HOLD);
    let done = place.run(&["status", name]);
    assert!(done.out.contains(r"\e[31mred\u{202e}txet\n"), "{done:?}");
    let all = [place.run(&["list"]).out, place.run(&["run", "-vn", name, "true"]).err];
    assert!(all.iter().all(|text| text.contains(r"user\u{2066}s")), "{all:?}");
    let raw = place.run(&["list", "--json"]).out;
    assert!(!raw.contains(['\u{202e}', '\u{2066}', '\u{1b}']), "{raw}");
    assert_eq!(json(&raw)["holder"]["metadata"], text);
    assert_eq!(json(&raw)["name"], name);
}
