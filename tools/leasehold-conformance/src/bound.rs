//! How long a promise takes at the most, where engines differ in it.

use std::fmt;
use std::time::Duration;

/// What ends a wait. The matrix names it, and the case fails where it takes longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// A call and a push.
    AtOnce,
    /// The pause between two looks of a waiter that the engine cannot push to.
    Look,
    /// The time of an offer, for each waiter ahead.
    Offer,
    /// The next renewal of the holder: a third of the ttl.
    Renewal,
    /// The ttl of a lease without renewal.
    Ttl,
    /// The session of the client, of this length.
    Session(Duration),
}

/// The longest offer.
const OFFER: Duration = Duration::from_secs(2);
/// What calls and pushes may take, and a server that looks for ended leases once a second.
const SLACK: Duration = Duration::from_secs(1);

impl Bound {
    /// The time that is allowed, with a ttl and so many waiters ahead.
    pub(crate) fn limit(self, ttl: Duration, ahead: u32) -> Duration {
        let limit = match self {
            Self::AtOnce => Duration::ZERO,
            Self::Look => Duration::from_millis(400),
            Self::Offer => OFFER.min(ttl) * ahead,
            Self::Renewal => ttl / 3,
            Self::Ttl => ttl,
            Self::Session(time) => time,
        };
        // Servers count sessions and leases in steps.
        limit + SLACK + limit / 3
    }
}

/// As a cell of the matrix has it, after `yes, `.
impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AtOnce => "at once",
            Self::Look => "within 0.4 s",
            Self::Offer => "within 2 s for each",
            Self::Renewal => "within ttl/3",
            Self::Ttl => "within the ttl",
            Self::Session(_) => "within the session",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_that_a_cell_tells_apart_are_apart_in_time() {
        let ttl = Duration::from_secs(6);
        let limit = |bound: Bound| bound.limit(ttl, 2);
        assert!(limit(Bound::AtOnce) < limit(Bound::Look));
        assert!(limit(Bound::Look) < limit(Bound::Renewal));
        assert!(limit(Bound::Renewal) < limit(Bound::Offer));
        assert!(limit(Bound::Offer) < limit(Bound::Ttl));
        assert_eq!(limit(Bound::Session(ttl)), limit(Bound::Ttl));
    }
}
