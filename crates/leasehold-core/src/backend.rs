//! The contract of an engine: the `Backend` trait, with its requests and answers.
//!
//! **Unstable.** This module is for authors of engines and is not covered by semantic versioning: its
//! items may change in any release. Depend on an exact version (`=x.y.z`). The exceptions are the
//! results that programs see, which the crate `leasehold` exports at its root: `Status`, `State`,
//! `Holder`, `Waiter` and `Forced`.
//!
//! Engines differ in who orders the waiters (the engine, or no component) and in how a waiter
//! learns that its turn has come (by a push, or by asking again). The client implements waiting,
//! renewal, loss, queues inside a process and metrics once for all engines.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use leasehold_proto::{AttemptId, ClientId, Deadline, Token, TokenBlock};
use tokio::sync::mpsc;

use crate::{Name, Result};

/// A boxed future, so that the backend can be chosen at run time.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The connection of one client to an engine.
///
/// Rules for implementors:
/// - Every call may be repeated with the same attempt and must then have the same effect (`acquire`
///   returns the same lease and tokens). Calls of different attempts never affect each other.
/// - The client must end only what was granted or queued. A request that was refused, or answered
///   `Busy` without waiting, leaves nothing behind.
/// - An error whose kind is certain ([`ErrorKind::is_certain`](crate::ErrorKind::is_certain)) means
///   that nothing was done. After any other error the result is unknown, and the caller asks again
///   or ends the attempt.
/// - Every call ends within a time limit of the backend. The futures may be dropped at any await
///   point; the caller then ends the attempt with `suspect` set.
/// - An `acquire` that arrives after the release of its own attempt is refused.
pub trait Backend: Send + Sync + fmt::Debug + 'static {
    /// Returns what this engine supports. It never changes for a connection.
    fn capability(&self) -> &Capability;

    /// Returns where the locks are, for display and logs, without credentials.
    fn place(&self) -> String;

    /// Returns warnings for the user about the engine, as seen when the client connected.
    fn warnings(&self) -> &[String] {
        &[]
    }

    /// Tells the backend which client uses it, and where to send events. Called once, before any
    /// other call.
    fn attach(&self, client: ClientId, events: EventSink);

    /// Asks for a lease.
    fn acquire(&self, ask: Ask) -> BoxFuture<'_, Result<Answer>>;

    /// Renews a batch of leases. The answers are in the order of the leases. A renewal that fails
    /// or hangs must not delay the others.
    fn renew<'a>(&'a self, leases: &'a [Renewal]) -> BoxFuture<'a, Vec<Result<Renewed>>>;

    /// Ends an attempt in any state: releases its lease, or leaves the queue.
    fn release(&self, end: End) -> BoxFuture<'_, Result<Ended>>;

    /// Returns the holder and the waiters of a lock. Never affects the lock.
    fn status<'a>(&'a self, name: &'a Name) -> BoxFuture<'a, Result<Status>>;

    /// Returns at most `limit` known locks whose names start with `prefix`, ordered by name.
    fn list<'a>(&'a self, prefix: &'a str, limit: usize) -> BoxFuture<'a, Result<Vec<Status>>>;

    /// Ends the lease that `token` belongs to, if it is still the current lease.
    fn force_release<'a>(&'a self, name: &'a Name, token: Token) -> BoxFuture<'a, Result<Forced>>;

    /// Returns a duplicate of the descriptor that keeps a session lease alive, for a process that
    /// must outlive this one. `None` if leases are not kept by a descriptor.
    #[cfg(unix)]
    fn descriptor(&self, _attempt: AttemptId) -> Option<std::os::fd::OwnedFd> {
        None
    }

    /// Returns how many replicas have acknowledged the grant of an attempt that holds. `None` if
    /// the store asks no replicas, or has none.
    fn replicas(&self, _attempt: AttemptId) -> Option<usize> {
        None
    }

    /// Ends an attempt without waiting, when no runtime is left to do it properly. Only engines
    /// that need no runtime implement it. For others, a client of `leasehold::connect` opens a
    /// second connection ([`ClientSettings::reopen`](crate::ClientSettings::reopen)).
    fn abandon(&self, _end: &End) {}
}

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
    /// The engine supports `Mode::Shared`.
    pub shared: bool,
    /// The engine supports `list`.
    pub list: bool,
    /// The engine supports `force_release`.
    pub force_release: bool,
    /// A request that is not `fair` may take a free lock before the attempts that wait. If the
    /// engine hands the lock to the next waiter at once, no request can.
    pub unfair: bool,
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
            list: false,
            force_release: false,
            unfair: false,
            longest_ttl: None,
            answers_within: None,
        }
    }
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

