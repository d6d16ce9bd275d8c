//! What the program holds: valid by the clock, told of loss, released once.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::{AttemptId, Deadline, LossReason, Token};
use tokio_util::sync::CancellationToken;

use crate::client::Client;
use crate::ending::{Releasing, let_drop, lost};
use crate::hold::Hold;
use crate::{Error, ErrorKind, Name, OnLoss, Result};

/// A held lock; it ends when it is dropped or [released](Self::release).
///
/// Dropping it does not wait: the client's background task releases the lock.
/// [`release`](Self::release) waits for the answer and also says whether the lock was held until then.
/// [`Client::close`](crate::Client::close) waits for the releases of all dropped guards: make it the last
/// line of a program.
///
/// If the runtime ends before the background task has released the lock:
/// - `file:` and `memory:` release it at once.
/// - With a client of `leasehold::connect`, the end of the runtime waits until the lock is released over
///   a new connection: usually milliseconds, 1 s in all at most. What is not released by then stays taken
///   for the rest of its ttl. So does a lock of a quorum, of a server with `admission=strict`, and of
///   ZooKeeper (there for the rest of its session): a new connection does not know its lease.
/// - With any other client ([`ClientBuilder::reopen`](crate::ClientBuilder::reopen) not set, or
///   [`Client::on_own_thread`](crate::Client::on_own_thread)), and if the process is killed or calls
///   `std::process::exit`, it stays taken for the rest of its ttl.
///
/// Validity is computed from the clock at each call, so it is right even if the renewal task, or
/// the whole process, was stopped for a while. What it cannot rule out is a pause between the
/// check and the next line: that is what the [`token`](Self::token) is for.
#[must_use = "a guard that is dropped releases its lock: bind it to a name such as `_guard` \
              (`let _ =` drops it at once)"]
pub struct Guard {
    client: Client,
    hold: Option<Arc<Hold>>,
}

impl Guard {
    pub(crate) fn new(client: Client, hold: Arc<Hold>) -> Self {
        Self { client, hold: Some(hold) }
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        match &self.hold {
            Some(hold) => hold,
            None => unreachable!("only release and drop take the hold, and they consume the guard"),
        }
    }

    /// The lock's name.
    pub fn name(&self) -> &Name {
        &self.hold().name
    }

    /// The fencing token: larger than that of every earlier holder. Give it to the resource with
    /// each write, and let the resource refuse smaller ones than it has seen.
    pub fn token(&self) -> Token {
        self.hold().token()
    }

    /// The attempt that holds: the owner that the backend has written down.
    pub fn attempt(&self) -> AttemptId {
        self.hold().attempt
    }

    /// True while the lock is ours by the clock, now.
    pub fn is_valid(&self) -> bool {
        let now = self.client.shared().clock.now();
        self.hold().lease().is_valid(now)
    }

    /// Time until nobody may rely on the lock: `Duration::MAX` for a session without an end, zero
    /// when it is not ours any more. After a loss that was told in advance it still counts down.
    pub fn remaining(&self) -> Duration {
        let now = self.client.shared().clock.now();
        self.hold().lease().remaining(now)
    }

    /// The moment from which the lock is not ours any more unless renewed; `None` where it lasts
    /// as long as the session.
    pub fn deadline(&self) -> Option<Deadline> {
        self.hold().lease().deadline()
    }

    /// Checks that the lock is valid and will be for `margin` more.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`] when it is not; the guard is as it was.
    pub fn ensure(&self, margin: Duration) -> Result<()> {
        let now = self.client.shared().clock.now();
        let lease = self.hold().lease();
        let remaining = lease.remaining(now);
        if lease.is_valid(now) && remaining >= margin {
            return Ok(());
        }
        let what = match lease.is_valid(now) {
            true => format!("valid for {remaining:?} more, {margin:?} asked for"),
            false => "the lock is not ours any more".to_owned(),
        };
        drop(lease);
        Err(Error::new(ErrorKind::Lost, what).during("ensure", Some(self.name())))
    }

