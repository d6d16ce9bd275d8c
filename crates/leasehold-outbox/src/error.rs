//! The errors of a database.

use std::error::Error as _;
use std::sync::Arc;

use crate::{Error, ErrorKind};

/// Converts an sqlx error to the error that the functions of this crate return.
pub fn database_error(error: sqlx::Error) -> Error {
    database_failed(leasehold::rows::failure(error))
}

/// Converts the error of a database that refused or failed.
pub(crate) fn database_failed(error: leasehold::Error) -> Error {
    let kind = match error.kind() {
        leasehold::ErrorKind::Invalid if error.source().is_none() => ErrorKind::Invalid,
        _ => ErrorKind::Database,
    };
    let message = format!("outbox: {}", error.message());
    Error::new(kind, message).with_source(Arc::new(error) as Arc<_>)
}