/// Exclusive, or shared between readers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// At most one owner.
    #[default]
    Exclusive,
    /// Many owners, and no exclusive owner.
    Shared,
}

/// The process that holds or waits, for display only: the protocol does not use it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The attempt that holds or waits.
    pub attempt: AttemptId,
    /// The name of the host, as the host reports it.
    pub host: String,
    /// The process id on that host.
    pub pid: u32,
    /// Text that the program set (at most 1 KiB); `leasehold run` sets the name of the program that it runs.
    pub metadata: Option<String>,
}

impl Holder {
    /// Creates what is shown of a holder or waiter.
    pub fn new(attempt: AttemptId, host: String, pid: u32, metadata: Option<String>) -> Self {
        Self { attempt, host, pid, metadata }
    }
}

/// Where attempts come from, for display only: the protocol does not use it. Many attempts share
/// one origin.
#[derive(Debug)]
pub struct Origin {
    host: String,
    pid: u32,
    metadata: Option<String>,
    written: OnceLock<String>,
}

impl Origin {
    /// Creates an origin from the host's own name, the process id there, and the program's text.
    pub fn new(host: impl Into<String>, pid: u32, metadata: Option<String>) -> Self {
        Self { host: host.into(), pid, metadata, written: OnceLock::new() }
    }

    /// Returns the same origin with other metadata.
    pub(crate) fn with_metadata(&self, metadata: String) -> Self {
        Self::new(self.host.clone(), self.pid, Some(metadata))
    }

    /// Returns what is shown of one of its attempts.
    pub fn holder(&self, attempt: AttemptId) -> Holder {
        let (host, metadata) = (self.host.clone(), self.metadata.clone());
        Holder { attempt, host, pid: self.pid, metadata }
    }

    /// Returns the metadata, if any.
    pub fn metadata(&self) -> Option<&str> {
        self.metadata.as_deref()
    }

    /// Returns the origin as the engine writes it. The first call makes the text and stores it.
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
    /// The name of the lock.
    pub name: Name,
    /// The attempt that asks. A repeated request with the same id returns the same lease.
    pub attempt: AttemptId,
    /// Exclusive or shared.
    pub mode: Mode,
    /// How long the lease lasts unless it is renewed.
    pub ttl: Duration,
    /// Wait if another client holds the lock. An engine without a queue still answers `Busy`, and
    /// pushes `Freed` where it can.
    pub wait: bool,
    /// Do not overtake attempts that wait already (engines with `unfair`; on other engines no
    /// request can).
    pub fair: bool,
    /// How many tokens to reserve; engines without blocks reserve one.
    pub tokens: u32,
    /// Which process asks, for display.
    pub origin: Arc<Origin>,
}

/// The answer to an [`Ask`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer {
    /// The attempt holds the lease.
    Granted(Grant),
    /// The engine has queued the attempt, and pushes a message when its turn has come.
    Queued {
        /// How many attempts precede it, if the engine knows.
        place: Option<u64>,
        /// Ask again after this long even if no push arrives.
        ask_again: Duration,
    },
    /// Another attempt holds the lock, and the engine keeps no queue (or was not asked to wait).
    Busy {
        /// Ask again after this long at the latest; `None` leaves it to the schedule of the client.
        /// Zero: the lock is free, but its queue has more dead waiters than one call removes, and
        /// each further request removes some. The client then asks again at once, even if it does
        /// not wait.
        ask_again: Option<Duration>,
    },
    /// No client may hold the lock now, and the engine knows when that ends without action by an
    /// operator.
    Later {
        /// Ask again after this long.
        ask_again: Duration,
        /// The reason, for callers whose timeout ends earlier.
        why: String,
    },
    /// The attempt was ended before the request arrived: use a new attempt.
    Ended,
}

