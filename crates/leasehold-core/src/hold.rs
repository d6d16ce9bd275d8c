//! One held lock as the guard, the renewal task and the owner's book share it.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use leasehold_proto::{AttemptId, Lease, LossReason, Now, Step, Token, TokenBlock};
use tokio_util::sync::CancellationToken;

use crate::backend::{End, Renewal};
use crate::{Name, OnLoss};

/// Not in any bucket of the renewal task.
pub(crate) const UNSCHEDULED: u64 = u64::MAX;

#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) name: Name,
    pub(crate) attempt: AttemptId,
    /// Reserved with the lease; the first is its name.
    pub(crate) tokens: TokenBlock,
    /// This holder's.
    pub(crate) token: Token,
    pub(crate) on_loss: OnLoss,
    pub(crate) min_hold: Duration,
    pub(crate) since: Now,
    /// Some ask of this attempt was never answered.
    pub(crate) suspect: bool,
    /// The renewal task's bucket, and the place in it.
    pub(crate) bucket: AtomicU64,
    pub(crate) place: AtomicUsize,
    /// It stands in the client's book: neither let go of nor passed on.
    pub(crate) booked: AtomicBool,
    lease: Mutex<Lease>,
    /// Guards that share this hold.
    users: AtomicUsize,
    /// Set once, by whoever ends the lease at the backend.
    ended: AtomicBool,
    lost: OnceLock<CancellationToken>,
}

impl Hold {
    pub(crate) fn new(
        name: Name,
        attempt: AttemptId,
        tokens: TokenBlock,
        lease: Lease,
        since: Now,
        suspect: bool,
    ) -> Self {
        Self {
            name,
            attempt,
            tokens,
            token: tokens.base(),
            on_loss: OnLoss::Cancel,
            min_hold: Duration::ZERO,
            since,
            suspect,
            bucket: AtomicU64::new(UNSCHEDULED),
            place: AtomicUsize::new(0),
            booked: AtomicBool::new(false),
            lease: Mutex::new(lease),
            users: AtomicUsize::new(1),
            ended: AtomicBool::new(false),
            lost: OnceLock::new(),
        }
    }

    pub(crate) fn lease(&self) -> MutexGuard<'_, Lease> {
        self.lease.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fires when the lease is lost.
    pub(crate) fn lost_signal(&self) -> &CancellationToken {
        self.lost.get_or_init(CancellationToken::new)
    }

    /// Marks the lease as lost; true for the first who notices, who must then tell.
    pub(crate) fn lose(&self, reason: LossReason) -> bool {
        matches!(self.lease().handle_lost(reason), Step::Lost(_))
    }

    /// One more guard shares it; false when it is over already.
    pub(crate) fn share(&self, now: Now) -> bool {
        let join = |users| (users > 0).then_some(users + 1);
        self.lease().is_valid(now)
            && self.users.fetch_update(Ordering::AcqRel, Ordering::Acquire, join).is_ok()
    }

    /// True while some guard is there that relies on it.
    pub(crate) fn is_used(&self) -> bool {
        self.users.load(Ordering::Acquire) > 0
    }

    /// A guard goes; true for the last.
    pub(crate) fn leave(&self) -> bool {
        self.users.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// The right to end the lease at the backend: true once.
    pub(crate) fn claim_end(&self) -> bool {
        !self.ended.swap(true, Ordering::AcqRel)
    }

    /// True when its holder has let go of it: if it is still looked after, it is on its way to the
    /// next one.
    pub(crate) fn is_let_go(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    pub(crate) fn end(&self, keep: Option<Duration>) -> End {
        End {
            name: self.name.clone(),
            attempt: self.attempt,
            base: Some(self.tokens.base()),
            last: Some(self.token),
            suspect: self.suspect,
            keep,
            then: None,
        }
    }

    pub(crate) fn renewal(&self) -> Renewal {
        Renewal {
            name: self.name.clone(),
            attempt: self.attempt,
            base: self.tokens.base(),
            ttl: self.lease().terms().ttl,
        }
    }
}
