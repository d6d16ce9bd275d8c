//! One poll: what it reads, and what it reports.

use std::collections::HashMap;
use std::time::Duration;

use leasehold_core::backend::{Event, Grant, Term};
use leasehold_core::proto::drift;
use leasehold_core::proto::handoff::State as Lease;
use leasehold_core::{AttemptId, Deadline, Error, Name, Now, Result, Token, TokenBlock};

use super::{LIMIT, Look, NAMES, Watch};
use crate::connection::Reply;
use crate::error::strange;
use crate::pool::Lane;
use crate::record::{self, COLUMNS, Record};
use crate::status::name_of;
use crate::tables::Tables;

impl Watch {
    /// Polls once; returns how long the shortest lease lasts that a waiter waits for.
    pub(super) async fn see(&self, look: &Look, sent: Now) -> Result<Option<Duration>> {
        let Tables { dialect, locks, waiters, .. } = &self.store.tables;
        let clock = dialect.now();
        let mut names: Vec<&Name> = look.waiting.values().collect();
        names.sort_unstable();
        names.dedup();
        let mut statements: Vec<String> = Vec::new();
        for names in names.chunks(NAMES) {
            let each: Vec<String> =
                names.iter().map(|name| dialect.bytes(name.as_str().as_bytes())).collect();
            let each = each.join(", ");
            statements.push(format!(
                "SELECT l.name, {clock}, {COLUMNS} FROM {locks} l WHERE l.name IN ({each})"
            ));
        }
        let asked = statements.len();
        let me = record::client_number(look.client);
        if look.holds {
            statements.push(format!(
                "SELECT DISTINCT l.name, l.attempt FROM {waiters} w \
                 JOIN {locks} l ON l.name = w.name WHERE w.holder = {me} AND l.state = 1"
            ));
        }
        if look.refresh {
            statements.push(format!("UPDATE {waiters} SET seen_us = {clock} WHERE client = {me}"));
        }
        if statements.is_empty() {
            statements.push(format!("SELECT {clock}"));
        }
        let packet = dialect.plain(&statements);
        let until = Deadline::after(sent, LIMIT);
        let replies = self.store.run(Lane::Usual, &packet, until).await.map_err(Error::from)?;
        let (waited, others) = replies.split_at(asked.min(replies.len()));
        if look.holds {
            self.tell_wanted(look, others.first())?;
        }
        self.tell_turns(look, &names, waited, sent)
    }

    fn tell_wanted(&self, look: &Look, reply: Option<&Reply>) -> Result<()> {
        for row in reply.map(|reply| reply.rows.as_slice()).unwrap_or_default() {
            let [name, attempt] = row.as_slice() else { return Err(strange("a short row")) };
            let (name, attempt) = (name_of(name)?, record::attempt(attempt)?);
            if attempt.client() == look.client {
                self.note_waited_for(attempt);
                look.events.send(Event::Wanted { name, attempt });
            }
        }
        Ok(())
    }

    fn tell_turns(
        &self,
        look: &Look,
        names: &[&Name],
        replies: &[Reply],
        sent: Now,
    ) -> Result<Option<Duration>> {
        let mut found: HashMap<Name, Record> = HashMap::new();
        for row in replies.iter().flat_map(|reply| &reply.rows) {
            let [name, row @ ..] = row.as_slice() else { return Err(strange("a short row")) };
            found.insert(name_of(name)?, Record::of_row(row)?);
        }
        let mut next_end: Option<Duration> = None;
        for name in names {
            let name = (*name).clone();
            // No row, or no holder: the next acquire hands the lock on.
            let Some(record) = found.get(&name).filter(|record| is_alive(record)) else {
                look.events.send(Event::Freed { name });
                continue;
            };
            let remaining = remaining(record);
            let ours = record.parts.owner.as_ref().map(|(attempt, _)| *attempt);
            match ours.filter(|attempt| look.waiting.get(attempt) == Some(&name)) {
                Some(attempt) => self.tell_grant(look, name, attempt, record, sent),
                None => next_end = Some(next_end.map_or(remaining, |end| end.min(remaining))),
            }
        }
        Ok(next_end)
    }

    /// Reports a lease that was granted to a local waiter. By the local clock, an offer lasts from
    /// before the request for as long as the database reported.
    fn tell_grant(&self, look: &Look, name: Name, attempt: AttemptId, record: &Record, sent: Now) {
        let parts = &record.parts;
        let count = u32::try_from(parts.top.saturating_sub(parts.base)).unwrap_or(u32::MAX - 1) + 1;
        let tokens = Token::new(parts.base).and_then(|base| TokenBlock::new(base, count));
        let offered = parts.state == Lease::Held && !parts.confirmed;
        let Some(tokens) = tokens.filter(|_| offered) else {
            look.events.send(Event::Freed { name });
            return;
        };
        let lasts = remaining(record);
        let until = Deadline::after(sent, lasts.saturating_sub(drift(lasts)));
        // A waiter that has left is notified too: the client releases the lease.
        self.leave(attempt);
        self.hold(lasts);
        if record.has_queue {
            self.note_waited_for(attempt);
        }
        let grant = Grant::new(tokens, Term::Offer(until), record.has_queue);
        look.events.send(Event::Granted { name, attempt, grant });
    }
}

fn is_alive(record: &Record) -> bool {
    record.parts.state != Lease::Free && !remaining(record).is_zero()
}

fn remaining(record: &Record) -> Duration {
    Duration::from_nanos(record.parts.until_ns.saturating_sub(record.now.steady_ns))
}
