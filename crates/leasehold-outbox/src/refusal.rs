//! Decides when a refused change is tried again.

use std::collections::HashMap;
use std::time::Duration;

use crate::transport::Refused;
use crate::{Error, Result};

/// The first and the longest pause before a refused change is tried again.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));
/// The most characters of a stored reason.
const REASON: usize = 300;

/// Returns the reasons by index. A transport that refuses an index that was not given may mean any
/// change: then none counts as delivered.
pub(super) fn reasons(refused: Vec<Refused>, given: usize) -> Result<HashMap<usize, String>> {
    match refused.iter().find(|refused| refused.at >= given) {
        None => Ok(refused.into_iter().map(|refused| (refused.at, refused.reason)).collect()),
        Some(Refused { at, reason }) => Err(Error::invalid(format!(
            "the transport refused change {at}, but the last index is {}: {reason}",
            given.saturating_sub(1)
        ))),
    }
}

/// Returns the pause before the next try of a change that was refused `before` times; `None` after
/// the last try.
pub(super) fn again(before: i64, most: u32) -> Option<Duration> {
    let before = u32::try_from(before).unwrap_or(0);
    let pause = AGAIN.0.saturating_mul(2_u32.saturating_pow(before));
    (before.saturating_add(1) < most).then(|| pause.min(AGAIN.1))
}

/// Returns the reason, cut to the stored length.
pub(super) fn shortened(reason: &str) -> String {
    reason.chars().take(REASON).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_row_is_tried_ever_later_and_parked_in_the_end() {
        let pauses: Vec<_> = (0..4).map(|before| again(before, 4)).collect();
        let secs = |secs| Some(Duration::from_secs(secs));
        assert_eq!(pauses, [secs(1), secs(2), secs(4), None]);
        assert_eq!(again(40, 1_000), secs(300));
        assert_eq!(again(0, 1), None);
    }
}
