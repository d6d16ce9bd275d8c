//! Notifies waiters: one inotify instance and one thread for each backend.
//!
//! The kernel reports when a file that was open for writing is closed, also when its process dies.
//! But it reports that *before* it removes the process's locks. So the thread checks the file for a
//! few milliseconds until it is free. Of a lock of flock(2), it takes the lock for the first that waits.

use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_core::backend::{Changes, Event, EventSink};
use leasehold_core::clock::Clock;
use leasehold_core::{AttemptId, Deadline, Name};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};

use super::flock_line::Line;
use super::lock_file::{Seen, look};
use super::observers::Observers;

/// How often the thread tries at once to lock a file that a holder closes: others that block in flock(2) are woken at that
/// moment too.
const AT_ONCE: usize = 200;

/// The delays between checks after an event for a file that is still locked.
const LOOK_AGAIN: [Duration; 4] = [
    Duration::from_millis(1),
    Duration::from_millis(2),
    Duration::from_millis(7),
    Duration::from_millis(20),
];

/// The watcher of one backend, which is started when it is first needed.
#[derive(Debug)]
pub(crate) enum Watching {
    /// There is no sink for events.
    Unattached,
    /// No file had to be watched yet.
    Attached(EventSink),
    /// The thread runs.
    Started(Watcher),
    /// The system has no more inotify instances for this user.
    Impossible,
}

/// Watches files. The thread ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Watcher(Arc<Shared>);

/// What an attempt waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A lock file is not locked any more.
    Lock,
    /// The same, or readers have locked it.
    LockToRead,
    /// The file of a semaphore's slots was closed by a process that held some of them.
    Slots,
    /// A waiter has left its place in the queue.
    Place,
    /// A writer has told the readers of a lock, of which the attempt is one, that it waits.
    Readers,
    /// A process has closed a file that it may have locked by flock(2).
    Flock,
}

/// One attempt's watch of one file, until it is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    shared: Arc<Shared>,
    descriptor: WatchDescriptor,
    /// Who watches for what, but for the lines of flock(2).
    interest: (Kind, Option<AttemptId>),
    line: Option<Arc<Line>>,
}

#[derive(Debug)]
struct Shared {
    inotify: Inotify,
    stop: EventFd,
    watched: Mutex<HashMap<WatchDescriptor, Watched>>,
    observers: Mutex<Observers>,
    events: EventSink,
    clock: Clock,
}

#[derive(Debug)]
struct Watched {
    path: PathBuf,
    name: Name,
    /// One for each watch: what for, and for which attempt.
    interested: Vec<(Kind, Option<AttemptId>)>,
    /// Those that wait for the file to be unlocked by flock(2), under each of the file's paths.
    lines: Vec<Arc<Line>>,
    /// When to check the file, and the number of checks since the last event.
    due: Option<(Deadline, usize)>,
}

impl Watching {
    /// Watches a file for an attempt; `None` if that is not possible and the waiter must poll.
    pub(crate) fn watch(
        &mut self,
        attempt: AttemptId,
        kind: Kind,
        path: &Path,
        name: &Name,
        clock: &Clock,
    ) -> Option<Watch> {
        self.started(clock)?.watch((kind, Some(attempt)), path, name).ok()
    }

    /// Has the thread lock a file by flock(2) for the first of its line; `None` as above.
    pub(crate) fn watch_flock(&mut self, line: &Arc<Line>, clock: &Clock) -> Option<Watch> {
        let watcher = self.started(clock)?;
        let mut watch = watcher.watch((Kind::Flock, None), line.path(), line.name()).ok()?;
        if let Some(entry) = watcher.0.lock().get_mut(&watch.descriptor) {
            entry.lines.push(line.clone());
        }
        watch.line = Some(line.clone());
        Some(watch)
    }

    /// Observes a lock by its lock file; `None` if that is not possible and observers must ask.
    pub(crate) fn observe(&mut self, lock: &Path, clock: &Clock) -> Option<Changes> {
        self.started(clock)?.observe(lock).ok()
    }

