//! Which names and keys are allowed.

use leasehold_core::random;

use crate::{Error, Result};

/// The longest key in bytes.
const MAX_KEY: usize = 512;

/// Checks a part of the keys in Redis, such as a name or a prefix: it must not end a hash tag, and people must be able to
/// read it. `field` is what the error calls it.
///
/// # Errors
/// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for other texts than 1 to 64 letters, digits, `_`, `.` and `-`.
pub fn check_name(field: &str, text: &str) -> Result<()> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    if !text.is_empty() && text.len() <= 64 && text.chars().all(allowed) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{field} is {text:?}; allowed are 1 to 64 letters, digits, '_', '.' and '-'"
    )))
}

/// Checks the text of a key: 1 to 512 bytes without control characters.
///
/// # Errors
/// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for another text.
pub fn check_key(text: &str) -> Result<()> {
    if text.is_empty() || text.len() > MAX_KEY {
        let bytes = text.len();
        return Err(Error::invalid(format!("key: {bytes} bytes; allowed are 1 to {MAX_KEY}")));
    }
    if text.chars().any(char::is_control) {
        return Err(Error::invalid(format!("key: {text:?} has a control character")));
    }
    Ok(())
}

/// Draws the token of one write, fill or run: 16 hexadecimal digits.
pub fn draw_token() -> String {
    format!("{:016x}", random::fresh())
}
