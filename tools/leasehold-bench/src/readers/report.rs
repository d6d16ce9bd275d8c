//! What the processes of a run have seen, and the figures made of it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::measure::percentile;
use crate::metric::{
    ACQUIRED_PER_S, CLIENT_US_PER_PAIR, COMMANDS_PER_PAIR, Metric, OVERLAPS, READ_MS_P99,
    READS_PER_S, SERVER_US_PER_PAIR, WRITE_MS_MAX, WRITE_MS_P50, WRITE_MS_P99, WRITES_PER_S,
};
use crate::processes::Seen;
use crate::table::separated;

/// In the order of the table.
pub(super) const METRICS: &[Metric] = &[
    ACQUIRED_PER_S,
    READS_PER_S,
    WRITES_PER_S,
    COMMANDS_PER_PAIR,
    READ_MS_P99,
    WRITE_MS_P50,
    WRITE_MS_P99,
    WRITE_MS_MAX,
    CLIENT_US_PER_PAIR,
    SERVER_US_PER_PAIR,
    OVERLAPS,
];

/// A report; `tools/peers/README.md` explains it.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct Report {
    pub(super) reads: u64,
    pub(super) writes: u64,
    pub(super) read_waits_us: Vec<u64>,
    pub(super) write_waits_us: Vec<u64>,
    pub(super) unfinished_us: Vec<u64>,
    pub(super) looks: u64,
    pub(super) overlaps: u64,
    pub(super) fallen: u64,
}

impl Report {
    /// Counts a look at the record.
    pub(super) fn look(&mut self, token_grew: bool, apart: bool) {
        self.looks += 1;
        self.fallen += u64::from(!token_grew);
        self.overlaps += u64::from(!apart);
    }

    /// Adds another report.
    pub(super) fn add(&mut self, other: &Self) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.looks += other.looks;
        self.overlaps += other.overlaps;
        self.fallen += other.fallen;
        self.read_waits_us.extend(&other.read_waits_us);
        self.write_waits_us.extend(&other.write_waits_us);
        self.unfinished_us.extend(&other.unfinished_us);
    }
}

/// A run.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) report: Report,
    pub(super) seen: Seen,
}

impl Outcome {
    /// The figures that there are.
    pub(super) fn figures(&self) -> Vec<(Metric, f64)> {
        let Self { report, seen } = self;
        let per_s = |number: u64| number as f64 / seen.window.as_secs_f64();
        let all = report.reads + report.writes;
        let mut figures = vec![
            (ACQUIRED_PER_S, per_s(all)),
            (READS_PER_S, per_s(report.reads)),
            (WRITES_PER_S, per_s(report.writes)),
            (OVERLAPS, report.overlaps as f64),
        ];
        let mut reads = report.read_waits_us.clone();
        reads.sort_unstable();
        let ms = |us: u64| us as f64 / 1e3;
        figures.extend(percentile(&reads, 0.99).map(|us| (READ_MS_P99, ms(us))));
        let writes = self.write_waits();
        for (metric, part) in [(WRITE_MS_P50, 0.5), (WRITE_MS_P99, 0.99), (WRITE_MS_MAX, 1.0)] {
            figures.extend(percentile(&writes, part).map(|us| (metric, ms(us))));
        }
        if all > 0 {
            let us = |cpu: Duration| cpu.as_secs_f64() * 1e6 / all as f64;
            figures.push((CLIENT_US_PER_PAIR, us(seen.client_cpu)));
            figures.extend(seen.server_cpu.map(|cpu| (SERVER_US_PER_PAIR, us(cpu))));
            figures.extend(seen.commands.map(|sent| (COMMANDS_PER_PAIR, sent / all as f64)));
        }
        figures
    }

    /// The waits of writers, sorted. One that has not ended counts when it is among the longest
    /// already, so that who starves is seen.
    fn write_waits(&self) -> Vec<u64> {
        let mut waits = self.report.write_waits_us.clone();
        waits.sort_unstable();
        let long = percentile(&waits, 0.99).unwrap_or(0);
        waits.extend(self.report.unfinished_us.iter().filter(|wait| **wait > long));
        waits.sort_unstable();
        waits
    }
}

/// What the record has shown in all runs of a subject.
pub(super) fn verdict(subject: &str, outcomes: &[Outcome]) -> String {
    let sum = |of: fn(&Report) -> u64| outcomes.iter().map(|one| of(&one.report)).sum::<u64>();
    let looks = separated(&sum(|report| report.looks).to_string());
    let apart = match sum(|report| report.overlaps) {
        0 => "never a reader or a second writer beside a writer".to_owned(),
        overlaps => format!("NOT KEPT APART: {overlaps} times"),
    };
    let tokens = match (subject, sum(|report| report.fallen)) {
        ("leasehold", 0) => ", every token larger than that of the writer before".to_owned(),
        ("leasehold", fallen) => format!(", TOKENS THAT DID NOT GROW: {fallen}"),
        _ => String::new(),
    };
    format!("  {subject}: looked {looks} times, {apart}{tokens}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(report: Report) -> Outcome {
        let (window, client_cpu) = (Duration::from_secs(2), Duration::from_micros(500));
        let (reports, commands) = (Vec::new(), Some(10.0));
        let (server_cpu, contenders) = (None, None);
        Outcome {
            report,
            seen: Seen { window, reports, client_cpu, server_cpu, commands, contenders },
        }
    }

    #[test]
    fn figures_count_a_writer_that_starves_and_what_a_turn_costs() {
        let report = Report {
            reads: 99,
            writes: 1,
            read_waits_us: vec![7, 5],
            write_waits_us: vec![1000],
            unfinished_us: vec![10, 8000],
            ..Report::default()
        };
        let figures = outcome(report).figures();
        let of = |metric| figures.iter().find(|(name, _)| *name == metric).map(|(_, value)| *value);
        assert_eq!((of(ACQUIRED_PER_S), of(READS_PER_S)), (Some(50.0), Some(49.5)));
        assert_eq!((of(READ_MS_P99), of(WRITE_MS_P50)), (Some(0.007), Some(1.0)));
        assert_eq!((of(WRITE_MS_MAX), of(CLIENT_US_PER_PAIR)), (Some(8.0), Some(5.0)));
        assert_eq!((of(COMMANDS_PER_PAIR), of(SERVER_US_PER_PAIR)), (Some(0.1), None));
    }

    #[test]
    fn the_verdict_names_what_was_not_kept_apart() {
        let mut report = Report::default();
        report.look(true, true);
        let good = verdict("leasehold", &[outcome(report.clone())]);
        assert!(good.contains("looked 1 times, never a reader") && good.contains("every token"));
        report.look(false, false);
        let bad = verdict("leasehold", &[outcome(report)]);
        assert!(bad.contains("APART: 1 times") && bad.contains("NOT GROW: 1"), "{bad}");
    }
}
