//! A backend that repeats calls which could not be answered, as clients do: a store may have no leader for a moment on
//! a machine with much to do. That a repeated call has the same effect is a promise of every engine.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::backend::{
    AcquireRequest, Answer, Backend, BoxFuture, Changes, ConvertRequest, Converted, Ended,
    EventSink, LimitChange, LimitChanged, ReleaseRequest, Renewal, Renewed, StoredLimit, ValueSwap,
};
use leasehold_core::clock::Clock;
use leasehold_core::{
    AttemptId, Capability, ClientId, Deadline, Error, ErrorKind, Forced, Name, Result, Status,
    Token,
};

/// Longer than anything takes that is waited for, on a machine with much to do; shorter than the
/// usual ttl, by which much comes about that is not meant.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// The pause before a call is repeated.
const PAUSE: Duration = Duration::from_millis(50);

/// A backend with patience.
#[derive(Debug)]
pub(crate) struct Patient(pub(crate) Arc<dyn Backend>);

/// Calls until the answer is known, for as long as a case waits for anything.
///
/// # Errors
/// As the call, also if it was never answered.
pub async fn until_answered<T, F>(mut call: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let clock = Clock::system();
    let until = Deadline::after(clock.now(), PATIENCE);
    loop {
        match call().await {
            Err(error) if is_unanswered(&error) && !until.has_passed(clock.now()) => {
                clock.sleep(PAUSE).await;
            }
            answer => return answer,
        }
    }
}

fn is_unanswered(error: &Error) -> bool {
    error.kind() == ErrorKind::Unavailable
}

impl Backend for Patient {
    fn capability(&self) -> &Capability {
        self.0.capability()
    }

    fn place(&self) -> String {
        self.0.place()
    }

    fn warnings(&self) -> &[String] {
        self.0.warnings()
    }

    fn attach(&self, client: ClientId, events: EventSink) {
        self.0.attach(client, events);
    }

    fn acquire(&self, request: AcquireRequest) -> BoxFuture<'_, Result<Answer>> {
        Box::pin(until_answered(move || self.0.acquire(request.clone())))
    }

    fn renew<'a>(&'a self, leases: &'a [Renewal]) -> BoxFuture<'a, Vec<Result<Renewed>>> {
        Box::pin(async move {
            let mut answers = self.0.renew(leases).await;
            for (answer, lease) in answers.iter_mut().zip(leases) {
                if answer.as_ref().is_err_and(is_unanswered) {
                    *answer = until_answered(async || {
                        let again = self.0.renew(std::slice::from_ref(lease)).await;
                        again.into_iter().next().unwrap_or(Ok(Renewed::Lost))
                    })
                    .await;
                }
            }
            answers
        })
    }

    fn release(&self, release: ReleaseRequest) -> BoxFuture<'_, Result<Ended>> {
        Box::pin(until_answered(move || self.0.release(release.clone())))
    }

    fn convert(&self, request: ConvertRequest) -> BoxFuture<'_, Result<Converted>> {
        let mut is_first = true;
        Box::pin(until_answered(move || {
            let again = request.again || !std::mem::replace(&mut is_first, false);
            self.0.convert(request.clone().with_again(again))
        }))
    }

    fn limit<'a>(&'a self, name: &'a Name) -> BoxFuture<'a, Result<Option<StoredLimit>>> {
        Box::pin(until_answered(move || self.0.limit(name)))
    }

    fn set_limit(&self, change: LimitChange) -> BoxFuture<'_, Result<LimitChanged>> {
        Box::pin(until_answered(move || self.0.set_limit(change.clone())))
    }

    fn value<'a>(&'a self, name: &'a Name) -> BoxFuture<'a, Result<Option<Vec<u8>>>> {
        Box::pin(until_answered(move || self.0.value(name)))
    }

    /// Not repeated: a repeat is answered as not replaced.
    fn swap_value(&self, swap: ValueSwap) -> BoxFuture<'_, Result<bool>> {
        self.0.swap_value(swap)
    }

    fn status<'a>(&'a self, name: &'a Name) -> BoxFuture<'a, Result<Status>> {
        Box::pin(until_answered(move || self.0.status(name)))
    }

    fn watch(&self, name: &Name) -> Option<Changes> {
        self.0.watch(name)
    }

    fn list<'a>(&'a self, prefix: &'a str, limit: usize) -> BoxFuture<'a, Result<Vec<Status>>> {
        Box::pin(until_answered(move || self.0.list(prefix, limit)))
    }

    /// Not repeated: a repeat finds the lease ended.
    fn force_release<'a>(&'a self, name: &'a Name, token: Token) -> BoxFuture<'a, Result<Forced>> {
        self.0.force_release(name, token)
    }

    #[cfg(unix)]
    fn descriptor(&self, attempt: AttemptId) -> Option<std::os::fd::OwnedFd> {
        self.0.descriptor(attempt)
    }

    fn replicas(&self, attempt: AttemptId) -> Option<usize> {
        self.0.replicas(attempt)
    }

    fn abandon(&self, end: &ReleaseRequest) {
        self.0.abandon(end);
    }
}
