//! The errors of failed loads.

use std::any::Any;

use crate::{BoxError, Error, ErrorKind};

/// Converts the error of a loader.
pub(crate) fn load_failed(error: BoxError) -> Error {
    let message = format!("cannot load the value: {error}");
    Error::new(ErrorKind::Load, message).with_source(error)
}

/// Returns the message for a loader that panicked.
pub(crate) fn loader_panicked(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("the loader panicked: {}", text.unwrap_or("with a value that is not text"))
}
