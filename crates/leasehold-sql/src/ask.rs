//! Acquiring: one statement for a lock that nobody has or waits for, a step of the record else.

use std::time::Duration;

use leasehold_core::backend::{Answer, Ask, Grant, Mode, Origin, Term};
use leasehold_core::proto::handoff::{self, OFFER, State};
use leasehold_core::{Deadline, Error, ErrorKind, Result, Token, TokenBlock};
use serde::{Deserialize, Serialize};

use crate::connection::Reply;
use crate::dialect::Packet;
use crate::error::strange;
use crate::pool::Lane;
use crate::record::{self, Record, Tag, us};
use crate::store::{Done, Store, Told};
use crate::tables::Tables;

/// The longest ttl and keep that the columns are asked to hold.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);
/// Bytes of host, process and metadata together.
const PERSON: usize = 8_000;

/// Who an attempt belongs to, as it is written.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct Person {
    pub(crate) host: String,
    pub(crate) pid: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) metadata: Option<String>,
}

fn person(origin: &Origin) -> &str {
    origin.written(|host, pid, metadata| {
        let person = Person { host: host.to_owned(), pid, metadata: metadata.map(str::to_owned) };
        serde_json::to_string(&person).unwrap_or_default()
    })
}

/// Refuses what cannot be written.
pub(crate) fn fits(engine: &str, ask: &Ask) -> Result<()> {
    if ask.mode != Mode::Exclusive {
        let message = format!("{engine}: shared mode is not supported");
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    time_fits("ttl", ask.ttl)?;
    let length = person(&ask.origin).len();
    if length > PERSON {
        let message =
            format!("metadata: {length} bytes with host and process; at most {PERSON} are allowed");
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    Ok(())
}

pub(crate) fn time_fits(what: &str, time: Duration) -> Result<()> {
    match time > LONGEST {
        true => {
            let message = format!("{what}: {time:?}; at most {LONGEST:?} is allowed");
            Err(Error::new(ErrorKind::Invalid, message))
        }
        false => Ok(()),
    }
}

/// The ask in the words of the record.
pub(crate) fn question(ask: &Ask, asked_us: u64) -> handoff::Ask<Tag> {
    let Ask { attempt, ttl, wait, fair, tokens, .. } = *ask;
    let tag = Tag { person: person(&ask.origin).as_bytes().to_vec(), asked_us };
    handoff::Ask { attempt, ttl, wait, fair, tokens, tag }
}

/// The record's answer in the words of the trait.
pub(crate) fn answered(answer: handoff::Answer, ask: &Ask, record: &Record) -> Result<Answer> {
    Ok(match answer {
        handoff::Answer::Granted(tokens) => {
            Answer::Granted(Grant { tokens, term: Term::Ttl, wanted: record.waiting() > 0 })
        }
        handoff::Answer::Queued { remaining, .. } => {
            let place = record.place(ask.attempt);
            let offers = u32::try_from(place).unwrap_or(u32::MAX);
            let ask_again = remaining.saturating_add(OFFER.saturating_mul(offers));
            Answer::Queued { place: Some(place), ask_again }
        }
        handoff::Answer::Busy(remaining) => Answer::Busy { ask_again: Some(remaining) },
        handoff::Answer::Ended => Answer::Ended,
        handoff::Answer::UsedUp => {
            let message = "the lock's tokens are used up (2^53-1)";
            return Err(Error::new(ErrorKind::Foreign, message));
        }
    })
}

impl Store {
    /// Asks for a lease; the answer, and whom it concerns besides. One that is known to wait is not
    /// tried with one statement first.
    pub(crate) async fn ask(
        &self,
        ask: &Ask,
        waits: bool,
        until: Deadline,
    ) -> Result<(Answer, Told)> {
        let mut known = None;
        if !waits {
            let packet = take(&self.tables, ask, self.stamp());
            let replies = self.run(Lane::Usual, &packet, until).await?;
            match quick(&replies, ask)? {
                Quick::Answered(answer) => return Ok((answer, Told::new())),
                // Where there is no row, nobody waits and nothing is remembered.
                Quick::Read(record) if record.stamp.is_none() => known = Some(record),
                Quick::Read(_) => {}
            }
        }
        let act =
            |machine: &mut handoff::Record<Tag>, before: &Record, reach: handoff::Reach<'_>| {
                let now = before.now;
                machine.acquire(now, &question(ask, now.unix_us()), reach)
            };
        let Done { answer, record, told } =
            self.step(&ask.name, &[ask.attempt], until, known, false, act).await?;
        Ok((answered(answer, ask, &record)?, told))
    }
}

/// Takes a lock that nobody has or waits for, and that this attempt has nothing to do with yet;
/// then asks for its row. In the order of the columns each value is reckoned from the old row, as
/// MySQL, which assigns one after the other, needs it.
fn take(tables: &Tables, ask: &Ask, stamp: i64) -> Packet {
    let Tables { dialect, locks, .. } = tables;
    let (clock, greatest) = (dialect.now(), dialect.greatest());
    let name = dialect.bytes(ask.name.as_str().as_bytes());
    let attempt = dialect.bytes(&ask.attempt.to_bytes());
    let person = dialect.bytes(person(&ask.origin).as_bytes());
    let (ttl, more) = (us(ask.ttl), u64::from(ask.tokens.max(1)) - 1);
    let most = Token::MAX.get() - more;
    let update = format!(
        "UPDATE {locks} SET lost = CASE WHEN state = 1 THEN base ELSE lost END, \
         base = {greatest}(top + 1, {clock}), top = {greatest}(top + 1, {clock}) + {more}, \
         stamp = {stamp}, state = 1, attempt = {attempt}, person = {person}, \
         until_us = {clock} + {ttl}, since_us = {clock}, confirmed = 1 \
         WHERE name = {name} AND (state = 0 OR until_us <= {clock}) AND line = 0 \
         AND ended_us <= {clock} AND attempt <> {attempt} AND top < {most} AND {clock} < {most}"
    );
    // A second time, it would take the lock again for an attempt that has ended since.
    Packet { once: true, ..dialect.plain(&[update, record::ask_row(tables, &ask.name)]) }
}

/// What one statement came to.
enum Quick {
    Answered(Answer),
    /// It was not enough; the row, without those who wait.
    Read(Record),
}

/// The answer, if one statement was enough for it.
fn quick(replies: &[Reply], ask: &Ask) -> Result<Quick> {
    let [taken, row] = replies else { return Err(strange("replies are missing")) };
    let row = row.rows.first().ok_or_else(|| strange("no row"))?;
    let record = Record::of_row(row)?;
    let parts = &record.parts;
    let owner = parts.owner.as_ref().map(|(attempt, _)| *attempt);
    if taken.affected == 1 && owner == Some(ask.attempt) {
        let count = u32::try_from(parts.top.saturating_sub(parts.base)).unwrap_or(u32::MAX - 1) + 1;
        let tokens = Token::new(parts.base).and_then(|base| TokenBlock::new(base, count));
        let tokens = tokens.ok_or_else(|| strange("no token"))?;
        let grant = Grant { tokens, term: Term::Ttl, wanted: false };
        return Ok(Quick::Answered(Answer::Granted(grant)));
    }
    let alive = parts.state != State::Free && parts.until_ns > record.now.steady_ns;
    let remembers = record.ended_us > record.now.unix_us();
    if alive && !ask.wait && !remembers && owner != Some(ask.attempt) {
        let remaining = parts.until_ns - record.now.steady_ns;
        let ask_again = Some(Duration::from_nanos(remaining));
        return Ok(Quick::Answered(Answer::Busy { ask_again }));
    }
    Ok(Quick::Read(record))
}
