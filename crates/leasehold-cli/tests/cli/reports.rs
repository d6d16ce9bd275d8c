//! `list`, `status`, `watch` and `force-release`, for people and for programs.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::Value;

use crate::support::{Place, Terminal};

const HOLD: &str = "touch ready; while [ ! -e stop ]; do sleep 0.01; done";

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn list_is_an_aligned_table() {
    let place = Place::new();
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
    assert!(lines[2].contains(&format!("/{}", holder.pid())) && lines[2].contains(" s "));
    assert_eq!(place.run(&["list", "jobs/"]).out.lines().count(), 2);
}

#[test]
fn list_json_is_one_object_a_line() {
    let place = Place::new();
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
fn status_shows_holder_and_command_and_its_code_says_whether_it_is_held() {
    let place = Place::new();
    assert_eq!(place.run(&["status", "a"]).code, 1);
    let holder = place.start_ready(&["a"], HOLD);
    let done = place.run(&["status", "a"]);
    assert_eq!(done.code, 0);
    assert!(done.out.contains(&format!("/{}", holder.pid())), "{done:?}");
    assert!(done.out.contains("sh -c touch ready;"), "the command line: {done:?}");
    assert_eq!(place.run(&["status", "-q", "a"]).out, "");
    assert_eq!(json(&place.run(&["status", "--json", "a"]).out)["state"], "held");
    place.write("stop", "");
    assert_eq!(holder.end().code, 0);
    assert_eq!(place.run(&["status", "a"]).code, 1);
}

#[test]
fn metadata_is_what_was_given_or_nothing() {
    let place = Place::new();
    let text = format!("名{}", "字".repeat(400));
    let _a = place.start_ready(&["--metadata", &text, "a"], HOLD);
    let shown = json(&place.run(&["status", "--json", "a"]).out);
    let shown = shown["holder"]["metadata"].as_str().unwrap().to_owned();
    assert!(shown.len() <= 1024 && shown.len() > 1020 && text.starts_with(&shown));
}

#[test]
fn escapes_in_foreign_text_are_not_obeyed() {
    let place = Place::new();
    let _a = place.start_ready(&["--metadata", "\u{1b}[31mred", "a"], HOLD);
    assert!(!place.run(&["status", "a"]).out.contains('\u{1b}'));
}

#[test]
fn watch_prints_each_change() {
    let place = Place::new();
    let mut command = place.leasehold(&["watch", "a", "--json", "--interval", "20ms"]);
    let mut watch = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut until = |state: &str| loop {
        let change = json(&lines.next().unwrap().unwrap());
        assert!(change["time_unix_ms"].is_u64());
        if change["state"] == state {
            break;
        }
    };
    let holder = place.start_ready(&["a"], HOLD);
    until("held");
    place.write("stop", "");
    assert_eq!(holder.end().code, 0);
    until("free");
    watch.kill().unwrap();
    watch.wait().unwrap();
}

#[test]
fn watch_without_a_terminal_prints_a_line_for_each_change() {
    let place = Place::new();
    let holder = place.start_ready(&["a"], HOLD);
    let mut command = place.leasehold(&["watch", "--interval", "20ms"]);
    let mut watch = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let line = lines.next().unwrap().unwrap();
    assert!(line.contains("Z a held by ") && line.contains(", token "), "{line}");
    assert!(line.contains(&format!("/{}", holder.pid())), "{line}");
    watch.kill().unwrap();
    watch.wait().unwrap();
}

#[test]
fn force_release_names_the_process_to_end_where_it_cannot() {
    let place = Place::new();
    let holder = place.start_ready(&["a"], HOLD);
    let token = json(&place.run(&["status", "--json", "a"]).out)["token"].to_string();
    let done = place.run(&["force-release", "a", "--token", &token]);
    assert_eq!(done.code, 125, "{done:?}");
    assert!(done.err.contains(&format!("kill {}", holder.pid())), "{done:?}");
    assert_eq!(place.run(&["status", "a"]).code, 0, "nothing was changed");
}

#[test]
fn watch_on_a_terminal_is_drawn_anew() {
    let place = Place::new();
    let _holder = place.start_ready(&["a"], HOLD);
    let arguments = ["watch", "--interval", "20ms"];
    let mut terminal = Terminal::start(&place, crate::support::LEASEHOLD, &arguments);
    for _ in 0..2 {
        terminal.expect("\x1b[H\x1b[J");
        terminal.expect("NAME");
        terminal.expect("held");
    }
    terminal.send("\x03");
    assert_eq!(terminal.end(), -1);
}

#[test]
fn force_release_of_a_lock_that_nobody_holds_is_1() {
    let place = Place::new();
    let arguments = ["--store", "memory:", "force-release", "a", "--token", "7"];
    let done = place.run(&arguments);
    assert_eq!(done.code, 1);
    assert!(done.err.contains("a: nobody holds it"), "{done:?}");
    let object = json(&place.run(&[&arguments[..], &["--json"]].concat()).out);
    assert_eq!((&object["result"], &object["token"]), (&"not-held".into(), &7.into()));
}
