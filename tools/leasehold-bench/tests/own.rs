//! The program `leasehold-bench` on servers of its own, with tiny numbers.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::process::Command;

use leasehold_test_servers::Needs;
use serde_json::Value;

/// The figures of a benchmark on Redis; none, and a word, where no server is installed.
fn figures(arguments: &[&str]) -> Option<Vec<Value>> {
    if Needs::Redis.is_skipped() {
        return None;
    }
    Some(measured(arguments))
}

/// The figures of a benchmark.
fn measured(arguments: &[&str]) -> Vec<Value> {
    let directory = tempfile::tempdir().unwrap();
    let json = directory.path().join("bench.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_leasehold-bench"));
    command.args(arguments).args(["--quick", "--rounds", "1", "--json"]);
    let output = command.arg(&json).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let lines = std::fs::read_to_string(json).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The values of a metric for a subject.
fn of(figures: &[Value], subject: &str, metric: &str) -> Vec<f64> {
    let fits = |one: &&Value| one["subject"] == subject && one["metric"] == metric;
    figures.iter().filter(fits).map(|one| one["value"].as_f64().unwrap()).collect()
}

#[test]
fn pairs_stand_beside_the_limits_with_fresh_names_and_from_afar() {
    let all = ["pairs", "--backend=redis", "--tasks=3", "--names=both", "--delay=0,20ms"];
    let Some(figures) = figures(&all) else { return };
    for (subject, rows) in [("leasehold", 8), ("raw", 8), ("raw-socket", 2), ("raw-record", 4)] {
        for metric in ["pairs_per_s", "client_us_per_pair", "server_us_per_pair"] {
            let values = of(&figures, subject, metric);
            assert_eq!(values.len(), rows, "{subject} {metric}");
            assert!(values.iter().all(|value| *value > 0.0), "{subject} {metric}: {values:?}");
        }
    }
    // A pair under a cached lease sends nothing.
    assert_eq!(of(&figures, "leasehold-cached", "pairs_per_s").len(), 4);
    // Two requests of 20 ms each: no more than 25 pairs a second for each of three tasks.
    let sends = |one: &&Value| one["delay_ms"] == 20.0 && one["subject"] != "leasehold-cached";
    let far = figures.iter().filter(sends);
    let mut far = far.filter(|one| one["metric"] == "pairs_per_s");
    assert!(far.all(|one| one["value"].as_f64().unwrap() <= 75.0 * 1.5), "{figures:?}");
}

#[test]
fn holds_through_the_server_and_what_they_cost_it_are_measured() {
    if Needs::Postgres.is_skipped() {
        return;
    }
    let all = ["serve", "--tasks=2", "--holds=20", "--viewers=20", "--locks=150", "--rows=120"];
    let Some(figures) = figures(&all) else { return };
    for subject in ["leasehold", "serve-lease", "serve-hold"] {
        for metric in ["pairs_per_s", "acquire_ms_p50", "acquire_ms_p99"] {
            let values = of(&figures, subject, metric);
            assert_eq!(values.len(), 1, "{subject} {metric}");
            assert!(values[0] > 0.0, "{subject} {metric}: {values:?}");
        }
    }
    for (subject, metric, rows) in [
        ("serve-hold", "bytes_per_lock", 1),
        ("serve-hold", "server_ms_per_s", 1),
        ("serve-events", "bytes_per_viewer", 1),
        ("serve-overview", "scan_ms", 2),
        ("serve-overview", "get_ms_p50", 2),
    ] {
        assert_eq!(of(&figures, subject, metric).len(), rows, "{subject} {metric}");
    }
}

