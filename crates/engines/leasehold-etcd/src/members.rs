//! The members of the cluster. The client uses one at a time, and switches when it fails.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::select_ok;
use leasehold_core::clock::Clock;
use leasehold_core::{Deadline, Error, Result};
use leasehold_etcd_api::{Client, ConnectOptions, Error as EtcdError};
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::error::{Cause, no_answer, sort};
use crate::login::{LoggedIn, Login, is_refused};

/// The minimum time to wait for a member before the next one is tried.
const LEAST: Duration = Duration::from_millis(250);
/// The pause after all members have failed.
const PAUSE: Duration = Duration::from_millis(50);

/// The members of the cluster. Clones share their state.
#[derive(Clone)]
pub(crate) struct Members(Arc<Inner>);

struct Inner {
    members: Vec<Login>,
    runtime: Handle,
    /// The index of the member in use.
    current: watch::Sender<usize>,
    clock: Clock,
}

/// An answer to a call.
#[derive(Debug)]
pub(crate) struct Called<T> {
    pub(crate) value: T,
    /// The request was sent before without an answer, so it may have been executed twice.
    pub(crate) again: bool,
}

/// The reason of a failed call.
#[derive(Debug)]
pub(crate) struct FailedCall {
    pub(crate) cause: Cause,
    pub(crate) error: Error,
    /// The request was sent before without an answer.
    pub(crate) again: bool,
}

impl From<FailedCall> for Error {
    fn from(failed: FailedCall) -> Self {
        failed.error
    }
}

impl Members {
    /// Creates the members from their URLs. Clients start with different members. Logins run in this runtime.
    pub(crate) fn new(
        urls: Vec<String>,
        options: &ConnectOptions,
        clock: Clock,
        runtime: Handle,
    ) -> Self {
        let first = (clock.now().steady_ns / 1_000) as usize % urls.len().max(1);
        let members = urls.into_iter().map(|url| Login::new(url, options.clone())).collect();
        Self(Arc::new(Inner { members, runtime, current: watch::Sender::new(first), clock }))
    }

    /// Opens a stream at the member in use, whose index is in `at` from then on.
    pub(crate) async fn open<T, F>(
        &self,
        at: &mut Option<usize>,
        open: impl Fn(Client) -> F,
    ) -> Result<T, EtcdError>
    where
        F: Future<Output = Result<T, EtcdError>>,
    {
        let index = *self.0.current.borrow();
        *at = Some(index);
        let known = self.client(index, None).await?;
        self.ask(index, known, &AtomicBool::new(false), open).await
    }

    /// Returns the first of these members that has logged in.
    async fn first(&self, members: &[usize]) -> Result<(usize, LoggedIn), EtcdError> {
        let login = |index: &usize| {
            let index = *index;
            Box::pin(async move { self.client(index, None).await.map(|known| (index, known)) })
        };
        Ok(select_ok(members.iter().map(login)).await?.0)
    }

    /// Calls a member, and logs in and calls again if the login has ended. `sent` is true from the moment in which
    /// the call is made.
    async fn ask<T, F>(
        &self,
        index: usize,
        known: LoggedIn,
        sent: &AtomicBool,
        call: impl Fn(Client) -> F,
    ) -> Result<T, EtcdError>
    where
        F: Future<Output = Result<T, EtcdError>>,
    {
        let LoggedIn { client, logins } = known;
        sent.store(true, Ordering::Relaxed);
        match call(client).await {
            Err(error) if is_refused(&error) => {
                // It was not executed.
                sent.store(false, Ordering::Relaxed);
                let LoggedIn { client, .. } = self.client(index, Some(logins)).await?;
                sent.store(true, Ordering::Relaxed);
                call(client).await
            }
            answer => answer,
        }
    }

    /// Returns when the client has switched from this member to another.
    pub(crate) async fn moved(&self, index: usize) {
        let mut current = self.0.current.subscribe();
        // It never ends: `self` keeps the sender.
        let _ = current.wait_for(|now| *now != index).await;
    }

    /// Switches from this member, which failed, to the next one, unless another task has done so.
    pub(crate) fn move_on(&self, index: usize) {
        let count = self.0.members.len();
        self.0.current.send_if_modified(|current| {
            let moves = *current == index && count > 1;
            if moves {
                *current = (index + 1) % count;
                tracing::debug!(from = index, to = *current, "switching to another member");
            }
            moves
        });
    }

    /// Calls one member after the other until one answers or the time limit is reached. The request
    /// may be executed more than once.
    pub(crate) async fn call<T, F>(
        &self,
        limit: Duration,
        call: impl Fn(Client) -> F,
    ) -> Result<Called<T>, FailedCall>
    where
        F: Future<Output = Result<T, EtcdError>>,
    {
        let clock = &self.0.clock;
        let until = Deadline::after(clock.now(), limit);
        let count = self.0.members.len();
        let (mut again, mut unreached) = (false, 0);
        // Members at which a login is under way: the first one that ends is used.
        let mut logins: Vec<usize> = Vec::new();
        loop {
            let index = *self.0.current.borrow();
            logins.retain(|at| *at != index);
            logins.insert(0, index);
            let now = clock.now();
            let each = if count == 1 { limit } else { LEAST.max(limit / 3) };
            let try_until = until.min(Deadline::after(now, each));
            let sent = AtomicBool::new(false);
            let trying = async {
                let (at, known) = self.first(&logins).await?;
                if at != index {
                    self.0.current.send_replace(at);
                }
                self.ask(at, known, &sent, &call).await
            };
            let failed = match clock.within_since(now, try_until, trying).await {
                Some(Ok(value)) => return Ok(Called { value, again }),
                Some(Err(error)) => {
                    let (cause, error) = sort(error);
                    FailedCall { cause, error, again }
                }
                None => FailedCall { cause: Cause::Unsure, error: no_answer(), again },
            };
            match failed.cause {
                Cause::NoLease | Cause::LeaseExists | Cause::Final => return Err(failed),
                Cause::Unreached => unreached += 1,
                Cause::Unsure => {
                    again |= sent.load(Ordering::Relaxed);
                    unreached = 0;
                }
            }
            if sent.load(Ordering::Relaxed) || failed.cause == Cause::Unreached {
                logins.clear();
            }
            self.move_on(index);
            // With a single member, the caller decides when to retry.
            if count == 1 || unreached >= count || until.has_passed(clock.now()) {
                return Err(failed);
            }
            if failed.cause == Cause::Unsure {
                clock.sleep(PAUSE).await;
            }
        }
    }

    async fn client(&self, index: usize, refused: Option<u64>) -> Result<LoggedIn, EtcdError> {
        self.0.members[index].client(&self.0.runtime, refused).await
    }
}

impl fmt::Debug for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.members.iter().map(Login::url)).finish()
    }
}
