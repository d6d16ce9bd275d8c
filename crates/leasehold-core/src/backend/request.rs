//! The requests to an engine.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use leasehold_proto::semaphore::{self, Demand};
use leasehold_proto::{AttemptId, Token, handoff};

use super::{Mode, mode_of};
use crate::{Holder, Name};

/// A request for a lease. [`new`](Self::new) has the defaults.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AcquireRequest {
    /// The name of the lock.
    pub name: Name,
    /// The attempt. A repeated request with the same id returns the same lease.
    pub attempt: AttemptId,
    /// Exclusive, shared, or a permit of a semaphore.
    pub mode: Mode,
    /// For a permit: how many slots, and the limit that the client expects. `None` in other modes.
    pub demand: Option<Demand>,
    /// How long the lease lasts unless it is renewed.
    pub ttl: Duration,
    /// Wait if another client holds the lock. An engine without a queue still answers `Busy`, and
    /// pushes `Freed` where it can.
    pub wait: bool,
    /// Do not overtake attempts that already wait (engines with `unfair`; on other engines no
    /// request can).
    pub fair: bool,
    /// How many tokens to reserve; engines without blocks reserve one.
    pub tokens: u32,
    /// The process that sends the request, for display.
    pub origin: Arc<Origin>,
    /// The client holds the lock in another format too (the option `also`). Engines whose clients with `wire` leave a
    /// mark write this beside the attempt: those clients wait for it, and report any other.
    pub also: bool,
}

impl AcquireRequest {
    /// Creates a request for an exclusive lease with one token. By default it does not wait, is fair,
    /// and has an empty origin.
    pub fn new(name: Name, attempt: AttemptId, ttl: Duration) -> Self {
        let origin = Arc::new(Origin::new("", 0, None));
        Self {
            name,
            attempt,
            mode: Mode::Exclusive,
            demand: None,
            ttl,
            wait: false,
            fair: true,
            tokens: 1,
            origin,
            also: false,
        }
    }

    /// Sets [`mode`](Self::mode).
    #[must_use]
    pub fn with_mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    /// Makes it a request for a permit of a semaphore.
    #[must_use]
    pub fn with_demand(self, demand: Demand) -> Self {
        Self { mode: Mode::Permit, demand: Some(demand), ..self }
    }

    /// Sets [`ttl`](Self::ttl).
    #[must_use]
    pub fn with_ttl(self, ttl: Duration) -> Self {
        Self { ttl, ..self }
    }

    /// Sets [`wait`](Self::wait).
    #[must_use]
    pub fn with_wait(self, wait: bool) -> Self {
        Self { wait, ..self }
    }

    /// Sets [`fair`](Self::fair).
    #[must_use]
    pub fn with_fair(self, fair: bool) -> Self {
        Self { fair, ..self }
    }

    /// Sets [`tokens`](Self::tokens).
    #[must_use]
    pub fn with_tokens(self, tokens: u32) -> Self {
        Self { tokens, ..self }
    }

    /// Sets [`origin`](Self::origin).
    #[must_use]
    pub fn with_origin(self, origin: impl Into<Arc<Origin>>) -> Self {
        Self { origin: origin.into(), ..self }
    }

    /// Sets [`also`](Self::also).
    #[must_use]
    pub fn with_also(self, also: bool) -> Self {
        Self { also, ..self }
    }

    /// Converts the request to that of a semaphore record. Returns `None` if it is not for a permit.
    pub fn for_semaphore<T>(&self, tag: T) -> Option<semaphore::AcquireRequest<T>> {
        let Self { attempt, ttl, wait, tokens, .. } = *self;
        let demand = self.demand.filter(|_| self.mode == Mode::Permit)?;
        Some(semaphore::AcquireRequest { attempt, demand, ttl, wait, tokens, tag })
    }

    /// Converts the request to that of a hand-off record, whose attempts carry a tag.
    pub fn for_record<T>(&self, tag: T) -> handoff::AcquireRequest<T> {
        let Self { attempt, ttl, wait, fair, tokens, .. } = *self;
        handoff::AcquireRequest { attempt, ttl, wait, fair, tokens, tag }
    }
}

/// A request to end an attempt. [`new`](Self::new) has the defaults.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReleaseRequest {
    /// The name of the lock.
    pub name: Name,
    /// The attempt to end.
    pub attempt: AttemptId,
    /// Whether it is for a permit of a semaphore. Engines read nothing else from it.
    pub mode: Mode,
    /// The first slot of its permit, if the client received a grant of one.
    pub slot: Option<u32>,
    /// The first token of its lease. `None` if the client received no grant: the attempt leaves the
    /// queue, and the engine takes back any lease granted meanwhile.
    pub base: Option<Token>,
    /// The last token of the block that was used. The engine may grant the tokens after it again.
    pub last: Option<Token>,
    /// A request of this attempt was never answered: the engine must refuse it if it arrives later.
    pub suspect: bool,
    /// Keep the lock taken for this long (engines with `keep`).
    pub keep: Option<Duration>,
    /// Acquire again in the same step, with another attempt id (engines with `rotate`).
    pub then: Option<Box<AcquireRequest>>,
}

