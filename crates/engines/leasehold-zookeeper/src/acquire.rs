//! Acquires a lock: creates a node in the lock's queue, and finds it again if the answer was lost.

use std::sync::Arc;

use leasehold_core::backend::{AcquireRequest, Answer, Mode, Term};
use leasehold_core::{Error, Result};
use zookeeper_client::Error as ZkError;

use crate::asking::{Asking, Look, granted, queued};
use crate::attempts::{Begun, Line, OwnNode};
use crate::error::{ROUNDS, from_zk, unsettled};
use crate::node_data;
use crate::queue::Queue;
use crate::store::Store;

/// Processes one acquire request.
pub(crate) async fn acquire(store: &Arc<Store>, request: &AcquireRequest) -> Result<Answer> {
    let line = Line::of(request);
    // The limit that a waiter expected when it came is compared only then.
    let mut is_new = false;
    for _ in 0..ROUNDS {
        let session = store.session()?;
        let begun = store.book().begin(request.attempt, &line, session.number);
        let asking = Asking { store, request, session, lock: store.parent(&line) };
        let look = match begun {
            Begun::Ended => Look::Answer(Answer::Ended),
            Begun::Held(lease) => Look::Answer(granted(&lease, Term::Until(lease.until), false)),
            Begun::Search => {
                is_new = true;
                asking.search().await?
            }
            Begun::New if line.permits => asking.create_permit().await?,
            Begun::Queued(node) | Begun::Watching(node) if line.permits => {
                asking.look_for_slots(node, is_new).await?
            }
            Begun::Watching(_) => Look::Answer(queued(None)),
            Begun::New => asking.create().await?,
            Begun::Queued(node) => {
                let listed = asking.session.queue(&asking.lock).await;
                let listed = listed.map_err(|error| store.failed(&request.name, error))?;
                asking.look(node, listed, None).await?
            }
        };
        if let Look::Answer(answer) = look {
            return Ok(answer);
        }
    }
    Err(unsettled(ROUNDS))
}

impl Asking<'_> {
    /// Finds the node of a creation whose answer was lost; removes a node of an earlier session.
    async fn search(&self) -> Result<Look> {
        let nodes = self.session.list_now(&self.lock).await.map_err(|error| self.failed(error))?;
        let prefix = self.store.format().stem(self.request.attempt);
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
            let listed = self.session.queue_now(&self.lock).await;
            let listed = listed.map_err(|error| self.refused(error))?;
            if self.removed_expired(&listed).await? {
                return Ok(Look::Again);
            }
            let format = self.store.format();
            let queue = Queue::alone(&self.session, listed, &self.lock, format).await;
            let queue = queue.inspect_err(|_| self.store.book().forget(attempt))?;
            let is_free = match self.request.mode {
                Mode::Shared => !queue.has_writer(),
                _ => queue.is_empty(),
            };
            if !is_free {
                self.store.book().forget(attempt);
                return Ok(Look::Answer(Answer::Busy { ask_again: None }));
            }
        }
        let format = self.store.format();
        let prefix = format!("{}/{}", self.lock, format.prefix(attempt, self.request.mode));
        let sent = self.store.clock.now();
        let data = node_data::write(self.request);
        let send = || self.session.send_seat(&prefix, &self.lock, &data);
        let Some(created) = self.store.book().create(attempt, send) else {
            return Ok(Look::Answer(Answer::Ended));
        };
        match self.session.answer(created).await {
            Ok(((stat, path), listed)) => {
                if stat.ephemeral_owner != self.session.id() {
                    return Ok(Look::Again); // The next round finds the node.
                }
                self.session.note_verified(sent);
                let node = OwnNode { path, czxid: stat.czxid, session: self.session.number };
                match self.store.book().set_node(attempt, node.clone()) {
                    true => {}
                    false => return Ok(Look::Answer(Answer::Ended)),
                }
                let listed = match listed.map_err(|error| self.failed(error)) {
                    Ok(listed) => listed,
                    Err(error) => {
                        if error.kind().is_certain() {
                            self.leave().await;
                        }
                        return Err(error);
                    }
                };
                self.look(node, Some(listed), Some(sent)).await
            }
            Err(ZkError::NoNode) => {
                self.store.book().unseat(attempt);
                let made = self.session.make_parents(&self.lock, format.parents()).await;
                made.map_err(|(error, path)| self.unusable(error, &path))?;
                Ok(Look::Again)
            }
            Err(error) => Err(self.refused(error)),
        }
    }

    /// Converts the error of a creation; records that no node was created if that is certain.
    pub(crate) fn refused(&self, error: ZkError) -> Error {
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
