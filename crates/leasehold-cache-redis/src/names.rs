//! Checks names and keys.

use leasehold_core::random;

use crate::{Error, Result};

/// The most bytes of a key.
const MAX_KEY: usize = 512;

/// Checks a part of the keys in Redis, such as a name or a prefix. It must not end a hash tag, and
/// must be readable. The error calls it `field`.
///
/// # Errors
/// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for other texts than 1 to 64 letters, digits, `_`, `.` and `-`.
pub fn check_name(field: &str, text: &str) -> Result<()> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    if !text.is_empty() && text.len() <= 64 && text.chars().all(allowed) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{field} is {text:?}; 1 to 64 letters, digits, '_', '.' and '-' are allowed"
    )))
}

/// Checks the text of a key: 1 to 512 bytes without control characters.
///
/// # Errors
/// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for another text.
pub fn check_key(text: &str) -> Result<()> {
    if text.is_empty() || text.len() > MAX_KEY {
        let bytes = text.len();
        return Err(Error::invalid(format!("key: has {bytes} bytes; 1 to {MAX_KEY} are allowed")));
    }
    if text.chars().any(char::is_control) {
        return Err(Error::invalid(format!("key: {text:?} has a control character; remove it")));
    }
    Ok(())
}

/// Returns a random token for one write, fill or run: 16 hexadecimal digits.
pub fn draw_token() -> String {
    format!("{:016x}", random::fresh())
}
