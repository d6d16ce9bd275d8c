//! The figures side by side for all sizes, and whether they grow faster than the logarithm of the size.

use super::case::Of;
use super::operation::Operation;
use super::verdict::growth;
use crate::metric::{CLIENT_US_PER_OPERATION, Metric, OPERATION_US_P50, SERVER_US_PER_OPERATION};
use crate::row::Row;
use crate::runtime::Flavour;
use crate::table::{aligned, number, separated};

/// A table for each metric, by locks and by waiters.
pub(super) fn tables(rows: &[Row]) -> String {
    let mut text = String::new();
    for of in Of::ALL {
        for (metric, title) in [
            (OPERATION_US_P50, "Median time, us"),
            (CLIENT_US_PER_OPERATION, "CPU time of the client's process, us"),
            (SERVER_US_PER_OPERATION, "CPU time of the server's process, us"),
        ] {
            if let Some(table) = table(rows, of, metric) {
                let by = match of {
                    Of::Locks => "by locks that are held",
                    Of::Waiters => "by waiters of one lock",
                };
                text += &format!("{title}, {by}\n\n{table}\n");
            }
        }
    }
    text
}

/// The sizes that were measured, ascending.
pub(super) fn sizes(rows: &[Row], of: Of) -> Vec<usize> {
    let mut sizes: Vec<usize> = rows.iter().filter_map(|row| size(row, of)).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// The engines and runtimes that were measured, in their order.
pub(super) fn sides(rows: &[Row]) -> Vec<(String, Flavour)> {
    let mut sides = Vec::new();
    for Row { setup, .. } in rows {
        let side = (setup.backend.clone(), setup.runtime);
        if !sides.contains(&side) {
            sides.push(side);
        }
    }
    sides
}

/// The value of a metric at one size.
pub(super) fn value(
    rows: &[Row],
    (side, operation, metric): (&(String, Flavour), Operation, Metric),
    (of, wanted): (Of, usize),
) -> Option<f64> {
    let fits = |row: &&Row| {
        let setup = &row.setup;
        row.metric == metric
            && (&setup.backend, setup.runtime) == (&side.0, side.1)
            && setup.extra.get("operation").is_some_and(|name| name == operation.name())
            && size(row, of) == Some(wanted)
    };
    rows.iter().find(fits).map(|row| row.value)
}

fn size(row: &Row, of: Of) -> Option<usize> {
    row.setup.extra.get(of.key())?.as_u64()?.try_into().ok()
}

fn table(rows: &[Row], of: Of, metric: Metric) -> Option<String> {
    let (sizes, sides) = (sizes(rows, of), sides(rows));
    let mut lines = Vec::new();
    for operation in Operation::ALL {
        for side in &sides {
            let at = |size: &usize| value(rows, (side, operation, metric), (of, *size));
            let values: Vec<Option<f64>> = sizes.iter().map(at).collect();
            if values.iter().all(Option::is_none) {
                continue;
            }
            let known: Vec<(usize, f64)> = sizes
                .iter()
                .zip(&values)
                .filter_map(|(size, value)| Some((*size, (*value)?)))
                .collect();
            let cell = |value: &Option<f64>| value.map_or_else(|| "-".to_owned(), number);
            let mut line =
                vec![operation.name().to_owned(), side.0.clone(), side.1.name().to_owned()];
            line.extend(values.iter().map(cell));
            match growth(&known) {
                Some(growth) => {
                    line.extend([growth.ratio, growth.log_ratio].map(number));
                    line.push(growth.word.to_owned());
                }
                None => line.extend(["-"; 3].map(str::to_owned)),
            }
            lines.push(line);
        }
    }
    let mut heads: Vec<String> = ["operation", "backend", "runtime"].map(str::to_owned).into();
    heads.extend(sizes.iter().map(|size| separated(&size.to_string())));
    heads.extend(["last/first", "log", "growth"].map(str::to_owned));
    (!lines.is_empty()).then(|| aligned(&heads, &lines, 3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Setup;

    #[test]
    fn sizes_are_columns_and_growth_is_the_last() {
        let setup = Setup::new("growth", "memory", Flavour::Multi).with("operation", "list");
        let at =
            |locks: usize, us: f64| setup.clone().with("locks", locks).row(OPERATION_US_P50, us);
        let pair = Setup::new("growth", "redis", Flavour::Multi).with("operation", "pair");
        let pair = pair.with("locks", 100).row(OPERATION_US_P50, 50.0);
        let expected = "\
Median time, us, by locks that are held

operation  backend  runtime   100  10,000  last/first   log  growth
pair       redis    multi    50.0       -           -     -       -
list       memory   multi    2.00     200         100  2.00  faster
";
        let text = tables(&[pair, at(100, 2.0), at(10_000, 200.0)]);
        assert_eq!(text.trim_end(), expected.trim_end());
    }
}
