//! The scan of a store, which all viewers share.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use leasehold::clock::Clock;
use leasehold::{Client, Error, State, Status};
use tokio::sync::{Notify, watch};

use crate::moment::Moment;
use crate::show;

/// More locks of a store are not shown; the pages say so.
const MOST: usize = 200_000;

/// The shortest pause after a scan while there are viewers, and without.
const PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(1));

/// The pause after a scan, in times that the scan took, while there are viewers, and without.
const RESTS: (u32, u32) = (2, 20);

/// How long a request waits for a scan, and a page that can show an earlier one.
const PATIENCE: (Duration, Duration) = (Duration::from_secs(5), Duration::from_millis(200));

/// The order of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Order {
    /// By name.
    #[default]
    Name,
    /// Those that are held longest first.
    Held,
    /// Those with the longest queue first.
    Queue,
}

/// The locks of a store at a moment.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// All locks, by name.
    pub(crate) locks: Vec<Arc<Status>>,
    /// There are more locks than the server shows.
    pub(crate) is_cut: bool,
    /// Why the last scan failed; the locks are then those of the scan before.
    pub(crate) error: Option<Error>,
    pub(crate) at_unix_ms: u64,
    /// How long the scan took.
    pub(crate) took: Duration,
    /// When the scan began.
    pub(crate) started: Option<Moment>,
    by_hold: OnceLock<Vec<Arc<Status>>>,
    by_queue: OnceLock<Vec<Arc<Status>>>,
}

/// The scans of one store.
#[derive(Debug)]
pub(crate) struct Scans {
    clock: Clock,
    latest: watch::Sender<Arc<Snapshot>>,
    asked: Notify,
    viewers: AtomicUsize,
}

/// Keeps the scans frequent while it lives.
#[derive(Debug)]
pub(crate) struct Viewer(Arc<Scans>);

impl Snapshot {
    fn empty(error: Option<Error>) -> Self {
        Self {
            locks: Vec::new(),
            is_cut: false,
            error,
            at_unix_ms: 0,
            took: Duration::ZERO,
            started: None,
            by_hold: OnceLock::new(),
            by_queue: OnceLock::new(),
        }
    }

    /// Returns the locks in this order. Each order is made once.
    pub(crate) fn ordered(&self, order: Order) -> &[Arc<Status>] {
        let sorted = || {
            let mut all = self.locks.clone();
            all.sort_by(|a, b| {
                (key(order, a), a.name.as_str()).cmp(&(key(order, b), b.name.as_str()))
            });
            all
        };
        match order {
            Order::Name => &self.locks,
            Order::Held => self.by_hold.get_or_init(sorted),
            Order::Queue => self.by_queue.get_or_init(sorted),
        }
    }
}

/// Returns what locks are sorted by, before their names.
pub(crate) fn key(order: Order, status: &Status) -> u64 {
    match order {
        Order::Name => 0,
        Order::Held if status.state == State::Free => u64::MAX,
        Order::Held => status.since_unix_ms.unwrap_or(u64::MAX - 1),
        Order::Queue => u64::MAX - show::waiting(status).unwrap_or_default() as u64,
    }
}

impl Scans {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            clock,
            latest: watch::channel(Arc::new(Snapshot::empty(None))).0,
            asked: Notify::new(),
            viewers: AtomicUsize::new(0),
        }
    }

    /// Counts a viewer until the result is dropped.
    pub(crate) fn view(self: &Arc<Self>) -> Viewer {
        self.viewers.fetch_add(1, Ordering::Relaxed);
        self.asked.notify_one();
        Viewer(self.clone())
    }

    /// Returns the result of the last scan, which may be old.
    pub(crate) fn last(&self) -> Arc<Snapshot> {
        self.latest.borrow().clone()
    }

    /// Returns the locks as a scan saw them that began at most this long ago. If no such scan ends
    /// in time, it returns the last one.
    pub(crate) async fn fresh(&self, at_most: Duration) -> Arc<Snapshot> {
        self.fresh_within(at_most, PATIENCE.0).await
    }

    /// As [`fresh`](Self::fresh), for a person: of a large store, whose scan takes long, it soon returns the
    /// last scan.
    pub(crate) async fn soon(&self, at_most: Duration) -> Arc<Snapshot> {
        let has_scanned = self.latest.borrow().started.is_some();
        self.fresh_within(at_most, if has_scanned { PATIENCE.1 } else { PATIENCE.0 }).await
    }

    async fn fresh_within(&self, at_most: Duration, patience: Duration) -> Arc<Snapshot> {
        let now = Moment::now(&self.clock);
        let is_fresh = |snapshot: &Arc<Snapshot>| {
            snapshot.started.is_some_and(|started| now.since(started) <= at_most)
        };
        let mut latest = self.latest.subscribe();
        if !is_fresh(&latest.borrow()) {
            self.asked.notify_one();
            let _ = tokio::time::timeout(patience, latest.wait_for(is_fresh)).await;
        }
        self.last()
    }

    /// Scans once, and returns the locks; `None` if the scan failed.
    pub(crate) async fn scan(&self, client: &Client) -> Option<Arc<Snapshot>> {
        let started = Moment::now(&self.clock);
        let listed = client.list("", MOST + 1).await;
        let took = Moment::now(&self.clock).since(started);
        let mut snapshot = Snapshot::empty(None);
        (snapshot.started, snapshot.took) = (Some(started), took);
        match listed {
            Ok(all) => {
                snapshot.at_unix_ms = self.clock.now().unix_ms();
                snapshot.is_cut = all.len() > MOST;
                snapshot.locks = all.into_iter().take(MOST).map(Arc::new).collect();
            }
            Err(error) => {
                self.failed(error);
                return None;
            }
        }
        let after = Arc::new(snapshot);
        self.latest.send_replace(after.clone());
        Some(after)
    }

    /// Records why there was no scan now. The locks of the last one stay.
    pub(crate) fn failed(&self, error: Error) {
        let before = self.last();
        let snapshot = Snapshot {
            locks: before.locks.clone(),
            is_cut: before.is_cut,
            at_unix_ms: before.at_unix_ms,
            took: before.took,
            started: Some(Moment::now(&self.clock)),
            ..Snapshot::empty(Some(error))
        };
        self.latest.send_replace(Arc::new(snapshot));
    }

    /// Waits until the next scan is due.
    pub(crate) async fn pause(&self) {
        let took = self.last().took;
        self.clock.sleep(PAUSES.0.max(took * RESTS.0)).await;
        if self.viewers.load(Ordering::Relaxed) == 0 {
            let rest = PAUSES.1.max(took * RESTS.1);
            tokio::select! {
                () = self.clock.sleep(rest) => {}
                () = self.asked.notified() => {}
            }
        }
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.0.viewers.fetch_sub(1, Ordering::Relaxed);
    }
}
