//! The lock side: everything that the command uses of the client library.

use std::error::Error as _;
use std::os::fd::OwnedFd;
use std::time::Duration;

use leasehold::{Client, Error, ErrorKind, Forced, Guard, Lock, LossReason, State, Status, Token};

use crate::advice::Advice;
use crate::cli::Globals;
use crate::config::Config;
use crate::failure::Failure;
use crate::locate;
use crate::output::Voice;

/// A connection to the store.
#[derive(Debug)]
pub(crate) struct Store {
    client: Client,
    url: String,
    advice: Advice,
}

/// The terms of a lock; `None` uses the library's default.
#[derive(Clone, Debug, Default)]
pub(crate) struct Terms {
    /// How long a lease lasts unless it is renewed, on stores where leases end by time.
    pub(crate) ttl: Option<Duration>,
    /// The lock is lost after this long.
    pub(crate) max_hold: Option<Duration>,
    /// The lock stays taken for this long.
    pub(crate) min_hold: Option<Duration>,
    /// What others see about the holder; empty for nothing.
    pub(crate) metadata: String,
}

/// A lock to acquire.
#[derive(Debug)]
pub(crate) struct Wanted(Lock, Advice);

/// A lock that is held.
#[derive(Debug)]
pub(crate) struct Held(Guard, Advice);

impl Store {
    /// Connects to the store that option, environment or config file name.
    pub(crate) async fn connect(globals: &Globals, config: &Config) -> Result<Self, Failure> {
        let located = locate::store_url(globals.store.as_deref(), config)?;
        let advice = Advice::for_store(&located);
        let url = located.url;
        let client = leasehold::connect(&url).await.map_err(|error| advice.on(error))?;
        let voice = Voice { quiet: globals.quiet, verbose: false };
        client.warnings().iter().for_each(|warning| voice.warn(warning));
        Ok(Self { client, url, advice })
    }

    /// Returns the URL of this store for any process; it may contain credentials.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Returns where the locks are, without credentials.
    pub(crate) fn place(&self) -> String {
        self.client.place()
    }

    /// Returns a lock to acquire.
    pub(crate) fn lock(&self, name: &str, terms: &Terms) -> Wanted {
        let mut lock = self.client.lock(name);
        if let Some(ttl) = terms.ttl {
            lock = lock.ttl(ttl);
        }
        if let Some(max_hold) = terms.max_hold {
            lock = lock.max_hold(max_hold);
        }
        if let Some(min_hold) = terms.min_hold {
            lock = lock.min_hold(min_hold);
        }
        if !terms.metadata.is_empty() {
            lock = lock.metadata(terms.metadata.as_str());
        }
        Wanted(lock, self.advice.clone())
    }

    /// Returns the holder and the waiters of a lock.
    pub(crate) async fn status(&self, name: &str) -> Result<Status, Failure> {
        self.client.lock(name).status().await.map_err(|error| self.advice.on(error))
    }

    /// Returns true if no client holds a lock.
    pub(crate) async fn is_free(&self, name: &str) -> Result<bool, Failure> {
        Ok(self.status(name).await?.state == State::Free)
    }

    /// Returns the locks whose names start with this prefix; `None` if the store cannot list.
    pub(crate) async fn list(
        &self,
        prefix: &str,
        limit: usize,
    ) -> Result<Option<Vec<Status>>, Failure> {
        self.supported(self.client.list(prefix, limit).await)
    }

    /// Ends the lease that a token belongs to; `None` if the store cannot.
    pub(crate) async fn force_release(
        &self,
        name: &str,
        token: Token,
    ) -> Result<Option<Forced>, Failure> {
        self.supported(self.client.lock(name).force_release(token).await)
    }

    /// Waits until nothing is left to clean up.
    pub(crate) async fn close(self) {
        self.client.close().await;
    }

    fn supported<T>(&self, answer: Result<T, Error>) -> Result<Option<T>, Failure> {
        match answer {
            Ok(answer) => Ok(Some(answer)),
            Err(error) if error.kind() == ErrorKind::Unsupported => Ok(None),
            Err(error) => Err(self.advice.on(error)),
        }
    }
}

impl Wanted {
    /// Acquires the lock if it is free.
    pub(crate) async fn take(&self) -> Result<Option<Held>, Failure> {
        let guard = self.0.try_acquire().await.map_err(|error| self.1.on(error))?;
        Ok(guard.map(|guard| Held(guard, self.1.clone())))
    }

    /// Waits for the lock; `None` if the time ends first.
    pub(crate) async fn wait(&self, at_most: Option<Duration>) -> Result<Option<Held>, Failure> {
        let guard = match at_most {
            Some(time) => self.0.acquire_within(time).await,
            None => self.0.acquire().await,
        };
        match guard {
            Ok(guard) => Ok(Some(Held(guard, self.1.clone()))),
            // With a cause, the reason was not another holder.
            Err(error) if error.kind() == ErrorKind::Timeout && error.source().is_none() => {
                Ok(None)
            }
            Err(error) => Err(self.1.on(error)),
        }
    }

    /// Returns the current holder.
    pub(crate) async fn status(&self) -> Option<Status> {
        self.0.status().await.ok()
    }
}

impl Held {
    /// Returns the fencing token.
    pub(crate) fn token(&self) -> u64 {
        self.0.token().get()
    }

    /// Returns the owner that the store recorded.
    pub(crate) fn owner(&self) -> String {
        self.0.attempt().to_string()
    }

    /// Returns when the lease ends, if it is known yet: milliseconds since the Unix epoch.
    pub(crate) fn deadline_unix_ms(&self) -> Option<u64> {
        self.0.deadline().map(|deadline| deadline.unix_ms())
    }

    /// Returns when the lease ends, if it is known yet, on the clock of [`crate::timer`].
    pub(crate) fn deadline_steady_ns(&self) -> Option<u64> {
        self.0.deadline().map(|deadline| deadline.steady_ns())
    }

    /// Returns the time left until another client may hold the lock.
    pub(crate) fn remaining(&self) -> Duration {
        self.0.remaining()
    }

    /// Returns true if no time is left.
    pub(crate) fn is_over(&self) -> bool {
        self.remaining().is_zero()
    }

    /// Returns the descriptor that keeps the lease alive, if there is one.
    pub(crate) fn descriptor(&self) -> Option<OwnedFd> {
        self.0.descriptor()
    }

    /// Returns true if the store cannot keep the lock for the rest of its minimum hold by itself.
    pub(crate) fn lingers(&self) -> bool {
        self.0.lingers()
    }

    /// Returns the reason when the lock is lost, or is about to be.
    pub(crate) async fn lost(&self) -> LossReason {
        self.0.lost().await
    }

    /// Releases the lock, after its minimum hold if the store cannot keep it by itself. Returns
    /// false if it had been lost before.
    pub(crate) async fn release(self, keep_minimum_hold: bool) -> Result<bool, Failure> {
        let released = match keep_minimum_hold {
            true => self.0.release().await,
            false => self.0.release_early().await,
        };
        match released {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::Lost => Ok(false),
            Err(error) => Err(self.1.on(error)),
        }
    }
}
