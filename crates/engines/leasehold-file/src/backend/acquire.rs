//! Acquires the lock in order: directly if no client waits, otherwise from the head of the queue.

use std::io;
use std::path::Path;
use std::sync::PoisonError;
use std::time::Duration;

use leasehold_core::backend::{AcquireRequest, Answer, Grant, Term};
use leasehold_core::{ErrorKind, Name, Result, Token, TokenBlock};

use super::attempts::{Begun, Lease};
use super::directory::Files;
use super::lock_file::{LockFile, Seen, is_absent, look};
use super::os_error::failed;
use super::record::{Record, next_token};
use super::store::{Store, WaitingAttempt};
use super::waiter_queue::{Ahead, WaiterQueue};
use super::watch::Kind;

/// How often the first waiter tries again without a notification. Waiters behind it try less often,
/// down to a tenth of that.
const SAFETY_NET: Duration = Duration::from_millis(500);

/// How often a waiter tries that cannot be notified.
const POLL: Duration = Duration::from_millis(100);

/// How long, for each waiter before it, the lock must be free before a waiter passes them.
///
/// The first waiter may be stopped. The next one then acquires the lock after at most
/// [`SAFETY_NET`], in which it finds the lock free, plus this time.
const PASS_AFTER: Duration = Duration::from_millis(300);

/// How often one request starts again because other processes remove files.
const ROUNDS: usize = 16;

/// The result of a request.
enum Taken {
    Lease(Lease),
    InLine { place: u64, ask_again: Duration },
    Busy,
}

impl Store {
    /// Processes one acquire request.
    pub(crate) fn acquire(&self, request: &AcquireRequest) -> Result<Answer> {
        let (turn, mut waiting) = match self.attempts.begin(request.attempt) {
            Begun::Go(turn, waiting) => (turn, waiting),
            Begun::Granted(token) => return Ok(granted(token)),
            Begun::Ended => return Ok(Answer::Ended),
        };
        let files = self.directory.files(&request.name);
        match self.take(request, &files, &mut waiting) {
            Ok(Taken::Lease(lease)) => {
                drop(waiting);
                let token = lease.token();
                Ok(if turn.granted(lease) { granted(token) } else { Answer::Ended })
            }
            Ok(Taken::InLine { place, ask_again }) => {
                let queued = Answer::Queued { place: Some(place), ask_again };
                Ok(if turn.waits(waiting) { queued } else { Answer::Ended })
            }
            Ok(Taken::Busy) => Ok(Answer::Busy { ask_again: None }),
            Err(error) => {
                // Otherwise the caller considers the attempt ended, and its place would stay in the queue.
                if error.kind() == ErrorKind::Unavailable {
                    turn.waits(waiting);
                }
                Err(error)
            }
        }
    }

    /// Processes a request until there is an answer.
    fn take(
        &self,
        request: &AcquireRequest,
        files: &Files,
        waiting: &mut WaitingAttempt,
    ) -> Result<Taken> {
        let queue = WaiterQueue::new(&files.queue);
        if waiting.place.is_none() {
            if (!request.fair || queue.is_empty()?)
                && !matches!(look_at(&files.lock)?, Seen::Held(_))
                && let Some(lease) = self.try_lock(request, files, waiting)?
            {
                return Ok(Taken::Lease(lease));
            }
            if !request.wait {
                return Ok(Taken::Busy);
            }
        }
        for _ in 0..ROUNDS {
            let place = match waiting.place.take() {
                Some(place) => place,
                None => queue.join(&request.origin.holder(request.attempt), self.clock.now())?,
            };
            // A removed file is a lost place; the next round joins the queue again.
            let Some(ahead) = queue.ahead(&place)? else { continue };
            let count = ahead.count;
            waiting.place = Some(place);
            let Some(mut ask_again) = self.stand(request, files, waiting, ahead)? else {
                // First in the queue. Watch before the try, so that no release is missed.
                self.watch(waiting, Kind::Lock, &files.lock, &request.name);
                return Ok(match self.try_lock(request, files, waiting)? {
                    Some(lease) => Taken::Lease(lease),
                    None if !request.wait => Taken::Busy,
                    None => Taken::InLine { place: count, ask_again: net(waiting, 1) },
                });
            };
            if !request.wait {
                return Ok(Taken::Busy);
            }
            if ask_again.is_zero() {
                continue;
            }
            ask_again = ask_again.min(net(waiting, count));
            return Ok(Taken::InLine { place: count, ask_again });
        }
        Err(failed(
            "wait in",
            &files.queue,
            io::Error::other("other processes changed it repeatedly"),
        ))
    }

    /// Watches the waiter before this one. Returns when to check again (zero if that waiter has just
    /// left), and `None` if the lock may be tried.
    fn stand(
        &self,
        request: &AcquireRequest,
        files: &Files,
        waiting: &mut WaitingAttempt,
        ahead: Ahead,
    ) -> Result<Option<Duration>> {
        let Some(before) = ahead.nearest.filter(|_| request.fair) else { return Ok(None) };
        let left = self.left_to_pass(request, files, waiting, ahead.count)?;
        if left.is_zero() {
            return Ok(None);
        }
        self.watch(waiting, Kind::Place, &before, &request.name);
        // Check after the watch has begun: it does not report a waiter that left before.
        let gone = !matches!(look_at(&before)?, Seen::Held(_));
        Ok(Some(if gone { Duration::ZERO } else { left }))
    }

