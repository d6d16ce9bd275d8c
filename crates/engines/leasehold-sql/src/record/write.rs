//! Writes the outcome of a step.

use leasehold_core::proto::handoff::{Parts, State, Waiter};
use leasehold_core::{AttemptId, Name};

use super::{PATIENCE, Record, Tag, client_number, list, us};
use crate::dialect::Packet;
use crate::tables::Tables;

/// How many rows of dead waiters, and of ended attempts, one step removes at most; the next step
/// removes more.
const DEAD: u64 = 64;

fn code(state: State) -> u8 {
    match state {
        State::Free => 0,
        State::Held => 1,
        State::Kept => 2,
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
    ) -> Option<Packet> {
        let has = |queue: &[Waiter<Tag>], attempt| queue.iter().any(|w| w.attempt == attempt);
        let gone: Vec<AttemptId> = (before.parts.queue.iter().map(|waiter| waiter.attempt))
            .filter(|attempt| !has(&self.parts.queue, *attempt))
            .collect();
        let come: Vec<Waiter<Tag>> = (self.parts.queue.iter())
            .filter(|waiter| !has(&before.parts.queue, waiter.attempt))
            .cloned()
            .collect();
        if self.parts == before.parts && told.is_empty() {
            return None;
        }
        if self.parts.base != before.parts.base {
            self.since_us = self.now.unix_us();
        }
        self.waiting = before.waiting.saturating_sub(gone.len() as u64) + come.len() as u64;
        self.places = (before.places.iter())
            .filter(|(attempt, _)| !gone.contains(attempt))
            .map(|(attempt, place)| (*attempt, place.saturating_sub(gone.len() as u64)))
            .collect();
        // Remaining dead waiters need another step: a single statement does not remove them.
        self.has_queue = self.waiting > 0 || before.stale > DEAD;
        let buried: Vec<(AttemptId, u64)> = (self.parts.tombstones.iter())
            .filter(|tombstone| !before.parts.tombstones.contains(tombstone))
            .copied()
            .collect();
        for (_, until_ns) in &buried {
            self.ended_us = self.ended_us.max(until_ns / 1000);
        }
        let first_ticket = self.ticket + 1;
        self.ticket += come.len() as u64;

        let Tables { dialect, locks, waiters, ended, .. } = tables;
        let bytes = dialect.bytes(name.as_str().as_bytes());
        let mut statements = vec![self.statement(tables, &bytes, before.stamp, stamp)];
        let ours = format!("name = {bytes} AND stamp = {stamp}");
        let if_ours = format!("EXISTS (SELECT 1 FROM {locks} WHERE {ours})");
        let now_us = self.now.unix_us();
        if before.stale > 0 {
            let oldest = now_us.saturating_sub(us(PATIENCE));
            let dead = format!("name = {bytes} AND seen_us <= {oldest} AND {if_ours}");
            statements.push(dialect.delete_some(waiters, "attempt", &dead, "ticket", DEAD));
        }
        if before.stale > DEAD && !come.is_empty() {
            // A waiter that counted as dead may be among the remaining entries.
            let come: Vec<AttemptId> = come.iter().map(|waiter| waiter.attempt).collect();
            let come = list(*dialect, &come);
            statements
                .push(format!("DELETE FROM {waiters} WHERE attempt IN ({come}) AND {if_ours}"));
        }
        if !gone.is_empty() {
            let gone = list(*dialect, &gone);
            statements
                .push(format!("DELETE FROM {waiters} WHERE attempt IN ({gone}) AND {if_ours}"));
        }
        let owner = self.parts.owner.as_ref().filter(|_| self.parts.state == State::Held);
        let holder = owner.map_or(0, |(attempt, _)| client_number(attempt.client()));
        for (ticket, waiter) in (first_ticket..).zip(&come) {
            let attempt = dialect.bytes(&waiter.attempt.to_bytes());
            let client = client_number(waiter.attempt.client());
            let person = dialect.bytes(&waiter.tag.person);
            let (ttl, tokens, asked) = (us(waiter.ttl), waiter.tokens, waiter.tag.asked_us);
            statements.push(format!(
                "INSERT INTO {waiters} (attempt, name, ticket, client, holder, ttl_us, tokens, \
                 person, asked_us, seen_us) SELECT {attempt}, {bytes}, {ticket}, {client}, \
                 {holder}, {ttl}, {tokens}, {person}, {asked}, {now_us} FROM {locks} WHERE {ours}"
            ));
        }
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
        Some(dialect.atomic(&statements))
    }

    /// Returns the deciding statement: it changes one row, or none if another client wrote first.
    /// An insert fails then.
    fn statement(&self, tables: &Tables, name: &str, before: Option<i64>, stamp: i64) -> String {
        let Tables { dialect, locks, .. } = tables;
        let Parts { state, base, top, until_ns, confirmed, lost, .. } = self.parts;
        let (owner, person) = match &self.parts.owner {
            Some((attempt, tag)) => (dialect.bytes(&attempt.to_bytes()), tag.person.as_slice()),
            None => (dialect.bytes(&[]), [].as_slice()),
        };
        let person = dialect.bytes(person);
        // The time of a free row is when it became free, to find old rows.
        let until_us = match state {
            State::Free => self.now.unix_us(),
            _ => until_ns / 1000,
        };
        let columns = [
            ("stamp", stamp.to_string()),
            ("state", code(state).to_string()),
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
}
