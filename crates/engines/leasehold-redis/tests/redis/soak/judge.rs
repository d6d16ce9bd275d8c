//! Checks that there were never two valid holders at once, and that tokens grew: a resource in
//! shared memory that all processes visit, independent of the locks.
//!
//! Two visitors that are inside at once do not overlap if the first knows that it has lost the lock
//! (it was stopped, for example). Validity never comes back, so it is enough to check it last. A
//! visitor that is valid when it leaves was valid all the time, and no other visitor may have
//! entered in between.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

/// The fields of the page, eight bytes each.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Page {
    /// The token of the last visitor.
    pub(crate) token: u64,
    /// Odd while the server's loss of its data excuses earlier holders.
    pub(crate) losses: u64,
    /// Not 0: a process that has acquired the lock once more may end.
    pub(crate) ending: u64,
    pub(crate) visits: u64,
    /// Visits where another process held the lock before.
    pub(crate) remote: u64,
    pub(crate) overlaps: u64,
    pub(crate) fallen: u64,
    /// Visitors that came too late, and detected it.
    pub(crate) late: u64,
    /// The process of the last visitor.
    pub(crate) process: u64,
}

const WORDS: usize = 9;

impl Page {
    fn words(&mut self) -> [&mut u64; WORDS] {
        [
            &mut self.token,
            &mut self.losses,
            &mut self.ending,
            &mut self.visits,
            &mut self.remote,
            &mut self.overlaps,
            &mut self.fallen,
            &mut self.late,
            &mut self.process,
        ]
    }
}

/// The page, opened by one process.
#[derive(Debug)]
pub(crate) struct Judge(File);

/// A visitor that is inside.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visit {
    token: u64,
    losses: u64,
}

impl Judge {
    /// Creates the page.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        std::fs::write(path, [0; 8 * WORDS])?;
        Self::open(path)
    }

    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(OpenOptions::new().read(true).write(true).open(path)?))
    }

    /// Reads and changes the page, while no other process does.
    pub(crate) fn with<T>(&mut self, change: impl FnOnce(&mut Page) -> T) -> io::Result<T> {
        flock(&self.0, FlockOperation::LockExclusive)?;
        let mut page = Page::default();
        let mut bytes = [0; 8 * WORDS];
        self.0.rewind()?;
        self.0.read_exact(&mut bytes)?;
        for (word, bytes) in page.words().into_iter().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
        }
        let done = change(&mut page);
        let mut bytes = [0; 8 * WORDS];
        for (word, bytes) in page.words().into_iter().zip(bytes.chunks_exact_mut(8)) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        self.0.rewind()?;
        self.0.write_all(&bytes)?;
        flock(&self.0, FlockOperation::Unlock)?;
        Ok(done)
    }

    /// Lets the holder of a token enter; returns `None` for a holder that came too late and was
    /// notified.
    pub(crate) fn enter(
        &mut self,
        process: u32,
        token: u64,
        is_valid: impl Fn() -> bool,
    ) -> io::Result<Option<Visit>> {
        self.with(|page| {
            if token > page.token {
                page.visits += 1;
                page.remote += u64::from(page.process != u64::from(process));
                (page.token, page.process) = (token, process.into());
                return Some(Visit { token, losses: page.losses });
            }
            match is_valid() && page.losses % 2 == 0 {
                true => page.fallen += 1,
                false => page.late += 1,
            }
            None
        })
    }

    /// Ends a visit before the release. Returns true if the process may end for good.
    pub(crate) fn leave(&mut self, visit: Visit, is_valid: impl Fn() -> bool) -> io::Result<bool> {
        self.with(|page| {
            let excused = visit.losses % 2 == 1 || visit.losses != page.losses;
            if page.token != visit.token && !excused && is_valid() {
                page.overlaps += 1;
            }
            page.ending != 0
        })
    }
}

pub(crate) async fn the_judge_tells_overlaps_from_late_comers() {
    let folder = super::folder();
    let path = folder.path().join("page");
    let (mut one, mut two) = (Judge::create(&path).unwrap(), Judge::open(&path).unwrap());
    let (valid, lost) = (|| true, || false);
    let enter = |judge: &mut Judge, token| judge.enter(1, token, valid).unwrap();
    let page = |judge: &mut Judge| judge.with(|page| *page).unwrap();

    let visit = enter(&mut one, 5).unwrap();
    one.leave(visit, valid).unwrap();
    assert!(enter(&mut two, 5).is_none());
    assert_eq!((page(&mut one).overlaps, page(&mut one).fallen), (0, 1), "the same token again");
    assert!(two.enter(2, 4, lost).unwrap().is_none());
    assert_eq!((page(&mut one).late, page(&mut one).fallen), (1, 1), "late, and knows it");

    let (first, second) = (enter(&mut one, 6).unwrap(), enter(&mut two, 7).unwrap());
    one.leave(first, lost).unwrap();
    two.leave(second, valid).unwrap();
    assert_eq!(page(&mut one).overlaps, 0, "the first of them had lost it");
    let (first, second) = (enter(&mut one, 8).unwrap(), enter(&mut two, 9).unwrap());
    two.leave(second, valid).unwrap();
    one.leave(first, valid).unwrap();
    assert_eq!(page(&mut one).overlaps, 1, "both were valid");

    let first = enter(&mut one, 10).unwrap();
    one.with(|page| page.losses += 1).unwrap();
    enter(&mut two, 11).unwrap();
    one.leave(first, valid).unwrap();
    assert_eq!(page(&mut one).overlaps, 1, "the server has lost its data meanwhile");
    assert_eq!(page(&mut one).visits, 7);
}
