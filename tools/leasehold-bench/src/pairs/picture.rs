//! The picture of `pairs`: pairs per second over the number of tasks, a panel for each backend and
//! way of asking; and how we stand beside peers.

use crate::chart::{Chart, Kind, Panel, Series};
use crate::metric::{CLIENT_US_PER_PAIR, Metric, PAIRS_PER_S};
use crate::row::{Row, Setup};
use crate::runtime::Flavour;

pub(super) fn picture(rows: &[Row]) -> Chart {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.metric == PAIRS_PER_S).collect();
    let mut panels: Vec<String> = Vec::new();
    let mut tasks: Vec<usize> = Vec::new();
    let mut sides: Vec<(&str, Flavour)> = Vec::new();
    for row in &rows {
        let side = (row.setup.subject, row.setup.runtime);
        if !panels.contains(&panel(&row.setup)) {
            panels.push(panel(&row.setup));
        }
        if !tasks.contains(&row.setup.tasks) {
            tasks.push(row.setup.tasks);
        }
        if !sides.contains(&side) {
            sides.push(side);
        }
    }
    tasks.sort_unstable();
    sides.sort_by_key(|(subject, runtime)| (*subject, *runtime == Flavour::Current));
    let mut subjects: Vec<&str> = sides.iter().map(|(subject, _)| *subject).collect();
    subjects.dedup();
    let series = sides.iter().map(|(subject, runtime)| Series {
        name: format!("{subject}, {}", runtime.name()),
        colour: subjects.iter().position(|one| one == subject).unwrap_or_default(),
        light: *runtime == Flavour::Current,
    });
    let draw = |title: &String| {
        let of = |side: &(&str, Flavour)| {
            let value = |tasks: &usize| {
                let fits = |row: &&&Row| {
                    let setup = &row.setup;
                    panel(setup) == *title
                        && (setup.subject, setup.runtime) == *side
                        && setup.tasks == *tasks
                };
                rows.iter().find(fits).map(|row| row.value)
            };
            tasks.iter().map(value).collect()
        };
        Panel {
            title: format!("{title}: pairs/s"),
            x_label: "tasks, each with a lock of its own".to_owned(),
            kind: Kind::Lines(tasks.iter().map(|tasks| *tasks as f64).collect()),
            values: sides.iter().map(of).collect(),
        }
    };
    Chart {
        title: "Uncontended acquire + release, one process".to_owned(),
        series: series.collect(),
        columns: panels.len().min(2),
        panels: panels.iter().map(draw).collect(),
    }
}

/// What a panel is about.
fn panel(setup: &Setup) -> String {
    let mut title = setup.backend.clone();
    if let Some(nodes) = setup.extra.get("nodes") {
        title += &format!(", {nodes} nodes");
    }
    if let Some(names) = setup.extra.get("names").and_then(|names| names.as_str()) {
        title += &format!(", {names} names");
    }
    match setup.extra.get("delay_ms").and_then(serde_json::Value::as_f64) {
        Some(delay) if delay > 0.0 => format!("{title}, {delay} ms away"),
        _ => title,
    }
}

/// How we stand beside each peer, line by line: pairs a second and CPU time.
pub(super) fn ratios(rows: &[Row]) -> Vec<String> {
    let mut peers: Vec<&'static str> = Vec::new();
    for row in rows {
        let subject = row.setup.subject;
        let own = ["leasehold", "leasehold-cached", "raw", "raw-socket", "raw-record"];
        if !own.contains(&subject) && !peers.contains(&subject) {
            peers.push(subject);
        }
    }
    let value = |metric: Metric, setup: &Setup, subject| {
        let setup = Setup { subject, ..setup.clone() };
        let found = rows.iter().find(|row| row.metric == metric && row.setup == setup)?;
        Some(found.value)
    };
    let ratios_to = |subject: &'static str, peer: &'static str| {
        let ratio = |ours: &Row| {
            let setup = &ours.setup;
            let per_s = ours.value / value(PAIRS_PER_S, setup, peer)?;
            let cpu = value(CLIENT_US_PER_PAIR, setup, peer)?
                / value(CLIENT_US_PER_PAIR, setup, subject)?;
            let (panel, runtime, tasks) = (panel(setup), setup.runtime.name(), setup.tasks);
            Some(format!("  {panel}, {runtime}, {tasks} tasks: {per_s:.2}, {cpu:.2}"))
        };
        let ours = |row: &&Row| row.metric == PAIRS_PER_S && row.setup.subject == subject;
        let lines: Vec<String> = rows.iter().filter(ours).filter_map(ratio).collect();
        let lines = (!lines.is_empty()).then(|| lines.join("\n"))?;
        Some(format!(
            "{subject}'s pairs_per_s / {peer}'s, and {peer}'s client_us_per_pair / {subject}'s:\n{lines}"
        ))
    };
    let ours = ["leasehold", "leasehold-cached"];
    peers.iter().flat_map(|peer| ours.map(|subject| ratios_to(subject, peer))).flatten().collect()
}
