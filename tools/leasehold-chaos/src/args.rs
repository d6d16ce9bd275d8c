//! The command line of `cargo xtask chaos`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum as _};

use crate::Result;
use crate::check::Verdict;
use crate::client::{self, CleanUpArgs, ClientArgs, ForgetArgs, VisitArgs};
use crate::election;
use crate::fault::Fault;
use crate::kept_plan;
use crate::operator::{Operation, UNAVAILABLE};
use crate::replay;
use crate::report::{Report, header};
use crate::run::{self, Order};
use crate::setup::{self, SetUp};
use crate::transfers;
use crate::workload::Workload;
use crate::written::Written;

/// `leasehold-chaos [OPTIONS]`
#[derive(Debug, Parser)]
#[command(
    name = "leasehold-chaos",
    about = "Real servers and clients that are stopped, killed and robbed, and a check of what the \
             clients saw",
    version,
    args_conflicts_with_subcommands = true
)]
struct Cli {
    #[command(flatten)]
    chaos: ChaosArgs,
    #[command(subcommand)]
    part: Option<Part>,
}

/// What a plan says itself.
const PLANNED: [&str; 11] = [
    "workload",
    "engine",
    "nodes",
    "strict",
    "faults",
    "operators",
    "no_operators",
    "minutes",
    "seed",
    "clients",
    "tasks",
];

#[derive(Debug, clap::Args)]
struct ChaosArgs {
    /// How long
    #[arg(long, value_name = "M", default_value = "1", value_parser = minutes)]
    minutes: Duration,
    /// The set-up of servers
    #[arg(long, value_name = "NAME", default_value = "redis")]
    engine: SetUp,
    /// So many Redis servers: one, or a quorum; the same as `--engine redlockN`
    #[arg(long, value_name = "N", value_parser = nodes, conflicts_with = "engine")]
    nodes: Option<usize>,
    /// The same as `--engine redis-strict`
    #[arg(long, conflicts_with = "engine")]
    strict: bool,
    /// What goes wrong: all that the set-up bears, unless named
    #[arg(long, value_name = "FAULT,..", value_delimiter = ',')]
    faults: Vec<Fault>,
    /// Commands that an operator runs meanwhile: all of them, unless named
    #[arg(long, value_name = "COMMAND,..", value_delimiter = ',')]
    operators: Vec<Operation>,
    /// No operator runs any command
    #[arg(long, conflicts_with = "operators")]
    no_operators: bool,
    /// The `leasehold` command [default: the one beside this program]
    #[arg(long, value_name = "FILE")]
    leasehold: Option<PathBuf>,
    /// Keeps what each process wrote down, in a directory that is not there yet
    #[arg(long, value_name = "DIR")]
    journal: Option<PathBuf>,
    /// Replays a plan that an earlier run wrote: its set-up, faults and commands
    #[arg(long, value_name = "FILE", conflicts_with_all = PLANNED)]
    plan: Option<PathBuf>,
    /// Removes faults and commands from the plan while the promise stays broken, for so many minutes at most, and
    /// writes what is left to FILE.shrunk
    #[arg(long, value_name = "M", value_parser = minutes, requires = "plan", conflicts_with = "journal")]
    shrink: Option<Duration>,
    /// What the clients do
    #[arg(long, value_name = "NAME", value_enum, default_value_t)]
    workload: Workload,
    /// Client processes [default: 6, with readers 16, with permits 40]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=100))]
    clients: Option<u32>,
    /// Tasks in each that want the lock [default: 2, with readers 4, with permits 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    tasks: Option<u32>,
    /// Draws faults and times; drawn itself unless given
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Prints one JSON object instead of the table
    #[arg(long)]
    json: bool,
    /// Prints one row of the table in RUNS.md instead; `header` prints the first lines
    #[arg(long, conflicts_with = "json")]
    row: bool,
}

