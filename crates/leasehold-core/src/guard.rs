//! A held lock: valid by the clock, notified of its loss, released once.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::{AttemptId, Deadline, LossReason, Token};
use tokio_util::sync::CancellationToken;

use crate::client::Client;
use crate::common_errors::lost;
use crate::extend::{confirm, extend};
use crate::hold::Hold;
use crate::hold_end::lingers;
use crate::release::{Next, Releasing, let_drop};
use crate::scope::Scope;
use crate::{Error, ErrorKind, Name, OnLoss, Result};

/// A held lock. It ends when it is dropped or [released](Self::release).
///
/// Dropping it does not wait: the background task of the client releases the lock.
/// [`release`](Self::release) waits for the answer, and fails if the lock was lost before.
/// [`Client::close`](crate::Client::close) waits for the releases of all dropped guards: make it
/// the last line of a program.
///
/// If the runtime ends before the background task has released the lock:
/// - `file:` and `memory:` release it at once.
/// - With a client of `leasehold::connect`, the end of the runtime waits until the lock is released
///   over a new connection, one for all guards. This usually takes milliseconds, and at most 1 s in
///   total. A lock that is not released by then stays taken for the rest of its ttl (on ZooKeeper:
///   of its session).
/// - With any other client ([`ClientSettings::reopen`](crate::ClientSettings::reopen) not set, or
///   [`Client::on_own_thread`](crate::Client::on_own_thread)), and if the process is killed or
///   calls `std::process::exit`, the lock stays taken for the rest of its ttl.
/// - A lock whose minimum hold has not ended stays taken if the engine can keep it. Otherwise it
///   ends with its ttl or session, and not earlier (`file:`: when the client is dropped or the
///   process ends).
/// - The client does not wait for a lock that is known to be lost.
///
/// Each call computes validity from the clock, so the result is right even if the renewal task, or
/// the whole process, was paused. It cannot rule out a pause between the check and the next line:
/// use the [`token`](Self::token) for that.
#[must_use = "a guard that is dropped releases its lock: bind it to a name such as `_guard` \
              (`let _ =` drops it at once)"]
pub struct Guard {
    client: Client,
    hold: Option<Arc<Hold>>,
}

