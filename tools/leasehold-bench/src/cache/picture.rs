//! The picture of `cache`: hits a second of each level, and how ours stand beside the others.

use crate::chart::{Chart, Kind, Panel, Series};
use crate::metric::HITS_PER_S;
use crate::row::{Row, Setup};
use crate::runtime::Flavour;

use super::Level;

/// The colour of each.
const SUBJECTS: [&str; 4] = ["leasehold", "quick_cache", "moka", "raw"];

pub(super) fn picture(rows: &[Row]) -> Chart {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.metric == HITS_PER_S).collect();
    let mut sides: Vec<(&str, Flavour)> = Vec::new();
    for Row { setup, .. } in &rows {
        if !sides.contains(&(setup.subject, setup.runtime)) {
            sides.push((setup.subject, setup.runtime));
        }
    }
    sides.sort_by_key(|(subject, _)| SUBJECTS.iter().position(|one| one == subject));
    let series = sides.iter().map(|(subject, runtime)| Series {
        name: format!("{subject}, {}", runtime.name()),
        colour: SUBJECTS.iter().position(|one| one == subject).unwrap_or_default(),
        light: *runtime == Flavour::Current,
    });
    let panel = |level: Level| {
        let here: Vec<&&Row> =
            rows.iter().filter(|row| row.setup.extra["level"] == level.name()).collect();
        let mut groups: Vec<String> = Vec::new();
        for row in &here {
            if !groups.contains(&group(&row.setup)) {
                groups.push(group(&row.setup));
            }
        }
        let value = |side: &(&str, Flavour), at: &String| {
            let fits = |row: &&&&Row| {
                (row.setup.subject, row.setup.runtime) == *side && group(&row.setup) == *at
            };
            here.iter().find(fits).map(|row| row.value)
        };
        let values = |side| groups.iter().map(|at| value(side, at)).collect();
        let place = if level == Level::Process { "in the process" } else { "in Redis" };
        Panel {
            title: format!("{place} ({}): hits/s", level.name()),
            x_label: "tasks, share of reads".to_owned(),
            values: sides.iter().map(values).collect(),
            kind: Kind::Dots(groups),
        }
    };
    Chart {
        title: "Hits in the cache".to_owned(),
        series: series.collect(),
        columns: 1,
        panels: vec![panel(Level::Process), panel(Level::Redis)],
    }
}

fn group(setup: &Setup) -> String {
    format!("{}, {} %", setup.tasks, setup.extra["reads"])
}

/// Our hits as multiples of the others'.
pub(super) fn notes(rows: &[Row]) -> Vec<String> {
    let hits = || rows.iter().filter(|row| row.metric == HITS_PER_S);
    let mut lines = Vec::new();
    for ours in hits().filter(|row| row.setup.subject == "leasehold") {
        let beside = |row: &&Row| {
            let (one, other) = (&row.setup, &ours.setup);
            one.subject != "leasehold"
                && (one.runtime, one.tasks, &one.extra)
                    == (other.runtime, other.tasks, &other.extra)
        };
        let others = hits().filter(beside);
        let told =
            others.map(|row| format!("{:.2} of {}'s", ours.value / row.value, row.setup.subject));
        let Setup { runtime, tasks, extra, .. } = &ours.setup;
        let level = extra["level"].as_str().unwrap_or_default();
        lines.push(format!(
            "  {level}, {}, {tasks} tasks, {} % reads: {}",
            runtime.name(),
            extra["reads"],
            told.collect::<Vec<_>>().join(", ")
        ));
    }
    vec![format!("leasehold's hits_per_s:\n{}", lines.join("\n"))]
}
