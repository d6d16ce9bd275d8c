//! Pushes the changes of a name to its observers: one stream with one watch of all its keys, as long as it is
//! observed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_core::backend::{ChangeSource, Changes};
use leasehold_core::clock::Clock;
use leasehold_core::proto::Backoff;
use leasehold_core::{Deadline, Name};
use leasehold_etcd_api::{Client, WatchOptions, WatchStream};
use tokio::runtime::Handle;

use crate::error::sort;
use crate::key::Range;
use crate::members::Members;

/// How long opening the stream may take.
const OPEN: Duration = Duration::from_secs(2);
/// Interval and timeout of probes: a stopped member does not close the stream.
const PROBE: Duration = Duration::from_secs(3);
/// The first and the longest pause between two openings of the stream. A stream that lasts as long as the longest
/// pause resets the pause.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// The names that are observed now. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observed(Arc<Mutex<HashMap<Name, Arc<ChangeSource>>>>);

/// Watches the keys of one name.
struct Observer {
    members: Members,
    clock: Clock,
    range: Range,
    name: Name,
    source: Arc<ChangeSource>,
    observed: Observed,
}

impl Observed {
    /// Observes a name, whose keys are those of the range. Returns `None` outside a runtime, where no stream can be opened.
    pub(crate) fn observe(
        &self,
        members: &Members,
        clock: &Clock,
        range: Range,
        name: &Name,
    ) -> Option<Changes> {
        let runtime = Handle::try_current().ok()?;
        let mut table = self.lock();
        if let Some(source) = table.get(name) {
            return Some(source.observe());
        }
        let source = Arc::<ChangeSource>::default();
        let changes = source.observe();
        table.insert(name.clone(), source.clone());
        let (members, clock) = (members.clone(), clock.clone());
        let (name, observed) = (name.clone(), self.clone());
        runtime.spawn(Observer { members, clock, range, name, source, observed }.run());
        Some(changes)
    }

    /// Removes a name that is not observed any more. Returns false if it is observed again.
    fn forget(&self, name: &Name, source: &ChangeSource) -> bool {
        let mut table = self.lock();
        let is_over = !source.is_observed();
        if is_over {
            table.remove(name);
        }
        is_over
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Name, Arc<ChangeSource>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes the name when the task ends with its runtime, so that another runtime can observe it.
impl Drop for Observer {
    fn drop(&mut self) {
        let mut table = self.observed.lock();
        if table.get(&self.name).is_some_and(|source| Arc::ptr_eq(source, &self.source)) {
            table.remove(&self.name);
        }
    }
}

impl Observer {
    async fn run(self) {
        let source = self.source.clone();
        loop {
            tokio::select! {
                biased;
                () = source.unobserved() => {}
                () = self.watch() => {}
            }
            if self.observed.forget(&self.name, &source) {
                return;
            }
        }
    }

    /// Watches, and opens the stream again when it breaks.
    async fn watch(&self) {
        let mut pauses = Backoff::new(PAUSES.0, PAUSES.1);
        loop {
            let opened = self.clock.now();
            if let Some((index, stream)) = self.open().await {
                self.hear(index, stream).await;
                self.members.move_on(index);
            }
            let lasted = self.clock.now().steady_ns.saturating_sub(opened.steady_ns);
            pauses.lasted(Duration::from_nanos(lasted));
            self.clock.sleep(pauses.next(fastrand::u64(..)).max(PAUSES.0)).await;
        }
    }

    async fn open(&self) -> Option<(usize, WatchStream)> {
        let limit = Deadline::after(self.clock.now(), OPEN);
        let (first, end) = self.range.clone();
        let mut at = None;
        let opening = async {
            let open = |client: Client| {
                let options = WatchOptions::new().with_range(end.clone());
                let first = first.clone();
                async move { client.watch(first, Some(options)).await }
            };
            self.members.open(&mut at, open).await
        };
        match self.clock.within(Some(limit), opening).await {
            Some(Ok(stream)) => return at.map(|index| (index, stream)),
            Some(Err(error)) => {
                let (_, error) = sort(error);
                tracing::debug!(%error, "cannot observe; retrying");
            }
            None => tracing::debug!("cannot observe, the server did not answer in time; retrying"),
        }
        if let Some(index) = at {
            self.members.move_on(index);
        }
        None
    }

    /// Marks each change until the stream breaks, and the beginning: earlier changes may not have been seen.
    async fn hear(&self, index: usize, mut stream: WatchStream) {
        loop {
            let message = async {
                tokio::select! {
                    message = stream.message() => message.ok().flatten(),
                    () = self.members.moved(index) => None,
                }
            };
            let until = Deadline::after(self.clock.now(), PROBE);
            let message = match self.clock.within(Some(until), message).await {
                Some(message) => message,
                None => {
                    let until = Deadline::after(self.clock.now(), PROBE);
                    let probe = async {
                        stream.request_progress().await.ok()?;
                        stream.message().await.ok().flatten()
                    };
                    self.clock.within(Some(until), probe).await.flatten()
                }
            };
            match message {
                Some(message) if message.canceled => return,
                Some(message) if message.created || !message.events.is_empty() => {
                    self.source.mark();
                }
                Some(_) => {}
                None => return,
            }
        }
    }
}
