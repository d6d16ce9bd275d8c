//! The errors of loads that failed.

use std::any::Any;

use crate::{BoxError, Error, ErrorKind};

/// The error of a load, from the error of its loader.
pub(crate) fn load_failed(error: BoxError) -> Error {
    let message = format!("the value could not be loaded: {error}");
    Error::new(ErrorKind::Load, message).with_source(error)
}

/// The error of a loader that panicked.
pub(crate) fn loader_panicked(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("the loader panicked: {}", text.unwrap_or("with a value that is no text"))
}
