//! The picture of `serve`: the time to acquire a lock, by each way.

use crate::chart::{Chart, Kind, Panel, Series};
use crate::metric::{ACQUIRE_MS_P50, ACQUIRE_MS_P99, Metric};
use crate::row::Row;

use super::pairs::Way;

pub(super) fn picture(rows: &[Row]) -> Chart {
    let series = Way::ALL.iter().enumerate().map(|(colour, way)| Series {
        name: way.name().to_owned(),
        colour,
        light: false,
    });
    Chart {
        title: "A lock on Redis by the library, and through the server".to_owned(),
        series: series.collect(),
        columns: 2,
        panels: vec![
            panel(rows, "ms to acquire, median", ACQUIRE_MS_P50),
            panel(rows, "ms to acquire, 99 of 100", ACQUIRE_MS_P99),
        ],
    }
}

fn panel(rows: &[Row], title: &str, metric: Metric) -> Panel {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.metric == metric).collect();
    let mut tasks: Vec<usize> = rows.iter().map(|row| row.setup.tasks).collect();
    tasks.sort_unstable();
    tasks.dedup();
    let value = |way: &Way, tasks: usize| {
        let fits = |row: &&&Row| row.setup.subject == way.name() && row.setup.tasks == tasks;
        rows.iter().find(fits).map(|row| row.value)
    };
    let values = |way: &Way| tasks.iter().map(|tasks| value(way, *tasks)).collect();
    Panel {
        title: title.to_owned(),
        x_label: "tasks".to_owned(),
        values: Way::ALL.iter().map(values).collect(),
        kind: Kind::Bars(tasks.iter().map(usize::to_string).collect()),
    }
}
