//! The lock side: everything that the command uses of the client library.

use std::error::Error as _;
use std::os::fd::OwnedFd;
use std::time::Duration;

use leasehold::{
    AttemptId, Client, Deadline, Error, ErrorKind, Forced, Guard, Latch, Leader, LockChanges,
    LossReason, MultiGuard, MultiLock, Name, Permit, ReadGuard, RwLock, Semaphore, State, Status,
    Token,
};

use crate::advice::Advice;
use crate::cli::{Globals, LatchArgs};
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
    /// It is held to read, with other readers.
    pub(crate) shared: bool,
    /// Slots of a semaphore with this limit are held.
    pub(crate) limit: Option<u32>,
    /// How many slots.
    pub(crate) weight: u32,
    /// How long a lease lasts unless it is renewed, on stores where leases end by time.
    pub(crate) ttl: Option<Duration>,
    /// The lock is lost after this long.
    pub(crate) max_hold: Option<Duration>,
    /// The lock stays taken for this long.
    pub(crate) min_hold: Option<Duration>,
    /// What others see about the holder.
    pub(crate) metadata: Option<String>,
}

/// A lock to acquire, alone or together with others.
#[derive(Debug)]
pub(crate) struct Wanted {
    acquire: Acquire,
    client: Client,
    advice: Advice,
}

#[derive(Debug)]
enum Acquire {
    All(MultiLock),
    ToRead(RwLock),
    /// So many slots.
    Slots(Semaphore, u32),
}

/// The result of an acquire.
#[derive(Debug)]
pub(crate) enum Acquired {
    /// All locks are held.
    Held(Held),
    /// Another client holds a lock: this one, if it is known.
    Taken(Option<Name>),
}

/// A lock that is held, alone or together with others.
#[derive(Debug)]
pub(crate) struct Held {
    hold: Hold,
    advice: Advice,
}

#[derive(Debug)]
enum Hold {
    /// Never empty.
    All(MultiGuard),
    ToRead(ReadGuard),
    Slots(Permit),
}

