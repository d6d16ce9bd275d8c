//! Finds keys that look like locks of other libraries.

use std::collections::BTreeMap;

use leasehold_core::doctor::Diagnosis;
use leasehold_core::{Result, StoreUrl};

use super::foreign_format::{Format, is_thread};
use super::probe::Probe;
use crate::topology::Store;
use crate::wire::Wire;

/// The number of calls of SCAN on one server, and the keys that one of them checks.
const SCANS: usize = 50;
const KEYS: usize = 1000;
/// The number of keys that are read on one server.
const READ: usize = 1000;
/// The most fields of a hash that is a lock.
const FIELDS: i64 = 16;

/// The most formats with options of their own that are reported.
const GROUPS: usize = 16;

/// The keys that look like locks of one format, and whether the URL has that format too.
type Groups = BTreeMap<(Format, bool), (usize, String)>;

/// Looks for locks of other libraries under the keys that begin with `prefix`, on each server of a URL: reads up to 1,000
/// of their keys, and looks at 50,000 keys of any kind. Changes nothing.
///
/// # Errors
/// As [`diagnose`](crate::diagnose).
pub async fn foreign_locks(url: StoreUrl, prefix: &str) -> Result<Diagnosis> {
    let Store { what, prefix: native, place, wire, .. } = Store::parse(url)?;
    let mut groups = Groups::new();
    let mut diagnosis = Diagnosis::at(&*place);
    for client in what.clients().await? {
        let mut probe = Probe::reach(&client, &place).await?;
        look(&mut probe, prefix, (&native, wire.as_ref()), &mut groups).await;
        diagnosis.unseen.append(&mut probe.into_found().diagnosis.unseen);
    }
    for ((format, is_shared), (count, first)) in groups {
        if format == Format::Endless {
            diagnosis.note(
                "foreign-locks",
                format!(
                    "{count} keys without an end look like locks of redis-py, such as {first:?}"
                ),
                "a holder that crashes keeps such a lock for ever",
                "if they are locks, give each a timeout, and use wire=set-nx: docs/migrating.md",
            );
            continue;
        }
        let (libraries, wire) = (format.libraries(), format.options());
        let what = format!("{count} keys look like locks of {libraries}, such as {first:?}");
        if is_shared {
            diagnosis.note(
                "foreign-locks",
                what,
                "the URL has their format: a lock of Leasehold with the same name excludes their holders",
                "keep the option until no program of the library is left: docs/migrating.md",
            );
            continue;
        }
        let why = "a lock of Leasehold with the same name would not exclude their holders";
        let change = match format {
            Format::Redisson | Format::Plain | Format::Endless => {
                format!("if they are locks, use wire={wire}: docs/migrating.md")
            }
            Format::Prefixed { .. } | Format::Rueidis { .. } => format!(
                "if they are locks, use wire={wire}, and names without what precedes them in the key: docs/migrating.md"
            ),
            Format::Spring { .. } => format!(
                "if they are locks of Spring, use wire={wire} with the whole registry key, and names without it; for those \
                 of others use wire=set-nx: docs/migrating.md"
            ),
        };
        diagnosis.note("foreign-locks", what, why, change);
    }
    Ok(diagnosis)
}

async fn look(
    probe: &mut Probe,
    prefix: &str,
    (native, wire): (&str, Option<&Wire>),
    groups: &mut Groups,
) {
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
            let Some(format) = format_of(probe, key).await else {
                // A missing right is the same for each key.
                if !probe.diagnosis().unseen.is_empty() {
                    return;
                }
                continue;
            };
            let is_shared = wire.is_some_and(|wire| format.is_of(wire, key));
            let mut group = (format, is_shared);
            if groups.len() >= GROUPS && !groups.contains_key(&group) {
                group.0 = group.0.without_options();
            }
            groups.entry(group).or_insert_with(|| (0, key.to_owned())).0 += 1;
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
async fn format_of(probe: &mut Probe, key: &str) -> Option<Format> {
    const WHAT: &str = "the type of a key";
    let kind = probe.see(WHAT, &["TYPE", key], "+type").await?;
    match &*redis::from_redis_value::<String>(kind).ok()? {
        "string" => {
            // The value of a lock is short, and some libraries write random bytes.
            let value = probe.see(WHAT, &["GETRANGE", key, "0", "200"], "+getrange").await?;
            let value = redis::from_redis_value::<Vec<u8>>(value).ok()?;
            let left = probe.see(WHAT, &["PTTL", key], "+pttl").await?;
            Format::of(key, &value, redis::from_redis_value::<i64>(left).ok()?)
        }
        "hash" => {
            let length = probe.see(WHAT, &["HLEN", key], "+hlen").await?;
            if redis::from_redis_value::<i64>(length).ok()? > FIELDS {
                return None;
            }
            let fields = probe.see(WHAT, &["HKEYS", key], "+hkeys").await?;
            let fields = redis::from_redis_value::<Vec<String>>(fields).ok()?;
            fields.iter().any(|field| is_thread(field)).then_some(Format::Redisson)
        }
        _ => None,
    }
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
    fn a_prefix_is_no_pattern() {
        assert_eq!(escaped("a*[b]"), "a\\*\\[b\\]");
    }
}
