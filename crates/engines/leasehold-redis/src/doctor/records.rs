//! Checks how many records of names a server has, and how much memory they take.

use redis::Value;

use super::probe::Probe;
use super::{Part, damaged};
use crate::key::Keys;
use crate::node::fitness::field;

/// How many steps look for records, and how many keys each step checks: the rest is estimated.
const STEPS: u64 = 20;
const STEP: u64 = 1000;
/// Of how many records the size is asked.
const SIZED: usize = 10;
/// The size of a record, in bytes, if the user may not ask for it.
const SIZE: u64 = 320;
/// Fewer records are not reported.
const FEW: u64 = 1000;

/// What a walk over some keys has found.
#[derive(Debug, Default, PartialEq, Eq)]
struct Walk {
    /// The first records.
    sample: Vec<String>,
    records: u64,
    steps: u64,
    ended: bool,
}

pub(super) async fn look(probe: &mut Probe, prefix: &str, db: i64, part: Part) {
    let wire = "leasehold:wire:{";
    let pattern = match part {
        Part::Shared => format!("{wire}*"),
        _ => Keys::new(prefix).pattern(""),
    };
    let Some(walk) = walk(probe, &pattern).await else { return };
    damaged::look(probe, &Keys::new(prefix), &walk.sample, part).await;
    let Ok(info) = probe.ask(&["INFO"]).await else { return };
    let info: String = redis::from_redis_value(info).unwrap_or_default();
    let count = walk.count(keys(&info, db));
    if count < FEW {
        return;
    }
    let bytes =
        count.saturating_mul(size(probe, &walk.sample[..walk.sample.len().min(SIZED)]).await);
    let most = field(&info, "maxmemory").and_then(|most| most.parse().ok()).unwrap_or(0);
    report(probe, count, bytes, most);
}

/// Returns how many keys a database has.
fn keys(info: &str, db: i64) -> u64 {
    let said = field(info, &format!("db{db}")).unwrap_or_default();
    let keys = said.split(',').find_map(|part| part.strip_prefix("keys="));
    keys.and_then(|keys| keys.parse().ok()).unwrap_or(0)
}

async fn walk(probe: &mut Probe, pattern: &str) -> Option<Walk> {
    let (mut walk, mut cursor) = (Walk::default(), "0".to_owned());
    let step = STEP.to_string();
    while !walk.ended && walk.steps < STEPS {
        let words = ["SCAN", &cursor, "MATCH", pattern, "COUNT", &step];
        let page = probe.see("the records of names", &words, "+scan").await?;
        cursor = walk.take(page)?;
    }
    Some(walk)
}

impl Walk {
    /// Counts the records of a page. Returns the next cursor; `None` for an answer that cannot be read.
    fn take(&mut self, page: Value) -> Option<String> {
        let (next, found): (String, Vec<Vec<u8>>) = redis::from_redis_value(page).ok()?;
        let found = found.into_iter().filter_map(|key| String::from_utf8(key).ok());
        for key in found.filter(|key| !is_tombstone(key)) {
            self.records += 1;
            if self.sample.len() < damaged::READ {
                self.sample.push(key);
            }
        }
        (self.steps, self.ended) = (self.steps + 1, next == "0");
        Some(next)
    }

    /// Returns how many records there are among so many keys: all of them were seen, or the rest has as many.
    fn count(&self, keys: u64) -> u64 {
        let seen = self.steps * STEP;
        match self.ended || seen == 0 {
            true => self.records,
            false => self.records.saturating_mul(keys.max(seen)) / seen,
        }
    }
}

/// Returns true for the tombstone of an attempt beside the notes about a lock in another format.
fn is_tombstone(key: &str) -> bool {
    let attempt = key.rsplit(':').next().unwrap_or_default();
    attempt.len() == 32 && attempt.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns the size of a record, in bytes.
async fn size(probe: &mut Probe, sample: &[String]) -> u64 {
    let (mut sum, mut count) = (0, 0);
    for key in sample {
        match probe.ask(&["MEMORY", "USAGE", key]).await {
            Ok(Value::Int(bytes)) => (sum, count) = (sum + bytes.unsigned_abs(), count + 1),
            // It has expired.
            Ok(_) => {}
            Err(_) => return SIZE,
        }
    }
    sum.checked_div(count).unwrap_or(SIZE)
}

fn report(probe: &mut Probe, count: u64, bytes: u64, most: u64) {
    let mib = bytes as f64 / f64::from(1 << 20);
    let (why, change) = (
        "the record of a name stays after its last lease, for the time of the option retain",
        "shorten retain in the URL, use fewer names, or raise maxmemory",
    );
    let diagnosis = probe.diagnosis();
    if most == 0 {
        let what =
            format!("about {count} records of names take {mib:.1} MiB; maxmemory is not set");
        return diagnosis.note("records", what, why, change);
    }
    let most_mib = most >> 20;
    let what =
        format!("about {count} records of names take {mib:.1} MiB of {most_mib} MiB (maxmemory)");
    match bytes >= most / 2 {
        true => diagnosis.warning("records", what, why, change),
        false => diagnosis.note("records", what, why, change),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(next: &str, keys: &[&str]) -> Value {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        Value::Array(vec![text(next), Value::Array(keys.iter().map(|key| text(key)).collect())])
    }

    #[test]
    fn all_records_are_counted_or_estimated_by_the_keys_that_were_seen() {
        let mut walk = Walk::default();
        let tombstone = format!("leasehold:wire:{{a}}:a:{}", "0f".repeat(16));
        let keys = ["leasehold:wire:{a}:a", &tombstone, "leasehold:wire:{b}:b"];
        assert_eq!(walk.take(page("7", &keys)).as_deref(), Some("7"));
        assert_eq!((walk.records, walk.sample.len()), (2, 2));
        // Two of a thousand were records.
        assert_eq!(walk.count(50_000), 100);
        assert_eq!(walk.count(0), 2);
        assert_eq!(walk.take(page("0", &["leasehold:{c}"])).as_deref(), Some("0"));
        assert_eq!(walk.count(50_000), 3);
        assert_eq!(walk.take(Value::Nil), None);
        assert_eq!(Walk::default().count(9), 0);
    }

    #[test]
    fn the_keys_of_the_database_count() {
        let info = "# Keyspace\r\ndb0:keys=12,expires=3,avg_ttl=9\r\ndb3:keys=77,expires=0\r\n";
        assert_eq!([keys(info, 0), keys(info, 3), keys(info, 1)], [12, 77, 0]);
    }
}
