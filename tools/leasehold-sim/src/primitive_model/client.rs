//! A client: the machines of `leasehold_proto::client`, and what a driver does around them.

use std::collections::BTreeSet;

use leasehold_proto::client::{
    self, Conversion, Granted, HeldTokens, Mail, PendingAttempt, PendingRelease, PushReference,
    SharedRead,
};
use leasehold_proto::handoff::ReleaseRequest;
use leasehold_proto::{AttemptId, Deadline, Now, Terms, TokenBlock};

use super::ids::attempt;
use super::{CacheBug, Call, History, Message, TICK, Use, Want};

/// The rules that the machines keep: all of them, or all but one.
pub(super) type Rules = Option<client::Bug>;

/// A client's subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Link {
    /// Pushes arrive.
    Up,
    /// The server does not know that pushes do not arrive.
    HalfOpen,
    /// The server knows that it has ended.
    Gone,
}

/// One process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Client {
    pub(super) id: u8,
    /// Its place among the clients of the run. A client that was started again has that of the one
    /// that crashed.
    pub(super) role: usize,
    /// It has not crashed.
    pub up: bool,
    /// Another client has its role now.
    pub(super) replaced: bool,
    /// Its subscription.
    pub link: Link,
    /// How many of its tasks have begun.
    pub begun: usize,
    /// How many attempts it has made.
    pub attempts: u32,
    /// What its tasks do.
    pub phases: Vec<Phase>,
    /// Attempts that it ends in the background, until it has an answer.
    pub endings: Vec<SentRelease>,
}

/// What one task does, or several that share a read lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// It asks, or waits for its turn.
    Waiting(Waiting),
    /// It has a guard.
    Holding(Holding),
    /// It makes a reader a writer, or a writer a reader.
    Converting(Converting),
}

/// An attempt that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Waiting {
    /// What the client knows about it.
    pub pending: PendingAttempt<Rules>,
    /// What it is for.
    pub task: Use,
    pub(super) sent: u8,
    pub(super) mail: Mail<()>,
    /// The slots of the permit in the mail.
    pub(super) slots: Vec<u32>,
    pub(super) reference: Option<PushReference>,
}

/// A lease, and the guards of its holders.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Holding {
    /// The attempt that holds.
    pub attempt: AttemptId,
    /// What it holds.
    pub want: Want,
    /// What is still to come: the conversion of a lease that has not been converted.
    pub task: Use,
    /// Its tokens.
    pub tokens: HeldTokens,
    /// The slots of a permit.
    pub slots: Vec<u32>,
    /// Until when it is valid.
    pub lease: leasehold_proto::Lease,
    /// The tasks that read.
    pub shared: Option<SharedRead<Rules>>,
    /// No task reads: the client keeps the lease for its next task.
    pub cached: bool,
    pub(super) offered: bool,
    pub(super) suspect: bool,
    pub(super) renewing: Option<u8>,
}

/// A conversion under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Converting {
    /// What the client knows about it.
    pub conversion: Conversion<Rules>,
    /// The lease that it began with.
    pub from: Box<Holding>,
    pub(super) sent: u8,
}

/// An attempt that is being ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SentRelease {
    /// What is sent.
    pub release: ReleaseRequest,
    pub(super) slot: Option<u32>,
    pub(super) machine: PendingRelease<AttemptId>,
}

/// What a client's move may touch besides the client.
pub(super) struct World<'a> {
    pub(super) clock: u8,
    pub(super) rules: Rules,
    pub(super) caches: bool,
    pub(super) cache_bug: Option<CacheBug>,
    /// The ttl of the client's leases.
    pub(super) ttl: u8,
    /// The limit that it expects.
    pub(super) limit: u32,
    pub(super) polls: bool,
    /// A token is used out of order only if leases end early.
    pub(super) in_order: bool,
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

    /// A holder begins to use its token.
    pub(super) fn uses(&mut self, holding: &Holding) {
        let token = holding.tokens.token().get();
        let reads = holding.want == Want::Read;
        self.history.uses(&holding.slots, token, reads, self.in_order);
    }

    pub(super) fn terms(&self) -> Terms {
        let ttl = TICK * u32::from(self.ttl);
        Terms { ttl, renew_after: Some(ttl / 3), max_hold: None, session: false }
    }
}

