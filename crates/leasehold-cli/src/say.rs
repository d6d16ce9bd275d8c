//! Talking: messages to stderr, answers to stdout; colour only on a terminal.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use anstyle::{AnsiColor, Style};

use crate::failure::Failure;
use crate::foreign;

/// How much is said.
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

/// Prints an answer. A reader that has gone (`| head`) is no error.
pub(crate) fn answer(text: impl Display) -> Result<(), Failure> {
    answer_part(text).map(drop)
}

/// Prints a part of an answer that has no end of its own; false when its reader has gone.
pub(crate) fn answer_part(text: impl Display) -> Result<bool, Failure> {
    let mut out = anstream::stdout();
    match write!(out, "{text}").and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::own(format!("cannot write to stdout: {error}"))),
    }
}

/// True when people look at stderr.
pub(crate) fn is_live() -> bool {
    io::stderr().is_terminal()
}

/// One message to stderr; it may name what somebody else wrote. Nothing can be done where even
/// that fails.
fn line(style: Style, message: &str) {
    let lines: Vec<_> = message.split('\n').map(foreign::clean).collect();
    let message = lines.join("\n");
    let _ = writeln!(anstream::stderr(), "{style}leasehold:{style:#} {message}");
}
