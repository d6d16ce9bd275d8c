//! The script of every writer of a cache.

use std::time::Duration;

use redis::{RedisError, Script};

use super::lag_holds::MARGIN;
use super::{add_keys, channel, millis};
use crate::connection::Connection;

/// A step of a write.
#[derive(Debug)]
pub enum Step<'a> {
    /// Before the transaction: holds the key for this time.
    Begin(Duration),
    /// After the transaction: keeps the hold for this time, and a margin in which
    /// [`Settled`](Self::Settled) ends it.
    Committed(Duration),
    /// After the transaction: keeps the hold for this time, and sets the new entry with its time to
    /// live.
    CommittedWith(Duration, &'a [u8], Duration),
    /// When the time of `Committed` is over: ends the hold. Returns true if Redis had lost the
    /// hold; then the entry was removed.
    Settled,
}

/// The script that writers call, and relays for them.
#[derive(Debug)]
pub struct WriteScript(Script);

impl Default for WriteScript {
    fn default() -> Self {
        Self::new()
    }
}

impl WriteScript {
    /// Creates the script.
    pub fn new() -> Self {
        Self(Script::new(include_str!("../lua/write.lua")))
    }

    /// Runs one step of a write to `key` of the cache with this stem. Returns true if the new entry
    /// was stored, or in [`Step::Settled`] if the hold was lost.
    ///
    /// # Errors
    /// The error of Redis.
    pub async fn call(
        &self,
        connection: &Connection,
        stem: &str,
        key: &str,
        token: &str,
        step: &Step<'_>,
    ) -> Result<bool, RedisError> {
        let (letter, hold, entry, ttl) = match *step {
            Step::Begin(hold) => ("B", hold, &[][..], Duration::ZERO),
            Step::Committed(hold) => ("C", for_lag(hold), &[][..], Duration::ZERO),
            Step::CommittedWith(hold, entry, ttl) => ("W", for_lag(hold), entry, ttl),
            Step::Settled => ("E", Duration::ZERO, &[][..], Duration::ZERO),
        };
        let mut call = self.0.prepare_invoke();
        add_keys(&mut call, stem, key, true);
        call.arg(letter).arg(token).arg(millis(hold)).arg(channel(stem)).arg(key);
        call.arg(entry).arg(millis(ttl));
        let call = &call;
        connection.call(|mut to, _| async move { call.invoke_async(&mut to).await }).await
    }
}

fn for_lag(lag: Duration) -> Duration {
    if lag.is_zero() { lag } else { lag + MARGIN }
}