impl Client {
    pub(super) fn new(id: u8) -> Self {
        Self {
            id,
            role: usize::from(id),
            up: true,
            replaced: false,
            link: Link::Up,
            begun: 0,
            attempts: 0,
            phases: Vec::new(),
            endings: Vec::new(),
        }
    }

    /// Where the phase is that is about this attempt.
    pub(super) fn find(&self, attempt: AttemptId) -> Option<usize> {
        self.phases.iter().position(|phase| phase.is_about(attempt))
    }

    /// It knows of this attempt and will do something about it.
    pub(super) fn tracks(&self, attempt: AttemptId) -> bool {
        let ends = |ending: &SentRelease| ending.release.attempt == attempt;
        self.up && (self.find(attempt).is_some() || self.endings.iter().any(ends))
    }

    /// The guards that say that they are valid.
    pub(super) fn guards(&self, clock: u8) -> impl Iterator<Item = &Holding> {
        let valid = move |holding: &&Holding| !holding.cached && holding.lease.is_valid(now(clock));
        let up = self.up;
        self.phases.iter().filter_map(Phase::holding).filter(move |holding| up && valid(holding))
    }

    /// The attempts whose requests it waits for an answer to.
    pub(super) fn unanswered(&self) -> impl Iterator<Item = AttemptId> {
        let asked = self.phases.iter().filter_map(|phase| match phase {
            Phase::Waiting(waiting) => {
                waiting.pending.is_asking().then(|| waiting.pending.attempt())
            }
            Phase::Holding(holding) => holding.renewing.map(|_| holding.attempt),
            Phase::Converting(one) => one.conversion.is_asking().then(|| one.conversion.next()),
        });
        self.endings.iter().map(|ending| ending.release.attempt).chain(asked)
    }

    /// A task waits to write.
    pub(super) fn has_waiting_writer(&self) -> bool {
        self.phases.iter().any(|phase| match phase {
            Phase::Waiting(waiting) => waiting.want() == Want::Write,
            _ => false,
        })
    }

    pub(super) fn new_attempt(&mut self) -> AttemptId {
        self.attempts += 1;
        attempt(self.id, self.attempts)
    }

    pub(super) fn send(&self, world: &mut World<'_>, call: Call) {
        let sent = if matches!(call, Call::End(..)) { 0 } else { world.clock };
        world.network.insert(Message::Request { from: self.id, sent, late: false, call });
    }

    /// Ends an attempt in the background. Requests for it may still arrive; answers are not read.
    pub(super) fn end(
        &mut self,
        world: &mut World<'_>,
        release: ReleaseRequest,
        slot: Option<u32>,
    ) {
        world.no_answer(self.id, release.attempt);
        self.send(world, Call::End(release, slot));
        self.endings.push(SentRelease { release, slot, machine: PendingRelease::new(None) });
    }

    /// Asks for the attempt that waits.
    pub(super) fn ask(&mut self, world: &mut World<'_>, at: usize) {
        let Some(Phase::Waiting(waiting)) = self.phases.get_mut(at) else { return };
        waiting.pending.handle_sent();
        waiting.sent = world.clock;
        let call = Call::Acquire(waiting.pending.attempt(), waiting.want(), world.limit);
        self.send(world, call);
    }

    /// Begins a lease. One that has ended already is given back, and its task asks again.
    pub(super) fn hold(
        &mut self,
        world: &mut World<'_>,
        at: usize,
        (granted, slots): (Granted, Vec<u32>),
        sent: Now,
    ) {
        let Some(Phase::Waiting(Waiting { pending, task, .. })) = self.phases.get(at) else {
            return;
        };
        let task = *task;
        let Ok(lease) = granted.lease(sent, world.now(), world.terms(), 0, world.rules) else {
            self.end_waiting(world, at);
            return self.start(world, task);
        };
        let (attempt, suspect) = (pending.attempt(), pending.is_suspect());
        let want = task.want();
        let (tokens, wanted) = (want.tokens(granted.tokens), granted.wanted);
        let shared = (want == Want::Read)
            .then(|| SharedRead::new(attempt, tokens.token(), wanted, suspect, world.rules));
        let offered = granted.offer;
        let holding = Holding {
            attempt,
            want,
            task,
            tokens,
            slots,
            lease,
            shared,
            cached: false,
            offered,
            suspect,
            renewing: None,
        };
        world.uses(&holding);
        self.phases[at] = Phase::Holding(holding);
    }

