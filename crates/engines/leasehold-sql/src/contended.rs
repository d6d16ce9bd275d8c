//! The packets for a contended lock on MySQL and MariaDB: one queues for it, one hands it on.
//!
//! They do what the functions of PostgreSQL do, see [`routines`](crate::routines): the usual steps of the record, in one
//! packet, between writers of which all are alive. Other steps are left to the record. Each packet first locks the
//! row, so what its next statements read fits together.
//!
//! A statement sees in the tables whether the one before it wrote: `ROW_COUNT()` is not 1 if the client's connection was
//! reset while that one ran, but MariaDB executes the packet to its end and commits it.

use std::time::Duration;

use leasehold_core::backend::{AcquireRequest, Answer, ReleaseRequest};
use leasehold_core::proto::handoff::{OFFER, TOKEN_LEAD};
use leasehold_core::{Deadline, Token};

use crate::connection::Reply;
use crate::dialect::Packet;
use crate::error::{Fault, What};
use crate::pool::Lane;
use crate::record::{PATIENCE, client_number, nobody, us};
use crate::routines::{FREED, HANDED_ON_HERE};
use crate::store::Store;
use crate::stored_origin::stored_origin;
use crate::tables::Tables;
use crate::take_statement::{granted, plain_take, queued};

impl Store {
    /// Takes a free lock, or queues for it; `None` if a step is needed.
    pub(crate) async fn take_or_queue(
        &self,
        request: &AcquireRequest,
        until: Deadline,
    ) -> leasehold_core::Result<Option<Answer>> {
        let Tables { dialect, locks, waiters, read_waiters, .. } = &self.tables;
        let (name, attempt) = (
            dialect.bytes(request.name.as_str().as_bytes()),
            dialect.bytes(&request.attempt.to_bytes()),
        );
        let (clock, stamp, patience) = (dialect.now(), self.stamp(), us(PATIENCE));
        let person = dialect.bytes(stored_origin(&request.origin).as_bytes());
        let (client, ttl_us) = (client_number(request.attempt.client()), us(request.ttl));
        let (tokens, nobody) = (request.tokens.max(1), dialect.bytes(&nobody().to_bytes()));
        let queue = format!(
            "INSERT INTO {waiters} (attempt, name, ticket, client, holder, ttl_us, tokens, person, asked_us, seen_us) \
             SELECT {attempt}, l.name, l.ticket + 1, {client}, \
             CAST(CONV(HEX(SUBSTRING(l.attempt, 1, 8)), 16, -10) AS SIGNED), {ttl_us}, {tokens}, {person}, {clock}, \
             {clock} FROM {locks} l WHERE l.name = {name} AND l.state = 1 AND l.until_us > {clock} \
             AND l.ended_us <= {clock} AND l.attempt NOT IN ({attempt}, {nobody}) \
             AND NOT EXISTS (SELECT 1 FROM {read_waiters} r WHERE r.name = {name}) \
             AND NOT EXISTS (SELECT 1 FROM {waiters} w WHERE w.name = {name} \
             AND (w.attempt = {attempt} OR w.seen_us <= {clock} - {patience}))"
        );
        let mark = format!(
            "UPDATE {locks} SET stamp = {stamp}, line = 1, ticket = ticket + 1 WHERE name = {name} \
             AND attempt <> {attempt} AND EXISTS (SELECT 1 FROM {waiters} w WHERE w.attempt = {attempt} AND w.name = {name} \
             AND w.ticket = {locks}.ticket + 1)"
        );
        let look = format!(
            "SELECT l.until_us - {clock}, (SELECT COUNT(*) FROM {waiters} w WHERE w.name = {name}) \
             FROM {locks} l WHERE l.name = {name} AND l.stamp = {stamp} AND l.attempt <> {attempt}"
        );
        let take = plain_take(&self.tables, request, stamp);
        // A repetition could take the lock again for an attempt that has ended since.
        let packet = Packet { once: true, ..dialect.atomic(&[take, queue, mark, look]) };
        let Some(replies) = unless_older(self.run(Lane::Usual, &packet, until).await)? else {
            return Ok(None);
        };
        let [taken, _, _, look, ..] = replies.as_slice() else { return Ok(None) };
        if let Some(answer) = granted(taken.id, request)? {
            return Ok(Some(answer));
        }
        let Some([left_us, waiting]) = look.rows.first().map(Vec::as_slice) else {
            return Ok(None);
        };
        let left = Duration::from_micros(left_us.number()?.try_into().unwrap_or(0));
        Ok(Some(queued(waiting.unsigned()?.saturating_sub(1), left)))
    }

