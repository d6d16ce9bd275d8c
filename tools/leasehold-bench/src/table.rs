//! The figures as a table: a line for each setup, a column for each metric.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::metric::Metric;
use crate::row::{Row, Setup};

/// Draws the table; the first line is in bold if asked for.
pub(crate) fn table(rows: &[Row], bold: bool) -> String {
    let mut setups: Vec<&Setup> = Vec::new();
    let mut metrics: Vec<Metric> = Vec::new();
    let mut last = None;
    for row in rows {
        if !setups.contains(&&row.setup) {
            setups.push(&row.setup);
            last = None;
        }
        if !metrics.contains(&row.metric) {
            // One that other setups do not have stands where its own setup has it.
            let before = |last| metrics.iter().position(|metric| Some(*metric) == last);
            let at = before(last).map_or(metrics.len(), |at| at + 1);
            metrics.insert(at, row.metric);
        }
        last = Some(row.metric);
    }
    let several = setups.iter().any(|setup| setup.processes != 1);
    let extra: BTreeMap<&str, ()> =
        setups.iter().flat_map(|setup| setup.extra.keys().map(|key| (*key, ()))).collect();

    let mut columns = vec![
        Column::text("subject", setups.iter().map(|setup| setup.subject.to_owned())),
        Column::text("backend", setups.iter().map(|setup| setup.backend.clone())),
        Column::text("runtime", setups.iter().map(|setup| setup.runtime.name().to_owned())),
    ];
    if several {
        columns.push(Column::number("processes", setups.iter().map(|s| whole(s.processes))));
    }
    columns.push(Column::number("tasks", setups.iter().map(|setup| whole(setup.tasks))));
    for key in extra.keys() {
        columns.push(Column::number(key, setups.iter().map(|s| shown(s.extra.get(key)))));
    }
    for metric in metrics {
        let cell = |setup: &&Setup| {
            let same = |row: &&Row| row.metric == metric && row.setup == **setup;
            rows.iter().find(same).map_or_else(|| "-".to_owned(), |row| number(row.value))
        };
        columns.push(Column::number(metric.head(), setups.iter().map(cell)));
    }
    let width = |columns: &[Column]| columns.iter().map(|column| column.width + 2).sum::<usize>();
    if width(&columns) > WIDE {
        columns.iter_mut().for_each(Column::narrow);
    }
    draw(&columns, setups.len(), bold)
}

/// Draws lines of cells below their heads: the first `texts` columns are texts, the others numbers.
#[cfg(feature = "servers")]
pub(crate) fn aligned(heads: &[String], lines: &[Vec<String>], texts: usize) -> String {
    let column = |(at, head): (usize, &String)| {
        let cells = lines.iter().map(|line| line.get(at).cloned().unwrap_or_default());
        match at < texts {
            true => Column::text(head, cells),
            false => Column::number(head, cells),
        }
    };
    let columns: Vec<Column> = heads.iter().enumerate().map(column).collect();
    draw(&columns, lines.len(), false)
}

/// A table that is wider than this has heads of two lines.
const WIDE: usize = 120;

struct Column {
    head: String,
    /// What stands above the rest of the head.
    above: String,
    cells: Vec<String>,
    width: usize,
    right: bool,
}

impl Column {
    fn text(head: &str, cells: impl Iterator<Item = String>) -> Self {
        let cells: Vec<String> = cells.collect();
        let widths = cells.iter().map(String::as_str).chain([head]).map(|c| c.chars().count());
        let width = widths.max().unwrap_or_default();
        Self { head: head.to_owned(), above: String::new(), cells, width, right: false }
    }

    fn number(head: &str, cells: impl Iterator<Item = String>) -> Self {
        Self { right: true, ..Self::text(head, cells) }
    }

    /// Breaks the head where both halves are shortest.
    fn narrow(&mut self) {
        let breaks = self.head.match_indices('_').map(|(at, _)| at + 1);
        let longer = |at: &usize| (*at).max(self.head.len() - at);
        let Some(at) = breaks.min_by_key(longer) else { return };
        let cells = self.cells.iter().map(|cell| cell.chars().count()).max().unwrap_or_default();
        self.width = cells.max(longer(&at));
        self.above = self.head[..at].to_owned();
        self.head.drain(..at);
    }

