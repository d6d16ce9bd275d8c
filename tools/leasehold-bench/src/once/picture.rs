//! The picture of `once`: requests a second, and attempts for each row.

use crate::chart::{Chart, Kind, Panel, Series};
use crate::metric::{ATTEMPTS_PER_ROW, Metric, REQUESTS_PER_S};
use crate::row::Row;

use super::ways::WAYS;

pub(super) fn picture(rows: &[Row]) -> Chart {
    let series = WAYS.iter().enumerate().map(|(colour, name)| Series {
        name: (*name).to_owned(),
        colour,
        light: false,
    });
    Chart {
        title: "Rows saved once, each of which comes twice".to_owned(),
        series: series.collect(),
        columns: 2,
        panels: vec![
            panel(rows, "requests/s", REQUESTS_PER_S),
            panel(rows, "insert attempts for each row", ATTEMPTS_PER_ROW),
        ],
    }
}

fn panel(rows: &[Row], title: &str, metric: Metric) -> Panel {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.metric == metric).collect();
    let name = |row: &Row| {
        let setup = &row.setup;
        format!("{}x{} {}", setup.tasks, setup.extra["rows"], setup.runtime.name())
    };
    let mut once: Vec<String> = Vec::new();
    for row in &rows {
        if !once.contains(&name(row)) {
            once.push(name(row));
        }
    }
    let value = |way: &str, at: &String| {
        let fits = |row: &&&Row| row.setup.subject == way && name(row) == *at;
        rows.iter().find(fits).map(|row| row.value)
    };
    let values = |way: &&str| once.iter().map(|at| value(way, at)).collect();
    Panel {
        title: title.to_owned(),
        x_label: "tasks x rows at a time".to_owned(),
        values: WAYS.iter().map(values).collect(),
        kind: Kind::Bars(once),
    }
}
