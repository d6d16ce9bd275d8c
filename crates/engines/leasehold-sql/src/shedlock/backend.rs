//! The `Backend` of locks in the table of ShedLock.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use leasehold_core::backend::wire::{only_exclusive, only_locks, only_release};
use leasehold_core::backend::{
    AcquireRequest, Answer, Backend, BoxFuture, Ended, EventSink, Grant, ReleaseRequest, Renewal,
    Renewed, Term, Verdict,
};
use leasehold_core::{
    AttemptId, Capability, ClientId, Error, ErrorKind, Forced, LeaseKind, Name, Result, Status,
    Token, TokenBlock,
};

use super::attempts::Attempts;
use super::columns::Found;
use super::row::Row;
use crate::acquire::time_fits;
use crate::backend::{LIMITS, limit};
use crate::connection::Reply;
use crate::pool::Lane;
use crate::shedlock_table::{ShedLockTable, locked_by};
use crate::store::Store;

/// When an attempt that ended while a request was unanswered is ended again: the request may arrive late.
const AGAIN: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(6)];

/// How often one request looks again at a lock that has just ended.
const ROUNDS: usize = 4;

/// A waiter asks at the end of a lease that ends so soon.
const SOON: Duration = Duration::from_millis(250);

/// The connections of one client to a database with a table of ShedLock (`?wire=shedlock`).
///
/// Waiters poll: ShedLock sends no message when it releases a lock, and keeps no queue. Rows are never deleted, because
/// ShedLock remembers which rows exist.
#[derive(Debug)]
pub struct ShedLockBackend {
    store: Arc<Store>,
    table: Arc<ShedLockTable>,
    found: Found,
    place: String,
    capability: Capability,
    attempts: Attempts,
}

impl ShedLockBackend {
    pub(crate) fn new(store: Store, table: ShedLockTable, found: Found, place: String) -> Self {
        let mut capability = Capability::new(table.dialect.engine(), LeaseKind::Ttl);
        capability.list = true;
        capability.force_release = true;
        capability.answers_within = Some(LIMITS.1);
        only_locks(&mut capability);
        let (store, table) = (Arc::new(store), Arc::new(table));
        Self { store, table, found, place, capability, attempts: Attempts::default() }
    }

    /// Sends statements, of which none depends on the answer to another.
    async fn run(&self, lane: Lane, statements: &[String], within: Duration) -> Result<Vec<Reply>> {
        Ok(self.run_open(lane, statements, within).await?.0)
    }

    /// Does the same, and returns whether they may have been carried out twice.
    async fn run_open(
        &self,
        lane: Lane,
        statements: &[String],
        within: Duration,
    ) -> Result<(Vec<Reply>, bool)> {
        let packet = self.table.dialect.plain(statements);
        let mut open = false;
        let until = self.store.within(within);
        let replies = self.store.run_open(lane, &packet, until, &mut open).await?;
        Ok((replies, open))
    }

