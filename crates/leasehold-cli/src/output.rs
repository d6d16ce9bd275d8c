//! Writes messages to stderr and answers to stdout; colour only on a terminal.

mod writer;

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};

use self::writer::{STDERR, STDOUT};
use crate::failure::Failure;
use crate::lang::told;
use crate::sanitize;

/// How long a subcommand that holds a lock waits for its messages to be written, so that they come
/// before the command's output.
const BEFORE_OTHERS: Duration = Duration::from_millis(250);

/// Which messages are written. A separate thread writes each message: a stderr that no process
/// reads blocks nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Voice {
    /// Errors only.
    pub(crate) quiet: bool,
    /// Also details.
    pub(crate) verbose: bool,
}

impl Voice {
    /// Writes a warning, unless quiet.
    pub(crate) fn warn(self, message: &str) {
        if !self.quiet {
            line(AnsiColor::Yellow.on_default().bold(), &told(message));
        }
    }

    /// Writes useful information.
    pub(crate) fn note(self, message: &str) {
        if !self.quiet {
            line(Style::new().bold(), &told(message));
        }
    }

    /// Writes a detail, if verbose.
    pub(crate) fn detail(self, message: &str) {
        if self.verbose {
            line(Style::new().dimmed(), &told(message));
        }
    }
}

/// Writes why the command ends.
pub(crate) fn failure(failure: &Failure) {
    if !failure.message.is_empty() {
        line(AnsiColor::Red.on_default().bold(), &failure.told());
    }
    if let Some(step) = &failure.next_step {
        line(AnsiColor::Cyan.on_default(), &told(step));
    }
}

/// Shows a row that is redrawn; `None` clears it.
pub(crate) fn row(row: Option<String>) {
    STDERR.row(row);
}

/// Waits until all messages are written, or long enough if no process reads them.
pub(crate) async fn settled() {
    let _ = tokio::time::timeout(BEFORE_OTHERS, STDERR.settled()).await;
}

/// Waits until everything is written, at most this long; without a limit, for as long as it takes.
pub(crate) fn finish(at_most: Option<Duration>) {
    STDERR.settle(at_most);
    STDOUT.settle(at_most);
}

/// From now on, writes messages to a terminal also from the background.
pub(crate) fn from_background() {
    STDERR.write_from_background();
}

/// Prints an answer. A reader that has gone (`| head`) is not an error.
pub(crate) fn answer(text: impl Display) -> Result<(), Failure> {
    STDERR.settle(Some(BEFORE_OTHERS));
    let mut out = anstream::stdout();
    is_read(write!(out, "{text}").and_then(|()| out.flush())).map(drop)
}

/// Prints a part of an endless answer. Returns false if its reader has gone. While no process
/// reads, it waits, and everything else continues.
pub(crate) async fn answer_part(text: impl Display) -> Result<bool, Failure> {
    STDOUT.line(text.to_string());
    is_read(STDOUT.settled().await)
}

fn is_read(written: io::Result<()>) -> Result<bool, Failure> {
    match written {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::own(format!("cannot write to stdout: {error}"))),
    }
}

/// Returns true if stderr is a terminal.
pub(crate) fn is_live() -> bool {
    io::stderr().is_terminal()
}

/// Returns a style for stderr: none if it is not a terminal, or colours are disabled.
pub(crate) fn styled(style: Style) -> Style {
    match AutoStream::choice(&io::stderr()) {
        ColorChoice::Never => Style::new(),
        _ => style,
    }
}

/// Writes one message to stderr; it may contain text of other users. If even that fails, nothing
/// can be done.
fn line(style: Style, message: &str) {
    let lines: Vec<_> = message.split('\n').map(sanitize::clean).collect();
    let (style, message) = (styled(style), lines.join("\n"));
    STDERR.line(format!("{style}leasehold:{style:#} {message}\n"));
}
