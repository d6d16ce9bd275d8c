//! One poll: what it reads, and what it reports.

use std::collections::HashMap;
use std::time::Duration;

use leasehold_core::backend::{Event, EventSink, Grant, Term};
use leasehold_core::proto::drift;
use leasehold_core::proto::read_write::Phase;
use leasehold_core::{AttemptId, Deadline, Error, Name, Now, Result, Token, TokenBlock};

use super::{LIMIT, Look, NAMES, Watch};
use crate::connection::Reply;
use crate::error::strange;
use crate::pool::Lane;
use crate::record::{self, COLUMNS, PATIENCE, Record, nobody, us};
use crate::status::name_of;
use crate::tables::Tables;

/// A lease that was granted to a local waiter.
pub(super) struct Granted {
    pub(super) attempt: AttemptId,
    pub(super) tokens: TokenBlock,
    /// How long it lasts, and until when this client may rely on it.
    pub(super) lasts: Duration,
    pub(super) until: Deadline,
    /// Other clients wait for it.
    pub(super) wanted: bool,
}

/// A lease of a local waiter, as a poll finds it.
struct Found {
    attempt: AttemptId,
    tokens: Option<TokenBlock>,
    lasts: Duration,
    confirmed: bool,
    wanted: bool,
}

impl Watch {
    /// Polls once; returns how long the shortest lease lasts that a waiter waits for.
    pub(super) async fn see(&self, look: &Look, sent: Now) -> Result<Option<Duration>> {
        let Tables { dialect, locks, waiters, read_waiters, .. } = &self.store.tables;
        let clock = dialect.now();
        let mut names: Vec<&Name> = look.waiting.values().collect();
        names.sort_unstable();
        names.dedup();
        let mut statements: Vec<String> = Vec::new();
        for names in names.chunks(NAMES) {
            let names = self.list(names);
            statements.push(format!(
                "SELECT l.name, {clock}, {COLUMNS} FROM {locks} l WHERE l.name IN ({names})"
            ));
        }
        let rows = statements.len();
        statements.extend(self.ask_grants(look));
        let grants = statements.len() - rows;
        statements.extend(self.ask_permits(look));
        let permits = statements.len() - rows - grants;
        let me = record::client_number(look.client);
        if look.holds {
            let waited_for = |table: &str| {
                format!(
                    "SELECT DISTINCT l.name, l.attempt FROM {table} w \
                     JOIN {locks} l ON l.name = w.name WHERE w.holder = {me} AND l.state = 1"
                )
            };
            let mut both = waited_for(waiters);
            if self.store.has_readers() {
                both += &format!(" UNION {}", waited_for(read_waiters));
            }
            statements.push(both);
        }
        if look.reading {
            let (readers, writers) = (self.phases(), self.writers_waiting());
            statements.push(format!(
                "SELECT r.name, r.attempt FROM {readers} WHERE r.client = {me} \
                 AND r.until_us > {clock} AND {writers} > 0"
            ));
        }
        if look.refresh {
            let tables = [(waiters, true), (read_waiters, !look.reads.is_empty())];
            for (table, _) in tables.into_iter().filter(|(_, waits)| *waits) {
                statements
                    .push(format!("UPDATE {table} SET seen_us = {clock} WHERE client = {me}"));
            }
        }
        if statements.is_empty() {
            statements.push(format!("SELECT {clock}"));
        }
        let packet = dialect.plain(&statements);
        let until = Deadline::after(sent, LIMIT);
        let replies = self.store.run(Lane::Usual, &packet, until).await.map_err(Error::from)?;
        let (waited, rest) = replies.split_at(rows.min(replies.len()));
        let (granted, rest) = rest.split_at(grants.min(rest.len()));
        let (permitted, others) = rest.split_at(permits.min(rest.len()));
        let asked = usize::from(look.holds) + usize::from(look.reading);
        for reply in others.iter().take(asked) {
            self.tell_wanted(look, reply)?;
        }
        self.tell_readers(look, granted, sent)?;
        let next_permit = self.tell_permits(look, permitted, sent)?;
        let next_end = self.tell_turns(look, &names, waited, sent)?;
        Ok(next_end.into_iter().chain(next_permit).min())
    }

    pub(super) fn list(&self, names: &[&Name]) -> String {
        let dialect = self.store.tables.dialect;
        let each: Vec<String> =
            names.iter().map(|name| dialect.bytes(name.as_str().as_bytes())).collect();
        each.join(", ")
    }

    /// Returns the readers `r` of present phases, for a FROM.
    fn phases(&self) -> String {
        let Tables { dialect, locks, readers, .. } = &self.store.tables;
        let nobody = dialect.bytes(&nobody().to_bytes());
        format!(
            "{readers} r JOIN {locks} l ON l.name = r.name AND l.base = r.base AND l.state = 1 \
             AND l.attempt = {nobody}"
        )
    }

