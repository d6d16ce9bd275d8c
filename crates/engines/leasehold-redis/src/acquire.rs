//! Acquires a lock, and waits for replicas where they must have the grant.

use std::time::Duration;

use leasehold_core::backend::{AcquireRequest, Answer, Grant, Mode, ReleaseRequest, Renewal};
use leasehold_core::{AttemptId, Deadline, Error, ErrorKind, Name, Now, Result};

use crate::backend::RedisBackend;
use crate::call_limit::{LIMITS, limit};
use crate::error::strange;
use crate::replication::Replicas;
use crate::reply::Reply;
use crate::request::{self, Operation, Request};
use crate::semaphore::grant_of;

/// The name, the mode and the ttl of a lease.
pub(crate) type Lease = (Name, Mode, Duration);

impl RedisBackend {
    /// Acquires. Steps that a call rarely takes are in boxes of their own, here and in `end`: each
    /// call allocates its whole future.
    pub(crate) async fn ask(&self, mut request: AcquireRequest) -> Result<Answer> {
        request::acquire_fits(&request)?;
        let mut limit = limit(request.ttl);
        request.wait &= self.is_heard();
        let (attempt, wait) = (request.attempt, request.wait);
        let mut new = false;
        if wait {
            limit = self.subscribed(limit).await?;
            new = self.waiters.enter(&request);
        }
        let sent = self.clock.now();
        let mode = request.mode;
        let secured = self.to_secure(&request);
        match self
            .route
            .send(&self.keys, Request { what: Operation::Acquire(request), limit })
            .await
        {
            Ok(Reply { answer: Some(answer), .. }) => {
                let answer = self.note(attempt, wait, sent, answer);
                match secured {
                    Some(lease) => Box::pin(self.secure_answer(lease, attempt, answer)).await,
                    None => Ok(answer),
                }
            }
            Ok(Reply { answer: None, .. }) => Err(strange("no answer to an acquire")),
            Err(error) => {
                // It is certainly not queued, and no task will end it. A waiter for a permit leaves the queue
                // if the new limit is below what it needs.
                let refused = mode == Mode::Permit && error.kind() == ErrorKind::Invalid;
                if (new || refused) && error.kind().is_certain() {
                    self.waiters.leave(attempt);
                }
                Err(error)
            }
        }
    }

    /// Returns the name, the mode and the ttl of a lease if replicas must have its grant.
    pub(crate) fn to_secure(&self, request: &AcquireRequest) -> Option<Box<Lease>> {
        self.replicas.as_ref()?;
        Some(Box::new((request.name.clone(), request.mode, request.ttl)))
    }

    /// Waits until replicas have acknowledged the grant of an answer, if it has one.
    pub(crate) async fn secure_answer(
        &self,
        lease: Box<Lease>,
        attempt: AttemptId,
        answer: Answer,
    ) -> Result<Answer> {
        if let (Some(granted), Some(replicas)) = (grant_of(&answer), &self.replicas) {
            let (name, mode, ttl) = *lease;
            self.secure(replicas, name, (attempt, mode), granted, ttl).await?;
        }
        Ok(answer)
    }

    /// Waits until the channel of this client is subscribed; returns the rest of the limit.
    pub(crate) async fn subscribed(&self, limit: Duration) -> Result<Duration> {
        if self.route.is_subscribed() {
            return Ok(limit);
        }
        let until = Deadline::after(self.clock.now(), limit);
        Box::pin(self.route.subscribed(limit)).await?;
        Ok(until.remaining(self.clock.now()))
    }

    /// Records the answer to an acquire for later pushes.
    pub(crate) fn note(
        &self,
        attempt: AttemptId,
        wait: bool,
        sent: Now,
        (answer, server_us): (Answer, Option<u64>),
    ) -> Answer {
        let answer = match answer {
            // Use the client's own schedule: no push reports the release of the lease.
            Answer::Busy { ask_again } if ask_again != Some(Duration::ZERO) && !self.is_heard() => {
                Answer::Busy { ask_again: None }
            }
            answer => answer,
        };
        match server_us {
            // If replicas must have the grant, a waiter asks again after a push.
            Some(server_us) if self.replicas.is_none() => {
                self.waiters.refer(attempt, sent, server_us);
            }
            Some(_) => {}
            None if wait => self.waiters.leave(attempt),
            None => {}
        }
        answer
    }

    /// Waits until replicas have acknowledged a grant, or releases it.
    pub(crate) async fn secure(
        &self,
        replicas: &Replicas,
        name: Name,
        (attempt, mode): (AttemptId, Mode),
        (grant, slot): (Grant, Option<u32>),
        ttl: Duration,
    ) -> Result<()> {
        let lease = Renewal::new(name.clone(), attempt, grant.tokens.base(), ttl);
        let lease = if mode == Mode::Permit { lease.of_permit() } else { lease };
        let Err(error) = replicas.secure(&lease).await else { return Ok(()) };
        let base = Some(grant.tokens.base());
        let release = ReleaseRequest::new(name, attempt).with_base(base).with_last(base);
        let release = if mode == Mode::Permit { release.with_slot(slot) } else { release };
        let request = Request { what: Operation::Release(release, None), limit: LIMITS.1 };
        match self.route.send(&self.keys, request).await {
            Ok(_) => Err(error),
            // The caller ends it then.
            Err(unknown) => {
                Err(Error::new(ErrorKind::Unavailable, error.to_string()).with_source(unknown))
            }
        }
    }

    /// Returns whether pushes arrive. If not, waiters must not join the queue: the client asks
    /// again.
    pub(crate) fn is_heard(&self) -> bool {
        self.capability.push && !self.route.cannot_push()
    }
}
