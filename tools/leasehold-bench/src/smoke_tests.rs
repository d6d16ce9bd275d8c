//! Both benchmarks with tiny numbers, in this process: everything is measured, nothing fails.

use std::time::Duration;

use clap::Parser;

use crate::args::{Bench, Cli, sides};
use crate::hold::Round;
use crate::pairs::{self, Times};
use crate::row::Row;
use crate::store::Store;
use crate::{engines, growth, hold, json, table};

fn parsed(args: &[&str]) -> Bench {
    Cli::try_parse_from(["leasehold-bench"].iter().chain(args)).unwrap().bench.unwrap()
}

/// Each of these metrics was measured for each backend on each runtime, with a sound value.
fn check(rows: &[Row], metrics: &[&str], times: usize) {
    for metric in metrics {
        for backend in ["memory", "file"] {
            for runtime in ["multi", "current"] {
                let these: Vec<&Row> = rows
                    .iter()
                    .filter(|row| {
                        row.metric.name == *metric
                            && row.setup.backend == backend
                            && row.setup.runtime.name() == runtime
                    })
                    .collect();
                assert_eq!(these.len(), times, "{metric} {backend} {runtime}");
                assert!(these.iter().all(|row| row.value.is_finite() && row.value >= 0.0));
            }
        }
    }
    assert_eq!(json::lines(rows).unwrap().lines().count(), rows.len());
    assert!(table::table(rows, false).lines().count() > 1);
}

#[test]
fn hold_measures_both_phases_on_both_runtimes() {
    let args = [
        "hold",
        "--quick",
        "--rounds=1",
        "--locks=50",
        "--waiters=50",
        "--seconds=1",
        "--backend",
        "memory",
        "file",
    ];
    let Bench::Hold { args, stores } = parsed(&args) else { unreachable!() };
    let (rows, notes) = hold::measure(&args, &stores.or(&[]), &Round::here).unwrap();
    assert!(notes.is_empty(), "{notes:?}");
    check(&rows, &["bytes_per_lock", "bytes_per_waiter", "handoffs_per_s"], 1);
    check(&rows, &["client_ms_per_s"], 2);
    let handoffs = rows.iter().filter(|row| row.metric.name == "handoffs_per_s");
    assert!(handoffs.into_iter().all(|row| row.value > 1.0 && row.setup.extra["scope"] == "local"));
}

#[test]
fn pairs_measures_both_sides_on_both_runtimes() {
    let Bench::Pairs { args, stores, beside } = parsed(&["pairs", "--rounds=1", "--tasks=1,3"])
    else {
        unreachable!()
    };
    let short = Duration::from_millis(20);
    let times = Times { warm_up: short, window: 2 * short };
    let sides = sides(&stores, &beside, Vec::new());
    let (rows, notes) = pairs::measure(&args, &sides, times).unwrap();
    assert!(notes.is_empty(), "{notes:?}");
    // Where leases can be cached, in memory, that is measured too.
    let (cached, rows): (Vec<Row>, Vec<Row>) =
        rows.into_iter().partition(|row| row.setup.subject == "leasehold-cached");
    assert_eq!(cached.len(), 12);
    assert!(cached.iter().all(|row| row.setup.backend == "memory"));
    check(&rows, &["pairs_per_s", "client_us_per_pair", "switches_per_pair"], 4);
    let of = |subject| rows.iter().filter(|row| row.setup.subject == subject).count();
    assert_eq!((of("leasehold"), of("raw")), (24, 24));
    // One thread that waits for nothing may have no switch in so short a time.
    let may_be_none = |row: &Row| row.metric.name == "switches_per_pair";
    assert!(
        rows.iter().all(|row| row.value > 0.0 || may_be_none(row)),
        "{}",
        table::table(&rows, false)
    );
}

#[test]
fn engines_measures_pairs_and_hand_offs_beside_the_plain_client() {
    let words = ["engines", "--rounds=1", "--tasks=1,3", "--backend", "memory", "file"];
    let Bench::Engines { args, stores } = parsed(&words) else { unreachable!() };
    let short = Duration::from_millis(20);
    let times = Times { warm_up: short, window: 5 * short };
    let (rows, notes) = engines::measure(&args, &stores.or(&[]), times).unwrap();
    assert!(notes.is_empty(), "{notes:?}");
    check(&rows, &["pairs_per_s", "handoffs_per_s"], 4);
    let handoffs = rows.iter().filter(|row| row.metric.name == "handoffs_per_s");
    assert!(handoffs.into_iter().all(|row| row.value > 1.0), "{}", table::table(&rows, false));
}

#[test]
fn growth_measures_each_operation_at_each_size() {
    let words =
        ["growth", "--rounds=1", "--locks=40,20", "--waiters=1,3", "--backend", "memory", "file"];
    let Bench::Growth { args, stores } = parsed(&words) else { unreachable!() };
    let short = Duration::from_millis(20);
    let times = Times { warm_up: short, window: short };
    let limits = growth::Limits { times, stage: Duration::from_secs(60) };
    let (rows, notes) = growth::measure(&args, &stores.or(&[]), limits).unwrap();
    assert!(notes.is_empty(), "{notes:?}");
    // A lease of a file store needs no renewal.
    let (renewals, rows): (Vec<Row>, Vec<Row>) =
        rows.into_iter().partition(|row| row.setup.extra["operation"] == "renewal");
    assert_eq!(renewals.len(), 16);
    assert!(renewals.iter().all(|row| row.setup.backend == "memory"));
    // Four operations for each number of locks, three for each number of waiters.
    check(&rows, &["operation_us_p50", "client_us_per_operation"], 14);
    let sizes = rows.iter().filter(|row| row.setup.extra.contains_key("waiters"));
    assert_eq!(sizes.count(), rows.len() * 3 / 7);
    let times = rows.iter().filter(|row| row.metric.name == "operation_us_p50");
    assert!(times.into_iter().all(|row| row.value > 0.0), "{}", table::table(&rows, false));
}

#[test]
fn growth_says_which_size_was_not_reached() {
    let words = ["growth", "--rounds=1", "--runtime=multi", "--locks=10", "--waiters=1"];
    let Bench::Growth { args, .. } = parsed(&words) else { unreachable!() };
    let (long, no) = (Duration::from_secs(60), Duration::from_millis(50));
    let limits = growth::Limits { times: Times { warm_up: long, window: long }, stage: no };
    let (rows, notes) = growth::measure(&args, &[Store::Memory], limits).unwrap();
    assert!(rows.is_empty());
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(notes[0].contains("memory multi, 10 locks: not reached in"), "{notes:?}");
    assert!(notes[1].contains("memory multi, 1 waiters: not reached in"), "{notes:?}");
}

#[test]
fn a_window_without_a_renewal_in_it_is_refused() {
    let Bench::Hold { args, .. } = parsed(&["hold", "--seconds=5"]) else { unreachable!() };
    let told = hold::measure(&args, &[Store::Memory], &Round::here).unwrap_err().to_string();
    for part in ["--seconds 5", "10 or more", "--quick"] {
        assert!(told.contains(part), "{told}");
    }
}
