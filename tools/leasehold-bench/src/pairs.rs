//! `pairs`: how many uncontended pairs of acquire and release there are in a second, and what one
//! costs, beside the limit of the engine and beside peers.

mod fresh;
mod leasehold;
pub(crate) mod load;
#[cfg(feature = "servers")]
mod peer;
mod picture;
#[cfg(feature = "servers")]
mod raw;

use std::time::Duration;

use clap::ValueEnum;

use crate::common::{Common, count, in_ms};
use crate::in_turn::in_turn_as_far_as;
use crate::measure::median;
use crate::metric::{
    CLIENT_US_PER_PAIR, ONE_ROUND_SHARE, PAIRS_PER_S, SERVER_US_PER_PAIR, SWITCHES_PER_PAIR,
};
#[cfg(feature = "servers")]
use crate::peers::Built;
use crate::row::{Row, Setup};
use crate::runtime::Flavour;
use crate::store::{Store, StoreAddress};
use crate::{Result, output};

#[cfg(feature = "servers")]
pub(crate) use leasehold::give_back;
pub(crate) use load::{Sample, Times};
#[cfg(feature = "servers")]
pub(crate) use load::{Worker, drive};

/// How long leases are cached where they are.
#[cfg(feature = "servers")]
const CACHE: Duration = Duration::from_secs(1);

/// `pairs [OPTIONS]`
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct PairsArgs {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Numbers of tasks, each with a lock of its own
    #[arg(long, value_name = "N,..", default_value = "1,64,1024", value_delimiter = ',', value_parser = count)]
    pub(crate) tasks: Vec<usize>,
}

/// Whether a task takes the same name again, or another each time.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub(crate) enum Names {
    Reused,
    Fresh,
}

/// What is measured beside Leasehold on its usual terms.
#[derive(Clone, Debug)]
pub(crate) struct Sides {
    /// The benchmark's name: `pairs`, or `quorum` for those over several servers.
    pub(crate) bench: &'static str,
    pub(crate) stores: Vec<Store>,
    pub(crate) names: Vec<Names>,
    /// How much later than sent a request arrives.
    pub(crate) delays: Vec<Duration>,
    /// How long one node of a quorum is waited for, if not as usual.
    pub(crate) node_limit: Option<Duration>,
    #[cfg(feature = "servers")]
    pub(crate) peers: Vec<Built>,
}

/// Who takes and gives back.
#[derive(Clone, Debug)]
enum Subject {
    Leasehold,
    /// The same, and the client caches its leases.
    #[cfg(feature = "servers")]
    Cached,
    #[cfg(feature = "servers")]
    Raw,
    #[cfg(feature = "servers")]
    RawSocket,
    /// Plain commands that leave a record behind, as ours do.
    #[cfg(feature = "servers")]
    RawRecord,
    #[cfg(feature = "servers")]
    Peer(Built),
}

/// One line of the table.
#[derive(Clone, Debug)]
struct Case {
    store: Store,
    delay: Duration,
    node_limit: Option<Duration>,
    runtime: Flavour,
    tasks: usize,
    names: Names,
    subject: Subject,
}

/// Measures and reports.
pub(crate) fn run(args: &PairsArgs, sides: &Sides, mut notes: Vec<String>) -> Result<()> {
    output::check(&args.common)?;
    let times = match args.common.quick {
        true => Times { warm_up: Duration::from_millis(100), window: Duration::from_millis(300) },
        false => Times { warm_up: Duration::from_millis(300), window: Duration::from_secs(1) },
    };
    let (rows, said) = measure(args, sides, times)?;
    notes.extend(said);
    notes.extend(picture::ratios(&rows));
    notes.extend(fresh::beside_reused(&rows));
    output::write(&args.common, &rows, &notes, &picture::picture(&rows))
}

/// All figures, and what is to be said beside them.
pub(crate) fn measure(
    args: &PairsArgs,
    sides: &Sides,
    times: Times,
) -> Result<(Vec<Row>, Vec<String>)> {
    let cases = plan(args, sides);
    let rounds = args.common.rounds;
    // Ours must do it: without them there is nothing to compare.
    let ours = |case: &Case| case.subject.name() == "leasehold";
    let (samples, failed) =
        in_turn_as_far_as(&cases, rounds, Case::told, ours, |case| case.sample(times))?;
    let rows = cases.iter().zip(&samples).flat_map(|(case, samples)| case.rows(samples, sides));
    Ok((rows.collect(), failed))
}

fn plan(args: &PairsArgs, sides: &Sides) -> Vec<Case> {
    let mut cases = Vec::new();
    for store in &sides.stores {
        for delay in &sides.delays {
            for names in &sides.names {
                for runtime in args.common.flavours() {
                    for tasks in &args.tasks {
                        let case = |subject| Case {
                            store: store.clone(),
                            delay: *delay,
                            node_limit: sides.node_limit,
                            runtime: *runtime,
                            tasks: *tasks,
                            names: *names,
                            subject,
                        };
                        cases.extend(sides.subjects(store, *names, *runtime).into_iter().map(case));
                    }
                }
            }
        }
    }
    cases
}

