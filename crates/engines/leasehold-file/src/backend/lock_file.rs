//! One file and the kernel's lock on it: acquire, duplicate, release, and check without acquiring.
//!
//! Open file description locks belong to the open file, not to the process: two attempts of one
//! process exclude each other, and a duplicate of the descriptor in another process keeps the lock.
//! So do the locks of flock(2), which `wire=flock` uses; the two kinds do not see each other.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use leasehold_core::Token;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use rustix::fs::{FlockOperation, flock};

/// Flags that prevent a symbolic link or a pipe in a file's place from redirecting or blocking us.
pub(crate) const NO_TRICKS: i32 = libc::O_NOFOLLOW | libc::O_NONBLOCK;

/// An open file that can be locked.
#[derive(Debug)]
pub(crate) struct LockFile {
    file: File,
    kind: LockKind,
}

/// Which lock of the kernel a file takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LockKind {
    /// Bytes of the open file description.
    Bytes,
    /// The whole file, by flock(2).
    Whole,
}

/// The state of a file's lock as the kernel reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// The file does not exist.
    Absent,
    /// The file is not locked.
    Free,
    /// The file is locked exclusively; with the token, after its holder has written its record.
    Held(Option<Token>),
    /// The file is locked by readers; with their token, after one of them has marked it.
    Read(Option<Token>),
}

impl Seen {
    /// Returns true if the file is locked, whatever for.
    pub(crate) fn is_held(self) -> bool {
        matches!(self, Self::Held(_) | Self::Read(_))
    }
}

