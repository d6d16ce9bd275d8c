//! The picture of `hold`: memory, CPU time and hand-offs side by side.

use crate::chart::{Chart, Kind, Panel, Series};
use crate::metric::{
    BYTES_PER_LOCK, BYTES_PER_WAITER, CLIENT_MS_PER_S, HANDOFFS_PER_S, Metric, SERVER_MS_PER_S,
};
use crate::row::Row;
use crate::runtime::Flavour;
use crate::table::separated;

/// Who, on which backend and runtime.
type Side<'a> = (&'static str, &'a str, Flavour);

/// A bar: its name, its metric, and whether tasks wait then.
type Bar = (&'static str, Metric, bool);

pub(super) fn picture(rows: &[Row]) -> Chart {
    let mut sides: Vec<Side<'_>> = Vec::new();
    let mut colours: Vec<(&str, &str)> = Vec::new();
    for row in rows {
        let (subject, backend) = (row.setup.subject, row.setup.backend.as_str());
        if !sides.contains(&(subject, backend, row.setup.runtime)) {
            sides.push((subject, backend, row.setup.runtime));
        }
        if !colours.contains(&(subject, backend)) {
            colours.push((subject, backend));
        }
    }
    let series = sides.iter().map(|(subject, backend, runtime)| Series {
        name: match *subject {
            "leasehold" => format!("{backend}, {}", runtime.name()),
            other => format!("{backend}, {}: {other}", runtime.name()),
        },
        colour: colours.iter().position(|one| one == &(*subject, *backend)).unwrap_or_default(),
        light: *runtime == Flavour::Current,
    });
    let panel = |title: &str, bars: &[Bar]| {
        let value = |side: &Side<'_>, (_, metric, waiting): &Bar| {
            let fits = |row: &&Row| {
                (row.setup.subject, row.setup.backend.as_str(), row.setup.runtime) == *side
                    && row.metric == *metric
                    && row.setup.extra.contains_key("scope") == *waiting
            };
            rows.iter().find(fits).map(|row| row.value)
        };
        let of = |side| bars.iter().map(|bar| value(side, bar)).collect();
        Panel {
            title: title.to_owned(),
            x_label: String::new(),
            kind: Kind::Bars(bars.iter().map(|(name, ..)| (*name).to_owned()).collect()),
            values: sides.iter().map(of).collect(),
        }
    };
    let bytes = [("held lock", BYTES_PER_LOCK, false), ("waiting task", BYTES_PER_WAITER, true)];
    let mut cpu = vec![("client, held", CLIENT_MS_PER_S, false)];
    if rows.iter().any(|row| row.metric == SERVER_MS_PER_S) {
        cpu.push(("server, held", SERVER_MS_PER_S, false));
    } else {
        cpu.push(("client, waiting", CLIENT_MS_PER_S, true));
    }
    Chart {
        title: title(rows),
        series: series.collect(),
        panels: vec![
            panel("bytes each", &bytes),
            panel("CPU, ms per second", &cpu),
            panel("hand-offs per second", &[("one lock, through all", HANDOFFS_PER_S, true)]),
        ],
        columns: 3,
    }
}

fn title(rows: &[Row]) -> String {
    let of = |metric: Metric| rows.iter().find(|row| row.metric == metric).map(|row| &row.setup);
    let locks = of(BYTES_PER_LOCK).and_then(|setup| setup.extra.get("locks")?.as_u64());
    let tasks = of(BYTES_PER_WAITER).map_or(0, |setup| setup.tasks);
    let locks = separated(&locks.unwrap_or_default().to_string());
    format!("{locks} locks held, {} tasks waiting, one process", separated(&tasks.to_string()))
}
