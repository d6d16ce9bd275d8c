//! `quorum --faults`: what it costs to acquire a lock while nodes of a quorum are stopped, silent, slow
//! or killed.

mod fault;
mod load;
mod picture;

use std::time::Duration;

use crate::common::{Common, in_ms};
use crate::in_turn::in_turn;
use crate::measure::{median, percentile};
use crate::metric::{
    ACQUIRE_MS_MAX, ACQUIRE_MS_P50, ACQUIRE_MS_P99, BOUND_MS, ERROR_MS, Metric, ONE_ROUND_SHARE,
    PAIRS_PER_S,
};
use crate::pairs::{PairsArgs, Times};
use crate::row::{Row, Setup};
use crate::runtime::Flavour;
use crate::{Result, output};
use fault::Fault;
use load::Sample;

/// How long each node is waited for: the default for the default ttl.
const NODE_LIMIT: Duration = Duration::from_millis(50);

/// What is measured in one go, on nodes of its own.
#[derive(Clone, Copy, Debug)]
struct Case {
    nodes: usize,
    runtime: Flavour,
    tasks: usize,
    fault: Fault,
}

/// Measures and reports.
pub(crate) fn run(args: &PairsArgs, nodes: &[usize]) -> Result<()> {
    if let Some(few) = nodes.iter().find(|nodes| **nodes < 3) {
        return Err(format!("--nodes {few}: --faults takes 3 or more").into());
    }
    output::check(&args.common)?;
    let times = match args.common.quick {
        true => Times { warm_up: Duration::from_millis(100), window: Duration::from_millis(300) },
        false => Times { warm_up: Duration::from_millis(300), window: Duration::from_secs(1) },
    };
    let cases = plan(args, nodes);
    let samples = measure(&args.common, &cases, times)?;
    let rows = rows(&cases, &samples);
    let notes = [over(&rows), errors(&cases, &samples)];
    output::write(&args.common, &rows, &notes, &picture::picture(&rows))
}

/// By nodes, runtime and number of tasks: first while all is well.
fn plan(args: &PairsArgs, nodes: &[usize]) -> Vec<Case> {
    let mut cases = Vec::new();
    for &nodes in nodes {
        for &runtime in args.common.flavours() {
            for &tasks in &args.tasks {
                cases.extend(Fault::ALL.map(|fault| Case { nodes, runtime, tasks, fault }));
            }
        }
    }
    cases
}

/// A sample of each case for each round.
fn measure(common: &Common, cases: &[Case], times: Times) -> Result<Vec<Vec<Sample>>> {
    in_turn(cases, common.rounds, Case::told, |case| load::sample(*case, times))
}

fn rows(cases: &[Case], samples: &[Vec<Sample>]) -> Vec<Row> {
    let mut rows = Vec::new();
    // Half of those that need no more than one round trip while all is well.
    let mut round_trip = 0.0;
    for (case, samples) in cases.iter().zip(samples) {
        let setup = case.setup();
        let of = |figure: &dyn Fn(&Sample) -> Option<f64>| {
            let values: Vec<f64> = samples.iter().filter_map(figure).collect();
            (!values.is_empty()).then(|| median(&values))
        };
        let part =
            |part| move |sample: &Sample| percentile(&sample.acquired_ns, part).map(ns_in_ms);
        let worst = |all: &mut dyn Iterator<Item = u64>| all.max().map(ns_in_ms);
        let p50 = of(&part(0.5));
        if case.fault == Fault::None {
            round_trip = p50.unwrap_or_default();
        }
        let bound = in_ms(NODE_LIMIT) + round_trip;
        let figures: [(Metric, Option<f64>); 7] = [
            (ACQUIRE_MS_P50, p50),
            (ACQUIRE_MS_P99, of(&part(0.99))),
            (ACQUIRE_MS_MAX, worst(&mut samples.iter().filter_map(Sample::longest))),
            (BOUND_MS, case.fault.leaves_a_majority().then_some(bound)),
            (PAIRS_PER_S, of(&|sample| sample.per_s)),
            (ONE_ROUND_SHARE, of(&|sample| sample.one_round)),
            (ERROR_MS, worst(&mut samples.iter().flat_map(|sample| sample.error_ns()))),
        ];
        let measured = figures.iter().filter_map(|(metric, value)| Some((*metric, (*value)?)));
        rows.extend(measured.map(|(metric, value)| setup.row(metric, value)));
    }
    rows
}

/// Where the bound is not kept.
fn over(rows: &[Row]) -> String {
    let mut over = Vec::new();
    for p99 in rows.iter().filter(|row| row.metric == ACQUIRE_MS_P99) {
        let bound = rows.iter().find(|row| row.metric == BOUND_MS && row.setup == p99.setup);
        if bound.is_some_and(|bound| p99.value > bound.value) {
            let Setup { runtime, tasks, .. } = &p99.setup;
            over.push(format!("{}, {} runtime, {tasks} tasks", said(&p99.setup), runtime.name()));
        }
    }
    let where_over = if over.is_empty() { "nowhere".to_owned() } else { over.join("; ") };
    let limit = in_ms(NODE_LIMIT);
    format!("p99 above the bound (node limit of {limit} ms, and one round trip): {where_over}")
}

/// What is said where no majority is left.
fn errors(cases: &[Case], samples: &[Vec<Sample>]) -> String {
    let mut lines = vec![format!("errors, {} ms given:", in_ms(load::WAIT))];
    for (case, samples) in cases.iter().zip(samples) {
        let errors = samples.iter().flat_map(|sample| &sample.errors);
        if let Some((took, text)) = errors.max_by_key(|(took, _)| *took) {
            lines.push(format!("  {}, after {:.1} ms: {text}", case.told(), ns_in_ms(*took)));
        }
    }
    lines.join("\n")
}

impl Case {
    fn setup(&self) -> Setup {
        let setup = Setup::new("quorum", "redlock", self.runtime)
            .with("nodes", self.nodes)
            .with("fault", self.fault.told(self.nodes));
        Setup { tasks: self.tasks, ..setup }
    }

    fn told(&self) -> String {
        let fault = self.fault.told(self.nodes);
        format!("{} nodes, {fault}, {}, {} tasks", self.nodes, self.runtime.name(), self.tasks)
    }
}

/// The fault of a setup.
fn said(setup: &Setup) -> &str {
    setup.extra.get("fault").and_then(|fault| fault.as_str()).unwrap_or_default()
}

fn ns_in_ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}
