//! Work that is done once for each request id, and whose result is remembered.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::{Script, ScriptInvocation, Value};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use super::run_settings::RunOnceBuilder;
use crate::cache::text;
use crate::link::Link;
use crate::write::token;
use crate::{Error, ErrorKind, Result};

/// Requests that are carried out once for each id, as `Idempotency-Key` of HTTP asks for: one process
/// works at a time, and whoever asks later gets the result.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use leasehold_cache::once::{Begun, RunOnce};
///
/// let payments = RunOnce::builder("payments").open("redis://127.0.0.1:6379")?;
/// let receipt: String = match payments.begin("order 555", b"12.50 EUR").await? {
///     Begun::Won(run) => {
///         // tries() > 1: somebody began, and has not said how it ended. Ask the bank before you pay.
///         let receipt = pay(run.tries()).await?;
///         run.complete(&receipt).await?;
///         receipt
///     }
///     Begun::Completed(receipt) => receipt,
///     Begun::Busy(_left) => return Err("in progress: ask again later".into()),
///     Begun::Failed(reason) => return Err(reason.into()),
/// };
/// # drop(receipt); Ok(()) }
/// # async fn pay(_: u64) -> std::io::Result<String> { Ok(String::new()) }
/// ```
///
/// Redis decides, so its promise is Redis': while the data is there, and from one that does not lose
/// what it has acknowledged. Where twice is a disaster, let the database's unique key decide as well.
/// While Redis is down nothing begins. A run has no other fence than its id: what a killed or stopped
/// holder has begun may still arrive somewhere.
///
/// The record `{prefix:name:id}` is a hash: `v` (1), `state` (`running`, `completed`, `failed`), `token`
/// of the run, `until` (Unix ms by the server's clock), `print` (SHA-256 of the payload), `tries`, `result`.
/// Clones share everything.
#[derive(Clone)]
pub struct RunOnce {
    inner: Arc<Inner>,
}

struct Inner {
    link: Link,
    step: Script,
    settings: RunOnceBuilder,
}

/// What [`RunOnce::begin`] found.
#[derive(Debug)]
pub enum Begun<R> {
    /// The work is ours to do.
    Won(Run),
    /// Somebody is at it, for so long at least; then he is taken for dead.
    Busy(Duration),
    /// It was done: its result.
    Completed(R),
    /// It failed for good: the reason.
    Failed(String),
}

impl RunOnce {
    pub(super) fn new(link: Link, settings: RunOnceBuilder) -> Self {
        let step = Script::new(include_str!("../lua/run.lua"));
        Self { inner: Arc::new(Inner { link, step, settings }) }
    }

    /// Settings for runs of this name (as a cache's).
    pub fn builder(name: &str) -> RunOnceBuilder {
        RunOnceBuilder::new(name)
    }

    /// Begins the work of request `id` (1 to 512 bytes without control characters), unless it was
    /// done or somebody is at it. `payload` is what the request asks for, in bytes that are the same
    /// when it comes again.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for an id that is not allowed, or that came with another payload
    /// before. [`ErrorKind::Unavailable`]: nobody knows; perhaps it has begun, and is busy for one
    /// lease. [`ErrorKind::Foreign`] when under the key lies what is no record, or a result of
    /// another type.
    pub async fn begin<R: DeserializeOwned>(&self, id: &str, payload: &[u8]) -> Result<Begun<R>> {
        let id = text(id)?;
        let RunOnceBuilder { prefix, name, lease, keep, codec, .. } = &self.inner.settings;
        let key = format!("{{{prefix}:{name}:{id}}}");
        let run =
            Run { inner: Arc::clone(&self.inner), key, token: token(), tries: 0, over: false };
        let mut call = run.step("begin");
        call.arg(millis(*lease)).arg(&Sha256::digest(payload)[..]).arg(millis(*keep));
        let mut answer = run.ask(&call).await;
        if answer.is_err() {
            // The same token: it is ours also if it was the answer that was lost.
            answer = run.ask(&call).await;
        }
        let mut answer = answer?.into_iter();
        let foreign =
            |what: &str| Err(Error::new(ErrorKind::Foreign, format!("{}: {what}", run.key)));
        match (answer.next(), answer.next()) {
            (Some(Value::BulkString(letter)), rest) => match (&letter[..], rest) {
                (b"W", Some(Value::Int(tries))) => {
                    let tries = tries.try_into().unwrap_or(1);
                    Ok(Begun::Won(run.won(tries)))
                }
                (b"B", Some(Value::Int(ms))) => {
                    Ok(Begun::Busy(Duration::from_millis(ms.try_into().unwrap_or(1))))
                }
                (b"C", Some(Value::BulkString(bytes))) => match codec.decode(&bytes) {
                    Some(result) => Ok(Begun::Completed(result)),
                    None => foreign("the result is of another type"),
                },
                (b"F", Some(Value::BulkString(bytes))) => {
                    Ok(Begun::Failed(String::from_utf8_lossy(&bytes).into_owned()))
                }
                (b"P", _) => {
                    Err(Error::invalid(format!("id: {id:?} came with another payload before")))
                }
                (b"X", _) => foreign("the key holds no record of a run"),
                _ => foreign("Redis gave an answer that is not understood"),
            },
            _ => foreign("Redis gave an answer that is not understood"),
        }
    }
}

