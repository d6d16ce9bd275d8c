//! The requests of a session for values, as of latches, and for the time of the servers.

use std::sync::PoisonError;

use zookeeper_client::{CreateMode, Error as ZkError, MultiWriteError, MultiWriteResult, Stat};

use crate::server_time::ServerTime;
use crate::session::Session;

type Result<T, E = ZkError> = std::result::Result<T, E>;

impl Session {
    /// Returns a node's data and stat, no older than this call; `None` if it does not exist.
    pub(crate) async fn read_now(&self, path: &str) -> Result<Option<(Vec<u8>, Stat)>> {
        let sync = self.client.sync(path);
        let read = self.client.get_data(path);
        self.answer(async {
            let (synced, read) = futures_util::future::join(sync, read).await;
            synced?;
            match read {
                Err(ZkError::NoNode) => Ok(None),
                read => read.map(Some),
            }
        })
        .await
    }

    /// Creates the node `own` below the node of a name, which must exist and be empty, in one transaction.
    pub(crate) async fn make_kind(&self, lock: &str, own: &str, data: &[u8]) -> Result<()> {
        let mut writer = self.client.new_multi_writer();
        writer.add_delete(lock, None)?;
        writer.add_create(lock, &[], &CreateMode::Container.with_acls(self.acls()))?;
        writer.add_create(own, data, &CreateMode::Persistent.with_acls(self.acls()))?;
        let commit = writer.commit();
        self.answer(async { commit.await.map(drop).map_err(ZkError::from) }).await
    }

    /// Creates a node that stays.
    pub(crate) async fn make_value(&self, path: &str, data: &[u8]) -> Result<()> {
        let options = CreateMode::Persistent.with_acls(self.acls());
        self.answer(self.client.create(path, data, &options)).await.map(drop)
    }

    /// Replaces the data of a node that has this version.
    pub(crate) async fn set_value(&self, path: &str, data: &[u8], version: i32) -> Result<()> {
        let stat = self.answer(self.client.set_data(path, data, Some(version))).await?;
        self.note_time(stat.mtime);
        Ok(())
    }

    /// Removes a node that has this version.
    pub(crate) async fn remove_value(&self, path: &str, version: i32) -> Result<()> {
        self.answer(self.client.delete(path, Some(version))).await
    }

    /// Returns what time it is for the servers, or a little less. If it was not read a short while ago, a transaction
    /// that leaves nothing behind reads it: it writes a node below `path` and removes it.
    pub(crate) async fn server_time(&self, path: &str) -> Result<i64> {
        let known = *self.time.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(now) = known.and_then(|known| known.now(self.clock.now())) {
            return Ok(now);
        }
        let path = format!("{path}/now");
        let mut writer = self.client.new_multi_writer();
        writer.add_create(&path, &[], &CreateMode::Persistent.with_acls(self.acls()))?;
        writer.add_set_data(&path, &[], None)?;
        writer.add_delete(&path, None)?;
        let commit = writer.commit();
        let done: std::result::Result<_, MultiWriteError> =
            self.answer(async { Ok(commit.await) }).await?;
        let set = done?.into_iter().find_map(|one| match one {
            MultiWriteResult::SetData { stat } => Some(stat.mtime),
            _ => None,
        });
        let now = set.ok_or(ZkError::ConnectionLoss)?;
        self.note_time(now);
        Ok(now)
    }

    /// Forgets the time of the servers: another one may lead them now.
    pub(crate) fn forget_time(&self) {
        *self.time.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn note_time(&self, unix_ms: i64) {
        let time = ServerTime { at: self.clock.now(), unix_ms };
        *self.time.lock().unwrap_or_else(PoisonError::into_inner) = Some(time);
    }
}
