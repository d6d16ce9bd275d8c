//! The queue of one lock's waiters: a file for each waiter, named in the order of arrival.
//!
//! A waiter locks its file before the file becomes visible. So a visible file without a lock belongs
//! to a dead process, and any process may remove it. Its name contains the attempt, so it is never
//! used again. Each waiter watches only the one before it.

use std::cell::Cell;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use leasehold_core::{AttemptId, Holder, Now, Permitted, Result, Token, Waiter};
use nix::errno::Errno;
use serde::{Deserialize, Serialize};

use super::directory::read_small;
use super::lock_file::{LockFile, Seen, is_absent, look};
use super::os_error::failed;
use super::record::Due;

/// The end of the name of a reader's file. Clients from before there were readers take it for a writer.
const READER: &str = "-r";

/// The number of tries to join the queue while other processes remove files.
const TRIES: usize = 16;

/// The maximum number of files of dead processes that one call removes; the next call removes more.
const DEAD: usize = 64;

/// One lock's queue, for one call.
#[derive(Debug)]
pub(crate) struct WaiterQueue<'a> {
    path: &'a Path,
    /// The number of files of dead processes that this call has found.
    dead: Cell<usize>,
}

/// A place in the queue. Dropping it leaves the queue.
#[derive(Debug)]
pub(crate) struct QueuePlace {
    path: PathBuf,
    _file: LockFile,
}

/// What joins the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlaceKind {
    /// A writer, or the card of a reader that has entered.
    Plain,
    /// A waiting reader, behind all that arrived until this time.
    Reader { after: u64 },
}

/// The waiters that go before a place.
#[derive(Debug)]
pub(crate) struct Ahead {
    /// Their number. It may include dead waiters, which only the waiters directly behind them detect.
    pub(crate) count: u64,
    /// The file of the live waiter to watch: the nearest one, or for a reader the first writer.
    pub(crate) watched: Option<PathBuf>,
}

/// The content of a waiter's file, for people.
#[derive(Serialize, Deserialize)]
pub(crate) struct WaiterRecord {
    attempt: String,
    host: String,
    pid: u32,
    since_unix_ms: u64,
    metadata: Option<String>,
    /// Of a waiter for a permit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    wants: Option<u32>,
    /// Of a permit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    permit: Option<PermitCard>,
}

/// What the card of a permit says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PermitCard {
    pub(crate) slots: Vec<u32>,
    pub(crate) token: u64,
}

/// What the card of a process says besides who it is.
#[derive(Clone, Debug)]
pub(crate) enum About {
    /// It waits for a lock, or reads.
    Lock,
    /// It waits for so many slots of a semaphore.
    Wants(u32),
    /// It holds a permit.
    Holds(PermitCard),
}

impl<'a> WaiterQueue<'a> {
    /// Returns the queue in this directory, for one call.
    pub(crate) fn new(path: &'a Path) -> Self {
        Self { path, dead: Cell::new(0) }
    }

    /// Joins the end of the queue.
    pub(crate) fn join(&self, holder: &Holder, kind: PlaceKind, now: Now) -> Result<QueuePlace> {
        self.join_with(holder, kind, now, About::Lock)
    }

    /// Joins the end of the queue with a card that says more.
    pub(crate) fn join_with(
        &self,
        holder: &Holder,
        kind: PlaceKind,
        now: Now,
        about: About,
    ) -> Result<QueuePlace> {
        let (wants, permit) = match about {
            About::Lock => (None, None),
            About::Wants(slots) => (Some(slots), None),
            About::Holds(permit) => (None, Some(permit)),
        };
        let card = WaiterRecord {
            wants,
            permit,
            attempt: holder.attempt.to_string(),
            host: holder.host.clone(),
            pid: holder.pid,
            since_unix_ms: now.unix_ms(),
            metadata: holder.metadata.clone(),
        };
        let joining = |error| failed("wait in", self.path, error);
        let card = serde_json::to_vec(&card).map_err(|error| joining(error.into()))?;
        for _ in 0..TRIES {
            match self.try_join(holder.attempt, &card, kind, now) {
                // Another process removed the empty directory, or took our draft for that of a dead
                // process.
                Err(error) if is_absent(&error) => {}
                joined => return joined.map_err(joining),
            }
        }
        Err(joining(io::Error::other("other processes removed it repeatedly")))
    }