/// Sets the terms of a lock; all kinds of locks have the same setters.
macro_rules! with_terms {
    ($lock:expr, $terms:expr) => {{
        let (mut lock, terms): (_, &Terms) = ($lock, $terms);
        if let Some(ttl) = terms.ttl {
            lock = lock.ttl(ttl);
        }
        if let Some(max_hold) = terms.max_hold {
            lock = lock.max_hold(max_hold);
        }
        if let Some(min_hold) = terms.min_hold {
            lock = lock.min_hold(min_hold);
        }
        if let Some(metadata) = &terms.metadata {
            lock = lock.metadata(metadata.as_str());
        }
        lock
    }};
}

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

    /// Returns the locks to acquire: all of them or none, one to read, or slots. Fails if the store has
    /// no locks that readers share, or no semaphores.
    pub(crate) fn locks(&self, names: &[String], terms: &Terms) -> Result<Wanted, Failure> {
        // The error for a single name says `name`, not `names: number 1`.
        if let [name] = names {
            self.client.lock(name).name().map_err(|error| self.acquiring(error))?;
        }
        let acquire = match (names, terms.limit) {
            ([name], Some(limit)) => {
                self.check_semaphores()?;
                let semaphore = with_terms!(self.client.semaphore(name, limit), terms);
                Acquire::Slots(semaphore, terms.weight)
            }
            ([name], None) if terms.shared => {
                let capability = self.client.capability();
                if !capability.shared {
                    let why = reason(capability.why_no_read_write_locks);
                    let message = format!("{} has no locks that readers share{why}", self.place());
                    let next = "choose a store that has them, such as file: or redis: (old tables need `leasehold \
                                init`), or leave out --shared";
                    return Err(Failure::own(message).next(next));
                }
                Acquire::ToRead(with_terms!(self.client.rw_lock(name), terms))
            }
            (names, _) => {
                let locks = self.client.lock_all(names);
                locks.names().map_err(|error| self.acquiring(error))?;
                Acquire::All(with_terms!(locks, terms))
            }
        };
        Ok(Wanted { acquire, client: self.client.clone(), advice: self.advice.clone() })
    }

    /// Fails if the store has no semaphores.
    fn check_semaphores(&self) -> Result<(), Failure> {
        if self.client.capability().semaphores {
            return Ok(());
        }
        let why = reason(self.client.capability().why_no_semaphores);
        let message = format!("{} has no semaphores{why}", self.place());
        let next = "choose a store that has them, such as file: or redis: (old tables need `leasehold init`), or use a lock \
                    without a limit";
        Err(Failure::own(message).next(next))
    }

    /// Returns the limit of a semaphore, if one is stored.
    pub(crate) async fn limit(&self, name: &str) -> Result<Option<u32>, Failure> {
        self.check_semaphores()?;
        // The limit that it expects matters only to an acquire.
        self.client.semaphore(name, 1).limit().await.map_err(|error| self.advice.on(error))
    }

    /// Changes the limit of a semaphore.
    pub(crate) async fn set_limit(&self, name: &str, limit: u32) -> Result<(), Failure> {
        self.check_semaphores()?;
        let changed = self.client.semaphore(name, limit).set_limit(limit).await;
        changed.map_err(|error| self.advice.on(error))
    }

    /// Returns the latch that a command line names. Fails if the store has none.
    pub(crate) fn latch(&self, args: &LatchArgs) -> Result<Latch, Failure> {
        if !self.client.capability().latches {
            let why = reason(self.client.capability().why_no_latches);
            let message = format!("{} has no latches{why}", self.place());
            return Err(Failure::own(message).next("choose another store"));
        }
        let latch = self.client.latch(&args.name, args.parties);
        Ok(args.ttl.into_iter().fold(latch, Latch::ttl))
    }

    /// Returns the failure for an error of this store.
    pub(crate) fn failure(&self, error: Error) -> Failure {
        self.advice.on(error)
    }

    fn acquiring(&self, error: Error) -> Failure {
        self.advice.on(error.during("acquire", None))
    }

    /// Returns what waits for the changes of a lock.
    pub(crate) fn changes(&self, name: &str) -> Result<LockChanges, Failure> {
        self.client.lock(name).changes().map_err(|error| self.advice.on(error))
    }

    /// Returns the holder and the waiters of a lock.
    pub(crate) async fn status(&self, name: &str) -> Result<Status, Failure> {
        self.client.lock(name).status().await.map_err(|error| self.advice.on(error))
    }

    /// Checks the name of an election, and the value of a candidate.
    pub(crate) fn check_candidate(
        &self,
        name: &str,
        value: &Option<String>,
    ) -> Result<(), Failure> {
        let election = self.client.election(name);
        let election = match value {
            Some(value) => election.candidate(value),
            None => election,
        };
        election.lock().map(drop).map_err(|error| self.advice.on(error))
    }

    /// Returns the leader of an election, if there is one.
    pub(crate) async fn leader(&self, name: &str) -> Result<Option<Leader>, Failure> {
        self.client.election(name).leader().await.map_err(|error| self.advice.on(error))
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

    /// Ends one reader, one permit or the holder by its attempt; `None` if the store cannot.
    pub(crate) async fn force_release_attempt(
        &self,
        name: &str,
        attempt: AttemptId,
    ) -> Result<Option<Forced>, Failure> {
        self.supported(self.client.lock(name).force_release_attempt(attempt).await)
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
    /// Acquires the locks if all are free.
    pub(crate) async fn take(&self) -> Result<Acquired, Failure> {
        let hold = match &self.acquire {
            Acquire::All(locks) => locks.try_acquire().await.map(|guard| guard.map(Hold::All)),
            Acquire::ToRead(lock) => lock.try_read().await.map(|guard| guard.map(Hold::ToRead)),
            Acquire::Slots(semaphore, slots) => {
                let permit = semaphore.try_acquire_many(*slots).await;
                permit.map(|permit| permit.map(Hold::Slots))
            }
        };
        let hold = hold.map_err(|error| self.advice.on(error))?;
        Ok(hold.map_or(Acquired::Taken(None), |hold| self.held(hold)))
    }

    /// Waits for the locks, at most this long.
    pub(crate) async fn wait(&self, at_most: Option<Duration>) -> Result<Acquired, Failure> {
        let hold = match (&self.acquire, at_most) {
            (Acquire::All(locks), Some(time)) => locks.acquire_within(time).await.map(Hold::All),
            (Acquire::All(locks), None) => locks.acquire().await.map(Hold::All),
            (Acquire::ToRead(lock), Some(time)) => lock.read_within(time).await.map(Hold::ToRead),
            (Acquire::ToRead(lock), None) => lock.read().await.map(Hold::ToRead),
            (Acquire::Slots(semaphore, slots), Some(time)) => {
                semaphore.acquire_many_within(*slots, time).await.map(Hold::Slots)
            }
            (Acquire::Slots(semaphore, slots), None) => {
                semaphore.acquire_many(*slots).await.map(Hold::Slots)
            }
        };
        match hold {
            Ok(hold) => Ok(self.held(hold)),
            // With a cause, the reason was not another holder.
            Err(error) if error.kind() == ErrorKind::Timeout && error.source().is_none() => {
                Ok(Acquired::Taken(error.name().cloned()))
            }
            Err(error) => Err(self.advice.on(error)),
        }
    }

    fn held(&self, hold: Hold) -> Acquired {
        Acquired::Held(Held { hold, advice: self.advice.clone() })
    }

    /// Returns the names in the order in which the locks are acquired.
    fn names(&self) -> Option<&[Name]> {
        match &self.acquire {
            Acquire::All(locks) => locks.names().ok(),
            Acquire::ToRead(lock) => lock.name().ok().map(std::slice::from_ref),
            Acquire::Slots(semaphore, _) => semaphore.name().ok().map(std::slice::from_ref),
        }
    }

    /// Returns the state of this lock; of the first lock that is taken, if it is not known which
    /// one this run waits for. `is_own` says which holders are this process.
    pub(crate) async fn status(
        &self,
        taken: Option<&Name>,
        is_own: impl Fn(&Status) -> bool,
    ) -> Option<Status> {
        let names = match taken {
            Some(name) => std::slice::from_ref(name),
            None => self.names()?,
        };
        let mut last = None;
        // In the order in which the locks are acquired.
        for name in names {
            let status = self.client.lock(name).status().await.ok()?;
            if status.state != State::Free && !is_own(&status) {
                return Some(status);
            }
            last = Some(status);
        }
        last.filter(|_| names.len() == 1)
    }
}

impl Held {
    /// Returns a guard for each lock, in the order of the names.
    fn guards(&self) -> &[Guard] {
        match &self.hold {
            Hold::All(guard) => guard.guards(),
            Hold::ToRead(guard) => std::slice::from_ref(guard),
            Hold::Slots(permit) => std::slice::from_ref(permit),
        }
    }

    /// Returns the slots of a semaphore, if some are held.
    pub(crate) fn slots(&self) -> Option<&[u32]> {
        match &self.hold {
            Hold::Slots(permit) => Some(permit.slots()),
            Hold::All(_) | Hold::ToRead(_) => None,
        }
    }

    /// Returns the names and fencing tokens of all locks, in the order of the names.
    pub(crate) fn tokens(&self) -> impl Iterator<Item = (&str, u64)> {
        self.guards().iter().map(|guard| (guard.name().as_str(), guard.token().get()))
    }

    /// Returns the owner that the store recorded for this lock.
    pub(crate) fn owner_of(&self, name: &str) -> Option<String> {
        let found = self.guards().iter().find(|guard| guard.name().as_str() == name);
        found.map(|guard| guard.attempt().to_string())
    }

    /// Returns when the first lease ends, if it is known yet.
    fn deadline(&self) -> Option<Deadline> {
        match &self.hold {
            Hold::All(guard) => guard.deadline(),
            Hold::ToRead(guard) => guard.deadline(),
            Hold::Slots(permit) => permit.deadline(),
        }
    }

    /// Returns when the first lease ends, if it is known yet: milliseconds since the Unix epoch.
    pub(crate) fn deadline_unix_ms(&self) -> Option<u64> {
        self.deadline().map(|deadline| deadline.unix_ms())
    }

    /// Returns when the first lease ends, if it is known yet, on the clock of [`crate::timer`].
    pub(crate) fn deadline_steady_ns(&self) -> Option<u64> {
        self.deadline().map(|deadline| deadline.steady_ns())
    }

    /// Returns the time left until another client may hold one of the locks.
    pub(crate) fn remaining(&self) -> Duration {
        match &self.hold {
            Hold::All(guard) => guard.remaining(),
            Hold::ToRead(guard) => guard.remaining(),
            Hold::Slots(permit) => permit.remaining(),
        }
    }

    /// Returns the name of the lock whose lease ends first.
    pub(crate) fn first_to_end(&self) -> Option<&Name> {
        self.guards().iter().min_by_key(|guard| guard.remaining()).map(Guard::name)
    }

    /// Returns true if no time is left.
    pub(crate) fn is_over(&self) -> bool {
        self.remaining().is_zero()
    }

    /// Returns the descriptors that keep the leases alive, if there are such.
    pub(crate) fn descriptors(&self) -> Vec<OwnedFd> {
        self.guards().iter().flat_map(Guard::descriptors).collect()
    }

    /// Returns true if the store cannot keep the locks for the rest of their minimum hold by itself.
    pub(crate) fn lingers(&self) -> bool {
        match &self.hold {
            Hold::All(guard) => guard.lingers(),
            Hold::ToRead(guard) => guard.lingers(),
            Hold::Slots(permit) => permit.lingers(),
        }
    }

    /// Returns the first lock that is lost, or is about to be, and the reason.
    pub(crate) async fn lost(&self) -> (Name, LossReason) {
        match &self.hold {
            Hold::All(guard) => {
                let lost = guard.lost().await;
                (lost.name, lost.reason)
            }
            Hold::ToRead(guard) => (guard.name().clone(), guard.lost().await),
            Hold::Slots(permit) => (permit.name().clone(), permit.lost().await),
        }
    }

    /// Releases the locks, after their minimum hold if the store cannot keep them by itself. Returns
    /// the name of a lock that had been lost before.
    pub(crate) async fn release(self, keep_minimum_hold: bool) -> Result<Option<Name>, Failure> {
        let first = self.guards().first().map(|guard| guard.name().clone());
        let released = match (self.hold, keep_minimum_hold) {
            (Hold::All(guard), true) => guard.release().await,
            (Hold::All(guard), false) => guard.release_early().await,
            // It has no minimum hold.
            (Hold::ToRead(guard), _) => guard.release().await,
            (Hold::Slots(permit), _) => permit.release().await,
        };
        match released {
            Ok(()) => Ok(None),
            Err(error) if error.kind() == ErrorKind::Lost => Ok(error.name().cloned().or(first)),
            Err(error) => Err(self.advice.on(error)),
        }
    }
}

/// Returns the text that follows what a store lacks.
fn reason(why: Option<&str>) -> String {
    why.map_or(String::new(), |why| format!(" ({why})"))
}
