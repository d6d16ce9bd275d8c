//! Work that is done once for each request id, and whose result is remembered.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold_core::clock::Clock;
use leasehold_core::proto::Now;
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
///     Begun::Won(mut run) => {
///         // tries() > 1: an earlier run began and recorded no end. Ask the bank before you pay.
///         let receipt = pay(run.tries()).await?;
///         // Repeats until Redis answers, for as long as the lease lasts. After an error `run` is
///         // still there: the work is done, so try again rather than drop it.
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
    clock: Clock,
}

/// The first and the longest pause before a step is repeated that Redis did not answer.
const RETRY: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

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
    pub(super) fn new(link: Link, settings: RunOnceBuilder, clock: Clock) -> Self {
        let step = Script::new(include_str!("../lua/run.lua"));
        Self { inner: Arc::new(Inner { link, step, settings, clock }) }
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
        let clock = &self.inner.clock;
        let token = token();
        let mut call = self.inner.step.prepare_invoke();
        call.key(&key).arg("begin").arg(&token);
        call.arg(millis(*lease)).arg(&Sha256::digest(payload)[..]).arg(millis(*keep));
        let mut asked = clock.now();
        let mut answer = self.inner.link.run::<Vec<Value>>(&call).await;
        if answer.is_err() {
            // The same token: it is ours also if it was the answer that was lost.
            asked = clock.now();
            answer = self.inner.link.run(&call).await;
        }
        let mut answer = answer?.into_iter();
        let foreign = |what: &str| Err(Error::new(ErrorKind::Foreign, format!("{key}: {what}")));
        match (answer.next(), answer.next()) {
            (Some(Value::BulkString(letter)), rest) => match (&letter[..], rest) {
                (b"W", Some(Value::Int(tries))) => {
                    let tries = tries.try_into().unwrap_or(1);
                    let ends = AtomicU64::new(0);
                    let inner = Arc::clone(&self.inner);
                    let run = Run { inner, key, token, tries, ends };
                    run.lease_from(asked);
                    Ok(Begun::Won(run))
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

/// Work that this process is to do, until it is ended by [`complete`](Self::complete),
/// [`fail`](Self::fail), [`leave`](Self::leave) or [`abandon`](Self::abandon).
///
/// Dropped before that, it keeps its lease until the lease ends by itself: the future that did the work
/// may have been cancelled while a request of it was on its way, and the next run must not overlap it.
///
/// Its lease is not renewed by itself: call [`renew`](Self::renew) from the work, which so shows that
/// it goes on.
#[must_use = "dropped, the work stays busy until the lease ends"]
pub struct Run {
    inner: Arc<Inner>,
    key: String,
    token: String,
    tries: u64,
    /// When the lease ends, in nanoseconds of the steady clock.
    ends: AtomicU64,
}

impl Run {
    /// Which attempt this is. More than 1: an earlier run began and recorded no end, and what it
    /// did is not known.
    pub fn tries(&self) -> u64 {
        self.tries
    }

    /// Renews the lease: it lasts a whole `lease` from now on.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`]: the lease ended, and another run has begun; stop the work.
    /// [`ErrorKind::Unavailable`]: Redis did not answer; the lease is what it was, or renewed.
    pub async fn renew(&self) -> Result<()> {
        let mut call = self.step("renew");
        let RunOnceBuilder { lease, keep, .. } = &self.inner.settings;
        call.arg(millis(*lease)).arg(millis(*keep));
        let asked = self.inner.clock.now();
        self.ask(&call).await?;
        self.lease_from(asked);
        Ok(())
    }

    /// Records that the work is done: every later `begin` of the id gets this result.
    ///
    /// While Redis does not answer, the call is repeated until the lease ends, at least once. It is
    /// sent whatever failed before (past the circuit breaker). Dropping the future leaves the run as
    /// it is; the result may be recorded then.
    ///
    /// # Errors
    /// After an error the run is still there, and this may be called again.
    /// [`ErrorKind::Lost`]: the lease ended, and another run has begun or ended the work; its
    /// record stands. [`ErrorKind::Invalid`] for a result that cannot be encoded: nothing was sent.
    /// [`ErrorKind::Unavailable`]: no answer until the lease ended; the result may be recorded. If it
    /// is not, the next run begins the work again.
    pub async fn complete<R: Serialize + ?Sized>(&mut self, result: &R) -> Result<()> {
        let bytes = self.inner.settings.codec.encode(&result)?;
        self.finish("complete", &bytes).await
    }

    /// Records that the work failed for good: every later `begin` of the id gets this reason.
    /// Repeated as [`complete`](Self::complete) is.
    ///
    /// # Errors
    /// As [`complete`](Self::complete).
    pub async fn fail(&mut self, reason: &str) -> Result<()> {
        self.finish("fail", reason.as_bytes()).await
    }

    /// Removes the record: nothing was done, or all of it was undone, and it may be tried again.
    /// Repeated as [`complete`](Self::complete) is.
    ///
    /// # Errors
    /// As [`complete`](Self::complete).
    pub async fn leave(&mut self) -> Result<()> {
        self.repeat(&self.step("leave")).await
    }

    /// Ends the lease and keeps the record: the work has stopped, and what it did is not known. The
    /// next run may begin at once, and its [`tries`](Self::tries) are above 1. Repeated as
    /// [`complete`](Self::complete) is.
    ///
    /// # Errors
    /// As [`complete`](Self::complete).
    pub async fn abandon(&mut self) -> Result<()> {
        self.repeat(&self.step("drop")).await
    }

    async fn finish(&mut self, step: &str, bytes: &[u8]) -> Result<()> {
        let mut call = self.step(step);
        call.arg(bytes).arg(millis(self.inner.settings.keep));
        self.repeat(&call).await
    }

    /// Asks until Redis has answered or the lease has ended. Every step that ends a run may be repeated.
    async fn repeat(&self, call: &ScriptInvocation<'_>) -> Result<()> {
        let mut pause = RETRY.0;
        loop {
            let done = self.ask(call).await;
            let now = self.inner.clock.now().steady_ns;
            let left = self.ends.load(Ordering::Relaxed).saturating_sub(now);
            match done {
                Err(error) if error.kind() == ErrorKind::Unavailable && left > 0 => {
                    self.inner.clock.sleep(pause.min(Duration::from_nanos(left))).await;
                    pause = RETRY.1.min(pause * 2);
                }
                done => return done,
            }
        }
    }

    /// The lease lasts from the moment in which it was asked for.
    fn lease_from(&self, asked: Now) {
        let lease = u64::try_from(self.inner.settings.lease.as_nanos()).unwrap_or(u64::MAX);
        self.ends.store(asked.steady_ns.saturating_add(lease), Ordering::Relaxed);
    }

    fn step(&self, step: &str) -> ScriptInvocation<'_> {
        let mut call = self.inner.step.prepare_invoke();
        call.key(&self.key).arg(step).arg(&self.token);
        call
    }

    async fn ask(&self, call: &ScriptInvocation<'_>) -> Result<()> {
        let answer: Vec<Value> = self.inner.link.run_past_breaker(call).await?;
        match answer.first() {
            Some(Value::BulkString(letter)) if letter == b"1" => Ok(()),
            _ => Err(Error::new(
                ErrorKind::Lost,
                "the run is not ours any more: its lease has ended, and what was done since stands",
            )),
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
