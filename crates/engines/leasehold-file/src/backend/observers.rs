//! Pushes the changes of locks to those who observe them: one watch of the directory that has their files.
//!
//! The directory reports each record that is replaced (a grant, a change of a latch) and each lock file that is
//! closed (a release, the end of a process). A reader that joins a phase changes neither.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use leasehold_core::backend::{ChangeSource, Changes, SweptTable};
use leasehold_core::{Deadline, Now};
use nix::sys::inotify::{AddWatchFlags, Inotify, InotifyEvent, WatchDescriptor};

use super::lock_file::{Seen, look};

/// The delays between looks at a lock file after an event.
const LOOKS: [Duration; 6] = [
    Duration::from_millis(1),
    Duration::from_millis(2),
    Duration::from_millis(7),
    Duration::from_millis(20),
    Duration::from_millis(100),
    Duration::from_millis(500),
];

/// So many locks are looked at for each event of a lock that is not observed.
const FEW: usize = 64;

/// The locks that are observed, by the stem of their files.
#[derive(Debug, Default)]
pub(crate) struct Observers {
    directory: Option<WatchDescriptor>,
    observed: SweptTable<String, Observed>,
    /// Those of them that have a look due: after an event, and a few until their holders have marked them.
    due: BTreeSet<String>,
}

#[derive(Debug)]
struct Observed {
    source: ChangeSource,
    lock: PathBuf,
    due: Option<Look>,
}

/// A look at a lock file that is due.
#[derive(Clone, Copy, Debug)]
struct Look {
    at: Deadline,
    /// How many looks there were since the last event.
    looked: usize,
    /// The state that observers know of.
    known: Option<Seen>,
    /// The event was about the slots of a semaphore, which the lock file does not show.
    of_slots: bool,
}

impl Observers {
    /// Observes a lock by its lock file, whose directory exists.
    pub(crate) fn observe(&mut self, inotify: &Inotify, lock: &Path) -> io::Result<Changes> {
        let (Some(directory), Some(stem)) = (lock.parent(), lock.file_stem()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        if self.directory.is_none() {
            let wanted = AddWatchFlags::IN_MOVED_TO
                | AddWatchFlags::IN_CLOSE_WRITE
                | AddWatchFlags::IN_DELETE
                | AddWatchFlags::IN_ONLYDIR;
            self.directory = Some(inotify.add_watch(directory, wanted)?);
        }
        let stem = stem.to_string_lossy().into_owned();
        let make = || Observed { source: ChangeSource::new(), lock: lock.to_owned(), due: None };
        let observed = self.observed.entry_or(stem, make, |observed| observed.source.is_observed());
        Ok(observed.source.observe())
    }

    /// Takes an event of the directory; returns false for any other.
    pub(crate) fn take(&mut self, inotify: &Inotify, event: &InotifyEvent, now: Now) -> bool {
        if self.directory != Some(event.wd) {
            return false;
        }
        if event.mask.contains(AddWatchFlags::IN_IGNORED) {
            // The directory was removed. Its observers ask at intervals from now on.
            *self = Self::default();
            return true;
        }
        let file = event.name.as_deref().and_then(OsStr::to_str).unwrap_or_default();
        if let Some(stem) = stem(file)
            && let Some(observed) = self.get(stem)
        {
            observed.source.mark();
            let (at, known) = (Deadline::after(now, LOOKS[0]), look(&observed.lock).ok());
            observed.due = Some(Look { at, looked: 0, known, of_slots: file.ends_with(".slots") });
            self.due.insert(stem.to_owned());
        } else if self.is_unobserved()
            && let Some(directory) = self.directory.take()
        {
            // Fails if it was removed.
            let _ = inotify.rm_watch(directory);
        }
        true
    }

    /// Returns true if no lock is observed; false if there are many to look at.
    fn is_unobserved(&self) -> bool {
        self.observed.len() <= FEW && !self.observed.values().any(|one| one.source.is_observed())
    }

    /// Returns an observed lock, and forgets it if its observers have left.
    fn get(&mut self, stem: &str) -> Option<&mut Observed> {
        if !self.observed.get(stem)?.source.is_observed() {
            self.observed.remove(stem);
        }
        self.observed.get_mut(stem)
    }

    /// Marks all locks: events were lost.
    pub(crate) fn mark_all(&self) {
        self.observed.values().for_each(|observed| observed.source.mark());
    }

    /// Returns the time until the next look.
    pub(crate) fn next_look(&self, now: Now) -> Option<Duration> {
        let due = self.due.iter().filter_map(|stem| self.observed.get(stem)?.due);
        due.map(|due| due.at.remaining(now)).min()
    }

    /// Looks at lock files that the kernel may have unlocked, or a holder may have marked, after the event.
    pub(crate) fn look_where_due(&mut self, now: Now) {
        let observed = &mut self.observed;
        self.due.retain(|stem| {
            let Some(observed) = observed.get_mut(stem) else { return false };
            let Some(due) = observed.due.filter(|due| due.at.has_passed(now)) else {
                return observed.due.is_some();
            };
            let known = look(&observed.lock).ok();
            if known != due.known || due.of_slots {
                observed.source.mark();
            }
            // A holder that has not marked the lock is about to do so.
            let is_unmarked = matches!(known, Some(Seen::Held(None) | Seen::Read(None)));
            let last = is_unmarked.then_some(&LOOKS[LOOKS.len() - 1]);
            let pause = LOOKS.get(due.looked + 1).or(last);
            let is_over = !due.of_slots && !known.is_some_and(Seen::is_held);
            observed.due = pause.filter(|_| !is_over).map(|pause| Look {
                at: Deadline::after(now, *pause),
                looked: due.looked + 1,
                known,
                ..due
            });
            observed.due.is_some()
        });
    }

    /// Returns true if nothing is watched.
    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        self.directory.is_none()
    }
}

/// Returns the stem of a file that shows a change of a lock.
fn stem(file: &str) -> Option<&str> {
    [".json", ".lock", ".slots"].iter().find_map(|end| file.strip_suffix(end))
}