    /// Refuses a name that the column cannot hold.
    fn fits(&self, name: &Name) -> Result<()> {
        let letters = name.as_str().chars().count() as u64;
        match self.found.longest.filter(|longest| letters > *longest) {
            None => Ok(()),
            Some(longest) => Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "name: has {letters} characters, and the column of ShedLock's table {longest}; use a shorter name"
                ),
            )),
        }
    }

    async fn ask(&self, request: &AcquireRequest) -> Result<Answer> {
        only_exclusive(request)?;
        time_fits("ttl", request.ttl)?;
        let AcquireRequest { name, attempt, ttl, .. } = request;
        self.fits(name)?;
        if self.attempts.ended(*attempt).is_some() {
            return Ok(Answer::Ended);
        }
        let holder = request.origin.holder(*attempt);
        let me = locked_by(*attempt, holder.pid, &holder.host, self.found.widest);
        let mut statements = self.table.take_free(name, &me, micros(*ttl));
        statements.push(self.table.read(name));
        for _ in 0..ROUNDS {
            let replies = self.run(Lane::Usual, &statements, limit(*ttl)).await?;
            let row = Row::all(replies.last())?.into_iter().next();
            // It has ended since the first statement.
            let Some(row) = row.filter(Row::is_held) else { continue };
            if row.is_by(*attempt) {
                // A lease that an earlier request took counts from this one.
                let taking = replies.split_last().map_or(&[][..], |(_, taking)| taking);
                if taking.iter().all(|reply| reply.affected == 0) {
                    let extend = self.table.extend(name, *attempt, micros(*ttl));
                    if !affected(&self.run(Lane::Usual, &[extend], limit(*ttl)).await?) {
                        continue;
                    }
                }
                return self.granted(name, *attempt, row.token()?).await;
            }
            row.check()?;
            let left = row.left();
            if left > Duration::from_micros(self.found.tick_us) {
                // The client's own schedule looks more often, except shortly before the end.
                let left = Some(left + Duration::from_millis(1)).filter(|left| *left < SOON);
                return Ok(Answer::Busy { ask_again: left });
            }
            // It was released in the tick in which it was taken.
            self.store.clock.sleep(left).await;
        }
        Ok(Answer::Busy { ask_again: None })
    }

    /// Returns the grant, unless the attempt has ended meanwhile.
    async fn granted(&self, name: &Name, attempt: AttemptId, token: Token) -> Result<Answer> {
        if self.attempts.ended(attempt).is_some() {
            self.unlock(name, attempt).await?;
            return Ok(Answer::Ended);
        }
        Ok(Answer::Granted(Grant::new(TokenBlock::single(token), Term::Ttl, false)))
    }

    async fn renew_one(&self, lease: &Renewal) -> Result<Renewed> {
        time_fits("ttl", lease.ttl)?;
        let extend = self.table.extend(&lease.name, lease.attempt, micros(lease.ttl));
        let replies = self.run(Lane::Renewal, &[extend], limit(lease.ttl)).await?;
        Ok(if affected(&replies) { Renewed::Renewed } else { Renewed::Lost })
    }

    /// Ends the lock of an attempt. Returns what the table said, and whether an earlier request may have ended it.
    async fn unlock(&self, name: &Name, attempt: AttemptId) -> Result<(bool, bool)> {
        let unlock = self.table.unlock(name, attempt, self.found.tick_us);
        let (replies, open) = self.run_open(Lane::Usual, &[unlock], LIMITS.1).await?;
        Ok((affected(&replies), open))
    }

    async fn end(&self, release: &ReleaseRequest) -> Result<Ended> {
        only_release(release)?;
        let ReleaseRequest { name, attempt, base, suspect, .. } = release;
        if let Some(verdict) =
            self.attempts.ended(*attempt).filter(|verdict| *verdict != Verdict::Unknown)
        {
            return Ok(Ended::new(verdict, None));
        }
        // From now on no acquire of this attempt is granted here.
        self.attempts.end(*attempt, Verdict::Unknown, &self.store.clock);
        let verdict = match self.unlock(name, *attempt).await? {
            (true, _) => Verdict::Released,
            _ if base.is_none() => Verdict::Gone,
            (false, true) => Verdict::Unknown,
            (false, false) => Verdict::Lost,
        };
        self.attempts.end(*attempt, verdict, &self.store.clock);
        if *suspect {
            self.end_again(name.clone(), *attempt);
        }
        Ok(Ended::new(verdict, None))
    }

    /// Ends an attempt again later: a request of it may still be on its way to the database.
    fn end_again(&self, name: Name, attempt: AttemptId) {
        let (store, table) = (self.store.clone(), self.table.clone());
        let tick_us = self.found.tick_us;
        tokio::spawn(async move {
            for pause in AGAIN {
                store.clock.sleep(pause).await;
                let packet = table.dialect.plain(&[table.unlock(&name, attempt, tick_us)]);
                if let Err(fault) = store.run(Lane::Usual, &packet, store.within(LIMITS.1)).await {
                    tracing::debug!(%name, error = %fault.error, "cannot end a late request");
                }
            }
        });
    }

    async fn look(&self, name: &Name) -> Result<Status> {
        self.fits(name)?;
        let replies = self.run(Lane::Usual, &[self.table.read(name)], LIMITS.1).await?;
        let row = Row::all(replies.last())?.into_iter().next();
        Ok(row.map_or_else(|| Status::free(name), |row| row.status(name)))
    }

    async fn rows(&self, prefix: &str, limit: usize) -> Result<Vec<Status>> {
        let replies = self.run(Lane::Usual, &[self.table.list(prefix, limit)], LIMITS.1).await?;
        let rows = Row::all(replies.last())?;
        // The collation of the column may find others similar.
        let fits = rows.iter().filter(|row| row.name.starts_with(prefix));
        let status = |row: &Row| Name::new(&row.name).ok().map(|name| row.status(&name));
        Ok(fits.filter_map(status).collect())
    }

    async fn force(&self, name: &Name, token: Token) -> Result<Forced> {
        self.fits(name)?;
        let statements = [self.table.force(name, token, self.found.tick_us), self.table.read(name)];
        let replies = self.run(Lane::Usual, &statements, LIMITS.1).await?;
        if affected(&replies) {
            return Ok(Forced::Ended);
        }
        let row = Row::all(replies.last())?.into_iter().next();
        match row.filter(|row| row.is_held() && row.by.starts_with("leasehold:")) {
            Some(row) => Ok(Forced::Other(row.token()?)),
            None => Ok(Forced::NotHeld),
        }
    }
}

fn affected(replies: &[Reply]) -> bool {
    replies.first().is_some_and(|reply| reply.affected > 0)
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Backend for ShedLockBackend {
    fn capability(&self) -> &Capability {
        &self.capability
    }

    fn place(&self) -> String {
        format!("{} ({})", self.place, self.table.table)
    }

    fn warnings(&self) -> &[String] {
        &self.found.warnings
    }

    fn attach(&self, _client: ClientId, _events: EventSink) {}

    fn acquire(&self, request: AcquireRequest) -> BoxFuture<'_, Result<Answer>> {
        Box::pin(async move { self.ask(&request).await })
    }

    fn renew<'a>(&'a self, leases: &'a [Renewal]) -> BoxFuture<'a, Vec<Result<Renewed>>> {
        Box::pin(join_all(leases.iter().map(|lease| self.renew_one(lease))))
    }

    fn release(&self, release: ReleaseRequest) -> BoxFuture<'_, Result<Ended>> {
        Box::pin(async move { self.end(&release).await })
    }

    fn status<'a>(&'a self, name: &'a Name) -> BoxFuture<'a, Result<Status>> {
        Box::pin(self.look(name))
    }

    fn list<'a>(&'a self, prefix: &'a str, limit: usize) -> BoxFuture<'a, Result<Vec<Status>>> {
        Box::pin(self.rows(prefix, limit))
    }

    fn force_release<'a>(&'a self, name: &'a Name, token: Token) -> BoxFuture<'a, Result<Forced>> {
        Box::pin(self.force(name, token))
    }
}
