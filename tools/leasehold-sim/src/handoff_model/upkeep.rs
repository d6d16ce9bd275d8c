//! Maintenance beside the load: what an operator, or a server by itself, does to the record.

use leasehold_proto::Token;
use leasehold_proto::handoff::{Forced, Parts, State as Taken, TOKEN_LEAD};

use super::server::{Record, at};
use super::{Bug, Client, Fate, Phase, Setup, State};

/// Which operations may happen in a run, and how many in total.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Upkeep {
    /// How many may happen.
    pub times: u8,
    /// `init` runs again, on a store that is set up.
    pub init: bool,
    /// `forget` removes the record of a free lock.
    pub forget: bool,
    /// The store removes the record of a lock that was unused for an hour.
    pub sweep: bool,
    /// `force-release` ends the lease that a token names.
    pub force: bool,
    /// The server restarts empty.
    pub empty: bool,
    /// The server returns with data that it had earlier.
    pub older: bool,
    /// How far the server's wall clock is ahead at the start, in microseconds. It is set right once,
    /// and no record is removed before.
    pub ahead: u32,
}

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// `init` runs.
    Init,
    /// `forget` runs.
    Forget,
    /// The store removes what was unused for long enough.
    Sweep,
    /// `force-release` runs with this token.
    Force(u64),
    /// The server's wall clock, which was ahead, is set right.
    SetClock,
    /// The server's data is copied.
    Copy,
    /// The server returns with the copy.
    Older,
    /// The server restarts empty.
    Empty,
}

impl Upkeep {
    /// No maintenance.
    pub const NONE: Self = Self {
        times: 0,
        init: false,
        forget: false,
        sweep: false,
        force: false,
        empty: false,
        older: false,
        ahead: 0,
    };

    /// Some data may be lost.
    pub fn loses(self) -> bool {
        self.empty || self.older
    }

    /// Tokens follow the server's wall clock, as they do where a record may be gone.
    pub(super) fn reads_clock(self) -> bool {
        self.loses() || self.forget || self.sweep
    }
}

/// Lists the operations that can happen.
pub(super) fn enabled(setup: &Setup, state: &State, operations: &mut Vec<Operation>) {
    let Upkeep { init, forget, sweep, force, empty, older, .. } = setup.upkeep;
    if state.ahead > 0 {
        operations.push(Operation::SetClock);
    }
    if older && state.copy.is_none() {
        operations.push(Operation::Copy);
    }
    if state.upkeep == 0 {
        return;
    }
    if init {
        operations.push(Operation::Init);
    }
    let removable = state.ahead == 0 && state.is_removable(setup);
    if forget && removable {
        operations.push(Operation::Forget);
    }
    if sweep && removable && state.is_unused() {
        operations.push(Operation::Sweep);
    }
    if force {
        operations.extend(state.history.fates.keys().map(|base| Operation::Force(*base)));
    }
    if empty {
        operations.push(Operation::Empty);
    }
    if older && state.copy.is_some() {
        operations.push(Operation::Older);
    }
}

impl State {
    /// The server's wall clock, in microseconds. At least one passes with each grant.
    pub(super) fn wall_us(&self) -> u64 {
        let ticks = super::TICK * u32::from(self.server_time);
        ticks.as_micros() as u64
            + self.history.fates.len() as u64
            + u64::from(self.ahead)
            + u64::from(self.away)
    }

    /// The rule of every engine: the lock is free, no waiter is in line, no ended attempt must still
    /// be refused, and the wall clock is above the highest token.
    fn is_removable(&self, setup: &Setup) -> bool {
        let record = &self.server.record;
        let now = at(self.server_time);
        let below = record.top().is_none_or(|top| top.get() < self.wall_us());
        let refuses = Parts::from(record.clone())
            .tombstones
            .iter()
            .any(|(attempt, _)| record.is_refused(now, *attempt));
        record.state(now) == Taken::Free
            && record.waiters().len() == 0
            && (!refuses || setup.bug == Some(Bug::CleanUpIgnoresEnded))
            && (below || setup.bug == Some(Bug::CleanUpIgnoresTop))
    }

    /// Nothing about the lock is on its way. An hour is longer than any message lives; a holder may
    /// be paused for longer than that.
    fn is_unused(&self) -> bool {
        let quiet = |client: &Client| {
            client.endings.is_empty() && matches!(client.phase, Phase::Idle | Phase::Holding(_))
        };
        self.network.is_empty() && self.clients.iter().all(quiet)
    }

    /// Carries an operation out.
    pub(super) fn maintain(&mut self, setup: &Setup, operation: Operation) {
        match operation {
            Operation::SetClock => return self.ahead = 0,
            Operation::Copy => return self.copy = Some(self.server.record.clone()),
            Operation::Init if setup.bug == Some(Bug::InitMakesAnew) => {
                self.replace(Record::default());
            }
            Operation::Init => {}
            Operation::Forget | Operation::Sweep => {
                self.history.forget();
                self.replace(Record::default());
            }
            Operation::Force(token) => self.force(setup, token),
            Operation::Empty => {
                self.away += TOKEN_LEAD;
                self.replace(Record::default());
            }
            Operation::Older => {
                self.away += TOKEN_LEAD;
                let copy = self.copy.clone().unwrap_or_default();
                self.replace(copy);
            }
        }
        self.upkeep -= 1;
    }

    /// The server has another record from now on.
    fn replace(&mut self, record: Record) {
        if let Some(base) = self.server.record.base() {
            self.history.ends(base.get(), Fate::Lost);
        }
        self.server.record = record;
    }

    fn force(&mut self, setup: &Setup, token: u64) {
        let current = self.server.record.base();
        let named = match setup.bug {
            Some(Bug::ForceIgnoresToken) => current,
            _ => Token::new(token),
        };
        let Some(named) = named else { return };
        let forced = self.carry_out(setup, |server, now, reach| {
            (server.record.force_release(now, named, reach), None)
        });
        if forced == Forced::Ended {
            self.history.forced.insert(token);
        }
    }
}
