//! Encodes and decodes the messages of a node's scripts, byte by byte as in `docs/redis-wire.md`.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::proto::quorum::{Marker, NodeReply, Op, ProcessId, Refusal};
use leasehold_core::{Result, Token};
use leasehold_quorum::{NodeLease, Step};
use redis::{Cmd, Value};

use crate::error::{foreign, strange};
use crate::key::Keys;
use crate::reply;
pub(super) use crate::reply::number;
use crate::request::{TAIL, push_attempt, push_number, tail};
use crate::script::Script;

/// The length of a lock record before the length of its tail, in bytes.
const FIXED: usize = 149;
/// The length of the common part of every step, in bytes.
const HEAD: usize = 49;
/// The largest time that a field can hold, in ms.
const LONGEST: u64 = 99_999_999;
/// How long a lock is remembered after its last lease.
const HOUR_US: u64 = 3_600_000_000;

/// Builds the script call for steps on different locks. Parts that are the same in all steps are
/// sent once.
pub(super) fn command(script: &Script, node: &str, keys: &Keys, steps: &[&Step]) -> Cmd {
    let mut command = Cmd::with_capacity(6 + 2 * steps.len(), 256 + 128 * steps.len());
    command.arg("EVALSHA").arg(script.hash()).arg(1 + steps.len()).arg(node);
    let mut text = String::with_capacity(128 + HEAD * steps.len());
    for step in steps {
        text.clear();
        keys.push(&step.name, &mut text);
        command.arg(&text);
    }
    text.clear();
    steps.iter().for_each(|step| push_head(&mut text, step));
    command.arg(&text);
    let mut saying = steps.iter().filter(|step| says(step).is_some());
    let once = saying.next().is_none_or(|one| saying.all(|other| alike(one, other)));
    let said = |step: &&&Step| !once || says(step).is_some();
    for step in steps.iter().filter(said).take(if once { 1 } else { usize::MAX }) {
        text.clear();
        push_says(&mut text, step);
        command.arg(&text);
    }
    command
}

/// Appends `op(1) attempt(32) token(16)`.
fn push_head(text: &mut String, step: &Step) {
    let (letter, attempt, token) = match step.op {
        Op::Acquire { attempt, proposal, .. } => ('A', attempt, proposal.get()),
        Op::Commit { attempt, token, .. } => ('C', attempt, token.get()),
        Op::Renew { attempt, token, .. } => ('R', attempt, token.get()),
        Op::Release { attempt } => ('E', attempt, 0),
    };
    text.push(letter);
    push_attempt(text, attempt);
    push_number(text, token, 16);
}

/// Returns the rest of a step: for a commit its `from`, for a release nothing, for others a ttl and
/// a flag.
fn says(step: &Step) -> Option<(u64, bool)> {
    match step.op {
        Op::Acquire { ttl, .. } => Some((ms(ttl), step.wait)),
        Op::Renew { ttl, heal, .. } => Some((ms(ttl), heal)),
        Op::Commit { from, .. } => Some((from.get(), false)),
        Op::Release { .. } => None,
    }
}

/// Returns true if two steps have the same rest. Two commits rarely do.
fn alike(one: &Step, other: &Step) -> bool {
    let commits = |step: &Step| matches!(step.op, Op::Commit { .. });
    says(one) == says(other)
        && !commits(one)
        && !commits(other)
        && (Arc::ptr_eq(&one.origin, &other.origin) || one.origin == other.origin)
}

/// Appends `ttl_ms(8) flag(1) length(4) tail`, or for a commit `from(16)`.
fn push_says(text: &mut String, step: &Step) {
    let Some((number, flag)) = says(step) else { return };
    if let Op::Commit { .. } = step.op {
        return push_number(text, number, 16);
    }
    push_number(text, number, 8);
    text.push(if flag { '1' } else { '0' });
    let written = step.origin.written(tail);
    // The protocol does not use the tail: one that does not fit is left out.
    text.push_str(if written.len() <= 4 + TAIL { written } else { "0000" });
}

/// Returns the replies to these steps.
pub(crate) fn replies(answer: &str, steps: &[&Step]) -> Vec<NodeReply> {
    let count = steps.len();
    match answer {
        "W" => return vec![NodeReply::Refused(Refusal::NotAdmitted); count],
        "F" => return steps.iter().map(|step| wanted(step.op)).collect(),
        _ => {}
    }
    let replies: Vec<NodeReply> = answer.split('\n').map(reply).collect();
    match replies.as_slice() {
        // The node's own key has an unknown value.
        [NodeReply::Refused(Refusal::Unfit)] => vec![NodeReply::Refused(Refusal::Unfit); count],
        all if all.len() == count => replies,
        _ => vec![NodeReply::Unknown; count],
    }
}

/// Returns the reply to a step that succeeded.
fn wanted(op: Op) -> NodeReply {
    match op {
        Op::Acquire { proposal, .. } => NodeReply::Granted(proposal),
        Op::Commit { .. } => NodeReply::Committed,
        Op::Renew { .. } => NodeReply::Renewed,
        Op::Release { .. } => NodeReply::Released,
    }
}