    /// Releases a live lease, and hands the lock on if clients wait. Returns 0 if a step is needed, or if a request
    /// that is `open` may have done it; otherwise what was done, as the function of PostgreSQL says it.
    pub(crate) async fn hand_on(
        &self,
        release: &ReleaseRequest,
        until: Deadline,
        open: &mut bool,
    ) -> leasehold_core::Result<i64> {
        let Some(free) = self.plain_free(release) else { return Ok(0) };
        let Tables { dialect, locks, waiters, read_waiters, .. } = &self.tables;
        let (clock, stamp, patience) = (dialect.now(), free.stamp, us(PATIENCE));
        let (lead, max, offer) = (TOKEN_LEAD, Token::MAX.get(), us(OFFER));
        let (name, attempt, base) = (&free.name, &free.attempt, free.base);
        let top = free.last.map_or_else(|| "top".to_owned(), |last| last.to_string());
        let new_base = format!("GREATEST({top} + 1, {clock})");
        let packet = dialect.atomic(&[
            format!("SELECT stamp FROM {locks} WHERE name = {name} FOR UPDATE"),
            free.statement(&self.tables),
            "SET @leasehold_next = NULL".to_owned(),
            format!(
                "SELECT w.attempt, w.person, w.ttl_us, w.tokens \
                 INTO @leasehold_next, @leasehold_person, @leasehold_ttl, @leasehold_tokens \
                 FROM {locks} l JOIN {waiters} w ON w.name = l.name WHERE l.name = {name} AND l.attempt = {attempt} \
                 AND l.base = {base} AND l.state = 1 AND l.line = 1 AND l.until_us > {clock} \
                 AND NOT EXISTS (SELECT 1 FROM {read_waiters} r WHERE r.name = {name}) \
                 AND NOT EXISTS (SELECT 1 FROM {waiters} d WHERE d.name = {name} AND d.seen_us <= {clock} - {patience}) \
                 ORDER BY w.ticket LIMIT 1"
            ),
            // No value depends on whether the columns before it are set already, which is a setting of the server.
            format!(
                "UPDATE {locks} SET stamp = {stamp}, base = {new_base}, \
                 top = {new_base} - 1 + LEAST(@leasehold_tokens, GREATEST(1, {clock} + {lead} - {new_base})), \
                 attempt = @leasehold_next, person = @leasehold_person, \
                 until_us = {clock} + LEAST(@leasehold_ttl, {offer}), since_us = {clock}, confirmed = 0, \
                 line = EXISTS (SELECT 1 FROM {waiters} w WHERE w.name = {name} AND w.attempt <> @leasehold_next) \
                 WHERE name = {name} AND @leasehold_next IS NOT NULL \
                 AND {new_base} + @leasehold_tokens <= {max}"
            ),
            format!(
                "DELETE FROM {waiters} WHERE attempt = @leasehold_next AND EXISTS \
                 (SELECT 1 FROM {locks} l WHERE l.name = {name} AND l.stamp = {stamp} AND l.attempt = @leasehold_next)"
            ),
        ]);
        let sent = self.run_open(Lane::Usual, &packet, until, open).await;
        let Some(replies) = unless_older(sent)? else { return Ok(0) };
        let [_, freed, _, _, handed, ..] = replies.as_slice() else { return Ok(0) };
        Ok(match (freed.affected, handed.affected) {
            (1, _) => FREED,
            (_, 1) => HANDED_ON_HERE,
            _ => 0,
        })
    }
}

/// Returns `None` if nothing was done since older tables lack the one of readers that wait.
fn unless_older(replies: Result<Vec<Reply>, Fault>) -> Result<Option<Vec<Reply>>, Fault> {
    match replies {
        Err(fault) if fault.what == What::NoTable => Ok(None),
        replies => replies.map(Some),
    }
}
