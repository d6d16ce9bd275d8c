//! A read-write lock on a store with one queue for readers and writers, as ZooKeeper and etcd have it: clients
//! that read, write, convert, crash and lose answers, and the record of the phase's token.
//!
//! The decisions about tokens are those of [`leasehold_proto::fifo`]. A client creates an entry, reads
//! queue and record as of one moment, and registers its token; any other client may act between two steps. A request
//! of a crashed client may arrive later. What the model leaves out: the clock (a crashed holder counts as a
//! holder until its entry is removed). In some setups a writer that was told of a deletion may read the state of a member that
//! lags behind the store.

mod client;
mod store;

use stateright::{Model, Property};

pub use client::{Client, Program, Step};
pub use store::{Entry, Store, Transaction};

/// The name of the promise that a writer is alone.
pub const EXCLUSION: &str = "a writer is alone";
/// The name of the promise that readers that hold together have one token.
pub const PHASE: &str = "one token for each phase";
/// The name of the promise that tokens grow from phase to phase.
pub const ORDER: &str = "tokens grow";
/// The name of the promise that each client is served.
pub const SERVED: &str = "no client waits forever";
/// The name of the promise that the entry of a client that holds is in the queue, unless it converts.
pub const BACKED: &str = "a holder has its entry";
/// The name of the promise that an entry which is created later has a larger number than all tokens.
pub const BELOW: &str = "tokens stay below the counter";

/// The bound of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// What each client does.
    pub programs: &'static [Program],
    /// How many faults happen: a crash, a lost answer, a client that gives up.
    pub faults: u8,
    /// How often the store removes the empty queue, with its counter and the record.
    pub removals: u8,
    /// A member of the store lags behind, and writers may read it.
    pub lags: bool,
    /// What is wrong with the engine, if anything.
    pub bug: Option<Bug>,
}

use Program::{Downgrade, OldWrite, Read, Upgrade, Write};

/// The runs without bugs, with what the table calls them.
pub const RUNS: &[(&str, Setup)] = &[
    ("R,R,W", of(&[Read, Read, Write], 2, 0)),
    ("R,R,R,W", of(&[Read, Read, Read, Write], 1, 0)),
    ("R,W,W", of(&[Read, Write, Write], 2, 0)),
    ("R,R,W, queue removed", of(&[Read, Read, Write], 1, 2)),
    ("D,R,W", of(&[Downgrade, Read, Write], 1, 0)),
    ("D,W,W", of(&[Downgrade, Write, Write], 1, 0)),
    ("D,D,R", of(&[Downgrade, Downgrade, Read], 1, 0)),
    ("U,R,W", of(&[Upgrade, Read, Write], 1, 0)),
    ("U,U,R", of(&[Upgrade, Upgrade, Read], 1, 0)),
    ("D,U,R, queue removed", of(&[Downgrade, Upgrade, Read], 1, 1)),
    ("R,R, earlier writer", of(&[Read, Read, OldWrite], 2, 0)),
    ("R,U, earlier writer", of(&[Read, Upgrade, OldWrite], 0, 0)),
    ("W,W,W, lagging member", lagging(&[Write, Write, Write], 1)),
    ("R,W,W, lagging member", lagging(&[Read, Write, Write], 1)),
    ("D,W,W, lagging member", lagging(&[Downgrade, Write, Write], 0)),
    ("U,W,R, lagging member", lagging(&[Upgrade, Write, Read], 0)),
];

/// A setup without a bug.
pub const fn of(programs: &'static [Program], faults: u8, removals: u8) -> Setup {
    Setup { programs, faults, removals, lags: false, bug: None }
}

/// A setup with a member that lags behind, without a bug.
pub const fn lagging(programs: &'static [Program], faults: u8) -> Setup {
    Setup { lags: true, ..of(programs, faults, 0) }
}

/// A bug that is planted to see whether the model finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A reader reads queue and record when it creates its entry, before its turn.
    ReadsRecordEarly,
    /// A reader reads the record after the queue: they are not of one moment.
    ReadsRecordLater,
    /// A registration does not compare the version of the record.
    IgnoresVersion,
    /// A reader joins the phase of the record though no entry of it is left: writers reset nothing.
    JoinsEndedPhase,
    /// A registration does not check that the own entry still exists.
    IgnoresOwnEntry,
    /// A reader that joins a phase does not register itself.
    JoinsUnregistered,
    /// A writer has the number of its entry as its token, whatever the record says.
    WriterIgnoresRecord,
    /// A writer that is the first right after it has created its entry does so.
    FirstWriterIgnoresRecord,
    /// A writer does not register a token that is not its number.
    WriterDoesNotRegister,
    /// An upgrade does not compare the version of the record.
    UpgradeIgnoresVersion,
    /// A refused upgrade leaves an earlier copy of its request valid.
    UpgradeIsNotSealed,
    /// A conversion keeps the token.
    ConversionKeepsToken,
    /// A downgrade moves to the end of the queue.
    DowngradeLeavesPlace,
    /// A reader waits only for the entry directly before it, and only if that is a writer.
    ReaderLooksOneBack,
    /// A writer that reads a member that lags behind does not check that its own entry is there.
    BelievesMemberWithoutOwnEntry,
}

