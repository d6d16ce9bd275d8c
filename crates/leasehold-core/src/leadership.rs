//! The term of a leader, and what the program knows of it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold_proto::{Deadline, LossReason, Token};
use metrics::Gauge;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::client::Client;
use crate::guard::Guard;
use crate::hold::Hold;
use crate::{Error, ErrorKind, Name, Result};

/// A term as the leader, of [`Election::campaign`](crate::Election::campaign). It ends when it is
/// dropped or [resigned](Self::resign): first every [`Leadership`] of it, then the lease.
#[must_use = "a term that is dropped is resigned: bind it to a name such as `_term`"]
#[derive(Debug)]
pub struct Term {
    leadership: Leadership,
    /// `None` after the resignation.
    guard: Option<Guard>,
}

/// What a program knows of its leadership. It is cheap to clone, for example for a health check. It
/// does not keep the leadership: after the term it is not the leader any more, and never again.
#[derive(Clone)]
pub struct Leadership(Arc<Inner>);

struct Inner {
    client: Client,
    hold: Arc<Hold>,
    /// Cancelled when the lease is lost or the term ends.
    over: CancellationToken,
    ended: AtomicBool,
}

impl Term {
    pub(crate) fn new(client: Client, guard: Guard) -> Self {
        let hold = guard.hold().clone();
        let over = guard.cancellation_token();
        count(&client, &over);
        let inner = Inner { client, hold, over, ended: AtomicBool::new(false) };
        Self { leadership: Leadership(Arc::new(inner)), guard: Some(guard) }
    }

    /// Returns the leadership, for the work of this term.
    pub fn leadership(&self) -> &Leadership {
        &self.leadership
    }

    /// Waits until the leadership is lost, and returns the reason. It returns before the deadline,
    /// as [`Guard::lost`] does: end the work in the time that is left.
    pub async fn lost(&self) -> LossReason {
        match &self.guard {
            Some(guard) => guard.lost().await,
            None => std::future::pending().await,
        }
    }

    /// Resigns: ends the leadership, then releases the lease for the next candidate. End the work
    /// before.
    ///
    /// Dropping the future does not undo it: it continues in the background.
    ///
    /// # Errors
    /// As [`Guard::release`].
    pub async fn resign(mut self) -> Result<()> {
        self.leadership.end();
        match self.guard.take() {
            Some(guard) => guard.release().await,
            None => Ok(()),
        }
    }
}

impl Drop for Term {
    fn drop(&mut self) {
        self.leadership.end();
    }
}

/// Counts the term among the elections that the client leads, until it is over.
fn count(client: &Client, over: &CancellationToken) {
    let Ok(runtime) = Handle::try_current() else { return };
    let (leading, over) = (Leading::new(&client.shared().meters.leading), over.clone());
    runtime.spawn(async move {
        over.cancelled().await;
        drop(leading);
    });
}

/// A term in the gauge, also if the runtime ends first.
struct Leading(Gauge);

impl Leading {
    fn new(gauge: &Gauge) -> Self {
        gauge.increment(1.0);
        Self(gauge.clone())
    }
}

impl Drop for Leading {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

impl Leadership {
    /// Returns the name of the election.
    pub fn name(&self) -> &Name {
        &self.0.hold.name
    }

    /// Returns the fencing token of this term, which is larger than that of every earlier term.
    pub fn token(&self) -> Token {
        self.0.hold.token()
    }

    /// Returns true while this candidate leads, by the clock, until the term ends or its loss is
    /// reported. A pause may follow each call: use the [`token`](Self::token) at the resource.
    #[must_use = "a check without effect: `ensure` returns an error"]
    pub fn is_leader(&self) -> bool {
        let now = self.0.client.shared().clock.now();
        !self.0.over.is_cancelled() && self.0.hold.lease().is_valid(now)
    }

    /// Returns the time until another candidate may lead; zero after the end of the term. After a
    /// loss was reported it still counts down: the work ends in this time.
    pub fn remaining(&self) -> Duration {
        if self.0.ended.load(Ordering::Acquire) {
            return Duration::ZERO;
        }
        let now = self.0.client.shared().clock.now();
        self.0.hold.lease().remaining(now)
    }

    /// Returns when the leadership ends unless it is renewed; `None` if it lasts as long as the
    /// session.
    pub fn deadline(&self) -> Option<Deadline> {
        self.0.hold.lease().deadline()
    }

    /// Checks that this candidate leads now and for at least `margin` more.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`] if it does not.
    pub fn ensure(&self, margin: Duration) -> Result<()> {
        if self.is_leader() && self.remaining() >= margin {
            return Ok(());
        }
        let what = format!("this candidate does not lead for {margin:?} more");
        Err(Error::new(ErrorKind::Lost, what).during("ensure", Some(self.name())))
    }

    /// Returns a token that is cancelled when the leadership is lost or ends. Give it to all tasks
    /// that work for the leader.
    #[must_use = "the token does nothing unless the work waits for it"]
    pub fn cancellation_token(&self) -> CancellationToken {
        self.0.over.child_token()
    }

    /// Waits until the leadership is lost or ends.
    pub async fn ended(&self) {
        self.0.over.cancelled().await;
    }

    /// The candidate is not the leader any more; its work still ends.
    pub(crate) fn stop(&self) {
        self.0.over.cancel();
    }

    /// Returns how long the work may continue after its cancellation.
    pub(crate) fn time_to_stop(&self) -> Duration {
        // A session without an end has no deadline.
        self.remaining().min(self.0.hold.lease().terms().ttl)
    }

    fn end(&self) {
        self.stop();
        self.0.ended.store(true, Ordering::Release);
    }
}

impl fmt::Debug for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Leadership");
        out.field("name", self.name()).field("token", &self.token().get());
        out.field("leader", &self.is_leader()).finish_non_exhaustive()
    }
}
