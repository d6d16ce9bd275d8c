//! Does a round of `hold` in a process of its own.

use std::process::Command;

use super::round::{Figures, Phase, Round};
#[cfg(feature = "servers")]
use super::task_per_lock;
use super::{held, waiting};
use crate::Result;
use crate::talk::Talk;

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
