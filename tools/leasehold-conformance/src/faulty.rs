//! Faults between the client and any backend: lost replies, lost requests, lost pushes.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use leasehold_core::backend::{
    AcquireRequest, Answer, Backend, BoxFuture, Changes, ConvertRequest, Converted, Ended, Event,
    EventSink, LimitChange, LimitChanged, Mode, ReleaseRequest, Renewal, Renewed, StoredLimit,
    ValueSwap,
};
use leasehold_core::{
    AttemptId, Capability, ClientId, Error, ErrorKind, Forced, Name, Result, Status, Token,
};
use tokio::sync::Notify;

/// What happens to the next call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is executed, but the answer is lost.
    LoseReply,
    /// It never arrives.
    LoseRequest,
    /// It is executed twice.
    Duplicate,
    /// It hangs for ever, and is never executed.
    Hang,
    /// It is executed, and answered with this error.
    Fail(ErrorKind),
    /// It is not executed, and answered with this error.
    Refuse(ErrorKind),
    /// An acquire that is under way for ever, until [`Faults::deliver`].
    Delay,
    /// It is on its way until [`Faults::arrive`].
    Late,
}

/// A backend with faults before it. Cheap to clone; clones are the same.
#[derive(Clone, Debug)]
pub struct Faults(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    backend: Arc<dyn Backend>,
    acquire: Mutex<VecDeque<Fault>>,
    release: Mutex<VecDeque<Fault>>,
    renew: Mutex<VecDeque<Fault>>,
    convert: Mutex<VecDeque<Fault>>,
    set_limit: Mutex<VecDeque<Fault>>,
    swap: Mutex<VecDeque<Fault>>,
    /// Renewals fail (lost requests) while this is set.
    no_renewals: AtomicBool,
    /// Pushes are swallowed while this is set.
    no_pushes: Arc<AtomicBool>,
    calls: AtomicU64,
    after_acquire: Mutex<Option<Hook>>,
    after_renewal: Mutex<Option<Hook>>,
    delayed: Mutex<Vec<AcquireRequest>>,
    late: Notify,
    sink: OnceLock<EventSink>,
    /// Releases of attempts whose asks may still be on their way.
    suspects: AtomicU64,
}

/// Something that happens between the execution of a call and the arrival of its answer.
struct Hook(Box<dyn FnOnce() + Send>);

impl std::fmt::Debug for Hook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hook")
    }
}

impl Faults {
    /// No faults yet.
    pub fn before(backend: Arc<dyn Backend>) -> Self {
        Self(Arc::new(Inner {
            backend,
            acquire: Mutex::default(),
            release: Mutex::default(),
            renew: Mutex::default(),
            convert: Mutex::default(),
            set_limit: Mutex::default(),
            swap: Mutex::default(),
            no_renewals: AtomicBool::new(false),
            no_pushes: Arc::default(),
            calls: AtomicU64::new(0),
            after_acquire: Mutex::default(),
            after_renewal: Mutex::default(),
            delayed: Mutex::default(),
            late: Notify::new(),
            sink: OnceLock::new(),
            suspects: AtomicU64::new(0),
        }))
    }

    /// What happens to the coming acquires, one each.
    pub fn on_acquire(&self, faults: &[Fault]) {
        self.0.acquire.lock().unwrap_or_else(PoisonError::into_inner).extend(faults);
    }

    /// What happens to the coming releases, one each.
    pub fn on_release(&self, faults: &[Fault]) {
        self.0.release.lock().unwrap_or_else(PoisonError::into_inner).extend(faults);
    }

    /// What happens to the coming batches of renewals, one each.
    pub fn on_renew(&self, faults: &[Fault]) {
        self.0.renew.lock().unwrap_or_else(PoisonError::into_inner).extend(faults);
    }

    /// What happens to the coming downgrades and upgrades, one each.
    pub fn on_convert(&self, faults: &[Fault]) {
        self.0.convert.lock().unwrap_or_else(PoisonError::into_inner).extend(faults);
    }

    /// What happens to the coming changes of a limit, one each.
    pub fn on_set_limit(&self, faults: &[Fault]) {
        self.0.set_limit.lock().unwrap_or_else(PoisonError::into_inner).extend(faults);
    }

    /// What happens to the coming changes of a latch, one each.
    pub fn on_swap(&self, faults: &[Fault]) {
        self.0.swap.lock().unwrap_or_else(PoisonError::into_inner).extend(faults);
    }

