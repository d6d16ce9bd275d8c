//! The metric that only quorums report.

use leasehold_core::telemetry::QUORUM_GRANTS;
use metrics::{Counter, Unit};

/// Counts the grants of a quorum that needed one round of requests, and those that needed two.
pub(crate) fn quorum_grants() -> [Counter; 2] {
    let text = "Locks granted by a majority of nodes";
    metrics::describe_counter!(QUORUM_GRANTS, Unit::Count, text);
    let grants =
        |rounds| metrics::counter!(QUORUM_GRANTS, "engine" => "redlock", "rounds" => rounds);
    [grants("1"), grants("2")]
}
