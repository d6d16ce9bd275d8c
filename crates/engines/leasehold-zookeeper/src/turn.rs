//! Evaluates the queue for an attempt with a node: it waits, or its turn has come and it gets its token.

use std::sync::Arc;

use leasehold_core::backend::{Answer, Mode, Term};
use leasehold_core::proto::fifo::{PhaseRecord, TurnToken};
use leasehold_core::{Deadline, Now, Result, Token};
use zookeeper_client::{EventType, WatchedEvent};

use crate::asking::{Asking, Look, granted, queued};
use crate::attempts::{Lease, OwnNode};
use crate::error::{from_zk, used_up};
use crate::format::Format;
use crate::queue::Queue;
use crate::record::{Places, Record};
use crate::session::{Listed, Stored};
use crate::writer_watch;

impl Asking<'_> {
    /// Evaluates the queue for the attempt with this node. `sent` is set if the node was just created.
    pub(crate) async fn look(
        &self,
        node: OwnNode,
        listed: Option<Listed>,
        sent: Option<Now>,
    ) -> Result<Look> {
        if self.removed_expired(&listed).await? {
            return Ok(Look::Again);
        }
        let format = self.store.format();
        let queue = match Queue::alone(&self.session, listed, &self.lock, format).await {
            Ok(queue) => queue,
            Err(error) => {
                if error.kind().is_certain() {
                    self.leave().await;
                }
                return Err(error);
            }
        };
        let own = node.path.strip_prefix(&self.lock).and_then(|node| node.get(1..));
        let Some((place, blocks)) = own.and_then(|own| queue.place(own)) else {
            self.store.book().unseat(self.request.attempt);
            return Ok(Look::Again);
        };
        let Some(before) = blocks else {
            return self.enter(node, &queue, place, sent).await;
        };
        if !self.request.wait {
            self.leave().await;
            return Ok(Look::Answer(Answer::Busy { ask_again: None }));
        }
        let before = format!("{}/{before}", self.lock);
        let watcher = match format {
            Format::Own => self.session.watch(&before).await,
            Format::Curator | Format::Kazoo => self.session.watch_data(&before).await,
        };
        let watcher = match watcher.map_err(|error| from_zk(error, &before)) {
            Ok(Some((_, watcher))) => watcher,
            Ok(None) => return Ok(Look::Again),
            Err(error) => {
                if error.kind().is_certain() {
                    self.leave().await;
                }
                return Err(error);
            }
        };
        match self
            .store
            .book()
            .arm(self.request.attempt, |number| self.wait_for(watcher.changed(), number))
        {
            true => Ok(Look::Answer(queued(Some((place as u64).saturating_sub(1))))),
            false => Ok(Look::Answer(Answer::Ended)),
        }
    }

    /// Starts a task that waits for a watch to fire.
    pub(crate) fn wait_for(
        &self,
        fires: impl Future<Output = WatchedEvent> + Send + 'static,
        number: u64,
    ) -> tokio::task::AbortHandle {
        let (store, attempt) = (Arc::downgrade(self.store), self.request.attempt);
        let task = tokio::spawn(async move {
            let event = fires.await;
            if event.event_type == EventType::Session {
                return; // The session has ended: all waiters are notified to ask again.
            }
            if let Some(store) = store.upgrade() {
                store.fired(attempt, number);
            }
        });
        task.abort_handle()
    }

    /// Finds the token of the attempt whose turn has come, and registers it where that is needed.
    async fn enter(
        &self,
        node: OwnNode,
        queue: &Queue,
        place: usize,
        sent: Option<Now>,
    ) -> Result<Look> {
        let created = u64::try_from(node.czxid).ok().and_then(Token::new);
        let Some((created, (places, turn))) =
            created.and_then(|created| Some((created, queue.turn(place, created)?)))
        else {
            self.leave().await;
            return Err(used_up(&self.lock, node.czxid));
        };
        let wanted = queue.is_wanted(place);
        let changed = queue.stat.map_or(0, |stat| stat.mzxid);
        // The token of a record is not above the transaction that stored it.
        if self.request.mode == Mode::Exclusive && changed < node.czxid {
            return self.claim(node, (created, Vec::new()), sent, wanted).await;
        }
        let record = match queue.record(&self.session, &self.lock).await {
            Ok(Some(record)) => record.and_then(|record| record.phase(places)),
            Ok(None) => return Ok(Look::Again),
            Err(error) => {
                if error.kind().is_certain() {
                    self.leave().await;
                }
                return Err(error);
            }
        };
        // What was stored before the node was created is not for it, however far the numbers went on.
        let record = record.map(|record| match changed < node.czxid && record.last >= 0 {
            true => PhaseRecord { last: i64::MIN, ..record },
            false => record,
        });
        match turn.token(record) {
            Some(TurnToken::Has(token)) => {
                self.claim(node, (token, Vec::new()), sent, wanted).await
            }
            Some(TurnToken::Register(new)) => self.register(node, new, places, queue, wanted).await,
            None => {
                self.leave().await;
                Err(used_up(&self.lock, node.czxid))
            }
        }
    }

    /// Stores the token of a phase, and claims the lock with it.
    async fn register(
        &self,
        node: OwnNode,
        new: PhaseRecord<i64>,
        places: Places,
        queue: &Queue,
        wanted: bool,
    ) -> Result<Look> {
        let Some(stat) = queue.stat else { return Ok(Look::Again) };
        let record = Record::of(new, places, &stat).written();
        let sent = self.store.clock.now();
        let storing = self.session.send_record(&node.path, &self.lock, &record, stat.version);
        match storing.await {
            Ok(Stored::Done(_)) => {
                self.claim(node, (new.token, Vec::new()), Some(sent), wanted).await
            }
            Ok(Stored::Changed) => Ok(Look::Again),
            Ok(Stored::Gone) => {
                self.store.book().unseat(self.request.attempt);
                Ok(Look::Again)
            }
            Err(error) => {
                let error = self.failed(error);
                if error.kind().is_certain() {
                    self.leave().await;
                }
                Err(error)
            }
        }
    }

    /// Grants the lock with this token, or these slots, for as long as its session is known to last.
    pub(crate) async fn claim(
        &self,
        node: OwnNode,
        (token, slots): (Token, Vec<u32>),
        sent: Option<Now>,
        wanted: bool,
    ) -> Result<Look> {
        let (session, clock) = (&self.session, &self.store.clock);
        let now = clock.now();
        let ttl = self.request.ttl.min(session.term());
        let (until, from, offer) = match (sent, session.verified_until(now)) {
            (Some(sent), _) => (session.valid_until(sent, ttl), sent, false),
            // An offer is enough for a short hold; a longer one is renewed immediately.
            (None, Some(verified)) => (verified.min(session.valid_until(now, ttl)), now, true),
            (None, None) => {
                let gone = session.check(&[&node.path]).await;
                if gone.map_err(|error| self.failed(error))?.is_some() {
                    self.store.book().unseat(self.request.attempt);
                    return Ok(Look::Again);
                }
                (session.valid_until(now, ttl), now, false)
            }
        };
        let lease = Lease { node, token, until, ends: Deadline::after(from, ttl), slots };
        if !self.store.book().hold(self.request.attempt, lease.clone()) {
            return Ok(Look::Answer(Answer::Ended));
        }
        self.store.due_at(lease.ends);
        if self.request.mode == Mode::Shared && !wanted {
            writer_watch::start(self.store, &self.request.name, self.request.attempt);
        }
        let term = if offer { Term::Offer(until) } else { Term::Until(until) };
        Ok(Look::Answer(granted(&lease, term, wanted)))
    }
}
