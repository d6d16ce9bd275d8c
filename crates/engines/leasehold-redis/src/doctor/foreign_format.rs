//! The formats of other libraries' locks, told by key and value.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::wire::Wire;

/// A format, with the options that it needs in the URL.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Format {
    Redisson,
    /// The name is the key.
    Plain,
    /// The same, by redis-py without its `timeout`.
    Endless,
    /// The name follows a prefix.
    Prefixed {
        prefix: String,
        libraries: &'static str,
    },
    /// A UUID: the name may follow the key of Spring's registry.
    Spring {
        registry: String,
    },
    Rueidis {
        prefix: String,
    },
}

impl Format {
    /// Returns the format of a lock with this key and value, which ends in `left` milliseconds, or never if that is negative.
    pub(super) fn of(key: &str, value: &[u8], left: i64) -> Option<Self> {
        let text = str::from_utf8(value);
        if left < 0 {
            return text.is_ok_and(is_uuid1_hex).then_some(Self::Endless);
        }
        let Ok(text) = text else {
            return match value.len() {
                20 => Some(Self::Plain),
                24 => Some(Self::Rueidis { prefix: before_number(key)?.to_owned() }),
                _ => None,
            };
        };
        if text.starts_with("ADDED:") && text.contains('@') {
            let prefix = before_second_colon(key).map(str::to_owned);
            return Some(
                prefix
                    .map_or(Self::Plain, |prefix| Self::Prefixed { prefix, libraries: "ShedLock" }),
            );
        }
        if is_uuid(text) {
            return Some(match key.split_once(':') {
                Some(("redlock", _)) => {
                    Self::Prefixed { prefix: "redlock:".to_owned(), libraries: "pottery" }
                }
                Some((registry, _)) => Self::Spring { registry: registry.to_owned() },
                None => Self::Plain,
            });
        }
        is_owner(text).then_some(Self::Plain)
    }

    pub(super) fn libraries(&self) -> &'static str {
        match self {
            Self::Redisson => "Redisson",
            Self::Plain => "redis-py, redsync, bsm/redislock, rslock, node-redlock",
            Self::Endless => "redis-py",
            Self::Prefixed { libraries, .. } => libraries,
            Self::Spring { .. } => "Spring",
            Self::Rueidis { .. } => "rueidislock",
        }
    }

    /// Returns the value of the option `wire`, and the options that belong to it.
    pub(super) fn options(&self) -> String {
        let encoded = |text: &str| utf8_percent_encode(text, ENCODED).to_string();
        match self {
            Self::Redisson => "redisson".to_owned(),
            Self::Plain | Self::Endless => "set-nx".to_owned(),
            Self::Prefixed { prefix, .. } => format!("set-nx&key-prefix={}", encoded(prefix)),
            Self::Spring { registry } => format!("set-nx&spring={}", encoded(registry)),
            Self::Rueidis { prefix } if prefix == "rueidislock" => {
                "rueidis&majority=KEYMAJORITY".to_owned()
            }
            Self::Rueidis { prefix } => {
                format!("rueidis&majority=KEYMAJORITY&key-prefix={}", encoded(prefix))
            }
        }
    }

    /// The format by its kind alone, where there are too many to tell them apart.
    pub(super) fn without_options(self) -> Self {
        match self {
            Self::Redisson | Self::Endless | Self::Rueidis { .. } => self,
            Self::Plain | Self::Prefixed { .. } | Self::Spring { .. } => Self::Plain,
        }
    }

    /// Returns true if clients with this option `wire` hold the lock with this key too, under its name in the library.
    pub(super) fn is_of(&self, wire: &Wire, key: &str) -> bool {
        match (self, wire) {
            (Self::Redisson, Wire::Redisson) => true,
            (Self::Rueidis { prefix }, Wire::Rueidis { prefix: own, .. }) => prefix == own,
            (Self::Plain, Wire::SetNx { prefix, .. }) => key.starts_with(prefix),
            (Self::Prefixed { .. } | Self::Spring { .. }, Wire::SetNx { prefix, .. }) => {
                !prefix.is_empty() && key.starts_with(prefix)
            }
            _ => false,
        }
    }
}

/// What a value in a query needs escaped.
const ENCODED: &percent_encoding::AsciiSet =
    &NON_ALPHANUMERIC.remove(b':').remove(b'-').remove(b'_').remove(b'.').remove(b'/');

/// Returns what precedes the number in a key of rueidislock, `PREFIX:NUMBER:NAME`.
fn before_number(key: &str) -> Option<&str> {
    let mut at = 0;
    for part in key.split(':') {
        let is_last = at + part.len() == key.len();
        if at > 0 && !is_last && !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit())
        {
            return key.get(..at - 1);
        }
        at += part.len() + 1;
    }
    None
}

/// Returns the beginning of a key of ShedLock, `PREFIX:ENVIRONMENT:NAME`.
fn before_second_colon(key: &str) -> Option<&str> {
    let (at, _) = key.match_indices(':').nth(1)?;
    key.get(..=at)
}

