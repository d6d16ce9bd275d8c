//! Acquires a lock: creates a node in the lock's queue; the first node of the queue holds the lock.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::backend::{AcquireRequest, Answer, Grant, Term};
use leasehold_core::{Deadline, Error, ErrorKind, Now, Result, Token, TokenBlock};
use zookeeper_client::{Error as ZkError, EventType, OneshotWatcher};

use crate::attempts::{Begun, Lease, OwnNode};
use crate::error::{foreign, from_zk, used_up};
use crate::path::{self, QueueNode};
use crate::session::Session;
use crate::store::Store;
use crate::{node_data, release};

/// The number of rounds in which the queue may change before the acquire fails.
const ROUNDS: usize = 32;
/// A waiter sends its request again after this time. Usually its watch fires earlier, because
/// watches survive reconnects. While the watch exists, the repeated request does not reach the server.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// An acquire request in progress.
struct Asking<'a> {
    store: &'a Arc<Store>,
    request: &'a AcquireRequest,
    session: Arc<Session>,
    /// The node of the lock.
    lock: String,
}

/// The result of one read of the queue.
enum Look {
    Answer(Answer),
    /// The queue has changed: read it again.
    Again,
}

/// Processes one acquire request.
pub(crate) async fn acquire(store: &Arc<Store>, request: &AcquireRequest) -> Result<Answer> {
    for _ in 0..ROUNDS {
        let session = store.session()?;
        let begun = store.book().begin(request.attempt, &request.name, session.number);
        let asking = Asking { store, request, session, lock: store.lock_path(&request.name) };
        let look = match begun {
            Begun::Ended => Look::Answer(Answer::Ended),
            Begun::Held(lease) => Look::Answer(granted(&lease, Term::Until(lease.until), false)),
            Begun::Watching => Look::Answer(queued(None)),
            Begun::Search => asking.search().await?,
            Begun::New => asking.create().await?,
            Begun::Queued(node) => {
                let nodes = asking.session.list(&asking.lock).await;
                let nodes = nodes.map_err(|error| store.failed(&request.name, error))?;
                asking.look(node, nodes, None).await?
            }
        };
        if let Look::Answer(answer) = look {
            return Ok(answer);
        }
    }
    Err(Error::new(
        ErrorKind::Unavailable,
        format!("the queue of the lock changed {ROUNDS} times while it was read; try again"),
    ))
}

