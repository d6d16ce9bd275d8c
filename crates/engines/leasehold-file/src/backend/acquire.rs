//! Acquires the lock in order: directly if no client waits that goes first, otherwise from the queue.

use std::io;
use std::path::Path;
use std::sync::PoisonError;
use std::time::Duration;

use leasehold_core::backend::{AcquireRequest, Answer, Grant, Mode, Term};
use leasehold_core::{ErrorKind, Result, TokenBlock};

use super::attempts::Begun;
use super::directory::Files;
use super::enter::{Entry, ROUNDS, look_at};
use super::lease::Lease;
use super::lock_file::{Seen, look};
use super::order::Turn;
use super::os_error::failed;
use super::readers;
use super::record::{Due, Record};
use super::store::{Store, WaitingAttempt};
use super::waiter_queue::{PlaceKind, QueuePlace, WaiterQueue};
use super::watch::Kind;

/// How often the first waiter tries again without a notification. Waiters behind it try less often,
/// down to a tenth of that.
const SAFETY_NET: Duration = Duration::from_millis(500);

/// How often a waiter tries that cannot be notified.
const POLL: Duration = Duration::from_millis(100);

/// How often a reader that does not wait looks again, every millisecond, while a holder writes its
/// record: it may be a reader that begins a phase, and no reason to refuse another one.
const LOOKS: usize = 40;

/// The result of a request.
enum Taken {
    Lease(Lease),
    InLine { place: u64, ask_again: Duration },
    Busy,
}

