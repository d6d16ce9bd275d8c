//! The name of a lock: 1 to 512 bytes of UTF-8 without control characters.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

/// A valid lock name. Slashes, dots and braces are allowed; each backend escapes what it must.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

impl Name {
    /// The longest name, in bytes.
    pub const MAX_BYTES: usize = 512;

    /// Checks a name.
    ///
    /// # Errors
    /// [`NotAName`] if it is empty, longer than 512 bytes, or contains a control character. It
    /// becomes an [`Error`](crate::Error) of the kind [`Invalid`](crate::ErrorKind::Invalid).
    pub fn new(name: impl AsRef<str>) -> Result<Self, NotAName> {
        let name = name.as_ref();
        let problem = if name.is_empty() {
            "name: is empty; a name has 1 to 512 bytes".to_owned()
        } else if name.len() > Self::MAX_BYTES {
            format!("name: has {} bytes; a name has 1 to 512 bytes", name.len())
        } else if let Some((at, c)) = name.char_indices().find(|(_, c)| c.is_control()) {
            format!(
                "name: has the control character U+{:04X} at byte {at}; \
                 a name is UTF-8 without control characters",
                u32::from(c)
            )
        } else {
            return Ok(Self(name.into()));
        };
        Err(NotAName(problem))
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The reason why a text is no [`Name`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAName(String);

impl fmt::Display for NotAName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl std::error::Error for NotAName {}

/// Names compare and hash as their text does, so a map of names finds one by its text.
impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_limited_in_length_and_free_of_control_characters() {
        for good in ["a", "orders/555", "../../etc", "{x}", "名字", &"x".repeat(512)] {
            assert_eq!(Name::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "a\nb", "\0", "\u{85}", &"x".repeat(513)] {
            let error = Name::new(bad).unwrap_err();
            assert!(error.to_string().starts_with("name: "), "{error}");
            assert_eq!(crate::Error::from(error).kind(), crate::ErrorKind::Invalid);
        }
    }
}
