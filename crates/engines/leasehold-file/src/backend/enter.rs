//! Enters: locks the file, and writes the record or joins the phase that it names.

use std::io;
use std::path::Path;

use leasehold_core::backend::AcquireRequest;
use leasehold_core::{Name, Now, Result, Token};

use super::directory::Files;
use super::here::Here;
use super::lease::Lease;
use super::lock_file::{LockFile, Seen, is_absent, look, notify};
use super::os_error::failed;
use super::record::{Due, ReadPhase, Record, next_token};
use super::store::{Store, WaitingAttempt};
use super::waiter_queue::WaiterQueue;

/// How often one request starts again because other processes remove files, or come and go.
pub(crate) const ROUNDS: usize = 16;

/// How an attempt enters.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Entry {
    /// As a writer.
    Write,
    /// As the first reader of a phase. `passes`: it passes writers that are stopped, and takes all
    /// readers that wait with it, as if a writer had been.
    Begin { passes: bool },
    /// As a reader of the phase that the record names.
    Join,
}

/// What became of a file that was locked.
enum Settled {
    Entered(Lease),
    /// The path points to another file now, which another process may have locked.
    Replaced,
    /// A writer has been since the phase was seen.
    NoPhase,
}

impl Store {
    /// Tries to lock the file once, and keeps it open if that fails.
    pub(crate) fn enter(
        &self,
        entry: Entry,
        request: &AcquireRequest,
        files: &Files,
        waiting: &mut WaitingAttempt,
    ) -> Result<Option<Lease>> {
        for _ in 0..ROUNDS {
            let file = self.lock_file(files, waiting)?;
            let locked = match entry {
                Entry::Write | Entry::Begin { .. } => file.try_lock(),
                Entry::Join => file.try_read(),
            };
            if !locked.map_err(|error| failed("lock", &files.lock, error))? {
                waiting.file = Some(file);
                return Ok(None);
            }
            match self.settle(entry, request, files, file)? {
                Settled::Entered(lease) => return Ok(Some(lease)),
                Settled::Replaced => {}
                Settled::NoPhase => return Ok(None),
            }
        }
        let why = io::Error::other("another process removed this file repeatedly");
        Err(failed("keep", &files.lock, why))
    }

    /// Returns the open lock file. A watch of a file that was removed ends.
    fn lock_file(&self, files: &Files, waiting: &mut WaitingAttempt) -> Result<LockFile> {
        let opening = |error| failed("open", &files.lock, error);
        if let Some(file) = waiting.file.take() {
            if file.is_at(&files.lock).map_err(opening)? {
                return Ok(file);
            }
            waiting.watch = None;
        }
        let opened = match LockFile::open(&files.lock) {
            Err(error) if is_absent(&error) => {
                // The directory was removed since it was opened.
                self.directory.prepare()?;
                LockFile::open(&files.lock)
            }
            opened => opened,
        };
        opened.map_err(opening)
    }

    /// Turns a locked file into a lease, or unlocks it.
    fn settle(
        &self,
        entry: Entry,
        request: &AcquireRequest,
        files: &Files,
        file: LockFile,
    ) -> Result<Settled> {
        let token = match entry {
            Entry::Write => self.write(request, files, &file),
            Entry::Begin { passes } => self.begin_phase(request, files, &file, passes),
            Entry::Join => match self.phase(request, files) {
                Ok(Some(token)) => self.mark(files, &file, token),
                other => {
                    let _ = file.unlock();
                    // A writer may have been refused because of this lock.
                    drop(file);
                    notify(&files.lock);
                    return other.map(|_| Settled::NoPhase);
                }
            },
        };
        let presence = match (entry, token) {
            (Entry::Write, Ok(Some(token))) => Ok(Some((token, None))),
            (_, Ok(Some(token))) => {
                self.appear(request, files).map(|presence| Some((token, Some(presence))))
            }
            (_, token) => token.map(|_| None),
        };
        if !matches!(presence, Ok(Some(_))) {
            // Closing is not enough while a child of another thread is between fork and exec.
            let _ = file.unlock();
        }
        Ok(match presence? {
            None => Settled::Replaced,
            Some((token, presence)) => {
                let lease = Lease::new(file, files.lock.clone(), token);
                Settled::Entered(match presence {
                    Some(presence) => lease.with_reader(presence),
                    None => lease,
                })
            }
        })
    }