    /// Returns the watcher, and starts it if this is the first use.
    fn started(&mut self, clock: &Clock) -> Option<&Watcher> {
        if let Self::Attached(events) = self {
            *self = match Watcher::start(events.clone(), clock.clone()) {
                Ok(watcher) => Self::Started(watcher),
                Err(error) => {
                    tracing::warn!(%error, "file events are not available; waiters poll");
                    Self::Impossible
                }
            };
        }
        match self {
            Self::Started(watcher) => Some(watcher),
            _ => None,
        }
    }
}

impl Watcher {
    /// Starts the thread.
    fn start(events: EventSink, clock: Clock) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            inotify: Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?,
            stop: EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?,
            watched: Mutex::default(),
            observers: Mutex::default(),
            events,
            clock,
        });
        let of_thread = shared.clone();
        std::thread::Builder::new().name("leasehold-file".into()).spawn(move || of_thread.run())?;
        Ok(Self(shared))
    }

    /// Watches a file, and notifies the attempt that waits for the lock `name` when the file becomes free.
    fn watch(
        &self,
        interest: (Kind, Option<AttemptId>),
        path: &Path,
        name: &Name,
    ) -> io::Result<Watch> {
        let kind = interest.0;
        let changes = AddWatchFlags::IN_CLOSE_WRITE | AddWatchFlags::IN_MOVE_SELF;
        let wanted = match kind {
            // It may be removed while it is open.
            Kind::Lock | Kind::LockToRead | Kind::Slots => changes | AddWatchFlags::IN_ATTRIB,
            // Its owner removes it and then closes it: one event is enough.
            Kind::Place => changes,
            // The readers that come and go change the directory, but not its attributes.
            Kind::Readers => AddWatchFlags::IN_ATTRIB | AddWatchFlags::IN_ONLYDIR,
            // Callers of flock(1) open it only to read.
            Kind::Flock => changes | AddWatchFlags::IN_CLOSE_NOWRITE | AddWatchFlags::IN_ATTRIB,
        };
        let wanted = match kind {
            Kind::Flock => wanted,
            _ => wanted | AddWatchFlags::IN_DONT_FOLLOW,
        };
        let mut watched = self.0.lock();
        let descriptor = self.0.inotify.add_watch(path, wanted)?;
        let entry = watched.entry(descriptor).or_insert_with(|| Watched {
            path: path.to_owned(),
            name: name.clone(),
            interested: Vec::new(),
            lines: Vec::new(),
            due: None,
        });
        entry.interested.push(interest);
        Ok(Watch { shared: self.0.clone(), descriptor, interest, line: None })
    }

    fn observe(&self, lock: &Path) -> io::Result<Changes> {
        self.0.observers().observe(&self.0.inotify, lock)
    }

    /// Returns the number of watched files.
    #[cfg(test)]
    fn count(&self) -> usize {
        self.0.lock().len()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // Fails only if the counter is full, and then the thread is awake anyway.
        let _ = self.0.stop.write(1);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut watched = self.shared.lock();
        let Some(entry) = watched.get_mut(&self.descriptor) else { return };
        if let Some(at) = entry.interested.iter().position(|one| *one == self.interest) {
            entry.interested.swap_remove(at);
        }
        let ours = |line: &Arc<Line>| self.line.as_ref().is_some_and(|own| Arc::ptr_eq(own, line));
        if let Some(at) = entry.lines.iter().position(ours) {
            entry.lines.swap_remove(at);
        }
        if entry.interested.is_empty() {
            watched.remove(&self.descriptor);
            // Fails if the file was removed, and its watch with it.
            let _ = self.shared.inotify.rm_watch(self.descriptor);
        }
    }
}

