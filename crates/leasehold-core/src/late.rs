//! Ends what a runtime that has ended left unfinished: over a new connection, on a thread of its own,
//! and for a bounded time.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use leasehold_proto::ClientId;

use crate::Result;
use crate::backend::{Backend, BoxFuture, End, EventSink, Verdict};
use crate::clock::Clock;

/// Opens a second connection to the place where a client's locks are.
pub(crate) type Reopen = dyn Fn() -> BoxFuture<'static, Result<Arc<dyn Backend>>> + Send + Sync;

/// How long a client waits for this in all: a program that ends must not hang at a silent server.
const LIMIT: Duration = Duration::from_secs(1);

/// How a client ends leases without its runtime.
pub(crate) struct LateEndings {
    reopen: Option<Box<Reopen>>,
    /// What is left of [`LIMIT`].
    left_ns: AtomicU64,
}

impl LateEndings {
    /// Without `reopen` leases that are not ended here are left to their ttl.
    pub(crate) fn new(reopen: Option<Box<Reopen>>) -> Self {
        Self { reopen, left_ns: AtomicU64::new(LIMIT.as_nanos() as u64) }
    }

    /// Ends attempts, waiting until the backend has answered or the time is up.
    pub(crate) fn finish(&self, clock: &Clock, mut ends: Vec<End>) {
        let Some(reopen) = &self.reopen else { return };
        let left = Duration::from_nanos(self.left_ns.load(Ordering::Relaxed));
        // A waiter without a connection is dropped from the queue by the server.
        ends.retain(|end| end.base.is_some());
        if left.is_zero() || ends.is_empty() {
            return;
        }
        let began = clock.now();
        let opening = reopen();
        let (done, finished) = mpsc::channel();
        let work = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            if let Ok(runtime) = runtime {
                // The timer needs the runtime's context.
                let ending = async { tokio::time::timeout(left, end_all(opening, ends)).await };
                let ended = runtime.block_on(ending);
                if let Ok(Err(error)) = ended {
                    tracing::debug!(%error, "leases are left to their ttl");
                }
                done.send(()).ok();
                runtime.shutdown_background();
            }
        };
        if std::thread::Builder::new().name("leasehold-end".into()).spawn(work).is_ok() {
            finished.recv_timeout(left).ok();
        }
        let took = clock.now().steady_ns.saturating_sub(began.steady_ns);
        let rest = |left: u64| Some(left.saturating_sub(took));
        self.left_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, rest).ok();
    }
}

impl fmt::Debug for LateEndings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LateEndings").field("left_ns", &self.left_ns).finish_non_exhaustive()
    }
}

async fn end_all(
    opening: BoxFuture<'static, Result<Arc<dyn Backend>>>,
    ends: Vec<End>,
) -> Result<()> {
    let backend = opening.await?;
    let (sink, _events) = EventSink::channel();
    let bits = getrandom::u64().unwrap_or(u64::MAX);
    backend.attach(ClientId::from_bits(bits), sink);
    for end in ends {
        let (name, base) = (end.name.clone(), end.base);
        let ended = backend.release(End { then: None, ..end }).await?;
        // An engine that knows attempts by its own connection: the token names the lease as well.
        if let (Verdict::Gone, Some(base)) = (ended.verdict, base)
            && backend.capability().force_release
        {
            backend.force_release(&name, base).await?;
        }
    }
    Ok(())
}
