//! The file engine's lock: a path that leads to an inode, the kernel's lock on that inode, and
//! processes that acquire the lock or remove its files.
//!
//! Each system call is one step, and any other process may act between two steps. A process may die
//! between them; the kernel then unlocks its inode. What the model leaves out: the queue directory,
//! files that a person removes by hand, and a clock that is ahead while files are removed and is set
//! back afterwards. Nothing is left then that could keep the next token above the last one.

mod process;
mod state;
mod steps;

use stateright::{Model, Property};

pub use process::{Forgetter, Holder, Inode};
pub use state::State;

/// The name of the promise that two processes never hold the lock.
pub const EXCLUSION: &str = "at most one holder";
/// The name of the promise that each holder's token is above all earlier ones.
pub const ORDER: &str = "tokens grow";
/// The name of the promise that the free lock can be acquired.
pub const FREE: &str = "a free lock can be acquired";

/// The bound of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// How many processes acquire the lock.
    pub holders: u8,
    /// How often each acquires it.
    pub holds: u8,
    /// How many processes run `forget`.
    pub forgetters: u8,
    /// How many processes may die.
    pub deaths: u8,
    /// How far the clock is ahead at the start, in microseconds; it is set right at some time.
    pub ahead: u8,
    /// What is wrong with the engine, if anything.
    pub bug: Option<Bug>,
}

/// The runs of the lock without bugs, with what the table calls them.
pub const RUNS: &[(&str, Setup)] = &[
    ("two forgetters", TWO_AND_TWO),
    ("two forgetters, one dies", Setup { deaths: 1, ..TWO_AND_TWO }),
    ("two forgetters, clock was ahead", Setup { ahead: 3, ..TWO_AND_TWO }),
    ("two holds each", Setup { holds: 2, deaths: 1, ahead: 3, ..TWO_AND_TWO }),
];

/// Two processes that acquire the lock once each, and two that run `forget`.
const TWO_AND_TWO: Setup =
    Setup { holders: 2, holds: 1, forgetters: 2, deaths: 0, ahead: 0, bug: None };

/// A bug that is planted to see whether the model finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// `forget` does not check that the path still leads to the inode that it has locked.
    ForgetIgnoresPath,
    /// `forget` removes a record whose token is above the clock.
    ForgetIgnoresToken,
    /// A holder does not check that the path still leads to the inode that it has locked.
    HolderIgnoresPath,
}

/// One step of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A process that acquires the lock makes its next system call.
    Hold(u8),
    /// A process that runs `forget` makes its next system call.
    Forget(u8),
    /// A process that acquires or holds the lock dies.
    HolderDies(u8),
    /// A process that runs `forget` dies.
    ForgetterDies(u8),
    /// The clock, which was ahead, is set right.
    SetClock,
}

impl Model for Setup {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(self)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let dies = state.deaths > 0;
        for (number, holder) in (0..).zip(&state.holders) {
            if holder.acts() {
                actions.push(Action::Hold(number));
            }
            if dies && holder.is_busy() {
                actions.push(Action::HolderDies(number));
            }
        }
        for (number, forgetter) in (0..).zip(&state.forgetters) {
            if *forgetter != Forgetter::Done && state.ahead == 0 {
                actions.push(Action::Forget(number));
                if dies {
                    actions.push(Action::ForgetterDies(number));
                }
            }
        }
        if state.ahead > 0 {
            actions.push(Action::SetClock);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        state.apply(self, action);
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(EXCLUSION, |_, state: &State| state.holding() <= 1),
            Property::always(ORDER, |_, state: &State| !state.went_back),
            Property::always(FREE, |setup, state: &State| state.can_be_acquired(setup)),
            Property::sometimes("a holder follows another", |_, state: &State| state.grants > 1),
            Property::sometimes("files are removed", |_, state: &State| state.removed),
        ]
    }
}
