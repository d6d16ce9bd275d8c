//! Tests of extended leases, by example and by random histories against a model of the backend.

use proptest::prelude::*;

use super::*;
use crate::{Step, Terms, drift};

fn at(ms: u64) -> Now {
    Now { steady_ns: ms * 1_000_000, wall_ns: (ms + 1_000_000) * 1_000_000 }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn fixed(ttl: u64) -> Terms {
    Terms { ttl: ms(ttl), renew_after: None, max_hold: None, session: false }
}

fn granted(terms: Terms) -> Lease {
    let mut lease = Lease::ask(at(0), terms);
    lease.handle_granted(at(5), None, false, 0).unwrap();
    lease
}

#[test]
fn it_lasts_from_before_the_request_less_drift() {
    let mut lease = granted(fixed(3_000));
    assert_eq!(lease.extend(at(1_000), ms(10_000)), Ok(ms(10_000)));
    assert_eq!(lease.remaining(at(1_200)), ms(2_968 - 1_200), "nothing before the answer");
    assert!(lease.handle_extended(at(1_000), at(1_300), ms(10_000), 0));
    assert_eq!(lease.remaining(at(1_300)), ms(11_000 - 102 - 1_300));
    assert_eq!(lease.handle_timeout(at(9_897)), Step::Wait);
    assert_eq!(lease.handle_timeout(at(9_898)), Step::Lost(LossReason::MaxHold), "1 s before");
    assert_eq!(lease.extend(at(9_899), ms(10_000)), Err(NotExtendable::Over(lease.loss())));
    assert!(!lease.handle_extended(at(9_800), at(9_900), ms(10_000), 0), "never revived");
    assert!(!lease.is_valid(at(9_900)));
}

#[test]
fn a_repeated_extension_and_a_late_answer_never_shorten() {
    let mut lease = granted(fixed(3_000));
    for sent in [1_000, 1_100] {
        lease.extend(at(sent), ms(10_000)).unwrap();
        lease.handle_extended(at(sent), at(sent + 1), ms(10_000), 0);
    }
    let until = lease.deadline();
    lease.handle_extended(at(1_000), at(1_200), ms(10_000), 0);
    assert_eq!(lease.deadline(), until);
}

#[test]
fn a_late_answer_makes_no_report_of_a_loss_later() {
    let renewed = Terms { renew_after: Some(ms(333)), ..fixed(1_000) };
    let mut lease = granted(renewed);
    assert!(lease.handle_extended(at(400), at(401), ms(1_000), 0));
    let (alarm, end) = (lease.alarm(), lease.deadline());
    // The answer to an earlier request, when less than three margins are left.
    assert!(lease.handle_extended(at(100), at(1_200), ms(1_000), 0));
    assert_eq!((lease.alarm(), lease.deadline()), (alarm, end));
    // The answer to a later request, which leaves little time too.
    assert!(lease.handle_extended(at(450), at(1_270), ms(1_000), 0));
    let steady = |at: Option<Deadline>| at.unwrap().steady_ns();
    let margin = steady(lease.deadline()) - steady(lease.alarm());
    assert!((100_000_000..100_100_000).contains(&margin), "a tenth of the ttl: {margin} ns");
}

#[test]
fn a_late_answer_to_a_renewal_leaves_the_margin_whole() {
    let terms = Terms { renew_after: Some(ms(1_000)), ..fixed(3_000) };
    let mut lease = granted(terms);
    // The answer to an earlier renewal comes last.
    for sent in [2_000, 1_000] {
        assert!(lease.is_valid(at(2_900)));
        lease.handle_renewed(at(sent), at(2_900), 0);
    }
    let passed = |lease: &Lease, now| lease.alarm().is_some_and(|alarm| alarm.has_passed(at(now)));
    assert!(!passed(&lease, 4_667) && passed(&lease, 4_668), "300 ms before 4,968");
    let mut late = granted(terms);
    late.handle_renewed(at(100), at(2_900), 0);
    assert_eq!(late.deadline(), Some(Deadline::after(at(100), ms(2_968))));
    assert!(!passed(&late, 2_767) && passed(&late, 2_768), "300 ms before 3,068");
    assert_eq!(late.handle_timeout(at(2_900)), Step::Lost(LossReason::Expired), "168 ms before");
}

#[test]
fn what_cannot_be_extended_says_why() {
    let mut lease = granted(fixed(30_000));
    let left = lease.remaining(at(1_000));
    assert_eq!(lease.extend(at(1_000), ms(20_000)), Err(NotExtendable::Shorter(left)));
    assert_eq!(lease.extend(at(1_000), left), Ok(left));
    let mut bounded = granted(Terms { max_hold: Some(ms(5_000)), ..fixed(3_000) });
    assert_eq!(bounded.extend(at(1_000), ms(4_001)), Err(NotExtendable::Beyond(ms(4_000))));
    assert_eq!(bounded.extend(at(1_000), ms(4_000)), Ok(ms(4_000)));
    let mut renewed = granted(Terms { renew_after: Some(ms(1_000)), ..fixed(3_000) });
    assert_eq!(renewed.extend(at(1_000), ms(9_000)), Err(NotExtendable::Renewed));
    let mut session = granted(Terms { session: true, ..fixed(3_000) });
    assert_eq!(session.extend(at(1_000), ms(9_000)), Err(NotExtendable::Session));
    assert!(lease.release(at(2_000)));
    assert_eq!(lease.extend(at(2_000), ms(60_000)), Err(NotExtendable::Over(None)));
    let mut ended = granted(fixed(3_000));
    assert_eq!(ended.extend(at(2_968), ms(9_000)), Err(NotExtendable::Over(None)), "not told yet");
}

#[test]
fn the_confirmation_of_an_offer_counts_with_its_own_ttl() {
    let mut lease = Lease::ask(at(0), fixed(3_000));
    let until = Deadline::after(at(5_000), ms(2_000));
    lease.handle_granted(at(5_000), Some(until), true, 0).unwrap();
    assert_eq!(lease.handle_timeout(at(5_050)), Step::Renew);
    lease.extend(at(5_060), ms(60_000)).unwrap();
    // The confirmation was sent with 3 s; the extension has no answer yet.
    assert!(lease.handle_extended(at(5_050), at(5_070), ms(3_000), 0));
    assert_eq!(lease.deadline(), Some(Deadline::after(at(5_050), ms(2_968))));
    assert_eq!(lease.terms().ttl, ms(60_000), "the backend may keep it that long");
}

proptest! {
    /// Requests are lost, delayed, and answered late or never. The lease is never valid when the
    /// backend may have given it to another client, a lease that is over stays over, and only an
    /// answer moves the deadline.
    #[test]
    fn no_history_makes_an_extended_lease_valid_for_too_long(
        ttl in 100u64..3_000,
        hold in proptest::option::of(20u64..20_000),
        steps in proptest::collection::vec(
            (0u64..300, 0u8..4, 10u64..6_000, 0u64..200, any::<bool>()), 1..60),
    ) {
        let mut lease = granted(Terms { max_hold: hold.map(ms), ..fixed(ttl) });
        // The request arrived at once: when the backend lets another client have the lock.
        let (mut backend, mut now, mut over) = (ttl, 5, false);
        let mut unanswered: Vec<(u64, u64)> = Vec::new();
        for (pause, what, time, delay, arrives) in steps {
            now += pause;
            let before = lease.deadline();
            match what {
                0 | 1 => if let Ok(asked) = lease.extend(at(now), ms(time)) {
                    prop_assert!(lease.is_valid(at(now)));
                    prop_assert_eq!(lease.deadline(), before, "moved before the answer");
                    prop_assert!(lease.terms().ttl >= asked);
                    let arrived = now + delay;
                    if arrives && arrived < backend {
                        backend = backend.max(arrived + time);
                        unanswered.push((now, time));
                    }
                    now = arrived;
                },
                2 => if let Some((sent, time)) = unanswered.pop() {
                    let was_valid = lease.is_valid(at(now));
                    let extended = lease.handle_extended(at(sent), at(now), ms(time), 0);
                    prop_assert_eq!(extended, was_valid);
                    let end = |deadline: Option<Deadline>| deadline.map(Deadline::steady_ns);
                    prop_assert!(end(lease.deadline()) >= end(before), "shortened");
                    if extended {
                        let until = at(sent).steady_ns + (ms(time) - drift(ms(time))).as_nanos() as u64;
                        let until = hold.map_or(until, |hold| until.min(hold * 1_000_000));
                        prop_assert!(lease.deadline().unwrap().steady_ns() >= until, "ends too early");
                    }
                },
                3 => over |= matches!(lease.handle_timeout(at(now)), Step::Lost(_)),
                _ => {}
            }
            over |= !lease.is_valid(at(now));
            if lease.is_valid(at(now)) {
                prop_assert!(!over, "revived");
                prop_assert!(now < backend, "valid at {}, but free at {}", now, backend);
                prop_assert!(hold.is_none_or(|hold| now < hold));
                prop_assert!(lease.next_timeout().is_some());
            }
        }
    }
}
