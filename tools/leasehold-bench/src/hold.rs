//! `hold`: what held locks and waiting tasks cost while nothing happens, and how fast a lock goes
//! through all who wait.

mod held;
mod picture;
mod process;
mod round;
#[cfg(feature = "servers")]
mod task_per_lock;
mod waiting;

use std::collections::BTreeMap;

use crate::common::{Common, count};
use crate::measure::median;
use crate::metric::{
    BYTES_PER_LOCK, BYTES_PER_WAITER, CLIENT_MS_PER_S, HANDOFFS_PER_S, Metric, SERVER_MS_PER_S,
};
use crate::progress::Progress;
use crate::row::{Row, Setup};
use crate::store::Store;
use crate::{Result, output, system};

pub(crate) use round::Round;
use round::{Figures, Phase};

/// Descriptors that a process needs beside those of its locks.
const SPARE: u64 = 200;

/// `hold [OPTIONS]`
#[derive(Clone, Debug, clap::Args)]
#[command(
    long_about = "Each round is a process of its own, so that memory that an earlier one has \
    left behind does not count. Locks are held with a ttl of 30 s and renewed every 10 s; with \
    --quick all times are a tenth of that (`ttl_s` in the output)."
)]
pub(crate) struct HoldArgs {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Locks that are held at once [default: 10000; 100000 on a Redis server of our own, without
    /// --quick]
    #[arg(long, value_name = "N", value_parser = count)]
    pub(crate) locks: Option<usize>,
    /// Tasks that wait for one lock
    #[arg(long, value_name = "N", default_value = "10000", value_parser = count)]
    pub(crate) waiters: usize,
    /// How long CPU time is measured, each time [default: 20, with --quick 2]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) seconds: Option<u64>,
}

/// Measures and reports; `again` is how this program is called again.
pub(crate) fn run(args: &HoldArgs, stores: &[Store], again: &[&str]) -> Result<()> {
    output::check(&args.common)?;
    let (rows, notes) = measure(args, stores, &|round| round.apart(again))?;
    output::write(&args.common, &rows, &notes, &picture::picture(&rows))
}

/// All figures, and what is to be said beside them; `does` does a round.
pub(crate) fn measure(
    args: &HoldArgs,
    stores: &[Store],
    does: &dyn Fn(&Round) -> Result<Figures>,
) -> Result<(Vec<Row>, Vec<String>)> {
    let (rounds, notes) = plan(args, stores)?;
    let progress = Progress::of(rounds.len() * args.common.rounds as usize);
    let mut figures: Vec<BTreeMap<String, Vec<f64>>> = vec![BTreeMap::new(); rounds.len()];
    // In turn, so that a disturbance of the machine does not hit one setup alone.
    for _ in 0..args.common.rounds {
        for (round, figures) in rounds.iter().zip(&mut figures) {
            progress.begin(round.told());
            for (name, value) in does(round)? {
                figures.entry(name).or_default().push(value);
            }
            progress.done();
        }
    }
    drop(progress);
    let rows = rounds.iter().zip(&figures).flat_map(|(round, figures)| rows(round, figures));
    Ok((rows.collect(), notes))
}

/// The rounds that are done in turn.
fn plan(args: &HoldArgs, stores: &[Store]) -> Result<(Vec<Round>, Vec<String>)> {
    let (ttl_ms, seconds) = if args.common.quick { (3_000, 2) } else { (30_000, 20) };
    let seconds = args.seconds.unwrap_or(seconds);
    if seconds * 1000 < ttl_ms / 3 {
        return Err(format!(
            "--seconds {seconds}: locks are renewed every {} s, and that is to be measured; {0} \
             or more are allowed, or fewer with --quick",
            ttl_ms / 3000
        )
        .into());
    }
    let room = usize::try_from(system::descriptors()?.saturating_sub(SPARE)).unwrap_or(usize::MAX);
    let (mut rounds, mut notes) = (Vec::new(), Vec::new());
    for store in stores {
        let wanted = args.locks.unwrap_or_else(|| usual_locks(store, args.common.quick));
        let locks = if store.backend() == "file" { wanted.min(room) } else { wanted };
        if locks < wanted {
            notes.push(format!(
                "file: {locks} locks instead of {wanted}: each needs a descriptor, and the limit of \
                 open files is {} (`ulimit -Hn`)",
                system::descriptors()?
            ));
        }
        for runtime in args.common.flavours() {
            for phase in phases(store) {
                rounds.push(Round {
                    phase,
                    store: store.clone(),
                    runtime: *runtime,
                    locks,
                    waiters: args.waiters,
                    ttl_ms,
                    seconds,
                });
            }
        }
    }
    Ok((rounds, notes))
}

#[cfg_attr(not(feature = "servers"), allow(unused_variables, reason = "a store of a user has one"))]
fn usual_locks(store: &Store, quick: bool) -> usize {
    match store {
        #[cfg(feature = "servers")]
        Store::Redis if !quick => 100_000,
        _ => 10_000,
    }
}

fn phases(store: &Store) -> Vec<Phase> {
    match store {
        #[cfg(feature = "servers")]
        Store::Redis => vec![Phase::Held, Phase::TaskPerLock, Phase::Waiting],
        _ => vec![Phase::Held, Phase::Waiting],
    }
}

fn rows(round: &Round, figures: &BTreeMap<String, Vec<f64>>) -> Vec<Row> {
    let (setup, metrics) = round.setup();
    let row =
        |metric: &Metric| figures.get(metric.name).map(|values| setup.row(*metric, median(values)));
    metrics.iter().filter_map(row).collect()
}

const HELD: &[Metric] = &[BYTES_PER_LOCK, CLIENT_MS_PER_S, SERVER_MS_PER_S];

impl Round {
    fn setup(&self) -> (Setup, &'static [Metric]) {
        let setup = Setup::new("hold", self.store.backend(), self.runtime);
        let setup = setup.with("ttl_s", self.ttl_ms / 1000);
        match self.phase {
            Phase::Held => (setup.with("locks", self.locks), HELD),
            #[cfg(feature = "servers")]
            Phase::TaskPerLock => {
                (Setup { subject: "task-per-lock", ..setup }.with("locks", self.locks), HELD)
            }
            Phase::Waiting => {
                let setup = Setup { tasks: self.waiters, ..setup };
                let setup = setup.with("locks", 1).with("scope", "local");
                (setup, &[BYTES_PER_WAITER, CLIENT_MS_PER_S, HANDOFFS_PER_S])
            }
        }
    }

    fn told(&self) -> String {
        let what = match self.phase {
            Phase::Held => format!("{} locks held", self.locks),
            #[cfg(feature = "servers")]
            Phase::TaskPerLock => format!("{} locks with a task each", self.locks),
            Phase::Waiting => format!("{} tasks wait", self.waiters),
        };
        format!("{} {}: {what}", self.store.backend(), self.runtime.name())
    }
}
