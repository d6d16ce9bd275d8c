//! Draws a chart as SVG, 800 wide, without a background: readable on white and on dark.

use std::fmt::Write;

use crate::chart::{Chart, Kind, Panel, Series};
use crate::scale::Scale;

const WIDTH: f64 = 800.0;
/// Of the first row of panels with all above it, and of each further row.
const HEIGHT: f64 = 450.0;
const ROW: f64 = 320.0;
const EDGE: f64 = 20.0;
/// Room for the numbers of a y axis.
const GUTTER: f64 = 46.0;
/// Room below a panel for the names on its x axis.
const FOOT: f64 = 56.0;
/// In the middle between black and white, as all colours here are.
const INK: &str = "#757d87";
const COLOURS: [&str; 8] =
    ["#3b82f6", "#e07b1a", "#1f9d68", "#a35bd6", "#dc4c64", "#0e97a5", "#8a7a2f", "#d05fa8"];
/// Average width of a letter, as a part of the font's size.
const LETTER: f64 = 0.56;

/// The whole picture.
pub(crate) fn draw(chart: &Chart) -> String {
    let columns = chart.columns.max(1);
    let rows = chart.panels.len().div_ceil(columns).max(1);
    let height = HEIGHT + ROW * (rows - 1) as f64;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"system-ui, 'Helvetica Neue', 'DejaVu Sans', Arial, sans-serif\" \
         font-size=\"12\" fill=\"{INK}\">\n<title>{}</title>\n",
        escaped(&chart.title)
    );
    text(&mut out, (EDGE, 30.0), "font-size=\"17\" font-weight=\"600\"", &chart.title);
    let top = legend(&mut out, &chart.series) + 40.0;
    let width = (WIDTH - 2.0 * EDGE) / columns as f64;
    let tall = (height - top) / rows as f64;
    for (index, panel) in chart.panels.iter().enumerate() {
        let (row, column) = (index / columns, index % columns);
        let left = EDGE + width * column as f64;
        let gap = if column + 1 < columns { 18.0 } else { 0.0 };
        let top = top + tall * row as f64 + if row > 0 { 24.0 } else { 0.0 };
        let bottom = height - tall * (rows - 1 - row) as f64 - FOOT;
        let area = Area { left: left + GUTTER, right: left + width - gap, top, bottom };
        draw_panel(&mut out, &chart.series, panel, &area);
    }
    out + "</svg>\n"
}

/// Where the values of a panel are.
struct Area {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl Area {
    fn y(&self, value: f64, scale: &Scale) -> f64 {
        self.bottom - (self.bottom - self.top) * scale.part(value)
    }

