//! Writes the outcome of a step.

use leasehold_core::proto::read_write::{Mode, Parts, Phase, Waiter};
use leasehold_core::{AttemptId, Name};

use super::{PATIENCE, Record, Tag, client_number, list, nobody, us};
use crate::kind::Kind;
use crate::tables::Tables;

/// How many rows of dead waiters, and of ended attempts, one step removes at most; the next step
/// removes more.
const DEAD: u64 = 64;

/// A client that knows no readers takes a lock that is read as held.
fn code(phase: Phase) -> u8 {
    match phase {
        Phase::Free => 0,
        Phase::Read | Phase::Write => 1,
        Phase::Kept => 2,
    }
}

impl Record {
    /// Returns the statements for the changes since `before`, which have an effect only if no other
    /// client wrote first; `None` if nothing changed. The same packet notifies clients, if the
    /// engine can.
    pub(crate) fn write(
        &mut self,
        tables: &Tables,
        name: &Name,
        before: &Self,
        stamp: i64,
        told: &[(String, String)],
    ) -> Option<Vec<String>> {
        let has = |queue: &[Waiter<Tag>], attempt| queue.iter().any(|w| w.attempt == attempt);
        let gone: Vec<Waiter<Tag>> = (before.parts.queue.iter())
            .filter(|waiter| !has(&self.parts.queue, waiter.attempt))
            .cloned()
            .collect();
        let come: Vec<Waiter<Tag>> = (self.parts.queue.iter())
            .filter(|waiter| !has(&before.parts.queue, waiter.attempt))
            .cloned()
            .collect();
        // A client that knows no readers may have written that none waits.
        let hidden = before.waiting.readers.alive > 0 && !before.has_queue;
        if self.parts == before.parts && told.is_empty() && !hidden {
            return None;
        }
        if self.parts.base != before.parts.base {
            self.since_us = self.now.unix_us();
        }
        self.count(before, &gone, &come);
        // Remaining dead waiters need another step: a single statement does not remove them.
        let left = |mode| self.waiting.of(mode).alive > 0 || before.waiting.of(mode).stale > DEAD;
        self.has_queue = left(Mode::Write) || left(Mode::Read);
        let buried: Vec<(AttemptId, u64)> = (self.parts.tombstones.iter())
            .filter(|tombstone| !before.parts.tombstones.contains(tombstone))
            .copied()
            .collect();
        for (_, until_ns) in &buried {
            self.ended_us = self.ended_us.max(until_ns / 1000);
        }
        let first_ticket = self.ticket + 1;
        self.ticket += come.len() as u64;

        let Tables { dialect, locks, ended, .. } = tables;
        let bytes = dialect.bytes(name.as_str().as_bytes());
        let mut statements = vec![self.statement(tables, &bytes, before.stamp, stamp)];
        let ours = format!("name = {bytes} AND stamp = {stamp}");
        let if_ours = format!("EXISTS (SELECT 1 FROM {locks} WHERE {ours})");
        let now_us = self.now.unix_us();
        for mode in [Mode::Write, Mode::Read] {
            let (queue, stale) = (tables.queue(mode), before.waiting.of(mode).stale);
            let of_mode = |waiters: &[Waiter<Tag>]| -> Vec<AttemptId> {
                let chosen = waiters.iter().filter(|waiter| waiter.mode == mode);
                chosen.map(|waiter| waiter.attempt).collect()
            };
            if stale > 0 {
                let oldest = now_us.saturating_sub(us(PATIENCE));
                let dead = format!("name = {bytes} AND seen_us <= {oldest} AND {if_ours}");
                statements.push(dialect.delete_some(queue, "attempt", &dead, "ticket", DEAD));
            }
            let mut removed = of_mode(&gone);
            if stale > DEAD {
                // A waiter that counted as dead may be among the remaining entries.
                removed.extend(of_mode(&come));
            }
            if !removed.is_empty() {
                let removed = list(*dialect, &removed);
                statements.push(format!(
                    "DELETE FROM {queue} WHERE attempt IN ({removed}) AND {if_ours}"
                ));
            }
        }
        let owner = self.owner().filter(|_| self.parts.phase == Phase::Write);
        let holder = owner.map_or(0, |owner| client_number(owner.attempt.client()));
        for (ticket, waiter) in (first_ticket..).zip(&come) {
            let attempt = dialect.bytes(&waiter.attempt.to_bytes());
            let client = client_number(waiter.attempt.client());
            let person = dialect.bytes(&waiter.tag.person);
            let (ttl, asked) = (us(waiter.ttl), waiter.tag.asked_us);
            let queue = tables.queue(waiter.mode);
            let tokens = if waiter.mode == Mode::Read { 0 } else { waiter.tokens.max(1) };
            statements.push(format!(
                "INSERT INTO {queue} (attempt, name, ticket, client, holder, ttl_us, tokens, \
                 person, asked_us, seen_us) SELECT {attempt}, {bytes}, {ticket}, {client}, \
                 {holder}, {ttl}, {tokens}, {person}, {asked}, {now_us} FROM {locks} WHERE {ours}"
            ));
        }
        statements.extend(self.write_readers(tables, &bytes, before, &if_ours));
        if !buried.is_empty() {
            let over = format!("name = {bytes} AND until_us <= {now_us} AND {if_ours}");
            statements.push(dialect.delete_some(ended, "attempt", &over, "until_us", DEAD));
        }
        for (attempt, until_ns) in &buried {
            let (attempt, until) = (dialect.bytes(&attempt.to_bytes()), until_ns / 1000);
            statements.push(format!("DELETE FROM {ended} WHERE attempt = {attempt} AND {if_ours}"));
            statements.push(format!(
                "INSERT INTO {ended} (attempt, name, until_us) \
                 SELECT {attempt}, {bytes}, {until} FROM {locks} WHERE {ours}"
            ));
        }
        for (channel, word) in told {
            let notify = format!("SELECT pg_notify('{channel}', '{word}')");
            statements.push(format!("{notify} FROM {locks} WHERE {ours}"));
        }
        Some(statements)
    }

