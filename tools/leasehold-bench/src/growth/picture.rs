//! The picture of `growth`: a panel for each operation, by locks and by waiters.

use super::case::Of;
use super::operation::Operation;
use super::report::{sides, sizes, value};
use crate::chart::{Chart, Kind, Panel, Series};
use crate::metric::OPERATION_US_P50;
use crate::row::Row;

/// Colours that the pictures have.
const COLOURS: usize = 8;

pub(super) fn picture(rows: &[Row]) -> Chart {
    let sides = sides(rows);
    let several = sides.iter().any(|(_, runtime)| *runtime != sides[0].1);
    let mut engines: Vec<&str> = sides.iter().map(|(engine, _)| engine.as_str()).collect();
    engines.dedup();
    let mut series = Vec::new();
    for (engine, runtime) in &sides {
        let at = engines.iter().position(|one| one == engine).unwrap_or_default();
        let first = sides.iter().find(|side| side.0 == *engine).is_some_and(|s| s.1 == *runtime);
        series.push(Series {
            name: if several { format!("{engine}, {}", runtime.name()) } else { engine.clone() },
            colour: at,
            light: !first || at >= COLOURS,
        });
    }
    let mut panels = Vec::new();
    for of in Of::ALL {
        let sizes = sizes(rows, of);
        for operation in Operation::ALL {
            let of_side = |side| {
                let at =
                    |size: &usize| value(rows, (side, operation, OPERATION_US_P50), (of, *size));
                sizes.iter().map(at).collect::<Vec<_>>()
            };
            let values: Vec<Vec<Option<f64>>> = sides.iter().map(of_side).collect();
            if values.iter().flatten().all(Option::is_none) {
                continue;
            }
            panels.push(Panel {
                title: format!("{}, us", operation.name()),
                x_label: match of {
                    Of::Locks => "locks held".to_owned(),
                    Of::Waiters => "waiters of one lock".to_owned(),
                },
                kind: Kind::Lines(sizes.iter().map(|size| *size as f64).collect()),
                values,
            });
        }
    }
    Chart { title: "How costs grow: median times".to_owned(), series, panels, columns: 2 }
}
