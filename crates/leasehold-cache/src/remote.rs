//! The entries in Redis: one plain `GET` for a hit, one script call for anything else.

use std::sync::Arc;
use std::time::Duration;

use leasehold_cache_redis::invalidation::{
    Step, WriteScript, add_keys, channel, entry_key, millis,
};
use leasehold_cache_redis::{Health, Link, Server, ServerRun};
use leasehold_core::clock::Clock;
use redis::{AsyncCommands, RedisError, Script, Value};

use crate::stats::Counters;
use crate::{Error, ErrorKind, Result};

/// The reply of Redis to a request for a fill lease.
#[derive(Debug)]
pub(crate) enum Answer {
    /// An entry exists by now, in the server's current run.
    Fresh(Vec<u8>, ServerRun),
    /// The lease is granted: load, and fill if the server is still in this run.
    Won(ServerRun),
    /// Another process loads, for this time at most.
    Busy(Duration),
    /// A write is in progress.
    Held,
    /// The data is foreign or of another version: do not change it.
    Foreign,
}

pub(crate) struct Remote {
    link: Link,
    scripts: Scripts,
    /// `prefix:name`, the beginning of every key.
    stem: String,
    channel: String,
}

struct Scripts {
    acquire: Script,
    fill: Script,
    write: WriteScript,
}

impl Remote {
    /// Creates the level without connecting: a cache works while Redis is down.
    pub(crate) fn new(
        server: Server,
        stem: String,
        limit: Duration,
        clock: Clock,
        counters: Arc<Counters>,
        health: Arc<Health>,
    ) -> Self {
        let link = Link::new(server, limit, clock, health);
        let link = link.on_error(move || counters.remote_errors.add());
        let scripts = Scripts {
            acquire: Script::new(include_str!("lua/acquire.lua")),
            fill: Script::new(include_str!("lua/fill.lua")),
            write: WriteScript::new(),
        };
        let channel = channel(&stem);
        Self { link, scripts, stem, channel }
    }

    /// Returns the entry of a key, if any, and the server's run. A value of another type counts as
    /// none.
    pub(crate) async fn get(&self, key: &str) -> Result<Option<(Vec<u8>, ServerRun)>> {
        let entry = &self.entry(key);
        let got = self.link.call(|mut to, run| async move {
            let bytes: Option<Vec<u8>> = to.get(entry).await?;
            Ok(bytes.map(|bytes| (bytes, run)))
        });
        got.await.or_else(|error| if is_wrong_type(&error) { Ok(None) } else { Err(error) })
    }

    /// Returns the entries of many keys in order, by one command, and the server's run.
    pub(crate) async fn get_many(
        &self,
        keys: &[&str],
    ) -> Result<(Vec<Option<Vec<u8>>>, ServerRun)> {
        let entries: &Vec<String> = &keys.iter().map(|key| self.entry(key)).collect();
        self.link.call(|mut to, run| async move { Ok((to.mget(entries).await?, run)) }).await
    }

    /// Requests the fill lease of a key. `seen` is the entry to replace.
    pub(crate) async fn acquire(
        &self,
        key: &str,
        token: &str,
        lease: Duration,
        seen: Option<[u8; 8]>,
    ) -> Result<Answer> {
        let asked = self.link.call(|mut to, run| async move {
            let mut call = self.scripts.acquire.prepare_invoke();
            self.keys(&mut call, key, true);
            call.arg(token).arg(millis(lease)).arg(seen.as_ref().map_or(&[][..], |id| id));
            call.arg(&run.bytes());
            Ok((call.invoke_async::<Vec<Value>>(&mut to).await?, run))
        });
        let (answer, run) = asked.await?;
        read(answer, run)
    }

    /// Releases the lease `token`, if it is still valid.
    pub(crate) async fn give_back(&self, key: &str, token: &str) -> Result<bool> {
        self.fill_if(None, key, token, b"", Duration::ZERO).await
    }