    fn aligned(&self, cell: &str) -> String {
        let width = self.width;
        if self.right { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
    }
}

fn draw(columns: &[Column], lines: usize, bold: bool) -> String {
    let line = |cell: &dyn Fn(&Column) -> String| {
        let cells: Vec<String> =
            columns.iter().map(|column| column.aligned(&cell(column))).collect();
        cells.join("  ").trim_end().to_owned()
    };
    let (above, head) = (line(&|column| column.above.clone()), line(&|column| column.head.clone()));
    let head = if above.is_empty() { head } else { format!("{above}\n{head}") };
    let mut drawn = if bold { format!("\x1b[1m{head}\x1b[0m\n") } else { format!("{head}\n") };
    for index in 0..lines {
        drawn += &line(&|column| column.cells.get(index).cloned().unwrap_or_default());
        drawn.push('\n');
    }
    drawn
}

fn shown(value: Option<&Value>) -> String {
    match value {
        None => "-".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => match value.as_f64() {
            Some(value) if value.fract() == 0.0 => separated(&format!("{value:.0}")),
            Some(value) => number(value),
            None => value.to_string(),
        },
    }
}

fn whole(value: usize) -> String {
    separated(&value.to_string())
}

/// Three digits or more, with separators for thousands; two of what is smaller than a tenth.
pub(crate) fn number(value: f64) -> String {
    separated(&match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.0995 => format!("{value:.2}"),
        size if size >= 0.00995 => format!("{value:.3}"),
        size if size >= 0.000_995 => format!("{value:.4}"),
        size if size >= 0.000_001 => format!("{value:.5}"),
        _ => format!("{value:.2}"),
    })
}

/// A number with separators for thousands.
pub(crate) fn separated(number: &str) -> String {
    let whole = number.find('.').unwrap_or(number.len());
    let mut out = String::new();
    for (at, digit) in number.chars().enumerate() {
        let follow = whole.saturating_sub(at);
        if at > 0 && at < whole && follow % 3 == 0 && out != "-" {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::{CLIENT_US_PER_PAIR, HANDOFFS_ALL, PAIRS_PER_S};
    use crate::runtime::Flavour;

    #[test]
    fn thousands_are_separated() {
        for (value, text) in [
            (0.0, "0.00"),
            (0.1, "0.10"),
            (0.05, "0.050"),
            (0.001, "0.0010"),
            (-0.000_1, "-0.00010"),
            (1.234, "1.23"),
            (12.34, "12.3"),
            (123.4, "123"),
            (1234.0, "1,234"),
            (-123_456.0, "-123,456"),
            (12_345_678.9, "12,345,679"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn a_wide_table_has_heads_of_two_lines() {
        let setup = Setup::new("contention", "redis", Flavour::Multi);
        let names = ["wait_ms_p99", "client_us_per_handoff", "local"];
        let column = |name: &str| Column::number(name, std::iter::once("1.00".to_owned()));
        let mut columns: Vec<Column> = names.into_iter().map(column).collect();
        columns.iter_mut().for_each(Column::narrow);
        let lines =
            [" wait_   client_us_", "ms_p99  per_handoff  local", "  1.00         1.00   1.00"];
        assert_eq!(draw(&columns, 1, false).lines().collect::<Vec<_>>(), lines);
        // One that is narrow keeps them.
        assert_eq!(table(&[setup.row(PAIRS_PER_S, 1.0)], false).lines().count(), 2);
    }

    #[test]
    fn a_setup_is_a_line_and_its_metrics_are_aligned_columns() {
        let one = Setup::new("pairs", "memory", Flavour::Multi);
        let mut many = Setup::new("pairs", "file", Flavour::Current).with("hold_ms", 3);
        many.tasks = 1024;
        let rows = [
            one.row(PAIRS_PER_S, 1_500_000.0),
            one.row(CLIENT_US_PER_PAIR, 0.75),
            many.row(PAIRS_PER_S, 950.0),
        ];
        let both = [one.row(PAIRS_PER_S, 1.0), one.row(HANDOFFS_ALL, 1.0)];
        let three = [PAIRS_PER_S, CLIENT_US_PER_PAIR, HANDOFFS_ALL].map(|one| many.row(one, 1.0));
        let head = table(&[&both[..], &three].concat(), false);
        assert!(head.contains("pairs_per_s  client_us_per_pair  handoffs_per_s"), "{head}");
        let expected = "\
subject    backend  runtime  tasks  hold_ms  pairs_per_s  client_us_per_pair
leasehold  memory   multi        1        -    1,500,000                0.75
leasehold  file     current  1,024        3          950                   -
";
        assert_eq!(table(&rows, false), expected);
        assert!(table(&rows, true).starts_with("\x1b[1msubject"));
    }
}