/// A granted lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Grant {
    /// The reserved tokens; the first token names the lease in later calls.
    pub tokens: TokenBlock,
    /// How long the lease is valid without renewal.
    pub term: Term,
    /// Another client waits for the lock already, as far as the engine knows. [`Event::Wanted`]
    /// reports clients that begin to wait later.
    pub wanted: bool,
}

impl Grant {
    /// Creates a grant; `wanted` says whether another client waits already.
    pub fn new(tokens: TokenBlock, term: Term, wanted: bool) -> Self {
        Self { tokens, term, wanted }
    }
}

/// How long a grant is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Term {
    /// For the ttl, counted from the time when the answered request was sent.
    Ttl,
    /// Until this deadline, which the backend computed including drift (a push has no request).
    Until(Deadline),
    /// Like `Until`, but the client must renew at once, or the engine grants the lock to the next
    /// waiter.
    Offer(Deadline),
    /// As long as the session lives.
    Session,
}

/// One lease in a batch of renewals.
#[derive(Clone, Debug)]
pub struct Renewal {
    /// The name of the lock.
    pub name: Name,
    /// The attempt that holds the lease.
    pub attempt: AttemptId,
    /// The first token of the lease.
    pub base: Token,
    /// How long the lease must last from now.
    pub ttl: Duration,
}

/// The result of one renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewed {
    /// The lease lasts a full ttl from when this renewal was sent.
    Renewed,
    /// The attempt does not hold the lease any more.
    Lost,
}

/// A request to end an attempt.
#[derive(Clone, Debug)]
pub struct End {
    /// The name of the lock.
    pub name: Name,
    /// The attempt to end.
    pub attempt: AttemptId,
    /// The first token of its lease. `None` if the client received no grant: the attempt leaves the
    /// queue, and the engine takes back any lease granted meanwhile.
    pub base: Option<Token>,
    /// The last token of the block that was used. The engine may give out the tokens after it
    /// again.
    pub last: Option<Token>,
    /// A request of this attempt was never answered: the engine must refuse it if it arrives later.
    pub suspect: bool,
    /// Keep the lock taken for this long (engines with `keep`).
    pub keep: Option<Duration>,
    /// Ask again in the same step, with another attempt id (engines with `rotate`).
    pub then: Option<Box<Ask>>,
}

impl End {
    /// Adds the name of the lock to what a machine of `leasehold-proto` says about an end.
    pub(crate) fn new(name: Name, end: leasehold_proto::handoff::End) -> Self {
        let leasehold_proto::handoff::End { attempt, base, last, suspect, keep } = end;
        Self { name, attempt, base, last, suspect, keep, then: None }
    }
}

/// The answer to an [`End`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ended {
    /// What happened to the lease.
    pub verdict: Verdict,
    /// The answer to `then`.
    pub then: Option<Answer>,
}

impl Ended {
    /// Creates the answer to an end, and to its further request if it has one.
    pub fn new(verdict: Verdict, then: Option<Answer>) -> Self {
        Self { verdict, then }
    }
}

/// How the lease of an ended attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The attempt held it until now, or until an earlier release that is repeated.
    Released,
    /// It had ended before without a release.
    Lost,
    /// There was no lease: the attempt was waiting or unknown.
    Gone,
    /// It has ended, but the record no longer knows whether by a release or by a loss.
    Unknown,
}

/// The result of a forced release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Forced {
    /// The lease has ended.
    Ended,
    /// No client holds the lock.
    NotHeld,
    /// Another lease holds the lock; nothing was changed.
    Other(Token),
}

