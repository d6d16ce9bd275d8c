//! Keys of a cache, and their texts.

use std::borrow::Cow;

use leasehold_cache_redis::check_key;

use crate::{Error, Result};

/// A key of a cache, identified by its text: at most 512 bytes without control characters.
pub trait Key {
    /// Returns the text, which must differ between different keys.
    fn text(&self) -> Cow<'_, str>;
}

impl Key for str {
    fn text(&self) -> Cow<'_, str> {
        Cow::Borrowed(self)
    }
}

impl Key for String {
    fn text(&self) -> Cow<'_, str> {
        Cow::Borrowed(self)
    }
}

macro_rules! numbers {
    ($($number:ty)*) => {
        $(impl Key for $number {
            fn text(&self) -> Cow<'_, str> {
                Cow::Owned(self.to_string())
            }
        })*
    };
}
numbers!(u32 u64 u128 i32 i64 i128);

/// Returns the text of a key, or an error if it is not allowed.
pub(crate) fn text<K: Key + ?Sized>(key: &K) -> Result<Cow<'_, str>> {
    let text = key.text();
    check_key(&text)?;
    Ok(text)
}

/// Returns the texts of the keys of a write; there must be at least one.
pub(crate) fn texts<K: Key + ?Sized>(keys: &[&K]) -> Result<Vec<String>> {
    if keys.is_empty() {
        return Err(Error::invalid("keys: the list is empty; name the keys whose values change"));
    }
    keys.iter().map(|key| text(*key).map(Into::into)).collect()
}