impl LockFile {
    /// Opens the file, and creates it if it does not exist.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        options.mode(0o600).custom_flags(NO_TRICKS).open(path).map(Self::bytes)
    }

    fn bytes(file: File) -> Self {
        Self { file, kind: LockKind::Bytes }
    }

    /// Returns a file that is locked by flock(2). Only [`try_lock`](Self::try_lock), `unlock`, `is_at` and `duplicate` are
    /// of use then.
    pub(crate) fn whole(file: File) -> Self {
        Self { file, kind: LockKind::Whole }
    }

    /// Creates a new locked file with `content`.
    pub(crate) fn create(path: &Path, content: &[u8]) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let mut file = options.read(true).write(true).create_new(true).mode(0o600).open(path)?;
        set(&file, libc::F_WRLCK, 0, 1)?;
        file.write_all(content)?;
        Ok(Self::bytes(file))
    }

    /// Locks the file exclusively; false if it is already locked. A reader that is refused keeps its
    /// lock.
    pub(crate) fn try_lock(&self) -> io::Result<bool> {
        match self.kind {
            LockKind::Bytes => granted(set(&self.file, libc::F_WRLCK, 0, 1)),
            LockKind::Whole => match flock(&self.file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => Ok(true),
                Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
                Err(error) => Err(error.into()),
            },
        }
    }

    /// Locks the file to read; false if it is locked exclusively. An exclusive lock becomes one to
    /// read, in one step.
    pub(crate) fn try_read(&self) -> io::Result<bool> {
        granted(set(&self.file, libc::F_RDLCK, 0, 1))
    }

    /// Marks the exclusive lock with its token, so that other processes can read it from the kernel.
    pub(crate) fn mark(&self, token: Token) -> io::Result<()> {
        Ok(set(&self.file, libc::F_WRLCK, offset(token), 1)?)
    }

    /// Marks the lock of a reader with the token of the phase, as all readers of the phase do.
    pub(crate) fn mark_read(&self, token: Token) -> io::Result<()> {
        Ok(set(&self.file, libc::F_RDLCK, offset(token), 1)?)
    }

    /// Removes the mark of an earlier token.
    pub(crate) fn unmark(&self, token: Token) -> io::Result<()> {
        Ok(set(&self.file, libc::F_UNLCK, offset(token), 1)?)
    }

    /// Locks these slots, which no other open file has locked; false if one is locked.
    pub(crate) fn try_slots(&self, slots: &[u32]) -> io::Result<bool> {
        for run in slots.chunk_by(|one, next| one + 1 == *next) {
            let length = run.len() as libc::off_t;
            if !granted(set(&self.file, libc::F_WRLCK, slot_offset(run[0]), length))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Releases the lock even if another process has a duplicate of the descriptor.
    pub(crate) fn unlock(&self) -> io::Result<()> {
        match self.kind {
            LockKind::Bytes => Ok(set(&self.file, libc::F_UNLCK, 0, 0)?),
            LockKind::Whole => Ok(flock(&self.file, FlockOperation::Unlock)?),
        }
    }

    /// Returns true while `path` points to this file, so that it was neither removed nor replaced.
    pub(crate) fn is_at(&self, path: &Path) -> io::Result<bool> {
        let there = match self.kind {
            LockKind::Bytes => path.symlink_metadata(),
            // As callers of flock(1), which follow links.
            LockKind::Whole => path.metadata(),
        };
        let there = match there {
            Ok(there) => there,
            Err(error) if is_absent(&error) => return Ok(false),
            Err(error) => return Err(error),
        };
        let ours = self.file.metadata()?;
        Ok((ours.dev(), ours.ino()) == (there.dev(), there.ino()))
    }

    /// Returns another descriptor of the same open file, closed on exec.
    pub(crate) fn duplicate(&self) -> io::Result<OwnedFd> {
        self.file.try_clone().map(OwnedFd::from)
    }
}

/// Reads the state of a file's lock. Opens the file only for reading, so that closing it does not
/// notify a waiter.
pub(crate) fn look(path: &Path) -> io::Result<Seen> {
    let file = match OpenOptions::new().read(true).custom_flags(NO_TRICKS).open(path) {
        Ok(file) => file,
        Err(error) if is_absent(&error) => return Ok(Seen::Absent),
        Err(error) => return Err(error),
    };
    let Some(held) = conflict(&file, 0, 1)? else { return Ok(Seen::Free) };
    let mark = conflict(&file, 1, 0)?;
    let token = mark.and_then(|mark| Token::new(mark.l_start.try_into().ok()?));
    Ok(match i32::from(held.l_type) {
        libc::F_RDLCK => Seen::Read(token),
        _ => Seen::Held(token),
    })
}

/// Returns which of the slots below `limit` are locked, ascending; none if the file does not exist.
/// Opens the file only for reading, as [`look`] does.
pub(crate) fn locked_slots(path: &Path, limit: u32) -> io::Result<Vec<u32>> {
    let file = match OpenOptions::new().read(true).custom_flags(NO_TRICKS).open(path) {
        Ok(file) => file,
        Err(error) if is_absent(&error) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut locked = Vec::new();
    // The kernel reports any lock in a range, so what is on both sides of it is looked at again.
    let mut ranges = vec![(slot_offset(0), slot_offset(limit))];
    while let Some((start, end)) = ranges.pop() {
        if start >= end {
            continue;
        }
        let Some(found) = conflict(&file, start, end - start)? else { continue };
        let last = if found.l_len == 0 { end } else { found.l_start.saturating_add(found.l_len) };
        let (from, until) = (found.l_start.max(start), last.min(end));
        locked.extend((from..until).filter_map(|byte| u32::try_from(byte - slot_offset(0)).ok()));
        ranges.extend([(start, from), (until, end)]);
    }
    locked.sort_unstable();
    Ok(locked)
}

/// Returns the byte of a slot. Byte 0 stays free: a look at the file finds it unlocked.
fn slot_offset(slot: u32) -> libc::off_t {
    libc::off_t::from(slot) + 1
}

/// Notifies those that watch the file, as the close of a holder does.
pub(crate) fn notify(path: &Path) {
    let _ = OpenOptions::new().write(true).custom_flags(NO_TRICKS).open(path);
}

/// Returns true if the file or its directory does not exist.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

fn offset(token: Token) -> libc::off_t {
    libc::off_t::try_from(token.get()).unwrap_or(libc::off_t::MAX)
}

fn set(file: &File, kind: i32, start: libc::off_t, length: libc::off_t) -> nix::Result<()> {
    fcntl(file, FcntlArg::F_OFD_SETLK(&range(kind, start, length))).map(drop)
}

fn granted(done: nix::Result<()>) -> io::Result<bool> {
    match done {
        Ok(()) => Ok(true),
        Err(Errno::EAGAIN | Errno::EACCES) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Returns the first lock of another open file in the range.
fn conflict(
    file: &File,
    start: libc::off_t,
    length: libc::off_t,
) -> nix::Result<Option<libc::flock>> {
    let mut found = range(libc::F_WRLCK, start, length);
    fcntl(file, FcntlArg::F_OFD_GETLK(&mut found))?;
    Ok((i32::from(found.l_type) != libc::F_UNLCK).then_some(found))
}

/// Returns the description of a range; a length of 0 means to the end of any file.
fn range(kind: i32, start: libc::off_t, length: libc::off_t) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: start,
        l_len: length,
        l_pid: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_the_holders_token_to_those_who_only_look() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.lock");
        assert_eq!(look(&path).unwrap(), Seen::Absent);
        let holder = LockFile::open(&path).unwrap();
        assert_eq!(look(&path).unwrap(), Seen::Free);
        assert!(holder.try_lock().unwrap());
        assert_eq!(look(&path).unwrap(), Seen::Held(None));
        for token in [Token::new(2).unwrap(), Token::MAX] {
            holder.unlock().unwrap();
            assert!(holder.try_lock().unwrap());
            holder.mark(token).unwrap();
            assert_eq!(look(&path).unwrap(), Seen::Held(Some(token)));
            let other = LockFile::open(&path).unwrap();
            assert!(!other.try_lock().unwrap());
        }
        holder.unlock().unwrap();
        assert_eq!(look(&path).unwrap(), Seen::Free);
    }

    #[test]
    fn readers_share_a_lock_and_their_mark_and_a_sole_one_can_lock_it_exclusively() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.lock");
        let open = || LockFile::open(&path).unwrap();
        let (one, two, writer) = (open(), open(), open());
        let token = Token::new(7).unwrap();
        assert!(one.try_lock().unwrap() && !two.try_read().unwrap());
        assert!(one.try_read().unwrap());
        assert_eq!(look(&path).unwrap(), Seen::Read(None));
        one.mark_read(token).unwrap();
        assert!(two.try_read().unwrap() && !writer.try_lock().unwrap());
        two.mark_read(token).unwrap();
        assert!(!one.try_lock().unwrap(), "exclusive beside a reader");
        one.unlock().unwrap();
        assert_eq!(look(&path).unwrap(), Seen::Read(Some(token)));
        assert!(two.try_lock().unwrap());
        two.unmark(token).unwrap();
        assert_eq!(look(&path).unwrap(), Seen::Held(None));
        drop(two);
        assert!(writer.try_lock().unwrap());
    }

    #[test]
    fn each_open_file_has_slots_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.slots");
        assert!(locked_slots(&path, 9).unwrap().is_empty());
        let open = || LockFile::open(&path).unwrap();
        let (one, two, three) = (open(), open(), open());
        assert!(one.try_slots(&[0, 1, 5]).unwrap() && two.try_slots(&[2, 7]).unwrap());
        assert_eq!(locked_slots(&path, 9).unwrap(), [0, 1, 2, 5, 7]);
        assert_eq!(locked_slots(&path, 6).unwrap(), [0, 1, 2, 5]);
        assert!(!three.try_slots(&[7]).unwrap());
        assert_eq!(look(&path).unwrap(), Seen::Free);
        drop(one);
        assert_eq!(locked_slots(&path, 9).unwrap(), [2, 7]);
        assert!(three.try_slots(&[0, 1, 3]).unwrap());
        two.unlock().unwrap();
        assert_eq!(locked_slots(&path, 9).unwrap(), [0, 1, 3]);
    }

    #[test]
    fn a_replaced_file_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.lock");
        let file = LockFile::open(&path).unwrap();
        assert!(file.is_at(&path).unwrap());
        std::fs::remove_file(&path).unwrap();
        assert!(!file.is_at(&path).unwrap());
        let _other = LockFile::open(&path).unwrap();
        assert!(!file.is_at(&path).unwrap());
    }
}
