//! The picture of `readers`: turns and waits of writers over the share of reads, and reads inside a
//! process; and how we stand beside peers.

use serde_json::Value;

use crate::chart::{Chart, Kind, Panel, Series};
use crate::metric::{ACQUIRED_PER_S, JOINS_PER_S, Metric, WRITE_MS_P99};
use crate::row::{Row, Setup};
use crate::runtime::Flavour;

const PANELS: [(Metric, &str); 2] = [
    (ACQUIRED_PER_S, "reads and writes/s"),
    (WRITE_MS_P99, "99th percentile of writers' waits, ms"),
];

pub(super) fn picture(rows: &[Row]) -> Chart {
    let (mut sides, mut subjects, mut places) = (Vec::new(), Vec::new(), Vec::new());
    let mut backends = Vec::new();
    for Row { setup, .. } in rows {
        add(&mut sides, (setup.subject, setup.backend.as_str(), setup.runtime));
        add(&mut subjects, (setup.subject, setup.backend.as_str()));
        add(&mut backends, setup.backend.as_str());
        if setup.extra.get("reads").is_some_and(Value::is_number) {
            add(&mut places, place(setup));
        }
    }
    let series = sides.iter().map(|(subject, backend, runtime)| Series {
        name: match backends.len() {
            1 => format!("{subject}, {}", runtime.name()),
            _ => format!("{subject}, {backend}, {}", runtime.name()),
        },
        colour: subjects.iter().position(|one| *one == (*subject, *backend)).unwrap_or(0),
        light: *runtime == Flavour::Current,
    });
    let value = |metric, side: &(&str, &str, Flavour), at: &str| {
        let fits = |row: &&Row| {
            let setup = &row.setup;
            let same = (setup.subject, setup.backend.as_str(), setup.runtime) == *side;
            row.metric == metric && same && place(setup) == at
        };
        rows.iter().find(fits).map(|row| row.value)
    };
    let panels = PANELS.map(|(metric, title)| Panel {
        title: title.to_owned(),
        x_label: "share of reads, processes x tasks".to_owned(),
        kind: Kind::Dots(places.clone()),
        values: sides
            .iter()
            .map(|side| places.iter().map(|at| value(metric, side, at)).collect())
            .collect(),
    });
    Chart {
        title: format!("One read-write lock, {}", backends.join(", ")),
        series: series.collect(),
        panels: panels.into(),
        columns: PANELS.len(),
    }
}

/// The turns of a peer, and how many times as many are ours; and the reads inside a process.
pub(super) fn ratios(rows: &[Row]) -> Vec<String> {
    let of = |setup: &Setup, metric: Metric| {
        rows.iter().find(|row| row.metric == metric && row.setup == *setup).map(|row| row.value)
    };
    let mut lines = Vec::new();
    for theirs in rows.iter().filter(|row| row.metric == ACQUIRED_PER_S) {
        let ours = Setup { subject: "leasehold", ..theirs.setup.clone() };
        let Some(turns) = of(&ours, ACQUIRED_PER_S).filter(|_| theirs.setup != ours) else {
            continue;
        };
        let waits = of(&theirs.setup, WRITE_MS_P99).zip(of(&ours, WRITE_MS_P99));
        let waits = waits.map_or_else(String::new, |(theirs, ours)| {
            format!(", p99 wait of writers 1/{:.1}", theirs / ours.max(1e-3))
        });
        let turns = match theirs.value {
            0.0 => format!("{turns:.0} to none"),
            value => format!("{:.1} times", turns / value),
        };
        let (at, subject) = (place(&ours), theirs.setup.subject);
        let (backend, runtime) = (&ours.backend, ours.runtime.name());
        lines.push(format!("  {backend}, {at}, {runtime}, {subject}: turns {turns}{waits}"));
    }
    let mut notes = Vec::new();
    if !lines.is_empty() {
        notes.push(format!("leasehold beside each peer:\n{}", lines.join("\n")));
    }
    let joins = rows.iter().filter(|row| row.metric == JOINS_PER_S).map(|row| row.value);
    if let Some(most) = joins.max_by(f64::total_cmp) {
        let part = 100.0 * most / 1e6;
        notes.push(format!(
            "reads beside another reader of the process: {part:.0} % of a million a second"
        ));
    }
    notes
}

/// The share of reads, and the shape.
fn place(setup: &Setup) -> String {
    let reads = setup.extra.get("reads").and_then(Value::as_u64).unwrap_or_default();
    let hold =
        setup.extra.get("hold_ms").map_or_else(String::new, |hold| format!(", held {hold} ms"));
    format!("{reads} %, {}x{}{hold}", setup.processes, setup.tasks)
}

fn add<T: PartialEq>(list: &mut Vec<T>, one: T) {
    if !list.contains(&one) {
        list.push(one);
    }
}
