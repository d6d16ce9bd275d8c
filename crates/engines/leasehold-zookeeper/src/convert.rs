//! Turns the lease of a writer into one of a reader, or the other way round, in one transaction: another
//! node takes the place of the first one in the queue.

use std::sync::Arc;

use leasehold_core::backend::{ConvertRequest, Converted, Mode, Term};
use leasehold_core::proto::fifo::converted;
use leasehold_core::{Deadline, Now, Result, Token};
use zookeeper_client::Error as ZkError;

use crate::asking::grant;
use crate::attempts::{Conversion, Lease, OwnNode};
use crate::error::{ROUNDS, unsettled, used_up};
use crate::path::{self, QueueNode};
use crate::queue::Queue;
use crate::record::{Places, Record};
use crate::session::{Session, Stored};
use crate::store::Store;

use crate::{node_data, writer_watch};

/// A conversion in progress.
struct Converting<'a> {
    store: &'a Arc<Store>,
    request: &'a ConvertRequest,
    session: Arc<Session>,
    /// The node of the lock.
    lock: String,
}

/// Processes one request to convert a lease.
pub(crate) async fn convert(store: &Arc<Store>, request: &ConvertRequest) -> Result<Converted> {
    let lock = store.lock_path(&request.next.name);
    for _ in 0..ROUNDS {
        let session = store.session()?;
        let (end, next) = (&request.end, &request.next);
        let from = (end.attempt, end.base);
        let state = store.book().convert(from, next.attempt, &next.name, session.number);
        let converting = Converting { store, request, session, lock: lock.clone() };
        let answer = match state {
            Conversion::Done(lease) => converting.again(&lease).await.map(Some)?,
            Conversion::Over(held) => converting.is_over(held).await.map(Some)?,
            Conversion::Search(held) => match converting.search(&held).await? {
                Some(answer) => Some(answer),
                None => converting.convert(&held, true).await?,
            },
            Conversion::New(held) => converting.convert(&held, false).await?,
        };
        if let Some(answer) = answer {
            return Ok(answer);
        }
    }
    Err(unsettled(ROUNDS))
}

