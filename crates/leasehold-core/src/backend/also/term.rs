//! How long a lease is valid that consists of two.

use std::time::Duration;

use leasehold_proto::{Deadline, Now, drift};

use crate::backend::Term;

/// Returns when a lease of this ttl ends that was requested now, with what clocks may differ.
pub(super) fn end(now: Now, ttl: Duration) -> Deadline {
    Deadline::after(now, ttl.saturating_sub(drift(ttl)))
}

/// Returns the earlier of two terms. `until` is when a lease ends that is counted from the request.
pub(super) fn earlier(one: Term, other: Term, until: Deadline) -> Term {
    let end = |term| match term {
        Term::Ttl => Some(until),
        Term::Until(end) | Term::Offer(end) => Some(end),
        Term::Session => None,
    };
    let is_offer = [one, other].iter().any(|term| matches!(term, Term::Offer(_)));
    match (one, other, end(one), end(other)) {
        (Term::Session, term, ..) | (term, Term::Session, ..) => term,
        (Term::Ttl, Term::Ttl, ..) => Term::Ttl,
        (_, _, Some(one), Some(other)) if is_offer => Term::Offer(one.min(other)),
        (_, _, Some(one), Some(other)) => Term::Until(one.min(other)),
        (_, term, ..) => term,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earlier_end_counts() {
        let at =
            |ms: u64| Deadline::after(Now { steady_ns: 0, wall_ns: 0 }, Duration::from_millis(ms));
        let until = at(100);
        for (one, other, both) in [
            (Term::Ttl, Term::Ttl, Term::Ttl),
            (Term::Session, Term::Ttl, Term::Ttl),
            (Term::Session, Term::Session, Term::Session),
            (Term::Until(at(50)), Term::Ttl, Term::Until(at(50))),
            (Term::Until(at(150)), Term::Ttl, Term::Until(at(100))),
            (Term::Until(at(150)), Term::Until(at(160)), Term::Until(at(150))),
            (Term::Ttl, Term::Offer(at(10)), Term::Offer(at(10))),
        ] {
            assert_eq!(earlier(one, other, until), both);
            assert_eq!(earlier(other, one, until), both);
        }
    }
}
