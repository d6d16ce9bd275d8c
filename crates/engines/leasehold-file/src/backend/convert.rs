//! Makes a writer a reader, or the only reader a writer, in one step of the kernel.

use leasehold_core::Result;
use leasehold_core::backend::{ConvertRequest, Converted, Mode, Verdict};

use super::attempts::{AttemptGuard, Begun, ConversionGuard};
use super::directory::Files;
use super::lock_file::notify;
use super::os_error::failed;
use super::store::{Store, WaitingAttempt};
use super::waiter_queue::WaiterQueue;

type Next<'a> = AttemptGuard<'a, WaitingAttempt>;
type From<'a> = ConversionGuard<'a, WaitingAttempt>;

impl Store {
    /// Processes one request to convert a lease. Only this process can repeat it, so that what its
    /// table of attempts says about the new attempt is the answer to a repeated request.
    pub(crate) fn convert(&self, request: &ConvertRequest) -> Result<Converted> {
        let files = self.directory.files(&request.next.name);
        let (end, reads) = (&request.end, request.next.mode == Mode::Shared);
        let next = match self.attempts.begin(request.next.attempt) {
            Begun::Go(next, _) => next,
            Begun::Granted(lease) => return Ok(Converted::Granted(self.grant(&lease, &files))),
            Begun::Ended => {
                let held = self.attempts.lease(end.attempt).is_some_and(|lease| lease.reads());
                return Ok(self.refused(!reads && held, &files));
            }
        };
        let from = self.attempts.convert(end.attempt, end.base);
        match from.filter(|from| from.lease.reads() != reads) {
            Some(from) if reads => self.downgrade(request, &files, from, next),
            Some(from) => self.upgrade(request, &files, from, next),
            None => {
                seal(request, next);
                Ok(Converted::Lost)
            }
        }
    }

    fn downgrade(
        &self,
        request: &ConvertRequest,
        files: &Files,
        from: From<'_>,
        next: Next<'_>,
    ) -> Result<Converted> {
        let locking = |error| failed("lock", &files.lock, error);
        let lease = from.lease.clone();
        if !lease.is_healthy().map_err(locking)? {
            return Ok(Converted::Lost);
        }
        // What can fail comes first: until then the writer holds.
        let presence = self.appear(&request.next, files)?;
        let token = self.write_phase(&request.next, files, true)?;
        // No writer gets in between: the kernel replaces the lock.
        lease.file().try_read().map_err(locking)?;
        lease.file().mark_read(token).map_err(locking)?;
        lease.file().unmark(lease.token()).map_err(locking)?;
        let read = lease.converted(token).with_reader(presence);
        drop(lease);
        from.close(Verdict::Released);
        let grant = self.grant(&read, files);
        notify(&files.lock);
        Ok(if next.granted(read) { Converted::Granted(grant) } else { Converted::Lost })
    }

    fn upgrade(
        &self,
        request: &ConvertRequest,
        files: &Files,
        from: From<'_>,
        next: Next<'_>,
    ) -> Result<Converted> {
        let locking = |error| failed("lock", &files.lock, error);
        let lease = from.lease.clone();
        if !lease.is_healthy().map_err(locking)? {
            seal(request, next);
            return Ok(Converted::Lost);
        }
        if !WaiterQueue::new(&files.queue).is_empty()?
            || !lease.file().try_lock().map_err(locking)?
        {
            seal(request, next);
            return Ok(self.refused(true, files));
        }
        let written = self.write_record(&request.next, files, |_| Ok(None)).and_then(|token| {
            lease.file().mark(token).map_err(locking)?;
            lease.file().unmark(lease.token()).map_err(locking)?;
            Ok(token)
        });
        let token = match written {
            Ok(token) => token,
            Err(error) => {
                // It reads as before, and others may join it.
                let _ = lease.file().try_read();
                notify(&files.lock);
                return Err(error);
            }
        };
        let write = lease.converted(token);
        drop(lease);
        from.close(Verdict::Released);
        let grant = self.grant(&write, files);
        Ok(if next.granted(write) { Converted::Granted(grant) } else { Converted::Lost })
    }

    /// Returns the answer to an upgrade that is refused.
    fn refused(&self, reads: bool, files: &Files) -> Converted {
        match reads {
            true => Converted::Refused { wanted: self.is_wanted(files) },
            false => Converted::Lost,
        }
    }
}

/// Makes a refusal permanent, if an earlier copy of the request may still arrive.
fn seal(request: &ConvertRequest, next: Next<'_>) {
    if request.again {
        next.seal();
    }
}
