//! What is shown fits the terminal: one row for a waiter, rows of tables that do not wrap.

use leasehold_test_servers::{Needs, RedisServer, RedisSettings};

use crate::screen::Terminal;
use crate::support::{LEASEHOLD, WorkDir};

const HOLD: &str = "touch ready; while [ ! -e stop ]; do sleep 0.01; done";

const NAME: &str = "jobs/名字/with-a-name-that-is-longer-than-the-terminal-is-wide";

#[test]
fn a_waiting_line_is_one_row_and_gone_after_the_interrupt_key() {
    let place = WorkDir::new();
    let _holder = place.start_ready(&[NAME], HOLD);
    let mut terminal =
        Terminal::with_columns(&place, 30, LEASEHOLD, &["run", NAME, "--", "touch", "ran"]);
    terminal.expect("waiting for ");
    terminal.expect("…");
    terminal.expect("\r\x1b[2K"); // Drawn anew.
    terminal.expect("…");
    terminal.send("\x03");
    terminal.expect("\r\x1b[2K");
    let seen = terminal.seen();
    assert!(seen.ends_with("\r\x1b[2K"), "nothing after it was cleared: {seen:?}");
    assert!(!seen.contains('\n'), "never a second row: {seen:?}");
    for row in seen.split("\r\x1b[2K") {
        let row = row.replace("\x1b[1m", "").replace("\x1b[0m", "");
        let wide = row.chars().filter(|c| "名字".contains(*c)).count();
        assert!(row.chars().count() + wide <= 29, "with ^C, and a column left: {row:?}");
    }
    assert_eq!(terminal.end(), 130);
    assert!(!place.path("ran").exists());
}

#[test]
fn a_terminal_that_cannot_draw_anew_gets_one_plain_line() {
    let place = WorkDir::new();
    let _holder = place.start_ready(&["a"], HOLD);
    let line = "TERM=dumb exec $LEASEHOLD run -w 1500ms a -- true";
    let mut terminal = Terminal::start(&place, "sh", &["-c", line]);
    terminal.expect("waiting for a, held by");
    terminal.expect("timed out after 1.5s waiting for a");
    assert_eq!(terminal.seen().matches("waiting for a, ").count(), 1);
    assert!(!terminal.seen().contains("\x1b[2K"));
    assert_eq!(terminal.end(), 1);
}

#[test]
fn a_table_fits_the_terminal_and_is_whole_elsewhere() {
    let place = WorkDir::new();
    let holder = place.start_ready(&[NAME], HOLD);
    for command in ["list", "watch"] {
        let mut terminal = Terminal::with_columns(&place, 60, LEASEHOLD, &[command]);
        terminal.expect("jobs/");
        terminal.expect("…");
        terminal.expect(&format!("/{}", holder.pid()));
        terminal.expect("\r\n");
        let seen = terminal.seen().replace("\x1b[H\x1b[J", "");
        for row in seen.lines() {
            // On a slow machine it says first that it is still looking, and wipes that out.
            let row = row.rsplit("\x1b[2K").next().unwrap_or_default();
            let wide = row.chars().filter(|c| "名字".contains(*c)).count();
            assert!(row.trim_end().chars().count() + wide <= 60, "{row:?}");
        }
    }
    assert!(place.run(&["list"]).out.contains(NAME));
    assert!(place.run(&["list"]).out.contains("TOKEN"));
    assert!(place.run(&["list", "--json"]).out.contains(NAME));
}

#[test]
fn a_narrow_table_keeps_the_name_rather_than_the_token() {
    let place = WorkDir::new();
    let name = "jobs/a-name-of-thirty-characters";
    let _holder = place.start_ready(&[name], HOLD);
    let whole = place.run(&["list"]).out.lines().map(|row| row.chars().count()).max().unwrap();
    for command in ["list", "watch"] {
        let mut wide = Terminal::with_columns(&place, 200, LEASEHOLD, &[command]);
        wide.expect("TOKEN");
        wide.expect(name);
        let mut narrow = Terminal::with_columns(&place, whole as u16 - 5, LEASEHOLD, &[command]);
        narrow.expect("WAITERS");
        narrow.expect(&format!("{name}  held"));
        assert!(!narrow.seen().contains("TOKEN"), "{}", narrow.seen());
    }
}

/// The rows that a program wrote to a terminal of this width.
fn rows(place: &WorkDir, columns: u16, arguments: &[&str]) -> Vec<String> {
    let line = format!("$LEASEHOLD {}; echo ended", arguments.join(" "));
    let mut terminal = Terminal::with_columns(place, columns, "sh", &["-c", &line]);
    terminal.expect("ended\r\n");
    let plain = |row: &str| {
        let parts = row.split('\x1b').enumerate().map(|(at, part)| match at {
            0 => part,
            _ => part.split_once('m').map_or("", |(_, rest)| rest),
        });
        parts.collect::<String>().trim_end().to_owned()
    };
    terminal.seen().lines().map(plain).collect()
}

#[test]
fn long_texts_are_wrapped_under_their_column_on_a_terminal_only() {
    let place = WorkDir::new();
    let server =
        (!Needs::Redis.is_skipped()).then(|| RedisServer::start(RedisSettings::new()).unwrap());
    let doctor = server.as_ref().map(|server| vec!["doctor".to_owned(), server.url()]);
    let lab = vec!["lab".to_owned(), "list".to_owned()];
    for (arguments, indent) in [(Some(lab), 38), (doctor, 10)] {
        let Some(arguments) = arguments else { continue };
        let arguments: &[&str] = &arguments.iter().map(String::as_str).collect::<Vec<_>>();
        let whole = place.run(arguments).out;
        assert!(whole.lines().any(|line| line.chars().count() > 80), "{whole}");
        let rows = rows(&place, 80, arguments);
        assert!(rows.iter().all(|row| row.chars().count() <= 80), "{rows:#?}");
        let continued = format!("{:indent$}", "");
        let is_continued =
            |row: &String| row.strip_prefix(&continued).is_some_and(|rest| !rest.starts_with(' '));
        assert!(rows.iter().any(is_continued), "{rows:#?}");
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let mut shown = words(&rows.join(" "));
        assert_eq!(shown.pop().as_deref(), Some("ended"));
        assert_eq!(shown, words(&whole), "nothing is cut");
    }
}
