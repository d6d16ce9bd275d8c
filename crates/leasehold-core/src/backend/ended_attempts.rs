//! The ended attempts that an engine remembers.

use std::collections::VecDeque;
use std::time::Duration;

use leasehold_proto::{AttemptId, Deadline, Now};

/// How long, and of how many attempts, the result of a release is kept.
const KEEP: Duration = Duration::from_secs(300);
const MOST: usize = 16_384;

/// The attempts that have ended, oldest first. An engine that keeps their results itself needs them
/// for an acquire that arrives late, and for a repeated release. It remembers each attempt for 5
/// minutes, and at most 16,384 attempts.
///
/// ```
/// use leasehold_core::backend::EndedAttempts;
/// use leasehold_core::clock::ManualClock;
/// use leasehold_core::{AttemptId, ClientId};
///
/// let hand = ManualClock::new();
/// let (clock, mut ended) = (hand.clock(), EndedAttempts::default());
/// let attempt = AttemptId::new(ClientId::from_bits(1), 1, 0);
/// ended.push(clock.now(), attempt);
/// assert_eq!(ended.pop_due(clock.now()), None);
/// hand.advance(EndedAttempts::KEEP);
/// assert_eq!(ended.pop_due(clock.now()), Some(attempt));
/// ```
#[derive(Clone, Debug, Default)]
pub struct EndedAttempts(VecDeque<(Deadline, AttemptId)>);

impl EndedAttempts {
    /// How long an attempt is remembered.
    pub const KEEP: Duration = KEEP;

    /// Remembers an attempt that ends now. Afterwards call [`pop_due`](Self::pop_due), and drop
    /// what it returns.
    pub fn push(&mut self, now: Now, attempt: AttemptId) {
        self.0.push_back((Deadline::after(now, KEEP), attempt));
    }

    /// Returns the oldest attempt if it need not be remembered any more; call it until it returns
    /// `None`.
    pub fn pop_due(&mut self, now: Now) -> Option<AttemptId> {
        let (until, _) = self.0.front()?;
        if self.0.len() <= MOST && !until.has_passed(now) {
            return None;
        }
        self.0.pop_front().map(|(_, attempt)| attempt)
    }

    /// Returns how many attempts are remembered.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if no attempt is remembered.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use leasehold_proto::ClientId;

    use super::*;
    use crate::clock::ManualClock;

    #[test]
    fn the_oldest_of_too_many_attempts_is_forgotten() {
        let now = ManualClock::new().clock().now();
        let attempt = |number| AttemptId::new(ClientId::from_bits(1), number, 0);
        let mut ended = EndedAttempts::default();
        for number in 0..MOST as u32 {
            ended.push(now, attempt(number));
            assert_eq!(ended.pop_due(now), None);
        }
        ended.push(now, attempt(MOST as u32));
        assert_eq!(ended.pop_due(now), Some(attempt(0)));
        assert_eq!((ended.pop_due(now), ended.len()), (None, MOST));
    }
}
