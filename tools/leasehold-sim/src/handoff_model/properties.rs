//! What must hold in every state, each with where the promise comes from.

use leasehold_proto::handoff::{State as Taken, TOKEN_LEAD};
use stateright::Property;

use super::attempt_id::client_of;
use super::server::at;
use super::{Broken, Client, Message, Phase, Setup, State, TTL, client};

const EXCLUSION: &str = "at most one valid guard";
const UNIQUE: &str = "no token is used twice";
const ORDER: &str = "tokens grow";
const ENDED: &str = "an ended attempt owns nothing";
const ORPHAN: &str = "no lease without a client behind it";
const TTL_BOUND: &str = "no lease outlives its ttl";
const VERDICT: &str = "a release returns the true verdict";
const QUEUE: &str = "no waiter without a client behind it";
const REACHED: &str = "the lease is handed to those who can be reached";
const FIRST: &str = "the first in line asks by the end of the lease";
const WAITER: &str = "no waiter is lost";
const CACHED: &str = "a cached lease is given back to those who wait";
const LEAD: &str = "tokens stay near the clock";

/// The properties' names, in the order of the documents.
pub const NAMES: [&str; 13] = [
    EXCLUSION, UNIQUE, ORDER, ENDED, ORPHAN, TTL_BOUND, VERDICT, QUEUE, REACHED, FIRST, WAITER,
    LEAD, CACHED,
];

/// Those that are promised under good timing only.
pub const GOOD_TIMING_ONLY: [&str; 1] = [EXCLUSION];

/// The properties that a run checks, and what must be seen in one, so that it is not empty.
pub(super) fn all(setup: &Setup) -> Vec<Property<Setup>> {
    let mut all = vec![
        Property::always(UNIQUE, |_, state| not(state, Broken::Duplicate)),
        Property::always(ORDER, |_, state| not(state, Broken::Order)),
        Property::always(REACHED, |_, state| not(state, Broken::Unreached)),
        Property::always(TTL_BOUND, ends_by_its_ttl),
        Property::always(WAITER, |setup, state: &State| state.settles(setup)),
        Property::sometimes("the lock passes to another client", |_, state: &State| {
            state.history.used() > 1
        }),
        Property::sometimes("a waiter takes an offer", |_, state: &State| {
            let offered = |client: &Client| match &client.phase {
                Phase::Holding(holding) => holding.offered,
                _ => false,
            };
            state.clients.iter().any(offered)
        }),
    ];
    if setup.upkeep.reads_clock() && setup.upkeep.ahead == 0 {
        all.push(Property::always(LEAD, near_the_clock));
    }
    if !setup.bad_timing && !setup.upkeep.loses() {
        all.push(Property::always(EXCLUSION, exclusive));
    }
    if setup.caches {
        all.push(Property::sometimes("a task takes a cached lease", |_, state: &State| {
            let took = |client: &Client| match &client.phase {
                Phase::Holding(holding) => {
                    !holding.cached && holding.tokens.token() > holding.tokens.base()
                }
                _ => false,
            };
            state.clients.iter().any(took)
        }));
    }
    if setup.caches && setup.faults == 0 && !setup.upkeep.loses() {
        all.push(Property::always(CACHED, cached_from_nobody));
    }
    if setup.timers {
        all.push(Property::always(FIRST, first_asks_in_time));
    }
    // A silent repetition of a request is the only event that can leave a lease to its ttl. No
    // client receives the result of a release of such a lease. A server that has lost data has also
    // lost the ends of attempts.
    if !setup.silent && !setup.upkeep.loses() {
        all.push(Property::always(VERDICT, |_, state| not(state, Broken::Verdict)));
        all.push(Property::always(ENDED, ended_owns_nothing));
        all.push(Property::always(ORPHAN, somebody_behind_the_lease));
        all.push(Property::always(QUEUE, somebody_behind_the_waiter));
    }
    all
}

