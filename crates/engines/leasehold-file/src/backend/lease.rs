//! A lock that an attempt holds, exclusively or to read, or a permit.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use leasehold_core::Token;
use leasehold_core::backend::Verdict;

use super::lock_file::{LockFile, notify};
use super::waiter_queue::QueuePlace;
use super::watch::Watch;

/// The card of a reader or of a permit, and a reader's watch for writers that begin to wait. Dropping
/// it removes the card.
#[derive(Debug)]
pub(crate) struct Presence {
    pub(crate) _watch: Option<Watch>,
    pub(crate) _card: QueuePlace,
}

/// A lock that is held. A process may hold very many, so each byte counts.
#[derive(Debug)]
pub(crate) struct Lease {
    file: Arc<LockFile>,
    path: Box<Path>,
    token: Token,
    reads: bool,
    /// The slots of a permit; empty for a lock.
    slots: Box<[u32]>,
    presence: Mutex<Option<Box<Presence>>>,
    lost: AtomicBool,
    duplicated: AtomicBool,
}

impl Lease {
    /// Creates a lease on a file that is locked and marked with the token.
    pub(crate) fn new(file: LockFile, path: PathBuf, token: Token) -> Self {
        Self {
            file: Arc::new(file),
            path: path.into_boxed_path(),
            token,
            reads: false,
            slots: Box::default(),
            presence: Mutex::new(None),
            lost: AtomicBool::new(false),
            duplicated: AtomicBool::new(false),
        }
    }

    /// Makes this the lease of a reader.
    pub(crate) fn with_reader(self, presence: Presence) -> Self {
        Self { reads: true, presence: Mutex::new(Some(Box::new(presence))), ..self }
    }

    /// Makes this the lease of a permit with these slots.
    pub(crate) fn with_slots(self, slots: Vec<u32>, card: QueuePlace) -> Self {
        let presence = Presence { _watch: None, _card: card };
        let presence = Mutex::new(Some(Box::new(presence)));
        Self { slots: slots.into_boxed_slice(), presence, ..self }
    }

    /// Returns the slots of a permit; none for a lock.
    pub(crate) fn slots(&self) -> &[u32] {
        &self.slots
    }

    /// Returns the lease that this one has become, by a conversion of its lock.
    pub(crate) fn converted(&self, token: Token) -> Self {
        let lease = Self {
            file: self.file.clone(),
            path: self.path.clone(),
            token,
            reads: false,
            slots: Box::default(),
            presence: Mutex::new(None),
            lost: AtomicBool::new(false),
            duplicated: AtomicBool::new(self.duplicated.load(Ordering::Acquire)),
        };
        self.disappear();
        lease
    }

    pub(crate) fn token(&self) -> Token {
        self.token
    }

    /// Returns the path of the lock's file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn file(&self) -> &LockFile {
        &self.file
    }

    /// Returns true for a reader.
    pub(crate) fn reads(&self) -> bool {
        self.reads
    }

    /// Returns false once the path has pointed to another file or none. Another process may have
    /// locked that file, so the lease stays lost even if this file is restored.
    pub(crate) fn is_healthy(&self) -> io::Result<bool> {
        if self.lost.load(Ordering::Acquire) {
            return Ok(false);
        }
        let healthy = self.file.is_at(&self.path)?;
        if !healthy {
            self.lost.store(true, Ordering::Release);
        }
        Ok(healthy)
    }

    /// Returns another descriptor that keeps the lock.
    pub(crate) fn duplicate(&self) -> io::Result<std::os::fd::OwnedFd> {
        self.duplicated.store(true, Ordering::Release);
        self.file.duplicate()
    }

    /// Releases the lock, even if other processes have the descriptor.
    pub(crate) fn give_back(&self) -> Verdict {
        let healthy = self.is_healthy();
        self.disappear();
        let unlocked = self.file.unlock();
        if self.duplicated.load(Ordering::Acquire) {
            // Another process has the descriptor, so our close does not notify the waiters. This
            // does.
            notify(&self.path);
        }
        match (healthy, unlocked) {
            (Ok(true), Ok(())) => Verdict::Released,
            (Ok(false), _) => Verdict::Lost,
            _ => Verdict::Unknown,
        }
    }

    /// Removes the card of a reader.
    fn disappear(&self) {
        drop(self.presence.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}