    /// Fills a key under the lease `token`, which was granted in `run`. Returns false if the lease
    /// has ended, or the server is in another run: after a restart it may have restored a lease
    /// that was revoked.
    pub(crate) async fn fill(
        &self,
        run: ServerRun,
        key: &str,
        token: &str,
        entry: &[u8],
        ttl: Duration,
    ) -> Result<bool> {
        self.fill_if(Some(run), key, token, entry, ttl).await
    }

    async fn fill_if(
        &self,
        run: Option<ServerRun>,
        key: &str,
        token: &str,
        entry: &[u8],
        ttl: Duration,
    ) -> Result<bool> {
        let mut call = self.scripts.fill.prepare_invoke();
        self.keys(&mut call, key, false);
        call.arg(token).arg(entry).arg(millis(ttl)).arg(&self.channel).arg(key);
        let call = &call;
        let filled = self.link.call(|mut to, now| async move {
            if run.is_some_and(|run| run != now) {
                return Ok(false);
            }
            call.invoke_async(&mut to).await
        });
        filled.await
    }

    /// Returns the server's run, for entries that are written after this call.
    pub(crate) async fn run(&self) -> Result<ServerRun> {
        self.link.connection().run().await.map_err(|error| self.link.error(error))
    }

    /// Runs one step of a write to `key`. Returns true if the new entry was stored, or a hold was
    /// lost. Bypasses the breaker: a missed invalidation leaves a wrong value, a missed read is
    /// only slow.
    pub(crate) async fn write(&self, key: &str, token: &str, step: &Step<'_>) -> Result<bool> {
        let connection = self.link.connection();
        self.link.noted(self.scripts.write.call(connection, &self.stem, key, token, step)).await
    }

    /// `prefix:name`.
    #[cfg(all(
        feature = "outbox",
        any(feature = "mysql", feature = "postgres", feature = "sqlite")
    ))]
    pub(crate) fn stem(&self) -> &str {
        &self.stem
    }

    fn keys(&self, call: &mut redis::ScriptInvocation<'_>, key: &str, holds: bool) {
        add_keys(call, &self.stem, key, holds);
    }

    fn entry(&self, key: &str) -> String {
        entry_key(&self.stem, key)
    }

    /// Checks the commands that a cache needs: to read, to fill and to invalidate. Bypasses the
    /// breaker. Leaves nothing behind; `key` is invalidated.
    pub(crate) async fn check(&self, key: &str) -> Result<()> {
        let entry = &self.entry(key);
        let connection = self.link.connection();
        let read =
            connection.call(|mut to, _| async move { to.get::<_, Option<Vec<u8>>>(entry).await });
        self.link.noted(read).await?;
        self.write(key, NO_TOKEN, &Step::Committed(Duration::ZERO)).await.map(drop)
    }
}

/// The token of a write that no program has begun.
const NO_TOKEN: &str = "0000000000000000";

fn is_wrong_type(error: &Error) -> bool {
    let source = std::error::Error::source(error);
    let error = source.and_then(|source| source.downcast_ref::<RedisError>());
    error.and_then(RedisError::code) == Some("WRONGTYPE")
}

pub(crate) fn read(answer: Vec<Value>, run: ServerRun) -> Result<Answer> {
    let first = answer.first().cloned();
    let mut answer = answer.into_iter();
    let read = match (answer.next(), answer.next()) {
        (Some(Value::BulkString(letter)), rest) => match (&letter[..], rest) {
            (b"F", Some(Value::BulkString(entry))) => Some(Answer::Fresh(entry, run)),
            (b"W", None) => Some(Answer::Won(run)),
            (b"B", Some(Value::Int(ms))) => {
                Some(Answer::Busy(Duration::from_millis(ms.try_into().unwrap_or(1))))
            }
            (b"H", _) => Some(Answer::Held),
            (b"X", _) => Some(Answer::Foreign),
            _ => None,
        },
        _ => None,
    };
    read.ok_or_else(|| {
        let reply = first.map_or_else(|| "nothing".to_owned(), |first| format!("{first:?}"));
        Error::new(ErrorKind::Unavailable, format!("unexpected reply from Redis: {reply}"))
    })
}
