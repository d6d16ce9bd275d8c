//! The example runs, and prints its figures.

use leasehold_conformance::examples;
use leasehold_test_servers::Needs;

#[test]
fn idle_clients_prints_three_rates() {
    if Needs::Postgres.is_skipped() {
        return;
    }
    let printed = examples::run("leasehold-sql", "idle_clients", &["5", "0.1"]);
    for rate in ["no other connection ", "5 idle Leasehold clients ", "5 connections that listen "]
    {
        let line = printed.lines().find(|line| line.starts_with(rate));
        let figure = line.and_then(|line| line.split_whitespace().rev().nth(1)?.parse().ok());
        assert!(figure.is_some_and(|figure: f64| figure > 0.0), "{rate}:\n{printed}");
    }
}