    /// What happens between the next acquire and its answer: a pause, a jump of the clock.
    pub fn before_next_answer(&self, hook: impl FnOnce() + Send + 'static) {
        let mut after = self.0.after_acquire.lock().unwrap_or_else(PoisonError::into_inner);
        *after = Some(Hook(Box::new(hook)));
    }

    /// The same for the next renewal.
    pub fn before_next_renewal_answer(&self, hook: impl FnOnce() + Send + 'static) {
        let mut after = self.0.after_renewal.lock().unwrap_or_else(PoisonError::into_inner);
        *after = Some(Hook(Box::new(hook)));
    }

    /// Delivers the delayed acquires now, however long ago they were given up.
    ///
    /// # Errors
    /// What the backend says to one of them.
    pub async fn deliver(&self) -> Result<Vec<Answer>> {
        let asks =
            std::mem::take(&mut *self.0.delayed.lock().unwrap_or_else(PoisonError::into_inner));
        let mut answers = Vec::new();
        for request in asks {
            answers.push(self.0.backend.acquire(request).await?);
        }
        Ok(answers)
    }

    /// A call that is late arrives now.
    pub fn arrive(&self) {
        self.0.late.notify_one();
    }

    /// Says something to the client that the backend has not said.
    pub fn say(&self, event: Event) {
        if let Some(sink) = self.0.sink.get() {
            sink.send(event);
        }
    }

    /// Releases that went to the backend and had it remember the attempt.
    pub fn suspects(&self) -> u64 {
        self.0.suspects.load(Ordering::SeqCst)
    }

    /// From now on renewals arrive or do not.
    pub fn cut_renewals(&self, cut: bool) {
        self.0.no_renewals.store(cut, Ordering::SeqCst);
    }

    /// From now on pushes arrive or do not.
    pub fn cut_pushes(&self, cut: bool) {
        self.0.no_pushes.store(cut, Ordering::SeqCst);
    }

    /// Calls that went to the backend.
    pub fn calls(&self) -> u64 {
        self.0.calls.load(Ordering::SeqCst)
    }
}

fn lost() -> Error {
    Error::new(ErrorKind::Unavailable, "the message was lost (injected)")
}

fn next(queue: &Mutex<VecDeque<Fault>>) -> Option<Fault> {
    queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
}

/// Runs a call under a fault; `call` makes a new future each time it is executed.
async fn under<T, C>(fault: Option<Fault>, late: &Notify, mut call: impl FnMut() -> C) -> Result<T>
where
    C: Future<Output = Result<T>>,
{
    match fault {
        None => call().await,
        Some(Fault::Late) => {
            late.notified().await;
            call().await
        }
        Some(Fault::LoseRequest) => Err(lost()),
        Some(Fault::Hang | Fault::Delay) => std::future::pending().await,
        Some(Fault::Refuse(kind)) => Err(Error::new(kind, "refused (injected)")),
        Some(Fault::Fail(kind)) => {
            call().await.ok();
            Err(Error::new(kind, "failed (injected)"))
        }
        Some(Fault::LoseReply) => {
            call().await.ok();
            Err(lost())
        }
        Some(Fault::Duplicate) => {
            call().await.ok();
            call().await
        }
    }
}

impl Backend for Faults {
    fn capability(&self) -> &Capability {
        self.0.backend.capability()
    }

    fn place(&self) -> String {
        self.0.backend.place()
    }

    fn attach(&self, client: ClientId, events: EventSink) {
        let (sink, mut pushed) = EventSink::channel();
        let cut = self.0.no_pushes.clone();
        self.0.backend.attach(client, sink);
        self.0.sink.set(events.clone()).ok();
        tokio::spawn(async move {
            while let Some(event) = pushed.recv().await {
                let lost = cut.load(Ordering::SeqCst) && !matches!(event, Event::Lost { .. });
                if !lost && !events.send(event) {
                    break;
                }
            }
        });
    }

