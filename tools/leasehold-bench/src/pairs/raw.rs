//! The least that can be done instead of locking with Leasehold.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::Mutex;

use super::Names;
use super::load::{Sample, Times, Worker, drive};
use crate::Result;
use crate::measure::Window;
use crate::store::{StoreAddress, directory};

/// A map behind a mutex, where the tasks put a name each and take it out again.
pub(super) async fn memory(place: &StoreAddress, tasks: usize, times: Times) -> Result<Sample> {
    let held = Arc::new(Mutex::new(HashMap::new()));
    let entry = |task| Entry { held: held.clone(), name: place.name(task), token: 0 };
    drive((0..tasks).map(entry).collect(), times, &[]).await
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
            _ => Err("another client has taken our name".into()),
        }
    }
}

/// A file for each task, opened, locked and closed.
pub(super) async fn file(tasks: usize, times: Times) -> Result<Sample> {
    let directory = directory()?;
    let file = |task: usize| File(directory.path().join(format!("{task}.lock")));
    drive((0..tasks).map(file).collect(), times, &[]).await
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
pub(super) async fn redis(
    place: &StoreAddress,
    tasks: usize,
    names: Names,
    times: Times,
) -> Result<Sample> {
    let connection = crate::multiplexed(&place.url).await?;
    let release = Arc::new(redis::Script::new(COMPARE_AND_DELETE));
    let key = |task| Key {
        connection: connection.clone(),
        release: release.clone(),
        name: place.name(task),
        names,
        number: 0,
    };
    drive((0..tasks).map(key).collect(), times, place.server_pids()).await
}

const COMPARE_AND_DELETE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then
    return redis.call('DEL', KEYS[1]) else return 0 end";

struct Key {
    connection: redis::aio::MultiplexedConnection,
    release: Arc<redis::Script>,
    name: String,
    names: Names,
    number: u64,
}

impl Worker for Key {
    async fn pair(&mut self) -> Result<()> {
        self.number += 1;
        let value = format!("{}-{:024}", self.name, self.number);
        let fresh = (self.names == Names::Fresh).then(|| format!("{}/{}", self.name, self.number));
        let name = fresh.as_ref().unwrap_or(&self.name);
        let mut set = redis::cmd("SET");
        set.arg(name).arg(&value).arg("NX").arg("PX").arg(30_000);
        let set: Option<String> = set.query_async(&mut self.connection).await?;
        let mut release = self.release.key(name);
        let deleted: u64 = release.arg(&value).invoke_async(&mut self.connection).await?;
        match (set, deleted) {
            (Some(_), 1) => Ok(()),
            _ => Err("another client has taken our key".into()),
        }
    }
}

/// What the servers can do at most: the same two commands for all names in one write each, by one
/// thread that blocks on plain sockets.
pub(super) fn socket(place: &StoreAddress, tasks: usize, times: Times) -> Result<Sample> {
    let hash = redis::Script::new(COMPARE_AND_DELETE).get_hash().to_owned();
    let mut streams = streams(place)?;
    let mut load = Vec::new();
    request(&mut load, &["SCRIPT", "LOAD", COMPARE_AND_DELETE]);
    for stream in &mut streams {
        stream.write_all(&load)?;
        let mut loaded = [0; 5 + 40 + 2];
        stream.read_exact(&mut loaded)?;
    }
    let (mut sets, mut releases) = (Vec::new(), Vec::new());
    for task in 0..tasks {
        let (name, value) = (place.name(task), format!("{task:036}"));
        request(&mut sets, &["SET", &name, &value, "NX", "PX", "30000"]);
        request(&mut releases, &["EVALSHA", &hash, "1", &name, &value]);
    }
    let (taken, released) = ("+OK\r\n".repeat(tasks), ":1\r\n".repeat(tasks));
    repeat(place, tasks, times, || {
        exchange(&mut streams, &sets, &taken)?;
        exchange(&mut streams, &releases, &released)
    })
}

/// The least that leaves a record of our size behind, which expires much later: one command writes it, and one
/// changes a byte of it. By one thread, as [`socket`].
pub(super) fn record(
    place: &StoreAddress,
    tasks: usize,
    names: Names,
    times: Times,
) -> Result<Sample> {
    let mut streams = streams(place)?;
    let (taken, released) = ("+OK\r\n".repeat(tasks), ":160\r\n".repeat(tasks));
    let (value, mut number) = ("H".repeat(160), 0_u64);
    repeat(place, tasks, times, || {
        number += u64::from(names == Names::Fresh);
        let (mut sets, mut releases) = (Vec::new(), Vec::new());
        for task in 0..tasks {
            let name = format!("{}/{number}", place.name(task));
            request(&mut sets, &["SET", &name, &value, "PX", "2400000"]);
            request(&mut releases, &["SETRANGE", &name, "34", "F"]);
        }
        exchange(&mut streams, &sets, &taken)?;
        exchange(&mut streams, &releases, &released)
    })
}

/// Connects to each server.
fn streams(place: &StoreAddress) -> Result<Vec<TcpStream>> {
    let connect = |url: &str| {
        let address: SocketAddr =
            url.strip_prefix("redis://").ok_or("a plain Redis URL is needed")?.parse()?;
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(stream)
    };
    place.urls().split_whitespace().map(connect).collect()
}

/// Sends the same requests to all servers, and reads the replies that they must give.
fn exchange(streams: &mut [TcpStream], requests: &[u8], expected: &str) -> Result<()> {
    for stream in &mut *streams {
        stream.write_all(requests)?;
    }
    let mut replies = vec![0; expected.len()];
    for stream in streams {
        stream.read_exact(&mut replies)?;
        if replies != expected.as_bytes() {
            return Err("another client has taken our key".into());
        }
    }
    Ok(())
}

/// Does the pairs of all tasks again and again.
fn repeat(
    place: &StoreAddress,
    tasks: usize,
    times: Times,
    mut pair: impl FnMut() -> Result<()>,
) -> Result<Sample> {
    let start = std::time::Instant::now();
    while start.elapsed() < times.warm_up {
        pair()?;
    }
    let (window, mut turns) = (Window::open(place.server_pids())?, 0);
    let start = std::time::Instant::now();
    while start.elapsed() < times.window {
        pair()?;
        turns += 1;
    }
    Ok(Sample::of(turns * tasks as u64, &window.spent()?))
}

fn request(into: &mut Vec<u8>, words: &[&str]) {
    let mut text = format!("*{}\r\n", words.len());
    for word in words {
        let _ = write!(text, "${}\r\n{word}\r\n", word.len());
    }
    into.extend_from_slice(text.as_bytes());
}
