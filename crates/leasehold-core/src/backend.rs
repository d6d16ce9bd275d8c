//! What an engine has to offer: the `Backend` trait and the words that go in and out of it.
//!
//! Engines differ in who orders the waiters (the engine, or nobody) and in how a waiter learns
//! that it is its turn (a push, or asking again). Waiting, renewal, loss, queues inside a process
//! and metrics exist once, in the client.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use leasehold_proto::{AttemptId, ClientId, Deadline, Token, TokenBlock};
use tokio::sync::mpsc;

use crate::{Name, Result};

/// A boxed future, so that backends can be chosen at run time.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// One client's connection to an engine.
///
/// Rules for implementors:
/// - Every call may be repeated with the same attempt and must then have the same effect
///   (`acquire` gives the same lease and tokens); calls of different attempts never touch each other.
/// - Only what was granted or queued must be ended: an ask that was refused, or answered `Busy`
///   when it was not to wait, leaves nothing behind.
/// - An error whose kind is certain ([`ErrorKind::is_certain`](crate::ErrorKind::is_certain)) means:
///   not done. Any other error means: unknown, and the caller asks again or ends the attempt.
/// - Every call ends within a time limit of the backend's own; the futures may be dropped at any
///   await point, after which the caller ends the attempt with `suspect` set.
/// - An `acquire` that arrives after the release of its own attempt is refused.
pub trait Backend: Send + Sync + fmt::Debug + 'static {
    /// What this engine can and cannot do. It never changes for a given connection.
    fn capability(&self) -> &Capability;

    /// Where the locks are, for people and logs; without credentials.
    fn place(&self) -> String;

    /// What a person should know of the engine, as it was seen when it was connected.
    fn warnings(&self) -> &[String] {
        &[]
    }

    /// Called once, before anything else: which client this is, and where its events go.
    fn attach(&self, client: ClientId, events: EventSink);

    /// Asks for a lease.
    fn acquire(&self, ask: Ask) -> BoxFuture<'_, Result<Answer>>;

    /// Renews a batch of leases; the answers stand in the order of the leases. One that fails or
    /// hangs must not keep the others from being renewed.
    fn renew<'a>(&'a self, leases: &'a [Renewal]) -> BoxFuture<'a, Vec<Result<Renewed>>>;

    /// Ends an attempt, whatever became of it: gives the lease back, leaves the queue.
    fn release(&self, end: End) -> BoxFuture<'_, Result<Ended>>;

    /// Who holds a lock, and who waits for it. Never disturbs the lock.
    fn status<'a>(&'a self, name: &'a Name) -> BoxFuture<'a, Result<Status>>;

    /// The known locks whose names start with `prefix`, in order of their names, `limit` at most.
    fn list<'a>(&'a self, prefix: &'a str, limit: usize) -> BoxFuture<'a, Result<Vec<Status>>>;

    /// Ends the lease that `token` belongs to, if it is still the current one.
    fn force_release<'a>(&'a self, name: &'a Name, token: Token) -> BoxFuture<'a, Result<Forced>>;

    /// A duplicate of the descriptor that keeps a session lease alive, to be handed to another
    /// process that must outlive this one; `None` where leases are not kept by a descriptor.
    #[cfg(unix)]
    fn descriptor(&self, _attempt: AttemptId) -> Option<std::os::fd::OwnedFd> {
        None
    }

    /// How many replicas have acknowledged the grant of an attempt that holds; `None` where none are
    /// asked for, or there are none.
    fn replicas(&self, _attempt: AttemptId) -> Option<usize> {
        None
    }

    /// Ends an attempt without waiting, when there is no runtime left to do it properly. For engines
    /// that need none; for others a client of `leasehold::connect` opens a second connection
    /// ([`ClientBuilder::reopen`](crate::ClientBuilder::reopen)).
    fn abandon(&self, _end: &End) {}
}