#[derive(Debug, Subcommand)]
enum Part {
    /// One client process
    #[command(hide = true)]
    Client(ClientArgs),
    /// Removes the records of free locks
    #[command(hide = true)]
    Forget(ForgetArgs),
    /// Removes the records of idle locks, and uses one of them
    #[command(hide = true)]
    CleanUp(CleanUpArgs),
    /// Counts under a lock that another program holds
    #[command(hide = true)]
    Visit(VisitArgs),
    /// A candidate of an election
    #[command(hide = true)]
    Candidate(election::CandidateArgs),
    /// An election whose leader is killed, stopped, cut off and demoted
    Election(election::ElectionArgs),
    /// Draws the times without a leader that elections have written
    Gaps(election::PlotArgs),
    /// A process that takes multi-locks
    #[command(hide = true)]
    Mover(transfers::MoverArgs),
    /// Multi-locks of random names from several processes
    Transfers(transfers::TransferArgs),
    /// Prints the table of set-ups, faults and promises
    SetUps,
    /// Prints the header of the table of runs, whose rows `--row` prints
    Header {
        /// The workload of the runs
        #[arg(long, value_name = "NAME", value_enum, default_value_t)]
        workload: Workload,
        /// That of elections instead
        #[arg(long, conflicts_with = "workload")]
        election: bool,
    },
}

fn minutes(text: &str) -> std::result::Result<Duration, String> {
    let minutes: Option<f64> = text.parse().ok();
    let time = minutes.and_then(|minutes| Duration::try_from_secs_f64(minutes * 60.0).ok());
    let allowed = Duration::from_secs(5)..=Duration::from_secs(86_400);
    time.filter(|time| allowed.contains(time)).ok_or_else(|| {
        "allowed is a number of minutes, from five seconds (0.1) to a day".to_owned()
    })
}

fn nodes(text: &str) -> std::result::Result<usize, String> {
    match text.parse() {
        Ok(nodes @ (1 | 3 | 5 | 7)) => Ok(nodes),
        _ => Err("allowed are 1, 3, 5 and 7".to_owned()),
    }
}

/// The `leasehold` command in the directory of this program.
fn beside() -> PathBuf {
    std::env::current_exe().unwrap_or_default().with_file_name("leasehold")
}

impl ChaosArgs {
    fn setup(&self) -> SetUp {
        match (self.nodes, self.strict) {
            (Some(3), _) => SetUp::Redlock3,
            (Some(5), _) => SetUp::Redlock5,
            (Some(7), _) => SetUp::Redlock7,
            (_, true) => SetUp::RedisStrict,
            _ => self.engine,
        }
    }

    fn order(&self) -> Result<Order> {
        if let Some(path) = &self.plan {
            let written = Written::read(path)?;
            return Ok(replay::order(written, self.leasehold(), self.journal.clone()));
        }
        let setup = self.setup();
        let kinds = match self.faults.is_empty() {
            true => setup.kinds(),
            false => self.faults.clone(),
        };
        let unknown = kinds.iter().find(|kind| !setup.kinds().contains(kind));
        if let Some(unknown) = unknown {
            let names: Vec<String> = setup.kinds().iter().map(|kind| kind.name()).collect();
            return Err(format!(
                "--faults {unknown}: `{setup}` does not bear this fault; allowed are {}",
                names.join(", ")
            )
            .into());
        }
        let workload = self.workload;
        if !workload.runs_on(setup) {
            let names: Vec<String> = { SetUp::value_variants().iter() }
                .filter(|setup| workload.runs_on(**setup))
                .map(|setup| setup.name())
                .collect();
            return Err(format!(
                "--workload {workload}: `{setup}` cannot run it; allowed are {}",
                names.join(", ")
            )
            .into());
        }
        let (clients, tasks) = workload.clients();
        Ok(Order {
            // Short enough to be typed again.
            seed: self.seed.unwrap_or_else(|| fastrand::u64(..1_000_000)),
            setup,
            time: self.minutes,
            workload,
            clients: self.clients.unwrap_or(clients),
            tasks: self.tasks.unwrap_or(tasks),
            kinds,
            operations: match (self.no_operators, self.operators.is_empty()) {
                (true, _) => Vec::new(),
                (false, true) => Operation::value_variants().to_vec(),
                (false, false) => self.operators.clone(),
            },
            written: None,
            leasehold: self.leasehold(),
            journal: self.journal.clone(),
        })
    }

    fn leasehold(&self) -> PathBuf {
        self.leasehold.clone().unwrap_or_else(beside)
    }

    /// True when every promise was kept.
    fn run(&self) -> Result<bool> {
        let order = self.order()?;
        if let (Some(time), Some(path)) = (self.shrink, &self.plan) {
            return replay::shrink(&order, path, time);
        }
        let report = Report::begins(&order, self.json, self.row);
        let evidence = run::run(&order)?;
        let injected = evidence.injected.clone();
        let written = order.written(&evidence.events);
        let verdict = Verdict::of(evidence);
        report.ends(&injected, &verdict);
        let is_kept = verdict.broken().is_empty();
        // A replay of a plan needs no other file.
        let is_needed = order.written.is_none() || order.journal.is_some();
        let path = kept_plan::place(order.journal.as_deref(), &written, is_kept)?;
        if let Some(path) = path.filter(|_| is_needed) {
            kept_plan::keep(&written, &path)?;
        }
        Ok(is_kept)
    }
}

