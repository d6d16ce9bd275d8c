//! What the models of the primitives beside the lock have in common: the clients, the network, time
//! and the faults. [`semaphore_model`](crate::semaphore_model) and
//! [`read_write_model`](crate::read_write_model) add the record of the server and its promises.
//!
//! The records are those of `leasehold_proto`, and the clients decide with the machines of
//! `leasehold_proto::client`. Time is counted in ticks of [`TICK`]. A message is delayed by not
//! delivering it.

mod actions;
mod caching;
mod client;
mod hearing;
mod history;
mod ids;
mod moves;
mod network;
mod properties;
mod reading;
mod settle;
mod state;

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Duration;

use leasehold_proto::client::SLOW_POLL;
use leasehold_proto::{AttemptId, Now, client as machines};
use stateright::{Model, Property};

pub use actions::Action;
pub use client::{Client, Converting, Holding, Link, Phase, SentRelease, Waiting};
pub use history::{Broken, History};
pub use network::{Answer, Call, Message, Push, Want};
pub use properties::names;
pub use state::{Operator, State};

pub use crate::handoff_model::runs::Size;

/// One tick: the interval at which a waiter asks again. A lease lasts for two ticks, and an offer
/// ends within one.
pub const TICK: Duration = SLOW_POLL;
/// The ttl of leases, in ticks, unless a run says otherwise.
pub const TTL: u8 = 2;

/// How a record reaches the clients.
pub type Reach<'a> = &'a mut dyn FnMut(AttemptId, Push) -> bool;

/// What a task of a client does with the primitive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Use {
    /// It acquires, holds and releases.
    Hold(Want),
    /// It writes, makes itself a reader, and releases.
    Downgrade,
    /// It reads, tries to make itself a writer, and releases.
    Upgrade,
}

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The time limit of a request passes: the request or its answer is lost, or the request arrives
    /// later.
    TimeLimit,
    /// A subscription ends. The server may notice, or not.
    Cut,
    /// A client crashes. The server may notice the end of its subscription, or not.
    Crash,
    /// A crashed client is started again, as another client.
    Restart,
    /// A task stops waiting.
    Leave,
    /// A push is lost.
    LostPush,
    /// A request is repeated by something that the client does not know of.
    Repeat,
    /// The server's clock jumps ahead by a ttl.
    Early,
    /// The server restarts without its data.
    Wipe,
}

/// A rule about cached leases that a client breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CacheBug {
    /// A task takes a lease after its release was sent.
    TakenAfterItsEnd,
    /// The client keeps a lease when it is notified of a writer.
    KeptThoughWanted,
    /// The client renews a lease that no task holds, and takes no notice of writers.
    RenewedBlindly,
    /// The client keeps a lease while a writer of its own asks.
    KeptFromOwnWriter,
}

/// How long holders stay when nothing goes wrong any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stay {
    /// They release at once.
    No,
    /// Readers stay, and others join them, until they learn that a writer waits.
    UntilWanted,
    /// Readers, and holders of permits, stay for ever.
    ForEver,
}

/// A lease in the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The attempt that holds it.
    pub attempt: AttemptId,
    /// Its first token.
    pub base: u64,
    /// When it ends.
    pub until_ns: u64,
    /// Its holder has confirmed it.
    pub confirmed: bool,
    /// The slots of a permit.
    pub slots: Vec<u32>,
    /// What it was acquired for.
    pub want: Want,
}

