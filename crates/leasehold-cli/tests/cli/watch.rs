//! `watch`: what it reports, and how.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};

use leasehold_test_servers::{Needs, RedisServer, RedisSettings};
use serde_json::Value;

use crate::screen::Terminal;
use crate::support::{WorkDir, until};

const HOLD: &str = "touch ready; while [ ! -e stop ]; do sleep 0.01; done";

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// A watch and what it prints; it ends with the test.
pub(crate) struct Watch(Child, Lines<BufReader<ChildStdout>>);

impl Watch {
    pub(crate) fn start(place: &WorkDir, arguments: &[&str]) -> Self {
        Self::start_as(place, &[&["watch", "--interval", "20ms"], arguments].concat())
    }

    fn start_as(place: &WorkDir, arguments: &[&str]) -> Self {
        let mut child = place.leasehold(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self(child, lines)
    }

    pub(crate) fn line(&mut self) -> String {
        self.1.next().unwrap().unwrap()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn watch_prints_each_change() {
    let place = WorkDir::new();
    let mut watch = Watch::start(&place, &["a", "--json"]);
    let mut until = |state: &str| {
        loop {
            let change = json(&watch.line());
            assert!(change["time_unix_ms"].is_u64());
            if change["state"] == state {
                break;
            }
        }
    };
    until("free");
    let holder = place.start_ready(&["a"], HOLD);
    until("held");
    place.write("stop", "");
    assert_eq!(holder.end().code, 0);
    until("free");
}

#[test]
fn what_redis_pushes_is_printed_without_a_poll() {
    if Needs::Redis.is_skipped() {
        return;
    }
    let server = RedisServer::start(RedisSettings::new()).unwrap();
    let (place, url) = (WorkDir::new(), server.url());
    let follow = |command: &[&str]| {
        let options = ["--interval", "1h", "--json", "--store", &url];
        Watch::start_as(&place, &[command, &options].concat())
    };
    let mut watch = follow(&["watch", "a"]);
    let mut leader = follow(&["leader", "a", "--watch"]);
    assert_eq!(json(&watch.line())["state"], "free");
    assert!(json(&leader.line())["leader"].is_null());
    let holder = place.start_ready(&["a", "--store", &url], HOLD);
    assert_eq!(json(&watch.line())["state"], "held");
    assert!(json(&leader.line())["leader"].is_object());
    place.write("stop", "");
    assert_eq!(holder.end().code, 0);
    assert_eq!(json(&watch.line())["state"], "free");
    assert!(json(&leader.line())["leader"].is_null());
}

#[test]
fn watch_without_a_terminal_prints_a_line_for_each_change() {
    let place = WorkDir::new();
    let holder = place.start_ready(&["a"], HOLD);
    let line = Watch::start(&place, &[]).line();
    assert!(line.contains("Z a held by ") && line.contains(", token "), "{line}");
    assert!(line.contains(&format!("/{}", holder.pid())), "{line}");
    let (moment, _) = line.split_once(' ').unwrap();
    assert!(moment.len() == 20 && moment.starts_with("20") && moment.contains('T'), "{line}");
}

#[test]
fn watch_names_those_who_wait() {
    let place = WorkDir::new();
    let _holder = place.start_ready(&["a"], HOLD);
    let mut watch = Watch::start(&place, &["a"]);
    assert!(watch.line().ends_with(", 0 waiting"));
    let (waiter, _) = place.start_waiting(&["--metadata", "what", "a", "--", "true"]);
    let line = watch.line();
    assert!(line.contains(", 1 waiting: ") && line.ends_with(&format!("/{}", waiter.pid())));
    let arguments = ["watch", "--interval", "20ms", "a"];
    let mut terminal = Terminal::start(&place, crate::support::LEASEHOLD, &arguments);
    terminal.expect("NAME");
    terminal.expect("1st");
    terminal.expect("what");
    terminal.send("\x03");
    terminal.end();
}

#[test]
fn watch_says_at_once_that_a_lock_was_never_held() {
    let place = WorkDir::new();
    let line = Watch::start(&place, &["a"]).line();
    assert!(line.contains("Z a free, never held"), "{line}");
    assert_eq!(json(&Watch::start(&place, &["a", "--json"]).line())["state"], "free");
}

#[test]
fn watch_says_why_a_record_cannot_be_read() {
    let place = WorkDir::new();
    assert_eq!(place.run(&["run", "a", "true"]).code, 0);
    place.write("store/locks/a.json", "{ damaged");
    let line = Watch::start(&place, &["a"]).line();
    assert!(line.contains("Z a unknown: ") && line.contains("is damaged"), "{line}");
}

#[test]
fn watch_ends_when_nobody_reads_on() {
    let place = WorkDir::new();
    let mut watch = Watch::start(&place, &["a"]);
    watch.line();
    let Watch(child, lines) = &mut watch;
    let nothing = Command::new("true").stdout(Stdio::piped()).spawn().unwrap().stdout;
    *lines = BufReader::new(nothing.unwrap()).lines();
    assert_eq!(place.run(&["run", "a", "--", "true"]).code, 0);
    until("the watch has ended", || child.try_wait().unwrap().is_some());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn watch_on_a_terminal_is_drawn_anew() {
    let place = WorkDir::new();
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
fn what_watch_sees_is_in_its_help() {
    let help = WorkDir::new().run(&["watch", "--help"]).out;
    for part in ["between two polls", "UTC"] {
        assert!(help.split_whitespace().collect::<Vec<_>>().join(" ").contains(part), "{help}");
    }
}

#[test]
fn watch_sees_each_permit() {
    let place = WorkDir::new();
    let mut watch = Watch::start(&place, &["gpu", "--json"]);
    let mut until = |held: u64| loop {
        let change = json(&watch.line());
        if change["held_slots"].as_u64().unwrap_or_default() == held {
            break;
        }
    };
    until(0);
    let run = |name: &str| {
        let script = format!("touch ready-{name}; while [ ! -e stop-{name} ]; do sleep 0.01; done");
        let running = place.start(&["run", "--limit", "3", "gpu", "--", "sh", "-c", &script]);
        place.until_exists(&format!("ready-{name}"));
        running
    };
    let one = run("one");
    until(1);
    let two = run("two");
    until(2);
    place.write("stop-one", "");
    assert_eq!(one.end().code, 0);
    until(1);
    place.write("stop-two", "");
    assert_eq!(two.end().code, 0);
    until(0);
}