    fn try_join(
        &self,
        attempt: AttemptId,
        card: &[u8],
        kind: PlaceKind,
        now: Now,
    ) -> io::Result<QueuePlace> {
        match DirBuilder::new().mode(0o700).create(self.path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        // Behind the existing waiters, even if the clock was set back.
        let last = self.files()?.pop().and_then(|last| stamp(&last));
        let (last, end) = match kind {
            PlaceKind::Plain => (last, ""),
            PlaceKind::Reader { after } => (last.max(Some(after)), READER),
        };
        let stamp = now.wall_ns.max(last.map_or(0, |last| last.saturating_add(1)));
        let file = format!("{stamp:020}-{}-{attempt}{end}", std::process::id());
        let (draft, path) = (self.path.join(format!(".{file}")), self.path.join(file));
        let made = LockFile::create(&draft, card).and_then(|file| {
            fs::rename(&draft, &path)?;
            Ok(file)
        });
        if made.is_err() {
            let _ = fs::remove_file(&draft);
        }
        Ok(QueuePlace { path, _file: made? })
    }

    /// Returns true if no live process waits. Dead places beyond this call's limit may remain.
    pub(crate) fn is_empty(&self) -> Result<bool> {
        let files = self.listed()?;
        if files.is_empty() {
            return Ok(true);
        }
        let empty = self.nearest(&mut files.iter())?.is_none();
        if empty {
            // All places were dead; this fails if a waiter has joined since.
            let _ = fs::remove_dir(self.path);
        }
        Ok(empty)
    }

    /// Returns true if this call has left files of dead processes to the next one.
    pub(crate) fn leaves_dead(&self) -> bool {
        self.dead.get() > DEAD
    }

    /// Returns true if a live writer waits.
    pub(crate) fn has_writer(&self) -> Result<bool> {
        let files = self.listed()?;
        Ok(self.nearest(&mut files.iter().filter(|file| !is_reader(file)))?.is_some())
    }

    /// Removes the files of dead processes at the end of the queue.
    pub(crate) fn remove_last_dead(&self) -> Result<()> {
        self.nearest(&mut self.listed()?.iter().rev()).map(drop)
    }

    /// Returns the latest time of arrival; 0 if no client waits.
    pub(crate) fn latest(&self) -> Result<u64> {
        Ok(self.listed()?.last().and_then(|last| stamp(last)).unwrap_or(0))
    }

    /// Returns the waiters that go before `place`; `None` if its file was removed. Asks for the readers
    /// that are due only if that matters.
    pub(crate) fn ahead(
        &self,
        place: &QueuePlace,
        due: impl FnOnce() -> Result<Due>,
    ) -> Result<Option<Ahead>> {
        let files = self.listed()?;
        let own = place.file();
        let Some(at) = files.iter().position(|file| file == own) else { return Ok(None) };
        let (before, behind) = (&files[..at], &files[at + 1..]);
        let ahead: Vec<&String> = if !is_reader(own) {
            let enters = match behind.iter().any(|file| is_reader(file)) {
                true => due()?,
                false => Due::Until(0),
            };
            let enters =
                |file: &&String| is_reader(file) && stamp(file).is_some_and(|at| enters.has(at));
            before.iter().rev().chain(behind.iter().filter(enters)).collect()
        } else if before.iter().all(|file| is_reader(file)) || due()?.has(place.arrived()) {
            Vec::new()
        } else {
            // The first one: when it enters, the readers are due as soon as it leaves.
            before.iter().filter(|file| !is_reader(file)).collect()
        };
        let mut ahead = ahead.into_iter();
        let watched = self.nearest(&mut ahead)?;
        let count = ahead.len() as u64 + u64::from(watched.is_some());
        Ok(Some(Ahead { count, watched }))
    }

    /// Returns the waiters in the order of the queue.
    pub(crate) fn waiters(&self) -> Result<Vec<Waiter>> {
        let cards = self.cards()?.into_iter();
        let waiter = |(file, card): (String, WaiterRecord)| {
            Some(card.waiter()?.with_shared(is_reader(&file)))
        };
        Ok(cards.filter_map(waiter).collect())
    }

    /// Returns the permits that these cards show, by their slots.
    pub(crate) fn permits(&self) -> Result<Vec<Permitted>> {
        let permit = |(_, card): (String, WaiterRecord)| {
            let PermitCard { slots, token } = card.permit.clone()?;
            Some(Permitted::new(card.waiter()?.holder, slots, Token::new(token)?, None))
        };
        let mut permits: Vec<Permitted> = self.cards()?.into_iter().filter_map(permit).collect();
        permits.sort_by(|one, other| one.slots.cmp(&other.slots));
        Ok(permits)
    }

    /// Returns the files of live processes and what they contain, in the order of the queue.
    fn cards(&self) -> Result<Vec<(String, WaiterRecord)>> {
        let mut cards = Vec::new();
        for file in self.listed()? {
            let path = self.path.join(&file);
            let alive = matches!(look(&path), Ok(Seen::Held(_)));
            let card = read_small(&path).ok().and_then(|card| WaiterRecord::read(&card));
            cards.extend(card.filter(|_| alive).map(|card| (file, card)));
        }
        Ok(cards)
    }

    /// Returns the first live waiter of these. Removes the dead ones before it, up to the limit of one
    /// call.
    fn nearest<'f>(&self, files: &mut impl Iterator<Item = &'f String>) -> Result<Option<PathBuf>> {
        for file in files {
            let path = self.path.join(file);
            match look(&path).map_err(|error| failed("check", &path, error))? {
                Seen::Held(_) | Seen::Read(_) => return Ok(Some(path)),
                Seen::Free if self.may_remove() => remove(&path)?,
                Seen::Free => {}
                Seen::Absent => {}
            }
        }
        Ok(None)
    }

