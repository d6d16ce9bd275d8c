//! The picture of `hold`: memory, CPU time and hand-offs side by side.

use super::legend;
use crate::chart::{Chart, Kind, Panel, Series};
use crate::metric::{BYTES_PER_LOCK, BYTES_PER_WAITER, CLIENT_MS_PER_S, HANDOFFS_PER_S, Metric};
use crate::row::Row;
use crate::runtime::Flavour;
use crate::table::separated;

pub(super) fn picture(rows: &[Row]) -> Chart {
    let mut setups: Vec<(&str, Flavour)> = Vec::new();
    let mut backends: Vec<&str> = Vec::new();
    for row in rows {
        let setup = (row.setup.backend.as_str(), row.setup.runtime);
        if !setups.contains(&setup) {
            setups.push(setup);
        }
        if !backends.contains(&setup.0) {
            backends.push(setup.0);
        }
    }
    let series = setups.iter().map(|(backend, runtime)| Series {
        name: legend(backend, *runtime),
        colour: backends.iter().position(|other| other == backend).unwrap_or_default(),
        light: *runtime == Flavour::Current,
    });
    let values = |metrics: &[(Metric, bool)]| {
        let of = |(backend, runtime): &(&str, Flavour)| {
            let value = |(metric, waiting): &(Metric, bool)| {
                let fits = |row: &&Row| {
                    row.setup.backend == *backend
                        && row.setup.runtime == *runtime
                        && row.metric == *metric
                        && row.setup.extra.contains_key("scope") == *waiting
                };
                rows.iter().find(fits).map(|row| row.value)
            };
            metrics.iter().map(value).collect()
        };
        setups.iter().map(of).collect()
    };
    let panel = |title: &str, names: &[&str], metrics: &[(Metric, bool)]| Panel {
        title: title.to_owned(),
        x_label: String::new(),
        kind: Kind::Bars(names.iter().map(|name| (*name).to_owned()).collect()),
        values: values(metrics),
    };
    Chart {
        title: title(rows),
        series: series.collect(),
        panels: vec![
            panel(
                "bytes each",
                &["held lock", "waiting task"],
                &[(BYTES_PER_LOCK, false), (BYTES_PER_WAITER, true)],
            ),
            panel(
                "client CPU, ms per second",
                &["all held", "all waiting"],
                &[(CLIENT_MS_PER_S, false), (CLIENT_MS_PER_S, true)],
            ),
            panel("hand-offs per second", &["one lock, through all"], &[(HANDOFFS_PER_S, true)]),
        ],
    }
}

fn title(rows: &[Row]) -> String {
    let of = |metric: Metric| rows.iter().find(|row| row.metric == metric).map(|row| &row.setup);
    let locks = of(BYTES_PER_LOCK).and_then(|setup| setup.extra.get("locks")?.as_u64());
    let tasks = of(BYTES_PER_WAITER).map_or(0, |setup| setup.tasks);
    let locks = separated(&locks.unwrap_or_default().to_string());
    format!("{locks} locks held, {} tasks waiting, one process", separated(&tasks.to_string()))
}
