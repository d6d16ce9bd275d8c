//! Finds keys of locks with values that no client of this version can read.

use redis::Value;

use super::Part;
use super::probe::{Probe, Silence};
use crate::error::from_redis;
use crate::key::Keys;
use crate::latch;

/// How many records are read on one server.
pub(super) const READ: usize = 200;
/// How many names are shown.
const SHOWN: usize = 3;
/// The first bytes of a value that tell what it is: the longest beginning, of a latch.
const LAST_BYTE: &str = "15";

/// Reads the beginnings of the values of these keys.
pub(super) async fn look(probe: &mut Probe, keys: &Keys, found: &[String], part: Part) {
    // The notes and the records of a quorum have other formats.
    if matches!(part, Part::Shared | Part::Node) {
        return;
    }
    const WHAT: &str = "the records of locks";
    let mut damaged = Vec::new();
    for (key, name) in found.iter().take(READ).filter_map(|key| Some((key, keys.name(key)?))) {
        let is_read = match probe.ask(&["GETRANGE", key, "0", LAST_BYTE]).await {
            Ok(Value::BulkString(start)) => start.is_empty() || is_ours(&start),
            Ok(_) => true,
            Err(Silence::Failed(error)) if error.code() == Some("WRONGTYPE") => false,
            Err(Silence::Failed(error)) => {
                let why = from_redis(error).message().to_owned();
                return probe.diagnosis().unseen(WHAT, why);
            }
            Err(Silence::Forbidden(_) | Silence::Unknown) => {
                let why = "this user may not call GETRANGE; allow +getrange";
                return probe.diagnosis().unseen(WHAT, why);
            }
            Err(Silence::Slow(error)) => {
                return probe.diagnosis().unseen(WHAT, error.message());
            }
        };
        if !is_read {
            damaged.push(format!("{:?}", name.as_str()));
        }
    }
    if damaged.is_empty() {
        return;
    }
    let few = damaged[..damaged.len().min(SHOWN)].join(", ");
    let names = match damaged.len().saturating_sub(SHOWN) {
        0 => few,
        more => format!("{few} and {more} more"),
    };
    probe.diagnosis().problem(
        "damaged",
        format!("records cannot be read, those of {names}"),
        "these locks are refused until an operator repairs them: a guess could give a token twice",
        "see `leasehold status NAME` for each",
    );
}

/// Returns true for the beginning of a record that this version reads: a lock, a semaphore or a latch.
fn is_ours(start: &[u8]) -> bool {
    [b"L1", b"L2", b"S1"].iter().any(|head| start.starts_with(*head))
        || start.starts_with(latch::KIND)
}
