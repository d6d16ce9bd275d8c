//! The members of the cluster. The client uses one at a time, and switches when it fails.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use etcd_client::{Client, ConnectOptions, Error as EtcdError};
use leasehold_core::clock::Clock;
use leasehold_core::{Deadline, Error, ErrorKind, Result};
use tokio::sync::{Mutex, watch};

use crate::error::{Cause, sort};

/// The minimum time to wait for a member before the next one is tried.
const LEAST: Duration = Duration::from_millis(250);
/// The pause after all members have failed.
const PAUSE: Duration = Duration::from_millis(50);

/// The members of the cluster. Clones share their state.
#[derive(Clone)]
pub(crate) struct Members(Arc<Inner>);

struct Inner {
    members: Vec<Member>,
    options: ConnectOptions,
    /// The index of the member in use.
    current: watch::Sender<usize>,
    clock: Clock,
}

struct Member {
    url: String,
    /// Created at the first use, because it logs in.
    client: Mutex<Option<Client>>,
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
    /// Creates the members from their URLs. Clients start with different members.
    pub(crate) fn new(urls: Vec<String>, options: ConnectOptions, clock: Clock) -> Self {
        let first = (clock.now().steady_ns / 1_000) as usize % urls.len().max(1);
        let member = |url| Member { url, client: Mutex::default() };
        let members = urls.into_iter().map(member).collect();
        Self(Arc::new(Inner { members, options, current: watch::Sender::new(first), clock }))
    }

    /// Returns the member in use, which may change during the call.
    pub(crate) async fn current(&self) -> Result<(usize, Client), EtcdError> {
        let index = *self.0.current.borrow();
        Ok((index, self.client(index).await?))
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
        loop {
            let index = *self.0.current.borrow();
            let now = clock.now();
            let each = if count == 1 { limit } else { LEAST.max(limit / 3) };
            let try_until = until.min(Deadline::after(now, each));
            let trying = async { call(self.client(index).await?).await };
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
                    again = true;
                    unreached = 0;
                }
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

    async fn client(&self, index: usize) -> Result<Client, EtcdError> {
        let member = &self.0.members[index];
        let mut client = member.client.lock().await;
        if let Some(client) = &*client {
            return Ok(client.clone());
        }
        let made = Client::connect([&member.url], Some(self.0.options.clone())).await?;
        *client = Some(made.clone());
        Ok(made)
    }
}

impl fmt::Debug for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.members.iter().map(|member| &member.url)).finish()
    }
}

fn no_answer() -> Error {
    Error::new(ErrorKind::Unavailable, "the server did not answer in time")
}