/// One step of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A client makes its next step, or gets the answer to its request.
    Step(u8),
    /// The store executes a client's request, and the answer is lost.
    LoseAnswer(u8),
    /// A client does not get an answer: its request may be executed later.
    LoseRequest(u8),
    /// A client that waits gives up.
    GiveUp(u8),
    /// A client crashes.
    Crash(u8),
    /// The store removes the entry of a crashed client.
    Expire(u8),
    /// The store executes a request whose client does not wait for it any more.
    Arrive(u8),
    /// The store removes the empty queue.
    Remove,
    /// A writer reads the queue of the member that lags behind.
    LookAtMember(u8),
    /// That member has the state of the store now.
    CatchUp,
}

/// Everything at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The store.
    pub store: Store,
    /// The clients.
    pub clients: Vec<Client>,
    /// The state of a member that lags behind.
    pub member: Store,
    /// Requests whose clients do not wait for them any more.
    pub late: Vec<Transaction>,
    /// How many faults may still happen.
    pub faults: u8,
    /// How often the empty queue may still be removed.
    pub removals: u8,
    /// What has been seen.
    pub seen: Seen,
}

/// The history that the promises are about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Seen {
    highest: u64,
    highest_of_writers: u64,
    broke_exclusion: bool,
    broke_phase: bool,
    broke_order: bool,
    /// Two readers held together.
    pub shared: bool,
}

impl State {
    /// A client holds now, with this token.
    fn grant(&mut self, number: usize, token: u64, reads: bool) {
        let seen = &mut self.seen;
        for (other, client) in self.clients.iter().enumerate() {
            let Some((held, other_reads)) =
                client.holds.filter(|_| other != number && !client.idle)
            else {
                continue;
            };
            seen.broke_exclusion |= !(reads && other_reads);
            seen.broke_phase |= reads && other_reads && held != token;
            seen.shared |= reads && other_reads;
        }
        let low = if reads {
            seen.highest_of_writers.max(seen.highest.saturating_sub(1))
        } else {
            seen.highest
        };
        seen.broke_order |= token <= low;
        seen.highest = seen.highest.max(token);
        if !reads {
            seen.highest_of_writers = seen.highest_of_writers.max(token);
        }
        self.clients[number].holds = Some((token, reads));
    }
}

impl Model for Setup {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let clients = self.programs.iter().map(|program| Client::new(*program)).collect();
        vec![State {
            store: Store::default(),
            clients,
            member: Store::default(),
            late: Vec::new(),
            faults: self.faults,
            removals: self.removals,
            seen: Seen::default(),
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (number, client) in (0..).zip(&state.clients) {
            if client.crashed {
                if client.entry.is_some() {
                    actions.push(Action::Expire(number));
                }
                continue;
            }
            if client.acts(&state.store) {
                actions.push(Action::Step(number));
            }
            if self.lags && client.may_look_at_member() {
                actions.push(Action::LookAtMember(number));
            }
            if state.faults == 0 || !client.is_busy() {
                continue;
            }
            actions.push(Action::Crash(number));
            match client.step {
                Step::Sent(_) => {
                    actions.extend([Action::LoseAnswer(number), Action::LoseRequest(number)]);
                }
                Step::Waits(_) => actions.push(Action::GiveUp(number)),
                _ => {}
            }
        }
        actions.extend((0..state.late.len() as u8).map(Action::Arrive));
        if state.removals > 0 && state.store.entries.is_empty() {
            actions.push(Action::Remove);
        }
        if self.lags && state.member != state.store {
            actions.push(Action::CatchUp);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        state.apply(self.bug, action);
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(EXCLUSION, |_, state: &State| !state.seen.broke_exclusion),
            Property::always(PHASE, |_, state: &State| !state.seen.broke_phase),
            Property::always(ORDER, |_, state: &State| !state.seen.broke_order),
            Property::always(BELOW, |_, state: &State| state.seen.highest <= state.store.counter),
            Property::always(BACKED, |_, state: &State| {
                let holding = state.clients.iter().filter(|client| client.step == Step::Holds);
                holding.filter_map(|client| client.entry).all(|entry| state.store.has(entry))
            }),
            Property::always(SERVED, |setup: &Self, state: &State| {
                let mut actions = Vec::new();
                setup.actions(state, &mut actions);
                !actions.is_empty() || state.clients.iter().all(Client::has_ended)
            }),
            Property::sometimes("all clients are served", |_, state: &State| {
                state.clients.iter().all(|client| client.has_ended() && !client.crashed)
            }),
        ]
    }
}