/// Work that is ours to do. Dropped before it is ended, its lease is over: the next may begin at once,
/// and sees by [`tries`](Self::tries) that something was begun.
///
/// Its lease is not renewed by itself: call [`renew`](Self::renew) from the work, which so shows that
/// it goes on.
#[must_use = "dropped, the work is left to the next, who does not know what was done"]
pub struct Run {
    inner: Arc<Inner>,
    key: String,
    token: String,
    tries: u64,
    over: bool,
}

impl Run {
    fn won(mut self, tries: u64) -> Self {
        self.tries = tries;
        self
    }

    /// Which attempt this is. More than 1: somebody has begun before and has not ended, and what he
    /// did is not known.
    pub fn tries(&self) -> u64 {
        self.tries
    }

    /// The lease begins anew.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`]: it ended, and somebody else has begun; stop.
    /// [`ErrorKind::Unavailable`].
    pub async fn renew(&self) -> Result<()> {
        let mut call = self.step("renew");
        let RunOnceBuilder { lease, keep, .. } = &self.inner.settings;
        call.arg(millis(*lease)).arg(millis(*keep));
        self.end(&call).await
    }

    /// The work is done, and whoever asks gets this result.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`]: the lease ended, and somebody else has begun or ended the work; his
    /// record stands. [`ErrorKind::Invalid`] for a result that cannot be encoded: the run is dropped.
    /// [`ErrorKind::Unavailable`]; it may be recorded.
    pub async fn complete<R: Serialize + ?Sized>(mut self, result: &R) -> Result<()> {
        let bytes = self.inner.settings.codec.encode(&result)?;
        self.finish("complete", &bytes).await
    }

    /// It failed for good: whoever asks gets this reason.
    ///
    /// # Errors
    /// As [`complete`](Self::complete).
    pub async fn fail(mut self, reason: &str) -> Result<()> {
        self.finish("fail", reason.as_bytes()).await
    }

    /// Nothing was done, or all of it was undone, and it may be tried again: the record is removed.
    ///
    /// # Errors
    /// As [`complete`](Self::complete).
    pub async fn leave(mut self) -> Result<()> {
        self.over = true;
        self.end(&self.step("leave")).await
    }

    async fn finish(&mut self, step: &str, bytes: &[u8]) -> Result<()> {
        // Whatever the answer is, it may have been recorded.
        self.over = true;
        let mut call = self.step(step);
        call.arg(bytes).arg(millis(self.inner.settings.keep));
        let done = self.end(&call).await;
        match done {
            Err(error) if error.kind() == ErrorKind::Unavailable => self.end(&call).await,
            done => done,
        }
    }

    fn step(&self, step: &str) -> ScriptInvocation<'_> {
        let mut call = self.inner.step.prepare_invoke();
        call.key(&self.key).arg(step).arg(&self.token);
        call
    }

    async fn ask(&self, call: &ScriptInvocation<'_>) -> Result<Vec<Value>> {
        self.inner.link.run(call).await
    }

    async fn end(&self, call: &ScriptInvocation<'_>) -> Result<()> {
        let answer = self.ask(call).await?;
        match answer.first() {
            Some(Value::BulkString(letter)) if letter == b"1" => Ok(()),
            _ => Err(Error::new(
                ErrorKind::Lost,
                "the run is not ours any more: its lease has ended, and what was done since stands",
            )),
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if self.over || self.tries == 0 {
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (inner, key, token) = (self.inner.clone(), self.key.clone(), self.token.clone());
            let left = Self { inner, key, token, tries: 0, over: true };
            runtime.spawn(async move {
                let _ = left.end(&left.step("drop")).await;
            });
        }
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("key", &self.key).field("tries", &self.tries).finish()
    }
}

impl fmt::Debug for RunOnce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunOnce").field("settings", &self.inner.settings).finish_non_exhaustive()
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
