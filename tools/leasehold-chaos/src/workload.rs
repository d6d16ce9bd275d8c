//! What the clients of a run do: count under a lock, which they cache or not, read and write, or take permits.

use std::fmt;

use clap::ValueEnum;

use crate::SECOND;
use crate::plan::Calm;
use crate::setup::SetUp;

/// One workload, by the name that `--workload` takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, ValueEnum)]
pub(crate) enum Workload {
    /// Each task wants one lock and counts under it
    #[default]
    Counter,
    /// The same with clients that cache the lease: each task takes it many times in a row, and then rests
    Cached,
    /// Each task reads in nine of ten cases, and writes in the others
    Readers,
    /// Each task wants a permit of a semaphore with five slots, now and then one for several
    Permits,
}

/// The slots of the semaphore.
pub(crate) const LIMIT: u32 = 5;

impl Workload {
    /// As it is written on the command line and in plans.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// The client processes, and the tasks in each, unless the command line says otherwise.
    pub(crate) fn clients(self) -> (u32, u32) {
        match self {
            Self::Counter | Self::Cached => (6, 2),
            Self::Readers => (16, 4),
            Self::Permits => (40, 1),
        }
    }

    /// How long no fault is injected, and how often. The waits of writers are judged only then.
    pub(crate) fn calm(self) -> Calm {
        match self {
            Self::Readers => Calm { after: 32, time: 12 * SECOND },
            _ => Calm { after: 64, time: 6 * SECOND },
        }
    }

    /// Whether the engine of a set-up has what the workload needs.
    pub(crate) fn runs_on(self, setup: SetUp) -> bool {
        match self {
            Self::Counter => true,
            Self::Cached => {
                let pushed = [SetUp::Redis, SetUp::Sentinel, SetUp::Cluster, SetUp::RedisTls];
                pushed.contains(&setup)
            }
            Self::Readers | Self::Permits => !setup.has_admission(),
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name())
    }
}