    /// Counts a file of a dead process; returns true if this call may remove it.
    fn may_remove(&self) -> bool {
        self.dead.set(self.dead.get().saturating_add(1));
        !self.leaves_dead()
    }

    fn listed(&self) -> Result<Vec<String>> {
        match self.files() {
            Err(error) if is_absent(&error) => Ok(Vec::new()),
            files => files.map_err(|error| failed("read the directory", self.path, error)),
        }
    }

    /// Returns the files in the queue, in order.
    fn files(&self) -> io::Result<Vec<String>> {
        if self.path.symlink_metadata()?.is_symlink() {
            // The files that are removed below must belong to this queue.
            return Err(Errno::ELOOP.into());
        }
        let mut files = Vec::new();
        for entry in fs::read_dir(self.path)? {
            let Ok(file) = entry?.file_name().into_string() else { continue };
            if stamp(&file).is_some() {
                files.push(file);
            } else if !self.leaves_dead() && file.strip_prefix('.').and_then(stamp).is_some() {
                // A draft. If its writer is alive but has not locked it yet, the writer creates
                // another one.
                let path = self.path.join(file);
                if matches!(look(&path), Ok(Seen::Free)) && self.may_remove() {
                    let _ = fs::remove_file(path);
                }
            }
        }
        files.sort_unstable();
        Ok(files)
    }
}

impl QueuePlace {
    /// Returns the time of arrival.
    pub(crate) fn arrived(&self) -> u64 {
        stamp(self.file()).unwrap_or(u64::MAX)
    }

    fn file(&self) -> &str {
        self.path.file_name().and_then(OsStr::to_str).unwrap_or_default()
    }

    /// Returns the file, which the next waiter watches.
    #[cfg(test)]
    fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
        // This succeeds only for the last waiter; the next one creates the directory again.
        let _ = self.path.parent().map(fs::remove_dir);
    }
}

impl WaiterRecord {
    pub(crate) fn read(card: &[u8]) -> Option<Self> {
        serde_json::from_slice(card).ok()
    }

    pub(crate) fn waiter(self) -> Option<Waiter> {
        let attempt = AttemptId::parse(&self.attempt)?;
        let holder = Holder::new(attempt, self.host, self.pid, self.metadata);
        let waiter = Waiter::new(holder, self.since_unix_ms);
        Some(match self.wants {
            Some(slots) => waiter.with_slots(slots),
            None => waiter,
        })
    }
}

/// Returns the time of arrival at the beginning of a file's name; `None` for other files.
pub(crate) fn stamp(file: &str) -> Option<u64> {
    let (stamp, _) = file.split_once('-')?;
    (stamp.len() == 20).then(|| stamp.parse().ok())?
}