impl Store {
    /// Processes one acquire request.
    pub(crate) fn acquire(&self, request: &AcquireRequest) -> Result<Answer> {
        let files = self.directory.files(&request.name);
        let (turn, mut waiting) = match self.attempts.begin(request.attempt) {
            Begun::Go(turn, waiting) => (turn, waiting),
            Begun::Granted(lease) => return Ok(Answer::Granted(self.grant(&lease, &files))),
            Begun::Ended => return Ok(Answer::Ended),
        };
        match self.take(request, &files, &mut waiting) {
            Ok(Taken::Lease(lease)) => {
                drop(waiting);
                let grant = self.grant(&lease, &files);
                Ok(if turn.granted(lease) { Answer::Granted(grant) } else { Answer::Ended })
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

    /// Returns the grant of a lease. Readers must know whether a writer waits.
    pub(crate) fn grant(&self, lease: &Lease, files: &Files) -> Grant {
        let wanted = lease.reads() && self.is_wanted(files);
        Grant::new(TokenBlock::single(lease.token()), Term::Session, wanted)
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
            if let Some(lease) = self.take_directly(request, files, waiting, &queue)? {
                return Ok(Taken::Lease(lease));
            }
            // The name may be that of a semaphore, whose file is locked for moments only.
            Record::read(&files.record, &request.name)?;
            if !request.wait {
                return Ok(Taken::Busy);
            }
        }
        let mut ahead = 0;
        for _ in 0..ROUNDS {
            let place = match waiting.place.take() {
                Some(place) => place,
                None => self.join(request, files, &queue)?,
            };
            // A removed file is a lost place; the next round joins the queue again.
            let Some((turn, place)) = self.turn(request, files, waiting, &queue, place)? else {
                continue;
            };
            ahead = place;
            match turn {
                Turn::Try(entry) => {
                    if let Some(lease) = self.enter(entry, request, files, waiting)? {
                        return Ok(Taken::Lease(lease));
                    }
                    if !request.wait {
                        return Ok(Taken::Busy);
                    }
                    let reads = request.mode == Mode::Shared;
                    let kind = if reads { Kind::LockToRead } else { Kind::Lock };
                    if !self.watch(waiting, request, kind, &files.lock) {
                        return Ok(Taken::InLine { place, ask_again: net(waiting, 1) });
                    }
                    // The lock may have been released before it was watched. How a reader enters may
                    // have changed too.
                    if reads {
                        continue;
                    }
                    if let Some(lease) = self.enter(entry, request, files, waiting)? {
                        return Ok(Taken::Lease(lease));
                    }
                    if waiting.watch.is_some() {
                        return Ok(Taken::InLine { place, ask_again: net(waiting, 1) });
                    }
                }
                Turn::Behind { .. } if !request.wait => return Ok(Taken::Busy),
                Turn::Behind { watched, left } => {
                    let began = self.watch(waiting, request, Kind::Place, &watched);
                    // The other may have left before it was watched.
                    if !began || look_at(&watched)?.is_held() {
                        let ask_again = left.min(net(waiting, place));
                        return Ok(Taken::InLine { place, ask_again });
                    }
                }
            }
        }
        if waiting.place.is_some() {
            // Others came and went all the time.
            return Ok(Taken::InLine { place: ahead, ask_again: POLL });
        }
        let error = io::Error::other("other processes changed it repeatedly");
        Err(failed("wait in", &files.queue, error))
    }

    /// Tries to enter without a place in the queue, if no client waits that goes first.
    fn take_directly(
        &self,
        request: &AcquireRequest,
        files: &Files,
        waiting: &mut WaitingAttempt,
        queue: &WaiterQueue<'_>,
    ) -> Result<Option<Lease>> {
        let reads = request.mode == Mode::Shared;
        let looks = if reads && !request.wait { LOOKS } else { 1 };
        for look in 1..=looks {
            let waits =
                request.fair && if reads { queue.has_writer()? } else { !queue.is_empty()? };
            if waits {
                return Ok(None);
            }
            let entry = match look_at(&files.lock)? {
                Seen::Read(_) if reads => Some(Entry::Join),
                Seen::Free | Seen::Absent if reads => Some(Entry::Begin { passes: false }),
                Seen::Free | Seen::Absent => Some(Entry::Write),
                Seen::Held(None) => None,
                Seen::Held(Some(_)) | Seen::Read(_) => return Ok(None),
            };
            if let Some(entry) = entry
                && let Some(lease) = self.enter(entry, request, files, waiting)?
            {
                return Ok(Some(lease));
            }
            if look < looks {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(None)
    }

    /// Joins the end of the queue.
    fn join(
        &self,
        request: &AcquireRequest,
        files: &Files,
        queue: &WaiterQueue<'_>,
    ) -> Result<QueuePlace> {
        let holder = request.origin.holder(request.attempt);
        if request.mode == Mode::Exclusive {
            let place = queue.join(&holder, PlaceKind::Plain, self.clock.now())?;
            readers::tell(&files.readers);
            return Ok(place);
        }
        // Behind the readers of the last phase, even if the clock was set back.
        let after = match Due::after(Record::read(&files.record, &request.name)?.as_ref()) {
            Due::All => 0,
            Due::Until(until) => until,
        };
        queue.join(&holder, PlaceKind::Reader { after }, self.clock.now())
    }

    /// Makes the waiting watch this file instead of the earlier one. Returns true if what it waits for
    /// may have happened before the watch began.
    fn watch(
        &self,
        waiting: &mut WaitingAttempt,
        request: &AcquireRequest,
        kind: Kind,
        path: &Path,
    ) -> bool {
        if waiting.watch.as_ref().is_some_and(|(watched, _)| watched == path) {
            return false;
        }
        let mut watching = self.watching.lock().unwrap_or_else(PoisonError::into_inner);
        let AcquireRequest { name, attempt, .. } = request;
        let watch = watching.watch(*attempt, kind, path, name, &self.clock);
        let again = watch.is_some() || matches!(look(path), Ok(Seen::Absent));
        waiting.watch = watch.map(|watch| (path.to_owned(), watch));
        again
    }
}

/// Returns when a waiter tries again at the latest.
pub(crate) fn net(waiting: &WaitingAttempt, place: u64) -> Duration {
    match waiting.watch {
        Some(_) => SAFETY_NET * place.clamp(1, 10) as u32,
        None => POLL,
    }
}
