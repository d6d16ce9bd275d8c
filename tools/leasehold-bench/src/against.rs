//! `against`: runs a benchmark with this program and with another build of it, alternately, so that a
//! disturbance of the machine affects both.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Map, Value};

use crate::Result;
use crate::measure::median;
use crate::output;
use crate::progress::Progress;
use crate::table::aligned;

/// `against [OPTIONS] PROGRAM BENCH [OPTIONS OF BENCH]`
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct AgainstArgs {
    /// How many times each program runs
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(6..=999))]
    times: u32,
    /// The other build of `leasehold-bench`
    #[arg(value_name = "PROGRAM")]
    program: PathBuf,
    /// The benchmark, and its options except --rounds, --json and --svg
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    bench: Vec<String>,
}

/// The values of one figure from this program and from the other one, by run.
#[derive(Debug, Default)]
struct Both {
    this: BTreeMap<u32, f64>,
    other: BTreeMap<u32, f64>,
}

/// Identifies a figure: its setup and its metric.
type Figure = (Vec<String>, String);

/// Measures and reports.
pub(crate) fn run(args: &AgainstArgs) -> Result<()> {
    let owned = |option: &&String| {
        let name = option.split('=').next().unwrap_or_default();
        ["--rounds", "--json", "--svg"].contains(&name)
    };
    if let Some(option) = args.bench.iter().find(owned) {
        return Err(format!("{option} is set by `against`; leave it out").into());
    }
    let this = std::env::current_exe()?;
    let progress = Progress::of(args.times as usize);
    let mut figures = BTreeMap::<Figure, Both>::new();
    for time in 0..args.times {
        progress.begin(args.bench.join(" "));
        // The order alternates too, since the first run may affect the second.
        for is_this in [time % 2 == 0, time % 2 == 1] {
            let program = if is_this { &this } else { &args.program };
            for (figure, value) in measured(program, &args.bench)? {
                let both = figures.entry(figure).or_default();
                let values = if is_this { &mut both.this } else { &mut both.other };
                values.insert(time, value);
            }
        }
        progress.done();
    }
    drop(progress);
    output::print(&report(&figures), &[])
}