    /// Counts the waiters after a step, from those before it.
    fn count(&mut self, before: &Self, gone: &[Waiter<Tag>], come: &[Waiter<Tag>]) {
        let mut waiting = before.waiting.clone();
        for waiter in gone {
            let waits = &mut waiting.of_mut(waiter.mode).alive;
            *waits = waits.saturating_sub(1);
        }
        for waiter in come {
            waiting.of_mut(waiter.mode).alive += 1;
        }
        waiting.places.retain(|(attempt, _)| !gone.iter().any(|gone| gone.attempt == *attempt));
        for (attempt, place) in &mut waiting.places {
            let known = before.parts.queue.iter().find(|waiter| waiter.attempt == *attempt);
            let Some(mode) = known.map(|waiter| waiter.mode) else { continue };
            let passed = gone.iter().filter(|gone| gone.mode == mode).count();
            *place = place.saturating_sub(passed as u64);
        }
        self.waiting = waiting;
    }

    /// Returns the deciding statement: it changes one row, or none if another client wrote first.
    /// An insert fails then.
    fn statement(&self, tables: &Tables, name: &str, before: Option<i64>, stamp: i64) -> String {
        let dialect = tables.dialect;
        let Parts { phase, base, top, lost, .. } = self.parts;
        let last = self.parts.last.as_ref();
        let owner = match (phase, last) {
            (Phase::Read, _) => dialect.bytes(&nobody().to_bytes()),
            (_, Some((attempt, _))) => dialect.bytes(&attempt.to_bytes()),
            (_, None) => dialect.bytes(&[]),
        };
        let person = dialect.bytes(last.map_or(&[], |(_, tag)| tag.person.as_slice()));
        let latest_ns = self.parts.members.iter().map(|member| member.until_ns).max();
        // The time of a free row is when it became free, to find old rows.
        let until_us = match (phase, latest_ns) {
            (Phase::Free, _) | (_, None) => self.now.unix_us(),
            (_, Some(latest_ns)) => latest_ns / 1000,
        };
        let confirmed = self.owner().is_none_or(|owner| owner.confirmed);
        let columns = [
            ("stamp", stamp.to_string()),
            ("state", code(phase).to_string()),
            ("attempt", owner),
            ("person", person),
            ("base", base.to_string()),
            ("top", top.to_string()),
            ("lost", lost.to_string()),
            ("until_us", until_us.to_string()),
            ("since_us", self.since_us.to_string()),
            ("confirmed", u8::from(confirmed).to_string()),
            ("line", u8::from(self.has_queue).to_string()),
            ("ended_us", self.ended_us.to_string()),
            ("ticket", self.ticket.to_string()),
        ];
        deciding(tables, name, before, &columns)
    }