/// The program: 0 when every promise was kept.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let kept = match &cli.part {
        Some(Part::Client(args)) => client::play(args).map(|()| true),
        Some(Part::Visit(args)) => client::visit(args).map(|()| true),
        Some(Part::Forget(args)) => return ended(client::forget(args)),
        Some(Part::CleanUp(args)) => return ended(client::clean_up(args)),
        Some(Part::Candidate(args)) => election::play(args).map(|()| true),
        Some(Part::Election(args)) => election::run(args),
        Some(Part::Gaps(args)) => election::plot(args).map(|()| true),
        Some(Part::Mover(args)) => transfers::play(args).map(|()| true),
        Some(Part::Transfers(args)) => transfers::run(args),
        Some(Part::SetUps) => {
            print!("{}", setup::markdown());
            return ExitCode::SUCCESS;
        }
        Some(Part::Header { workload, election }) => {
            let header = if *election { election::HEADER.to_owned() } else { header(*workload) };
            println!("{header}");
            return ExitCode::SUCCESS;
        }
        None => cli.chaos.run(),
    };
    match kept {
        Ok(kept) => ExitCode::from(u8::from(!kept)),
        Err(error) => {
            eprintln!("chaos: {error}");
            ExitCode::from(2)
        }
    }
}

/// How a process of the operator ends: its work was done, or the store was not available.
fn ended(outcome: Result<bool>) -> ExitCode {
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(UNAVAILABLE as u8),
        Err(error) => {
            eprintln!("chaos: {error}");
            ExitCode::from(2)
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed_and_a_client_is_told_what_it_understands() {
        Cli::command().debug_assert();
        let args = ClientArgs {
            url: "redis://127.0.0.1:1".into(),
            number: 3,
            folder: "/dev/shm/x".into(),
            tasks: 2,
            workload: Workload::Readers,
        };
        let words = std::iter::once("x".into()).chain(args.words());
        let Some(Part::Client(told)) = Cli::parse_from(words).part else { unreachable!() };
        assert_eq!((told.url, told.number, told.tasks), (args.url, 3, 2));
        assert_eq!(told.workload, Workload::Readers);
    }

    #[test]
    fn a_bad_value_is_refused_with_what_is_allowed() {
        for (args, part) in [
            (["--minutes", "0"], "five seconds"),
            (["--minutes", "NaN"], "a number of minutes"),
            (["--nodes", "2"], "1, 3, 5 and 7"),
            (["--faults", "fire"], "truncate"),
            (["--clients", "1"], "2..=100"),
        ] {
            let told = Cli::try_parse_from(["x"].iter().chain(&args)).unwrap_err().to_string();
            assert!(told.contains(part), "{args:?}: {told}");
        }
    }

    #[test]
    fn options_choose_the_set_up_and_its_faults() {
        let chaos = |words: &[&str]| Cli::parse_from(["x"].iter().chain(words)).chaos;
        let order = |words: &[&str]| chaos(words).order().unwrap();
        for (words, setup) in [
            (&[][..], SetUp::Redis),
            (&["--nodes", "1"], SetUp::Redis),
            (&["--strict"], SetUp::RedisStrict),
            (&["--nodes", "5"], SetUp::Redlock5),
            (&["--engine", "mariadb"], SetUp::Mariadb),
        ] {
            let order = order(words);
            assert_eq!((order.setup, order.kinds), (setup, setup.kinds()), "{words:?}");
        }
        let told = chaos(&["--engine", "file", "--faults", "kill,cut"]).order().unwrap_err();
        assert!(told.to_string().contains("--faults cut"), "{told}");
        assert!(Cli::try_parse_from(["x", "--engine", "file", "--strict"]).is_err());
        assert_eq!(order(&["--faults", "kill,cut"]).kinds, [Fault::Kill, Fault::Cut]);
        assert_eq!(order(&[]).operations, Operation::value_variants());
        assert_eq!(order(&["--operators", "list"]).operations, [Operation::List]);
        assert_eq!(order(&["--no-operators"]).operations, []);
    }
}
