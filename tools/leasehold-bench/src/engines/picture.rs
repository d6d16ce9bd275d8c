//! The picture of `engines`, and how each stands beside the plain client.

use crate::chart::{Chart, Kind, Panel, Series};
use crate::metric::{HANDOFFS_ALL, Metric, PAIRS_PER_S, ROUND_TRIP_US};
use crate::row::{Row, Setup};
use crate::runtime::Flavour;

/// The subject that has no lock: it is not in the picture.
pub(super) const PUSH: &str = "raw-push";
pub(super) const QUEUE: &str = "raw-queue";

pub(super) fn picture(rows: &[Row]) -> Chart {
    let mut engines: Vec<String> = Vec::new();
    let mut sides: Vec<(&str, Flavour)> = Vec::new();
    let mut tasks: Vec<usize> = Vec::new();
    for Row { setup, .. } in rows.iter().filter(|row| ![PUSH, QUEUE].contains(&row.setup.subject)) {
        let side = (setup.subject, setup.runtime);
        if !engines.contains(&setup.backend) {
            engines.push(setup.backend.clone());
        }
        if !sides.contains(&side) {
            sides.push(side);
        }
        if !tasks.contains(&setup.tasks) {
            tasks.push(setup.tasks);
        }
    }
    let mut panels = Vec::new();
    for (metric, what) in [(PAIRS_PER_S, "pairs/s"), (HANDOFFS_ALL, "hand-offs/s")] {
        for &tasks in &tasks {
            let value = |side: &(&str, Flavour), engine: &String| {
                let fits = |row: &&Row| {
                    let setup = &row.setup;
                    row.metric == metric
                        && (setup.subject, setup.runtime) == *side
                        && (&setup.backend, setup.tasks) == (engine, tasks)
                };
                rows.iter().find(fits).map(|row| row.value)
            };
            let of = |side| engines.iter().map(|engine| value(side, engine)).collect();
            let plural = if tasks == 1 { "task" } else { "tasks" };
            panels.push(Panel {
                title: format!("{what}, {tasks} {plural}"),
                x_label: String::new(),
                kind: Kind::Dots(engines.clone()),
                values: sides.iter().map(of).collect(),
            });
        }
    }
    let series = sides.iter().map(|(subject, runtime)| Series {
        name: format!("{subject}, {}", runtime.name()),
        colour: usize::from(*subject != "leasehold"),
        light: *runtime == Flavour::Current,
    });
    Chart {
        title: "Engines beside their plain clients".to_owned(),
        series: series.collect(),
        columns: tasks.len(),
        panels,
    }
}

/// Our figures as multiples of the plain client's, and hand-offs in round trips.
pub(super) fn notes(rows: &[Row]) -> Vec<String> {
    let value = |metric: Metric, setup: &Setup, subject| {
        let setup = Setup { subject, ..setup.clone() };
        rows.iter().find(|row| row.metric == metric && row.setup == setup).map(|row| row.value)
    };
    let line = |row: &Row| {
        let setup = &row.setup;
        let pairs = row.value / value(PAIRS_PER_S, setup, "raw")?;
        let handoffs = value(HANDOFFS_ALL, setup, "leasehold")?;
        let more = handoffs / value(HANDOFFS_ALL, setup, "raw")?;
        let in_trips = |per_s: f64| Some(1e6 / per_s / value(ROUND_TRIP_US, setup, "raw")?);
        let simpler = [PUSH, QUEUE].into_iter().filter_map(|subject| {
            let trips = value(HANDOFFS_ALL, setup, subject).and_then(in_trips)?;
            Some(format!("{subject}: {trips:.1}"))
        });
        let simpler = simpler.collect::<Vec<_>>().join(", ");
        let least = if simpler.is_empty() { simpler } else { format!(" ({simpler})") };
        let trips = in_trips(handoffs);
        let trips = trips.map(|trips| format!(", a hand-off in {trips:.1} round trips{least}"));
        Some(format!(
            "  {}, {}, {} tasks: {pairs:.2}, {more:.2}{}",
            setup.backend,
            setup.runtime.name(),
            setup.tasks,
            trips.unwrap_or_default()
        ))
    };
    let ours = |row: &&Row| row.metric == PAIRS_PER_S && row.setup.subject == "leasehold";
    let lines: Vec<String> = rows.iter().filter(ours).filter_map(line).collect();
    if lines.is_empty() {
        return Vec::new();
    }
    vec![format!(
        "leasehold's pairs_per_s / raw's, and handoffs_per_s / raw's:\n{}",
        lines.join("\n")
    )]
}
