//! How the command fails: an exit code, a message, and a next step if there is one.

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
    /// One line for stderr.
    pub(crate) message: String,
    /// The next step.
    pub(crate) next_step: Option<String>,
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
        Self { code, message: message.into(), next_step: None }
    }

    /// Adds the next step.
    pub(crate) fn next(mut self, step: impl Into<String>) -> Self {
        self.next_step = Some(step.into());
        self
    }
}
