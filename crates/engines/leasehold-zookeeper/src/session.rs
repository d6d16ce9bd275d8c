//! One session with ZooKeeper: its requests, and until when it is known to last.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use leasehold_core::clock::Clock;
use leasehold_core::proto::drift;
use leasehold_core::{Deadline, Now};
use zookeeper_client::{
    Acls, AddWatchMode, Client, CreateMode, Error as ZkError, MultiWriteError, MultiWriteResult,
    MultiWriter, OneshotWatcher, PersistentWatcher, SessionState, Stat, StateWatcher,
};

use crate::address::{Address, silence};
use crate::server_time::ServerTime;

type Result<T, E = ZkError> = std::result::Result<T, E>;

/// A created node and its whole path.
type Created = (Stat, String);

/// The names of a lock's nodes, and the stat of the node above them, as of one moment.
pub(crate) type Listed = (Vec<String>, Stat);

/// The result of a transaction that changes the record of a lock.
#[derive(Debug)]
pub(crate) enum Stored {
    /// It was executed, as this transaction.
    Done(i64),
    /// The client's own node does not exist.
    Gone,
    /// The record has changed since it was read.
    Changed,
}

/// A session. It ends when the last clone of its client is dropped.
pub(crate) struct Session {
    pub(crate) client: Client,
    pub(crate) clock: Clock,
    /// The number of the session in this backend, from 1.
    pub(crate) number: u64,
    own: bool,
    /// When the last request was sent that the ensemble has executed in this session.
    verified: Mutex<Now>,
    /// What time it was for the servers, for latches.
    pub(crate) time: Mutex<Option<ServerTime>>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Session {
    /// Opens a session with the first server that accepts it.
    pub(crate) async fn open(address: &Address, clock: Clock, number: u64) -> Result<Self> {
        let mut asked = address.session;
        let (sent, client) = loop {
            let sent = clock.now();
            let connector = address.connector(asked).with_fail_eagerly();
            let client = connector.connect(&address.servers()).await?;
            let given = client.session_timeout();
            // If the servers grant less, shorten the limit for silent servers and the ping interval too.
            if silence(asked) <= silence(given) {
                break (sent, client);
            }
            asked = given;
        };
        let (verified, time) = (Mutex::new(sent), Mutex::default());
        Ok(Self { client, clock, number, own: address.own, verified, time })
    }

    /// Returns the session's id at the server. Each ephemeral node contains the id of its session.
    pub(crate) fn id(&self) -> i64 {
        self.client.session_id().0
    }

    /// Returns the longest lease of a grant or renewal: half of the negotiated timeout. For the reason,
    /// see decisions/0012-zookeeper-leases.md.
    pub(crate) fn term(&self) -> Duration {
        self.client.session_timeout() / 2
    }

    /// Returns the negotiated timeout.
    pub(crate) fn timeout(&self) -> Duration {
        self.client.session_timeout()
    }

    /// Returns a watcher of the session's state in the client library.
    pub(crate) fn states(&self) -> StateWatcher {
        self.client.state_watcher()
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.client.state() == SessionState::SyncConnected
    }

    /// Returns true if the session has ended.
    pub(crate) fn is_over(&self) -> bool {
        use SessionState::{AuthFailed, Closed, Expired};
        matches!(self.client.state(), AuthFailed | Closed | Expired)
    }

    /// Watches a node that may not exist, and all nodes below it, until the watcher is dropped.
    pub(crate) async fn observe(&self, path: &str) -> Result<PersistentWatcher> {
        self.answer(self.client.watch(path, AddWatchMode::PersistentRecursive)).await
    }

    /// Records that the ensemble has executed a request of this session that was sent at `sent`.
    pub(crate) fn note_verified(&self, sent: Now) {
        let mut verified = self.verified.lock().unwrap_or_else(PoisonError::into_inner);
        if sent.steady_ns > verified.steady_ns {
            *verified = sent;
        }
    }

    /// Returns until when the session certainly lasts, if that is at least half a term from `now`.
    pub(crate) fn verified_until(&self, now: Now) -> Option<Deadline> {
        let verified = *self.verified.lock().unwrap_or_else(PoisonError::into_inner);
        let until = self.valid_until(verified, self.term());
        (until.remaining(now) >= self.term() / 2).then_some(until)
    }

    /// Returns until when a lease of `ttl` is valid if a successful request was sent at `sent`.
    pub(crate) fn valid_until(&self, sent: Now, ttl: Duration) -> Deadline {
        let ttl = ttl.min(self.term());
        Deadline::after(sent, ttl.saturating_sub(drift(ttl)))
    }

    /// Waits for an answer at most as long as the session would last without one.
    pub(crate) async fn answer<T>(&self, request: impl Future<Output = Result<T>>) -> Result<T> {
        let limit = Deadline::after(self.clock.now(), self.timeout());
        self.clock.within(Some(limit), request).await.unwrap_or(Err(ZkError::Timeout))
    }

    /// Sends the creation of an ephemeral sequential node and a list of its siblings; both are sent
    /// when this returns. The node may be created although the list fails.
    pub(crate) fn send_seat<'a>(
        &'a self,
        prefix: &'a str,
        parent: &'a str,
        data: &str,
    ) -> impl Future<Output = Result<(Created, Result<Listed>)>> + Send + 'a {
        let options = CreateMode::EphemeralSequential.with_acls(self.acls());
        let create = self.client.create(prefix, data.as_bytes(), &options);
        let list = self.client.get_children(parent);
        async move {
            let (created, listed) = futures_util::future::join(create, list).await;
            let (stat, number) = created?;
            Ok(((stat, format!("{prefix}{number}")), listed))
        }
    }

    /// Creates a container, which the server removes when it becomes empty, and its parents.
    pub(crate) async fn make_container(&self, path: &str) -> Result<(), (ZkError, String)> {
        self.make_parents(path, CreateMode::Container).await
    }

    /// Creates the node of a lock and its parents in this mode.
    pub(crate) async fn make_parents(
        &self,
        path: &str,
        mode: CreateMode,
    ) -> Result<(), (ZkError, String)> {
        let options = mode.with_acls(self.acls());
        let mut missing = vec![path];
        while let Some(next) = missing.last().copied() {
            let made = self.answer(self.client.create(next, &[], &options)).await;
            match made {
                Ok(_) | Err(ZkError::NodeExists) => {
                    missing.pop();
                }
                Err(ZkError::NoNode) => match next.rfind('/') {
                    Some(at) if at > 0 => missing.extend(next.get(..at)),
                    _ => return Err((ZkError::NoNode, next.to_owned())),
                },
                Err(error) => return Err((error, next.to_owned())),
            }
        }
        Ok(())
    }

    /// Lists the nodes under `path`, no older than this call; empty if `path` does not exist.
    pub(crate) async fn list_now(&self, path: &str) -> Result<Vec<String>> {
        let sync = self.client.sync(path);
        let list = self.client.list_children(path);
        self.answer(async {
            let (synced, listed) = futures_util::future::join(sync, list).await;
            synced?;
            none_if_absent(listed)
        })
        .await
    }

    /// Lists the queue of a lock as the connected server knows it; `None` if the lock has no node.
    pub(crate) async fn queue(&self, lock: &str) -> Result<Option<Listed>> {
        some_if_there(self.answer(self.client.get_children(lock)).await)
    }

    /// Lists the queue of a lock, no older than this call; `None` if the lock has no node.
    pub(crate) async fn queue_now(&self, lock: &str) -> Result<Option<Listed>> {
        let sync = self.client.sync(lock);
        let list = self.client.get_children(lock);
        self.answer(async {
            let (synced, listed) = futures_util::future::join(sync, list).await;
            synced?;
            some_if_there(listed)
        })
        .await
    }

    /// Lists the queue of a lock, and watches it for nodes that come or go.
    pub(crate) async fn watch_queue(
        &self,
        lock: &str,
    ) -> Result<Option<(Vec<String>, OneshotWatcher)>> {
        some_if_there(self.answer(self.client.list_and_watch_children(lock)).await)
    }

    /// Returns the access rights of a node; `None` if it does not exist.
    pub(crate) async fn acl(&self, path: &str) -> Result<Option<Vec<zookeeper_client::Acl>>> {
        match self.answer(self.client.get_acl(path)).await {
            Ok((acl, _)) => Ok(Some(acl)),
            Err(ZkError::NoNode) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn stat(&self, path: &str) -> Result<Option<Stat>> {
        self.answer(self.client.check_stat(path)).await
    }

    /// Returns a node's data and stat; `None` if it does not exist, no data if the user may not read it.
    pub(crate) async fn read(&self, path: &str) -> Result<Option<(Vec<u8>, Stat)>> {
        match self.answer(self.client.get_data(path)).await {
            Ok(read) => Ok(Some(read)),
            Err(ZkError::NoNode) => Ok(None),
            Err(ZkError::NoAuth) => Ok(self.stat(path).await?.map(|stat| (Vec::new(), stat))),
            Err(error) => Err(error),
        }
    }

    /// Returns the data and stat of a lock's node, as the connected server knows them.
    pub(crate) async fn record(&self, lock: &str) -> Result<(Vec<u8>, Stat)> {
        self.answer(self.client.get_data(lock)).await
    }

    /// Watches for the deletion of a node, and for changes of its data; `None` if it does not exist.
    pub(crate) async fn watch(&self, path: &str) -> Result<Option<(Stat, OneshotWatcher)>> {
        let (stat, watcher) = self.answer(self.client.check_and_watch_stat(path)).await?;
        Ok(stat.map(|stat| (stat, watcher)))
    }

    /// As [`watch`](Self::watch), but leaves no watch if the node does not exist. The user must be able to read it.
    pub(crate) async fn watch_data(&self, path: &str) -> Result<Option<(Stat, OneshotWatcher)>> {
        let read = self.answer(self.client.get_and_watch_data(path)).await;
        Ok(some_if_there(read)?.map(|(_, stat, watcher)| (stat, watcher)))
    }

    /// Removes a node; false if it does not exist. The request is sent when this returns.
    pub(crate) fn delete<'a>(
        &'a self,
        path: &str,
    ) -> impl Future<Output = Result<bool>> + Send + 'a {
        let sent = self.clock.now();
        let delete = self.client.delete(path, None);
        async move {
            let deleted = self.answer(delete).await;
            if deleted.is_ok() {
                self.note_verified(sent);
            }
            match deleted {
                Ok(()) => Ok(true),
                Err(ZkError::NoNode) => Ok(false),
                Err(error) => Err(error),
            }
        }
    }

    /// Runs a transaction of the ensemble that checks that all nodes exist; returns the index of the
    /// first one that does not.
    pub(crate) async fn check(&self, paths: &[&str]) -> Result<Option<usize>> {
        let sent = self.clock.now();
        let mut checks = self.client.new_multi_writer();
        for path in paths {
            checks.add_check_version(path, -1)?;
        }
        let commit = checks.commit();
        let checked = self.answer(async {
            match commit.await {
                Ok(_) => Ok(None),
                Err(MultiWriteError::OperationFailed { index, source: ZkError::NoNode }) => {
                    Ok(Some(index))
                }
                Err(error) => Err(error.into()),
            }
        });
        let checked = checked.await?;
        if checked.is_none() {
            self.note_verified(sent);
        }
        Ok(checked)
    }

    /// Stores the record of a lock if it has this version, and if the node `own` exists. The request is
    /// sent when this returns.
    pub(crate) fn send_record<'a>(
        &'a self,
        own: &str,
        lock: &str,
        record: &[u8],
        version: i32,
    ) -> impl Future<Output = Result<Stored>> + Send + 'a {
        let mut writer = self.client.new_multi_writer();
        let added = writer
            .add_check_version(own, -1)
            .and_then(|()| writer.add_set_data(lock, record, Some(version)));
        self.send_changes(writer, added)
    }

    /// Replaces the node `from` by the ephemeral node `to` with `data`, and stores the record of the lock
    /// if it has this version; all or nothing. The request is sent when this returns.
    pub(crate) fn send_conversion<'a>(
        &'a self,
        (from, to): (&str, &str),
        data: &str,
        (lock, record, version): (&str, &[u8], i32),
    ) -> impl Future<Output = Result<Stored>> + Send + 'a {
        let mut writer = self.client.new_multi_writer();
        let options = CreateMode::Ephemeral.with_acls(self.acls());
        let added = writer
            .add_delete(from, None)
            .and_then(|()| writer.add_set_data(lock, record, Some(version)))
            .and_then(|()| writer.add_create(to, data.as_bytes(), &options));
        self.send_changes(writer, added)
    }

    /// Sends a transaction whose first operation fails if the own node does not exist, and whose second
    /// one stores the record.
    fn send_changes<'a>(
        &'a self,
        mut writer: MultiWriter<'a>,
        added: Result<()>,
    ) -> impl Future<Output = Result<Stored>> + Send + 'a {
        let sent = self.clock.now();
        let commit = added.map(|()| writer.commit());
        async move {
            let commit = commit?;
            let changed = self.answer(async { Ok(commit.await) }).await?;
            let changed = match changed {
                Ok(changed) => changed,
                Err(MultiWriteError::OperationFailed { index: 0, source: ZkError::NoNode }) => {
                    return Ok(Stored::Gone);
                }
                Err(MultiWriteError::OperationFailed { source: ZkError::BadVersion, .. }) => {
                    return Ok(Stored::Changed);
                }
                Err(error) => return Err(error.into()),
            };
            self.note_verified(sent);
            let zxid = changed.iter().find_map(|one| match one {
                MultiWriteResult::SetData { stat } => Some(stat.mzxid),
                _ => None,
            });
            zxid.map(Stored::Done).ok_or(ZkError::ConnectionLoss)
        }
    }

    pub(crate) fn acls(&self) -> Acls<'static> {
        if self.own { Acls::creator_all() } else { Acls::anyone_all() }
    }
}

fn none_if_absent(listed: Result<Vec<String>>) -> Result<Vec<String>> {
    Ok(some_if_there(listed)?.unwrap_or_default())
}

fn some_if_there<T>(listed: Result<T>) -> Result<Option<T>> {
    match listed {
        Err(ZkError::NoNode) => Ok(None),
        other => other.map(Some),
    }
}