/// Runs a program once, and returns its figures.
fn measured(program: &Path, bench: &[String]) -> Result<Vec<(Figure, f64)>> {
    let folder = tempfile::tempdir()?;
    let json = folder.path().join("figures");
    let mut command = Command::new(program);
    command.args(bench).args(["--rounds", "1", "--json"]).arg(&json);
    let output = command.output().map_err(|error| format!("{}: {error}", program.display()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{}: {}", program.display(), said.trim_end()).into());
    }
    std::fs::read_to_string(json)?.lines().map(figure).collect()
}

fn figure(line: &str) -> Result<(Figure, f64)> {
    let mut line: Map<String, Value> = serde_json::from_str(line)?;
    let value = line.remove("value").and_then(|value| value.as_f64()).ok_or("no value")?;
    let text = |value: Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let metric = line.remove("metric").map(text).ok_or("no metric")?;
    let names = ["subject", "backend", "runtime"];
    let mut setup: Vec<String> =
        names.iter().filter_map(|name| line.remove(*name)).map(text).collect();
    line.retain(|key, value| {
        !["bench", "unit"].contains(&key.as_str()) && (key != "processes" || *value != 1)
    });
    setup.extend(line.into_iter().map(|(key, value)| format!("{key}={}", text(value))));
    Ok(((setup, metric), value))
}

/// Returns a line for each figure that both have: how often both measured it, the medians, the median of the ratios, and
/// its 95 % confidence interval, if there are six ratios or more.
fn report(figures: &BTreeMap<Figure, Both>) -> String {
    let heads = ["figure", "of", "runs", "other", "this", "this/other", "from", "to"];
    let lines: Vec<Vec<String>> =
        figures.iter().filter_map(|(figure, both)| line(figure, both)).collect();
    aligned(&heads.map(str::to_owned), &lines, 2)
}

fn line((setup, metric): &Figure, both: &Both) -> Option<Vec<String>> {
    let runs = both.this.iter().filter_map(|(time, this)| Some((*this, *both.other.get(time)?)));
    let (this, other): (Vec<f64>, Vec<f64>) = runs.unzip();
    if this.is_empty() {
        return None;
    }
    let mut ratios: Vec<f64> = this.iter().zip(&other).map(|(this, other)| this / other).collect();
    ratios.sort_by(f64::total_cmp);
    let (from, to) = interval(&ratios).unwrap_or((f64::NAN, f64::NAN));
    let ratio = |ratio: f64| match ratio.is_finite() {
        true => format!("{ratio:.3}"),
        false => "-".to_owned(),
    };
    let mut cells = vec![metric.clone(), setup.join(" "), this.len().to_string()];
    cells.extend([median(&other), median(&this)].map(|figure| format!("{figure:.2}")));
    cells.extend([median(&ratios), from, to].map(ratio));
    Some(cells)
}

/// Returns the confidence interval of the median of sorted values, for 95 % or a little more: by the ranks of the
/// binomial distribution (Conover, Practical Nonparametric Statistics, section 3.2). `None` for fewer than six values.
fn interval(sorted: &[f64]) -> Option<(f64, f64)> {
    let count = sorted.len();
    let (mut rank, mut below) = (0, 0.0);
    // How likely it is that exactly `rank` of the values are below the true median.
    let mut term = 0.5_f64.powi(count as i32);
    while below + term <= 0.025 {
        below += term;
        term *= (count - rank) as f64 / (rank + 1) as f64;
        rank += 1;
    }
    let at = rank.checked_sub(1)?;
    Some((*sorted.get(at)?, *sorted.get(count - 1 - at)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_median_has_the_ranks_of_the_tables() {
        let values: Vec<f64> = (1..=30).map(f64::from).collect();
        assert_eq!(interval(&values), Some((10.0, 21.0)));
        assert_eq!(interval(&values[..8]), Some((1.0, 8.0)));
        assert_eq!(interval(&values[..6]), Some((1.0, 6.0)));
        assert_eq!(interval(&values[..5]), None);
    }

    #[test]
    fn each_figure_is_compared_in_the_runs_that_both_have() {
        let mut figures = BTreeMap::<Figure, Both>::new();
        let both = figures.entry((vec!["redis".into()], "pairs_per_s".into())).or_default();
        both.this = (0..7).map(|time| (time, f64::from(2 * time))).collect();
        both.other = (1..9).map(|time| (time, f64::from(time))).collect();
        let zero = figures.entry((vec!["redis".into()], "zero".into())).or_default();
        (zero.this, zero.other) = (BTreeMap::from([(0, 1.0)]), BTreeMap::from([(0, 0.0)]));
        figures.entry((vec!["memory".into()], "new".into())).or_default().this.insert(0, 1.0);
        let report = report(&figures);
        let lines: Vec<Vec<&str>> =
            report.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines.len(), 3, "{report}");
        assert_eq!(
            lines[1],
            ["pairs_per_s", "redis", "6", "3.50", "7.00", "2.000", "2.000", "2.000"]
        );
        assert_eq!(lines[2], ["zero", "redis", "1", "0.00", "1.00", "-", "-", "-"]);
    }

    #[test]
    fn a_figure_is_identified_by_its_setup_and_metric() {
        let line =
            r#"{"bench":"pairs","subject":"raw","tasks":64,"metric":"x","value":5,"unit":"1"}"#;
        let ((setup, metric), value) = figure(line).unwrap();
        assert_eq!((setup.join(" ").as_str(), metric.as_str(), value), ("raw tasks=64", "x", 5.0));
        assert!(figure("{}").is_err() && figure("no").is_err());
    }
}
