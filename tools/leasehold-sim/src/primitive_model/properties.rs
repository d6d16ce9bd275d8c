//! What must hold in every state.

use leasehold_proto::AttemptId;
use stateright::Property;

use super::ids::client_of;
use super::{Broken, Fault, Holding, Message, Primitive, Push, Setup, State};

/// The names of the properties.
pub mod names {
    /// No reader beside a writer, no two writers, no slot twice.
    pub const EXCLUSION: &str = "valid guards do not contradict each other";
    /// The record has each valid lease.
    pub const BACKED: &str = "the record has every valid lease, for as long";
    /// Tokens are unique.
    pub const UNIQUE: &str = "no token is used twice";
    /// Tokens grow.
    pub const ORDER: &str = "tokens grow";
    /// An ended attempt is gone.
    pub const ENDED: &str = "an ended attempt owns nothing and does not wait";
    /// Nothing is left behind.
    pub const ORPHAN: &str = "no lease or waiter without a client behind it";
    /// Verdicts are true.
    pub const VERDICT: &str = "a release returns the true verdict";
    /// Only the caller's lease changes.
    pub const PROLONGED: &str = "no attempt prolongs the lease of another";
    /// Steps are short.
    pub const WORK: &str = "a step sends a bounded number of messages";
    /// Waiters are served in order.
    pub const OVERTAKEN: &str = "no waiter is overtaken";
    /// The limit is kept.
    pub const LIMIT: &str = "no grant exceeds the limit";
    /// A change of the limit stays.
    pub const UNDONE: &str = "no change of the limit is undone";
    /// A downgrade lets no writer in.
    pub const DOWNGRADE: &str = "a downgrade lets no writer in";
    /// Waiters are served in time.
    pub const SETTLES: &str = "all who wait are served within the bound";
}

/// The properties that a run checks, and what must be seen in one, so that it is not empty.
pub(super) fn all<P: Primitive>(setup: &Setup<P>) -> Vec<Property<Setup<P>>> {
    use names::*;
    let mut all = vec![
        Property::<Setup<P>>::always(UNIQUE, |_, state| not(state, Broken::Duplicate)),
        Property::always(ORDER, |_, state| not(state, Broken::Order)),
        Property::always(PROLONGED, |_, state| not(state, Broken::Prolonged)),
        Property::always(WORK, |_, state| not(state, Broken::Work)),
        Property::always(OVERTAKEN, |_, state| not(state, Broken::Overtaken)),
        Property::always(LIMIT, |_, state| not(state, Broken::Limit)),
        Property::always(SETTLES, |setup, state: &State<P>| state.ticks_to_settle(setup).is_some()),
        Property::sometimes("several tokens are used", |_, state: &State<P>| {
            state.history.used() > 1
        }),
    ];
    if setup.is_good() {
        all.push(Property::always(EXCLUSION, exclusive));
        all.push(Property::always(BACKED, backed));
        all.push(Property::always(DOWNGRADE, |_, state| not(state, Broken::Downgrade)));
    }
    if setup.caches {
        let taken = |_: &Setup<P>, state: &State<P>| state.history.taken;
        all.push(Property::sometimes("a task takes a cached lease", taken));
    }
    if !setup.changes.is_empty() {
        all.push(Property::always(UNDONE, limit_stays));
    }
    // A request that is repeated without the client's knowledge may leave a lease to its ttl. A
    // server that has lost data has lost the ends of attempts too.
    if !setup.may(Fault::Repeat) && !setup.may(Fault::Wipe) {
        all.push(Property::always(VERDICT, |_, state| not(state, Broken::Verdict)));
        all.push(Property::always(ENDED, ended_owns_nothing));
        all.push(Property::always(ORPHAN, somebody_behind));
    }
    all
}

fn not<P: Primitive>(state: &State<P>, broken: Broken) -> bool {
    state.history.broken != Some(broken)
}

fn guards<P: Primitive>(state: &State<P>) -> impl Iterator<Item = &Holding> {
    state.clients.iter().flat_map(|client| client.guards(state.clock))
}

fn exclusive<P: Primitive>(_: &Setup<P>, state: &State<P>) -> bool {
    let all: Vec<&Holding> = guards(state).collect();
    let collides = |(at, one): (usize, &&Holding)| all[..at].iter().any(|two| P::collide(one, two));
    !all.iter().enumerate().any(collides)
}

/// The server does not end a lease before its holder's deadline.
fn backed<P: Primitive>(_: &Setup<P>, state: &State<P>) -> bool {
    let leases = P::leases(&state.record, state.now());
    guards(state).all(|own| {
        let until = own.lease.deadline().map_or(u64::MAX, |deadline| deadline.steady_ns());
        leases.iter().any(|lease| {
            let same = lease.attempt == own.attempt && lease.base == own.tokens.base().get();
            same && lease.until_ns >= until && lease.slots == own.slots
        })
    })
}

fn ended_owns_nothing<P: Primitive>(_: &Setup<P>, state: &State<P>) -> bool {
    known(state).all(|attempt| !state.history.ended.contains(&attempt))
}

/// The attempts that the record knows.
fn known<P: Primitive>(state: &State<P>) -> impl Iterator<Item = AttemptId> {
    let leases = P::leases(&state.record, state.now()).into_iter().map(|lease| lease.attempt);
    leases.chain(P::queue(&state.record).into_iter().map(|(attempt, _)| attempt))
}

/// A client that runs knows what it has, or a push tells it. What a crashed client has lapses.
fn somebody_behind<P: Primitive>(_: &Setup<P>, state: &State<P>) -> bool {
    known(state).all(|known| {
        let client = &state.clients[usize::from(client_of(known))];
        let tells = |message: &Message| match message {
            Message::Push { attempt, push, .. } => {
                *attempt == known && matches!(push, Push::Granted { .. } | Push::Wanted)
            }
            _ => false,
        };
        !client.up || client.tracks(known) || state.network.iter().any(tells)
    })
}

/// The last change that was answered is the limit, until the operator asks for another.
fn limit_stays<P: Primitive>(setup: &Setup<P>, state: &State<P>) -> bool {
    let done = state.operator.done;
    state.operator.asking || done == 0 || P::limit(&state.record) == Some(setup.changes[done - 1])
}
