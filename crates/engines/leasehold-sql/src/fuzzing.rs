//! Readers of input from outside, for fuzz targets alone: a program must not use this module.

use std::time::Duration;

use leasehold_core::backend::{AcquireRequest, ReleaseRequest};
use leasehold_core::fuzzing::{Target, store_url, text};
use leasehold_core::proto::client::{PushReference, Sound};
use leasehold_core::proto::read_write::Mode;
use leasehold_core::proto::semaphore::{Demand, Limit};
use leasehold_core::{AttemptId, Name, Now, Token};

use crate::address::Address;
use crate::connection::{Reply, Value};
use crate::hold::Hold;
use crate::latch;
use crate::notifications::{Lost, Offered};
use crate::observed::Observed;
use crate::record::{self, Found, Machine, Question, Record, Tag};
use crate::semaphore::{self, bytes, read};
use crate::shedlock::row::Row;
use crate::status;

/// The targets of this crate.
pub const TARGETS: &[Target] = &[
    ("sql-message", message),
    ("sql-rows", rows),
    ("sql-semaphore", semaphore_bytes),
    ("sql-url", url),
];

fn url(input: &[u8]) {
    let _ = store_url(input).map(Address::parse);
}

/// What PostgreSQL notifies a client of.
fn message(input: &[u8]) {
    let text = &*text(input);
    if let Some(lost) = Lost::parse(text) {
        assert_eq!(Lost::parse(&lost.to_string()), Some(lost));
    }
    if let Some(offered) = Offered::parse(text) {
        assert_eq!(Offered::parse(&offered.to_string()), Some(offered));
        for server_us in [0, 1 << 50, offered.server_us] {
            let (sent, now) = (record::now(0), record::now(1 << 50));
            let reference = PushReference { sent, server_us };
            let _ = reference.valid_until(offered.server_us, offered.lasts, now, Sound);
        }
    }
    let observed = Observed::default();
    if let Ok(name) = Name::new("a") {
        let changes = observed.observe(&name);
        observed.hear(text);
        drop(changes);
    }
}

fn tag() -> Tag {
    Tag { person: Vec::new(), asked_us: 0 }
}

/// The replies to a packet: a blank line between two replies, a line for each row, and bars between its values. A value is
/// nothing, a number, `x` with hexadecimal digits, or text.
fn replies(input: &[u8]) -> Vec<Reply> {
    let text = text(input);
    let reply = |text: &str| {
        let row = |line: &str| line.split('|').map(value).collect();
        Reply { rows: text.lines().map(row).collect(), ..Reply::default() }
    };
    text.split("\n\n").map(reply).collect()
}

fn value(text: &str) -> Value {
    let digit = |letter: u8| char::from(letter).to_digit(16).map(|digit| digit as u8);
    let byte = |pair: &[u8; 2]| Some(digit(pair[0])? << 4 | digit(pair[1])?);
    let hex = text.strip_prefix('x').and_then(|digits| {
        let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
        rest.is_empty().then(|| pairs.iter().map(byte).collect::<Option<Vec<u8>>>())?
    });
    match (text, text.parse(), hex) {
        ("-", ..) => Value::Null,
        (_, Ok(number), _) => Value::Number(number),
        (_, _, Some(bytes)) => Value::Bytes(bytes),
        _ => Value::Bytes(text.as_bytes().to_vec()),
    }
}

fn rows(input: &[u8]) {
    let replies = replies(input);
    let Ok(name) = Name::new("a") else { return };
    let attempt = AttemptId::from_bytes([7; 16]);
    let (ttl, release) = (Duration::from_secs(30), ReleaseRequest::new(name.clone(), attempt));
    let request = AcquireRequest::new(name.clone(), attempt, ttl).with_wait(true);
    for readers in [false, true] {
        let (attempts, hold) = ([attempt], Hold::Nothing);
        let question = Question { name: &name, attempts: &attempts, shared: true, readers, hold };
        let Ok(Found::Record(record)) = Record::read(&replies, &question) else { continue };
        let _ = (record.remaining(), record.kind(), record.place(attempt, Mode::Read));
        for mode in [Mode::Read, Mode::Write] {
            let mut machine = Machine::from(record.parts.clone());
            let now = record.now;
            let _ = machine.acquire(now, mode, &request.for_record(tag()), &mut |_, _| true);
            let _ = machine.release(now, &release.for_record(), &mut |_, _| true);
            let _ = machine.force_release(now, Token::MAX, &mut |_, _| true);
        }
    }
    if let Ok(read::Found::Stored(stored)) = read::read(&replies) {
        let now = stored.row.now;
        step(now, &mut semaphore::Machine::from(stored.parts));
    }
    if let Ok(Some((record, _))) = latch::read(&replies) {
        let _ = semaphore::status::latch(&name, &record, &replies);
        let _ = semaphore::status::semaphore(&name, &record, &replies);
    }
    for row in Row::all(replies.first()).unwrap_or_default() {
        let _ = (row.check(), row.token(), row.left(), row.is_by(attempt), row.status(&name));
    }
    for value in replies.iter().flat_map(|reply| reply.rows.iter().flatten()) {
        let _ = (status::name_of(value), record::attempt(value), read::slots_of(value));
        if let Value::Bytes(bytes) = value {
            let _ = status::holder(attempt, bytes);
        }
    }
    if let Some([base, top, slots]) =
        replies.first().and_then(|reply| reply.rows.first()).and_then(|row| row.first_chunk())
    {
        let _ = read::permit_of(base, top, slots);
    }
}

/// The bytes of a semaphore.
fn semaphore_bytes(input: &[u8]) {
    let Ok(parts) = bytes::decode(input) else { return };
    // A time that is too large becomes the largest one.
    let written = bytes::encode(&parts);
    let again = bytes::decode(&written).map(|again| bytes::encode(&again));
    assert!(again.is_ok_and(|again| again == written), "bytes are read back as they were");
    for us in [0, 1 << 50, i64::MAX as u64] {
        step(record::now(us), &mut semaphore::Machine::from(parts.clone()));
    }
}

fn step(now: Now, machine: &mut semaphore::Machine) {
    let Ok(name) = Name::new("a") else { return };
    let attempt = AttemptId::from_bytes([7; 16]);
    let release = ReleaseRequest::new(name.clone(), attempt).for_semaphore();
    let request = AcquireRequest::new(name, attempt, Duration::from_secs(30)).with_wait(true);
    let question =
        Demand::new(2, 3).ok().and_then(|demand| request.with_demand(demand).for_semaphore(tag()));
    if let Some(question) = question {
        let _ = machine.acquire(now, &question, &mut |_, _| true);
    }
    let _ = (machine.holders(now).count(), machine.needs_another_step(now), machine.held());
    let _ = machine.release(now, &release, &mut |_, _| true);
    let version = machine.limit_version();
    if let Ok(limit) = Limit::new(3) {
        let _ = machine.set_limit(now, version, limit, &mut |_, _| true);
    }
}
