//! Options that all benchmarks have, and how numbers and times are read.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;

use crate::runtime::Flavour;

/// The options that all benchmarks have.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Common {
    /// Shorter measurements: a minute or two for everything
    #[arg(long)]
    pub(crate) quick: bool,
    /// Draw the figures into this file
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Write the figures into this file, one object a line
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Rounds; each figure is their median
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub(crate) rounds: u32,
    /// Runtime that the tasks run on: tokio's with two threads, with one, or in turn
    #[arg(long, value_name = "RUNTIME", default_value = "both")]
    pub(crate) runtime: Runtimes,
}

/// What `--runtime` can be.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub(crate) enum Runtimes {
    Multi,
    Current,
    Both,
}

impl Common {
    /// The runtimes to measure on.
    pub(crate) fn flavours(&self) -> &'static [Flavour] {
        match self.runtime {
            Runtimes::Multi => &[Flavour::Multi],
            Runtimes::Current => &[Flavour::Current],
            Runtimes::Both => &[Flavour::Multi, Flavour::Current],
        }
    }
}

/// A number of locks or tasks.
pub(crate) fn count(text: &str) -> Result<usize, String> {
    const MOST: usize = 1_000_000;
    match text.parse() {
        Ok(count @ 1..=MOST) => Ok(count),
        _ => Err(format!("a whole number from 1 to {MOST} is allowed")),
    }
}

/// A number of servers.
#[cfg(feature = "servers")]
pub(crate) fn nodes(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(nodes @ 1..=9) => Ok(nodes),
        _ => Err("a whole number from 1 to 9 is allowed".to_owned()),
    }
}

/// A short time: `3ms`, `0.5ms`, `200us`, `1s`, or `0`; ten seconds at the most.
pub(crate) fn short_time(text: &str) -> Result<Duration, String> {
    const ALLOWED: &str = "write 0, or a number with us, ms or s, up to 10s";
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "" if digits == "0" => 0.0,
        _ => return Err(ALLOWED.to_owned()),
    };
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number: Option<f64> = digits.parse().ok().filter(|_| plain);
    number
        .and_then(|number| Duration::try_from_secs_f64(number * unit).ok())
        .filter(|time| *time <= Duration::from_secs(10))
        .ok_or_else(|| ALLOWED.to_owned())
}

/// A short time as a table has it, in milliseconds.
pub(crate) fn in_ms(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit_and_an_end() {
        for (text, us) in
            [("0", 0), ("0.5ms", 500), ("200us", 200), ("3ms", 3000), ("1s", 1_000_000)]
        {
            let time = short_time(text).unwrap();
            assert_eq!(time, Duration::from_micros(us), "{text}");
        }
        for text in ["", "3", "-1ms", "11s", "ms", "1e3ms", "NaNs", "1m"] {
            assert!(short_time(text).unwrap_err().contains("write 0"), "{text}");
        }
        assert_eq!(in_ms(Duration::from_micros(500)), 0.5);
    }
}
