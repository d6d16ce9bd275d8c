//! Redlock with tokens and admission: clients, independent nodes that may forget, and a network
//! that delays, loses and repeats.
//!
//! Nodes, attempts and admission are the real ones, `leasehold_proto::quorum`. A message that is
//! never delivered is lost, and a client's time limit may end at any moment. Clients and nodes
//! count time in ticks of one second. The wall clock does not advance, since the floor that it
//! gives to tokens would hide errors.

mod actions;
mod bugs;
mod client;
mod keeper;
mod maintenance;
mod properties;
pub mod runs;
mod state;
mod upkeep;

use std::time::Duration;

use leasehold_proto::Now;
use stateright::{Model, Property};

pub use actions::Action;
pub use bugs::Bug;
pub use client::{Client, Guard};
pub use keeper::Keeper;
pub use maintenance::Maintenance;
pub use properties::{EVIDENCE, EXCLUSION, ORDER, UNIQUE};
pub use state::{Message, State};
pub use upkeep::Upkeep;

/// The ttl of every lease, and the longest that nodes grant.
pub const TTL: Duration = Duration::from_secs(2);
/// How long a node is waited for: less than a tick.
pub const LIMIT: Duration = Duration::from_millis(10);

/// The clients' clock, and the nodes' unless one was moved, at a tick.
pub(crate) fn at(tick: u8) -> Now {
    Now { steady_ns: u64::from(tick) * 1_000_000_000, wall_ns: 0 }
}

/// What is let happen in a run of the model: the bound of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// How many nodes.
    pub nodes: u8,
    /// How many clients.
    pub clients: u8,
    /// How many attempts each may make.
    pub attempts: u8,
    /// How often each holder may renew.
    pub renewals: u8,
    /// The proposed tokens are chosen from 1 up to here.
    pub proposals: u8,
    /// How far time goes, in ticks.
    pub ticks: u8,
    /// How many leases may end before their time, each time all of one node. Exclusion is not
    /// promised then.
    pub expiries: u8,
    /// How many nodes may forget.
    pub forgets: u8,
    /// How many requests may arrive twice.
    pub repeats: u8,
    /// Nodes that no request ever reaches, from the last one down.
    pub down: u8,
    /// What people do to the nodes, and how often.
    pub maintenance: Maintenance,
    /// Clients wait for ever for replies, and a node's loss is noticed at once: fewer states.
    pub patient: bool,
    /// What is wrong with the protocol, if anything.
    pub bug: Option<Bug>,
}

impl Model for Setup {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(self)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions::enabled(self, state, actions);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        state.apply(self, &action);
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all(self)
    }
}
