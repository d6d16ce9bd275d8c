//! One round of `hold`: what it does, and how it is done in a process of its own.

use std::collections::BTreeMap;
use std::process::Command;

use serde::{Deserialize, Serialize};

#[cfg(feature = "servers")]
use super::task_per_lock;
use super::{held, waiting};
use crate::Result;
use crate::runtime::Flavour;
use crate::store::Store;
use crate::talk::Talk;

/// Which part of the benchmark.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) enum Phase {
    /// Many locks are held.
    Held,
    /// The same without Leasehold: a task for each lock renews it.
    #[cfg(feature = "servers")]
    TaskPerLock,
    /// Many tasks wait for one lock.
    Waiting,
}

/// The order for a round.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Round {
    pub(crate) phase: Phase,
    pub(crate) store: Store,
    pub(crate) runtime: Flavour,
    pub(crate) locks: usize,
    pub(crate) waiters: usize,
    pub(crate) ttl_ms: u64,
    pub(crate) seconds: u64,
}

/// What a round has measured, by the metric's name.
pub(crate) type Figures = BTreeMap<String, f64>;

impl Round {
    /// Does it here.
    pub(crate) fn here(&self) -> Result<Figures> {
        let round = self.clone();
        match self.phase {
            Phase::Held => self.runtime.run(async move { held::measure(&round).await }),
            #[cfg(feature = "servers")]
            Phase::TaskPerLock => {
                self.runtime.run(async move { task_per_lock::measure(&round).await })
            }
            Phase::Waiting => self.runtime.run(async move { waiting::measure(&round).await }),
        }
    }

    /// Does it in a new process, whose memory no earlier one has used; `again` is how this program
    /// is started to [`answer`](Self::answer).
    pub(crate) fn apart(&self, again: &[&str]) -> Result<Figures> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(again).arg("hold-round");
        let mut talk = Talk::start("the process of a round", command)?;
        // Not as an argument: a URL may hold a password.
        talk.say(&serde_json::to_string(self)?)?;
        let figures = serde_json::from_str(&talk.hear()?)?;
        talk.end()?;
        Ok(figures)
    }

    /// Does the round that [`apart`](Self::apart) asks for.
    pub(crate) fn answer() -> Result<()> {
        let mut order = String::new();
        std::io::stdin().read_line(&mut order)?;
        let round: Self = serde_json::from_str(&order)?;
        println!("{}", serde_json::to_string(&round.here()?)?);
        Ok(())
    }
}
