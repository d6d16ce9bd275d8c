//! What must hold in every state, and what must be seen in every run, so that it is not empty.

use leasehold_proto::quorum::majority;
use stateright::Property;

use super::client::Attempt;
use super::{Client, Setup, State};

/// Not guaranteed when leases end before their time.
pub const EXCLUSION: &str = "at most one valid guard";
/// Two attempts never hold the same token, whatever the clocks do.
pub const UNIQUE: &str = "no token is used twice";
/// An attempt that begins after another held has the larger token, whatever the clocks do.
pub const ORDER: &str = "tokens grow";
/// A valid guard's lease is on a majority, or on nodes that forgot it and may not vote.
pub const EVIDENCE: &str = "a majority stands behind every valid guard";

pub(super) fn all(setup: &Setup) -> Vec<Property<Setup>> {
    let mut all = vec![
        Property::always(UNIQUE, |_, state: &State| !state.duplicate),
        Property::always(ORDER, |_, state: &State| !state.disorder),
    ];
    if setup.clients * setup.attempts > 1 {
        all.push(Property::sometimes("two attempts hold the lock", |_, state: &State| {
            state.tokens.len() > 1
        }));
    }
    if setup.expiries == 0 {
        all.push(Property::always(EXCLUSION, exclusive));
        all.push(Property::always(EVIDENCE, has_evidence));
    }
    if setup.proposals > 1 {
        all.push(Property::sometimes("a token is committed", |_, state: &State| state.committed));
    }
    if setup.maintenance.inits > 0 && setup.forgets > 0 && setup.bug.is_none() {
        all.push(Property::sometimes("an init is refused", |_, state: &State| state.refused));
    }
    if setup.maintenance.after_loss > 0 && setup.forgets > 1 {
        all.push(Property::sometimes("nodes vote after a loss", |_, state: &State| {
            let votes = |at: &usize| state.keeper.process(*at).is_some();
            state.forgot.len() > 1 && state.forgot.iter().all(votes)
        }));
    }
    let forgets = setup.forgets + setup.maintenance.returns;
    if forgets > 0 && setup.bug.is_none() && setup.ticks > 2 {
        all.push(Property::sometimes("a node that forgot votes again", |_, state: &State| {
            state.forgot.iter().any(|node| {
                state.keeper.process(*node).is_some_and(|process| {
                    state.nodes.get(*node).is_some_and(|node| node.high(process).is_ok())
                })
            })
        }));
    }
    all
}

fn exclusive(_: &Setup, state: &State) -> bool {
    state.clients.iter().filter(|client| believes(state, client)).count() <= 1
}

fn has_evidence(setup: &Setup, state: &State) -> bool {
    state.clients.iter().filter(|client| believes(state, client)).all(|client| {
        let leases = client.guard.map_or(0, |guard| state.leases(guard.attempt));
        let known = client.attempt.as_ref().map_or(0, Attempt::evidence);
        let needed = majority(usize::from(setup.nodes));
        leases + state.forgot.len() >= needed && known >= needed
    })
}

/// The client's guard is valid, and no operator has ended its lease by force.
fn believes(state: &State, client: &Client) -> bool {
    let forced = client.guard.is_some_and(|guard| state.forced.contains(&guard.attempt));
    client.is_valid(state.clock) && !forced
}
