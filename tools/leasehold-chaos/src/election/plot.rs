//! Draws the times without a leader: a row for each engine and each thing that happened to the leader, a dot for each
//! time, and a line at the bound.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::Result;

/// The arguments of the picture.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct PlotArgs {
    /// The picture
    #[arg(long, value_name = "FILE")]
    svg: PathBuf,
    /// What `election --gaps` has written
    files: Vec<PathBuf>,
}

const WIDTH: f64 = 860.0;
const LEFT: f64 = 170.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 66.0;
const ROW: f64 = 22.0;
/// The axis, in milliseconds, is logarithmic.
const AXIS: (f64, f64) = (1.0, 10_000.0);
const TICKS: [(f64, &str); 5] =
    [(1.0, "1 ms"), (10.0, "10 ms"), (100.0, "100 ms"), (1000.0, "1 s"), (10_000.0, "10 s")];
const COLOURS: [(&str, &str); 5] = [
    ("killed", "#4477aa"),
    ("stopped", "#ee6677"),
    ("cut off", "#228833"),
    ("demoted", "#aa3377"),
    ("vacant", "#888888"),
];

/// The times of a row, and their bound.
type Rows = BTreeMap<(String, usize), (Vec<f64>, f64)>;

/// Reads the files and writes the picture.
pub(crate) fn plot(args: &PlotArgs) -> Result<()> {
    let mut rows = Rows::new();
    for path in &args.files {
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let text = fs::read_to_string(path).map_err(|error| failed(&error))?;
        for line in text.lines() {
            let gap: Value = serde_json::from_str(line).map_err(|error| failed(&error))?;
            let engine = gap["engine"].as_str().unwrap_or_default().to_owned();
            let kind = COLOURS.iter().position(|(name, _)| Some(*name) == gap["leader"].as_str());
            let kind = kind.ok_or_else(|| failed(&line))?;
            let row = rows.entry((engine, kind)).or_default();
            row.0.push(gap["ms"].as_f64().unwrap_or_default());
            row.1 = gap["bound_ms"].as_f64().unwrap_or_default();
        }
    }
    Ok(fs::write(&args.svg, draw(&rows))?)
}

fn x(ms: f64) -> f64 {
    let (from, to) = (AXIS.0.log10(), AXIS.1.log10());
    let share = (ms.clamp(AXIS.0, AXIS.1).log10() - from) / (to - from);
    LEFT + share * (WIDTH - LEFT - RIGHT)
}

fn draw(rows: &Rows) -> String {
    let bottom = TOP + ROW * rows.len() as f64;
    let height = bottom + 34.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\" fill=\"#333\">\n<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n\
         <text x=\"12\" y=\"24\" font-size=\"15\">Time without a leader, from what happened to the leader to the next \
         one</text>\n<text x=\"12\" y=\"44\">a dot for each time, a bar at half of them, | the stated \
         bound</text>\n"
    );
    for (ms, name) in TICKS {
        let x = x(ms);
        let _ = write!(
            svg,
            "<line x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{bottom}\" stroke=\"#ddd\"/>\n\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{name}</text>\n",
            bottom + 18.0
        );
    }
    for (at, ((engine, kind), (times, bound))) in rows.iter().enumerate() {
        let y = TOP + ROW * (at as f64 + 0.5);
        let (name, colour) = COLOURS[*kind];
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{engine}, {name}</text>\n\
             <g fill=\"{colour}\" fill-opacity=\"0.45\">\n",
            LEFT - 10.0,
            y + 4.0
        );
        for (number, ms) in times.iter().enumerate() {
            // Beside each other, so that equal ones are seen.
            let y = y + (number % 5) as f64 * 2.0 - 4.0;
            let _ = writeln!(svg, "<circle cx=\"{:.1}\" cy=\"{y:.1}\" r=\"2\"/>", x(*ms));
        }
        svg.push_str("</g>\n");
        let mut sorted = times.clone();
        sorted.sort_by(f64::total_cmp);
        if let Some(half) = sorted.get(sorted.len() / 2) {
            let (half, bound, top, end) = (x(*half), x(*bound), y - 8.0, y + 8.0);
            let _ = write!(
                svg,
                "<line x1=\"{half:.1}\" y1=\"{top:.1}\" x2=\"{half:.1}\" y2=\"{end:.1}\" stroke=\"{colour}\" \
                 stroke-width=\"3\"/>\n<line x1=\"{bound:.1}\" y1=\"{top:.1}\" x2=\"{bound:.1}\" \
                 y2=\"{end:.1}\" stroke=\"#000\"/>\n"
            );
        }
    }
    svg.push_str("</svg>\n");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_a_dot_for_each_time_and_the_bound_of_each_row() {
        let mut rows = Rows::new();
        rows.insert(("redis".to_owned(), 0), (vec![900.0, 1100.0], 2000.0));
        rows.insert(("redis".to_owned(), 3), (vec![3.0], 1000.0));
        let svg = draw(&rows);
        assert_eq!(svg.matches("<circle").count(), 3);
        assert!(svg.contains("redis, killed") && svg.contains("redis, demoted"), "{svg}");
        assert_eq!(svg.matches("stroke=\"#000\"").count(), 2);
    }
}