    /// Writes the record of a writer, and the mark. `None` if the path points to another file now.
    fn write(
        &self,
        request: &AcquireRequest,
        files: &Files,
        file: &LockFile,
    ) -> Result<Option<Token>> {
        if !is_at(file, files)? {
            return Ok(None);
        }
        let token = self.write_record(request, files, |_| Ok(None))?;
        file.mark(token).map_err(|error| failed("lock", &files.lock, error))?;
        Ok(is_at(file, files)?.then_some(token))
    }

    /// Begins a phase with a file that is locked exclusively, which is locked to read then.
    fn begin_phase(
        &self,
        request: &AcquireRequest,
        files: &Files,
        file: &LockFile,
        passes: bool,
    ) -> Result<Option<Token>> {
        if !is_at(file, files)? {
            return Ok(None);
        }
        let token = self.write_phase(request, files, passes)?;
        // Others may join from now on, without the mark.
        let read = file.try_read().map_err(|error| failed("lock", &files.lock, error))?;
        let marked = if read { self.mark(files, file, token)? } else { None };
        notify(&files.lock);
        Ok(marked)
    }

    /// Writes the record of a phase. Only the exclusive holder may call this.
    pub(crate) fn write_phase(
        &self,
        request: &AcquireRequest,
        files: &Files,
        passes: bool,
    ) -> Result<Token> {
        self.write_record(request, files, |last| {
            let all = passes || Due::after(last) == Due::All;
            let queue = WaiterQueue::new(&files.queue);
            Ok(Some(ReadPhase { entered_until: if all { queue.latest()? } else { 0 } }))
        })
    }

    /// Writes the record of a new holder with the next token. Only the exclusive holder may call this.
    pub(crate) fn write_record(
        &self,
        request: &AcquireRequest,
        files: &Files,
        phase: impl FnOnce(Option<&Record>) -> Result<Option<ReadPhase>>,
    ) -> Result<Token> {
        let last = Record::read(&files.record, &request.name)?;
        let now = self.clock.now();
        let record = next_record(&self.here, &request.name, last.as_ref(), request, now, files)?;
        match phase(last.as_ref())? {
            Some(phase) => record.with_read(phase).write(files),
            None => record.write(files),
        }
    }

    /// Returns the token of the phase that the record names; `None` after a writer. The lock to read
    /// keeps the record as it is.
    fn phase(&self, request: &AcquireRequest, files: &Files) -> Result<Option<Token>> {
        let record = Record::read(&files.record, &request.name)?;
        Ok(record.filter(|record| record.read_phase().is_some()).and_then(|record| record.token()))
    }

    /// Marks the lock of a reader. `None` if the path points to another file now.
    fn mark(&self, files: &Files, file: &LockFile, token: Token) -> Result<Option<Token>> {
        file.mark_read(token).map_err(|error| failed("lock", &files.lock, error))?;
        Ok(is_at(file, files)?.then_some(token))
    }
}

/// Returns the record of the client that acquires the lock `name` now, after the holder of `last`.
pub(crate) fn next_record(
    here: &Here,
    name: &Name,
    last: Option<&Record>,
    request: &AcquireRequest,
    now: Now,
    files: &Files,
) -> Result<Record> {
    let token = next_token(last, now, files)?;
    // If the process id is not ours, its namespace is unknown.
    let holder = request.origin.holder(request.attempt);
    let ours = holder.pid == std::process::id();
    let pid_namespace = here.pid_namespace.filter(|_| ours);
    Ok(Record::new(name, token, &holder, pid_namespace, now))
}

fn is_at(file: &LockFile, files: &Files) -> Result<bool> {
    file.is_at(&files.lock).map_err(|error| failed("lock", &files.lock, error))
}

/// Returns the state of a file's lock.
pub(crate) fn look_at(path: &Path) -> Result<Seen> {
    look(path).map_err(|error| failed("check", path, error))
}
