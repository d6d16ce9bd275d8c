//! Errors that several calls return with the same message.

use leasehold_proto::LossReason;

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
