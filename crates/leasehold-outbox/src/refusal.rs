//! What becomes of a change that was refused.

use std::collections::HashMap;
use std::time::Duration;

use crate::transport::Refused;
use crate::{Error, Result};

/// Pauses until it is tried again: the first and the longest.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));
/// The longest reason that is kept, in characters.
const REASON: usize = 300;

/// The reasons by their places. Who refuses what was not given may mean any of them: then nothing is
/// known to have arrived.
pub(super) fn reasons(refused: Vec<Refused>, given: usize) -> Result<HashMap<usize, String>> {
    match refused.iter().find(|refused| refused.at >= given) {
        None => Ok(refused.into_iter().map(|refused| (refused.at, refused.reason)).collect()),
        Some(Refused { at, reason }) => Err(Error::invalid(format!(
            "the transport refused at {at}, and up to {} is allowed: {reason}",
            given.saturating_sub(1)
        ))),
    }
}

/// When what was refused `before` times is tried again; `None`: not any more.
pub(super) fn again(before: i64, most: u32) -> Option<Duration> {
    let before = u32::try_from(before).unwrap_or(0);
    let pause = AGAIN.0.saturating_mul(2_u32.saturating_pow(before));
    (before.saturating_add(1) < most).then(|| pause.min(AGAIN.1))
}

/// No longer than is kept.
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
