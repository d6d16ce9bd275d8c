//! One row of the table of runs in the documentation.

use crate::SECOND;
use crate::check::Verdict;
use crate::fault::Injected;
use crate::run::Order;

/// The first lines of the table.
pub(crate) const HEADER: &str = "\
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
    let cells = [
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
    format!("| {} |", cells.join(" | "))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::Duration;

    use super::*;
    use crate::fault::Fault;
    use crate::setup::SetUp;

    #[test]
    fn a_row_has_a_cell_for_each_column() {
        let order = Order {
            seed: 7,
            setup: SetUp::Redis,
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
        assert!(HEADER.lines().all(|line| columns(line) == columns(&row)), "{row}");
        assert!(row.starts_with("| `redis` | 7 | 10 | 0 | 0 | 1 |"), "{row}");
        assert!(row.ends_with("| kill 0, cut 1 |"), "{row}");
    }
}
