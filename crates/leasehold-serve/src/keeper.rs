//! The task that owns a held lock until its client lets it go, its validity passes, or it is lost.

use std::sync::Arc;
use std::time::Duration;

use leasehold::clock::Clock;
use leasehold::{Error, ErrorKind, Guard, LossReason, Permit, ReadGuard};
use tokio::sync::{mpsc, oneshot, watch};

use crate::moment::Moment;
use crate::slots::Slot;

/// What is held: a lock alone or with other readers, or slots of a semaphore.
#[derive(Debug)]
pub(crate) enum Held {
    Alone(Guard),
    Shared(ReadGuard),
    Permit(Permit),
}

/// Why a lease has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The client released it.
    Released,
    /// The client did not renew it, and the validity that it was last sent has passed.
    Expired,
    /// The store took it away, or could not be reached in time.
    Lost(LossReason),
    /// The server stops; the lock stays taken for the validity that was last sent.
    Stopped,
    /// The client released it, and the store has not confirmed that. It is asked again, until the
    /// lease ends.
    Releasing,
}

/// What a keeper is asked for.
#[derive(Debug)]
pub(crate) enum Request {
    /// Extend the validity; the answer is when it ends now.
    Renew(oneshot::Sender<Moment>),
    /// Say when the promised validity ends.
    Left(oneshot::Sender<Moment>),
    /// Release the lock.
    Release(oneshot::Sender<Result<(), Error>>),
}

/// What a keeper works with.
#[derive(Debug)]
pub(crate) struct Keeper {
    pub(crate) held: Held,
    pub(crate) clock: Clock,
    pub(crate) ttl: Duration,
    /// The store keeps the lock for the rest of its ttl without this process.
    pub(crate) outlives: bool,
    pub(crate) slot: Slot,
    pub(crate) requests: mpsc::Receiver<Request>,
    pub(crate) ended: watch::Sender<Option<Ended>>,
    pub(crate) stopping: watch::Receiver<bool>,
    /// The moment until which the client was promised the lock.
    pub(crate) until: Moment,
}

impl Held {
    pub(crate) fn guard(&self) -> &Guard {
        match self {
            Self::Alone(guard) => guard,
            Self::Shared(guard) => guard,
            Self::Permit(permit) => permit,
        }
    }

    /// Returns the slots of a semaphore; `None` for a lock.
    pub(crate) fn slots(&self) -> Option<Arc<[u32]>> {
        match self {
            Self::Permit(permit) => Some(permit.slots().into()),
            Self::Alone(_) | Self::Shared(_) => None,
        }
    }

    /// Returns until when a client may rely on it: at most for its ttl, and never longer than the
    /// store keeps it. The clock is read first, so that a pause of the process makes it earlier.
    pub(crate) fn until(&self, clock: &Clock, ttl: Duration) -> Moment {
        let now = Moment::now(clock);
        now.later(self.guard().remaining().min(ttl))
    }

    /// Gets its whole ttl from the store, which grants a lock to a waiter for a short time only.
    pub(crate) async fn confirm(&self) -> Result<(), Error> {
        self.guard().confirm().await
    }

    async fn release(self) -> Result<(), Error> {
        match self {
            Self::Alone(guard) => guard.release().await,
            Self::Shared(guard) => guard.release().await,
            Self::Permit(permit) => permit.release().await,
        }
    }
}

/// Waits until the server stops.
pub(crate) async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // Without a sender, the server has ended.
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

impl Keeper {
    /// Keeps the lock until it ends.
    pub(crate) async fn run(mut self) {
        let ended = loop {
            let until = self.until;
            tokio::select! {
                request = self.requests.recv() => match request {
                    Some(Request::Renew(answer)) => {
                        let renewed = self.held.until(&self.clock, self.ttl);
                        if renewed <= Moment::now(&self.clock) {
                            // Its loss is reported next.
                            continue;
                        }
                        self.until = until.max(renewed);
                        // A client that has gone is not served any more.
                        let _ = answer.send(renewed);
                    }
                    Some(Request::Left(answer)) => {
                        let _ = answer.send(until.min(self.held.until(&self.clock, self.ttl)));
                    }
                    Some(Request::Release(answer)) => return self.release(answer).await,
                    None => break Ended::Expired,
                },
                reason = self.held.guard().lost() => break Ended::Lost(reason),
                () = until.passed(&self.clock) => break Ended::Expired,
                () = stopped(&mut self.stopping) => break Ended::Stopped,
            }
        };
        if ended == Ended::Stopped && !self.outlives {
            return self.linger().await;
        }
        // Requests that come from now on get the end as the answer.
        drop(self.requests);
        match ended {
            Ended::Stopped => {
                self.ended.send_replace(Some(ended));
                // A dropped guard would be released while its client may still work.
                std::mem::forget(self.held);
            }
            Ended::Lost(_) => {
                self.ended.send_replace(Some(ended));
                self.until.passed(&self.clock).await;
                drop(self.held);
            }
            _ => {
                // The requests of a forgotten lease cannot come any more.
                self.until.passed(&self.clock).await;
                let released = self.held.release().await;
                let lost = released.is_err_and(|error| error.kind() == ErrorKind::Lost);
                let ended = if lost { Ended::Lost(LossReason::Expired) } else { ended };
                self.ended.send_replace(Some(ended));
            }
        }
    }

    /// Releases the lock for its client.
    async fn release(self, answer: oneshot::Sender<Result<(), Error>>) {
        let released = self.held.release().await;
        let ended = match released.as_ref().map_err(Error::kind) {
            Ok(()) => Ended::Released,
            Err(ErrorKind::Lost) => Ended::Lost(LossReason::NotOwner),
            Err(_) => Ended::Releasing,
        };
        drop(self.slot);
        self.ended.send_replace(Some(ended));
        let _ = answer.send(released);
        if ended == Ended::Releasing {
            // Requests that come from now on get that as the answer.
            drop(self.requests);
            self.until.passed(&self.clock).await;
            self.ended.send_replace(Some(Ended::Released));
        }
    }

    /// The server stops, and the store would free the lock with its process: keeps the lock for the
    /// promised validity. Meanwhile its client can release it, and not renew it.
    async fn linger(mut self) {
        self.ended.send_replace(Some(Ended::Stopped));
        let until = self.until;
        loop {
            tokio::select! {
                request = self.requests.recv() => match request {
                    Some(Request::Release(answer)) => return self.release(answer).await,
                    // Without an answer, its client gets the end.
                    Some(Request::Renew(_) | Request::Left(_)) => {}
                    None => break,
                },
                () = until.passed(&self.clock) => return,
            }
        }
        until.passed(&self.clock).await;
    }
}

/// Counts the keepers that still have a promise to keep.
#[derive(Clone, Debug, Default)]
pub(crate) struct Running(Arc<watch::Sender<usize>>);

impl Running {
    /// Runs a keeper in a task.
    pub(crate) fn spawn(&self, keeper: Keeper) {
        self.0.send_modify(|count| *count += 1);
        let running = self.0.clone();
        tokio::spawn(async move {
            keeper.run().await;
            running.send_modify(|count| *count -= 1);
        });
    }

    /// Waits until no keeper runs.
    pub(crate) async fn ended(&self) {
        let _ = self.0.subscribe().wait_for(|count| *count == 0).await;
    }
}
