//! A client: the machines of `leasehold_proto::client`, and what a driver does around them.

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold_proto::client::{
    self, Acquire, Granted, HeldTokens, Limits, Mail, PendingAttempt, PushReference, Standing,
};
use leasehold_proto::handoff::ReleaseRequest;
use leasehold_proto::{AttemptId, Lease, Now, Terms};

use super::attempt_id::attempt;
use super::{Answered, Call, History, Message, Setup, TICK};

/// The rules that the machines keep: all of them, or all but one.
pub(super) type Rules = Option<client::Bug>;

/// No call has a time limit, and none gives up because the server is silent: a client may give up at
/// any moment.
const UNLIMITED: Limits = Limits {
    start: Now { steady_ns: 0, wall_ns: 0 },
    until: None,
    patience: Duration::MAX,
    waits: true,
};

/// Random bits: each pause of a client is as short as possible. The model delays what it does anyway.
pub(super) fn no_pause() -> u64 {
    0
}

/// One process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Client {
    pub(super) id: u8,
    /// It has not crashed.
    pub up: bool,
    /// Its subscription is up.
    pub subscribed: bool,
    /// How many attempts it has made.
    pub attempts: u32,
    /// What it does at the moment.
    pub phase: Phase,
    /// Attempts that it ends in the background, until it has an answer.
    pub endings: Vec<SentRelease>,
}

/// What a client does.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::large_enum_variant, reason = "every step copies the state; a box would cost more")]
pub enum Phase {
    /// Nothing.
    Idle,
    /// It asks, or waits for its turn.
    Waiting(Waiting),
    /// It has a guard.
    Holding(Holding),
}

/// An attempt that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Waiting {
    /// What the client knows about it, and when it asks again.
    pub acquire: Acquire<(), Rules>,
    /// When the last request was sent.
    pub sent: u8,
    /// The messages that wait until the request on its way is answered.
    pub mail: Mail<()>,
    /// The time by which pushes are dated.
    pub reference: Option<PushReference>,
}

/// A lease, and the guard of its holder.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Holding {
    /// The attempt that holds.
    pub attempt: AttemptId,
    /// Its tokens.
    pub tokens: HeldTokens,
    /// Until when it is valid.
    pub lease: Lease,
    /// Not confirmed yet.
    pub offered: bool,
    /// A request was never answered.
    pub suspect: bool,
    /// When the renewal in flight was sent.
    pub renewing: Option<u8>,
    /// Its task has released it, and the next task has not taken it over yet.
    pub released: bool,
    /// Another client is known to wait for the lease.
    pub wanted: bool,
    /// No task holds it: the client keeps it for the next one.
    pub cached: bool,
}

/// An attempt that is being ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SentRelease {
    /// What is sent.
    pub release: ReleaseRequest,
    /// How often, and what is asked for in exchange, for another task.
    pub machine: client::PendingRelease<AttemptId>,
    /// When an exchange was sent last.
    pub sent: u8,
}

/// What a client's move may touch besides the client.
pub(super) struct World<'a> {
    pub(super) setup: &'a Setup,
    pub(super) clock: u8,
    pub(super) network: &'a mut BTreeSet<Message>,
    pub(super) history: &'a mut History,
}

/// The clients' time. Both clocks show the same, so that equal moments are equal states.
pub(super) fn now(clock: u8) -> Now {
    let ns = (TICK * u32::from(clock)).as_nanos() as u64;
    Now { steady_ns: ns, wall_ns: ns }
}

impl World<'_> {
    pub(super) fn now(&self) -> Now {
        now(self.clock)
    }

    pub(super) fn rules(&self) -> Rules {
        self.setup.bug.and_then(super::Bug::of_client)
    }
}

impl Client {
    pub(super) fn new(id: u8) -> Self {
        Self {
            id,
            up: true,
            subscribed: true,
            attempts: 0,
            phase: Phase::Idle,
            endings: Vec::new(),
        }
    }

    /// A push would reach it.
    pub(super) fn listens(&self) -> bool {
        self.up && self.subscribed
    }

    /// The attempt that it asks for, waits with, or holds with.
    pub(super) fn attempt(&self) -> Option<AttemptId> {
        match &self.phase {
            Phase::Idle => None,
            Phase::Waiting(waiting) => Some(waiting.pending().attempt()),
            Phase::Holding(holding) => Some(holding.attempt),
        }
    }

    /// What it knows of an attempt that it does not wait with.
    pub(super) fn standing(&self, attempt: AttemptId) -> Standing {
        match &self.phase {
            Phase::Holding(holding) if holding.attempt == attempt => {
                Standing::Holding(holding.tokens.base())
            }
            _ if self.tracks(attempt) => Standing::Ending,
            _ => Standing::Unknown,
        }
    }

    /// It knows of this attempt and will do something about it.
    pub(super) fn tracks(&self, attempt: AttemptId) -> bool {
        let ends = |ending: &SentRelease| ending.release.attempt == attempt;
        self.up && (self.attempt() == Some(attempt) || self.endings.iter().any(ends))
    }

    /// It ends this attempt.
    pub(super) fn is_ending(&self, attempt: AttemptId) -> bool {
        self.endings.iter().any(|ending| ending.release.attempt == attempt)
    }

    /// It has a guard that says it is valid.
    pub(super) fn is_valid(&self, clock: u8) -> bool {
        let used = |holding: &Holding| !holding.released && !holding.cached;
        let valid = |holding: &Holding| used(holding) && holding.lease.is_valid(now(clock));
        self.up && matches!(&self.phase, Phase::Holding(holding) if valid(holding))
    }