    fn acquire(&self, request: AcquireRequest) -> BoxFuture<'_, Result<Answer>> {
        self.0.calls.fetch_add(1, Ordering::SeqCst);
        let fault = next(&self.0.acquire);
        if fault == Some(Fault::Delay) {
            let mut delayed = self.0.delayed.lock().unwrap_or_else(PoisonError::into_inner);
            delayed.push(request.clone());
        }
        Box::pin(async move {
            let answer =
                under(fault, &self.0.late, || self.0.backend.acquire(request.clone())).await;
            let hook = self.0.after_acquire.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(Hook(hook)) = hook {
                hook();
            }
            answer
        })
    }

    fn renew<'a>(&'a self, leases: &'a [Renewal]) -> BoxFuture<'a, Vec<Result<Renewed>>> {
        self.0.calls.fetch_add(1, Ordering::SeqCst);
        if self.0.no_renewals.load(Ordering::SeqCst) {
            return Box::pin(async { leases.iter().map(|_| Err(lost())).collect() });
        }
        let fault = next(&self.0.renew);
        Box::pin(async move {
            let call = || async { Ok(self.0.backend.renew(leases).await) };
            let answers = under(fault, &self.0.late, call).await;
            let answers =
                answers.unwrap_or_else(|error| leases.iter().map(|_| Err(error.clone())).collect());
            let hook = self.0.after_renewal.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(Hook(hook)) = hook {
                hook();
            }
            answers
        })
    }

    fn release(&self, release: ReleaseRequest) -> BoxFuture<'_, Result<Ended>> {
        self.0.calls.fetch_add(1, Ordering::SeqCst);
        self.0.suspects.fetch_add(release.suspect.into(), Ordering::SeqCst);
        let fault = next(&self.0.release);
        Box::pin(under(fault, &self.0.late, move || self.0.backend.release(release.clone())))
    }

    fn convert(&self, request: ConvertRequest) -> BoxFuture<'_, Result<Converted>> {
        self.0.calls.fetch_add(1, Ordering::SeqCst);
        let fault = next(&self.0.convert);
        Box::pin(under(fault, &self.0.late, move || self.0.backend.convert(request.clone())))
    }

    fn limit<'a>(&'a self, name: &'a Name) -> BoxFuture<'a, Result<Option<StoredLimit>>> {
        self.0.calls.fetch_add(1, Ordering::SeqCst);
        self.0.backend.limit(name)
    }

    fn set_limit(&self, change: LimitChange) -> BoxFuture<'_, Result<LimitChanged>> {
        self.0.calls.fetch_add(1, Ordering::SeqCst);
        let fault = next(&self.0.set_limit);
        Box::pin(under(fault, &self.0.late, move || self.0.backend.set_limit(change.clone())))
    }

    fn value<'a>(&'a self, name: &'a Name) -> BoxFuture<'a, Result<Option<Vec<u8>>>> {
        self.0.calls.fetch_add(1, Ordering::SeqCst);
        self.0.backend.value(name)
    }

    fn swap_value(&self, swap: ValueSwap) -> BoxFuture<'_, Result<bool>> {
        self.0.calls.fetch_add(1, Ordering::SeqCst);
        let fault = next(&self.0.swap);
        Box::pin(under(fault, &self.0.late, move || self.0.backend.swap_value(swap.clone())))
    }

    fn status<'a>(&'a self, name: &'a Name) -> BoxFuture<'a, Result<Status>> {
        self.0.backend.status(name)
    }

    fn watch(&self, name: &Name) -> Option<Changes> {
        self.0.backend.watch(name)
    }

    fn list<'a>(&'a self, prefix: &'a str, limit: usize) -> BoxFuture<'a, Result<Vec<Status>>> {
        self.0.backend.list(prefix, limit)
    }

    fn force_release<'a>(&'a self, name: &'a Name, token: Token) -> BoxFuture<'a, Result<Forced>> {
        self.0.backend.force_release(name, token)
    }

    fn force_release_attempt<'a>(
        &'a self,
        name: &'a Name,
        attempt: AttemptId,
        mode: Mode,
    ) -> BoxFuture<'a, Result<Forced>> {
        self.0.backend.force_release_attempt(name, attempt, mode)
    }

    #[cfg(unix)]
    fn descriptor(&self, attempt: AttemptId) -> Option<std::os::fd::OwnedFd> {
        self.0.backend.descriptor(attempt)
    }

    fn replicas(&self, attempt: AttemptId) -> Option<usize> {
        self.0.backend.replicas(attempt)
    }

    fn abandon(&self, release: &ReleaseRequest) {
        self.0.backend.abandon(release);
    }
}