impl Converting<'_> {
    fn reads(&self) -> bool {
        self.request.next.mode == Mode::Shared
    }

    /// Returns the name of the node of a lease.
    fn name_of<'a>(&self, lease: &'a Lease) -> &'a str {
        lease.node.path.strip_prefix(&self.lock).and_then(|node| node.get(1..)).unwrap_or_default()
    }

    /// Converts the lease, unless it must be refused. `unanswered`: an earlier copy of the request may
    /// still arrive. `None` if the queue has changed meanwhile.
    async fn convert(&self, held: &Lease, unanswered: bool) -> Result<Option<Converted>> {
        let Some(from) = QueueNode::parse(self.name_of(held)) else { return Ok(Some(self.lost())) };
        if from.reads == self.reads() {
            return Ok(Some(self.lost()));
        }
        let queue = Queue::now(&self.session, &self.lock).await?;
        let Some((place, _)) = queue.place(&from.node) else {
            // A copy of this request was executed meanwhile, or the node was removed.
            return if unanswered { Ok(None) } else { Ok(Some(self.lost())) };
        };
        let Some(record) = queue.record(&self.session, &self.lock).await? else { return Ok(None) };
        let Some(stat) = queue.stat else { return Ok(None) };
        if from.reads && queue.nodes.len() > 1 {
            return self.refuse(held, &queue, record, unanswered).await;
        }
        let places = Places(from.number);
        let Some(new) = converted(record.and_then(|record| record.phase(places)), held.token, 0)
        else {
            return Err(used_up(&self.lock, held.node.czxid));
        };
        let attempt = self.request.next.attempt;
        let to = from.replaced_by(attempt, self.request.next.mode);
        let to = format!("{}/{to}", self.lock);
        let record = Record::of(new, places, &stat).written();
        let data = node_data::write(&self.request.next);
        let sent = self.store.clock.now();
        let send = || {
            let nodes = (&*held.node.path, &*to);
            self.session.send_conversion(nodes, &data, (&self.lock, &record, stat.version))
        };
        let Some(sending) = self.store.book().create(attempt, send) else {
            return Ok(Some(Converted::Lost));
        };
        match sending.await {
            Ok(Stored::Done(czxid)) => {
                let node = OwnNode { path: to, czxid, session: self.session.number };
                Ok(Some(self.done(node, new.token, sent, queue.is_wanted(place))))
            }
            Ok(Stored::Changed | Stored::Gone) => {
                if !unanswered {
                    self.store.book().unseat(attempt);
                }
                Ok(None)
            }
            Err(error) => Err(self.failed(error, unanswered)),
        }
    }

    /// Enters the new lease. `wanted`: a client waits behind it.
    fn done(&self, node: OwnNode, token: Token, sent: Now, wanted: bool) -> Converted {
        let (store, next) = (self.store, &self.request.next);
        let ttl = next.ttl.min(self.session.term());
        let (until, ends) = (self.session.valid_until(sent, ttl), Deadline::after(sent, ttl));
        let lease = Lease { node, token, until, ends, slots: Vec::new() };
        let (now, from) = (store.clock.now(), self.request.end.attempt);
        if !store.book().converted(now, from, next.attempt, lease.clone()) {
            store.bell.notify_one();
            return Converted::Lost;
        }
        store.due_at(ends);
        if self.reads() && !wanted {
            writer_watch::start(store, &next.name, next.attempt);
        }
        Converted::Granted(grant(&lease, Term::Until(until), wanted))
    }

    /// Finds out whether a request without an answer was executed; `None` if it was not, but may still
    /// arrive.
    async fn search(&self, held: &Lease) -> Result<Option<Converted>> {
        for _ in 0..ROUNDS {
            let queue = Queue::now(&self.session, &self.lock).await?;
            let stem = path::stem(self.request.next.attempt);
            let Some(place) = queue.nodes.iter().position(|node| node.node.starts_with(&stem))
            else {
                let waits = queue.place(self.name_of(held)).is_some();
                return Ok(if waits { None } else { Some(self.lost()) });
            };
            let Some(own) = queue.nodes.get(place) else { continue };
            let Some(record) = queue.record(&self.session, &self.lock).await? else { continue };
            let token = record.filter(|record| record.is_for(own.number));
            let Some(token) = token.and_then(|record| record.token()) else {
                return Ok(Some(self.lost()));
            };
            let path = format!("{}/{}", self.lock, own.node);
            let stat = self.session.stat(&path).await.map_err(|error| self.unknown(error))?;
            let Some(stat) = stat.filter(|stat| stat.ephemeral_owner == self.session.id()) else {
                return Ok(Some(self.lost()));
            };
            let sent = self.store.clock.now();
            let gone = self.session.check(&[&path]).await.map_err(|error| self.unknown(error))?;
            if gone.is_some() {
                return Ok(Some(self.lost()));
            }
            let node = OwnNode { path, czxid: stat.czxid, session: self.session.number };
            return Ok(Some(self.done(node, token, sent, queue.is_wanted(place))));
        }
        Err(unsettled(ROUNDS))
    }

    /// Refuses an upgrade beside other nodes. A copy of the request that arrives later finds another
    /// version of the record.
    async fn refuse(
        &self,
        held: &Lease,
        queue: &Queue,
        record: Option<Record>,
        unanswered: bool,
    ) -> Result<Option<Converted>> {
        if let (true, Some(record), Some(stat)) = (unanswered, record, queue.stat) {
            let (own, data) = (&held.node.path, record.written());
            let sealing = self.session.send_record(own, &self.lock, &data, stat.version);
            match sealing.await.map_err(|error| self.unknown(error))? {
                Stored::Done(_) | Stored::Changed => {}
                Stored::Gone => return Ok(None),
            }
            // It may have been executed before.
            if let Some(answer) = self.search(held).await? {
                return Ok(Some(answer));
            }
        }
        self.store.book().refuse(self.store.clock.now(), self.request.next.attempt);
        Ok(Some(Converted::Refused { wanted: queue.has_writer() }))
    }

    /// Answers a request for a conversion that has failed or was refused before.
    async fn is_over(&self, held: Option<Lease>) -> Result<Converted> {
        let reads = |lease: &Lease| QueueNode::parse(self.name_of(lease)).is_some_and(|n| n.reads);
        match held.filter(|lease| !self.reads() && reads(lease)) {
            Some(_) => {
                let queue = Queue::now(&self.session, &self.lock).await?;
                Ok(Converted::Refused { wanted: queue.has_writer() })
            }
            None => Ok(Converted::Lost),
        }
    }

    /// Answers a repeated request.
    async fn again(&self, lease: &Lease) -> Result<Converted> {
        let queue = Queue::now(&self.session, &self.lock).await?;
        let wanted = queue.place(self.name_of(lease)).is_some_and(|(at, _)| queue.is_wanted(at));
        Ok(Converted::Granted(grant(lease, Term::Until(lease.until), wanted)))
    }

    /// Ends the new attempt: there is nothing left to convert.
    fn lost(&self) -> Converted {
        self.store.book().give_up(self.store.clock.now(), self.request.next.attempt);
        self.store.bell.notify_one();
        Converted::Lost
    }

    fn unknown(&self, error: ZkError) -> leasehold_core::Error {
        self.store.failed(&self.request.next.name, error)
    }

    /// Converts the error of a conversion; records that it was not executed if that is certain.
    fn failed(&self, error: ZkError, unanswered: bool) -> leasehold_core::Error {
        let error = self.unknown(error);
        if error.kind().is_certain() && !unanswered {
            self.store.book().unseat(self.request.next.attempt);
        }
        error
    }
}
