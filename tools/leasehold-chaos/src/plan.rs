//! Draws from a seed what goes wrong, when, and for how long. To whom also depends on who is free.

use crate::fault::Fault;
use crate::{MS, SECOND, TTL};

/// One fault to come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Planned {
    /// So long after the one before.
    pub(crate) pause: u64,
    pub(crate) fault: Fault,
    /// Chooses whom it happens to.
    pub(crate) target: u64,
    /// How long it lasts, where it does.
    pub(crate) time: u64,
}

/// A time without faults, in which nothing but the line decides who gets the lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Calm {
    /// After so many faults.
    pub(crate) after: u64,
    pub(crate) time: u64,
}

/// The faults of a run, one after the other.
#[derive(Debug)]
pub(crate) enum Plan {
    /// Those of a seed.
    Drawn(Draw),
    /// Those of a file, and the time of the first.
    Written(u64, std::vec::IntoIter<Planned>),
}

impl Plan {
    pub(crate) fn new(seed: u64, kinds: &[Fault], calm: Calm) -> Self {
        let rng = fastrand::Rng::with_seed(seed);
        Self::Drawn(Draw { rng, kinds: kinds.to_vec(), bag: Vec::new(), drawn: 0, calm })
    }

    /// Faults of a file, each with the pause until the next one.
    pub(crate) fn written((first, faults): (u64, Vec<Planned>)) -> Self {
        Self::Written(first, faults.into_iter())
    }

    /// When the first one is due.
    pub(crate) fn first(&self) -> u64 {
        match self {
            Self::Drawn(_) => SECOND,
            Self::Written(first, _) => *first,
        }
    }

    /// The next one; `None` when there are none.
    pub(crate) fn next(&mut self) -> Option<Planned> {
        match self {
            Self::Drawn(draw) => draw.next(),
            Self::Written(_, faults) => faults.next(),
        }
    }

    /// When the one after `planned` is due, which was begun and done at these times.
    pub(crate) fn due(&self, planned: Planned, begun: u64, done: u64) -> u64 {
        let from = if matches!(self, Self::Drawn(_)) { done } else { begun };
        from.saturating_add(planned.pause)
    }
}

/// Draws faults without an end; each kind comes as often as any other.
#[derive(Debug)]
pub(crate) struct Draw {
    rng: fastrand::Rng,
    kinds: Vec<Fault>,
    bag: Vec<Fault>,
    drawn: u64,
    calm: Calm,
}

impl Draw {
    fn next(&mut self) -> Option<Planned> {
        if self.bag.is_empty() {
            self.bag.clone_from(&self.kinds);
            self.rng.shuffle(&mut self.bag);
        }
        let fault = self.bag.pop()?;
        let ttl = TTL.as_nanos() as u64;
        let time = match fault {
            Fault::Pause => self.rng.u64(ttl * 6 / 5..ttl * 5 / 2),
            Fault::Stop | Fault::Cut | Fault::Connections => self.rng.u64(200 * MS..2 * SECOND),
            // Longer than an election.
            Fault::CutPeers => self.rng.u64(500 * MS..6 * SECOND),
            // Sentinels take a server for down after 1 s.
            Fault::Full => self.rng.u64(500 * MS..3 * SECOND),
            // Long enough that clients which try again now and then meet it.
            Fault::Newer | Fault::Password | Fault::Authority => self.rng.u64(500 * MS..3 * SECOND),
            Fault::Slow => self.rng.u64(500 * MS..2 * SECOND),
            // Before another can be granted the lease, and after.
            Fault::Delay => self.rng.u64(20 * MS..ttl * 2),
            Fault::Clock | Fault::ClockBack | Fault::ClockHours => self.rng.u64(ttl..ttl * 3),
            _ => 0,
        };
        let pause = self.rng.u64(200 * MS..700 * MS);
        self.drawn += 1;
        let pause = if self.drawn.is_multiple_of(self.calm.after) { self.calm.time } else { pause };
        Some(Planned { pause, fault, target: self.rng.u64(..), time })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Workload;

    #[test]
    fn a_seed_gives_the_same_faults_again_and_each_kind_its_turn() {
        let kinds = [Fault::Pause, Fault::Kill, Fault::Cut];
        let draw = |seed| {
            let mut plan = Plan::new(seed, &kinds, Workload::Counter.calm());
            (0..9).map(|_| plan.next().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        for round in draw(7).chunks(3) {
            let mut drawn: Vec<Fault> = round.iter().map(|one| one.fault).collect();
            drawn.sort_unstable();
            assert_eq!(drawn, kinds);
        }
        assert!(Plan::new(7, &[], Workload::Counter.calm()).next().is_none());
    }

    #[test]
    fn a_run_with_readers_has_times_without_faults_that_are_long_enough_to_judge() {
        let mut plan = Plan::new(7, &[Fault::Pause], Workload::Readers.calm());
        let pauses: Vec<u64> = (0..64).map(|_| plan.next().unwrap().pause).collect();
        let long: Vec<usize> = (0..64).filter(|at| pauses[*at] >= 12 * SECOND).collect();
        assert_eq!(long, [31, 63]);
    }
}