impl Watched {
    /// Returns the attempts that watch for one of these.
    fn attempts(&self, kinds: impl Fn(Kind) -> bool) -> impl Iterator<Item = AttemptId> {
        let wanted = self.interested.iter().filter(move |(kind, _)| kinds(*kind));
        wanted.filter_map(|(_, attempt)| *attempt)
    }

    /// Returns the attempts of readers that learn from this watch that a writer waits.
    fn readers(&self) -> impl Iterator<Item = AttemptId> {
        self.attempts(|kind| kind == Kind::Readers)
    }

    fn is_for(&self, kind: Kind) -> bool {
        self.interested.iter().any(|(one, _)| *one == kind)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, HashMap<WatchDescriptor, Watched>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn observers(&self) -> MutexGuard<'_, Observers> {
        self.observers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        loop {
            let mut ready = [
                PollFd::new(self.inotify.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.stop.as_fd(), PollFlags::POLLIN),
            ];
            match poll(&mut ready, self.timeout()) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => {
                    tracing::error!(%error, "cannot wait for file events; waiters poll");
                    return;
                }
            }
            if ready[1].any().unwrap_or(true) {
                return;
            }
            self.take_events();
            self.look_where_due();
        }
    }

    fn timeout(&self) -> PollTimeout {
        let now = self.clock.now();
        let first =
            self.lock().values().filter_map(|entry| Some(entry.due?.0.remaining(now))).min();
        let first = first.into_iter().chain(self.observers().next_look(now)).min();
        // Rounded up, so that no check is too early.
        first.map_or(PollTimeout::NONE, |left| {
            PollTimeout::try_from(left + Duration::from_micros(999)).unwrap_or(PollTimeout::MAX)
        })
    }

    fn take_events(&self) {
        let events = match self.inotify.read_events() {
            Ok(events) => events,
            Err(Errno::EAGAIN | Errno::EINTR) => return,
            Err(error) => {
                tracing::warn!(%error, "cannot read file events; waiters retry");
                self.events.send(Event::Reset);
                self.observers().mark_all();
                return;
            }
        };
        let now = self.clock.now();
        let (mut watched, mut observers) = (self.lock(), self.observers());
        for event in events {
            if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
                self.events.send(Event::Reset);
                observers.mark_all();
            } else if observers.take(&self.inotify, &event, now) {
            } else if let Some(entry) = watched.get_mut(&event.wd) {
                for attempt in entry.readers() {
                    self.events.send(Event::Wanted { name: entry.name.clone(), attempt });
                }
                if entry.readers().next().is_none() {
                    entry.due = Some((Deadline::after(now, Duration::ZERO), 0));
                }
            }
        }
    }

    /// Wakes the attempts that watch a file, and no others that wait for the lock.
    fn ask_again(&self, entry: &Watched) {
        for attempt in entry.attempts(|_| true) {
            let name = entry.name.clone();
            self.events.send(Event::Next { name, attempt, ask_again: Duration::ZERO });
        }
    }

    fn look_where_due(&self) {
        let now = self.clock.now();
        self.observers().look_where_due(now);
        for entry in self.lock().values_mut() {
            let Some((_, looked)) = entry.due.filter(|(due, _)| due.has_passed(now)) else {
                continue;
            };
            if !entry.lines.is_empty() {
                let tries = if looked == 0 { AT_ONCE } else { 1 };
                entry.lines.iter().filter(|line| line.try_first(tries)).for_each(|line| {
                    self.events.send(Event::Freed { name: line.name().clone() });
                });
                let again = LOOK_AGAIN.get(looked);
                entry.due = again.map(|pause| (Deadline::after(now, *pause), looked + 1));
                continue;
            }
            let seen = look(&entry.path);
            if entry.is_for(Kind::Slots) {
                // The kernel frees the slots of a process that has ended only after the event.
                self.ask_again(entry);
                let again = LOOK_AGAIN.get(looked);
                entry.due = again.map(|pause| (Deadline::after(now, *pause), looked + 1));
                continue;
            }
            // One event is enough for readers that may join a phase: who begins it causes one.
            let enters = match seen {
                Ok(Seen::Held(_)) => false,
                Ok(Seen::Read(_)) => looked == 0 && entry.is_for(Kind::LockToRead),
                _ => true,
            };
            if enters {
                self.ask_again(entry);
            }
            // The current holder's release causes another event.
            let again = if seen.is_ok_and(Seen::is_held) { LOOK_AGAIN.get(looked) } else { None };
            entry.due = again.map(|pause| (Deadline::after(now, *pause), looked + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use leasehold_core::ClientId;
    use leasehold_core::backend::Events;

    use super::*;
    use crate::backend::lock_file::LockFile;

    fn attempt(number: u32) -> AttemptId {
        AttemptId::new(ClientId::from_bits(7), number, 0)
    }

    /// The attempt that is to ask again.
    fn woken(events: &mut Events) -> AttemptId {
        match events.blocking_recv() {
            Some(Event::Next { attempt, .. }) => attempt,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_watch_ends_with_the_last_interest_and_the_thread_with_the_watcher() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.lock");
        drop(LockFile::open(&path).unwrap());
        let (sink, mut events) = EventSink::channel();
        let watcher = Watcher::start(sink, Clock::system()).unwrap();
        let name = Name::new("a").unwrap();
        let (first, second) = (attempt(1), attempt(2));
        let one = watcher.watch((Kind::Lock, Some(first)), &path, &name).unwrap();
        let two = watcher.watch((Kind::Lock, Some(second)), &path, &name).unwrap();
        drop(one);
        assert_eq!(watcher.count(), 1);
        drop(LockFile::open(&path).unwrap());
        assert_eq!(woken(&mut events), second);
        drop(two);
        assert_eq!(watcher.count(), 0);
        drop(watcher);
        // The sink is dropped when the thread ends.
        assert!(events.blocking_recv().is_none());
    }

    #[test]
    fn the_watch_of_the_directory_ends_after_the_last_observer() {
        let dir = tempfile::tempdir().unwrap();
        let lock = |name: &str| dir.path().join(format!("{name}.lock"));
        let (sink, _events) = EventSink::channel();
        let watcher = Watcher::start(sink, Clock::system()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut changes = watcher.observe(&lock("a")).unwrap();
        let other = watcher.observe(&lock("b")).unwrap();
        drop(LockFile::open(&lock("a")).unwrap());
        assert!(runtime.block_on(changes.changed()));
        drop((changes, other));
        // An observer that comes again before the directory changes; then none.
        drop(watcher.observe(&lock("a")).unwrap());
        let deadline = Deadline::after(Clock::system().now(), Duration::from_secs(10));
        while !watcher.0.observers().is_idle() {
            assert!(!deadline.has_passed(Clock::system().now()), "the watch stays");
            drop(LockFile::open(&lock("a")).unwrap());
            drop(LockFile::open(&lock("b")).unwrap());
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_file_that_is_closed_before_it_is_unlocked_is_looked_at_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.lock");
        let holder = LockFile::open(&path).unwrap();
        assert!(holder.try_lock().unwrap());
        let (sink, mut events) = EventSink::channel();
        let watcher = Watcher::start(sink, Clock::system()).unwrap();
        let name = Name::new("a").unwrap();
        let _watch = watcher.watch((Kind::Lock, Some(attempt(1))), &path, &name).unwrap();
        let looked = || {
            let watched = watcher.0.lock();
            watched.values().any(|entry| entry.due.is_some_and(|(_, looked)| looked > 0))
        };
        let deadline = Deadline::after(Clock::system().now(), Duration::from_secs(10));
        while !looked() {
            assert!(!deadline.has_passed(Clock::system().now()), "no event, or no second look");
            drop(LockFile::open(&path).unwrap());
            std::thread::yield_now();
        }
        holder.unlock().unwrap();
        assert_eq!(woken(&mut events), attempt(1));
    }
}
