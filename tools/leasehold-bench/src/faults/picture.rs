//! The picture of `quorum --faults`: how long an acquire takes at most, and how many pairs there are, by
//! what has happened to the nodes.

use serde_json::Value;

use crate::chart::{Chart, Kind, Panel, Series};
use crate::metric::{ACQUIRE_MS_P99, BOUND_MS, Metric, PAIRS_PER_S};
use crate::row::{Row, Setup};
use crate::runtime::Flavour;

const PANELS: [(Metric, &str); 2] =
    [(ACQUIRE_MS_P99, "99th percentile of acquire, ms"), (PAIRS_PER_S, "pairs/s")];

pub(super) fn picture(rows: &[Row]) -> Chart {
    let (mut sides, mut tasks, mut nodes, mut faults) = (vec![], vec![], vec![], vec![]);
    // No dot for what has no majority left.
    for Row { setup, .. } in rows.iter().filter(|row| row.metric == PAIRS_PER_S) {
        add(&mut sides, (setup.tasks, setup.runtime));
        add(&mut tasks, setup.tasks);
        add(&mut nodes, extra(setup, "nodes"));
        add(&mut faults, extra(setup, "fault"));
    }
    let mut series: Vec<Series> = Vec::new();
    for (of, runtime) in &sides {
        let plural = if *of == 1 { "task" } else { "tasks" };
        series.push(Series {
            name: format!("{of} {plural}, {}", runtime.name()),
            colour: tasks.iter().position(|one| one == of).unwrap_or_default(),
            light: *runtime == Flavour::Current,
        });
    }
    series.push(Series {
        name: "node limit and a round trip".to_owned(),
        colour: tasks.len(),
        light: false,
    });
    let mut panels = Vec::new();
    for nodes in &nodes {
        for (metric, title) in PANELS {
            let value = |metric: Metric, side: &(usize, Flavour), fault: &Value| {
                let fits = |row: &&Row| {
                    let setup = &row.setup;
                    row.metric == metric
                        && (setup.tasks, setup.runtime) == *side
                        && (extra(setup, "nodes"), extra(setup, "fault"))
                            == (nodes.clone(), fault.clone())
                };
                rows.iter().find(fits).map(|row| row.value)
            };
            let of = |metric, side| faults.iter().map(|fault| value(metric, side, fault)).collect();
            let mut values: Vec<Vec<Option<f64>>> =
                sides.iter().map(|side| of(metric, side)).collect();
            if metric == ACQUIRE_MS_P99 {
                values.extend(sides.first().map(|side| of(BOUND_MS, side)));
            }
            panels.push(Panel {
                title: title.to_owned(),
                x_label: format!("of {nodes} nodes"),
                kind: Kind::Dots(faults.iter().map(said).collect()),
                values,
            });
        }
    }
    Chart { title: "Acquire + release while nodes fail".to_owned(), series, columns: 1, panels }
}

fn extra(setup: &Setup, key: &str) -> Value {
    setup.extra.get(key).cloned().unwrap_or_default()
}

fn said(fault: &Value) -> String {
    fault.as_str().unwrap_or_default().to_owned()
}

fn add<T: PartialEq>(list: &mut Vec<T>, one: T) {
    if !list.contains(&one) {
        list.push(one);
    }
}
