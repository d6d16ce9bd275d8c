//! What the tasks print: one aligned line per step, with its duration.

use std::io::{IsTerminal, Write, stdout};
use std::time::{Duration, Instant};

/// How a step ended.
pub(crate) enum Outcome {
    /// It held; the note stands at the end of its line.
    Good(String),
    /// It was left out; the note says why.
    Left(String),
    /// It did not hold; the text is printed below its line.
    Bad(String),
}

impl From<Result<String, String>> for Outcome {
    fn from(result: Result<String, String>) -> Self {
        match result {
            Ok(_) => Self::Good(String::new()),
            Err(output) => Self::Bad(output),
        }
    }
}

/// Runs one step and prints its line; false when it did not hold.
pub(crate) fn step(name: &str, work: impl FnOnce() -> Outcome) -> bool {
    if stdout().is_terminal() {
        print!("  ...   {name}");
        let _ = stdout().flush();
    }
    let start = Instant::now();
    let outcome = work();
    line(name, start.elapsed(), &outcome);
    !matches!(outcome, Outcome::Bad(_))
}

/// Prints the line of a step that was timed elsewhere.
pub(crate) fn line(name: &str, took: Duration, outcome: &Outcome) {
    let back = if stdout().is_terminal() { "\r\x1b[K" } else { "" };
    let (word, colour, note) = match outcome {
        Outcome::Good(note) => ("ok   ", GREEN, note.as_str()),
        Outcome::Left(note) => ("skip ", YELLOW, note.as_str()),
        Outcome::Bad(_) => ("FAIL ", RED, ""),
    };
    let took = format!("{:.1} s", took.as_secs_f64());
    println!(
        "{}",
        format!("{back}  {} {name:<8}{took:>9}  {note}", paint(colour, word)).trim_end()
    );
    if let Outcome::Bad(text) = outcome {
        println!("{}\n", text.trim_end());
    }
}

/// ANSI code of what went well.
pub(crate) const GREEN: &str = "32";
/// ANSI code of what was left out.
pub(crate) const YELLOW: &str = "33";
/// ANSI code of what went wrong.
pub(crate) const RED: &str = "31";

/// `text` in a colour, on a terminal that wants colours.
pub(crate) fn paint(colour: &str, text: &str) -> String {
    if colourful() { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.to_owned() }
}

/// Whether standard output is a terminal and `NO_COLOR` is not set.
pub(crate) fn colourful() -> bool {
    stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
