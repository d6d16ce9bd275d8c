//! The single statement that takes a free lock without waiters, and returns its token.

use std::time::Duration;

use leasehold_core::backend::{AcquireRequest, Answer, Grant, Term};
use leasehold_core::proto::handoff::{OFFER, TOKEN_LEAD};
use leasehold_core::{Result, Token, TokenBlock};

use crate::connection::{Reply, Value};
use crate::dialect::{Dialect, Packet};
use crate::error::strange;
use crate::record::{self, Record, client_number, us};
use crate::routines::Take;
use crate::store::Ways;
use crate::stored_origin::stored_origin;
use crate::tables::Tables;

/// Takes a lock that has no row yet, or whose row is free, without waiters, and without relation to
/// this attempt. An attempt that does not wait also reads the row.
/// `telling` notifies the observers; a function does so itself.
pub(crate) fn take(
    tables: &Tables,
    request: &AcquireRequest,
    stamp: i64,
    telling: Option<String>,
) -> Ways {
    let packet = |taking: String, telling: Option<String>| {
        let mut statements = vec![taking];
        if !request.wait {
            statements.push(record::ask_row(tables, &request.name));
        }
        statements.extend(telling);
        // A repetition could take the lock again for an attempt that has ended since.
        Packet { once: true, ..tables.dialect.plain(&statements) }
    };
    let take = Take::new(tables, request, stamp);
    Ways {
        routine: tables.call_take(&take).map(|call| packet(call, None)),
        plain: packet(upsert(tables, &take), telling),
    }
}

/// Returns the statement alone.
pub(crate) fn plain_take(tables: &Tables, request: &AcquireRequest, stamp: i64) -> String {
    upsert(tables, &Take::new(tables, request, stamp))
}

impl Take {
    fn new(tables: &Tables, request: &AcquireRequest, stamp: i64) -> Self {
        let (dialect, more) = (tables.dialect, u64::from(block(request)) - 1);
        Self {
            name: dialect.bytes(request.name.as_str().as_bytes()),
            stamp,
            attempt: dialect.bytes(&request.attempt.to_bytes()),
            person: dialect.bytes(stored_origin(&request.origin).as_bytes()),
            ttl_us: us(request.ttl),
            more,
            most: Token::MAX.get() - more,
            client: client_number(request.attempt.client()),
            waits_for: if request.wait { request.tokens.max(1) } else { 0 },
        }
    }
}

/// Returns how many tokens one statement takes at most.
fn block(request: &AcquireRequest) -> u32 {
    request.tokens.clamp(1, TOKEN_LEAD)
}

/// Changes the row if it is free, and inserts it if there is none (except on PostgreSQL). In both
/// cases it then has the stamp.
fn upsert(tables: &Tables, take: &Take) -> String {
    let Tables { dialect, locks, .. } = tables;
    let Take { name, stamp, attempt, person, ttl_us, more, most, .. } = take;
    let (clock, greatest) = (dialect.now(), dialect.greatest());
    // The existing row; the values of the new row are shorter to name, and computed already.
    let (l, new) = (dialect.old_row(locks), |column: &str| dialect.new_value(column));
    #[cfg(any(feature = "mysql", feature = "sqlite"))]
    let insert = format!(
        "INSERT INTO {locks}{called} (name, stamp, lost, base, top, state, attempt, person, until_us, \
         since_us, confirmed, line, ended_us, ticket) VALUES ({name}, {stamp}, {clock} - 1, {told}, \
         {clock} + {more}, 1, {attempt}, {person}, {clock} + {ttl_us}, {clock}, 1, 0, 0, 0)",
        called = dialect.called(l),
        told = dialect.told(clock)
    );
    let (now, asking) = (new("since_us"), new("attempt"));
    // If a whole block would reach too far beyond the clock, the record shortens it.
    let room = match *more {
        0 => String::new(),
        _ => format!(" AND {l}.top < {now} + {}", u64::from(TOKEN_LEAD) - 1 - more),
    };
    let free = format!(
        "({l}.state = 0 OR {l}.until_us <= {now}) AND {l}.line = 0 AND {l}.ended_us <= {now} \
         AND {l}.attempt <> {asking} AND {l}.top < {most} AND {now} < {most}{room}"
    );
    // In this order each value uses the old row, also on MySQL, which assigns one column after
    // the other.
    let lost = format!("CASE WHEN {l}.state = 1 THEN {l}.base ELSE {l}.lost END");
    let base = format!("{greatest}({l}.top + 1, {now})");
    let mut changes =
        vec![("lost", lost), ("base", dialect.told(&base)), ("top", format!("{base} + {more}"))];
    for column in ["state", "attempt", "person", "until_us", "since_us", "confirmed"] {
        changes.push((column, new(column)));
    }
    let set = |change: &dyn Fn(&str, &str) -> String| -> String {
        let each: Vec<String> =
            changes.iter().map(|(column, value)| change(column, value)).collect();
        each.join(", ")
    };
    match dialect {
        #[cfg(feature = "mysql")]
        Dialect::MySql => {
            // MySQL has no condition for the whole update: the unique stamp replaces it.
            let none = dialect.told("0");
            let set = set(&|column, value| {
                format!("{column} = CASE WHEN stamp = {stamp} THEN {value} ELSE {column} END")
            });
            format!(
                "{insert} ON DUPLICATE KEY UPDATE \
                 stamp = CASE WHEN {free} THEN {stamp} ELSE stamp + {none} END, {set}"
            )
        }
        // This replaces the function. It does not insert a missing row: an insert would write to
        // the log also if the row exists and is not free.
        #[cfg(feature = "postgres")]
        Dialect::Postgres => {
            let set = set(&|column, value| format!("{column} = {value}"));
            format!(
                "UPDATE {locks} AS l SET stamp = {stamp}, {set} FROM (SELECT {clock} AS since_us, \
                 {clock} + {ttl_us} AS until_us, {attempt} AS attempt, {person} AS person, 1 AS state, \
                 1 AS confirmed) AS excluded WHERE l.name = {name} AND {free} RETURNING l.base"
            )
        }
        #[cfg(feature = "sqlite")]
        Dialect::Sqlite => {
            let set = set(&|column, value| format!("{column} = {value}"));
            format!(
                "{insert} ON CONFLICT (name) DO UPDATE SET stamp = {stamp}, {set} WHERE {free} \
                 RETURNING base"
            )
        }
    }
}

