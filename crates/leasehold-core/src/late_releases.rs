//! Ends the leases that an ended runtime left behind: over one new connection, on its own thread,
//! and for a limited time.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use futures_util::stream::{StreamExt, iter};
use leasehold_proto::ClientId;
use tokio::sync::mpsc::error::SendError;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;

use crate::backend::{Backend, BoxFuture, EventSink, Mode, ReleaseRequest, Verdict, mode_of};
use crate::clock::Clock;
use crate::{Result, random};

/// Opens a second connection to the store of a client.
pub(crate) type Reopen = dyn Fn() -> BoxFuture<'static, Result<Arc<dyn Backend>>> + Send + Sync;

/// How long a client waits for this in total: a program that ends must not hang at a silent server.
const LIMIT: Duration = Duration::from_secs(1);
/// How long the connection is kept for further leases.
const IDLE: Duration = Duration::from_millis(100);
/// The number of leases that are ended at the same time.
const TOGETHER: usize = 32;

/// Ends leases without the runtime of a client.
pub(crate) struct LateReleases {
    reopen: Option<Arc<Reopen>>,
    /// What is left of [`LIMIT`].
    left_ns: AtomicU64,
    /// The queue of the thread with the connection, if there is one.
    thread: Mutex<Option<UnboundedSender<Batch>>>,
}

/// Leases to end.
struct Batch {
    ends: Vec<ReleaseRequest>,
    /// Dropped when they are ended, or cannot be.
    done: mpsc::Sender<()>,
}

impl LateReleases {
    /// Without `reopen`, leases that are not ended here end with their ttl.
    pub(crate) fn new(reopen: Option<Arc<Reopen>>) -> Self {
        let left_ns = AtomicU64::new(LIMIT.as_nanos() as u64);
        Self { reopen, left_ns, thread: Mutex::new(None) }
    }

    /// Ends attempts, and waits until the backend has answered or the limit is used up.
    pub(crate) fn finish(&self, clock: &Clock, mut ends: Vec<ReleaseRequest>) {
        let Some(reopen) = &self.reopen else { return };
        let left = Duration::from_nanos(self.left_ns.load(Ordering::Relaxed));
        // The server removes a waiter without a connection from its queue. An attempt without an answer
        // may hold its lock.
        ends.retain(|release| release.base.is_some() || release.suspect);
        ends.sort_by_key(|release| release.base.is_none());
        if left.is_zero() || ends.is_empty() {
            return;
        }
        let began = clock.now();
        let (done, finished) = mpsc::channel();
        self.send(&**reopen, Batch { ends, done });
        finished.recv_timeout(left).ok();
        let took = clock.now().steady_ns.saturating_sub(began.steady_ns);
        let rest = |left: u64| Some(left.saturating_sub(took));
        self.left_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, rest).ok();
    }

    /// Sends a batch to the thread, and starts a thread if there is none.
    fn send(&self, reopen: &Reopen, batch: Batch) {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        let batch = match &*thread {
            Some(thread) => match thread.send(batch) {
                Ok(()) => return,
                Err(SendError(batch)) => batch,
            },
            None => batch,
        };
        let (sender, batches) = unbounded_channel();
        sender.send(batch).ok();
        let opening = reopen();
        let work = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            if let Ok(runtime) = runtime {
                runtime.block_on(serve(opening, batches));
                runtime.shutdown_background();
            }
        };
        let started = std::thread::Builder::new().name("leasehold-end".into()).spawn(work);
        *thread = started.is_ok().then_some(sender);
    }
}

impl fmt::Debug for LateReleases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LateReleases").field("left_ns", &self.left_ns).finish_non_exhaustive()
    }
}

/// Ends batches over one connection until no batch has arrived for a while.
async fn serve(
    opening: BoxFuture<'static, Result<Arc<dyn Backend>>>,
    mut batches: UnboundedReceiver<Batch>,
) {
    let backend = match timeout(LIMIT, opening).await {
        Ok(Ok(backend)) => backend,
        Ok(Err(error)) => {
            tracing::debug!(%error, "cannot reconnect to release leases; they expire");
            return;
        }
        Err(_) => return,
    };
    let (sink, _events) = EventSink::channel();
    backend.attach(ClientId::from_bits(random::fresh()), sink);
    loop {
        match timeout(IDLE, batches.recv()).await {
            Ok(Some(Batch { ends, done })) => {
                let ending =
                    iter(ends).for_each_concurrent(TOGETHER, |release| end_one(&*backend, release));
                timeout(LIMIT, ending).await.ok();
                drop(done);
            }
            // Batches that were sent before are still received.
            Err(_) => batches.close(),
            Ok(None) => return,
        }
    }
}

async fn end_one(backend: &dyn Backend, release: ReleaseRequest) {
    let (name, base, keeps) = (release.name.clone(), release.base, release.keep.is_some());
    let attempt = release.attempt;
    let ended = async {
        let ended = backend.release(ReleaseRequest { then: None, ..release }).await?;
        // Some engines know an attempt only by its connection. There the token names the lease: the
        // call ends that lease and no later one. All readers of a phase have the same token, so it
        // would end the leases of other clients too.
        let alone = mode_of(attempt) == Mode::Exclusive;
        let is_unknown = matches!(ended.verdict, Verdict::Gone | Verdict::Unknown);
        if let Some(base) = base.filter(|_| is_unknown && !keeps && alone)
            && backend.capability().force_release
        {
            backend.force_release(&name, base).await?;
        }
        Ok::<_, crate::Error>(())
    };
    if let Err(error) = ended.await {
        tracing::debug!(%name, %error, "cannot release a lease; it expires");
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use leasehold_proto::AttemptId;

    use super::*;
    use crate::backend::{AcquireRequest, Answer};
    use crate::memory::MemoryStore;
    use crate::{Name, State};

    #[test]
    fn an_attempt_that_may_have_been_granted_is_ended() {
        let store = MemoryStore::new();
        let (backend, opened) = (store.connect(), store.clone());
        let (sink, _events) = EventSink::channel();
        backend.attach(ClientId::from_bits(1), sink);
        let late = LateReleases::new(Some(Arc::new(move || {
            let backend: Arc<dyn Backend> = Arc::new(opened.connect());
            Box::pin(std::future::ready(Ok(backend)))
        })));
        let name = Name::new("a").unwrap();
        let attempt = AttemptId::new(ClientId::from_bits(1), 1, 0);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let request = AcquireRequest::new(name.clone(), attempt, Duration::from_secs(60));
            let answer = backend.acquire(request).await.unwrap();
            assert!(matches!(answer, Answer::Granted(_)));
        });
        let mut end = ReleaseRequest::new(name.clone(), attempt);
        end.suspect = true; // Its answer did not arrive.
        late.finish(&Clock::default(), vec![end]);
        let status = runtime.block_on(backend.status(&name)).unwrap();
        assert_eq!(status.state, State::Free);
    }
}