/// A guard that does not wait for the rest of its minimum hold, however it ends.
struct EarlyGuard(Guard);

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

    /// Returns the name of the lock.
    pub fn name(&self) -> &Name {
        &self.hold().name
    }

    /// Returns the fencing token, which is larger than that of every earlier holder. Send it to the
    /// resource with each write, and let the resource refuse tokens smaller than the largest it has
    /// seen.
    pub fn token(&self) -> Token {
        self.hold().token()
    }

    /// Returns the attempt that holds the lock: the owner that the backend recorded.
    pub fn attempt(&self) -> AttemptId {
        self.hold().attempt
    }

    /// Returns true while this guard holds the lock, by the clock.
    #[must_use = "a check without effect: `ensure` returns an error"]
    pub fn is_valid(&self) -> bool {
        let now = self.client.shared().clock.now();
        self.hold().lease().is_valid(now)
    }

    /// Returns the time until the program must stop relying on the lock: `Duration::MAX` for a
    /// session without an end, zero if the guard does not hold the lock any more. After an early
    /// loss report it still counts down.
    ///
    /// After a wait it can be 2 s at first, whatever the ttl is: see [`confirm`](Self::confirm).
    pub fn remaining(&self) -> Duration {
        let now = self.client.shared().clock.now();
        self.hold().lease().remaining(now)
    }

    /// Returns when the lock ends unless it is renewed; `None` if it lasts as long as the session.
    pub fn deadline(&self) -> Option<Deadline> {
        self.hold().lease().deadline()
    }

    /// Checks that the lock is valid now and for at least `margin` more.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`] if it is not; the guard does not change.
    pub fn ensure(&self, margin: Duration) -> Result<()> {
        let now = self.client.shared().clock.now();
        let lease = self.hold().lease();
        let remaining = lease.remaining(now);
        if lease.is_valid(now) && remaining >= margin {
            return Ok(());
        }
        let what = match lease.is_valid(now) {
            true => format!("valid for {remaining:?} more, but {margin:?} are required"),
            false => "this guard does not hold the lock any more".to_owned(),
        };
        drop(lease);
        Err(Error::new(ErrorKind::Lost, what).during("ensure", Some(self.name())))
    }

    /// Extends a fixed lease ([`Lock::lease`](crate::Lock::lease)): it then ends `duration` after this
    /// call sent its request, less the allowance for drift (1 % and 2 ms). 10 ms to 24 h, and at most
    /// what the store grants at a time ([`Capability::longest_ttl`](crate::Capability)).
    ///
    /// The store extends the lease only if this attempt still holds it with this token. An extension
    /// that is repeated, or whose answer arrives late, never shortens the lease; all guards of the
    /// lease see the new deadline. Call it before the loss is reported, which is a tenth of the ttl
    /// before the deadline: a lost lease is never extended.
    ///
    /// The call ends at the earlier deadline at the latest, or when the client's
    /// [`patience`](crate::ClientSettings::patience) has passed. If the future is dropped, the
    /// store may have extended the lease, and this guard is valid until its earlier deadline. Call
    /// it again, or release the lock, which ends the lease in both cases.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`] if the lease has ended or another client holds the lock.
    /// [`ErrorKind::Unavailable`] if it is unknown whether the store extended the lease: the guard
    /// keeps its earlier deadline, and the call may be repeated. [`ErrorKind::Invalid`] if
    /// `duration` is not allowed, ends before the lease does or after
    /// [`max_hold`](crate::Lock::max_hold), or if the lease has no fixed end (the client renews it,
    /// or it lasts as long as its session, as with `file:`); nothing was sent. Others as
    /// [`Lock::acquire`](crate::Lock::acquire), without `Timeout`.
    pub async fn extend(&self, duration: Duration) -> Result<()> {
        let extended = extend(self.client.shared(), self.hold(), duration).await;
        extended.map_err(|error| error.during("extend", Some(self.name())))
    }

    /// Gets the whole ttl now, for a program that promises this time to another one, or needs it
    /// ([`ensure`](Self::ensure)).
    ///
    /// Stores grant a lock to a waiter for 2 s only, so that the others do not wait long if that
    /// client has died. The client's first renewal, 50 ms after the grant, extends the lease to its
    /// ttl. This call sends that renewal at once, and waits for the answer. A lease that has been
    /// renewed, that was free, or that lasts as long as its session needs none: the call then sends
    /// nothing.
    ///
    /// The call ends at the deadline at the latest, or when the client's
    /// [`patience`](crate::ClientSettings::patience) has passed. If the future is dropped, the guard
    /// is valid until its deadline, and the client renews it as usual.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`] if the lease has ended or another client holds the lock.
    /// [`ErrorKind::Unavailable`] if it is unknown whether the store renewed the lease: the guard
    /// keeps its deadline, and the client goes on renewing it. Others as
    /// [`Lock::acquire`](crate::Lock::acquire), without `Timeout`.
    pub async fn confirm(&self) -> Result<()> {
        let confirmed = confirm(self.client.shared(), self.hold()).await;
        confirmed.map_err(|error| error.during("confirm", Some(self.name())))
    }

    /// Waits until the lock is lost, and returns the reason. It returns before the deadline, by a
    /// margin of a tenth of the ttl (at least 50 ms, at most a third of what was left), so that the
    /// program can stop its work in time. It does not depend on the renewal task. Dropping the
    /// future has no effect on the lock.
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

    /// Marks the lock as lost when its alarm is due, unless a renewal has moved the alarm.
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

    /// Returns a token that is cancelled when the lock is lost, at the same time as
    /// [`lost`](Self::lost) and with any [`OnLoss`]. A release does not cancel it. It depends on
    /// the background task of the client.
    #[must_use = "the token does nothing unless the work waits for it"]
    pub fn cancellation_token(&self) -> CancellationToken {
        self.hold().lost_signal().child_token()
    }

    /// Returns another guard of the same lease, with the same token. The lease ends with the last
    /// guard.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`] if this guard does not hold the lock any more.
    pub fn reenter(&self) -> Result<Guard> {
        let shared = self.client.shared();
        if shared.share(self.hold(), shared.clock.now()) {
            return Ok(Self::new(self.client.clone(), self.hold().clone()));
        }
        Err(Error::new(ErrorKind::Lost, "this guard does not hold the lock any more")
            .during("reenter", Some(self.name())))
    }

    /// Returns a duplicate of the descriptor that keeps the lock, for a process that must outlive
    /// this one. `None` if leases are not kept by a descriptor.
    #[cfg(unix)]
    pub fn descriptor(&self) -> Option<std::os::fd::OwnedFd> {
        self.client.descriptor(self.attempt())
    }

    /// Returns duplicates of all descriptors that keep the lock: two on a `file:` store with the option `also`.
    #[cfg(unix)]
    pub fn descriptors(&self) -> Vec<std::os::fd::OwnedFd> {
        self.client.descriptors(self.attempt())
    }

    /// Returns how many replicas had acknowledged the grant when it was made; `None` unless the
    /// store asks them (`replicas` in a Redis URL).
    pub fn replicas(&self) -> Option<usize> {
        self.client.shared().backend.replicas(self.attempt())
    }

    /// Returns true if a release would wait for the minimum hold, because the engine cannot keep
    /// the lock without the client.
    pub fn lingers(&self) -> bool {
        lingers(self.client.shared(), self.hold())
    }

    /// Releases the lock. Only the last guard of a lease ends the lease.
    ///
    /// Dropping the future does not undo the release: it continues in the background. If the guard
    /// was notified that the lock is lost (expired, or owned by another holder), the call returns
    /// at once, and the client cleans up in the background.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`] if the lock had ended before: another client may have held it while this
    /// guard was in use. [`ErrorKind::Unavailable`] if the backend did not answer: the client
    /// repeats the release in the background, and at the latest the ttl ends the lease.
    pub async fn release(mut self) -> Result<()> {
        let Some(mut releasing) = self.end(true)? else { return Ok(()) };
        let mut valid = None;
        if releasing.lingers() {
            valid = Some(releasing.is_valid());
            releasing.linger().await;
        }
        match releasing.close(valid) {
            Next::Done(released) => released,
            Next::Send(sending) => releasing.send(sending).await,
        }
    }

    /// Releases the lock without waiting for the rest of its minimum hold. Use it if the work never
    /// started.
    ///
    /// Dropping the future does not undo the release, even before the first poll: the release
    /// continues in the background.
    ///
    /// # Errors
    /// As [`release`](Self::release).
    pub fn release_early(self) -> impl Future<Output = Result<()>> + Send {
        let mut guard = EarlyGuard(self);
        async move {
            let Some(mut releasing) = guard.0.end(false)? else { return Ok(()) };
            match releasing.close(None) {
                Next::Done(released) => released,
                Next::Send(sending) => releasing.send(sending).await,
            }
        }
    }

    /// Ends this guard; with `stay`, its lease lasts for the minimum hold. Returns what must be done
    /// for the lease if this guard was its last one. This and `Releasing::close` are not `async`: a
    /// release that hands the lock on locally then builds no further future.
    fn end(&mut self, stay: bool) -> Result<Option<Releasing>> {
        let Some(hold) = self.hold.take() else { return Ok(None) };
        let shared = self.client.shared();
        // Read before this guard leaves: after that, another guard may end the lease at any moment.
        let valid = (!hold.has_one_user()).then(|| hold.lease().is_valid(shared.clock.now()));
        if shared.leave(&hold) {
            let driver = self.client.driver().clone();
            return Ok(Some(Releasing::new(driver, hold, stay)));
        }
        // Of a guard that was alone, another task has shared the lease just now, so it was valid.
        match valid.unwrap_or(true) {
            true => Ok(None),
            false => Err(lost(hold.lease().loss().unwrap_or(LossReason::Expired))
                .during("release", Some(&hold.name))),
        }
    }

    /// Takes the hold and the client out of the guard, which then releases nothing.
    pub(crate) fn into_parts(mut self) -> (Client, Arc<Hold>) {
        let hold = self.hold().clone();
        self.hold = None;
        (self.client.clone(), hold)
    }

    /// Drops this guard's share of the lease, which ends in the background if it was the last one.
    pub(crate) fn leave(&mut self, stay: bool) {
        if let Some(hold) = self.hold.take()
            && self.client.shared().leave(&hold)
        {
            let_drop(self.client.driver(), hold, stay);
        }
    }
}

impl Scope for Guard {
    fn reenter(&self) -> Result<Self> {
        Self::reenter(self)
    }

    fn stops_work(&self) -> bool {
        self.hold().on_loss() != OnLoss::Notify
    }

    async fn loss(&self) -> Error {
        lost(self.lost().await).during("run", Some(self.name()))
    }

    async fn release(self) -> Result<()> {
        Self::release(self).await
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
        self.leave(true);
    }
}

impl Drop for EarlyGuard {
    fn drop(&mut self) {
        self.0.leave(false);
    }
}
