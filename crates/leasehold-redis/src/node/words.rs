//! What goes into a node's scripts and comes out of them, byte by byte as `docs/quorum.md` says.

use std::time::Duration;

use leasehold_core::proto::quorum::{Marker, Op, ProcessId, Refusal, Reply};
use leasehold_core::quorum::{NodeLease, Step};
use leasehold_core::{Result, Token};
use redis::{Cmd, Value};

use crate::error::{foreign, strange};
use crate::key::Keys;
use crate::reply;
pub(super) use crate::reply::number;
use crate::request::{TAIL, push_attempt, push_number, tail};
use crate::script::Script;

/// Bytes of a lock's record before its tail's length.
const FIXED: usize = 149;
/// What the fields of times have room for, in ms.
const LONGEST: u64 = 99_999_999;

/// The call of the script for some steps.
pub(super) fn command(script: &Script, node: &str, keys: &Keys, steps: &[&Step]) -> Cmd {
    let mut command = Cmd::with_capacity(4 + 2 * steps.len(), 128 + 256 * steps.len());
    command.arg("EVALSHA").arg(script.hash()).arg(1 + steps.len()).arg(node);
    let mut text = String::with_capacity(256);
    for step in steps {
        text.clear();
        keys.push(&step.name, &mut text);
        command.arg(&text);
    }
    for step in steps {
        text.clear();
        push_step(&mut text, step);
        command.arg(&text);
    }
    command
}

fn push_step(text: &mut String, step: &Step) {
    let origin = |text: &mut String| {
        let written = step.origin.written(tail);
        // It has no part in the protocol: what does not fit is left out.
        text.push_str(if written.len() <= 4 + TAIL { written } else { "0000" });
    };
    match step.op {
        Op::Acquire { attempt, ttl, proposal } => {
            text.push('A');
            push_attempt(text, attempt);
            push_number(text, ms(ttl), 8);
            push_number(text, proposal.get(), 16);
            text.push(if step.wait { '1' } else { '0' });
            origin(text);
        }
        Op::Commit { attempt, from, token } => {
            text.push('C');
            push_attempt(text, attempt);
            push_number(text, from.get(), 16);
            push_number(text, token.get(), 16);
        }
        Op::Renew { attempt, ttl, token, heal } => {
            text.push('R');
            push_attempt(text, attempt);
            push_number(text, ms(ttl), 8);
            push_number(text, token.get(), 16);
            text.push(if heal { '1' } else { '0' });
            origin(text);
        }
        Op::Release { attempt } => {
            text.push('E');
            push_attempt(text, attempt);
        }
    }
}

/// The replies to `count` steps.
pub(super) fn replies(answer: &str, count: usize) -> Vec<Reply> {
    if answer == "W" {
        return vec![Reply::Refused(Refusal::NotAdmitted); count];
    }
    let replies: Vec<Reply> = answer.split('\n').map(reply).collect();
    match replies.as_slice() {
        // The node's own key holds something strange.
        [Reply::Refused(Refusal::Unfit)] => vec![Reply::Refused(Refusal::Unfit); count],
        all if all.len() == count => replies,
        _ => vec![Reply::Unknown; count],
    }
}

fn reply(line: &str) -> Reply {
    understood(line).unwrap_or_else(|| {
        tracing::warn!(line, "an answer that is not understood");
        Reply::Unknown
    })
}

fn understood(line: &str) -> Option<Reply> {
    let token = |from: usize| reply::token(line.get(from..from + 16)?).ok();
    let number = |from: usize, to: usize| number(line.get(from..to)?).ok();
    Some(match line.as_bytes().first()? {
        b'G' => Reply::Granted(token(1)?),
        b'B' => {
            let left = number(17, 33)?.saturating_sub(number(33, 49)?);
            Reply::Busy { counter: token(1)?, remaining: Duration::from_micros(left) }
        }
        b'E' => Reply::Ended,
        b'C' => Reply::Committed,
        b'M' => Reply::Moved,
        b'R' => Reply::Renewed,
        b'H' => Reply::Healed,
        b'N' => Reply::Missing,
        b'L' => Reply::Released,
        b'D' => Reply::NotHeld,
        b'T' => {
            let max_ttl = Duration::from_millis(number(1, 9)?);
            Reply::Refused(Refusal::TtlTooLong { max_ttl })
        }
        b'P' => Reply::Refused(Refusal::ClockAhead),
        b'U' => Reply::Refused(Refusal::UsedUp),
        b'X' | b'V' => {
            tracing::warn!("a key of ours holds something else, or is of a newer version");
            Reply::Refused(Refusal::Unfit)
        }
        b'?' => Reply::Unknown,
        _ => return None,
    })
}

/// The node's marker and its high-water mark.
pub(super) type Record = (Marker, u64);

/// `N1 state(1) run_id(40) nonce(16) max_ttl_ms(8) high(16)`.
pub(super) fn record(text: &str) -> Option<Record> {
    let field = |from: usize, to: usize| text.get(from..to);
    if text.len() != 83 || field(0, 2)? != "N1" {
        return None;
    }
    let marker = Marker {
        process: ProcessId::parse(field(3, 43)?)?,
        nonce: u64::from_str_radix(field(43, 59)?, 16).ok()?,
        max_ttl: Duration::from_millis(number(field(59, 67)?).ok()?),
        admitted: field(2, 3)? == "A",
    };
    Some((marker, number(field(67, 83)?).ok()?))
}

/// True for a record of this kind that a later version of this program has written.
pub(super) fn is_newer(record: &str, kind: char) -> bool {
    let version = record.strip_prefix(kind).and_then(|rest| rest.bytes().next());
    version.is_some_and(|version| (b'2'..=b'9').contains(&version))
}

pub(super) fn propose(nonce: u64, max_ttl: Duration) -> String {
    format!("P{nonce:016x}{:08}", ms(max_ttl))
}

pub(super) fn admit(nonce: u64, floor: u64) -> String {
    format!("A{nonce:016x}{:016}", floor.min(Token::MAX.get()))
}

/// Who has a lock, from its record.
pub(super) fn lease(key: &str, record: &Value, now: u64) -> Result<Option<NodeLease>> {
    let record = match record {
        Value::Nil => return Ok(None),
        Value::BulkString(record) => String::from_utf8_lossy(record),
        other => return Err(strange(other)),
    };
    if !record.starts_with("Q1") || record.len() < FIXED || !record.is_char_boundary(FIXED) {
        return Err(foreign(if is_newer(&record, 'Q') { b'V' } else { b'F' }, key));
    }
    let field = |from: usize, to: usize| record.get(from..to).ok_or_else(|| strange(&record));
    let ends = number(field(101, 117)?)?;
    if ends <= now {
        return Ok(None);
    }
    let length = number(field(149, 153)?)? as usize;
    let tail = record.get(153..153 + length).unwrap_or_default();
    Ok(Some(NodeLease {
        holder: reply::holder(reply::attempt(field(53, 85)?)?, tail),
        counter: reply::token(field(85, 101)?)?,
        since_unix_ms: number(field(133, 149)?)? / 1000,
        remaining: Duration::from_micros(ends - now),
    }))
}

/// Rounded up: a lease lasts no shorter than was asked for. What does not fit is above any
/// `max_ttl`.
fn ms(time: Duration) -> u64 {
    let ms = time.as_nanos().div_ceil(1_000_000);
    u64::try_from(ms).unwrap_or(LONGEST).min(LONGEST)
}
