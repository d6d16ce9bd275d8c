//! The members of the ensemble: one at a time is talked to, another when that one fails.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use etcd_client::{Client, ConnectOptions, Error as EtcdError};
use leasehold_core::clock::Clock;
use leasehold_core::{Deadline, Error, ErrorKind, Result};
use tokio::sync::{Mutex, watch};

use crate::error::{Cause, sort};

/// How long a member is waited for at least, before another is asked.
const LEAST: Duration = Duration::from_millis(250);
/// Between two rounds in which no member could do it.
const PAUSE: Duration = Duration::from_millis(50);

/// Cheap to clone; clones are the same.
#[derive(Clone)]
pub(crate) struct Members(Arc<Inner>);

struct Inner {
    members: Vec<Member>,
    options: ConnectOptions,
    /// Which one is talked to.
    current: watch::Sender<usize>,
    clock: Clock,
}

struct Member {
    url: String,
    /// Made at the first use: it logs in.
    client: Mutex<Option<Client>>,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Called<T> {
    pub(crate) value: T,
    /// The request was sent before, without an answer: it may have been carried out twice.
    pub(crate) again: bool,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) cause: Cause,
    pub(crate) error: Error,
    /// The request was sent before, without an answer.
    pub(crate) again: bool,
}

impl From<Failed> for Error {
    fn from(failed: Failed) -> Self {
        failed.error
    }
}

impl Members {
    /// Members by URL; clients begin with different ones.
    pub(crate) fn new(urls: Vec<String>, options: ConnectOptions, clock: Clock) -> Self {
        let first = (clock.now().steady_ns / 1_000) as usize % urls.len().max(1);
        let member = |url| Member { url, client: Mutex::default() };
        let members = urls.into_iter().map(member).collect();
        Self(Arc::new(Inner { members, options, current: watch::Sender::new(first), clock }))
    }

    /// The member that is talked to, which may change while it is.
    pub(crate) async fn current(&self) -> Result<(usize, Client), EtcdError> {
        let index = *self.0.current.borrow();
        Ok((index, self.client(index).await?))
    }

    /// Returns when another member than this is talked to.
    pub(crate) async fn moved(&self, index: usize) {
        let mut current = self.0.current.subscribe();
        // It never ends: `self` keeps the sender.
        let _ = current.wait_for(|now| *now != index).await;
    }

    /// This member is of no use at the moment: the next one is talked to, unless somebody else has
    /// said so before.
    pub(crate) fn move_on(&self, index: usize) {
        let count = self.0.members.len();
        self.0.current.send_if_modified(|current| {
            let moves = *current == index && count > 1;
            if moves {
                *current = (index + 1) % count;
                tracing::debug!(from = index, to = *current, "asking another member");
            }
            moves
        });
    }

    /// Asks one member after the other until one answers or the time is up. What is asked may be
    /// carried out more than once.
    pub(crate) async fn call<T, F>(
        &self,
        limit: Duration,
        ask: impl Fn(Client) -> F,
    ) -> Result<Called<T>, Failed>
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
            let trying = async { ask(self.client(index).await?).await };
            let failed = match clock.within_since(now, try_until, trying).await {
                Some(Ok(value)) => return Ok(Called { value, again }),
                Some(Err(error)) => {
                    let (cause, error) = sort(error);
                    Failed { cause, error, again }
                }
                None => Failed { cause: Cause::Unsure, error: no_answer(), again },
            };
            match failed.cause {
                Cause::NoLease | Cause::Final => return Err(failed),
                Cause::Unreached => unreached += 1,
                Cause::Unsure => {
                    again = true;
                    unreached = 0;
                }
            }
            self.move_on(index);
            // With one member alone the caller has to know when to ask again.
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
