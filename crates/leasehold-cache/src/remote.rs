//! The level in Redis: one plain `GET` for a hit, one script call for anything else.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::clock::Clock;
use redis::aio::ConnectionLike;
use redis::{AsyncCommands, RedisError, Script, Value};

use crate::breaker::Breaker;
use crate::server::Server;
use crate::stats::Counters;
use crate::wire::Wire;
use crate::{Error, ErrorKind, Result};

/// What Redis says to a miss.
#[derive(Debug)]
pub(crate) enum Answer {
    /// There is an entry by now.
    Fresh(Vec<u8>),
    /// Load and fill.
    Won,
    /// Somebody else loads, for so long at most.
    Busy(Duration),
    /// A write is under way.
    Held,
    /// What lies there is not ours, or of another version: leave it alone.
    Foreign,
}

/// A step of a write.
#[derive(Debug)]
pub(crate) enum Step<'a> {
    /// Before the transaction; hold for so long.
    Begin(Duration),
    /// After it; hold on for so long.
    Committed(Duration),
    /// After it, with the new entry and its time to live.
    CommittedWith(Duration, &'a [u8], Duration),
}

pub(crate) struct Remote {
    wire: Wire,
    scripts: Scripts,
    /// `prefix:name`, the beginning of every key.
    stem: String,
    channel: String,
    breaker: Breaker,
    counters: Arc<Counters>,
}

struct Scripts {
    acquire: Script,
    fill: Script,
    write: WriteScript,
}

/// The script that writers call, and a relay in their stead.
pub(crate) struct WriteScript(Script);

impl WriteScript {
    pub(crate) fn new() -> Self {
        Self(Script::new(include_str!("lua/write.lua")))
    }

    /// One step of a write to `key` of the cache with this stem; true when the new entry was taken.
    pub(crate) async fn call(
        &self,
        mut connection: impl ConnectionLike + Send,
        stem: &str,
        key: &str,
        token: &str,
        step: &Step<'_>,
    ) -> Result<bool, RedisError> {
        let (letter, hold, entry, ttl) = match *step {
            Step::Begin(hold) => ("B", hold, &[][..], Duration::ZERO),
            Step::Committed(hold) => ("C", hold, &[][..], Duration::ZERO),
            Step::CommittedWith(hold, entry, ttl) => ("W", hold, entry, ttl),
        };
        let mut call = self.0.prepare_invoke();
        keys(&mut call, stem, key, true);
        call.arg(letter).arg(token).arg(millis(hold)).arg(channel(stem)).arg(key);
        call.arg(entry).arg(millis(ttl));
        call.invoke_async(&mut connection).await
    }
}

impl Remote {
    /// Does not connect yet: a cache is there while Redis is down.
    pub(crate) fn new(
        server: Server,
        stem: String,
        limit: Duration,
        clock: Clock,
        counters: Arc<Counters>,
    ) -> Self {
        let wire = Wire::new(server, limit, clock.clone());
        let scripts = Scripts {
            acquire: Script::new(include_str!("lua/acquire.lua")),
            fill: Script::new(include_str!("lua/fill.lua")),
            write: WriteScript::new(),
        };
        let channel = channel(&stem);
        Self { wire, scripts, stem, channel, breaker: Breaker::new(clock), counters }
    }