impl Asking<'_> {
    /// Finds the node of a creation whose answer was lost; removes a node of an earlier session.
    async fn search(&self) -> Result<Look> {
        let nodes = self.session.list_now(&self.lock).await.map_err(|error| self.failed(error))?;
        let prefix = path::prefix(self.request.attempt);
        for node in nodes.iter().filter(|node| node.starts_with(&prefix)) {
            let path = format!("{}/{node}", self.lock);
            let stat = self.session.stat(&path).await.map_err(|error| self.failed(error))?;
            let Some(stat) = stat else { continue };
            if stat.ephemeral_owner == self.session.id() {
                let node = OwnNode { path, czxid: stat.czxid, session: self.session.number };
                self.store.book().set_node(self.request.attempt, node);
                return Ok(Look::Again);
            }
            self.session.delete(&path).await.map_err(|error| self.failed(error))?;
        }
        self.store.book().repeat(self.store.clock.now(), self.request.attempt);
        self.store.bell.notify_one();
        Ok(Look::Again)
    }

    /// Creates a node. An attempt that does not wait first reads the leader's state to see whether the
    /// lock is free.
    async fn create(&self) -> Result<Look> {
        let attempt = self.request.attempt;
        if !self.request.wait {
            let nodes = self.session.list_now(&self.lock).await;
            let nodes = nodes.map_err(|error| self.refused(error))?;
            if !self.queue(nodes).inspect_err(|_| self.store.book().forget(attempt))?.is_empty() {
                self.store.book().forget(attempt);
                return Ok(Look::Answer(Answer::Busy { ask_again: None }));
            }
        }
        let prefix = format!("{}/{}", self.lock, path::prefix(attempt));
        let sent = self.store.clock.now();
        let data = node_data::write(&self.request.origin);
        let send = || self.session.send_seat(&prefix, &self.lock, data);
        let Some(created) = self.store.book().create(attempt, send) else {
            return Ok(Look::Answer(Answer::Ended));
        };
        match self.session.answer(created).await {
            Ok(((stat, path), nodes)) => {
                if stat.ephemeral_owner != self.session.id() {
                    return Ok(Look::Again); // The next round finds the node.
                }
                self.session.note_verified(sent);
                let node = OwnNode { path, czxid: stat.czxid, session: self.session.number };
                match self.store.book().set_node(attempt, node.clone()) {
                    true => {}
                    false => return Ok(Look::Answer(Answer::Ended)),
                }
                let nodes = match nodes.map_err(|error| self.failed(error)) {
                    Ok(nodes) => nodes,
                    Err(error) => {
                        if error.kind().is_certain() {
                            self.leave().await;
                        }
                        return Err(error);
                    }
                };
                self.look(node, nodes, Some(sent)).await
            }
            Err(ZkError::NoNode) => {
                self.store.book().unseat(attempt);
                let made = self.session.make_container(&self.lock).await;
                made.map_err(|(error, path)| self.unusable(error, &path))?;
                Ok(Look::Again)
            }
            Err(error) => Err(self.refused(error)),
        }
    }

    /// Evaluates the queue for the attempt with this node. `sent` is set if the node was just created.
    async fn look(&self, node: OwnNode, nodes: Vec<String>, sent: Option<Now>) -> Result<Look> {
        let queue = match self.queue(nodes) {
            Ok(queue) => queue,
            Err(error) => {
                self.leave().await;
                return Err(error);
            }
        };
        let ours = |other: &QueueNode| {
            node.path
                .strip_prefix(&self.lock)
                .is_some_and(|node| node.get(1..) == Some(&other.node))
        };
        let Some(place) = queue.iter().position(ours) else {
            self.store.book().unseat(self.request.attempt);
            return Ok(Look::Again);
        };
        let Some(before) = place.checked_sub(1).and_then(|before| queue.get(before)) else {
            return self.claim(node, sent, queue.len() > 1).await;
        };
        if !self.request.wait {
            self.leave().await;
            return Ok(Look::Answer(Answer::Busy { ask_again: None }));
        }
        let before = format!("{}/{}", self.lock, before.node);
        let watcher = self.session.watch(&before).await.map_err(|error| self.failed(error))?;
        let Some(watcher) = watcher else { return Ok(Look::Again) };
        match self.store.book().arm(self.request.attempt, |number| self.wait_for(watcher, number)) {
            true => Ok(Look::Answer(queued(Some(place as u64 - 1)))),
            false => Ok(Look::Answer(Answer::Ended)),
        }
    }

    /// Starts a task that waits for the watch to fire.
    fn wait_for(&self, watcher: OneshotWatcher, number: u64) -> tokio::task::AbortHandle {
        let (store, attempt) = (Arc::downgrade(self.store), self.request.attempt);
        let task = tokio::spawn(async move {
            let event = watcher.changed().await;
            if event.event_type == EventType::Session {
                return; // The session has ended: all waiters are notified to ask again.
            }
            if let Some(store) = store.upgrade() {
                store.fired(attempt, number);
            }
        });
        task.abort_handle()
    }

    /// Grants the lock to the first in the queue, for as long as its session is known to last.
    async fn claim(&self, node: OwnNode, sent: Option<Now>, wanted: bool) -> Result<Look> {
        let (session, clock) = (&self.session, &self.store.clock);
        let Some(token) = u64::try_from(node.czxid).ok().and_then(Token::new) else {
            self.leave().await;
            return Err(used_up(&self.lock, node.czxid));
        };
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
        let lease = Lease { node, token, until, ends: Deadline::after(from, ttl) };
        if !self.store.book().hold(self.request.attempt, lease.clone()) {
            return Ok(Look::Answer(Answer::Ended));
        }
        self.store.due_at(lease.ends);
        let term = if offer { Term::Offer(until) } else { Term::Until(until) };
        Ok(Look::Answer(granted(&lease, term, wanted)))
    }

    /// Deletes the node of an attempt that does not wait, and forgets the attempt.
    async fn leave(&self) {
        release::leave(self.store, &self.request.name, self.request.attempt).await;
    }

    fn queue(&self, nodes: Vec<String>) -> Result<Vec<QueueNode>> {
        path::queue(nodes).map_err(|node| foreign(&format!("{}/{node}", self.lock), "exists"))
    }

    fn failed(&self, error: ZkError) -> Error {
        self.store.failed(&self.request.name, error)
    }

    /// Converts the error of a creation; records that no node was created if that is certain.
    fn refused(&self, error: ZkError) -> Error {
        let error = self.failed(error);
        if error.kind().is_certain() {
            self.store.book().forget(self.request.attempt);
        }
        error
    }

    fn unusable(&self, error: ZkError, path: &str) -> Error {
        self.store.book().forget(self.request.attempt);
        from_zk(error, path)
    }
}

fn granted(lease: &Lease, term: Term, wanted: bool) -> Answer {
    Answer::Granted(Grant::new(TokenBlock::single(lease.token), term, wanted))
}

fn queued(place: Option<u64>) -> Answer {
    Answer::Queued { place, ask_again: ASK_AGAIN }
}
