//! Finds keys that look like locks of other libraries.

use leasehold_core::doctor::Diagnosis;
use leasehold_core::{Result, StoreUrl};
use redis::Value;

use super::probe::Probe;
use crate::topology::Store;

/// The number of calls of SCAN on one server, and the keys that one of them checks.
const SCANS: usize = 50;
const KEYS: usize = 1000;
/// The number of keys that are read on one server.
const READ: usize = 1000;
/// The most fields of a hash that is a lock.
const FIELDS: i64 = 16;

/// A format of other libraries, and the keys that look like its locks.
struct Kind {
    wire: &'static str,
    libraries: &'static str,
    count: usize,
    first: Option<String>,
}

/// Looks for locks of other libraries under the keys that begin with `prefix`, on each server of a URL: reads up to 1,000
/// of their keys, and looks at 50,000 keys of any kind. Changes nothing.
///
/// # Errors
/// As [`diagnose`](crate::diagnose).
pub async fn foreign_locks(url: StoreUrl, prefix: &str) -> Result<Diagnosis> {
    let Store { what, prefix: native, place, .. } = Store::parse(url)?;
    let mut kinds = [("redisson", "Redisson"), ("set-nx", "redis-py, redsync, Spring and others")]
        .map(|(wire, libraries)| Kind { wire, libraries, count: 0, first: None });
    let mut diagnosis = Diagnosis::at(&*place);
    for client in what.clients().await? {
        let mut probe = Probe::reach(&client, &place).await?;
        look(&mut probe, prefix, &native, &mut kinds).await;
        diagnosis.unseen.append(&mut probe.into_found().diagnosis.unseen);
    }
    for Kind { wire, libraries, count, first } in kinds {
        let Some(first) = first else { continue };
        diagnosis.note(
            "foreign-locks",
            format!("{count} keys look like locks of {libraries}, such as {first:?}"),
            "a lock of Leasehold with the same name would not exclude their holders",
            format!("if they are locks, use wire={wire}: docs/migrating.md"),
        );
    }
    Ok(diagnosis)
}

async fn look(probe: &mut Probe, prefix: &str, native: &str, kinds: &mut [Kind; 2]) {
    const WHAT: &str = "locks of other libraries";
    let (pattern, count) = (format!("{}*", escaped(prefix)), KEYS.to_string());
    let (mut cursor, mut left) = ("0".to_owned(), READ);
    for _ in 0..SCANS {
        let words = ["SCAN", &*cursor, "MATCH", &*pattern, "COUNT", &*count];
        let Some(page) = probe.see(WHAT, &words, "+scan").await else { return };
        let Ok((next, keys)) = redis::from_redis_value::<(String, Vec<Vec<u8>>)>(page) else {
            return;
        };
        for key in keys.iter().filter_map(|key| str::from_utf8(key).ok()) {
            if key.starts_with(&format!("{native}:")) {
                continue;
            }
            if left == 0 {
                return stopped(probe, &format!("{READ} keys"));
            }
            left -= 1;
            let found = match kind(probe, key).await {
                Some("redisson") => &mut kinds[0],
                Some(_) => &mut kinds[1],
                // A missing right is the same for each key.
                None if !probe.diagnosis().unseen.is_empty() => return,
                None => continue,
            };
            found.count += 1;
            found.first.get_or_insert_with(|| key.to_owned());
        }
        if next == "0" {
            return;
        }
        cursor = next;
    }
    stopped(probe, &format!("{} keys of any kind", SCANS * KEYS));
}

fn stopped(probe: &mut Probe, after: &str) {
    let why = format!("the search ended after {after}; use a longer prefix");
    probe.diagnosis().unseen("locks of other libraries", why);
}

/// Returns the format whose locks have such a key.
async fn kind(probe: &mut Probe, key: &str) -> Option<&'static str> {
    const WHAT: &str = "the type of a key";
    let text = |value: Value| redis::from_redis_value::<String>(value).ok();
    match &*text(probe.see(WHAT, &["TYPE", key], "+type").await?)? {
        "string" => {
            // The value of a lock is short.
            let value = text(probe.see(WHAT, &["GETRANGE", key, "0", "200"], "+getrange").await?)?;
            let left = probe.see(WHAT, &["PTTL", key], "+pttl").await?;
            let left = redis::from_redis_value::<i64>(left).ok()?;
            (left > 0 && is_owner(&value)).then_some("set-nx")
        }
        "hash" => {
            let length = probe.see(WHAT, &["HLEN", key], "+hlen").await?;
            if redis::from_redis_value::<i64>(length).ok()? > FIELDS {
                return None;
            }
            let fields = probe.see(WHAT, &["HKEYS", key], "+hkeys").await?;
            let fields = redis::from_redis_value::<Vec<String>>(fields).ok()?;
            fields.iter().any(|field| is_thread(field)).then_some("redisson")
        }
        _ => None,
    }
}

/// Returns true for a value by which a library knows its holder.
fn is_owner(value: &str) -> bool {
    let is_hex =
        matches!(value.len(), 32 | 40) && value.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_base64 = value.len() == 24 && value.ends_with("==");
    let is_shedlock = value.starts_with("ADDED:") && value.contains('@');
    is_hex || is_base64 || is_shedlock || is_uuid(value)
}

/// Returns true for the field of a holder of Redisson: a UUID, a colon, the number of the thread.
fn is_thread(field: &str) -> bool {
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

/// Escapes what a pattern of SCAN would read as more than itself.
fn escaped(prefix: &str) -> String {
    let mut text = String::with_capacity(prefix.len());
    for letter in prefix.chars() {
        if matches!(letter, '*' | '?' | '[' | ']' | '^' | '-' | '\\') {
            text.push('\\');
        }
        text.push(letter);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owners_of_the_libraries_are_known_and_others_are_not() {
        for owner in [
            "0f8fad5bd9cb469fa16570867728950e",
            "8743c9c0-0795-4907-87fd-6c719a6b4586",
            "MTIzNDU2Nzg5MDEyMzQ1Ng==",
            "ADDED:2026-01-01T00:00:00.000Z@host:8743c9c0-0795-4907-87fd-6c719a6b4586",
        ] {
            assert!(is_owner(owner), "{owner}");
        }
        for other in ["", "1", "leasehold:0f8fad5bd9cb469fa16570867728950e", "{\"a\": 1}"] {
            assert!(!is_owner(other), "{other}");
        }
        assert!(is_thread("8743c9c0-0795-4907-87fd-6c719a6b4586:1"));
        assert!(is_thread("8743c9c0-0795-4907-87fd-6c719a6b4586:17:write"));
        assert!(!is_thread("mode") && !is_thread("8743c9c0-0795-4907-87fd-6c719a6b4586:x"));
        assert_eq!(escaped("a*[b]"), "a\\*\\[b\\]");
    }
}