fn is_reader(file: &str) -> bool {
    file.ends_with(READER)
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if !is_absent(&error) => Err(failed("remove", path, error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use leasehold_core::proto::ClientId;

    use super::*;

    fn holder(sequence: u32) -> Holder {
        let attempt = AttemptId::new(ClientId::from_bits(1), sequence, 0);
        Holder::new(attempt, "here".into(), 7, None)
    }

    /// Writers among themselves need not know which readers are due.
    fn never() -> Result<Due> {
        panic!("asked for the readers that are due")
    }

    #[test]
    fn readers_that_are_due_go_before_writers_and_others_behind_those_that_came_first() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.wait");
        let queue = WaiterQueue::new(&path);
        let reader = PlaceKind::Reader { after: 0 };
        let kinds = [reader, PlaceKind::Plain, reader, PlaceKind::Plain, reader];
        let places: Vec<QueuePlace> = (10..)
            .zip(kinds)
            .map(|(at, kind)| {
                queue.join(&holder(at), kind, Now { steady_ns: 0, wall_ns: at.into() })
            })
            .collect::<Result<_>>()
            .unwrap();
        let ahead = |at: usize, due: Due| queue.ahead(&places[at], || Ok(due)).unwrap().unwrap();
        let counts = |due| [0, 1, 2, 3, 4].map(|at| ahead(at, due).count);
        assert_eq!(counts(Due::Until(0)), [0, 1, 1, 3, 2]);
        assert_eq!(counts(Due::Until(12)), [0, 2, 0, 3, 2]);
        assert_eq!(counts(Due::All), [0, 3, 0, 4, 0]);
        assert_eq!(ahead(4, Due::Until(12)).watched.as_deref(), Some(places[1].path()));
        assert_eq!(ahead(1, Due::All).watched.as_deref(), Some(places[0].path()));
        let shared: Vec<bool> = queue.waiters().unwrap().iter().map(|one| one.shared).collect();
        assert_eq!(shared, [true, false, true, false, true]);
        assert!(queue.has_writer().unwrap());
        assert_eq!(queue.latest().unwrap(), 14);
        let late = queue.join(&holder(9), PlaceKind::Reader { after: 99 }, Now::default()).unwrap();
        assert_eq!(late.arrived(), 100, "a reader could be due that was not there");
    }

    #[test]
    fn the_line_keeps_the_order_of_arrival_even_if_the_clock_goes_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.wait");
        let queue = WaiterQueue::new(&path);
        assert!(queue.is_empty().unwrap());
        let places: Vec<QueuePlace> = (0..5)
            .map(|at| {
                queue.join(
                    &holder(at),
                    PlaceKind::Plain,
                    Now { steady_ns: 0, wall_ns: 100 - u64::from(at) },
                )
            })
            .collect::<Result<_>>()
            .unwrap();
        assert!(!queue.is_empty().unwrap());
        let order: Vec<_> = queue.waiters().unwrap().into_iter().map(|w| w.holder).collect();
        assert_eq!(order, (0..5).map(holder).collect::<Vec<_>>());
        for (at, place) in places.iter().enumerate() {
            let ahead = queue.ahead(place, never).unwrap().unwrap();
            assert_eq!(ahead.count, at as u64);
            assert_eq!(ahead.watched.as_deref(), at.checked_sub(1).map(|at| places[at].path()));
        }
        drop(places);
        assert!(!path.exists());
    }

    #[test]
    fn a_line_that_leads_elsewhere_is_refused_and_nothing_is_removed_there() {
        let dir = tempfile::tempdir().unwrap();
        let (path, elsewhere) = (dir.path().join("a.wait"), dir.path().join("elsewhere"));
        fs::create_dir(&elsewhere).unwrap();
        for file in [".profile", "00000000000000000009-7-x", ".00000000000000000009-7-y"] {
            fs::write(elsewhere.join(file), "").unwrap();
        }
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        let queue = WaiterQueue::new(&path);
        for error in [
            queue.is_empty().unwrap_err(),
            queue.waiters().unwrap_err(),
            queue.join(&holder(1), PlaceKind::Plain, Now::default()).unwrap_err(),
        ] {
            assert!(error.to_string().contains("symbolic link"), "{error}");
        }
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 3);
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        fs::write(path.join(".profile"), "").unwrap();
        queue.waiters().unwrap();
        assert!(path.join(".profile").exists());
    }

    #[test]
    fn the_dead_and_their_drafts_are_removed_by_whoever_comes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.wait");
        let queue = WaiterQueue::new(&path);
        let first = queue.join(&holder(1), PlaceKind::Plain, Now::default()).unwrap();
        for dead in ["00000000000000000009-7-x", ".00000000000000000009-7-y"] {
            fs::write(path.join(dead), "").unwrap();
        }
        let last =
            queue.join(&holder(2), PlaceKind::Plain, Now { steady_ns: 0, wall_ns: 100 }).unwrap();
        let ahead = queue.ahead(&last, never).unwrap().unwrap();
        assert_eq!((ahead.count, ahead.watched.as_deref()), (1, Some(first.path())));
        assert_eq!(fs::read_dir(&path).unwrap().count(), 2);
        fs::remove_file(last.path()).unwrap();
        assert!(queue.ahead(&last, never).unwrap().is_none(), "its own file is gone");
        drop((first, last));
        fs::create_dir(&path).unwrap();
        fs::write(path.join("00000000000000000009-7-x"), "").unwrap();
        assert!(queue.is_empty().unwrap() && !path.exists());
    }
}
