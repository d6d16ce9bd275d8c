//! The figures as JSON: one object a line, keys in the order that the documents show.

use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

use crate::Result;
use crate::row::{Row, Setup};

#[derive(Serialize)]
struct JsonRow<'a> {
    #[serde(flatten)]
    setup: &'a Setup,
    metric: &'static str,
    value: f64,
    unit: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<&'static str>,
    #[serde(flatten)]
    extra: &'a BTreeMap<&'static str, Value>,
}

/// All figures, a line each.
pub(crate) fn lines(rows: &[Row]) -> Result<String> {
    let mut lines = String::new();
    for row in rows {
        lines += &serde_json::to_string(&JsonRow {
            setup: &row.setup,
            metric: row.metric.name,
            value: six_digits(row.value),
            unit: row.metric.unit,
            scope: row.metric.scope,
            extra: &row.setup.extra,
        })?;
        lines.push('\n');
    }
    Ok(lines)
}

/// Nothing that is measured here is more exact than that.
fn six_digits(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::{CLIENT_US_PER_PAIR, HANDOFFS_LOCAL, PAIRS_PER_S};
    use crate::runtime::Flavour;

    #[test]
    fn a_line_is_exactly_as_documented() {
        let mut setup = Setup::new("pairs", "redis", Flavour::Multi);
        setup.tasks = 64;
        let lines = lines(&[
            setup.row(PAIRS_PER_S, 187_000.0),
            setup.row(HANDOFFS_LOCAL, 5.0),
            setup.with("hold_ms", 3).with("nodes", 5).row(CLIENT_US_PER_PAIR, 1.234_567_89),
        ]);
        let expected = concat!(
            r#"{"bench":"pairs","subject":"leasehold","backend":"redis","runtime":"multi","#,
            r#""processes":1,"tasks":64,"metric":"pairs_per_s","value":187000.0,"unit":"1/s"}"#,
            "\n",
            r#"{"bench":"pairs","subject":"leasehold","backend":"redis","runtime":"multi","#,
            r#""processes":1,"tasks":64,"metric":"handoffs_per_s","value":5.0,"unit":"1/s","#,
            r#""scope":"local"}"#,
            "\n",
            r#"{"bench":"pairs","subject":"leasehold","backend":"redis","runtime":"multi","#,
            r#""processes":1,"tasks":64,"metric":"client_us_per_pair","value":1.23457,"unit":"us","#,
            r#""hold_ms":3,"nodes":5}"#,
            "\n",
        );
        assert_eq!(lines.unwrap(), expected);
    }
}