impl ReleaseRequest {
    /// Creates a request to end an attempt that received no grant; nothing else is set.
    pub fn new(name: Name, attempt: AttemptId) -> Self {
        let (mode, slot) = (Mode::Exclusive, None);
        let (base, last, suspect, keep, then) = (None, None, false, None, None);
        Self { name, attempt, mode, slot, base, last, suspect, keep, then }
    }

    /// Sets [`base`](Self::base).
    #[must_use]
    pub fn with_base(self, base: impl Into<Option<Token>>) -> Self {
        Self { base: base.into(), ..self }
    }

    /// Sets [`last`](Self::last).
    #[must_use]
    pub fn with_last(self, last: impl Into<Option<Token>>) -> Self {
        Self { last: last.into(), ..self }
    }

    /// Sets [`suspect`](Self::suspect).
    #[must_use]
    pub fn with_suspect(self, suspect: bool) -> Self {
        Self { suspect, ..self }
    }

    /// Sets [`keep`](Self::keep).
    #[must_use]
    pub fn with_keep(self, keep: impl Into<Option<Duration>>) -> Self {
        Self { keep: keep.into(), ..self }
    }

    /// Sets [`then`](Self::then).
    #[must_use]
    pub fn with_then(self, then: impl Into<Option<AcquireRequest>>) -> Self {
        Self { then: then.into().map(Box::new), ..self }
    }

    /// Makes it the end of a permit whose first slot is `slot`; `None` if the client received no
    /// grant.
    #[must_use]
    pub fn with_slot(self, slot: impl Into<Option<u32>>) -> Self {
        Self { mode: Mode::Permit, slot: slot.into(), ..self }
    }

    /// Adds the name of the lock to the request of a machine of `leasehold-proto`, whose attempt is
    /// one of this client.
    pub(crate) fn of_machine(name: Name, request: handoff::ReleaseRequest) -> Self {
        let handoff::ReleaseRequest { attempt, base, last, suspect, keep } = request;
        let (mode, slot) = (mode_of(attempt), None);
        Self { name, attempt, mode, slot, base, last, suspect, keep, then: None }
    }

    /// Converts the request to that of a semaphore record.
    pub fn for_semaphore(&self) -> semaphore::ReleaseRequest {
        semaphore::ReleaseRequest::new(self.for_record(), self.slot)
    }

    /// Converts the request to that of a hand-off record, without [`then`](Self::then).
    pub fn for_record(&self) -> handoff::ReleaseRequest {
        let Self { attempt, base, last, suspect, keep, .. } = *self;
        handoff::ReleaseRequest { attempt, base, last, suspect, keep }
    }
}

/// A request to turn the lease of one attempt into a lease of the other mode, in one step.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConvertRequest {
    /// The lease that ends, with its first token. A writer adds the last token that it used.
    pub end: ReleaseRequest,
    /// The new lease, with an attempt of its own. Its mode is the target: a downgrade reads, an
    /// upgrade writes.
    pub next: AcquireRequest,
    /// The same was sent before, without an answer.
    pub again: bool,
}

impl ConvertRequest {
    /// Creates a request that is sent for the first time.
    pub fn new(end: ReleaseRequest, next: AcquireRequest) -> Self {
        Self { end, next, again: false }
    }

    /// Sets [`again`](Self::again).
    #[must_use]
    pub fn with_again(self, again: bool) -> Self {
        Self { again, ..self }
    }
}

/// One lease in a batch of renewals.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Renewal {
    /// The name of the lock.
    pub name: Name,
    /// The attempt that holds the lease.
    pub attempt: AttemptId,
    /// The first token of the lease.
    pub base: Token,
    /// How long the lease must last from now.
    pub ttl: Duration,
    /// Whether it is for a permit of a semaphore. Engines read nothing else from it.
    pub mode: Mode,
}

impl Renewal {
    /// Creates the renewal of a lease whose first token is `base`, for `ttl` from now on.
    pub fn new(name: Name, attempt: AttemptId, base: Token, ttl: Duration) -> Self {
        Self { name, attempt, base, ttl, mode: Mode::Exclusive }
    }

    /// Makes it the renewal of a permit of a semaphore.
    #[must_use]
    pub fn of_permit(self) -> Self {
        Self { mode: Mode::Permit, ..self }
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

    /// Returns the holder to show for one of its attempts.
    pub fn holder(&self, attempt: AttemptId) -> Holder {
        let (host, metadata) = (self.host.clone(), self.metadata.clone());
        Holder { attempt, host, pid: self.pid, metadata }
    }

    /// Returns the metadata, if any.
    pub fn metadata(&self) -> Option<&str> {
        self.metadata.as_deref()
    }

    /// Returns the origin in the format of the engine. The first call creates the text and stores
    /// it.
    pub fn written(&self, write: impl FnOnce(&str, u32, Option<&str>) -> String) -> &str {
        self.written.get_or_init(|| write(&self.host, self.pid, self.metadata.as_deref()))
    }
}

impl PartialEq for Origin {
    fn eq(&self, other: &Self) -> bool {
        (&self.host, self.pid, &self.metadata) == (&other.host, other.pid, &other.metadata)
    }
}
