//! Checks every run of the models and prints what it took: `cargo xtask model`. `--run TEXT` chooses the runs whose names
//! contain the text, of any size.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::io::{Write, stdout};
use std::process::ExitCode;
use std::time::Duration;

use leasehold_sim::handoff_model::runs::{RUNS, Size};
use leasehold_sim::primitive_model::{Primitive, Run};
use leasehold_sim::{
    fifo_model, file_model, handoff_model, quorum_model, read_write_model, semaphore_model,
};
use stateright::report::{ReportData, ReportDiscovery, Reporter};
use stateright::{Checker, HasDiscoveries, Model};

fn main() -> ExitCode {
    let mut largest = Size::Medium;
    let (mut only, mut named) = (None, None);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--full" => largest = Size::Large,
            "--run" => named = args.next(),
            "hand-off" | "read-write" | "fifo" | "semaphore" | "quorum" | "file" => {
                only = Some(arg)
            }
            _ => {
                let models = "`hand-off`, `read-write`, `fifo`, `semaphore`, `quorum` and `file`";
                eprintln!(
                    "model: unknown argument `{arg}`; there are `--full`, `--run TEXT`, {models}"
                );
                return ExitCode::from(2);
            }
        }
    }
    let chosen = Chosen { largest, named };
    let wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
    let mut holds = true;
    if wanted("hand-off") {
        holds &= hand_off(&chosen);
        println!();
    }
    if wanted("read-write") {
        println!("{:<34}{PRIMITIVE}", "read-write");
        holds &= primitive(&chosen, read_write_model::runs::RUNS);
        holds &= primitive(&chosen, read_write_model::runs::CONVERSIONS);
        holds &= primitive(&chosen, read_write_model::runs::CACHING);
        holds &= primitive(&chosen, read_write_model::runs::CAPPED);
        println!();
    }
    if wanted("fifo") {
        holds &= fifo(&chosen);
        println!();
    }
    if wanted("semaphore") {
        println!("{:<34}{PRIMITIVE}", "semaphore");
        holds &= primitive(&chosen, semaphore_model::runs::RUNS);
        holds &= primitive(&chosen, semaphore_model::runs::CAPPED);
        println!();
    }
    if wanted("quorum") {
        holds &= quorum(&chosen);
        println!();
    }
    if wanted("file") {
        holds &= file(&chosen);
    }
    if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Which runs are made.
struct Chosen {
    largest: Size,
    named: Option<String>,
}

impl Chosen {
    fn has(&self, name: &str, size: Size) -> bool {
        self.named.as_ref().map_or(size <= self.largest, |part| name.contains(part.as_str()))
    }
}

fn hand_off(chosen: &Chosen) -> bool {
    println!(
        "{:<34}{:>8}{:>9}{:>7}{:>6}{:>7}{:>12}{:>6}{:>9}",
        "hand-off", "clients", "attempts", "faults", "ticks", "tokens", "states", "depth", "time"
    );
    let mut holds = true;
    for run in RUNS.iter().filter(|run| chosen.has(run.name, run.size)) {
        let handoff_model::Setup { clients, attempts, faults, ticks, block, .. } = run.setup;
        print!("{:<34}{clients:>8}{attempts:>9}{faults:>7}{ticks:>6}{block:>7}", run.name);
        holds &= check(run.setup);
    }
    holds
}

const PRIMITIVE: &str = " clients faults ticks bound      states depth     time";

fn primitive<P: Primitive>(chosen: &Chosen, runs: &[Run<P>]) -> bool {
    let mut holds = true;
    for run in runs.iter().filter(|run| chosen.has(run.name, run.size)) {
        let one = run.setup;
        print!("{:<34}{:>8}{:>7}", run.name, one.clients.len(), one.faults);
        print!("{:>6}{:>6}", one.ticks, one.bound);
        holds &= check(one);
    }
    holds
}

fn fifo(chosen: &Chosen) -> bool {
    println!(
        "{:<34}{:>8}{:>7}{:>9}{:>12}{:>6}{:>9}",
        "fifo", "clients", "faults", "removals", "states", "depth", "time"
    );
    let mut holds = true;
    for (name, setup) in fifo_model::RUNS.iter().filter(|run| chosen.has(run.0, Size::Small)) {
        print!("{name:<34}{:>8}{:>7}", setup.programs.len(), setup.faults);
        print!("{:>9}", setup.removals);
        holds &= check(*setup);
    }
    holds
}

fn file(chosen: &Chosen) -> bool {
    println!(
        "{:<34}{:>8}{:>6}{:>11}{:>7}{:>6}{:>12}{:>6}{:>9}",
        "file", "holders", "holds", "forgetters", "deaths", "ahead", "states", "depth", "time"
    );
    let mut holds = true;
    for (name, setup) in file_model::RUNS.iter().filter(|run| chosen.has(run.0, Size::Small)) {
        print!("{name:<34}{:>8}{:>6}", setup.holders, setup.holds);
        print!("{:>11}{:>7}{:>6}", setup.forgetters, setup.deaths, setup.ahead);
        holds &= check(*setup);
    }
    holds
}

fn quorum(chosen: &Chosen) -> bool {
    println!(
        "{:<34}{:>6}{:>6}{:>8}{:>9}{:>9}{:>6}{:>6}{:>8}{:>8}{:>12}{:>6}{:>9}",
        "quorum",
        "nodes",
        "down",
        "clients",
        "attempts",
        "renewals",
        "ticks",
        "early",
        "forgets",
        "repeats",
        "states",
        "depth",
        "time"
    );
    let mut holds = true;
    for run in quorum_model::runs::RUNS.iter().filter(|run| chosen.has(run.name, run.size)) {
        let one = run.setup;
        print!("{:<34}{:>6}{:>6}{:>8}", run.name, one.nodes, one.down, one.clients);
        print!("{:>9}{:>9}{:>6}", one.attempts, one.renewals, one.ticks);
        print!("{:>6}{:>8}{:>8}", one.expiries, one.forgets, one.repeats);
        holds &= check(run.setup);
    }
    holds
}

/// Ends the run's line; false, with the way to it, when something is broken.
fn check<M>(setup: M) -> bool
where
    M: Model + Copy + Send + Sync + 'static,
    M::State: Clone + Debug + PartialEq + Hash + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq + Send + Sync + 'static,
{
    stdout().flush().ok();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut took = Took::default();
    let checker = setup
        .checker()
        .threads(threads)
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .report(&mut took);
    let (states, depth) = (checker.unique_state_count(), checker.max_depth());
    println!("{states:>12}{depth:>6}{:>7.1} s", took.0.as_secs_f64());
    let found = checker.discoveries();
    let mut holds = true;
    for property in setup.properties() {
        let path = found.get(property.name);
        if property.expectation.discovery_is_failure() == path.is_none() {
            continue;
        }
        holds = false;
        println!("\nnot so: {}", property.name);
        for action in path.map(|path| path.clone().into_actions()).unwrap_or_default() {
            println!("    {action:?}");
        }
    }
    holds
}

/// How long the checker says that it has taken.
#[derive(Default)]
struct Took(Duration);

impl<M: Model> Reporter<M> for Took {
    fn report_checking(&mut self, data: ReportData) {
        self.0 = data.duration;
    }

    fn report_discoveries(&mut self, _: &M, _: BTreeMap<&'static str, ReportDiscovery<M>>) {}

    fn delay(&self) -> Duration {
        Duration::from_millis(50)
    }
}
