//! The members of the cluster. The client uses one at a time, and switches when it fails.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use etcd_client::{Client, ConnectOptions, Error as EtcdError};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use leasehold_core::clock::Clock;
use leasehold_core::{Deadline, Error, Result};
use tokio::sync::watch;

use crate::error::{Cause, no_answer, sort};

/// The minimum time to wait for a member before the next one is tried.
const LEAST: Duration = Duration::from_millis(250);
/// How long a login may take, if the server accepts the connection in time. Then the next call tries again.
const LOGIN: Duration = Duration::from_secs(5);
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
    /// Created at the first use, because it logs in. All calls wait for one login, and it continues when their time has passed: a
    /// member that is slow would never complete one otherwise.
    client: Mutex<Option<Login>>,
}

/// A connection to a member, or the attempt to make one.
type Login = Shared<BoxFuture<'static, Result<Client, (Cause, Error)>>>;

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

    /// Returns the index of the member in use.
    pub(crate) fn in_use(&self) -> usize {
        *self.0.current.borrow()
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
            let index = self.in_use();
            let now = clock.now();
            let each = if count == 1 { limit } else { LEAST.max(limit / 3) };
            let try_until = until.min(Deadline::after(now, each));
            let trying = async { call(self.client(index).await?).await.map_err(sort) };
            let failed = match clock.within_since(now, try_until, trying).await {
                Some(Ok(value)) => return Ok(Called { value, again }),
                Some(Err((cause, error))) => FailedCall { cause, error, again },
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

    /// Returns the connection to a member, after it was made and has logged in.
    pub(crate) async fn client(&self, index: usize) -> Result<Client, (Cause, Error)> {
        let member = &self.0.members[index];
        let client = || member.client.lock().unwrap_or_else(PoisonError::into_inner);
        let login = client().get_or_insert_with(|| self.log_in(member.url.clone())).clone();
        let made = login.clone().await;
        if made.is_err() {
            // The next call tries again.
            client().take_if(|other| other.ptr_eq(&login));
        }
        made
    }

    /// Connects to a member in the background, and logs in.
    fn log_in(&self, url: String) -> Login {
        let (options, clock) = (self.0.options.clone(), self.0.clock.clone());
        let connecting = tokio::spawn(async move {
            let until = Deadline::after(clock.now(), LOGIN);
            let connecting = Client::connect([url], Some(options));
            match clock.within(Some(until), connecting).await {
                Some(connected) => connected.map_err(sort),
                None => Err((Cause::Unsure, no_answer())),
            }
        });
        let made = async move {
            let gone = |_| Err((Cause::Unsure, no_answer()));
            connecting.await.unwrap_or_else(gone)
        };
        made.boxed().shared()
    }
}

impl fmt::Debug for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.members.iter().map(|member| &member.url)).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::net::TcpListener;

    use super::*;

    /// Each login takes the member longer than a call may take. If each call began another one, none would complete.
    #[tokio::test]
    async fn calls_that_run_out_of_time_wait_for_one_login() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let logins = Arc::new(AtomicUsize::new(0));
        let server = tokio::spawn({
            let logins = logins.clone();
            async move {
                let mut open = Vec::new();
                while let Ok((connection, _)) = listener.accept().await {
                    logins.fetch_add(1, Ordering::Relaxed);
                    open.push(connection);
                }
            }
        });
        let options = ConnectOptions::new().with_user("user", "password");
        let members = Members::new(vec![url], options, Clock::system());
        for _ in 0..4 {
            let call = |client: Client| async move { client.kv_client().get("a", None).await };
            let failed = members.call(LEAST, call).await.unwrap_err();
            assert_eq!(failed.cause, Cause::Unsure);
        }
        assert_eq!(logins.load(Ordering::Relaxed), 1);
        server.abort();
    }
}
