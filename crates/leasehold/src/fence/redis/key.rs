//! Computes the name of the fence's key, in the cluster slot of the value's key.

use crate::{Error, ErrorKind, Result};

/// Returns `key` with `suffix`, in the slot of `key`.
///
/// A key with a hash tag, such as `user:{42}:name`, keeps its tag. Any other key becomes the tag:
/// `{key}:fence`.
pub(super) fn beside(key: &[u8], suffix: &str) -> Result<Vec<u8>> {
    if key.is_empty() {
        return Err(Error::new(ErrorKind::Invalid, "key: is empty; name a key"));
    }
    let tagged = has_tag(key);
    if !tagged && key.contains(&b'}') {
        let key = String::from_utf8_lossy(key);
        let problem = format!(
            "key: {key:?} has a }} but no {{tag}}; put the shared part of the key into \
             {{braces}}, so that both keys are in one slot"
        );
        return Err(Error::new(ErrorKind::Invalid, problem));
    }
    let (open, close): (&[u8], &[u8]) = if tagged { (b"", b"") } else { (b"{", b"}") };
    Ok([open, key, close, suffix.as_bytes()].concat())
}

/// Returns true if the key has a hash tag as the Redis Cluster specification defines it: at least
/// one byte between the first `{` and the first `}` after it.
fn has_tag(key: &[u8]) -> bool {
    let Some(open) = key.iter().position(|byte| *byte == b'{') else { return false };
    key[open + 1..].iter().position(|byte| *byte == b'}').is_some_and(|length| length > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the part of a key from which its slot is computed.
    fn hashed(key: &[u8]) -> &[u8] {
        if !has_tag(key) {
            return key;
        }
        let inside = key.splitn(2, |byte| *byte == b'{').nth(1).unwrap();
        inside.split(|byte| *byte == b'}').next().unwrap()
    }

    #[test]
    fn the_second_key_lives_in_the_same_slot() {
        for key in ["a", "orders/555", "user:{42}:name", "{x}{y}", "a{b", "a{{b}}", "{}{", "名字"]
        {
            let Ok(beside) = beside(key.as_bytes(), ":fence") else {
                assert_eq!(key, "{}{");
                continue;
            };
            assert_eq!(hashed(&beside), hashed(key.as_bytes()), "{key}");
            assert!(beside.ends_with(b":fence") && beside != key.as_bytes());
        }
    }

    #[test]
    fn a_key_that_has_no_neighbour_is_refused() {
        for key in ["", "a}b", "{}x", "}{a"] {
            assert_eq!(beside(key.as_bytes(), ":fence").unwrap_err().kind(), ErrorKind::Invalid);
        }
    }
}