    /// Ends the attempt that waits.
    pub(super) fn end_waiting(&mut self, world: &mut World<'_>, at: usize) {
        let Phase::Waiting(Waiting { pending, .. }) = self.phases.remove(at) else { return };
        if let Some(release) = pending.end() {
            self.end(world, release, None);
        }
    }

    /// Begins to acquire for a task.
    pub(super) fn start(&mut self, world: &mut World<'_>, task: Use) {
        let pending = PendingAttempt::new(self.new_attempt(), world.rules);
        self.phases.push(Phase::Waiting(Waiting {
            pending,
            task,
            sent: 0,
            mail: Mail::default(),
            slots: Vec::new(),
            reference: None,
        }));
        self.ask(world, self.phases.len() - 1);
    }
}

impl World<'_> {
    /// The client does not wait for answers about the attempt any more.
    pub(super) fn no_answer(&mut self, client: u8, about: AttemptId) {
        let waits = |message: &Message| match message {
            Message::Request { from, late, call, .. } => {
                *from == client && !late && call.attempt() == about
            }
            Message::Reply { to, attempt, .. } => *to == client && *attempt == about,
            Message::Push { .. } => false,
        };
        let given_up: Vec<Message> =
            self.network.iter().filter(|message| waits(message)).cloned().collect();
        for message in given_up {
            self.network.remove(&message);
            if let Message::Request { from, call, .. } = message {
                // When it was sent does not matter any more.
                self.network.insert(Message::Request { from, sent: 0, late: true, call });
            }
        }
    }
}

impl Want {
    /// The tokens that are granted for it: the readers of a phase share one.
    pub(super) fn tokens(self, granted: TokenBlock) -> HeldTokens {
        match self {
            Self::Read => HeldTokens::of_readers(granted.base()),
            _ => HeldTokens::new(granted),
        }
    }
}

impl Use {
    pub(super) fn want(self) -> Want {
        match self {
            Self::Hold(want) => want,
            Self::Downgrade => Want::Write,
            Self::Upgrade => Want::Read,
        }
    }
}

impl Phase {
    fn holding(&self) -> Option<&Holding> {
        if let Self::Holding(holding) = self { Some(holding) } else { None }
    }

    fn is_about(&self, attempt: AttemptId) -> bool {
        match self {
            Self::Waiting(waiting) => waiting.pending.attempt() == attempt,
            Self::Holding(holding) => holding.attempt == attempt,
            Self::Converting(one) => {
                one.from.attempt == attempt || one.conversion.next() == attempt
            }
        }
    }
}

impl Waiting {
    pub(super) fn want(&self) -> Want {
        self.task.want()
    }

    /// Asks at this time at the latest.
    pub(super) fn poll(&mut self, world: &World<'_>) {
        if world.polls {
            self.pending.ask_by(Deadline::after(world.now(), TICK));
        }
    }
}

impl Holding {
    /// How its holder gives it back.
    pub(super) fn end(&self, rules: Rules) -> ReleaseRequest {
        match &self.shared {
            Some(shared) => shared.end(),
            None => self.tokens.end(self.attempt, self.suspect, None, rules),
        }
    }

    /// A reader learns that others wait.
    pub(super) fn handle_wanted(&mut self) {
        if let Some(shared) = &mut self.shared {
            shared.handle_wanted();
        }
    }

    /// How long its readers stay depends on whether others wait.
    pub(super) fn is_shut(&self) -> bool {
        self.shared.as_ref().is_none_or(SharedRead::is_shut)
    }
}
