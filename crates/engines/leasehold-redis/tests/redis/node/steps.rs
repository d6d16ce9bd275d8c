//! Random steps at one node. Values are relative to the current state, so that a step is useful
//! even if earlier steps are left out.

use leasehold_sim::Dice;

/// The number of locks.
pub(super) const LOCKS: usize = 5;

/// One step.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// Time passes, in ms.
    Pass(i64),
    /// A request on a lock.
    Do {
        /// The lock.
        lock: usize,
        /// The attempt.
        attempt: u32,
        /// The request.
        what: What,
        /// It is meant for the previous process.
        stale: bool,
        /// It is in the same call as the previous step.
        joined: bool,
    },
    /// A step of an admission.
    Task(Task, bool),
    /// Another process with the same data.
    Restart,
    /// All data is lost.
    Flush,
    /// The scripts are lost, and loaded again.
    FlushScripts,
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    /// With a ttl in ms.
    Acquire(u32, Value, bool),
    /// From one value to another.
    Commit(Value, Value),
    /// With `heal`.
    Renew(u32, Value, bool),
    Release,
}

/// A token.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value {
    /// This far from the last known counter of the lock.
    Last(i64),
    /// This far from the clock, in us.
    Clock(i64),
}

/// A step of an admission.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Task {
    Look,
    /// With a nonce and a ttl in ms.
    Propose(u64, u32),
    High,
    /// With a nonce and the floor.
    Admit(u64, Value),
    /// The floor is the last existing token.
    UseUp(u64),
}

const HOUR: i64 = 3_600_000;

/// Draws `length` steps; the same seed returns the same steps.
pub(super) fn random(seed: u64, length: usize) -> Vec<Step> {
    let mut dice = Dice::new(seed);
    let mut steps = vec![Step::Task(Task::Propose(1, 60_000), false)];
    steps.push(Step::Task(Task::Admit(1, Value::Clock(-1000)), false));
    while steps.len() < length {
        let step = step(&mut dice, seed);
        steps.push(step);
        // Otherwise the node could not vote most of the time.
        if matches!(step, Step::Restart | Step::Flush) && !dice.one_in(4) {
            let nonce = 4 + dice.roll(3);
            let floor = Value::Clock(dice.roll(100) as i64 - 50);
            steps.push(Step::Task(Task::Propose(nonce, 60_000), false));
            steps.push(Step::Task(Task::Admit(nonce, floor), false));
        }
    }
    steps
}

fn step(dice: &mut Dice, seed: u64) -> Step {
    match dice.roll(100) {
        0..14 => Step::Pass(match dice.roll(12) {
            0 if dice.one_in(2) => HOUR + dice.roll(70_000) as i64 - 5_000,
            1 => 59_000 + dice.roll(2_000) as i64,
            2 if seed % 8 == 7 => -(dice.roll(40_000) as i64),
            3..6 => dice.roll(40_000) as i64,
            _ => dice.roll(3_000) as i64,
        }),
        14..92 => Step::Do {
            lock: [0, 0, 0, 0, 1, 2, 3, 4][dice.roll(8) as usize],
            attempt: 1 + dice.roll(5) as u32,
            what: what(dice),
            stale: dice.one_in(40),
            joined: !dice.one_in(4),
        },
        92..97 => Step::Task(task(dice), dice.one_in(10)),
        97 if dice.one_in(3) => Step::Restart,
        98 if dice.one_in(3) => Step::Flush,
        99 => Step::FlushScripts,
        _ => Step::Task(Task::Look, false),
    }
}

fn what(dice: &mut Dice) -> What {
    let ttl = match dice.roll(20) {
        0 => 60_000,
        1 => 60_001,
        2..12 => 5_000,
        _ => 10 + dice.roll(30_000) as u32,
    };
    match dice.roll(10) {
        0..4 => What::Acquire(ttl, value(dice), dice.one_in(3)),
        4 => What::Commit(Value::Last(0), Value::Last(dice.roll(5) as i64)),
        5 => What::Commit(value(dice), value(dice)),
        6 => What::Renew(ttl, value(dice), dice.one_in(2)),
        7 => What::Renew(ttl, Value::Last(0), dice.one_in(2)),
        _ => What::Release,
    }
}

fn value(dice: &mut Dice) -> Value {
    match dice.roll(8) {
        0 => Value::Clock(HOUR * 1000 + dice.roll(3) as i64 - 1),
        1..4 => Value::Clock(dice.roll(2_000_000) as i64 - 1_000_000),
        _ => Value::Last(dice.roll(7) as i64 - 3),
    }
}

fn task(dice: &mut Dice) -> Task {
    let nonce = 1 + dice.roll(3);
    match dice.roll(60) {
        0..25 => Task::Propose(nonce, [60_000, 60_000, 20_000, 90_000][dice.roll(4) as usize]),
        25..32 => Task::High,
        32..36 => Task::UseUp(nonce),
        _ => Task::Admit(nonce, value(dice)),
    }
}

/// Groups the steps into calls: two steps on one lock never share a call.
pub(super) fn calls(steps: &[Step]) -> Vec<&[Step]> {
    let mut locks = 0;
    let joined = |one: &Step, next: &Step| match (one, next) {
        (
            Step::Do { lock: before, stale, .. },
            Step::Do { lock, stale: same, joined: true, .. },
        ) => {
            locks |= 1 << before;
            if stale == same && locks & (1 << lock) == 0 {
                return true;
            }
            locks = 0;
            false
        }
        _ => {
            locks = 0;
            false
        }
    };
    steps.chunk_by(joined).collect()
}
