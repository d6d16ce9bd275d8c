//! The picture of `cache-killed`: loads, errors and waits over time.

use crate::chart::{Chart, Kind, Panel, Series};
use crate::measure::percentile;

use super::load::{Part, TimeLine};
use super::{SIDES, Times};

/// `lines` of each side, in their order.
pub(super) fn picture(lines: &[TimeLine], times: Times) -> Chart {
    let series = SIDES.iter().enumerate().map(|(colour, side)| Series {
        name: (*side).to_owned(),
        colour,
        light: false,
    });
    let p99_ms = |part: &Part| percentile(&part.took_us, 0.99).unwrap_or_default() as f64 / 1e3;
    Chart {
        title: "Redis is killed under load, and comes back empty".to_owned(),
        series: series.collect(),
        columns: 1,
        panels: vec![
            panel("loads/s", lines, times, &Part::loads_per_s),
            panel("errors, % of the requests", lines, times, &|part| part.error_share() * 100.0),
            panel("99th percentile of a request, ms", lines, times, &p99_ms),
        ],
    }
}

fn panel(title: &str, lines: &[TimeLine], times: Times, figure: &dyn Fn(&Part) -> f64) -> Panel {
    let parts = lines.first().map_or(0, |line| line.parts.len());
    let second = |part: usize| times.part.as_secs_f64() * part as f64;
    let values = |line: &TimeLine| line.parts.iter().map(|part| Some(figure(part))).collect();
    let marks =
        vec![(second(parts / 3), "killed".to_owned()), (second(2 * parts / 3), "back".to_owned())];
    Panel {
        title: title.to_owned(),
        x_label: "seconds".to_owned(),
        kind: Kind::Curves { xs: (0..parts).map(second).collect(), marks },
        values: lines.iter().map(values).collect(),
    }
}