impl Sides {
    #[cfg(feature = "servers")]
    fn subjects(&self, store: &Store, names: Names, runtime: Flavour) -> Vec<Subject> {
        let mut subjects = vec![Subject::Leasehold];
        if matches!(store, Store::Redis | Store::Memory) && names == Names::Reused {
            subjects.push(Subject::Cached);
        }
        match store {
            Store::Redis => {
                subjects.extend(self.peers.iter().cloned().map(Subject::Peer));
                subjects.push(Subject::Raw);
                if names == Names::Reused && runtime == Flavour::Current {
                    subjects.push(Subject::RawSocket);
                }
                if self.names.contains(&Names::Fresh) && runtime == Flavour::Current {
                    subjects.push(Subject::RawRecord);
                }
            }
            Store::Redlock(_) => {
                let fits = |peer: &&Built| peer.runtimes(&[runtime]).contains(&runtime);
                subjects.extend(self.peers.iter().filter(fits).cloned().map(Subject::Peer));
                if runtime == Flavour::Current {
                    subjects.push(Subject::RawSocket);
                }
            }
            Store::Memory | Store::File if names == Names::Reused => subjects.push(Subject::Raw),
            _ => {}
        }
        subjects
    }

    #[cfg(not(feature = "servers"))]
    fn subjects(&self, _: &Store, _: Names, _: Flavour) -> Vec<Subject> {
        vec![Subject::Leasehold]
    }
}

impl Case {
    fn sample(&self, times: Times) -> Result<Sample> {
        let place = self.store.place()?;
        #[cfg(feature = "servers")]
        let place = place.behind(self.delay)?;
        let (tasks, names) = (self.tasks, self.names);
        match (&self.subject, &self.store) {
            (Subject::Leasehold, _) => {
                let place = place.with_node_limit(self.node_limit);
                self.on_runtime(place, move |place| async move {
                    leasehold::measure(&place, tasks, names, times, Duration::ZERO).await
                })
            }
            #[cfg(feature = "servers")]
            (Subject::Cached, _) => self.on_runtime(place, move |place| async move {
                leasehold::measure(&place, tasks, names, times, CACHE).await
            }),
            #[cfg(feature = "servers")]
            (Subject::Peer(built), _) => {
                peer::measure(built, &place, self.runtime, tasks, names, times)
            }
            #[cfg(feature = "servers")]
            (Subject::RawSocket, _) => raw::socket(&place, tasks, times),
            #[cfg(feature = "servers")]
            (Subject::RawRecord, _) => raw::record(&place, tasks, names, times),
            #[cfg(feature = "servers")]
            (Subject::Raw, Store::File) => self.runtime.run(raw::file(tasks, times)),
            #[cfg(feature = "servers")]
            (Subject::Raw, Store::Redis) => self.on_runtime(place, move |place| async move {
                raw::redis(&place, tasks, names, times).await
            }),
            #[cfg(feature = "servers")]
            (Subject::Raw, _) => self.on_runtime(place, move |place| async move {
                raw::memory(&place, tasks, times).await
            }),
        }
    }

    fn on_runtime<F: Future<Output = Result<Sample>> + Send + 'static>(
        &self,
        place: StoreAddress,
        work: impl FnOnce(StoreAddress) -> F,
    ) -> Result<Sample> {
        self.runtime.run(work(place))
    }

    fn rows(&self, samples: &[Sample], sides: &Sides) -> Vec<Row> {
        let mut setup = Setup {
            subject: self.subject.name(),
            tasks: self.tasks,
            ..Setup::new(sides.bench, self.store.backend(), self.runtime)
        };
        #[cfg(feature = "servers")]
        if let Store::Redlock(nodes) = self.store {
            setup = setup.with("nodes", nodes);
        }
        if sides.names != [Names::Reused] {
            let names = if self.names == Names::Reused { "reused" } else { "fresh" };
            setup = setup.with("names", names);
        }
        if sides.delays.iter().any(|delay| !delay.is_zero()) {
            setup = setup.with("delay_ms", in_ms(self.delay));
        }
        let of = |figure: fn(&Sample) -> Option<f64>| {
            let values: Vec<f64> = samples.iter().filter_map(figure).collect();
            (!values.is_empty()).then(|| median(&values))
        };
        let figures = [
            (PAIRS_PER_S, of(|sample| Some(sample.per_s))),
            (CLIENT_US_PER_PAIR, of(|sample| Some(sample.client_us))),
            (SERVER_US_PER_PAIR, of(|sample| sample.server_us)),
            (SWITCHES_PER_PAIR, of(|sample| sample.switches)),
            (ONE_ROUND_SHARE, of(|sample| sample.one_round)),
        ];
        figures.iter().filter_map(|(metric, value)| Some(setup.row(*metric, (*value)?))).collect()
    }

    fn told(&self) -> String {
        let (subject, runtime) = (self.subject.name(), self.runtime.name());
        format!("{} {runtime}, {} tasks: {subject}", self.store, self.tasks)
    }
}

impl Subject {
    fn name(&self) -> &'static str {
        match self {
            Self::Leasehold => "leasehold",
            #[cfg(feature = "servers")]
            Self::Cached => "leasehold-cached",
            #[cfg(feature = "servers")]
            Self::Raw => "raw",
            #[cfg(feature = "servers")]
            Self::RawSocket => "raw-socket",
            #[cfg(feature = "servers")]
            Self::RawRecord => "raw-record",
            #[cfg(feature = "servers")]
            Self::Peer(built) => built.subject,
        }
    }
}