    fn middle(&self) -> f64 {
        f64::midpoint(self.left, self.right)
    }
}

/// Draws the legend below the title, and says where it ends.
fn legend(out: &mut String, series: &[Series]) -> f64 {
    let (mut x, mut y) = (EDGE, 54.0);
    for one in series {
        let width = 26.0 + one.name.chars().count() as f64 * 12.0 * LETTER + 18.0;
        if x > EDGE && x + width > WIDTH - EDGE {
            (x, y) = (EDGE, y + 20.0);
        }
        line(
            out,
            (x, y - 4.0),
            (x + 20.0, y - 4.0),
            &format!("{} stroke-width=\"4\"", stroke(one)),
        );
        text(out, (x + 26.0, y), "", &one.name);
        x += width;
    }
    y
}

fn draw_panel(out: &mut String, series: &[Series], panel: &Panel, area: &Area) {
    let scale = Scale::of(panel);
    text(out, (area.left, area.top - 14.0), "font-weight=\"600\"", &panel.title);
    for (index, value) in scale.ticks().into_iter().enumerate() {
        let y = area.y(value, &scale);
        let strength = if index == 0 { "1" } else { "0.25" };
        let look = format!("stroke=\"{INK}\" stroke-opacity=\"{strength}\"");
        line(out, (area.left, y), (area.right, y), &look);
        let look = "text-anchor=\"end\" font-size=\"11\"";
        text(out, (area.left - 6.0, y + 4.0), look, &short(value));
    }
    match &panel.kind {
        Kind::Bars(names) => bars(out, series, panel, names, area, &scale),
        Kind::Dots(names) => dots(out, series, panel, names, area, &scale),
        Kind::Lines(xs) => lines(out, series, panel, xs, area, &scale),
        #[cfg(feature = "servers")]
        Kind::Curves { xs, marks } => curves(out, series, panel, (xs, marks), area, &scale),
    }
    let below = (area.middle(), area.bottom + 42.0);
    text(out, below, "text-anchor=\"middle\"", &panel.x_label);
}

fn bars(
    out: &mut String,
    series: &[Series],
    panel: &Panel,
    names: &[String],
    area: &Area,
    scale: &Scale,
) {
    let group = (area.right - area.left) / names.len().max(1) as f64;
    // Series without a value in this panel take no room.
    let here: Vec<usize> = (0..series.len())
        .filter(|at| panel.values.get(*at).is_some_and(|values| values.iter().any(Option::is_some)))
        .collect();
    let wide = (group * 0.8 / here.len().max(1) as f64).min(56.0);
    for (x, name) in names.iter().enumerate() {
        let middle = area.left + group * (x as f64 + 0.5);
        name_below(out, (middle, area.bottom + 14.0), x, name, names, group);
        let first = middle - wide * here.len() as f64 / 2.0;
        for (at, one) in here.iter().enumerate() {
            let Some(value) = panel.values[*one].get(x).copied().flatten() else { continue };
            let (left, y) = (first + wide * at as f64 + 1.5, area.y(value, scale));
            let (width, height) = (wide - 3.0, (area.bottom - y).max(0.5));
            let look = fill(&series[*one]);
            let _ = writeln!(
                out,
                "<rect x=\"{left:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" {look}/>"
            );
            if wide >= 30.0 {
                let above = (left + width / 2.0, y - 5.0);
                text(out, above, "text-anchor=\"middle\" font-size=\"10.5\"", &short(value));
            }
        }
    }
}

/// A name of an axis: every other one a line lower where they would touch.
fn name_below(
    out: &mut String,
    (x, y): (f64, f64),
    at: usize,
    name: &str,
    names: &[String],
    room: f64,
) {
    const SIZE: f64 = 11.0;
    let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or_default();
    let touch = longest as f64 * SIZE * LETTER + 4.0 > room;
    let lower = if touch && at % 2 == 1 { 12.0 } else { 0.0 };
    let look = format!("text-anchor=\"middle\" font-size=\"{SIZE}\"");
    text(out, (x, y + lower), &look, name);
}

/// Series side by side within each name, so that equal values do not hide each other.
fn dots(
    out: &mut String,
    series: &[Series],
    panel: &Panel,
    names: &[String],
    area: &Area,
    scale: &Scale,
) {
    let group = (area.right - area.left) / names.len().max(1) as f64;
    let apart = group * 0.7 / series.len().max(1) as f64;
    for (x, name) in names.iter().enumerate() {
        let left = area.left + group * x as f64;
        name_below(out, (left + group / 2.0, area.bottom + 14.0), x, name, names, group);
        if x > 0 {
            let look = format!("stroke=\"{INK}\" stroke-opacity=\"0.25\"");
            line(out, (left, area.top), (left, area.bottom), &look);
        }
        for (at, (one, values)) in series.iter().zip(&panel.values).enumerate() {
            let Some(value) = values.get(x).copied().flatten() else { continue };
            let (cx, cy) = (left + group * 0.15 + apart * (at as f64 + 0.5), area.y(value, scale));
            let look = fill(one).replace(" rx=\"2\"", "");
            let _ = writeln!(out, "<circle cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"4\" {look}/>");
        }
    }
}

fn lines(
    out: &mut String,
    series: &[Series],
    panel: &Panel,
    xs: &[f64],
    area: &Area,
    scale: &Scale,
) {
    let logs: Vec<f64> = xs.iter().map(|x| x.max(f64::MIN_POSITIVE).ln()).collect();
    let least = logs.iter().copied().fold(f64::INFINITY, f64::min);
    let range = (logs.iter().copied().fold(f64::NEG_INFINITY, f64::max) - least).max(1e-9);
    let place =
        |log: f64| area.left + 14.0 + (area.right - area.left - 34.0) * (log - least) / range;
    for (x, log) in xs.iter().zip(&logs) {
        let below = (place(*log), area.bottom + 18.0);
        text(
            out,
            below,
            "text-anchor=\"middle\" font-size=\"11\"",
            &crate::table::separated(&format!("{x:.0}")),
        );
    }
    for (one, values) in series.iter().zip(&panel.values) {
        let points: Vec<(f64, f64)> = logs
            .iter()
            .zip(values)
            .filter_map(|(log, value)| Some((place(*log), area.y((*value)?, scale))))
            .collect();
        let joined: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke-width=\"2.5\" {}/>",
            joined.join(" "),
            stroke(one)
        );
        for (x, y) in points {
            let colour = colour(one);
            let _ =
                writeln!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{colour}\"/>");
        }
    }
}