fn not(state: &State, broken: Broken) -> bool {
    state.history.broken != Some(broken)
}

/// The promise of every lock. Under good timing only: elsewhere the token protects. An operator who
/// ends a lease by force does so before its holder learns of it.
fn exclusive(_: &Setup, state: &State) -> bool {
    let forced = |client: &Client| match &client.phase {
        Phase::Holding(own) => state.history.forced.contains(&own.tokens.base().get()),
        _ => false,
    };
    let valid = |client: &&Client| client.is_valid(state.clock) && !forced(client);
    state.clients.iter().filter(valid).count() <= 1
}

/// A client that caches a lease is notified of those who wait. A message on its way may still notify it.
fn cached_from_nobody(_: &Setup, state: &State) -> bool {
    let Some((holder, _)) = state.holder().filter(|_| state.server.record.waiters().len() > 0)
    else {
        return true;
    };
    let keeps = |client: &Client| {
        let cached = |holding: &super::Holding| holding.cached && holding.attempt == holder;
        client.up && matches!(&client.phase, Phase::Holding(holding) if cached(holding))
    };
    !state.clients.iter().any(keeps) || state.network.iter().any(|one| one.concerns(holder))
}

/// The highest token is at most this far ahead of the server's clock, whatever was reserved and not
/// used. So a server that was away for longer grants higher tokens after it has lost its data.
fn near_the_clock(_: &Setup, state: &State) -> bool {
    let top = state.server.record.top().map_or(0, |top| top.get());
    top <= state.wall_us() + u64::from(TOKEN_LEAD)
}

/// "An acquire that arrives after its own release is refused", and a renewal brings nothing back.
fn ended_owns_nothing(_: &Setup, state: &State) -> bool {
    let holder = state.holder();
    holder.is_none_or(|(attempt, _)| !state.history.ended.contains(&attempt))
}

/// A client that runs releases whatever it was granted, also what it does not want any more.
fn somebody_behind_the_lease(_: &Setup, state: &State) -> bool {
    let holder = state.holder();
    holder.is_none_or(|(attempt, _)| stands_behind(state, attempt))
}

/// The line is as long as there are attempts that wait, or will be taken out.
fn somebody_behind_the_waiter(_: &Setup, state: &State) -> bool {
    state.server.record.waiters().all(|waiter| stands_behind(state, waiter.attempt))
}

/// The first waiter counts on the lease that it waits for, not on an earlier lease that might have
/// lasted for hours. A message on its way may still notify it.
fn first_asks_in_time(_: &Setup, state: &State) -> bool {
    let now = at(state.server_time);
    let record = &state.server.record;
    let (Some(first), false) = (record.waiters().next(), record.state(now) == Taken::Free) else {
        return true;
    };
    let client = state.clients.get(usize::from(client_of(first.attempt)));
    let Some(Phase::Waiting(waiting)) = client.map(|client| &client.phase) else { return true };
    let pending = waiting.pending();
    let attempt = pending.attempt();
    if pending.is_asking() || pending.is_in_exchange() {
        return true;
    }
    let told = state.network.iter().any(|message| message.concerns(attempt));
    let left = record.remaining(now).as_secs() / super::TICK.as_secs();
    let ends = client::now(state.clock + left as u8);
    attempt != first.attempt || told || pending.is_due(ends)
}

/// A client knows the attempt, or will receive it, or has crashed.
fn stands_behind(state: &State, attempt: leasehold_proto::AttemptId) -> bool {
    let client = state.clients.get(usize::from(client_of(attempt)));
    client.is_some_and(|client| !client.up || client.tracks(attempt))
        || state.network.iter().any(|message: &Message| message.concerns(attempt))
}

/// A crashed client's lease is over after a ttl.
fn ends_by_its_ttl(_: &Setup, state: &State) -> bool {
    let now = at(state.server_time);
    state.server.record.state(now) == Taken::Free
        || state.server.record.remaining(now) <= super::TICK * u32::from(TTL)
}
