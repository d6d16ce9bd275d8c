//! What an engine supports.

use std::time::Duration;

use crate::{Error, ErrorKind};

/// What an engine supports; the conformance suite chooses its cases by it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capability {
    /// The name of the engine, as in its URL scheme.
    pub engine: &'static str,
    /// What ends a lease: its ttl, or its session (process, connection).
    pub lease: LeaseKind,
    /// The engine keeps a queue of waiters: first come, first served.
    pub ordered: bool,
    /// The engine notifies waiters when their turn has come, or when to ask again.
    pub push: bool,
    /// One grant can reserve many consecutive tokens.
    pub token_blocks: bool,
    /// `release` with `then` releases and acquires in one step.
    pub rotate: bool,
    /// `release` with `keep` keeps the lock taken for a while after its holder released it.
    pub keep: bool,
    /// The engine has read-write locks: `Mode::Shared`, and conversions of leases.
    pub shared: bool,
    /// Why it has none, if there is more to say than that it has none.
    pub why_no_read_write_locks: Option<&'static str>,
    /// The engine has semaphores: `Mode::Permit`, `limit` and `set_limit`.
    pub semaphores: bool,
    /// Why it has none, if there is more to say than that it has none.
    pub why_no_semaphores: Option<&'static str>,
    /// In which order readers and writers are served, on an engine with read-write locks.
    pub read_order: ReadOrder,
    /// The engine has latches: `value` and `swap_value`.
    pub latches: bool,
    /// Why it has none, if there is more to say than that it has none.
    pub why_no_latches: Option<&'static str>,
    /// What the user must do so that the store gets the primitives that it lacks, if it can have them.
    pub to_get_the_rest: Option<&'static str>,
    /// The engine pushes the changes of a lock to those who observe it.
    pub observe: bool,
    /// A client may keep a lease that no task of it holds, for its next task: the engine tells it when another
    /// client waits. Needs `push`, `token_blocks` and `rotate`.
    pub cached_leases: bool,
    /// The engine supports `list`.
    pub list: bool,
    /// The engine supports `force_release`.
    pub force_release: bool,
    /// The engine supports `force_release_attempt`: it can end one reader or one permit.
    pub force_release_attempt: bool,
    /// A request that is not `fair` may take a free lock before the attempts that wait. If the
    /// engine hands the lock to the next waiter at once, no request can.
    pub unfair: bool,
    /// A lock waits for the holders of names that begin with its name and a slash, too: `a` for `a/b`.
    pub nested_names: bool,
    /// The longest time that a grant or renewal can promise. A longer ttl is shortened to it.
    /// `None` if there is no limit.
    pub longest_ttl: Option<Duration>,
    /// Every call ends within this time in all cases, so callers with a longer timeout need no
    /// timer. `None` if that is not certain.
    pub answers_within: Option<Duration>,
}

impl Capability {
    /// Describes an engine with exclusive leases of this kind and nothing else. Set the other
    /// fields afterwards.
    pub const fn new(engine: &'static str, lease: LeaseKind) -> Self {
        Self {
            engine,
            lease,
            ordered: false,
            push: false,
            token_blocks: false,
            rotate: false,
            keep: false,
            shared: false,
            why_no_read_write_locks: None,
            semaphores: false,
            why_no_semaphores: None,
            read_order: ReadOrder::PhaseFair,
            latches: false,
            why_no_latches: None,
            to_get_the_rest: None,
            observe: false,
            cached_leases: false,
            list: false,
            force_release: false,
            force_release_attempt: false,
            unfair: false,
            nested_names: false,
            longest_ttl: None,
            answers_within: None,
        }
    }

    /// Returns the error for a use of a latch on an engine that has none.
    pub fn no_latches(&self) -> Error {
        let why = reason(self.why_no_latches);
        self.lacks("latches", || {
            format!("engine {}: has no latches{why}; use another store", self.engine)
        })
    }

    /// Returns the error for a use of a read-write lock on an engine that has none.
    pub fn no_read_write_locks(&self) -> Error {
        let why = reason(self.why_no_read_write_locks);
        self.lacks("read-write locks", || {
            format!(
                "engine {}: has no read-write locks{why}; use a lock (Client::lock), or another store",
                self.engine
            )
        })
    }

    fn lacks(&self, what: &str, never: impl FnOnce() -> String) -> Error {
        let message = match self.to_get_the_rest {
            Some(how) => format!("engine {}: has no {what} yet: {how}", self.engine),
            None => never(),
        };
        Error::new(ErrorKind::Unsupported, message)
    }

    /// Returns the error for the forced end of one reader or permit on an engine that cannot do that.
    pub fn no_forced_attempts(&self) -> Error {
        let message = format!(
            "engine {}: cannot end one reader or permit by force; end its process, or the leases of all by their token",
            self.engine
        );
        Error::new(ErrorKind::Unsupported, message)
    }

    /// Returns the error for a cache time on an engine whose clients cannot keep leases.
    pub fn no_cached_leases(&self) -> Error {
        let message = format!(
            "engine {}: leases cannot be cached; leave out the option cache, or use memory, or Redis with pushes",
            self.engine
        );
        Error::new(ErrorKind::Unsupported, message)
    }

    /// Returns the error for a request for a semaphore to an engine that has none.
    pub fn no_semaphores(&self) -> Error {
        let why = reason(self.why_no_semaphores);
        self.lacks("semaphores", || {
            format!("engine {}: has no semaphores{why}; use a lock, or another store", self.engine)
        })
    }
}

/// The text that follows what an engine lacks.
fn reason(why: Option<&str>) -> String {
    why.map_or(String::new(), |why| format!(" ({why})"))
}

/// The order in which an engine serves readers and writers that wait for one lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadOrder {
    /// After a writer all readers that wait by then enter together, and after them the next writer.
    PhaseFair,
    /// First come, first served; readers with no writer between them enter together.
    Fifo,
}

/// What ends a lease that its holder does not release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaseKind {
    /// Time: the client must renew it before its ttl ends.
    Ttl,
    /// The end of the holder's process or connection. A paused holder keeps the lock.
    Session,
}
