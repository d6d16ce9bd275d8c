//! Finds names with records that no client of this version can read.

use leasehold_core::backend::is_a_newer_latch;

use super::probe::Probe;
use crate::address::Address;
use crate::connection::Value;
use crate::kind::Kind;
use crate::semaphore::bytes;

/// How many rows of a table are looked at, so that the answer comes in time, and how many with a finding are read.
const LOOKED_AT: usize = 100_000;
const READ: usize = 200;
/// How a record of this version begins.
const SEMAPHORE: &[u8] = b"S1";
const LATCH: &[u8] = b"leasehold latch 1\n";

/// Looks at the beginnings of records, and for rows with an unknown state. A semaphore or latch whose time is over is no
/// finding: any client may take its name.
pub(super) async fn look(probe: &mut Probe, address: &Address) {
    const WHAT: &str = "the records of locks";
    let tables = &address.tables;
    let (locks, records, clock) = (&tables.locks, &tables.records, tables.dialect.now());
    let [semaphore, latch] = [Kind::Semaphore, Kind::Latch].map(Kind::state);
    let unknown = format!(
        "SELECT l.name, l.state FROM (SELECT name, state FROM {locks} LIMIT {LOOKED_AT}) l \
         WHERE l.state > {latch} LIMIT {READ}"
    );
    let other = |state: i64, known: &[u8]| {
        let (start, known) =
            (format!("SUBSTR(r.start, 1, {})", known.len()), tables.dialect.bytes(known));
        format!("l.state = {state} AND {start} <> {known}")
    };
    let stored = format!(
        "SELECT r.name, l.state, r.start FROM \
         (SELECT name, SUBSTR(data, 1, {}) AS start FROM {records} LIMIT {LOOKED_AT}) r \
         JOIN {locks} l ON l.name = r.name WHERE l.until_us > {clock} AND ({} OR {}) LIMIT {READ}",
        LATCH.len(),
        other(semaphore, SEMAPHORE),
        other(latch, LATCH)
    );
    let (mut damaged, mut newer) = (Vec::new(), Vec::new());
    for statement in [unknown, stored] {
        let replies = match probe.run(&statement).await {
            Ok(replies) => replies,
            // Missing tables and rights are findings of their own.
            Err(_) if !probe.is_silent() => continue,
            Err(fault) => return probe.diagnosis.unseen(WHAT, fault.error.message()),
        };
        for row in replies.into_iter().flat_map(|reply| reply.rows) {
            let [Value::Bytes(name), Value::Number(state), start @ ..] = row.as_slice() else {
                continue;
            };
            let found = match (Kind::of_state(*state), start) {
                (Kind::Lock, []) => &mut newer,
                (Kind::Semaphore, [Value::Bytes(start)]) if bytes::is_newer(start) => &mut newer,
                (Kind::Latch, [Value::Bytes(start)]) if is_a_newer_latch(start) => &mut newer,
                _ => &mut damaged,
            };
            found.push(String::from_utf8_lossy(name).into_owned());
        }
    }
    probe.diagnosis.unreadable(&damaged, &newer);
}
