//! One round of `hold`: what it does, and how it is done in a process of its own.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use clap::ValueEnum;

use super::{held, waiting};
use crate::Result;
use crate::args::count;
use crate::runtime::Flavour;
use crate::store::Store;

/// Which half of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub(crate) enum Phase {
    /// Many locks are held.
    Held,
    /// Many tasks wait for one lock.
    Waiting,
}

/// `hold-round OPTIONS`
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Round {
    #[arg(long)]
    pub(crate) phase: Phase,
    #[arg(long)]
    pub(crate) store: Store,
    #[arg(long)]
    pub(crate) runtime: Flavour,
    #[arg(long, value_parser = count)]
    pub(crate) locks: usize,
    #[arg(long, value_parser = count)]
    pub(crate) waiters: usize,
    #[arg(long)]
    pub(crate) ttl_ms: u64,
    #[arg(long)]
    pub(crate) seconds: u64,
}

/// What a round has measured, by the metric's name.
pub(crate) type Figures = BTreeMap<String, f64>;

/// Does a round here.
pub(crate) fn here(round: &Round) -> Result<Figures> {
    let owned = round.clone();
    match round.phase {
        Phase::Held => round.runtime.run(async move { held::measure(&owned).await }),
        Phase::Waiting => round.runtime.run(async move { waiting::measure(&owned).await }),
    }
}

/// Does a round here, and prints what was measured for [`apart`].
pub(crate) fn print(round: &Round) -> Result<()> {
    println!("{}", serde_json::to_string(&here(round)?)?);
    Ok(())
}

/// Does a round in a new process, whose memory no earlier one has used.
pub(crate) fn apart(round: &Round) -> Result<Figures> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("hold-round");
    for (name, value) in [
        ("phase", if round.phase == Phase::Held { "held" } else { "waiting" }.to_owned()),
        ("store", round.store.to_string()),
        ("runtime", round.runtime.name().to_owned()),
        ("locks", round.locks.to_string()),
        ("waiters", round.waiters.to_string()),
        ("ttl-ms", round.ttl_ms.to_string()),
        ("seconds", round.seconds.to_string()),
    ] {
        command.arg(format!("--{name}={value}"));
    }
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("the process of a round has ended with {}", output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
