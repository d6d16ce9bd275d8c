//! Finds keys of locks with values that no client of this version can read.

use leasehold_core::backend::is_a_newer_latch;
use redis::Value;

use super::Part;
use super::probe::{Probe, Silence};
use crate::error::from_redis;
use crate::key::Keys;

/// How many records are read on one server.
pub(super) const READ: usize = 200;
/// The first bytes of a value that tell what it is: the longest beginning, of a latch.
const LAST_BYTE: &str = "17";

/// Reads the beginnings of the values of these keys.
pub(super) async fn look(probe: &mut Probe, keys: &Keys, found: &[String], part: Part) {
    // The notes and the records of a quorum have other formats.
    if matches!(part, Part::Shared | Part::Node) {
        return;
    }
    const WHAT: &str = "the records of locks";
    let (mut damaged, mut newer) = (Vec::new(), Vec::new());
    for (key, name) in found.iter().filter_map(|key| Some((key, keys.name(key)?))) {
        let found = match probe.ask(&["GETRANGE", key, "0", LAST_BYTE]).await {
            Ok(Value::BulkString(start)) if start.is_empty() || is_ours(&start) => continue,
            Ok(Value::BulkString(start)) if is_newer(&start) => &mut newer,
            Ok(Value::BulkString(_)) => &mut damaged,
            Ok(_) => continue,
            Err(Silence::Failed(error)) if error.code() == Some("WRONGTYPE") => &mut damaged,
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
        found.push(name.as_str().to_owned());
    }
    probe.diagnosis().unreadable(&damaged, &newer);
}

/// Returns true for the beginning of a record that this version reads: a lock, a semaphore or a latch.
fn is_ours(start: &[u8]) -> bool {
    let heads: [&[u8]; 4] = [b"L1", b"L2", b"S1", b"leasehold latch 1\n"];
    heads.iter().any(|head| start.starts_with(head))
}

/// Returns true for the beginning of a record of a newer version.
fn is_newer(start: &[u8]) -> bool {
    matches!(start, [b'L', b'3'..=b'9', ..] | [b'S', b'2'..=b'9', ..]) || is_a_newer_latch(start)
}
