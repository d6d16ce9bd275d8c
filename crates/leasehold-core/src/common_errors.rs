//! Errors that several calls return with the same message.

use leasehold_proto::LossReason;

use crate::backend::Mode;
use crate::{Error, ErrorKind};

pub(crate) fn lost(reason: LossReason) -> Error {
    Error::new(ErrorKind::Lost, format!("the lock was lost: {reason}"))
}

pub(crate) fn closed() -> Error {
    Error::new(
        ErrorKind::Closed,
        "the client was closed, or the runtime of its renewal task has ended; open a new client",
    )
}

pub(crate) fn no_answer() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "the backend did not answer in time; check that the server is reachable",
    )
}

/// Returns the error of a wait whose time is up.
pub(crate) fn timed_out(mode: Mode) -> Error {
    let message = match mode {
        Mode::Permit => "timed out waiting for free slots",
        Mode::Exclusive | Mode::Shared => "timed out waiting for the lock",
    };
    Error::new(ErrorKind::Timeout, message)
}

/// Adds to a timeout why the last request to the backend failed.
pub(crate) fn since(error: Error, why: Option<Error>) -> Error {
    match why.filter(|_| error.kind() == ErrorKind::Timeout) {
        Some(why) => {
            let message = format!("{}: {}", error.message(), why.message());
            Error::new(ErrorKind::Timeout, message).with_source(why)
        }
        None => error,
    }
}