    /// The entry of a key, if there is one. A value of another type is none.
    pub(crate) async fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        let entry = self.entry(key);
        let mut connection = &self.wire;
        let got = self.call(connection.get::<_, Option<Vec<u8>>>(entry)).await;
        got.or_else(|error| if is_wrong_type(&error) { Ok(None) } else { Err(error) })
    }

    /// The entries of many keys, in their order, by one command.
    pub(crate) async fn get_many(&self, keys: &[&str]) -> Result<Vec<Option<Vec<u8>>>> {
        let entries: Vec<String> = keys.iter().map(|key| self.entry(key)).collect();
        let mut connection = &self.wire;
        self.call(connection.mget(entries)).await
    }

    /// May this one load? `seen` is the entry that is to be replaced.
    pub(crate) async fn acquire(
        &self,
        key: &str,
        token: &str,
        lease: Duration,
        seen: Option<[u8; 8]>,
    ) -> Result<Answer> {
        let mut call = self.scripts.acquire.prepare_invoke();
        self.keys(&mut call, key, true);
        call.arg(token).arg(millis(lease)).arg(seen.as_ref().map_or(&[][..], |id| id));
        let mut connection = &self.wire;
        let answer: Vec<Value> = self.call(call.invoke_async(&mut connection)).await?;
        read(answer)
    }

    /// Fills a key under the lease `token`; false when that lease is not the one any more. Without
    /// an entry the lease is given back.
    pub(crate) async fn fill(
        &self,
        key: &str,
        token: &str,
        entry: &[u8],
        ttl: Duration,
    ) -> Result<bool> {
        let mut call = self.scripts.fill.prepare_invoke();
        self.keys(&mut call, key, false);
        call.arg(token).arg(entry).arg(millis(ttl)).arg(&self.channel).arg(key);
        let mut connection = &self.wire;
        self.call(call.invoke_async(&mut connection)).await
    }

    /// One step of a write to `key`; true when the new entry was taken. Goes past the breaker: what
    /// is not invalidated is wrong, what is not read is only slow.
    pub(crate) async fn write(&self, key: &str, token: &str, step: &Step<'_>) -> Result<bool> {
        let done = self.scripts.write.call(&self.wire, &self.stem, key, token, step).await;
        self.note(&done);
        done.map_err(Error::redis)
    }

    /// `prefix:name`.
    #[cfg(feature = "outbox")]
    pub(crate) fn stem(&self) -> &str {
        &self.stem
    }

    fn keys(&self, call: &mut redis::ScriptInvocation<'_>, key: &str, holds: bool) {
        keys(call, &self.stem, key, holds);
    }

    fn entry(&self, key: &str) -> String {
        entry(&self.stem, key)
    }

    async fn call<T>(&self, call: impl Future<Output = Result<T, RedisError>>) -> Result<T> {
        if !self.breaker.lets_through() {
            return Err(Error::new(ErrorKind::Unavailable, "Redis failed a moment ago"));
        }
        let done = call.await;
        self.note(&done);
        done.map_err(Error::redis)
    }

    fn note<T>(&self, done: &Result<T, RedisError>) {
        let well = done
            .as_ref()
            .err()
            .is_none_or(|error| error.code().is_some_and(|code| code != "LOADING"));
        self.breaker.note(well);
        if let Err(error) = done {
            self.wire.failed(error);
            self.counters.remote_errors.add();
        }
    }
}

/// The keys that hold what belongs to `key`, in the order of the scripts.
fn keys(call: &mut redis::ScriptInvocation<'_>, stem: &str, key: &str, holds: bool) {
    let entry = entry(stem, key);
    let (lease, writes) = (format!("{entry}:l"), format!("{entry}:h"));
    call.key(entry).key(lease);
    if holds {
        call.key(writes);
    }
}

fn entry(stem: &str, key: &str) -> String {
    format!("{{{stem}:{key}}}")
}

/// Where invalidations and fills of the cache with this stem are told.
pub(crate) fn channel(stem: &str) -> String {
    format!("{stem}:changes")
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn is_wrong_type(error: &Error) -> bool {
    let source = std::error::Error::source(error);
    let error = source.and_then(|source| source.downcast_ref::<RedisError>());
    error.and_then(RedisError::code) == Some("WRONGTYPE")
}

fn read(answer: Vec<Value>) -> Result<Answer> {
    let mut answer = answer.into_iter();
    let read = match (answer.next(), answer.next()) {
        (Some(Value::BulkString(letter)), rest) => match (&letter[..], rest) {
            (b"F", Some(Value::BulkString(entry))) => Some(Answer::Fresh(entry)),
            (b"W", None) => Some(Answer::Won),
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
        Error::new(ErrorKind::Unavailable, "Redis gave an answer that is not understood")
    })
}