fn reply(line: &str) -> NodeReply {
    understood(line).unwrap_or_else(|| {
        tracing::warn!(line, "the node sent an unexpected answer");
        NodeReply::Unknown
    })
}

fn understood(line: &str) -> Option<NodeReply> {
    let token = |from: usize| reply::token(line.get(from..from + 16)?).ok();
    let number = |from: usize, to: usize| number(line.get(from..to)?).ok();
    Some(match line.as_bytes().first()? {
        b'G' => NodeReply::Granted(token(1)?),
        b'B' => {
            let left = number(17, 33)?.saturating_sub(number(33, 49)?);
            NodeReply::Busy { counter: token(1)?, remaining: Duration::from_micros(left) }
        }
        b'E' => NodeReply::Ended,
        b'C' => NodeReply::Committed,
        b'M' => NodeReply::Moved,
        b'R' => NodeReply::Renewed,
        b'H' => NodeReply::Healed,
        b'N' => NodeReply::Missing,
        b'L' => NodeReply::Released,
        b'Y' => NodeReply::Notified,
        b'D' => NodeReply::NotHeld,
        b'T' => {
            let max_ttl = Duration::from_millis(number(1, 9)?);
            NodeReply::Refused(Refusal::TtlTooLong { max_ttl })
        }
        b'P' => NodeReply::Refused(Refusal::ClockAhead),
        b'U' => NodeReply::Refused(Refusal::UsedUp),
        b'X' | b'V' => {
            tracing::warn!("a lock key has another value, or a newer version");
            NodeReply::Refused(Refusal::Unfit)
        }
        b'?' => NodeReply::Unknown,
        _ => return None,
    })
}

/// The marker of a node and its high-water mark.
pub(crate) type Record = (Marker, u64);

/// Reads `N2 state(1) run_id(40) nonce(16) max_ttl_ms(8) high(16) floor(16)`. It reads `N1`, which
/// has no floor, as the marker of an earlier process.
pub(crate) fn record(text: &str) -> Option<Record> {
    let field = |from: usize, to: usize| text.get(from..to);
    let old = field(0, 2)? == "N1" && text.len() == 83;
    if !old && (text.len() != 99 || field(0, 2)? != "N2") {
        return None;
    }
    let process =
        if old { ProcessId::from_bytes([0; 20]) } else { ProcessId::parse(field(3, 43)?)? };
    let marker = Marker {
        process,
        nonce: u64::from_str_radix(field(43, 59)?, 16).ok()?,
        max_ttl: Duration::from_millis(number(field(59, 67)?).ok()?),
        admitted: field(2, 3)? == "A",
    };
    Some((marker, number(field(67, 83)?).ok()?))
}

/// Returns true for a record of this kind that a later version of this program has written.
pub(super) fn is_newer(record: &str, kind: char) -> bool {
    let first = if kind == 'N' { b'3' } else { b'2' };
    let version = record.strip_prefix(kind).and_then(|rest| rest.bytes().next());
    version.is_some_and(|version| (first..=b'9').contains(&version))
}

pub(super) fn propose(nonce: u64, max_ttl: Duration, first: bool) -> String {
    let step = if first { 'F' } else { 'P' };
    format!("{step}{nonce:016x}{:08}", ms(max_ttl))
}

pub(super) fn admit(nonce: u64, floor: Option<u64>) -> String {
    let floor = floor.map(|floor| format!("{:016}", floor.min(Token::MAX.get())));
    format!("A{nonce:016x}{}", floor.unwrap_or_default())
}

/// Returns the current or last holder of a lock, from its record.
pub(crate) fn lease(key: &str, record: &Value, now: u64) -> Result<Option<NodeLease>> {
    let record = match record {
        Value::Nil => return Ok(None),
        Value::BulkString(record) => String::from_utf8_lossy(record),
        other => return Err(strange(other)),
    };
    if !record.starts_with("Q1") || record.len() < FIXED || !record.is_char_boundary(FIXED) {
        return Err(foreign(if is_newer(&record, 'Q') { b'V' } else { b'F' }, key));
    }
    let field = |from: usize, to: usize| record.get(from..to).ok_or_else(|| strange(&record));
    let ends = number(field(53, 69)?)?;
    // No attempt held it, or so long ago that the record does not count any more.
    if number(field(117, 133)?)? == 0 || number(field(69, 85)?)?.saturating_add(HOUR_US) <= now {
        return Ok(None);
    }
    let length = number(field(149, 153)?)? as usize;
    let tail = record.get(153..153 + length).unwrap_or_default();
    Ok(Some(NodeLease::new(
        reply::holder(reply::attempt(field(85, 117)?)?, tail),
        reply::token(field(117, 133)?)?,
        number(field(133, 149)?)? / 1000,
        Duration::from_micros(ends.saturating_sub(now)),
    )))
}

/// Rounds up: a lease is never shorter than requested. A time that does not fit exceeds any
/// `max_ttl`.
fn ms(time: Duration) -> u64 {
    let ms = time.as_nanos().div_ceil(1_000_000);
    u64::try_from(ms).unwrap_or(LONGEST).min(LONGEST)
}