#[test]
fn a_quorums_pairs_need_one_round_and_the_time_of_all_servers() {
    // A node that the machine does not let run is waited for, not asked again, which is another round.
    let all = ["quorum", "--nodes=3,5", "--tasks=3", "--node-limit=5s"];
    let Some(figures) = figures(&all) else { return };
    let each = |metric| of(&figures, "leasehold", metric);
    for metric in ["pairs_per_s", "client_us_per_pair", "server_us_per_pair"] {
        let values = each(metric);
        assert_eq!(values.len(), 4, "{metric}");
        assert!(values.iter().all(|value| *value > 0.0), "{metric}: {values:?}");
    }
    let shares = each("one_round_share");
    assert_eq!(shares.len(), 4);
    assert!(shares.iter().all(|share| *share > 0.9 && *share <= 1.0), "{shares:?}");
    for nodes in [3, 5] {
        let rows =
            figures.iter().filter(|one| one["nodes"] == nodes && one["backend"] == "redlock");
        assert_eq!(rows.count(), figures.len() / 2, "{figures:?}");
    }
}

#[test]
fn a_quorum_is_measured_under_each_fault_and_says_what_is_wrong_without_a_majority() {
    let all = ["quorum", "--faults", "--nodes=3", "--tasks=2", "--runtime=current"];
    let Some(figures) = figures(&all) else { return };
    let of = |fault: &str, metric| {
        let here: Vec<Value> =
            figures.iter().filter(|one| one["fault"] == fault).cloned().collect();
        of(&here, "leasehold", metric)
    };
    for fault in ["none", "1 stopped", "1 silent", "1 slow (200ms)", "1 killed"] {
        for metric in ["acquire_ms_p50", "acquire_ms_p99", "acquire_ms_max", "pairs_per_s"] {
            let values = of(fault, metric);
            assert!(matches!(values[..], [value] if value > 0.0), "{fault} {metric}: {values:?}");
        }
        let bound = of(fault, "bound_ms")[0] - of("none", "acquire_ms_p50")[0];
        assert!((bound - 50.0).abs() < 0.001, "{fault}: {bound}");
    }
    for metric in ["acquire_ms_p50", "pairs_per_s", "bound_ms"] {
        assert!(of("2 killed", metric).is_empty(), "no client acquires a lock without a majority");
    }
    assert!(matches!(of("2 killed", "error_ms")[..], [longest] if longest > 0.0));
}

#[test]
fn held_locks_stand_beside_a_task_for_each() {
    let all = ["hold", "--backend=redis", "--locks=200", "--waiters=20", "--runtime=current"];
    let Some(figures) = figures(&all) else { return };
    for subject in ["leasehold", "task-per-lock"] {
        for metric in ["client_ms_per_s", "server_ms_per_s"] {
            assert!(of(&figures, subject, metric).iter().any(|value| *value > 0.0), "{metric}");
        }
    }
}

#[test]
fn two_builds_are_compared_in_pairs() {
    let program = env!("CARGO_BIN_EXE_leasehold-bench");
    let against = |program: &str, more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_leasehold-bench"));
        command.args(["against", "--times=6", program, "pairs", "--quick", "--backend=memory:"]);
        command.args(["--tasks=2", "--runtime=current"]).args(more).output().unwrap()
    };
    let output = against(program, &[]);
    assert!(output.status.success(), "{output:?}");
    let table = String::from_utf8(output.stdout).unwrap();
    let pairs = table.lines().find(|line| {
        line.starts_with("pairs_per_s") && line.contains("leasehold memory current tasks=2 ")
    });
    let figures: Vec<f64> =
        pairs.unwrap().split_whitespace().rev().map_while(|cell| cell.parse().ok()).collect();
    assert!(figures.len() == 6 && figures.iter().all(|figure| *figure > 0.0), "{table}");
    for (program, more, said) in [
        ("/no/such", &[][..], "/no/such: No such file"),
        (program, &["--rounds=1"], "leave it out"),
    ] {
        let output = against(program, more);
        assert!(!output.status.success(), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(said), "{output:?}");
    }
}

