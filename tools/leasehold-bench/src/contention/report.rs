//! What the processes of a run have seen, and the figures made of it.

use serde::Deserialize;
use std::collections::BTreeMap;

use crate::measure::percentile;
use crate::metric::{
    ACQUIRED_PER_S, CLIENT_US_PER_HANDOFF, COMMANDS_PER_HANDOFF, CONTENDERS, HANDOFFS_ALL,
    HANDOFFS_LOCAL, JAIN_PROCESSES, JAIN_TASKS, Metric, OVERLAPS, SERVER_US_PER_HANDOFF,
    WAIT_MS_MAX, WAIT_MS_P50, WAIT_MS_P99,
};
use crate::processes::Seen;
use crate::table::separated;

/// In the order of the table.
pub(super) const METRICS: &[Metric] = &[
    HANDOFFS_ALL,
    HANDOFFS_LOCAL,
    ACQUIRED_PER_S,
    COMMANDS_PER_HANDOFF,
    CONTENDERS,
    WAIT_MS_P50,
    WAIT_MS_P99,
    WAIT_MS_MAX,
    JAIN_TASKS,
    JAIN_PROCESSES,
    CLIENT_US_PER_HANDOFF,
    SERVER_US_PER_HANDOFF,
    OVERLAPS,
];

/// A process's report; `tools/peers/README.md` explains it.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Report {
    pub(super) counts: Vec<u64>,
    pub(super) waits_us: Vec<u64>,
    pub(super) unfinished_us: Vec<u64>,
    pub(super) handoffs: u64,
    pub(super) local: u64,
    pub(super) visits: u64,
    pub(super) overlaps: u64,
    pub(super) fallen: u64,
}

/// A run.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) reports: Vec<Report>,
    pub(super) seen: Seen,
}

impl Outcome {
    fn sum(&self, of: fn(&Report) -> u64) -> u64 {
        self.reports.iter().map(of).sum()
    }

    /// The figures that there are.
    pub(super) fn figures(&self) -> Vec<(Metric, f64)> {
        let handoffs = self.sum(|report| report.handoffs) as f64;
        let local = self.sum(|report| report.local) as f64;
        let counts: Vec<u64> =
            self.reports.iter().flat_map(|report| report.counts.iter().copied()).collect();
        let processes: Vec<u64> =
            self.reports.iter().map(|report| report.counts.iter().sum()).collect();
        let per_s = |number: f64| number / self.seen.window.as_secs_f64();
        let mut figures = vec![
            (HANDOFFS_ALL, per_s(handoffs)),
            (HANDOFFS_LOCAL, per_s(local)),
            (ACQUIRED_PER_S, per_s(counts.iter().sum::<u64>() as f64)),
            (JAIN_TASKS, jain(&counts)),
            (OVERLAPS, self.sum(|report| report.overlaps) as f64),
        ];
        if processes.len() > 1 {
            figures.push((JAIN_PROCESSES, jain(&processes)));
        }
        figures.extend(self.seen.contenders.map(|number| (CONTENDERS, number)));
        let waits = self.waits();
        figures.extend(waits.last().map(|us| (WAIT_MS_MAX, *us as f64 / 1e3)));
        if handoffs > 0.0 {
            for (metric, part) in [(WAIT_MS_P50, 0.5), (WAIT_MS_P99, 0.99)] {
                figures.extend(percentile(&waits, part).map(|us| (metric, us as f64 / 1e3)));
            }
        }
        if handoffs > 0.0 {
            let us = |cpu: std::time::Duration| cpu.as_secs_f64() * 1e6 / handoffs;
            figures.push((CLIENT_US_PER_HANDOFF, us(self.seen.client_cpu)));
            figures.extend(self.seen.server_cpu.map(|cpu| (SERVER_US_PER_HANDOFF, us(cpu))));
            figures.extend(self.seen.commands.map(|sent| (COMMANDS_PER_HANDOFF, sent / handoffs)));
        }
        figures
    }

    /// All waits, sorted. One that has not ended counts when it is among the longest already, so
    /// that who starves is seen.
    fn waits(&self) -> Vec<u64> {
        let of = |part: fn(&Report) -> &Vec<u64>| {
            self.reports.iter().flat_map(move |report| part(report).iter().copied())
        };
        let mut waits: Vec<u64> = of(|report| &report.waits_us).collect();
        waits.sort_unstable();
        let long = percentile(&waits, 0.99).unwrap_or(0);
        waits.extend(of(|report| &report.unfinished_us).filter(|wait| *wait > long));
        waits.sort_unstable();
        waits
    }
}

