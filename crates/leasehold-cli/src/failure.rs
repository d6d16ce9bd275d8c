//! How the command fails: an exit code, a message, and a next step if there is one.

use std::borrow::Cow;

use leasehold::Error;

use crate::lang::{self, Lang, lang};

/// The exit codes of `leasehold` itself.
pub(crate) mod code {
    /// The lock was not available (`-E` changes the code); for `status`, no client holds it.
    pub(crate) const CONFLICT: u8 = 1;
    /// For `doctor`: warnings, and nothing worse.
    pub(crate) const WARNING: u8 = 1;
    /// For `doctor`: problems.
    pub(crate) const PROBLEM: u8 = 2;
    /// The store cannot be used: `EX_UNAVAILABLE` of sysexits.h.
    pub(crate) const UNAVAILABLE: u8 = 69;
    /// The lock was lost while the command ran.
    pub(crate) const LOST: u8 = 76;
    /// `leasehold` itself failed or was called wrongly, as in `env` and `timeout`.
    pub(crate) const OWN: u8 = 125;
    /// The command was found but could not be run.
    pub(crate) const CANNOT_RUN: u8 = 126;
    /// The command was not found.
    pub(crate) const NOT_FOUND: u8 = 127;
    /// Added to the number of the signal that ended the command (or the wait).
    pub(crate) const SIGNAL: u8 = 128;
}

/// Why the command ends, with its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The exit code.
    pub(crate) code: u8,
    /// One line, in English: `--json` has it in this form.
    pub(crate) message: String,
    /// The next step, in English.
    pub(crate) next_step: Option<String>,
    /// The error of the library that it comes from.
    origin: Option<Origin>,
}

/// What is known of an error of the library, besides the whole message.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Origin {
    /// What kind of error it is, in Chinese.
    kind: &'static str,
    /// The operation and the lock, in Chinese.
    during: String,
    /// The message without them.
    message: String,
}

impl Failure {
    /// Returns true if it means that the command could not be started.
    pub(crate) fn is_not_started(&self) -> bool {
        matches!(self.code, code::CANNOT_RUN | code::NOT_FOUND)
    }

    /// Creates a failure of `leasehold` itself, code 125.
    pub(crate) fn own(message: impl Into<String>) -> Self {
        Self::with_code(code::OWN, message)
    }

    /// Creates a failure with this exit code.
    pub(crate) fn with_code(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), next_step: None, origin: None }
    }

    /// Creates the failure for an error of the library.
    pub(crate) fn of_error(code: u8, error: &Error) -> Self {
        let name = error.name().map(|name| format!(" {name}")).unwrap_or_default();
        let during = match error.operation() {
            "" => String::new(),
            operation => format!("{}{name}：", lang::operation(operation)),
        };
        let kind = lang::kind(error.kind());
        let origin = Origin { kind, during, message: error.message().to_owned() };
        Self { origin: Some(origin), ..Self::with_code(code, error.to_string()) }
    }

    /// Creates the failure for another error; `kind` says in Chinese what kind of error it is.
    #[cfg(feature = "cache")]
    pub(crate) fn of_kind(code: u8, message: String, kind: &'static str) -> Self {
        let origin = Origin { kind, during: String::new(), message: message.clone() };
        Self { origin: Some(origin), ..Self::with_code(code, message) }
    }

    /// Returns the message in the language of this process. A message without a translation stays
    /// in English, after the kind of the error.
    pub(crate) fn told(&self) -> Cow<'_, str> {
        let Some(origin) = self.origin.as_ref().filter(|_| lang() == Lang::Chinese) else {
            return lang::told(&self.message);
        };
        let told = lang::told(&origin.message);
        let kind = match told == origin.message {
            true => format!("{}：", origin.kind),
            false => String::new(),
        };
        format!("{}{kind}{told}", origin.during).into()
    }

    /// Adds the next step.
    pub(crate) fn next(mut self, step: impl Into<String>) -> Self {
        self.next_step = Some(step.into());
        self
    }
}
