//! Work that runs once per request id, and whose result is kept.

mod settings;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold_cache_redis::{Link, check_key, draw_token};
use leasehold_core::clock::Clock;
use leasehold_core::proto::Now;
use redis::{Script, ScriptInvocation, Value};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

pub use self::settings::RunOnceBuilder;
use crate::{Error, ErrorKind, Result};

/// Runs the work of each request id once, as the `Idempotency-Key` header of HTTP requires: one
/// process works at a time, and later callers get the result.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use leasehold_once::{Begun, RunOnce};
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
///     other => return Err(format!("unknown result: {other:?}").into()), // of a later version
/// };
/// # drop(receipt); Ok(()) }
/// # async fn pay(_: u64) -> std::io::Result<String> { Ok(String::new()) }
/// ```
///
/// The guarantee depends on Redis: it holds only while Redis keeps the data that it has
/// acknowledged. If a second run is a disaster, also use a unique key in the database. While Redis
/// is down, no run begins. A run has no fencing token: a write that a dead or paused holder has
/// sent may still arrive later.
///
/// The record `{prefix:name:id}` is a hash: `v` (1), `state` (`running`, `completed`, `failed`),
/// `token` of the run, `until` (Unix ms by the server's clock), `print` (SHA-256 of the payload),
/// `tries`, `result`. Clones share all state.
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

/// The first and the longest pause before a call is repeated that Redis did not answer.
const RETRY: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// The result of [`RunOnce::begin`].
#[derive(Debug)]
#[non_exhaustive]
pub enum Begun<R> {
    /// This process must do the work.
    Won(Run),
    /// Another process does the work. Its lease lasts for at least this time; after that another
    /// process may begin.
    Busy(Duration),
    /// The work was completed before, with this result.
    Completed(R),
    /// The work failed permanently before, for this reason.
    Failed(String),
}

impl RunOnce {
    pub(super) fn new(link: Link, settings: RunOnceBuilder, clock: Clock) -> Self {
        let step = Script::new(include_str!("lua/run.lua"));
        Self { inner: Arc::new(Inner { link, step, settings, clock }) }
    }

    /// Returns the settings for runs of this name, which has the form of a cache name.
    pub fn builder(name: &str) -> RunOnceBuilder {
        RunOnceBuilder::new(name)
    }

    /// Begins the work of request `id` (1 to 512 bytes without control characters), unless it is
    /// done or another process does it.
    ///
    /// `payload` identifies the content of the request. It must be the same when the request is
    /// repeated.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for an id that is not allowed, or that was used with another payload.
    /// [`ErrorKind::Unavailable`] if Redis cannot be reached: the run may have begun, and then the
    /// id is busy for one lease. [`ErrorKind::Foreign`] if the key holds another kind of value, or
    /// a result of another type.
    pub async fn begin<R: DeserializeOwned>(&self, id: &str, payload: &[u8]) -> Result<Begun<R>> {
        check_key(id)?;
        let RunOnceBuilder { prefix, name, lease, keep, codec, .. } = &self.inner.settings;
        let key = format!("{{{prefix}:{name}:{id}}}");
        let clock = &self.inner.clock;
        let token = draw_token();
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
                    None => foreign("the result has another type; use another name or prefix"),
                },
                (b"F", Some(Value::BulkString(bytes))) => {
                    Ok(Begun::Failed(String::from_utf8_lossy(&bytes).into_owned()))
                }
                (b"P", _) => {
                    Err(Error::invalid(format!("id: {id:?} was used before with another payload")))
                }
                (b"X", _) => {
                    foreign("the key does not hold the record of a run; use another prefix")
                }
                _ => foreign("unexpected reply from Redis"),
            },
            _ => foreign("unexpected reply from Redis"),
        }
    }
}

/// A run that this process must do. It ends with [`complete`](Self::complete),
/// [`fail`](Self::fail), [`leave`](Self::leave) or [`abandon`](Self::abandon).
///
/// If a run is dropped before that, it keeps its lease until the lease expires. The dropped future
/// may have sent a request that still arrives, and the next run must not overlap it.
///
/// The lease is not renewed automatically: call [`renew`](Self::renew) in the work, to show that it
/// makes progress.
#[must_use = "if the run is dropped, the id stays busy until the lease expires"]
pub struct Run {
    inner: Arc<Inner>,
    key: String,
    token: String,
    tries: u64,
    /// When the lease expires, in nanoseconds of the steady clock.
    ends: AtomicU64,
}

impl Run {
    /// Returns the number of this attempt. If above 1, an earlier run recorded no result; its
    /// effects are unknown.
    pub fn tries(&self) -> u64 {
        self.tries
    }

    /// Renews the lease: it lasts for one whole `lease` from now.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`] if the lease expired and another run has begun: stop the work.
    /// [`ErrorKind::Unavailable`] if Redis did not answer; the lease may be renewed or not.
    pub async fn renew(&self) -> Result<()> {
        let mut call = self.step("renew");
        let RunOnceBuilder { lease, keep, .. } = &self.inner.settings;
        call.arg(millis(*lease)).arg(millis(*keep));
        let asked = self.inner.clock.now();
        self.ask(&call).await?;
        self.lease_from(asked);
        Ok(())
    }

    /// Records that the work is completed: every later `begin` of the id gets this result.
    ///
    /// If Redis does not answer, the call is repeated until the lease expires. It is sent at least
    /// once, even while the circuit breaker is open. If the future is dropped, the run still
    /// exists, and the result may be recorded.
    ///
    /// # Errors
    /// After an error the run still exists, and you may call this again. [`ErrorKind::Lost`] if the
    /// lease expired and another run has begun or ended the work; the record of that run is valid.
    /// [`ErrorKind::Invalid`] for a result that cannot be encoded; no command was sent.
    /// [`ErrorKind::Unavailable`] if Redis did not answer until the lease expired. The result may
    /// be recorded; otherwise the next run begins the work again.
    pub async fn complete<R: Serialize + ?Sized>(&mut self, result: &R) -> Result<()> {
        let bytes = self.inner.settings.codec.encode(&result)?;
        self.finish("complete", &bytes).await
    }

    /// Records that the work failed permanently: every later `begin` of the id gets this reason.
    /// Repeated as [`complete`](Self::complete) is.
    ///
    /// # Errors
    /// As [`complete`](Self::complete).
    pub async fn fail(&mut self, reason: &str) -> Result<()> {
        self.finish("fail", reason.as_bytes()).await
    }

    /// Removes the record, so that the work can be tried again. Call it if no work was done, or all
    /// of it was undone. Repeated as [`complete`](Self::complete) is.
    ///
    /// # Errors
    /// As [`complete`](Self::complete).
    pub async fn leave(&mut self) -> Result<()> {
        self.repeat(&self.step("leave")).await
    }

    /// Ends the lease and keeps the record: the work has stopped, and its effects are unknown.
    ///
    /// The next run may begin at once, and its [`tries`](Self::tries) are above 1. Repeated as
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

    /// Repeats a call until Redis answers or the lease expires. Every call that ends a run may be
    /// repeated.
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

    /// Counts the lease from the time at which the call was sent.
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
                "the lease of the run expired; effects since then are not undone; do not complete \
                 it",
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
