//! The message of a change: JSON, for other languages and for people.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::transport::Change;

/// The body of a message.
#[derive(Serialize, Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    cache: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    key: std::borrow::Cow<'a, str>,
    #[serde(default)]
    hold_ms: u64,
}

pub(crate) fn write(change: &Change) -> Result<Vec<u8>, serde_json::Error> {
    let hold_ms = u64::try_from(change.hold.as_millis()).unwrap_or(u64::MAX);
    serde_json::to_vec(&Body { cache: (&change.cache).into(), key: (&change.key).into(), hold_ms })
}

/// Parses a change, or returns why the message is not a change of a relay.
pub(crate) fn read(body: &[u8]) -> Result<Change, String> {
    let Body { cache, key, hold_ms } = serde_json::from_slice(body)
        .map_err(|error| format!("the message is not a change: {error}"))?;
    let hold = Duration::from_millis(hold_ms);
    let change = Change { cache: cache.into(), key: key.into(), hold, id: 0 };
    match change.problem() {
        None => Ok(change),
        Some(problem) => Err(problem),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_read_as_it_was_written() {
        for key in ["42", "käse 🧀", "\"quoted\"", "a\\b"] {
            let hold = Duration::from_millis(70);
            let change = Change { cache: "p:n".into(), key: key.into(), hold, id: 0 };
            assert_eq!(read(&write(&change).unwrap()), Ok(change));
        }
        let least = br#"{"cache":"p:n","key":"a","more":1}"#;
        assert_eq!(read(least).unwrap().hold, Duration::ZERO);
    }

    #[test]
    fn what_no_relay_has_written_is_none() {
        for body in [
            "",
            "text",
            "{}",
            r#"{"cache":"no colon","key":"a"}"#,
            r#"{"cache":"p:n","key":""}"#,
            r#"{"cache":"p:n","key":"a","hold_ms":-1}"#,
            r#"{"cache":"p:n","key":"a","hold_ms":99999999999}"#,
        ] {
            assert!(read(body.as_bytes()).is_err(), "{body}");
        }
        assert!(read(&[0xff, 0xfe]).is_err());
    }
}
