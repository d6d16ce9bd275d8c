//! Finds names with records that no client of this version can read.

use leasehold_core::backend::is_a_newer_latch;

use super::probe::Probe;
use crate::address::Address;
use crate::connection::Value;
use crate::kind::Kind;
use crate::semaphore::bytes;

/// How many rows of a kind are read.
const READ: usize = 200;
/// The first bytes of a record that tell what it is: the longest beginning, of a latch.
const BEGINNING: usize = 18;

/// Reads the beginnings of records, and rows with an unknown state.
pub(super) async fn look(probe: &mut Probe, address: &Address) {
    const WHAT: &str = "the records of locks";
    let (locks, records) = (&address.tables.locks, &address.tables.records);
    let last = Kind::Latch.state();
    let unknown = format!("SELECT name, state FROM {locks} WHERE state > {last} LIMIT {READ}");
    let stored = format!(
        "SELECT r.name, l.state, SUBSTR(r.data, 1, {BEGINNING}) FROM {records} r \
         JOIN {locks} l ON l.name = r.name LIMIT {READ}"
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
                (Kind::Semaphore, [Value::Bytes(start)]) if !bytes::is_known(start) => &mut damaged,
                (Kind::Latch, [Value::Bytes(start)]) if is_a_newer_latch(start) => &mut newer,
                _ => continue,
            };
            found.push(String::from_utf8_lossy(name).into_owned());
        }
    }
    probe.diagnosis.unreadable(&damaged, &newer);
}
