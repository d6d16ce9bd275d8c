//! One row of the table of runs in the documentation.

use crate::check::Verdict;
use crate::fault::Injected;
use crate::run::Order;
use crate::workload::Workload;
use crate::{MS, SECOND};

/// The first lines of the table of a workload.
pub(crate) fn header(workload: Workload) -> String {
    let more = match workload {
        Workload::Counter => &[][..],
        Workload::Cached => &CACHED,
        Workload::Readers => &READERS,
        Workload::Permits => &PERMITS,
    };
    let lines = HEADER.lines().zip([more.join(" | "), vec!["---"; more.len()].join("|")]);
    let line = |(line, cells): (&str, String)| match cells.is_empty() {
        true => line.to_owned(),
        false if line.starts_with("|-") => format!("{line}{cells}|"),
        false => format!("{line} {cells} |"),
    };
    lines.map(line).collect::<Vec<_>>().join("\n")
}

/// What a run with readers has beside that.
const READERS: [&str; 5] = [
    "reads / writes",
    "file locks: taken / another holder met / none that has a journal",
    "longest wait of a writer: all / no fault near / writers and phases of readers before it",
    "waits judged / passed",
    "waits of queued writers judged / against the bound",
];
/// The same with cached leases.
const CACHED: [&str; 3] = [
    READERS[1],
    "leases / takes of a cached lease / of one that was over",
    "another client wants a lock that no task holds, no fault near: times / half / longest wait",
];
/// The same with permits.
const PERMITS: [&str; 1] = [READERS[1]];

/// The first lines of every table.
const HEADER: &str = "\
| set-up | seed | min | acquisitions | commands | faults | overlaps: against the promise / allowed / after a forced release | \
tokens: twice / fallen | fenced: stale refused / stale taken / lost | without a fence: stale taken / lost | \
longest stall | left behind | faults by kind |
|---|---|---|---|---|---|---|---|---|---|---|---|---|";

/// The row of a run.
pub(super) fn of(order: &Order, injected: &[Injected], verdict: &Verdict) -> String {
    let Verdict { fenced, unfenced, .. } = verdict;
    let allowed: u64 =
        verdict.overlaps.iter().filter(|(fault, _)| fault.is_some()).map(|(_, many)| many).sum();
    let commands: u64 = verdict.commands.values().map(|tally| tally.run).sum();
    let kinds = order.kinds.iter().map(|kind| {
        let count = injected.iter().filter(|one| one.fault == *kind).count();
        format!("{kind} {count}")
    });
    let cells = vec![
        format!("`{}`", order.setup),
        order.seed.to_string(),
        format!("{:.0}", order.time.as_secs_f64() / 60.0),
        verdict.acquisitions.to_string(),
        commands.to_string(),
        injected.len().to_string(),
        format!("{} / {allowed} / {}", verdict.against(), verdict.forced),
        format!("{} / {}", verdict.twice, verdict.inversions),
        format!("{} / {} / {}", fenced.refused, fenced.stale, fenced.lost),
        format!("{} / {}", unfenced.stale, unfenced.lost),
        format!("{:.1} s", super::gap(verdict) as f64 / SECOND as f64),
        verdict.left.len().to_string(),
        kinds.collect::<Vec<_>>().join(", "),
    ];
    let cells = [cells, more(order.workload, verdict)].concat();
    format!("| {} |", cells.join(" | "))
}

fn more(workload: Workload, verdict: &Verdict) -> Vec<String> {
    let Verdict { gates, phases, turns, cached, .. } = verdict;
    let gates = format!("{} / {} / {}", gates.entered, gates.met, gates.against.len());
    let seconds = |time: u64| format!("{:.2} s", time as f64 / SECOND as f64);
    match workload {
        Workload::Counter => Vec::new(),
        Workload::Cached => {
            let [half, longest] =
                [cached.half(), cached.longest()].map(|time| time as f64 / MS as f64);
            vec![
                gates,
                format!("{} / {} / {}", cached.leases, cached.takes, cached.against.len()),
                format!("{} / {half:.1} ms / {longest:.1} ms", cached.waits.len()),
            ]
        }
        Workload::Permits => vec![gates],
        Workload::Readers => vec![
            format!("{} / {}", phases.reads, phases.writes),
            gates,
            format!(
                "{} / {} / {} and {}",
                seconds(phases.longest),
                seconds(phases.longest_in_calm),
                phases.before.0,
                phases.before.1
            ),
            format!("{} / {}", phases.judged, phases.against.len()),
            format!("{} / {}", turns.judged, turns.against.len()),
        ],
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::Duration;

    use clap::ValueEnum as _;

    use super::*;
    use crate::fault::Fault;
    use crate::setup::SetUp;

    #[test]
    fn a_row_has_a_cell_for_each_column() {
        let mut order = Order {
            seed: 7,
            setup: SetUp::Redis,
            workload: Workload::Counter,
            time: Duration::from_secs(600),
            clients: 6,
            tasks: 2,
            kinds: vec![Fault::Kill, Fault::Cut],
            operations: Vec::new(),
            written: None,
            leasehold: PathBuf::new(),
            journal: None,
        };
        let injected = [Injected { fault: Fault::Cut, from: 1, until: 2 }];
        let row = of(&order, &injected, &Verdict::default());
        let columns = |line: &str| line.matches('|').count();
        for workload in Workload::value_variants() {
            order.workload = *workload;
            let (header, row) = (header(*workload), of(&order, &injected, &Verdict::default()));
            let is_whole = |line: &str| columns(line) == columns(&row);
            assert!(header.lines().count() == 2 && header.lines().all(is_whole), "{header} {row}");
        }
        assert!(row.starts_with("| `redis` | 7 | 10 | 0 | 0 | 1 |"), "{row}");
        assert!(row.ends_with("| kill 0, cut 1 |"), "{row}");
    }
}