#[test]
fn contention_knows_commands_contenders_and_the_servers_time() {
    let all = ["contention", "--backend=redis", "--shapes=2x2", "--hold=0"];
    let Some(figures) = figures(&all) else { return };
    let each = |metric| of(&figures, "leasehold", metric);
    assert_eq!(each("overlaps"), [0.0, 0.0]);
    for metric in ["handoffs_per_s", "acquired_per_s", "server_us_per_handoff", "contenders"] {
        assert!(each(metric).iter().any(|value| *value > 0.0), "{metric}: {figures:?}");
    }
    // An ask and a release at the most, but for what is asked again.
    let commands = each("commands_per_handoff");
    assert!(commands.iter().all(|sent| *sent > 0.0 && *sent < 6.0), "{commands:?}");
}

#[test]
fn readers_and_writers_are_kept_apart_and_readers_of_a_process_join() {
    let all = ["readers", "--backend=redis", "--shapes=2x3", "--reads=20,95", "--joins=1,3"];
    let Some(figures) = figures(&all) else { return };
    let with = |reads: u64, metric: &str| {
        let here: Vec<Value> =
            figures.iter().filter(|one| one["reads"] == reads).cloned().collect();
        of(&here, "leasehold", metric)
    };
    let share = |reads| {
        let all = with(reads, "acquired_per_s");
        with(reads, "reads_per_s").iter().sum::<f64>() / all.iter().sum::<f64>()
    };
    assert!(share(20) > 0.0 && share(20) < 0.5 && share(95) > 0.7, "{figures:?}");
    assert_eq!(of(&figures, "leasehold", "overlaps"), [0.0; 4]);
    // A read and its release at the most, and what is asked again.
    let commands = of(&figures, "leasehold", "commands_per_pair");
    assert!(commands.iter().all(|sent| *sent > 0.0 && *sent < 6.0), "{commands:?}");
    // Beside another reader, and under a cached lease.
    for metric in ["joins_per_s", "client_us_per_join"] {
        let values = of(&figures, "leasehold", metric);
        assert!(
            values.len() == 8 && values.iter().all(|value| *value > 0.0),
            "{metric}: {values:?}"
        );
    }
}

#[test]
fn permits_are_handed_on_and_never_more_than_the_limit() {
    let all = ["semaphore", "--backend=redis", "--shapes=2x4", "--limit=1,3", "--hold=0,1ms"];
    let Some(figures) = figures(&all) else { return };
    assert_eq!(of(&figures, "leasehold", "overlaps"), [0.0; 8]);
    for metric in ["handoffs_per_s", "acquired_per_s", "server_us_per_handoff"] {
        let values = of(&figures, "leasehold", metric);
        let values = values.iter().filter(|value| **value > 0.0);
        assert!(values.count() >= 8, "{metric}: {figures:?}");
    }
    assert_eq!(figures.iter().filter(|one| one["limit"] == 3).count(), figures.len() / 2);
}

#[test]
fn costs_are_measured_at_each_size_with_the_time_of_the_server() {
    let all = ["growth", "--backend=redis", "--locks=20,40", "--waiters=1,5", "--runtime=multi"];
    let Some(figures) = figures(&all) else { return };
    for (key, sizes, operations) in [
        ("locks", [20, 40], &["pair", "renewal", "status", "list", "hand-off"][..]),
        ("waiters", [1, 5], &["local hand-off", "renewal", "status", "hand-off"][..]),
    ] {
        for (size, operation) in
            sizes.iter().flat_map(|size| operations.iter().map(move |one| (size, one)))
        {
            let here: Vec<Value> = figures
                .iter()
                .filter(|one| one[key] == *size && one["operation"] == *operation)
                .cloned()
                .collect();
            for metric in ["operation_us_p50", "client_us_per_operation", "server_us_per_operation"]
            {
                let values = of(&here, "leasehold", metric);
                assert!(
                    matches!(values[..], [value] if value >= 0.0),
                    "{operation} at {size} {key}: {here:?}"
                );
            }
            assert!(of(&here, "leasehold", "operation_us_p50")[0] > 0.0, "{here:?}");
        }
    }
}

