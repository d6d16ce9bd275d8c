//! The picture of `bloom`: server time for a call, and loads for each defence.

use crate::chart::{Chart, Kind, Panel, Series};
use crate::metric::{CALL_US, LOADS, Metric};
use crate::row::Row;

pub(super) fn picture(rows: &[Row]) -> Chart {
    let series = ["leasehold", "lua"].iter().enumerate().map(|(colour, name)| Series {
        name: (*name).to_owned(),
        colour,
        light: false,
    });
    Chart {
        title: "Bloom filter: server time and loads".to_owned(),
        series: series.collect(),
        columns: 2,
        panels: vec![
            panel(rows, "server's µs for a call", CALL_US, "work"),
            panel(rows, "loads for keys that do not exist", LOADS, "defence"),
        ],
    }
}

/// A bar for each value that the key has.
fn panel(rows: &[Row], title: &str, metric: Metric, key: &str) -> Panel {
    let name = |row: &Row| {
        let name = row.setup.extra.get(key).and_then(|value| value.as_str()).unwrap_or_default();
        let (tasks, runtime) = (row.setup.tasks, row.setup.runtime.name());
        if key == "work" { format!("{name}, {tasks} {runtime}") } else { name.to_owned() }
    };
    let rows: Vec<&Row> = rows.iter().filter(|row| row.metric == metric).collect();
    let mut names: Vec<String> = Vec::new();
    for row in &rows {
        if !names.contains(&name(row)) {
            names.push(name(row));
        }
    }
    let value = |subject: &str, at: &String| {
        let fits = |row: &&&Row| row.setup.subject == subject && name(row) == *at;
        rows.iter().find(fits).map(|row| row.value)
    };
    let values = |subject| names.iter().map(|at| value(subject, at)).collect();
    Panel {
        title: title.to_owned(),
        x_label: String::new(),
        values: vec![values("leasehold"), values("lua")],
        kind: Kind::Bars(names),
    }
}