/// Jain's index of fairness (Jain, Chiu, Hawe 1984): 1 when all have the same, 1/n when one of n
/// has all.
fn jain(shares: &[u64]) -> f64 {
    let sum: f64 = shares.iter().map(|share| *share as f64).sum();
    let squares: f64 = shares.iter().map(|share| (*share as f64).powi(2)).sum();
    if squares == 0.0 { 1.0 } else { sum * sum / (shares.len() as f64 * squares) }
}

/// What the judge has seen in all runs, by subject.
pub(super) fn verdict<'a>(
    runs: impl Iterator<Item = (&'static str, &'a [Outcome])>,
    semaphore: bool,
) -> String {
    let (never, broken) = match semaphore {
        true => ("never more than the limit", "MORE THAN THE LIMIT"),
        false => ("never two at once", "TWO AT ONCE"),
    };
    let mut seen: BTreeMap<&str, [u64; 3]> = BTreeMap::new();
    for (subject, outcomes) in runs {
        let sums = seen.entry(subject).or_default();
        for outcome in outcomes {
            sums[0] += outcome.sum(|report| report.visits);
            sums[1] += outcome.sum(|report| report.overlaps);
            sums[2] += outcome.sum(|report| report.fallen);
        }
    }
    let line = |(subject, [visits, overlaps, fallen]): (&&str, &[u64; 3])| {
        let tokens = match (*subject, fallen) {
            ("leasehold", 0) => ", every token larger than the one before".to_owned(),
            ("leasehold", fallen) => format!(", TOKENS THAT DID NOT GROW: {fallen}"),
            _ => String::new(),
        };
        let overlaps = match overlaps {
            0 => never.to_owned(),
            overlaps => format!("{broken}: {overlaps} times"),
        };
        format!("  {subject}: held {} times, {overlaps}{tokens}", separated(&visits.to_string()))
    };
    let lines: Vec<String> = seen.iter().map(line).collect();
    format!("the judge, over all runs:\n{}", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn seen(seconds: u64, client_cpu: Duration, commands: Option<f64>) -> Seen {
        let window = Duration::from_secs(seconds);
        let reports = Vec::new();
        Seen { window, reports, client_cpu, server_cpu: None, commands, contenders: None }
    }

    #[test]
    fn jain_is_one_for_equals_and_one_in_n_for_one_who_has_all() {
        assert_eq!([jain(&[5, 5, 5]), jain(&[8, 0, 0, 0]), jain(&[0, 0])], [1.0, 0.25, 1.0]);
    }

    #[test]
    fn who_starves_is_seen_in_the_longest_wait() {
        let report = Report {
            counts: vec![9, 0],
            waits_us: vec![10; 9],
            unfinished_us: vec![5, 9_000],
            handoffs: 9,
            ..Report::default()
        };
        let outcome =
            Outcome { reports: vec![report], seen: seen(3, Duration::from_micros(90), Some(18.0)) };
        let figures = outcome.figures();
        let of = |metric| figures.iter().find(|(name, _)| *name == metric).map(|(_, value)| *value);
        assert_eq!((of(WAIT_MS_P50), of(WAIT_MS_MAX)), (Some(0.01), Some(9.0)));
        assert_eq!((of(HANDOFFS_ALL), of(COMMANDS_PER_HANDOFF)), (Some(3.0), Some(2.0)));
        assert_eq!((of(JAIN_TASKS), of(CLIENT_US_PER_HANDOFF)), (Some(0.5), Some(10.0)));
        assert_eq!((of(JAIN_PROCESSES), of(SERVER_US_PER_HANDOFF)), (None, None));
    }

    #[test]
    fn the_verdict_names_overlaps_and_tokens_that_fell() {
        let with = |overlaps, fallen| Outcome {
            reports: vec![Report { visits: 1200, overlaps, fallen, ..Report::default() }],
            seen: seen(1, Duration::ZERO, None),
        };
        let (good, bad) = ([with(0, 0)], [with(2, 1)]);
        let told = verdict([("leasehold", &good[..]), ("rslock", &bad[..])].into_iter(), false);
        assert!(told.contains("leasehold: held 1,200 times, never two at once, every"), "{told}");
        assert!(told.contains("rslock: held 1,200 times, TWO AT ONCE: 2 times"), "{told}");
        assert!(verdict([("leasehold", &bad[..])].into_iter(), false).contains("NOT GROW: 1"));
        let told = verdict([("leasehold", &good[..]), ("redisson", &bad[..])].into_iter(), true);
        assert!(told.contains("1,200 times, never more than the limit, every"), "{told}");
        assert!(told.contains("1,200 times, MORE THAN THE LIMIT: 2 times"), "{told}");
    }
}
