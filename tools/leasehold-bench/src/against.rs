//! `against`: one benchmark by this program and by another build of it, in turn, so that a disturbance
//! of the machine hits both.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Map, Value};

use crate::Result;
use crate::measure::median;
use crate::progress::Progress;
use crate::table::aligned;

/// `against [OPTIONS] PROGRAM BENCH [OPTIONS OF BENCH]`
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct AgainstArgs {
    /// How often each of both measures
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(5..=999))]
    times: u32,
    /// The other build of `leasehold-bench`
    #[arg(value_name = "PROGRAM")]
    program: PathBuf,
    /// The benchmark, and its options except --rounds, --json and --svg
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    bench: Vec<String>,
}

/// Of one figure, what this program and the other one measured, in the order of the times.
#[derive(Debug, Default)]
struct Both {
    this: Vec<f64>,
    other: Vec<f64>,
}

/// What tells one figure from the others.
type Figure = (Vec<String>, String);

/// Measures and reports.
pub(crate) fn run(args: &AgainstArgs) -> Result<()> {
    let owned = |option: &&String| {
        let name = option.split('=').next().unwrap_or_default();
        ["--rounds", "--json", "--svg"].contains(&name)
    };
    if let Some(option) = args.bench.iter().find(owned) {
        return Err(format!("{option} is set by `against`: leave it out").into());
    }
    let this = std::env::current_exe()?;
    let progress = Progress::of(args.times as usize);
    let mut figures = BTreeMap::<Figure, Both>::new();
    for time in 0..args.times {
        progress.begin(args.bench.join(" "));
        // Who is first has the machine as the other one has left it.
        for is_this in [time % 2 == 0, time % 2 == 1] {
            let program = if is_this { &this } else { &args.program };
            for (figure, value) in measured(program, &args.bench)? {
                let both = figures.entry(figure).or_default();
                if is_this { both.this.push(value) } else { both.other.push(value) }
            }
        }
        progress.done();
    }
    drop(progress);
    print!("{}", report(&figures));
    Ok(())
}

/// The figures of one round.
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

/// A line for each figure that both have: the medians, the median of the ratios, and the interval that contains the
/// true one 19 times in 20.
fn report(figures: &BTreeMap<Figure, Both>) -> String {
    let heads = ["figure", "of", "other", "this", "this/other", "from", "to"].map(str::to_owned);
    let line = |((setup, metric), both): (&Figure, &Both)| {
        let pairs = both.this.iter().zip(&both.other);
        let mut ratios: Vec<f64> =
            pairs.filter(|(_, other)| **other > 0.0).map(|(this, other)| this / other).collect();
        if ratios.is_empty() {
            return None;
        }
        ratios.sort_by(f64::total_cmp);
        let (from, to) = interval(&ratios);
        let figures =
            [median(&both.other), median(&both.this)].map(|figure| format!("{figure:.2}"));
        let ratios = [median(&ratios), from, to].map(|ratio| format!("{ratio:.3}"));
        Some([vec![metric.clone(), setup.join(" ")], figures.to_vec(), ratios.to_vec()].concat())
    };
    let lines: Vec<Vec<String>> = figures.iter().filter_map(line).collect();
    aligned(&heads, &lines, 2)
}

/// The interval of the median of sorted values by their ranks, for a confidence of 95 % (Conover, Practical
/// Nonparametric Statistics, section 3.2, with the normal approximation); all of them if they are few.
fn interval(sorted: &[f64]) -> (f64, f64) {
    let count = sorted.len();
    let rank = ((count as f64 - 1.96 * (count as f64).sqrt()) / 2.0).ceil().max(1.0) as usize;
    let at = rank - 1;
    (sorted[at], sorted[count - 1 - at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_median_has_the_ranks_of_the_tables() {
        let values: Vec<f64> = (1..=30).map(f64::from).collect();
        assert_eq!(interval(&values), (10.0, 21.0));
        assert_eq!(interval(&values[..5]), (1.0, 5.0));
    }

    #[test]
    fn each_figure_that_both_have_is_compared_in_pairs() {
        let mut figures = BTreeMap::<Figure, Both>::new();
        for (this, other) in [(2.0, 1.0), (6.0, 3.0), (8.0, 4.0)] {
            let both = figures.entry((vec!["redis".into()], "pairs_per_s".into())).or_default();
            both.this.push(this);
            both.other.push(other);
        }
        figures.entry((vec!["memory".into()], "new".into())).or_default().this.push(1.0);
        let report = report(&figures);
        let lines: Vec<Vec<&str>> =
            report.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines.len(), 2, "{report}");
        assert_eq!(lines[1], ["pairs_per_s", "redis", "3.00", "6.00", "2.000", "2.000", "2.000"]);
    }

    #[test]
    fn a_figure_is_told_by_all_but_its_value() {
        let line =
            r#"{"bench":"pairs","subject":"raw","tasks":64,"metric":"x","value":5,"unit":"1"}"#;
        let ((setup, metric), value) = figure(line).unwrap();
        assert_eq!((setup.join(" ").as_str(), metric.as_str(), value), ("raw tasks=64", "x", 5.0));
        assert!(figure("{}").is_err() && figure("no").is_err());
    }
}
