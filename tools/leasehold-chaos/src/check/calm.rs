//! Times in which nothing disturbs clients.

use super::Evidence;
use crate::SECOND;

/// Clients have connected anew, and stand in the line again, so long after a fault.
pub(super) const AFTERMATH: u64 = 4 * SECOND;

/// Whether no fault is near, and no command of the operator runs.
pub(super) fn is_calm(evidence: &Evidence, from: u64, until: u64) -> bool {
    let faults = evidence.injected.iter().map(|one| (one.from, one.until));
    let mut commands = evidence.ran.iter().map(|one| (one.from, one.until));
    let meets = |(begun, ended): (u64, u64)| begun < until && ended + AFTERMATH > from;
    !{ faults }.into_iter().any(meets)
        && !commands.any(|(begun, ended)| begun < until && ended > from)
}
