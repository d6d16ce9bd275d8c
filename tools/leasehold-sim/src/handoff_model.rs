//! The hand-off protocol: clients and one server's record, over a network that loses, repeats,
//! delays and reorders, with clients that crash, pause and give up.
//!
//! The record is the real one, `leasehold_proto::handoff`, and the clients decide with the machines of
//! `leasehold_proto::client`, as the library does. Time is counted in ticks of one second; a client is paused by letting it do
//! nothing while time passes, and a message is delayed by not delivering it.

mod actions;
mod attempt_id;
mod bugs;
mod client;
mod hearing;
mod history;
mod moves;
mod network;
mod properties;
pub mod runs;
mod server;
mod settle;
mod state;
mod upkeep;

use std::time::Duration;

use leasehold_proto::handoff::OFFER;
use stateright::{Model, Property};

pub use actions::Action;
pub use bugs::Bug;
pub use client::{Client, Holding, Phase, SentRelease, Waiting};
pub use history::{Broken, Fate, History};
pub use network::{Answered, Call, Message};
pub use properties::{GOOD_TIMING_ONLY, NAMES};
pub use server::{Record, Server};
pub use state::State;
pub use upkeep::{Operation, Upkeep};

/// The ttl of leases, in ticks, unless a run is about timers.
pub const TTL: u8 = 3;
/// One tick.
pub const TICK: Duration = Duration::from_secs(1);
/// How long an offer lasts, in ticks.
pub const OFFER_TICKS: u8 = OFFER.as_secs() as u8;

/// What is let happen in a run of the model: the bound of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// How many clients.
    pub clients: u8,
    /// How many attempts each may make, rotations included.
    pub attempts: u32,
    /// How many faults may happen: a message lost or repeated, a time limit that was too short, a
    /// client crashed or cut off from its pushes, the server's clock ahead.
    pub faults: u8,
    /// How far time goes, in ticks.
    pub ticks: u8,
    /// How many tokens a grant reserves; more than one lets holders pass the lock on in memory.
    pub block: u32,
    /// The server's clock may jump, so that leases end before their holders' validity.
    pub bad_timing: bool,
    /// Requests may be repeated by something that the client does not know of.
    pub silent: bool,
    /// Clients may give up waiting.
    pub waiters_leave: bool,
    /// Holders may exchange their lease for a new attempt.
    pub rotate: bool,
    /// They do it for the next waiter of their process: the exchange continues in the background,
    /// and the task that it asks for may leave its attempt to another task. Both count as attempts.
    pub local_queue: bool,
    /// The tasks of a process ask for different terms, and time may pass before one takes over the
    /// lease that another has passed on. A task that leaves ends its attempt, and the server may
    /// refuse an exchange as a whole.
    pub tasks: bool,
    /// Nothing is delayed, and the second client's leases last one tick only: the run is about
    /// when waiters ask again by themselves.
    pub timers: bool,
    /// While a message is on its way nothing else happens, but that a client gives up: the run is
    /// about what is granted in which order, with more attempts than others.
    pub prompt: bool,
    /// Clients may keep a lease that no task holds, for their next task.
    pub caches: bool,
    /// Which maintenance happens beside the load.
    pub upkeep: Upkeep,
    /// What is wrong with the protocol, if anything.
    pub bug: Option<Bug>,
}

impl Default for Setup {
    /// Two clients, two attempts each, one fault, and a protocol without bugs.
    fn default() -> Self {
        Self {
            clients: 2,
            attempts: 2,
            faults: 1,
            ticks: 4,
            block: 1,
            bad_timing: false,
            silent: false,
            waiters_leave: true,
            rotate: false,
            local_queue: false,
            tasks: false,
            timers: false,
            prompt: false,
            caches: false,
            upkeep: Upkeep::NONE,
            bug: None,
        }
    }
}

impl Setup {
    /// Whether holders use their tokens in order. A holder whose lease was ended early, or forgotten,
    /// may still use a token of its block after its successor.
    pub(crate) fn in_order(&self) -> bool {
        !self.bad_timing && !self.upkeep.force && !self.upkeep.loses()
    }

    /// How long a client's leases last, in ticks.
    pub(crate) fn ttl(&self, client: u8) -> u8 {
        if self.timers && client == 1 { 1 } else { TTL }
    }
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
