//! Checks every run of the hand-off model and prints what it took: `cargo xtask model`.

use std::collections::BTreeMap;
use std::io::{Write, stdout};
use std::process::ExitCode;
use std::time::Duration;

use leasehold_sim::handoff_model::Setup;
use leasehold_sim::handoff_model::runs::{RUNS, Size};
use stateright::report::{ReportData, ReportDiscovery, Reporter};
use stateright::{Checker, HasDiscoveries, Model};

fn main() -> ExitCode {
    let mut largest = Size::Medium;
    for arg in std::env::args().skip(1) {
        if arg != "--full" {
            eprintln!("model: unknown argument `{arg}`; there is `--full`");
            return ExitCode::from(2);
        }
        largest = Size::Large;
    }
    println!(
        "{:<28}{:>8}{:>9}{:>7}{:>6}{:>7}{:>12}{:>6}{:>9}",
        "run", "clients", "attempts", "faults", "ticks", "tokens", "states", "depth", "time"
    );
    let mut holds = true;
    for run in RUNS.iter().filter(|run| run.size <= largest) {
        let Setup { clients, attempts, faults, ticks, block, .. } = run.setup;
        print!("{:<28}{clients:>8}{attempts:>9}{faults:>7}{ticks:>6}{block:>7}", run.name);
        stdout().flush().ok();
        holds &= check(run.setup);
    }
    if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Ends the run's line; false, with the way to it, when something is broken.
fn check(setup: Setup) -> bool {
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
