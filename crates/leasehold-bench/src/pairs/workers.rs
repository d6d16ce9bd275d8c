//! Who takes and gives back: Leasehold's client, and the least that can be done instead.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use leasehold::Lock;
use tokio::sync::Mutex;

use super::load::{Sample, Times, Worker, drive};
use crate::Result;
use crate::store::{Store, directory, redis};

/// A client whose tasks have a lock each.
pub(super) async fn leasehold(store: Store, tasks: usize, times: Times) -> Result<Sample> {
    let opened = store.open().await?;
    let lock = |task| opened.client.lock(name(task));
    drive((0..tasks).map(lock).collect(), times).await
}

impl Worker for Lock {
    async fn pair(&mut self) -> Result<()> {
        Ok(self.acquire().await?.release().await?)
    }
}

/// A map behind a mutex, where the tasks put a name each and take it out again.
pub(super) async fn raw_memory(tasks: usize, times: Times) -> Result<Sample> {
    let held = Arc::new(Mutex::new(HashMap::new()));
    let entry = |task| Entry { held: held.clone(), name: name(task), token: 0 };
    drive((0..tasks).map(entry).collect(), times).await
}

struct Entry {
    held: Arc<Mutex<HashMap<String, u64>>>,
    name: String,
    token: u64,
}

impl Worker for Entry {
    async fn pair(&mut self) -> Result<()> {
        self.token += 1;
        self.held.lock().await.insert(self.name.clone(), self.token);
        match self.held.lock().await.remove(&self.name) {
            Some(token) if token == self.token => Ok(()),
            _ => Err("somebody else has taken our name".into()),
        }
    }
}

/// A file for each task, opened, locked and closed.
pub(super) async fn raw_file(tasks: usize, times: Times) -> Result<Sample> {
    let directory = directory()?;
    let file = |task: usize| File(directory.path().join(format!("{task}.lock")));
    drive((0..tasks).map(file).collect(), times).await
}

struct File(PathBuf);

impl Worker for File {
    #[cfg(unix)]
    async fn pair(&mut self) -> Result<()> {
        use nix::fcntl::{Flock, FlockArg};
        let mut options = std::fs::OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(&self.0)?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            // Dropped, it unlocks and closes.
            Ok(_locked) => Ok(()),
            Err((_, error)) => Err(format!("{}: {error}", self.0.display()).into()),
        }
    }

    #[cfg(not(unix))]
    async fn pair(&mut self) -> Result<()> {
        Err("there is no flock here".into())
    }
}

/// What people write by hand: `SET key value NX PX`, and a script that deletes the key if the value
/// is still theirs. One multiplexed connection, no fencing token.
pub(super) async fn raw_redis(tasks: usize, times: Times) -> Result<Sample> {
    let server = self::redis()?;
    let client = redis::Client::open(server.url())?;
    let connection = client.get_multiplexed_async_connection().await?;
    let release = Arc::new(redis::Script::new(COMPARE_AND_DELETE));
    let key = |task| Key {
        connection: connection.clone(),
        release: release.clone(),
        name: name(task),
        value: 0,
    };
    drive((0..tasks).map(key).collect(), times).await
}

const COMPARE_AND_DELETE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then
    return redis.call('DEL', KEYS[1]) else return 0 end";

struct Key {
    connection: redis::aio::MultiplexedConnection,
    release: Arc<redis::Script>,
    name: String,
    value: u64,
}

impl Worker for Key {
    async fn pair(&mut self) -> Result<()> {
        self.value += 1;
        let value = format!("{}-{:024}", self.name, self.value);
        let mut set = redis::cmd("SET");
        set.arg(&self.name).arg(&value).arg("NX").arg("PX").arg(30_000);
        let set: Option<String> = set.query_async(&mut self.connection).await?;
        let mut release = self.release.key(&self.name);
        let deleted: u64 = release.arg(&value).invoke_async(&mut self.connection).await?;
        match (set, deleted) {
            (Some(_), 1) => Ok(()),
            _ => Err("somebody else has taken our key".into()),
        }
    }
}

fn name(task: usize) -> String {
    format!("orders/{task:08}")
}