    /// Waits until the lock is lost, and says why. It returns before the deadline, by a margin of
    /// a tenth of the ttl (at least 50 ms, at most a third of what was left), so that work can be
    /// stopped in time. It does not depend on the renewal task.
    pub async fn lost(&self) -> LossReason {
        let hold = self.hold();
        let clock = &self.client.shared().clock;
        loop {
            let (reason, alarm) = {
                let lease = hold.lease();
                (lease.loss(), lease.alarm())
            };
            if let Some(reason) = reason {
                return reason;
            }
            let expired = async {
                match alarm {
                    Some(alarm) => clock.sleep_until(alarm).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = hold.lost_signal().cancelled_owned() => {}
                () = expired => self.expire(),
            }
        }
    }

    /// The alarm's time has come: unless a renewal has moved it meanwhile, the lock is lost.
    fn expire(&self) {
        let shared = self.client.shared();
        let step = {
            let mut lease = self.hold().lease();
            let now = shared.clock.now();
            match lease.alarm().is_some_and(|alarm| alarm.has_passed(now)) {
                true => lease.handle_timeout(now),
                false => return,
            }
        };
        if let leasehold_proto::Step::Lost(reason) = step {
            shared.tell_loss(self.hold(), reason);
        }
    }

    /// A token that is cancelled when the lock is lost, at the same time as [`lost`](Self::lost);
    /// with [`OnLoss::Notify`] it never is. It relies on the client's background task.
    pub fn cancellation_token(&self) -> CancellationToken {
        match self.stops_work() {
            true => self.hold().lost_signal().child_token(),
            false => CancellationToken::new(),
        }
    }

    /// Another guard of the same lease, with the same token; the lease ends with the last of them.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`] when the lock is not ours any more.
    pub fn reenter(&self) -> Result<Guard> {
        let shared = self.client.shared();
        if self.hold().share(shared.clock.now()) {
            return Ok(Self::new(self.client.clone(), self.hold().clone()));
        }
        Err(Error::new(ErrorKind::Lost, "the lock is not ours any more")
            .during("reenter", Some(self.name())))
    }

    /// A duplicate of the descriptor that keeps the lock, for handing it to another process that
    /// must outlive this one; `None` where leases are not kept by a descriptor.
    #[cfg(unix)]
    pub fn descriptor(&self) -> Option<std::os::fd::OwnedFd> {
        self.client.descriptor(self.attempt())
    }

    /// How many replicas had acknowledged the grant when it was made; `None` unless the store was
    /// told to ask them (`replicas` in a Redis URL).
    pub fn replicas(&self) -> Option<usize> {
        self.client.shared().backend.replicas(self.attempt())
    }

    /// Gives the lock back. The last guard of a lease ends it; earlier ones just go.
    ///
    /// Dropping the future does not undo the release: it goes on in the background.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`] when the lock had ended before: somebody else may have held it while
    /// this guard was in use. [`ErrorKind::Unavailable`] when the backend did not answer: the
    /// release is repeated in the background, and the ttl ends what it cannot.
    pub async fn release(self) -> Result<()> {
        self.end(true).await
    }

    /// Gives the lock back without the rest of its minimum hold, for work that never started.
    ///
    /// # Errors
    /// As [`release`](Self::release).
    pub async fn release_early(self) -> Result<()> {
        self.end(false).await
    }

    async fn end(mut self, stay: bool) -> Result<()> {
        let Some(hold) = self.hold.take() else { return Ok(()) };
        let shared = self.client.shared().clone();
        if !hold.leave() {
            let lease = hold.lease();
            return match lease.is_valid(shared.clock.now()) {
                true => Ok(()),
                false => Err(lost(lease.loss().unwrap_or(LossReason::Expired))
                    .during("release", Some(&hold.name))),
            };
        }
        Releasing::new(shared, self.client.jobs().clone(), hold, stay).run().await
    }

    pub(crate) fn stops_work(&self) -> bool {
        self.hold().on_loss != OnLoss::Notify
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Guard");
        out.field("name", self.name()).field("token", &self.token().get());
        out.field("valid", &self.is_valid()).finish_non_exhaustive()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(hold) = self.hold.take()
            && hold.leave()
        {
            let_drop(self.client.shared(), self.client.jobs(), hold);
        }
    }
}