/// Returns true for a value by which a library knows its holder, and which is no UUID.
fn is_owner(value: &str) -> bool {
    let is_hex =
        matches!(value.len(), 32 | 40) && value.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex || value.len() == 24 && value.ends_with("==") || is_base64_of_16_bytes(value)
}

/// Returns true for a token of bsm/redislock: 22 characters for URLs, of which the last has two bits.
fn is_base64_of_16_bytes(value: &str) -> bool {
    let has = |is: fn(&u8) -> bool| value.bytes().any(|byte| is(&byte));
    value.len() == 22
        && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        && value.ends_with(['A', 'Q', 'g', 'w'])
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_lowercase)
}

/// Returns true for the token of redis-py: a UUID made of time and host, without dashes.
fn is_uuid1_hex(value: &str) -> bool {
    value.len() == 32
        && value.bytes().enumerate().all(|(at, byte)| match at {
            12 => byte == b'1',
            16 => matches!(byte, b'8' | b'9' | b'a' | b'b'),
            _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        })
}

/// Returns true for the field of a holder of Redisson: a UUID, a colon, the number of the thread.
pub(super) fn is_thread(field: &str) -> bool {
    let Some((id, thread)) = field.split_once(':') else { return false };
    let thread = thread.strip_suffix(":write").unwrap_or(thread);
    is_uuid(id) && !thread.is_empty() && thread.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "8743c9c0-0795-4907-87fd-6c719a6b4586";

    #[test]
    fn the_owners_of_the_libraries_are_known_and_others_are_not() {
        let of = |key: &str, value: &[u8]| Format::of(key, value, 1).map(|format| format.options());
        let added = format!("ADDED:2026-01-01T00:00:00.000Z@host:{UUID}");
        let bytes = [0xf5_u8; 24];
        let known: [(&str, &[u8], &str); 12] = [
            ("a:b", "0f8fad5bd9cb469fa16570867728950e".as_bytes(), "set-nx"),
            ("a", UUID.as_bytes(), "set-nx"),
            ("a", b"MTIzNDU2Nzg5MDEyMzQ1Ng==", "set-nx"),
            ("a", b"h0PJwAeVSQeH_WxxmmtFhg", "set-nx"),
            ("a", &bytes[..20], "set-nx"),
            ("redlock:a", UUID.as_bytes(), "set-nx&key-prefix=redlock:"),
            ("reg:a:b", UUID.as_bytes(), "set-nx&spring=reg"),
            ("a&b:c", UUID.as_bytes(), "set-nx&spring=a%26b"),
            ("job-lock:default:a:b", added.as_bytes(), "set-nx&key-prefix=job-lock:default:"),
            ("a", added.as_bytes(), "set-nx"),
            ("rueidislock:0:a:1:b", &bytes, "rueidis&majority=KEYMAJORITY"),
            ("my:locks:12:a", &bytes, "rueidis&majority=KEYMAJORITY&key-prefix=my:locks"),
        ];
        for (key, value, options) in known {
            assert_eq!(of(key, value).as_deref(), Some(options), "{key}");
        }
        let ours = b"leasehold:0f8fad5bd9cb469fa16570867728950e";
        let texts: [&[u8]; 6] =
            [b"", b"1", ours, b"{\"a\": 1}", b"abcdefghijklmnopqrstuw", &bytes[..16]];
        for text in texts {
            assert_eq!(of("a", text), None, "{text:?}");
        }
        for key in ["a", "0:a", "a:0", "a::b"] {
            assert_eq!(of(key, &bytes), None, "{key}");
        }
        assert!(is_thread(&format!("{UUID}:1")) && is_thread(&format!("{UUID}:17:write")));
        assert!(!is_thread("mode") && !is_thread(&format!("{UUID}:x")));
    }

    #[test]
    fn a_lock_without_an_end_has_the_token_of_redis_py() {
        let of = |value: &str| Format::of("a", value.as_bytes(), -1);
        assert_eq!(of("c0ffee00d9cb11f0a16570867728950e"), Some(Format::Endless));
        // An MD5 and the like are no times.
        assert_eq!(of("c0ffee00d9cb46f0a16570867728950e"), None);
        assert_eq!(of(UUID), None);
    }

    #[test]
    fn a_url_shares_the_keys_that_begin_as_its_own() {
        let of = |prefix: &str| Wire::SetNx { prefix: prefix.to_owned(), spring: None };
        let pottery = Format::Prefixed { prefix: "redlock:".to_owned(), libraries: "pottery" };
        assert!(pottery.is_of(&of("redlock:"), "redlock:a"));
        assert!(!pottery.is_of(&of(""), "redlock:a"));
        assert!(Format::Plain.is_of(&of(""), "a") && !Format::Plain.is_of(&of("b"), "a"));
        assert!(!Format::Endless.is_of(&of(""), "a") && !Format::Redisson.is_of(&of(""), "a"));
    }
}