    /// Returns the number of clients that wait to write what the reader `r` reads.
    fn writers_waiting(&self) -> String {
        let Tables { dialect, waiters, .. } = &self.store.tables;
        let (clock, patience) = (dialect.now(), us(PATIENCE));
        format!(
            "(SELECT COUNT(*) FROM {waiters} w WHERE w.name = r.name \
             AND w.seen_us > {clock} - {patience})"
        )
    }

    /// Returns the statements that ask whether waiters have become readers.
    fn ask_grants(&self, look: &Look) -> Vec<String> {
        let (dialect, clock) = (self.store.tables.dialect, self.store.tables.dialect.now());
        let (readers, waits) = (self.phases(), self.writers_waiting());
        let waiting: Vec<(&AttemptId, &Name)> =
            look.waiting.iter().filter(|(attempt, _)| look.reads.contains(attempt)).collect();
        let ask = |waiting: &[(&AttemptId, &Name)]| {
            let attempts: Vec<AttemptId> = waiting.iter().map(|(attempt, _)| **attempt).collect();
            let names: Vec<&Name> = waiting.iter().map(|(_, name)| *name).collect();
            let (attempts, names) = (record::list(dialect, &attempts), self.list(&names));
            format!(
                "SELECT r.attempt, r.base, r.until_us, r.confirmed, {clock}, \
                 {waits} FROM {readers} \
                 WHERE r.name IN ({names}) AND r.attempt IN ({attempts})"
            )
        };
        waiting.chunks(NAMES).map(ask).collect()
    }

    fn tell_readers(&self, look: &Look, replies: &[Reply], sent: Now) -> Result<()> {
        for row in replies.iter().flat_map(|reply| &reply.rows) {
            let [attempt, base, until_us, confirmed, clock, wanted] = row.as_slice() else {
                return Err(strange("a short row of a reader"));
            };
            let attempt = record::attempt(attempt)?;
            let Some(name) = look.waiting.get(&attempt) else { continue };
            let left_us = until_us.unsigned()?.saturating_sub(clock.unsigned()?);
            let found = Found {
                attempt,
                tokens: Token::new(base.unsigned()?).map(TokenBlock::single),
                lasts: Duration::from_micros(left_us),
                confirmed: confirmed.number()? != 0,
                wanted: wanted.number()? != 0,
            };
            self.tell_found(look, name.clone(), found, sent);
        }
        Ok(())
    }

    fn tell_wanted(&self, look: &Look, reply: &Reply) -> Result<()> {
        for row in &reply.rows {
            let [name, attempt] = row.as_slice() else { return Err(strange("a short row")) };
            let (name, attempt) = (name_of(name)?, record::attempt(attempt)?);
            // A grant that is on its way tells it too.
            if attempt.client() == look.client && !look.reads.contains(&attempt) {
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
            let Some(record) = found.get(&name).filter(|record| !record.remaining().is_zero())
            else {
                look.events.send(Event::Freed { name });
                continue;
            };
            let remaining = record.remaining();
            let owner =
                record.owner().filter(|owner| look.waiting.get(&owner.attempt) == Some(&name));
            let Some(owner) = owner else {
                next_end = Some(next_end.map_or(remaining, |end| end.min(remaining)));
                continue;
            };
            let parts = &record.parts;
            let count =
                u32::try_from(parts.top.saturating_sub(parts.base)).unwrap_or(u32::MAX - 1) + 1;
            let tokens = Token::new(parts.base).and_then(|base| TokenBlock::new(base, count));
            let confirmed = parts.phase != Phase::Write || owner.confirmed;
            let (attempt, wanted) = (owner.attempt, record.has_queue);
            let found = Found { attempt, tokens, lasts: remaining, confirmed, wanted };
            self.tell_found(look, name, found, sent);
        }
        Ok(next_end)
    }

    /// Reports a lease that was granted to a local waiter. By the local clock, an offer lasts from
    /// before the request for as long as the database reported.
    fn tell_found(&self, look: &Look, name: Name, found: Found, sent: Now) {
        let Found { attempt, tokens, lasts, confirmed, wanted } = found;
        let Some(tokens) = tokens.filter(|_| !confirmed && !lasts.is_zero()) else {
            look.events.send(Event::Freed { name });
            return;
        };
        let until = Deadline::after(sent, lasts.saturating_sub(drift(lasts)));
        let reads = look.reads.contains(&attempt);
        let granted = Granted { attempt, tokens, lasts, until, wanted };
        self.tell_grant(&look.events, reads, name, granted);
    }

    pub(super) fn tell_grant(&self, events: &EventSink, reads: bool, name: Name, granted: Granted) {
        let Granted { attempt, tokens, lasts, until, wanted } = granted;
        // A waiter that has left is notified too: the client releases the lease.
        self.leave(attempt);
        self.note_turn(&name);
        match reads {
            true => self.read(attempt, lasts),
            false => self.hold(lasts),
        }
        if wanted {
            self.note_waited_for(attempt);
        }
        let grant = Grant::new(tokens, Term::Offer(until), wanted);
        events.send(Event::Granted { name, attempt, grant });
    }
}
