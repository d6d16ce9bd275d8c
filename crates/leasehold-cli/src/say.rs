//! Talking: messages to stderr, answers to stdout; colour only on a terminal.

mod writer;

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};

use self::writer::{STDERR, STDOUT};
use crate::failure::Failure;
use crate::foreign;

/// How long something that holds a lock waits for its messages to be written, so that they stand
/// before what the command writes.
const BEFORE_OTHERS: Duration = Duration::from_millis(250);

/// How much is said. A message is written by a thread of its own: a stderr that nobody reads
/// blocks nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Voice {
    /// Errors only.
    pub(crate) quiet: bool,
    /// What would not be worth a line otherwise.
    pub(crate) verbose: bool,
}

impl Voice {
    /// Something that must be known, unless quiet was asked for.
    pub(crate) fn warn(self, message: &str) {
        if !self.quiet {
            line(AnsiColor::Yellow.on_default().bold(), message);
        }
    }

    /// Something that is good to know.
    pub(crate) fn note(self, message: &str) {
        if !self.quiet {
            line(Style::new().bold(), message);
        }
    }

    /// Something for those who asked for it.
    pub(crate) fn detail(self, message: &str) {
        if self.verbose {
            line(Style::new().dimmed(), message);
        }
    }
}

/// Says why the command ends.
pub(crate) fn failure(failure: &Failure) {
    if !failure.message.is_empty() {
        line(AnsiColor::Red.on_default().bold(), &failure.message);
    }
    if let Some(step) = &failure.next_step {
        line(AnsiColor::Cyan.on_default(), step);
    }
}

/// Shows a row that is drawn anew; none clears it.
pub(crate) fn row(row: Option<String>) {
    STDERR.row(row);
}

/// Waits until all messages are written, or for long enough where nobody reads them.
pub(crate) async fn settled() {
    let _ = tokio::time::timeout(BEFORE_OTHERS, STDERR.settled()).await;
}

/// Waits until everything is written, at most this long; without a limit, for as long as it takes.
pub(crate) fn finish(at_most: Option<Duration>) {
    STDERR.settle(at_most);
    STDOUT.settle(at_most);
}

/// From now on messages go to a terminal from the background, too.
pub(crate) fn from_background() {
    STDERR.write_from_background();
}

/// Prints an answer. A reader that has gone (`| head`) is no error.
pub(crate) fn answer(text: impl Display) -> Result<(), Failure> {
    STDERR.settle(Some(BEFORE_OTHERS));
    let mut out = anstream::stdout();
    is_read(write!(out, "{text}").and_then(|()| out.flush())).map(drop)
}

/// Prints a part of an answer that has no end of its own; false when its reader has gone. While
/// nobody reads, it waits, and everything else goes on.
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

/// True when people look at stderr.
pub(crate) fn is_live() -> bool {
    io::stderr().is_terminal()
}

/// A style for stderr: none where it is no terminal, or colours are not wanted.
pub(crate) fn styled(style: Style) -> Style {
    match AutoStream::choice(&io::stderr()) {
        ColorChoice::Never => Style::new(),
        _ => style,
    }
}

/// One message to stderr; it may name what somebody else wrote. Nothing can be done where even
/// that fails.
fn line(style: Style, message: &str) {
    let lines: Vec<_> = message.split('\n').map(foreign::clean).collect();
    let (style, message) = (styled(style), lines.join("\n"));
    STDERR.line(format!("{style}leasehold:{style:#} {message}\n"));
}
