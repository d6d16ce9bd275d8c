//! What is shown fits the terminal: one row for a waiter, rows of tables that do not wrap.

use crate::screen::Terminal;
use crate::support::{LEASEHOLD, Place};

const HOLD: &str = "touch ready; while [ ! -e stop ]; do sleep 0.01; done";

const NAME: &str = "jobs/名字/with-a-name-that-is-longer-than-the-terminal-is-wide";

#[test]
fn a_waiting_line_is_one_row_and_gone_after_the_interrupt_key() {
    let place = Place::new();
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
    let place = Place::new();
    let _holder = place.start_ready(&["a"], HOLD);
    let line = "TERM=dumb exec $LEASEHOLD run -w 1500ms a -- true";
    let mut terminal = Terminal::start(&place, "sh", &["-c", line]);
    terminal.expect("waiting for a, held by");
    terminal.expect("cannot acquire a");
    assert_eq!(terminal.seen().matches("waiting for").count(), 1);
    assert!(!terminal.seen().contains("\x1b[2K"));
    assert_eq!(terminal.end(), 1);
}

#[test]
fn a_table_fits_the_terminal_and_is_whole_elsewhere() {
    let place = Place::new();
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
    assert!(place.run(&["list", "--json"]).out.contains(NAME));
}