/// What an engine can do; the conformance suite chooses its cases by this.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capability {
    /// The engine's name, as in its URL scheme.
    pub engine: &'static str,
    /// Leases end by ttl, or with the session (process, connection).
    pub lease: LeaseKind,
    /// Waiters stand in a queue that the engine keeps: first come, first served.
    pub ordered: bool,
    /// Waiters are told when it is their turn or worth asking again.
    pub push: bool,
    /// One grant can reserve many consecutive tokens.
    pub token_blocks: bool,
    /// `release` with `then` gives up and asks anew in one step.
    pub rotate: bool,
    /// `release` with `keep` leaves the lock taken for a while after the holder has gone.
    pub keep: bool,
    /// `Mode::Shared` is understood.
    pub shared: bool,
    /// `list` works.
    pub list: bool,
    /// `force_release` works.
    pub force_release: bool,
    /// An ask that is not `fair` may take a lock that has become free past those who wait. Where the
    /// next in line has it at that very moment, nobody can.
    pub unfair: bool,
    /// The longest time that a grant or renewal can promise; a longer ttl is shortened to it.
    /// `None` when there is no such bound.
    pub longest_ttl: Option<Duration>,
    /// Every call ends within this time, whatever happens: who is more patient than that needs no
    /// timer of its own. `None` when that is not certain.
    pub answers_within: Option<Duration>,
}

impl Capability {
    /// An engine that has nothing but exclusive leases of this kind; set the rest by field.
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
            list: false,
            force_release: false,
            unfair: false,
            longest_ttl: None,
            answers_within: None,
        }
    }
}

/// What ends a lease that nobody releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseKind {
    /// Time: it must be renewed before its ttl is over.
    Ttl,
    /// The end of the holder's process or connection; a stopped holder keeps the lock.
    Session,
}

/// Exclusive, or shared between readers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// At most one owner.
    #[default]
    Exclusive,
    /// Many owners, none of them exclusive.
    Shared,
}

/// Who holds or waits, for people to read: it has no part in the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The attempt that holds or waits.
    pub attempt: AttemptId,
    /// The host's name, as it calls itself.
    pub host: String,
    /// The process id on that host.
    pub pid: u32,
    /// What the program said about itself (at most 1 KiB); the command gives its command line.
    pub metadata: Option<String>,
}

/// Where an attempt comes from, for people to read: it has no part in the protocol. One for many
/// attempts.
#[derive(Debug)]
pub struct Origin {
    host: String,
    pid: u32,
    metadata: Option<String>,
    written: OnceLock<String>,
}

impl Origin {
    /// The host's name as it calls itself, the process id there, and what the program says of itself.
    pub fn new(host: impl Into<String>, pid: u32, metadata: Option<String>) -> Self {
        Self { host: host.into(), pid, metadata, written: OnceLock::new() }
    }

    /// The same place with other metadata.
    pub(crate) fn with_metadata(&self, metadata: String) -> Self {
        Self::new(self.host.clone(), self.pid, Some(metadata))
    }

    /// What is shown of one of its attempts.
    pub fn holder(&self, attempt: AttemptId) -> Holder {
        let (host, metadata) = (self.host.clone(), self.metadata.clone());
        Holder { attempt, host, pid: self.pid, metadata }
    }

    /// The metadata, if there is any.
    pub fn metadata(&self) -> Option<&str> {
        self.metadata.as_deref()
    }

    /// How the engine writes it: made at the first call, then kept.
    pub fn written(&self, write: impl FnOnce(&str, u32, Option<&str>) -> String) -> &str {
        self.written.get_or_init(|| write(&self.host, self.pid, self.metadata.as_deref()))
    }
}

impl PartialEq for Origin {
    fn eq(&self, other: &Self) -> bool {
        (&self.host, self.pid, &self.metadata) == (&other.host, other.pid, &other.metadata)
    }
}