/// The answer of that statement.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) answer: Answer,
    /// The time by the database's clock when it queued, if it did.
    pub(crate) queued_us: Option<u64>,
}

/// Returns the answer, if that statement was enough.
pub(crate) fn taken(replies: &[Reply], request: &AcquireRequest) -> Result<Option<Taken>> {
    let (reply, rest) = replies.split_first().ok_or_else(|| strange("replies are missing"))?;
    let told = match reply.rows.first().and_then(|row| row.first()) {
        Some(Value::Null) => 0,
        Some(base) => base.unsigned()?,
        None => reply.id,
    };
    if let Some(answer) = granted(told, request)? {
        return Ok(Some(Taken { answer, queued_us: None }));
    }
    if let Some([_, now_us, left_us, place]) = reply.rows.first().map(Vec::as_slice)
        && *now_us != Value::Null
    {
        let (place, left) = (place.unsigned()?, Duration::from_micros(left_us.unsigned()?));
        return Ok(Some(Taken {
            answer: queued(place, left),
            queued_us: Some(now_us.unsigned()?),
        }));
    }
    let Some(row) = rest.first().filter(|_| !request.wait) else { return Ok(None) };
    let row: &[Value] = row.rows.first().ok_or_else(|| strange("no row"))?;
    let record = Record::of_row(row)?;
    let last = record.parts.last.as_ref();
    let ours = last.is_some_and(|(attempt, _)| *attempt == request.attempt);
    let remaining = record.remaining();
    let remembers = record.ended_us > record.now.unix_us();
    if remaining.is_zero() || remembers || ours {
        return Ok(None);
    }
    let answer = Answer::Busy { ask_again: Some(remaining) };
    Ok(Some(Taken { answer, queued_us: None }))
}

/// Returns the grant with this first token; `None` if it is 0.
pub(crate) fn granted(base: u64, request: &AcquireRequest) -> Result<Option<Answer>> {
    if base == 0 {
        return Ok(None);
    }
    let tokens = Token::new(base).and_then(|base| TokenBlock::new(base, block(request)));
    let tokens = tokens.ok_or_else(|| strange("no token"))?;
    Ok(Some(Answer::Granted(Grant::new(tokens, Term::Ttl, false))))
}

/// Returns the answer to a client that waits behind so many phases, the first of which lasts for `remaining`.
pub(crate) fn queued(place: u64, remaining: Duration) -> Answer {
    let offers = u32::try_from(place).unwrap_or(u32::MAX);
    let ask_again = remaining.saturating_add(OFFER.saturating_mul(offers));
    Answer::Queued { place: Some(place), ask_again }
}

#[cfg(all(test, feature = "mysql", feature = "postgres", feature = "sqlite"))]
#[path = "take_statement_tests.rs"]
#[allow(clippy::unwrap_used, reason = "a set-up that fails is a failed test")]
mod tests;