    /// Returns how long the lock must stay free until this waiter may pass those before it.
    fn left_to_pass(
        &self,
        request: &AcquireRequest,
        files: &Files,
        waiting: &mut WaitingAttempt,
        before: u64,
    ) -> Result<Duration> {
        if matches!(look_at(&files.lock)?, Seen::Held(_)) {
            waiting.free_since = None;
            return Ok(Duration::MAX);
        }
        let now = self.clock.now().steady_ns;
        // The token reveals a hold between two checks.
        let token = Record::read(&files.record, &request.name)?.and_then(|record| record.token());
        let since = match waiting.free_since {
            Some((since, after)) if after == token => since,
            _ => now,
        };
        waiting.free_since = Some((since, token));
        let wait = PASS_AFTER.saturating_mul(u32::try_from(before).unwrap_or(u32::MAX));
        Ok(wait.saturating_sub(Duration::from_nanos(now.saturating_sub(since))))
    }

    /// Tries to lock the file once, and keeps it open if that fails.
    fn try_lock(
        &self,
        request: &AcquireRequest,
        files: &Files,
        waiting: &mut WaitingAttempt,
    ) -> Result<Option<Lease>> {
        let locking = |error| failed("lock", &files.lock, error);
        for _ in 0..ROUNDS {
            let file = match waiting.file.take() {
                Some(file) if file.is_at(&files.lock).map_err(locking)? => file,
                Some(_) => {
                    // The watch was also on the removed file.
                    let watched = waiting.watch.take();
                    let file = self.open(files)?;
                    if watched.is_some() {
                        self.watch(waiting, Kind::Lock, &files.lock, &request.name);
                    }
                    file
                }
                None => self.open(files)?,
            };
            if !file.try_lock().map_err(locking)? {
                waiting.file = Some(file);
                return Ok(None);
            }
            if let Some(lease) = self.settle(request, files, file)? {
                return Ok(Some(lease));
            }
        }
        let why = io::Error::other("another process removed this file repeatedly");
        Err(failed("keep", &files.lock, why))
    }

    fn open(&self, files: &Files) -> Result<LockFile> {
        let opened = match LockFile::open(&files.lock) {
            Err(error) if is_absent(&error) => {
                // The directory was removed since it was opened.
                self.directory.prepare()?;
                LockFile::open(&files.lock)
            }
            opened => opened,
        };
        opened.map_err(|error| failed("open", &files.lock, error))
    }

    /// Turns a locked file into a lease: token, record, mark. `None` if the path points to another
    /// file now, which another process may have locked.
    fn settle(
        &self,
        request: &AcquireRequest,
        files: &Files,
        file: LockFile,
    ) -> Result<Option<Lease>> {
        let settled = self.write_record(request, files, &file);
        if !matches!(settled, Ok(Some(_))) {
            // Closing is not enough while a child of another thread is between fork and exec.
            let _ = file.unlock();
        }
        Ok(settled?.map(|token| Lease::new(file, files.lock.clone(), token)))
    }

    fn write_record(
        &self,
        request: &AcquireRequest,
        files: &Files,
        file: &LockFile,
    ) -> Result<Option<Token>> {
        let locking = |error| failed("lock", &files.lock, error);
        if !file.is_at(&files.lock).map_err(locking)? {
            return Ok(None);
        }
        let last = Record::read(&files.record, &request.name)?;
        let now = self.clock.now();
        let token = next_token(last.as_ref(), now, files)?;
        // If the process id is not ours, its namespace is unknown.
        let holder = request.origin.holder(request.attempt);
        let ours = holder.pid == std::process::id();
        let pid_namespace = self.here.pid_namespace.filter(|_| ours);
        Record::new(&request.name, token, &holder, pid_namespace, now).write(files)?;
        file.mark(token).map_err(locking)?;
        Ok(file.is_at(&files.lock).map_err(locking)?.then_some(token))
    }

    /// Makes the waiting watch this file instead of the earlier one.
    fn watch(&self, waiting: &mut WaitingAttempt, kind: Kind, path: &Path, name: &Name) {
        if waiting.watch.as_ref().is_some_and(|(watched, _)| watched == path) {
            return;
        }
        let mut watching = self.watching.lock().unwrap_or_else(PoisonError::into_inner);
        let watch = watching.watch(kind, path, name, &self.clock);
        waiting.watch = watch.map(|watch| (path.to_owned(), watch));
    }
}

fn granted(token: Token) -> Answer {
    Answer::Granted(Grant::new(TokenBlock::single(token), Term::Session, false))
}

fn look_at(path: &Path) -> Result<Seen> {
    look(path).map_err(|error| failed("check", path, error))
}

/// Returns when a waiter tries again at the latest.
fn net(waiting: &WaitingAttempt, place: u64) -> Duration {
    match waiting.watch {
        Some(_) => SAFETY_NET * place.clamp(1, 10) as u32,
        None => POLL,
    }
}
