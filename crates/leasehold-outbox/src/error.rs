//! The errors of a database.

use std::error::Error as _;
use std::sync::Arc;

use crate::{Error, ErrorKind};

/// Returns the error for an error of sqlx, as the functions of this crate return it.
pub fn database_error(error: sqlx::Error) -> Error {
    database_failed(leasehold::rows::failure(error))
}

/// The error for a database that refused or failed.
pub(crate) fn database_failed(error: leasehold::Error) -> Error {
    let kind = match error.kind() {
        leasehold::ErrorKind::Invalid if error.source().is_none() => ErrorKind::Invalid,
        _ => ErrorKind::Database,
    };
    let message = format!("outbox: {}", error.message());
    Error::new(kind, message).with_source(Arc::new(error) as Arc<_>)
}