    /// A reply like this would change something.
    pub(super) fn expects(&self, sent: u8, answer: &Answered) -> bool {
        self.up
            && match (*answer, &self.phase) {
                (Answered::Acquired(asked, _), Phase::Waiting(waiting)) => {
                    let asks = waiting.pending().is_asking() && waiting.sent == sent;
                    asks && waiting.pending().attempt() == asked
                }
                (Answered::Renewed(asked, lease, _), Phase::Holding(holding)) => {
                    let renews = holding.renewing == Some(sent) && holding.attempt == asked;
                    renews && holding.tokens.base().get() == lease
                }
                (Answered::Exchanged(ended, next, _) | Answered::Refused(ended, next), _) => {
                    self.endings.iter().any(|ending| ending.exchanges(ended, next, sent))
                }
                (Answered::Ended(ended), _) => {
                    self.endings.iter().any(|ending| ending.ends_alone(ended))
                }
                _ => false,
            }
    }

    pub(super) fn new_attempt(&mut self) -> AttemptId {
        self.attempts += 1;
        attempt(self.id, self.attempts)
    }

    pub(super) fn send(&self, world: &mut World<'_>, call: Call) {
        let sent = if matches!(call, Call::Release(_)) { 0 } else { world.clock };
        world.network.insert(Message::Request { from: self.id, sent, call });
    }

    /// Ends an attempt in the background.
    pub(super) fn end(&mut self, world: &mut World<'_>, release: ReleaseRequest) {
        self.send(world, Call::Release(release));
        let machine = client::PendingRelease::new(None);
        self.endings.push(SentRelease { release, machine, sent: 0 });
    }

    /// Asks for the attempt that waits.
    pub(super) fn ask(&mut self, world: &mut World<'_>) {
        let Phase::Waiting(waiting) = &mut self.phase else { return };
        waiting.acquire.handle_sent(world.now());
        waiting.sent = world.clock;
        let attempt = waiting.pending().attempt();
        self.send(world, Call::Acquire(attempt));
    }

    /// Asks if it is time to.
    pub(super) fn ask_if_due(&mut self, world: &mut World<'_>) {
        if matches!(&self.phase, Phase::Waiting(waiting) if waiting.pending().is_due(world.now())) {
            self.ask(world);
        }
    }

    /// Begins a lease. One that has ended already is given back.
    pub(super) fn hold(&mut self, world: &mut World<'_>, granted: Granted, sent: Now) {
        let Phase::Waiting(waiting) = &self.phase else { return };
        let pending = waiting.pending();
        let terms = terms(world.setup.ttl(self.id));
        let Ok(lease) = granted.lease(sent, world.now(), terms, 0, world.rules()) else {
            return self.end_waiting(world);
        };
        let tokens = HeldTokens::new(granted.tokens);
        world.history.uses(tokens.base().get(), world.setup.in_order());
        let forgets = world.rules() == Some(client::Bug::WantedBeforeGrantIsForgotten);
        let told = granted.wanted || waiting.mail.wanted && !forgets;
        self.phase = Phase::Holding(Holding {
            attempt: pending.attempt(),
            tokens,
            lease,
            offered: granted.offer,
            suspect: pending.is_suspect(),
            renewing: None,
            released: false,
            wanted: told && world.setup.caches,
            cached: false,
        });
    }

    /// Ends the attempt that waits, and does nothing more.
    pub(super) fn end_waiting(&mut self, world: &mut World<'_>) {
        let Phase::Waiting(waiting) = &self.phase else { return };
        let release = waiting.pending().end();
        self.phase = Phase::Idle;
        if let Some(release) = release {
            self.end(world, release);
        }
    }
}

impl Waiting {
    pub(super) fn new(pending: PendingAttempt<Rules>) -> Self {
        let acquire = Acquire::new(pending, None, UNLIMITED);
        Self { acquire, sent: 0, mail: Mail::default(), reference: None }
    }

    pub(super) fn pending(&self) -> &PendingAttempt<Rules> {
        self.acquire.pending()
    }

    /// The next task of the process continues the attempt.
    pub(super) fn inherit(&mut self) {
        let mail = std::mem::take(&mut self.mail);
        let (pending, silence) = self.acquire.clone().into_parts();
        let mut pending = pending.inherit(!mail.is_empty());
        if mail.wanted {
            pending.handle_wanted();
        }
        self.acquire = Acquire::new(pending, silence, UNLIMITED);
    }
}

impl Holding {
    /// How it gives its guard back.
    pub(super) fn end(&self, rules: Rules) -> ReleaseRequest {
        self.tokens.end(self.attempt, self.suspect, None, rules)
    }
}

impl SentRelease {
    pub(super) fn exchanges(&self, ended: AttemptId, next: AttemptId, sent: u8) -> bool {
        (self.release.attempt, self.machine.then(), self.sent) == (ended, Some(&next), sent)
    }

    pub(super) fn ends_alone(&self, ended: AttemptId) -> bool {
        self.release.attempt == ended && self.machine.then().is_none()
    }

    pub(super) fn call(&self) -> Call {
        match self.machine.then() {
            Some(next) => Call::Rotate(self.release, *next),
            None => Call::Release(self.release),
        }
    }
}

/// The lease that a client asks for.
pub(super) fn terms(ttl: u8) -> Terms {
    let ttl = TICK * u32::from(ttl);
    Terms { ttl, renew_after: Some(ttl / 3), max_hold: None, session: false }
}

/// The server's time in microseconds, as its answers and pushes tell it.
pub(super) fn server_us(at: u8) -> u64 {
    Duration::from_secs(u64::from(at)).as_micros() as u64
}
