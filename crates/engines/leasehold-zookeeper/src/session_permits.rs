//! The requests of a session for semaphores.

use zookeeper_client::{
    CreateMode, Error as ZkError, MultiWriteError, OneshotWatcher, Stat, WatchedEvent,
};

use crate::session::{Session, Stored};

type Result<T, E = ZkError> = std::result::Result<T, E>;

/// A semaphore as it was read: the nodes below it are no older than the record.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) data: Vec<u8>,
    /// The stat of the semaphore's node with the data.
    pub(crate) stat: Stat,
    pub(crate) nodes: Vec<String>,
    /// How often nodes had come and gone.
    pub(crate) comings: i32,
}

/// The watches of the first waiter: on the record, and on the nodes of holders and waiters.
#[derive(Debug)]
pub(crate) struct Watches(OneshotWatcher, OneshotWatcher);

impl Watches {
    /// Waits until one of them fires.
    pub(crate) async fn fire(self) -> WatchedEvent {
        tokio::select! {
            event = self.0.changed() => event,
            event = self.1.changed() => event,
        }
    }
}

/// A created node with its path, and what was read after it.
type Seated = ((Stat, String), Result<Option<View>>);

impl Session {
    /// Reads a semaphore as the connected server knows it; `None` if it has no node.
    pub(crate) async fn semaphore(&self, path: &str) -> Result<Option<View>> {
        self.answer(self.send_view(path)).await
    }

    /// Reads a semaphore, no older than this call; `None` if it has no node.
    pub(crate) async fn semaphore_now(&self, path: &str) -> Result<Option<View>> {
        let sync = self.client.sync(path);
        let view = self.send_view(path);
        self.answer(async {
            let (synced, view) = futures_util::future::join(sync, view).await;
            synced?;
            view
        })
        .await
    }

    /// Sends the creation of an ephemeral sequential node below a semaphore and a read of it; both are sent when this
    /// returns. The node may be created although the read fails.
    pub(crate) fn send_permit_seat<'a>(
        &'a self,
        prefix: &'a str,
        semaphore: &'a str,
        data: &str,
    ) -> impl Future<Output = Result<Seated>> + Send + 'a {
        let options = CreateMode::EphemeralSequential.with_acls(self.acls());
        let create = self.client.create(prefix, data.as_bytes(), &options);
        let view = self.send_view(semaphore);
        async move {
            let (created, view) = futures_util::future::join(create, view).await;
            let (stat, number) = created?;
            Ok(((stat, format!("{prefix}{number}")), view))
        }
    }

    /// Sends a read of the record, and then one of the nodes: the server answers in this order.
    fn send_view<'a>(
        &'a self,
        path: &str,
    ) -> impl Future<Output = Result<Option<View>>> + Send + 'a {
        let record = self.client.get_data(path);
        let nodes = self.client.get_children(path);
        async move {
            let (record, nodes) = futures_util::future::join(record, nodes).await;
            match (record, nodes) {
                (Err(ZkError::NoNode), _) | (_, Err(ZkError::NoNode)) => Ok(None),
                (record, nodes) => {
                    let ((data, stat), (nodes, listed)) = (record?, nodes?);
                    Ok(Some(View { data, stat, nodes, comings: listed.cversion }))
                }
            }
        }
    }

    /// Watches a semaphore. `None` if it has changed since `view`.
    pub(crate) async fn watch_semaphore(&self, path: &str, view: &View) -> Result<Option<Watches>> {
        let record = self.client.check_and_watch_stat(path);
        let nodes = self.client.get_and_watch_children(path);
        let watched = self.answer(async {
            let (record, nodes) = futures_util::future::join(record, nodes).await;
            Ok((record?, nodes))
        });
        let ((stat, record), nodes) = watched.await?;
        let (stat, (_, listed, nodes)) = match (stat, nodes) {
            (None, _) | (_, Err(ZkError::NoNode)) => return Ok(None),
            (Some(stat), nodes) => (stat, nodes?),
        };
        let same = (stat.czxid, stat.version, listed.cversion)
            == (view.stat.czxid, view.stat.version, view.comings);
        Ok(same.then_some(Watches(record, nodes)))
    }

    /// Stores the record of a semaphore if it has this version, and writes the data of the nodes that it gives slots
    /// to: those who watch them learn of it. All or nothing; fails if such a node does not exist. The request is sent
    /// when this returns.
    pub(crate) fn send_grants<'a>(
        &'a self,
        granted: &[(String, Vec<u8>)],
        (semaphore, record, version): (&str, &[u8], i32),
    ) -> impl Future<Output = Result<Stored>> + Send + 'a {
        let sent = self.clock.now();
        let mut writer = self.client.new_multi_writer();
        let added = granted
            .iter()
            .try_for_each(|(path, data)| writer.add_set_data(path, data, None))
            .and_then(|()| writer.add_set_data(semaphore, record, Some(version)));
        let (seats, commit) = (granted.len(), added.map(|()| writer.commit()));
        async move {
            let commit = commit?;
            match self.answer(async { Ok(commit.await) }).await? {
                Ok(_) => {
                    self.note_verified(sent);
                    Ok(Stored::Done(0))
                }
                Err(MultiWriteError::OperationFailed { index, source: ZkError::NoNode }) => {
                    Ok(if index < seats { Stored::Gone } else { Stored::Changed })
                }
                Err(MultiWriteError::OperationFailed { source: ZkError::BadVersion, .. }) => {
                    Ok(Stored::Changed)
                }
                Err(error) => Err(error.into()),
            }
        }
    }
}
