//! The first loss among several held locks.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use futures_util::future::select_all;
use leasehold_proto::LossReason;
use tokio::task::unconstrained;
use tokio_util::sync::CancellationToken;

use crate::hold::Hold;
use crate::{Error, ErrorKind, Guard, Name};

/// The lock of a [`MultiGuard`](crate::MultiGuard) that was lost first, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LostLock {
    /// The lock.
    pub name: Name,
    /// Why it was lost.
    pub reason: LossReason,
}

impl fmt::Display for LostLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.reason)
    }
}

impl LostLock {
    /// Returns the error of an operation that needed all locks; `then` says what follows.
    pub(crate) fn error(&self, operation: &'static str, then: &str) -> Error {
        let message = format!("the lock was lost: {}{then}", self.reason);
        Error::new(ErrorKind::Lost, message).during(operation, Some(&self.name))
    }
}

/// Waits until one of these locks is lost; forever if there is none.
pub(crate) async fn first_loss(guards: &[Guard]) -> LostLock {
    if guards.is_empty() {
        return std::future::pending().await;
    }
    let losses = guards.iter().map(|guard| {
        Box::pin(async move {
            let reason = guard.lost().await;
            LostLock { name: guard.name().clone(), reason }
        })
    });
    select_all(losses).await.0
}

/// A token that is cancelled when one of several locks is lost. It needs no task: the loss wakes
/// the waits that it keeps.
pub(crate) struct AnyLoss {
    token: CancellationToken,
    _waits: Vec<Pin<Box<dyn Future<Output = ()> + Send + Sync>>>,
}

impl AnyLoss {
    /// Watches the locks of these guards. With `abort`, a loss aborts the process.
    pub(crate) fn of(guards: &[Guard], abort: bool) -> Self {
        let token = CancellationToken::new();
        let holds: Vec<Arc<Hold>> = guards.iter().map(|guard| guard.hold().clone()).collect();
        let mut waits: Vec<Pin<Box<dyn Future<Output = ()> + Send + Sync>>> = Vec::new();
        for hold in &holds {
            waits.push(Box::pin(unconstrained(hold.lost_signal().cancelled_owned())));
        }
        let alarm = Arc::new(Alarm { token: token.clone(), holds, abort });
        let waker = Waker::from(alarm.clone());
        let mut context = Context::from_waker(&waker);
        for wait in &mut waits {
            if let Poll::Ready(()) = wait.as_mut().poll(&mut context) {
                alarm.look();
            }
        }
        Self { token, _waits: waits }
    }

    /// Returns the token.
    pub(crate) fn token(&self) -> &CancellationToken {
        &self.token
    }
}

impl fmt::Debug for AnyLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.token, f)
    }
}

/// The data that a loss needs to cancel the token.
struct Alarm {
    token: CancellationToken,
    holds: Vec<Arc<Hold>>,
    abort: bool,
}

impl Alarm {
    /// Cancels the token if a lock is lost. A wake-up alone means nothing.
    fn look(&self) {
        let lost = |hold: &Arc<Hold>| hold.lost_signal().is_cancelled();
        if !self.holds.iter().any(lost) {
            return;
        }
        self.token.cancel();
        // No abort for a client that ends with its runtime, as with a single lock.
        let at_risk = |hold: &Arc<Hold>| {
            let reason = hold.lease().loss();
            hold.is_used() && reason.is_some_and(|reason| reason != LossReason::ClientClosed)
        };
        if self.abort && self.holds.iter().any(at_risk) {
            std::process::abort();
        }
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.look();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.look();
    }
}
