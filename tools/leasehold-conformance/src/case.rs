//! A case: one promise, and the steps that would show it broken.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leasehold_core::backend::{AcquireRequest, Backend, EventSink, Events, Origin, ReleaseRequest};
use leasehold_core::clock::Clock;
use leasehold_core::{
    AttemptId, Capability, Client, ClientId, ClientSettings, Deadline, Error, ErrorKind, Guard,
    Name, Now, Status,
};

use crate::patient::{PATIENCE, Patient};
use crate::{Bound, Faults, Stopwatch, Subject, ensure};

/// What a case comes to.
pub type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The steps of a case.
pub type Tries = fn(Context) -> Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// One promise.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Name of the test.
    pub name: &'static str,
    /// The promise, as `docs/guarantees.md` words it.
    pub promise: &'static str,
    /// Which engines make it. Others are marked as not making it, and their refusal is a case of
    /// its own.
    pub applies: fn(&Capability) -> bool,
    /// It needs a second process.
    pub processes: bool,
    /// Engines differ in how long it takes: the matrix shows the [`Bound`] of each.
    pub bounded: bool,
    /// The steps.
    pub run: Tries,
}

/// What a case works with.
#[derive(Clone, Debug)]
pub struct Context {
    /// The engine.
    pub subject: Subject,
    case: &'static str,
    sequence: Arc<AtomicU32>,
}

/// A raw connection: the backend without the client before it.
#[derive(Debug)]
pub struct Raw {
    /// The connection.
    pub backend: Arc<dyn Backend>,
    /// What the engine pushes.
    pub events: Events,
    client: ClientId,
    sequence: u32,
}

impl Context {
    /// A context for one run of one case.
    pub fn new(subject: Subject, case: &'static str) -> Self {
        Self { subject, case, sequence: Arc::default() }
    }

    /// Fails when a step took longer than the bound of this engine, with a ttl and so many waiters ahead.
    pub(crate) fn in_time(&self, took: Duration, ttl: Duration, ahead: u32) -> Outcome {
        let bound: Bound = self.subject.bound(self.case);
        let limit = bound.limit(ttl, ahead);
        println!("{}: {} took {took:?}, {bound}", self.subject.name, self.case);
        ensure!(took <= limit, "it took {took:?}, and not {bound}: {limit:?} at the most");
        Ok(())
    }

    /// A name that no other case uses.
    pub fn name(&self, what: &str) -> Name {
        let text = format!("{}/{what}", self.case);
        Name::new(text).expect("case names are allowed")
    }

    /// A client of its own.
    pub async fn client(&self) -> Client {
        self.client_of(self.subject.connect().await)
    }

    /// A client whose connection goes through faults.
    pub async fn faulty_client(&self) -> (Client, Faults) {
        let faults = Faults::before(self.subject.connect().await);
        let client = self.client_of(Arc::new(faults.clone()));
        (client, faults)
    }

    fn client_of(&self, backend: Arc<dyn Backend>) -> Client {
        Client::with_settings(backend, ClientSettings::new().patience(Duration::from_secs(5)))
            .expect("a case runs inside a runtime")
    }

    /// A raw connection. It repeats calls that could not be answered.
    pub async fn raw(&self) -> Raw {
        let backend = Arc::new(Patient(self.subject.connect().await));
        let number = self.sequence.fetch_add(1, Ordering::Relaxed);
        let seed = self.case.bytes().fold(u64::from(std::process::id()), |hash, byte| {
            hash.wrapping_mul(31).wrapping_add(u64::from(byte))
        });
        Raw::attach(backend, seed << 16 | u64::from(number))
    }
}

impl Raw {
    /// A connection under this client's number.
    pub fn attach(backend: Arc<dyn Backend>, client: u64) -> Self {
        let client = ClientId::from_bits(client);
        let (sink, events) = EventSink::channel();
        backend.attach(client, sink);
        Self { backend, events, client, sequence: 0 }
    }

    /// An ask for a lease by a new attempt.
    pub fn request(&mut self, name: &Name, ttl: Duration) -> AcquireRequest {
        self.sequence += 1;
        let attempt = AttemptId::new(self.client, self.sequence, 0);
        let origin = Origin::new("host", std::process::id(), Some("conformance".into()));
        AcquireRequest::new(name.clone(), attempt, ttl).with_origin(origin)
    }

    /// The end of what was asked for.
    pub fn end(&self, request: &AcquireRequest) -> ReleaseRequest {
        ReleaseRequest::new(request.name.clone(), request.attempt)
    }

    /// The lock's status.
    pub async fn status(&self, name: &Name) -> Result<Status, Error> {
        self.backend.status(name).await
    }
}

/// Waits until `condition` holds, twenty seconds at most.
///
/// # Errors
/// Names `what` did not happen.
pub async fn until<F, C>(what: &str, condition: F) -> Result<(), String>
where
    F: FnMut() -> C,
    C: Future<Output = bool>,
{
    until_within(PATIENCE, what, condition).await
}

/// The same with another limit.
pub(crate) async fn until_within<F, C>(
    limit: Duration,
    what: &str,
    mut condition: F,
) -> Result<(), String>
where
    F: FnMut() -> C,
    C: Future<Output = bool>,
{
    let clock = Clock::system();
    let end = Deadline::after(clock.now(), limit);
    while !condition().await {
        if end.has_passed(clock.now()) {
            return Err(format!("not within {limit:?}: {what}"));
        }
        clock.sleep(Duration::from_millis(2)).await;
    }
    Ok(())
}

/// Prepares what needs a lease that still lasts by then but ends soon, of `time` at first. Steps that
/// fail after that have come too late, for the machine stood still, and have prepared nothing: they are
/// begun anew with a lease of twice the time. Steps that fail in good time fail the case, and no promise
/// is looked at in them.
pub(crate) async fn prepared<T, F>(
    mut time: Duration,
    mut steps: impl FnMut(Duration) -> F,
) -> Result<T, Box<dyn std::error::Error + Send + Sync>>
where
    F: Future<Output = Result<T, Box<dyn std::error::Error + Send + Sync>>>,
{
    let clock = Clock::system();
    loop {
        let end = Deadline::after(clock.now(), time);
        let done = steps(time).await;
        if done.is_ok() || !end.has_passed(clock.now()) || time > PATIENCE {
            return done;
        }
        time *= 2;
    }
}

/// How long ago that was.
pub(crate) fn since(start: Now) -> Duration {
    Duration::from_nanos(Clock::system().now().steady_ns.saturating_sub(start.steady_ns))
}

/// Fails unless a loss was told before the lease's deadline; later by no more than the machine has stood
/// still since the stopwatch was started, before the lease was asked for.
pub(crate) fn told_in_time(guard: &Guard, stopwatch: &Stopwatch) -> Outcome {
    let deadline = guard.deadline().ok_or("lost without a deadline")?;
    let late = Clock::system().now().steady_ns.saturating_sub(deadline.steady_ns());
    let (late, stalled) = (Duration::from_nanos(late), stopwatch.stalled());
    ensure!(
        late <= stalled,
        "told {late:?} after the deadline; the machine stood still for {stalled:?}"
    );
    Ok(())
}

/// Panics unless an error has this kind and these words in its text.
#[track_caller]
pub fn says(error: &Error, kind: ErrorKind, words: &[&str]) {
    let text = error.to_string();
    assert_eq!(error.kind(), kind, "{text}");
    for word in words {
        assert!(text.contains(word), "{word:?} is not in {text:?}");
    }
}

/// Fails the case unless a condition holds.
#[macro_export]
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err(format!($($message)+).into());
        }
    };
}
