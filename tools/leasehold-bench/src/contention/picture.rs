//! The picture of `contention` and `semaphore`: for each time of holding a row of panels, hand-offs,
//! waits and fairness; and how we stand beside peers.

use crate::chart::{Chart, Kind, Panel, Series};
use crate::metric::{HANDOFFS_ALL, JAIN_TASKS, Metric, WAIT_MS_P99};
use crate::row::{Row, Setup};
use crate::runtime::Flavour;

const PANELS: [(Metric, &str); 3] = [
    (HANDOFFS_ALL, "hand-offs/s"),
    (WAIT_MS_P99, "99th percentile of waits, ms"),
    (JAIN_TASKS, "Jain index over tasks"),
];

/// Processes, tasks in each, and the limit of a semaphore.
type Place = (usize, usize, Option<u64>);

/// Who, on which backend and runtime.
type Side<'a> = (&'static str, &'a str, Flavour);

pub(super) fn picture(rows: &[Row]) -> Chart {
    let (mut sides, mut holds, mut shapes) = (Vec::new(), Vec::new(), Vec::new());
    let (mut subjects, mut backends) = (Vec::new(), Vec::new());
    for Row { setup, .. } in rows {
        add(&mut sides, (setup.subject, setup.backend.as_str(), setup.runtime));
        add(&mut subjects, (setup.subject, setup.backend.as_str()));
        add(&mut backends, setup.backend.as_str());
        add(&mut holds, hold_ms(setup));
        add(&mut shapes, (setup.processes, setup.tasks, limit(setup)));
    }
    let series = sides.iter().map(|(subject, backend, runtime)| {
        let backend_said = if backends.len() > 1 { format!(", {backend}") } else { String::new() };
        Series {
            name: format!("{subject}{backend_said}, {}", runtime.name()),
            colour: subjects.iter().position(|one| *one == (*subject, *backend)).unwrap_or(0),
            light: *runtime == Flavour::Current,
        }
    });
    let semaphore = shapes.iter().any(|(.., limit)| limit.is_some());
    let one_shape = shapes.iter().all(|one| (one.0, one.1) == (shapes[0].0, shapes[0].1));
    let name = |(processes, tasks, limit): &Place| match limit {
        Some(limit) if one_shape => format!("{limit}"),
        Some(limit) => format!("{processes}x{tasks}, {limit}"),
        None => format!("{processes}x{tasks}"),
    };
    let names: Vec<String> = shapes.iter().map(name).collect();
    let axis = match (semaphore, shapes.first()) {
        (true, Some((processes, tasks, _))) if one_shape => format!("limit, {processes}x{tasks}"),
        (true, _) => "processes x tasks, limit".to_owned(),
        (false, _) => "processes x tasks".to_owned(),
    };
    let mut panels = Vec::new();
    for hold in &holds {
        for (metric, title) in PANELS {
            let value = |side: &Side<'_>, shape: &Place| {
                let fits = |row: &&Row| {
                    let setup = &row.setup;
                    row.metric == metric
                        && (setup.subject, setup.backend.as_str(), setup.runtime) == *side
                        && (setup.processes, setup.tasks, limit(setup)) == *shape
                        && hold_ms(setup) == *hold
                };
                rows.iter().find(fits).map(|row| row.value)
            };
            let of = |side| shapes.iter().map(|shape| value(side, shape)).collect();
            panels.push(Panel {
                title: title.to_owned(),
                x_label: format!("{axis}, held {hold} ms"),
                kind: Kind::Dots(names.clone()),
                values: sides.iter().map(of).collect(),
            });
        }
    }
    let what = if semaphore { "Permits of one semaphore" } else { "One contended lock" };
    Chart {
        title: format!("{what}, {}", backends.join(", ")),
        series: series.collect(),
        panels,
        columns: PANELS.len(),
    }
}

/// How many times a peer's hand-offs a second ours are, and how many times ours its waits.
pub(super) fn ratios(rows: &[Row]) -> Vec<String> {
    let of = |setup: &Setup, metric: Metric| {
        rows.iter().find(|row| row.metric == metric && row.setup == *setup).map(|row| row.value)
    };
    let mut lines = Vec::new();
    for theirs in rows.iter().filter(|row| row.metric == HANDOFFS_ALL) {
        if theirs.setup.subject == "leasehold" {
            continue;
        }
        let ours = Setup { subject: "leasehold", ..theirs.setup.clone() };
        let Some(handoffs) = of(&ours, HANDOFFS_ALL) else { continue };
        let Setup { subject, runtime, processes, tasks, .. } = &theirs.setup;
        let (hold, runtime) = (hold_ms(&ours), runtime.name());
        let waits = of(&theirs.setup, WAIT_MS_P99).zip(of(&ours, WAIT_MS_P99));
        let waits = waits.map_or_else(String::new, |(theirs, ours)| {
            format!(", p99 wait 1/{:.1}", theirs / ours.max(1e-3))
        });
        let handoffs = match theirs.value {
            0.0 => format!("{handoffs:.0} to none"),
            value => format!("{:.1} times", handoffs / value),
        };
        let limit = limit(&ours).map_or_else(String::new, |limit| format!(", limit {limit}"));
        lines.push(format!(
            "  {processes}x{tasks}, hold {hold} ms{limit}, {runtime}, {subject}: hand-offs \
             {handoffs}{waits}"
        ));
    }
    if lines.is_empty() {
        return Vec::new();
    }
    vec![format!("leasehold beside each peer:\n{}", lines.join("\n"))]
}

fn hold_ms(setup: &Setup) -> f64 {
    setup.extra.get("hold_ms").and_then(serde_json::Value::as_f64).unwrap_or_default()
}

fn limit(setup: &Setup) -> Option<u64> {
    setup.extra.get("limit").and_then(serde_json::Value::as_u64)
}

fn add<T: PartialEq>(list: &mut Vec<T>, one: T) {
    if !list.contains(&one) {
        list.push(one);
    }
}