/// A request for a lease.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Which lock.
    pub name: Name,
    /// For whom. Asking again with the same id gives the same lease.
    pub attempt: AttemptId,
    /// Exclusive or shared.
    pub mode: Mode,
    /// How long the lease lasts unless renewed.
    pub ttl: Duration,
    /// Stay as a waiter when somebody holds it. An engine that keeps no queue answers `Busy`
    /// all the same, and pushes `Freed` where it can.
    pub wait: bool,
    /// Do not pass those who wait already (engines with `unfair`; others never do).
    pub fair: bool,
    /// How many tokens to reserve; engines without blocks give one.
    pub tokens: u32,
    /// Who asks, for people.
    pub origin: Arc<Origin>,
}

/// The answer to an [`Ask`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The lease is ours.
    Granted(Grant),
    /// The engine has put the attempt into its queue, and will push when its turn has come.
    Queued {
        /// How many stand before this attempt, if the engine knows.
        place: Option<u64>,
        /// Ask again after this long even if nothing was pushed.
        ask_again: Duration,
    },
    /// Somebody else holds it, and the engine keeps no queue (or was not asked to wait).
    Busy {
        /// Ask again after this long at the latest; `None` leaves it to the client's schedule.
        ask_again: Option<Duration>,
    },
    /// Nobody may have it now, and the engine knows when that is over, without anybody doing anything.
    Later {
        /// Ask again after this long.
        ask_again: Duration,
        /// Why, for people whose time is up before.
        why: String,
    },
    /// This attempt was ended before the ask arrived: take a new one.
    Ended,
}

/// A granted lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The tokens reserved; the first is the lease's name in later calls.
    pub tokens: TokenBlock,
    /// How long it is valid without renewal.
    pub term: Term,
    /// Somebody else waits for it already, as far as the engine knows. Who comes later is told of
    /// by [`Event::Wanted`].
    pub wanted: bool,
}

/// How long a grant is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Term {
    /// The ttl, counted from when the answered request was sent.
    Ttl,
    /// Until here: the backend has worked it out, drift included (a push has no request).
    Until(Deadline),
    /// Like `Until`, and the client must renew at once or the engine gives it to the next waiter.
    Offer(Deadline),
    /// As long as the session lives.
    Session,
}

/// One lease in a batch of renewals.
#[derive(Clone, Debug)]
pub struct Renewal {
    /// Which lock.
    pub name: Name,
    /// Whose lease.
    pub attempt: AttemptId,
    /// First token of the lease.
    pub base: Token,
    /// How long it is to last from now.
    pub ttl: Duration,
}

/// The verdict on one renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewed {
    /// It lasts a full ttl from when this renewal was sent.
    Renewed,
    /// The lease is not this attempt's any more.
    Lost,
}

/// The end of an attempt.
#[derive(Clone, Debug)]
pub struct End {
    /// Which lock.
    pub name: Name,
    /// Which attempt.
    pub attempt: AttemptId,
    /// First token of its lease; `None` when it never heard of a grant (leaves the queue, and
    /// gives back whatever was granted meanwhile).
    pub base: Option<Token>,
    /// Last token that was used of the block; those after it may be given out again.
    pub last: Option<Token>,
    /// An ask of this attempt was never answered: refuse it should it arrive later.
    pub suspect: bool,
    /// Leave the lock taken for this long (engines with `keep`).
    pub keep: Option<Duration>,
    /// Ask anew in the same step, with another attempt id (engines with `rotate`).
    pub then: Option<Box<Ask>>,
}

/// What came of an [`End`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// What happened to the lease.
    pub verdict: Verdict,
    /// The answer to `then`.
    pub then: Option<Answer>,
}

/// What happened to the lease that an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It was held until now (or until an earlier, repeated release).
    Released,
    /// It had ended before.
    Lost,
    /// There was none: the attempt was waiting, or unknown.
    Gone,
    /// It is over, but the record no longer tells whether by release or by loss.
    Unknown,
}

/// What came of a forced release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forced {
    /// The lease has ended.
    Ended,
    /// Nobody holds the lock.
    NotHeld,
    /// Another lease holds it by now; nothing was changed.
    Other(Token),
}