/// Without a dot at each value; a mark is a line from top to bottom with a name.
#[cfg(feature = "servers")]
fn curves(
    out: &mut String,
    series: &[Series],
    panel: &Panel,
    (xs, marks): (&[f64], &[(f64, String)]),
    area: &Area,
    scale: &Scale,
) {
    let (Some(least), Some(most)) = (xs.first(), xs.last()) else { return };
    let place =
        |x: f64| area.left + (area.right - area.left) * (x - least) / (most - least).max(1e-9);
    for x in crate::scale::between(*least, *most) {
        let below = (place(x), area.bottom + 18.0);
        let name = if x.fract() == 0.0 {
            crate::table::separated(&format!("{x:.0}"))
        } else {
            format!("{x:.1}")
        };
        text(out, below, "text-anchor=\"middle\" font-size=\"11\"", &name);
    }
    for (x, name) in marks {
        let look = format!("stroke=\"{INK}\" stroke-dasharray=\"3 3\"");
        line(out, (place(*x), area.top), (place(*x), area.bottom), &look);
        text(out, (place(*x) + 4.0, area.top + 11.0), "font-size=\"11\"", name);
    }
    for (one, values) in series.iter().zip(&panel.values) {
        let points: Vec<String> = xs
            .iter()
            .zip(values)
            .filter_map(|(x, value)| {
                Some(format!("{:.1},{:.1}", place(*x), area.y((*value)?, scale)))
            })
            .collect();
        if !points.is_empty() {
            let (points, look) = (points.join(" "), stroke(one));
            let _ = writeln!(
                out,
                "<polyline points=\"{points}\" fill=\"none\" stroke-width=\"2\" {look}/>"
            );
        }
    }
}

fn colour(series: &Series) -> &'static str {
    COLOURS[series.colour % COLOURS.len()]
}

fn stroke(series: &Series) -> String {
    let dash = if series.light { " stroke-dasharray=\"5 4\"" } else { "" };
    format!("stroke=\"{}\"{dash}", colour(series))
}

fn fill(series: &Series) -> String {
    let colour = colour(series);
    let inside = if series.light { "0.25" } else { "0.9" };
    format!("fill=\"{colour}\" fill-opacity=\"{inside}\" stroke=\"{colour}\" rx=\"2\"")
}

fn line(out: &mut String, from: (f64, f64), to: (f64, f64), look: &str) {
    let ((x1, y1), (x2, y2)) = (from, to);
    let _ =
        writeln!(out, "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" {look}/>");
}

fn text(out: &mut String, (x, y): (f64, f64), look: &str, text: &str) {
    let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" {look}>{}</text>", escaped(text));
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A number as an axis has it: `1.5M`, `250k`, `0.2`.
fn short(value: f64) -> String {
    let (value, unit) = match value.abs() {
        size if size >= 1e6 => (value / 1e6, "M"),
        size if size >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let digits = if value.abs() >= 100.0 {
        0
    } else if value.abs() >= 10.0 {
        1
    } else {
        2
    };
    let text = format!("{value:.digits$}");
    let text =
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{unit}")
}

#[cfg(test)]
#[path = "svg_tests.rs"]
mod tests;
