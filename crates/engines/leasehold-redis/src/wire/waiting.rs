//! Wakes the waiters of this client when another client, of whichever library, changes the lock's key.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leasehold_core::backend::{Changes, Event, EventSink};
use leasehold_core::{AttemptId, Name};
use tokio::task::AbortHandle;

/// The attempts that wait, by the names of their locks. It is cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Waiting(Arc<Mutex<HashMap<Name, Waiters>>>);

#[derive(Debug)]
struct Waiters {
    attempts: HashSet<AttemptId>,
    /// What wakes them; `None` if the server cannot report changes.
    waker: Option<AbortHandle>,
}

impl Waiting {
    /// Notes that an attempt waits. The first one of a lock begins to observe it.
    pub(super) fn enter(
        &self,
        name: &Name,
        attempt: AttemptId,
        events: &EventSink,
        observe: impl FnOnce() -> Option<Changes>,
    ) {
        let mut table = self.lock();
        if let Some(waiters) = table.get_mut(name) {
            waiters.attempts.insert(attempt);
            return;
        }
        let waker = observe().map(|changes| {
            let waking = wake(name.clone(), changes, events.clone());
            tokio::spawn(waking).abort_handle()
        });
        table.insert(name.clone(), Waiters { attempts: HashSet::from([attempt]), waker });
    }

    /// Notes that an attempt waits no more. After the last one of a lock nothing is observed.
    pub(super) fn leave(&self, name: &Name, attempt: AttemptId) {
        let mut table = self.lock();
        let Some(waiters) = table.get_mut(name) else { return };
        waiters.attempts.remove(&attempt);
        if waiters.attempts.is_empty()
            && let Some(Waiters { waker: Some(waker), .. }) = table.remove(name)
        {
            waker.abort();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Name, Waiters>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells the client of each change, until the server reports no more. The client asks again at intervals, too: at shorter
/// ones without reports.
async fn wake(name: Name, mut changes: Changes, events: EventSink) {
    while changes.changed().await {
        if !events.send(Event::Freed { name: name.clone() }) {
            return;
        }
    }
    events.send(Event::Freed { name });
}

#[cfg(test)]
mod tests {
    use leasehold_core::ClientId;
    use leasehold_core::backend::ChangeSource;

    use super::*;

    #[tokio::test]
    async fn waiters_ask_again_when_nothing_is_reported_any_more() {
        let (waiting, source) = (Waiting::default(), ChangeSource::new());
        let (events, mut heard) = EventSink::channel();
        let (name, attempt) =
            (Name::new("a").unwrap(), AttemptId::new(ClientId::from_bits(7), 1, 0));
        waiting.enter(&name, attempt, &events, || Some(source.observe()));
        drop((source, events));
        assert!(matches!(heard.recv().await, Some(Event::Freed { .. })));
    }
}