    /// Returns the deciding statement for a row that belongs to another kind than a lock. It keeps
    /// the tokens of the name.
    pub(crate) fn statement_of_kind(
        &self,
        tables: &Tables,
        name: &str,
        stamp: i64,
        row: KindRow,
    ) -> String {
        let KindRow { kind, until_us, used_until_us, limit, top, has_queue, ended_us } = row;
        let Parts { base, top: last, lost, .. } = self.parts;
        let nothing = tables.dialect.bytes(&[]);
        let columns = [
            ("stamp", stamp.to_string()),
            ("state", kind.state().to_string()),
            ("attempt", nothing.clone()),
            ("person", nothing),
            ("base", base.to_string()),
            ("top", last.max(top).to_string()),
            ("lost", lost.to_string()),
            ("until_us", until_us.to_string()),
            ("since_us", used_until_us.to_string()),
            ("confirmed", limit.to_string()),
            ("line", u8::from(has_queue).to_string()),
            ("ended_us", self.ended_us.max(ended_us).to_string()),
            ("ticket", self.ticket.to_string()),
        ];
        deciding(tables, name, self.stamp, &columns)
    }
}

/// The row of a name that belongs to another kind than a lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KindRow {
    pub(crate) kind: Kind,
    /// Until when the name belongs to it.
    pub(crate) until_us: u64,
    /// Until when permits last.
    pub(crate) used_until_us: u64,
    /// The limit of a semaphore.
    pub(crate) limit: u32,
    /// The highest token that it has reserved.
    pub(crate) top: u64,
    /// True if a client waits.
    pub(crate) has_queue: bool,
    /// Until when ended attempts are remembered.
    pub(crate) ended_us: u64,
}

impl KindRow {
    /// Creates the row of a name that belongs to a kind until then, and has no tokens and no waiters.
    pub(crate) fn new(kind: Kind, until_us: u64) -> Self {
        let (used_until_us, limit, top, has_queue, ended_us) = (0, 0, 0, false, 0);
        Self { kind, until_us, used_until_us, limit, top, has_queue, ended_us }
    }
}

/// Writes the columns of a row, unless another client wrote first: it changes one row, or none. An
/// insert fails then.
fn deciding(
    tables: &Tables,
    name: &str,
    before: Option<i64>,
    columns: &[(&str, String)],
) -> String {
    let locks = &tables.locks;
    match before {
        Some(before) => {
            let set: Vec<String> =
                columns.iter().map(|(column, value)| format!("{column} = {value}")).collect();
            let set = set.join(", ");
            format!("UPDATE {locks} SET {set} WHERE name = {name} AND stamp = {before}")
        }
        None => {
            let names: Vec<&str> = columns.iter().map(|(column, _)| *column).collect();
            let values: Vec<&str> = columns.iter().map(|(_, value)| value.as_str()).collect();
            let (names, values) = (names.join(", "), values.join(", "));
            format!("INSERT INTO {locks} (name, {names}) VALUES ({name}, {values})")
        }
    }
}