#[test]
fn a_store_without_semaphores_is_refused_with_its_reason() {
    if Needs::Redis.is_skipped() {
        return;
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_leasehold-bench"));
    let words = ["semaphore", "--quick", "--rounds=1", "--shapes=1x1", "--runtime=current"];
    command.args(words).args(["--limit=1", "--hold=0", "--backend=redlock"]);
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && told.contains("no semaphores"), "{told}");
}

#[test]
fn stock_is_sold_in_all_three_ways() {
    let figures = measured(&["stock", "--engines=sqlite", "--tasks=1,3"]);
    for way in ["pessimistic", "optimistic", "lock"] {
        for metric in ["sales_per_s", "client_us_per_sale"] {
            let values = of(&figures, way, metric);
            assert_eq!(values.len(), 4, "{way} {metric}");
            assert!(values.iter().all(|value| *value > 0.0), "{way} {metric}: {values:?}");
        }
    }
    let stores = figures.iter().filter(|one| one["store"] == "memory");
    assert!(stores.into_iter().all(|one| one["subject"] == "lock" && one["bench"] == "stock"));
}

#[test]
fn rows_are_saved_once_in_each_way() {
    if Needs::Postgres.is_skipped() {
        return;
    }
    let all = ["once", "--tasks=8", "--rows=1,20", "--runtime=multi"];
    let Some(figures) = figures(&all) else { return };
    for subject in ["leasehold", "unique-key", "lock-and-check"] {
        let rates = of(&figures, subject, "requests_per_s");
        assert!(rates.len() == 2 && rates.iter().all(|rate| *rate > 0.0), "{subject}: {rates:?}");
    }
    for (subject, least, most) in [("leasehold", 1.0, 1.0), ("lock-and-check", 1.0, 1.0)] {
        let attempts = of(&figures, subject, "attempts_per_row");
        let fits = |attempts: &f64| (least..=most).contains(attempts);
        assert!(attempts.len() == 2 && attempts.iter().all(fits), "{subject}: {attempts:?}");
    }
    let attempts = of(&figures, "unique-key", "attempts_per_row");
    assert!(attempts.iter().all(|attempts| *attempts > 1.5), "{attempts:?}");
}

#[test]
fn a_filter_is_measured_beside_a_script_and_keeps_requests_from_the_loader() {
    let Some(figures) = figures(&["bloom", "--tasks=4", "--runtime=multi"]) else { return };
    for subject in ["leasehold", "lua"] {
        for metric in ["call_us", "server_us_per_request"] {
            let values = of(&figures, subject, metric);
            assert!(values.len() == 2 && values.iter().all(|value| *value > 0.0), "{values:?}");
        }
    }
    assert_eq!(of(&figures, "leasehold", "error_rate").len(), 4);
    // Of the other two too few are wrong here to tell.
    let off = of(&figures, "leasehold", "off");
    assert!(off[..2].iter().all(|off| off.abs() <= 0.1), "{off:?}");
    let loads = |way: &str| {
        let fits = |one: &&Value| one["defence"] == way && one["metric"] == "loads";
        figures.iter().find(fits).unwrap()["value"].as_f64().unwrap()
    };
    // Of 20,000 requests a fourth has no form, a fourth is for keys that are requested only once.
    assert!(loads("form") <= 15_000.0 && loads("null") >= 10_000.0, "{figures:?}");
    assert!(loads("null+filter") <= loads("null") / 10.0 && loads("all") <= loads("null+filter"));
}

