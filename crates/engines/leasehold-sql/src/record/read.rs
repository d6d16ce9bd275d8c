//! Parses what the tables say about a lock.

use std::time::Duration;

use leasehold_core::proto::read_write::{Mode, Phase, Waiter};
use leasehold_core::{Now, Result};

use super::{Machine, Question, Queue, Record, Tag, readers};
use crate::connection::{Reply, Value};
use crate::error::strange;
use crate::kind::Kind;

/// What the replies to a question contain.
#[derive(Debug)]
pub(crate) enum Found {
    /// Everything that the step needs.
    Record(Box<Record>),
    /// Another client wrote in between.
    Torn,
    /// Clients read the lock, or wait to read it: ask for the readers too.
    Readers,
    /// The name belongs to another kind.
    Other(Kind),
}

impl Record {
    /// Parses the replies to [`ask`](super::ask).
    pub(crate) fn read(replies: &[Reply], question: &Question<'_>) -> Result<Found> {
        let [row, heads, own, counts, ended, rest @ ..] = replies else {
            return Err(strange("replies are missing"));
        };
        // The end of a transaction may follow.
        let (members, last) = match (question.readers, rest) {
            (true, [members, last, ..]) => (members.rows.as_slice(), last),
            (false, [last, ..]) => (&[][..], last),
            _ => return Err(strange("replies are missing")),
        };
        let row = row.rows.first().ok_or_else(|| strange("no row"))?;
        let mut record = Self::of_row(row)?;
        if !record.is_whole(last)? {
            return Ok(Found::Torn);
        }
        if let Some(kind) = record.other_kind() {
            return Ok(Found::Other(kind));
        }
        record.read_queue(&heads.rows, &own.rows)?;
        let counts = counts.rows.first().map(|row| row.iter().map(Value::unsigned));
        let counts: Vec<u64> = counts.ok_or_else(|| strange("no count"))?.collect::<Result<_>>()?;
        let [all, alive, reading @ ..] = counts.as_slice() else { return Err(strange("no count")) };
        let queue = |all: u64, alive: u64| Queue { alive, stale: all.saturating_sub(alive) };
        record.waiting.writers = queue(*all, *alive);
        match reading {
            [all, alive] => record.waiting.readers = queue(*all, *alive),
            [all] if *all > 0 => return Ok(Found::Readers),
            _ => {}
        }
        if !question.readers && record.parts.phase == Phase::Read {
            return Ok(Found::Readers);
        }
        for row in &ended.rows {
            let [attempt, until_us] = row.as_slice() else { return Err(strange("ended")) };
            let until_ns = until_us.unsigned()?.saturating_mul(1000);
            record.parts.tombstones.push((super::attempt(attempt)?, until_ns));
        }
        readers::read(&mut record, members)?;
        // In the order of the machine, so that its next state can be compared.
        record.parts = Machine::from(record.parts).into();
        Ok(Found::Record(Box::new(record)))
    }

    /// Returns true if the stamp, which was asked again at the end, is still that of the row.
    pub(crate) fn is_whole(&self, last: &Reply) -> Result<bool> {
        let last = last.rows.first().and_then(|row| row.first());
        Ok(last.map(Value::number).transpose()? == self.stamp)
    }

    /// Adds the waiters in the order of their tickets.
    fn read_queue(&mut self, heads: &[Vec<Value>], own: &[Vec<Value>]) -> Result<()> {
        let mut queue = Vec::new();
        for row in heads.iter().chain(own) {
            let (ticket, waiter) = waiter(row, self.now)?;
            if let Some(place) = row.get(6) {
                self.waiting.places.push((waiter.attempt, place.unsigned()?));
            }
            queue.push((ticket, waiter));
        }
        queue.sort_by_key(|(ticket, _)| *ticket);
        queue.dedup_by(|(_, one), (_, other)| one.attempt == other.attempt);
        self.parts.queue = queue.into_iter().map(|(_, waiter)| waiter).collect();
        Ok(())
    }
}

/// Parses a waiter and its ticket. Dead waiters are not asked for, so each counts as seen now.
fn waiter(row: &[Value], now: Now) -> Result<(u64, Waiter<Tag>)> {
    let [owner, ttl_us, tokens, person, asked_us, ticket, ..] = row else {
        return Err(strange("a short row of a waiter"));
    };
    let tokens = u32::try_from(tokens.unsigned()?).unwrap_or(u32::MAX);
    let waiter = Waiter {
        attempt: super::attempt(owner)?,
        // Readers wait for no token.
        mode: if tokens == 0 { Mode::Read } else { Mode::Write },
        ttl: Duration::from_micros(ttl_us.unsigned()?),
        tokens,
        seen_ns: now.steady_ns,
        tag: Tag { person: person.bytes()?.to_vec(), asked_us: asked_us.unsigned()? },
    };
    Ok((ticket.unsigned()?, waiter))
}