/// The state of one lock, as `status`, `watch` and `list` show it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// The name of the lock.
    pub name: Name,
    /// Held, kept, or free.
    pub state: State,
    /// The current holder, or the last known holder.
    pub holder: Option<Holder>,
    /// The current token, or the last known token.
    pub token: Option<Token>,
    /// When the holder acquired it: milliseconds since the Unix epoch, by the clock of the engine.
    pub since_unix_ms: Option<u64>,
    /// How long the lease lasts without renewal; `None` for sessions and free locks.
    pub remaining: Option<Duration>,
    /// The waiters in queue order, as far as the engine knows; `None` if it does not know.
    pub waiters: Option<Vec<Waiter>>,
    /// How many waiters follow those; an engine may list only the first hundred.
    pub more_waiters: usize,
    /// A hint for the user: for example, the holder is paused, or its clock is far off.
    pub note: Option<String>,
}

impl Status {
    /// Returns the state of a lock that is free, without further knowledge. Set the other fields
    /// afterwards.
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

/// Whether a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// No client holds the lock.
    Free,
    /// A client holds the lock.
    Held,
    /// The holder has released the lock, which stays taken until its minimum hold ends.
    Kept,
}

/// A client that waits. The tasks of one client that wait for the same lock have one place in the
/// queue of the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiter {
    /// The process that waits.
    pub holder: Holder,
    /// Since when: milliseconds since the Unix epoch.
    pub since_unix_ms: u64,
}

impl Waiter {
    /// Creates a waiter that has waited since this time, in milliseconds since the Unix epoch.
    pub fn new(holder: Holder, since_unix_ms: u64) -> Self {
        Self { holder, since_unix_ms }
    }
}

/// A message that an engine sends without a request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// The turn of a waiter has come.
    Granted {
        /// The name of the lock.
        name: Name,
        /// The waiting attempt.
        attempt: AttemptId,
        /// The lease that it was granted.
        grant: Grant,
    },
    /// A waiter is now the first in the queue, but its turn has not come. It asks again after this
    /// long if no other message arrives.
    Next {
        /// The name of the lock.
        name: Name,
        /// The waiting attempt.
        attempt: AttemptId,
        /// When to ask again if no other message arrives.
        ask_again: Duration,
    },
    /// A client of another process waits for a lock that this client holds.
    Wanted {
        /// The name of the lock.
        name: Name,
        /// The holding attempt.
        attempt: AttemptId,
    },
    /// A lock is free, or may be free: ask again.
    Freed {
        /// The name of the lock.
        name: Name,
    },
    /// A lease has ended: its session has ended, or an operator has released it.
    Lost {
        /// The attempt that held the lease.
        attempt: AttemptId,
        /// The first token of the ended lease; `None` means any lease of the attempt.
        base: Option<Token>,
    },
    /// The connection or session is broken and is being re-established. Waiters fail if that takes
    /// too long.
    Broken,
    /// The connection or session was re-established, and pushes may have been missed: all waiters
    /// ask again.
    Reset,
}

/// Where a backend sends its events.
#[derive(Clone, Debug)]
pub struct EventSink {
    events: mpsc::UnboundedSender<Event>,
    /// How many local tasks wait behind another task; `None` if they are not counted.
    behind: Option<Arc<AtomicUsize>>,
}

impl EventSink {
    /// Creates a sink, and the receiver that the client (or a test) reads.
    pub fn channel() -> (Self, mpsc::UnboundedReceiver<Event>) {
        let (events, receiver) = mpsc::unbounded_channel();
        (Self { events, behind: None }, receiver)
    }

    pub(crate) fn counting(self, behind: Arc<AtomicUsize>) -> Self {
        Self { behind: Some(behind), ..self }
    }

    /// Sends an event. Returns false if the client no longer exists.
    pub fn send(&self, event: Event) -> bool {
        self.events.send(event).is_ok()
    }

    /// Returns false while no local task waits behind another. The client then hands no lease to
    /// another task, and [`Event::Wanted`] has no effect: a backend need not look for waiters of
    /// other clients.
    pub fn local_waiters(&self) -> bool {
        self.behind.as_ref().is_none_or(|behind| behind.load(Ordering::Relaxed) > 0)
    }
}