/// One lock as `status`, `watch` and `list` show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The lock.
    pub name: Name,
    /// Held, kept, or free.
    pub state: State,
    /// The current holder, or the last one that is known.
    pub holder: Option<Holder>,
    /// The current token, or the last one that is known.
    pub token: Option<Token>,
    /// When the holder got it: milliseconds since the Unix epoch, by the engine's clock.
    pub since_unix_ms: Option<u64>,
    /// How long the lease lasts without renewal; `None` for sessions and free locks.
    pub remaining: Option<Duration>,
    /// Those who wait, first in line first, as far as the engine knows; `None` when it does not.
    pub waiters: Option<Vec<Waiter>>,
    /// How many more wait behind those: an engine may name the first hundred alone.
    pub more_waiters: usize,
    /// What a person should know besides: the holder is stopped, its clock is far off.
    pub note: Option<String>,
}

impl Status {
    /// A lock that nobody holds, and of which nothing more is known.
    pub fn free(name: &Name) -> Self {
        Self {
            name: name.clone(),
            state: State::Free,
            holder: None,
            token: None,
            since_unix_ms: None,
            remaining: None,
            waiters: None,
            more_waiters: 0,
            note: None,
        }
    }
}

/// Whether somebody holds a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nobody does.
    Free,
    /// Somebody does.
    Held,
    /// Its holder has gone, but it stays taken until its minimum hold is over.
    Kept,
}

/// One who waits. The tasks of one client that wait for the same lock stand in the engine's line
/// once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// Who.
    pub holder: Holder,
    /// Since when: milliseconds since the Unix epoch.
    pub since_unix_ms: u64,
}

/// Something that an engine says without being asked.
#[derive(Clone, Debug)]
pub enum Event {
    /// A waiter's turn has come.
    Granted {
        /// The lock.
        name: Name,
        /// The waiting attempt.
        attempt: AttemptId,
        /// What it was given.
        grant: Grant,
    },
    /// A waiter is now the first in line, but its turn has not come yet: ask again after this long
    /// if nothing else is heard.
    Next {
        /// The lock.
        name: Name,
        /// The waiting attempt.
        attempt: AttemptId,
        /// When to ask again if nothing else is heard.
        ask_again: Duration,
    },
    /// Somebody outside waits for a lock that this client holds.
    Wanted {
        /// The lock.
        name: Name,
        /// The holding attempt.
        attempt: AttemptId,
    },
    /// A lock has become free, or may have: worth asking again.
    Freed {
        /// The lock.
        name: Name,
    },
    /// A lease has ended: its session is over, or an operator has released it.
    Lost {
        /// The attempt that held it.
        attempt: AttemptId,
        /// First token of the lease that has ended; `None` means any lease of the attempt.
        base: Option<Token>,
    },
    /// The connection or session has broken and is being made anew: those who wait lose patience
    /// if that takes too long.
    Broken,
    /// The connection or session was made anew; pushes may have been missed: all waiters ask again.
    Reset,
}

/// Where a backend puts its events.
#[derive(Clone, Debug)]
pub struct EventSink {
    events: mpsc::UnboundedSender<Event>,
    /// How many tasks wait behind another task of the client; `None` where nothing counts them.
    behind: Option<Arc<AtomicUsize>>,
}

impl EventSink {
    /// A sink and the end that the client (or a test) reads.
    pub fn channel() -> (Self, mpsc::UnboundedReceiver<Event>) {
        let (events, receiver) = mpsc::unbounded_channel();
        (Self { events, behind: None }, receiver)
    }

    pub(crate) fn counting(self, behind: Arc<AtomicUsize>) -> Self {
        Self { behind: Some(behind), ..self }
    }

    /// Hands an event over; false when the client has gone.
    pub fn send(&self, event: Event) -> bool {
        self.events.send(event).is_ok()
    }

    /// False while no task of the client waits behind another one. The client then passes no lease on,
    /// and [`Event::Wanted`] would change nothing: a backend need not look for other clients' waiters.
    pub fn local_waiters(&self) -> bool {
        self.behind.as_ref().is_none_or(|behind| behind.load(Ordering::Relaxed) > 0)
    }
}
