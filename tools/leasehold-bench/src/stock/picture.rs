//! The picture of `stock`: sales per second, a panel for each engine, a bar for each way.

use crate::chart::{Chart, Kind, Panel, Series};
use crate::metric::SALES_PER_S;
use crate::row::{Row, Setup};
use crate::runtime::Flavour;

pub(super) fn picture(rows: &[Row]) -> Chart {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.metric == SALES_PER_S).collect();
    let engines = distinct(rows.iter().map(|row| row.setup.backend.clone()));
    let tasks = distinct(rows.iter().map(|row| row.setup.tasks));
    let sides = distinct(rows.iter().map(|row| (way(&row.setup), row.setup.runtime)));
    let ways = distinct(sides.iter().map(|(way, _)| way.clone()));
    let series = sides.iter().map(|(way, runtime)| Series {
        name: format!("{way}, {}", runtime.name()),
        colour: ways.iter().position(|one| one == way).unwrap_or_default(),
        light: *runtime == Flavour::Current,
    });
    let panel = |engine: &String| {
        let value = |side: &(String, Flavour), tasks: usize| {
            let fits = |row: &&&Row| {
                let setup = &row.setup;
                setup.backend == *engine
                    && setup.tasks == tasks
                    && (way(setup), setup.runtime) == *side
            };
            rows.iter().find(fits).map(|row| row.value)
        };
        let values = |side| tasks.iter().map(|tasks| value(side, *tasks)).collect();
        Panel {
            title: format!("{engine}: sales/s"),
            x_label: "buyers of one item".to_owned(),
            kind: Kind::Bars(tasks.iter().map(ToString::to_string).collect()),
            values: sides.iter().map(values).collect(),
        }
    };
    Chart {
        title: "Pieces of one item sold, none twice".to_owned(),
        series: series.collect(),
        columns: engines.len().min(3),
        panels: engines.iter().map(panel).collect(),
    }
}

/// How the piece was kept from others, and where the lock was.
fn way(setup: &Setup) -> String {
    match setup.extra.get("store").and_then(|store| store.as_str()) {
        Some(store) => format!("{} ({store})", setup.subject),
        None => setup.subject.to_owned(),
    }
}

/// Each once, in the order of their first.
fn distinct<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut once = Vec::new();
    for one in all {
        if !once.contains(&one) {
            once.push(one);
        }
    }
    once
}
