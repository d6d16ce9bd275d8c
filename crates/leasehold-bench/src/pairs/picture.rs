//! The picture of `pairs`: pairs per second over the number of tasks, a panel for each backend.

use crate::chart::{Chart, Kind, Panel, Series};
use crate::metric::PAIRS_PER_S;
use crate::row::Row;
use crate::runtime::Flavour;

pub(super) fn picture(rows: &[Row]) -> Chart {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.metric == PAIRS_PER_S).collect();
    let mut backends: Vec<&str> = Vec::new();
    let mut tasks: Vec<usize> = Vec::new();
    let mut sides: Vec<(&str, Flavour)> = Vec::new();
    for row in &rows {
        let (backend, side) = (row.setup.backend.as_str(), (row.setup.subject, row.setup.runtime));
        if !backends.contains(&backend) {
            backends.push(backend);
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
    let series = sides.iter().map(|(subject, runtime)| Series {
        name: format!("{subject}, {}", runtime.name()),
        colour: usize::from(*subject != "leasehold"),
        light: *runtime == Flavour::Current,
    });
    let panel = |backend: &&str| {
        let of = |side: &(&str, Flavour)| {
            let value = |tasks: &usize| {
                let fits = |row: &&&Row| {
                    let setup = &row.setup;
                    setup.backend == **backend
                        && (setup.subject, setup.runtime) == *side
                        && setup.tasks == *tasks
                };
                rows.iter().find(fits).map(|row| row.value)
            };
            tasks.iter().map(value).collect()
        };
        Panel {
            title: format!("{backend}: pairs per second"),
            x_label: "tasks, each with a lock of its own".to_owned(),
            kind: Kind::Lines(tasks.iter().map(|tasks| *tasks as f64).collect()),
            values: sides.iter().map(of).collect(),
        }
    };
    Chart {
        title: "Uncontended acquire + release, one process".to_owned(),
        series: series.collect(),
        panels: backends.iter().map(panel).collect(),
    }
}
