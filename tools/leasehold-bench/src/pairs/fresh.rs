//! What a new name costs the server beside one that is used again.

use crate::metric::SERVER_US_PER_PAIR;
use crate::row::Row;

/// The ratio of both: a note with a line for each subject that leaves a record of a name behind.
pub(super) fn beside_reused(rows: &[Row]) -> Option<String> {
    let mut lines = vec!["server time of a fresh name beside a reused one:".to_owned()];
    let costs = || rows.iter().filter(|row| row.metric == SERVER_US_PER_PAIR);
    for fresh in costs().filter(|row| named(row) == Some("fresh")) {
        let (setup, subject) = (&fresh.setup, fresh.setup.subject);
        let is_same = |row: &&Row| {
            let other = &row.setup;
            named(row) == Some("reused")
                && other.extra.get("delay_ms") == setup.extra.get("delay_ms")
                && (other.subject, &other.backend, other.runtime, other.tasks)
                    == (subject, &setup.backend, setup.runtime, setup.tasks)
        };
        if !["leasehold", "raw-record"].contains(&subject) {
            continue;
        }
        if let Some(reused) = costs().find(is_same) {
            lines.push(format!(
                "  {subject}, {}, {} tasks: {:.2}",
                setup.runtime.name(),
                setup.tasks,
                fresh.value / reused.value
            ));
        }
    }
    (lines.len() > 1).then(|| lines.join("\n"))
}

fn named(row: &Row) -> Option<&str> {
    row.setup.extra.get("names").and_then(|names| names.as_str())
}