#[test]
fn hits_stand_beside_a_plain_get_and_other_caches_and_cost_one_command() {
    let Some(figures) = figures(&["cache", "--tasks=4", "--reads=90,100", "--runtime=multi"])
    else {
        return;
    };
    let of = |subject: &str, level: &str, metric: &str| {
        let here: Vec<Value> =
            figures.iter().filter(|one| one["level"] == level).cloned().collect();
        of(&here, subject, metric)
    };
    for (subject, level) in [
        ("leasehold", "L1"),
        ("quick_cache", "L1"),
        ("moka", "L1"),
        ("leasehold", "L2"),
        ("raw", "L2"),
    ] {
        for metric in ["hits_per_s", "client_us_per_request", "hit_share"] {
            let values = of(subject, level, metric);
            assert_eq!(values.len(), 2, "{subject} {level} {metric}");
            assert!(values.iter().all(|value| *value > 0.0), "{subject} {metric}: {values:?}");
        }
    }
    assert_eq!(of("leasehold", "L2", "commands_per_hit"), [1.0]);
    assert_eq!(of("raw", "L2", "commands_per_hit"), [1.0]);
    assert_eq!(of("leasehold", "L1", "commands_per_hit"), [0.0]);
}

#[test]
fn a_hot_key_is_loaded_once_and_once_more_when_who_loads_it_dies() {
    let all = ["cache-hot", "--processes=3", "--tasks=8", "--runtime=current"];
    let Some(figures) = figures(&all) else { return };
    let of = |side: &str, fault: &str, metric: &str| {
        let fits = |one: &&Value| {
            one["subject"] == side && one["fault"] == fault && one["metric"] == metric
        };
        figures.iter().find(fits).map(|one| one["value"].as_f64().unwrap())
    };
    assert_eq!(of("leasehold", "none", "loads_per_expiry"), Some(1.0));
    assert_eq!(of("leasehold", "loader killed", "loads_per_expiry"), Some(2.0));
    assert!(of("cache-aside", "none", "loads_per_expiry") > Some(2.0), "{figures:?}");
    // With Redis down one load in each process, and of many keys as many as it may.
    assert!(of("leasehold", "redis down", "loads_at_once") <= Some(2.0), "{figures:?}");
    assert!(of("leasehold", "redis down, many keys", "loads_at_once") <= Some(8.0), "{figures:?}");
    for fault in ["none", "loader killed", "redis down"] {
        assert_eq!(of("leasehold", fault, "error_share"), Some(0.0), "{fault}");
    }
}

#[test]
fn keys_that_are_written_together_end_apart() {
    let all = ["cache-avalanche", "--keys=2000", "--runtime=multi"];
    let Some(figures) = figures(&all) else { return };
    let of = |jitter: f64, metric: &str| {
        let fits = |one: &&Value| one["jitter"] == jitter && one["metric"] == metric;
        figures.iter().find(fits).unwrap()["value"].as_f64().unwrap()
    };
    // A tenth of an hour is 360 s, of which 98 in 100 lie between the hundredths.
    assert!((335.0..375.0).contains(&(of(0.1, "spread_s") - of(0.1, "fill_s"))), "{figures:?}");
    assert!(of(0.0, "spread_s") <= of(0.0, "fill_s") + 1.0, "{figures:?}");
    assert!(of(0.1, "ends_per_s_max") < of(0.0, "ends_per_s_max"), "{figures:?}");
}

#[test]
fn requests_are_counted_before_redis_is_killed_while_it_is_down_and_after() {
    let all = ["cache-killed", "--rate=300", "--runtime=multi"];
    let Some(figures) = figures(&all) else { return };
    for side in ["leasehold", "cache-aside"] {
        for metric in ["requests_per_s", "error_share", "loads_per_s", "get_ms_p99"] {
            assert_eq!(of(&figures, side, metric).len(), 3, "{side} {metric}");
        }
        assert!(of(&figures, side, "requests_per_s").iter().all(|rate| *rate > 0.0), "{figures:?}");
        assert!(of(&figures, side, "loads_per_s")[1] > 0.0, "{figures:?}");
    }
}