/// The record of one primitive, as the model drives it.
pub trait Primitive: Copy + Debug + PartialEq + Eq + Hash + Send + Sync + 'static {
    /// The bugs that can be planted in the record.
    type Bug: Copy + Debug + PartialEq + Send + Sync + 'static;
    /// The record.
    type Record: Clone + Debug + PartialEq + Eq + Hash + Send + Sync;
    /// The most messages that one step may send.
    const MOST_PUSHES: usize;

    /// Returns the record at the beginning.
    fn record(setup: &Setup<Self>) -> Self::Record;
    /// Carries out a request. `ttl`: of the lease that the request asks for.
    fn carry_out(
        record: &mut Self::Record,
        now: Now,
        call: &Call,
        ttl: Duration,
        reach: Reach<'_>,
    ) -> Answer;
    /// Returns the leases that have not expired.
    fn leases(record: &Self::Record, now: Now) -> Vec<Lease>;
    /// Returns the attempts in the queue, in the order in which they came.
    fn queue(record: &Self::Record) -> Vec<(AttemptId, Want)>;
    /// Returns true if a step has left waiters to another step.
    fn has_more(record: &Self::Record, now: Now) -> bool;
    /// Returns the promise that a step has broken, if any. `lives`: its client has not crashed.
    fn judge(
        history: &mut History,
        before: (&Self::Record, &[Lease]),
        after: (&Self::Record, &[Lease]),
        now: Now,
        step: (&Call, &Answer),
        lives: &dyn Fn(AttemptId) -> bool,
    ) -> Option<Broken>;
    /// Returns true if all who wait do so for a living client that stays for ever.
    fn waits_for_the_living(
        record: &Self::Record,
        now: Now,
        lives: &dyn Fn(AttemptId) -> bool,
    ) -> bool;
    /// Returns the stored limit of a semaphore.
    fn limit(_record: &Self::Record) -> Option<u32> {
        None
    }
    /// Returns true if two valid guards contradict each other.
    fn collide(one: &Holding, other: &Holding) -> bool;
}

/// What is let happen in a run: the bound of the search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setup<P: Primitive> {
    /// What the tasks of each client do, one after the other.
    pub clients: &'static [&'static [Use]],
    /// The tasks of a client begin independently of each other.
    pub concurrent: bool,
    /// How many faults may happen.
    pub faults: u8,
    /// Of which kinds.
    pub kinds: &'static [Fault],
    /// The clients before this one neither crash nor are cut off.
    pub first_to_fail: usize,
    /// How far time goes, in ticks.
    pub ticks: u8,
    /// How long all who wait are served within, in ticks, once nothing goes wrong any more.
    pub bound: u8,
    /// Holders stay.
    pub stay: Stay,
    /// Clients keep a read lease after its last reader, for their next one.
    pub caches: bool,
    /// Waiters ask again after a tick, whatever the answer says.
    pub polls: bool,
    /// After how many ticks without a request a waiter leaves the queue; 0: never. A semaphore has
    /// its own rule.
    pub waiter_lease: u8,
    /// Clients do not go on where the answer to an end says that waiters are left to another step.
    pub mute: bool,
    /// The ttl of each client, in ticks; [`TTL`] for clients that are not in the list.
    pub ttls: &'static [u8],
    /// The limit of a semaphore.
    pub limit: u32,
    /// The limits that an operator sets, one after the other.
    pub changes: &'static [u32],
    /// What is wrong with the record.
    pub record_bug: Option<P::Bug>,
    /// What is wrong with the clients.
    pub client_bug: Option<machines::Bug>,
    /// What is wrong with cached leases.
    pub cache_bug: Option<CacheBug>,
}

/// One run.
#[derive(Clone, Copy, Debug)]
pub struct Run<P: Primitive> {
    /// What the table calls it.
    pub name: &'static str,
    /// What it costs.
    pub size: Size,
    /// Its bound.
    pub setup: Setup<P>,
}

impl<P: Primitive> Setup<P> {
    /// No client, no fault, no time.
    pub const PLAIN: Self = Self {
        clients: &[],
        concurrent: false,
        faults: 0,
        kinds: &[],
        first_to_fail: 0,
        ticks: 0,
        bound: 0,
        stay: Stay::No,
        caches: false,
        polls: false,
        waiter_lease: 0,
        mute: false,
        ttls: &[],
        limit: 1,
        changes: &[],
        record_bug: None,
        client_bug: None,
        cache_bug: None,
    };

    pub(crate) fn may(&self, fault: Fault) -> bool {
        self.kinds.contains(&fault)
    }

    pub(crate) fn ttl(&self, role: usize) -> u8 {
        self.ttls.get(role).copied().unwrap_or(TTL)
    }

    /// The clocks of the clients and of the server agree, and no data is lost.
    pub(crate) fn is_good(&self) -> bool {
        !self.may(Fault::Early) && !self.may(Fault::Wipe)
    }
}

impl<P: Primitive> Model for Setup<P> {
    type State = State<P>;
    type Action = Action;

    fn init_states(&self) -> Vec<State<P>> {
        vec![State::new(self)]
    }

    fn actions(&self, state: &State<P>, actions: &mut Vec<Action>) {
        actions::enabled(self, state, actions);
    }

    fn next_state(&self, last: &State<P>, action: Action) -> Option<State<P>> {
        let mut state = last.clone();
        state.apply(self, &action);
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all(self)
    }
}
