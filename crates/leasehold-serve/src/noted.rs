//! What the history knows of the locks of a store: the last scan, and later states of locks whose pages
//! are open.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use leasehold::Status;

use crate::changes;
use crate::history::Event;
use crate::moment::Moment;
use crate::scan::Snapshot;

/// The locks of a store that are watched at a time; the pages of more see what scans see.
const MOST: usize = 100;

/// What is known of a store.
#[derive(Debug, Default)]
pub(crate) struct Noted(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    scanned: Option<Arc<Snapshot>>,
    watched: HashMap<String, Watched>,
}

/// A lock whose changes are not left to the scans.
#[derive(Debug)]
struct Watched {
    /// `None` until it is known.
    last: Option<Option<Arc<Status>>>,
    viewers: Weak<()>,
    /// Since when only scans look at it again.
    ended: Option<Moment>,
}

/// Keeps a lock watched while it lives.
#[derive(Clone, Debug)]
pub(crate) struct Viewed(#[allow(dead_code, reason = "it counts by being there")] Arc<()>);

fn find<'a>(snapshot: &'a Snapshot, name: &str) -> Option<&'a Arc<Status>> {
    let at = snapshot.locks.binary_search_by(|status| status.name.as_str().cmp(name)).ok()?;
    snapshot.locks.get(at)
}

impl Noted {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a scan, and returns the events since the last one, without those of watched locks.
    pub(crate) fn scanned(&self, after: &Arc<Snapshot>) -> Vec<(String, Event)> {
        let mut known = self.lock();
        let now = after.at_unix_ms;
        let Some(before) = known.scanned.replace(after.clone()) else { return Vec::new() };
        let mut events = changes::between(&before.locks, &after.locks, now);
        events.retain(|(name, _)| !known.watched.contains_key(name));
        // A scan that began after the watch has ended continues where that has ended.
        let is_over = |watched: &Watched| {
            let ended = watched.ended.zip(after.started);
            ended.is_some_and(|(ended, started)| started > ended)
        };
        for (name, watched) in known.watched.extract_if(|_, watched| is_over(watched)) {
            let Some(last) = watched.last else { continue };
            let now_seen = find(after, &name).map(|status| &**status);
            let seen = changes::of(last.as_deref(), now_seen, now);
            events.extend(seen.into_iter().map(|event| (name.clone(), event)));
        }
        events
    }

    /// Counts a viewer of the page of a lock. The second value is true if the caller has to watch it.
    /// `None` if too many are watched.
    pub(crate) fn view(&self, name: &str) -> Option<(Viewed, bool)> {
        let mut known = self.lock();
        let is_new = !known.watched.contains_key(name);
        if is_new && known.watched.len() >= MOST {
            return None;
        }
        let Known { scanned, watched } = &mut *known;
        let watched = watched.entry(name.to_owned()).or_insert_with(|| {
            let last = scanned.as_ref().map(|scanned| find(scanned, name).cloned());
            Watched { last, viewers: Weak::new(), ended: None }
        });
        if let Some(viewers) = watched.viewers.upgrade() {
            return Some((Viewed(viewers), false));
        }
        let viewers = Arc::new(());
        watched.viewers = Arc::downgrade(&viewers);
        // A watch that has not noticed yet that its last viewer has gone goes on.
        let must_start = is_new || watched.ended.take().is_some();
        Some((Viewed(viewers), must_start))
    }

    /// Takes the state of a watched lock, and returns the events since the last one.
    pub(crate) fn watched(&self, name: &str, status: Status, now_unix_ms: u64) -> Vec<Event> {
        let mut known = self.lock();
        let Some(watched) = known.watched.get_mut(name) else { return Vec::new() };
        let status = Arc::new(status);
        let last = watched.last.replace(Some(status.clone()));
        last.map_or_else(Vec::new, |last| changes::of(last.as_deref(), Some(&status), now_unix_ms))
    }

    /// Returns true, and leaves the lock to the scans, if no viewer is left. `by` has passed when the
    /// last state was read.
    pub(crate) fn is_left(&self, name: &str, by: Moment) -> bool {
        let mut known = self.lock();
        let Some(watched) = known.watched.get_mut(name) else { return true };
        let is_left = watched.viewers.strong_count() == 0;
        if is_left {
            watched.ended = Some(by);
        }
        is_left
    }
}
