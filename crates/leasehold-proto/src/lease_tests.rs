//! Tests of the lease machine, by example and by random histories.

use proptest::prelude::*;

use super::*;

fn at(ms: u64) -> Now {
    Now { steady_ns: ms * 1_000_000, wall_ns: (ms + 1_000_000) * 1_000_000 }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn renewed(ttl: u64) -> Terms {
    Terms { ttl: ms(ttl), renew_after: Some(ms(ttl / 3)), max_hold: None, session: false }
}

fn granted(terms: Terms) -> Lease {
    let mut lease = Lease::ask(at(0), terms);
    lease.handle_granted(at(5), None, false, 0).unwrap();
    lease
}

#[test]
fn validity_counts_from_asking_less_drift() {
    let lease = granted(renewed(10_000));
    assert!(lease.is_valid(at(9_897)));
    assert!(!lease.is_valid(at(9_898)));
    assert_eq!(lease.remaining(at(9_000)), ms(898));
}

#[test]
fn an_offer_is_confirmed_by_its_first_renewal() {
    let mut lease = Lease::ask(at(0), renewed(10_000));
    lease.handle_granted(at(5), None, true, 0).unwrap();
    assert!(!lease.is_confirmed());
    lease.handle_renewal_failed(at(60), 0);
    assert!(!lease.is_confirmed());
    lease.handle_renewed(at(60), at(70), 0);
    assert!(lease.is_confirmed());
    assert!(granted(renewed(10_000)).is_confirmed());
}

#[test]
fn a_grant_read_after_its_own_end_is_refused() {
    let mut lease = Lease::ask(at(0), renewed(1_000));
    assert_eq!(lease.handle_granted(at(990), None, false, 0), Err(TooLate));
    assert!(!lease.is_valid(at(990)));
}

#[test]
fn a_pushed_grant_lasts_no_longer_than_the_ttl() {
    // The backend's clock was set back by 3 s after the grant.
    let mut lease = Lease::ask(at(0), renewed(1_000));
    let until = Deadline::after(at(5_000), ms(3_950));
    lease.handle_granted(at(5_010), Some(until), true, 0).unwrap();
    assert_eq!(lease.deadline(), Some(Deadline::after(at(5_010), validity(ms(1_000)))));
}

#[test]
fn loss_is_told_before_the_deadline_and_for_good() {
    let mut lease = granted(renewed(10_000));
    assert_eq!(lease.handle_timeout(at(3_334)), Step::Renew);
    assert_eq!(lease.handle_timeout(at(8_897)), Step::Renew);
    assert_eq!(lease.handle_timeout(at(8_898)), Step::Lost(LossReason::Expired));
    assert_eq!(lease.handle_timeout(at(8_899)), Step::Wait);
    lease.handle_renewed(at(8_890), at(8_900), 0);
    assert!(!lease.is_valid(at(8_900)), "never revived");
    assert_eq!(lease.remaining(at(8_898)), ms(1_000), "but the margin still counts down");
    assert!(!lease.release(at(8_900)));
}

#[test]
fn a_step_of_the_wall_clock_is_heeded_once() {
    let mut lease = granted(renewed(30_000));
    let stepped = |at: Now| Now { wall_ns: at.wall_ns + 15_000_000_000, ..at };
    assert_eq!(lease.handle_timeout(stepped(at(2_000))), Step::Renew, "as much may have passed");
    assert_eq!(lease.handle_timeout(stepped(at(2_000))), Step::Wait);
    assert_eq!(lease.handle_timeout(stepped(at(6_000))), Step::Wait);
    assert_eq!(lease.handle_timeout(stepped(at(7_000))), Step::Renew, "no answer has arrived");
    lease.handle_renewed(stepped(at(7_000)), stepped(at(7_010)), 0);
    assert_eq!(lease.handle_timeout(stepped(at(16_999))), Step::Wait);
    assert_eq!(lease.handle_timeout(stepped(at(17_001))), Step::Renew);
}

#[test]
fn an_unanswered_renewal_is_sent_again_and_any_answer_counts_from_its_own_send() {
    let mut lease = granted(renewed(6_000));
    assert_eq!(lease.handle_timeout(at(2_000)), Step::Renew);
    assert_eq!(lease.handle_timeout(at(2_999)), Step::Wait);
    assert_eq!(lease.handle_timeout(at(3_000)), Step::Renew);
    lease.handle_renewed(at(2_000), at(3_100), 0);
    assert_eq!(lease.remaining(at(3_100)), ms(2_000 + 6_000 - 62 - 3_100));
}

#[test]
fn a_late_answer_to_an_early_renewal_never_shortens() {
    let mut lease = granted(renewed(6_000));
    lease.handle_renewed(at(3_000), at(3_001), 0);
    let until = lease.deadline();
    lease.handle_renewed(at(2_000), at(3_002), 0);
    assert_eq!(lease.deadline(), until);
}

#[test]
fn an_offer_is_confirmed_soon() {
    let mut lease = Lease::ask(at(0), renewed(30_000));
    let until = Deadline::after(at(5_000), ms(2_000));
    lease.handle_granted(at(5_000), Some(until), true, 0).unwrap();
    assert_eq!(lease.handle_timeout(at(5_049)), Step::Wait);
    assert_eq!(lease.handle_timeout(at(5_050)), Step::Renew);
    assert_eq!(lease.handle_timeout(at(5_699)), Step::Wait);
    assert_eq!(lease.handle_timeout(at(5_700)), Step::Renew, "again after a third of what is left");
    assert!(lease.is_valid(at(6_999)) && !lease.is_valid(at(7_000)));
    lease.handle_renewed(at(5_051), at(5_052), 0);
    assert!(lease.is_valid(at(30_000)));
}

#[test]
fn max_hold_ends_it_however_often_it_is_renewed() {
    let mut lease = granted(Terms { max_hold: Some(ms(5_000)), ..renewed(3_000) });
    lease.handle_renewed(at(2_000), at(2_001), 0);
    lease.handle_renewed(at(4_000), at(4_001), 0);
    assert!(lease.is_valid(at(4_999)) && !lease.is_valid(at(5_000)));
    assert_eq!(lease.handle_timeout(at(4_900)), Step::Lost(LossReason::MaxHold));
    assert_eq!(lease.handle_timeout(at(4_999)), Step::Wait, "time to wind down");
    assert_eq!(lease.handle_timeout(at(5_000)), Step::End, "a forgotten guard is released");
    assert_eq!(lease.next_timeout(), None);
}

#[test]
fn a_fixed_lease_is_not_renewed() {
    let mut lease = granted(Terms { renew_after: None, ..renewed(3_000) });
    assert_eq!(lease.handle_timeout(at(2_000)), Step::Wait);
    assert_eq!(lease.handle_timeout(at(2_668)), Step::Lost(LossReason::MaxHold));
}

#[test]
fn an_offer_of_a_fixed_lease_is_confirmed_once_and_then_not_renewed() {
    let mut lease = Lease::ask(at(0), Terms { renew_after: None, ..renewed(30_000) });
    let until = Deadline::after(at(5_000), ms(2_000));
    lease.handle_granted(at(5_000), Some(until), true, 0).unwrap();
    assert_eq!(lease.handle_timeout(at(5_050)), Step::Renew);
    lease.handle_renewed(at(5_051), at(5_052), 0);
    lease.handle_renewal_failed(at(5_053), 0); // An earlier confirmation fails late.
    assert!(lease.is_valid(at(34_000)));
    assert_eq!(lease.handle_timeout(at(25_000)), Step::Wait);
    assert_eq!(lease.handle_timeout(at(34_000)), Step::Lost(LossReason::MaxHold));
}

#[test]
fn a_session_has_no_deadline_but_is_looked_after() {
    let mut lease = granted(Terms { session: true, ..renewed(3_000) });
    assert_eq!(lease.remaining(at(1 << 40)), Duration::MAX);
    assert_eq!(lease.handle_timeout(at(1 << 40)), Step::Renew);
    assert_eq!(lease.handle_lost(LossReason::NotOwner), Step::Lost(LossReason::NotOwner));
    assert_eq!(lease.remaining(at(1 << 40)), Duration::ZERO);
}

#[test]
fn what_is_rounded_comes_a_little_earlier() {
    let ttl = Duration::from_nanos(10_000_999_999);
    let lease = granted(Terms { ttl, renew_after: Some(ttl / 3), ..renewed(0) });
    let (valid, renewal) = (ttl - drift(ttl), lease.next_timeout().unwrap().steady_ns());
    let remaining = lease.remaining(at(0));
    assert!(remaining <= valid && remaining + ms(1) > valid, "{remaining:?} of {valid:?}");
    let asked = (ttl / 3).as_nanos() as u64;
    assert!(renewal <= asked && renewal + 100_000 > asked, "{renewal} of {asked}");
    let alarm = lease.alarm().unwrap().remaining(at(0));
    let margin = loss_margin(ttl, valid);
    assert!(alarm <= valid - margin && alarm + ms(2) > valid - margin, "{alarm:?}");
}

#[test]
fn a_session_whose_renewals_fail_is_looked_after_without_a_rush() {
    let mut lease = granted(Terms { session: true, ..renewed(3_000) });
    for hours in 1..100 {
        let now = at(hours * 3_600_000);
        assert_eq!(lease.handle_timeout(now), Step::Renew);
        lease.handle_renewal_failed(now, 0);
        assert!(lease.next_timeout().unwrap().steady_ns() > now.steady_ns);
    }
}

#[test]
fn a_released_lease_asks_for_nothing() {
    let mut lease = granted(renewed(3_000));
    assert!(lease.release(at(10)));
    assert_eq!(lease.next_timeout(), None);
    assert_eq!(lease.handle_timeout(at(2_000)), Step::Wait);
    lease.handle_renewed(at(9), at(11), 0);
    assert!(!lease.is_valid(at(11)));
}

proptest! {
    /// In every order of events: validity never exceeds the last renewal that succeeded, a lost or
    /// released lease stays so, and a driver that looks in time gets the loss in time.
    #[test]
    fn no_history_makes_a_lease_valid_for_too_long(
        ttl in 10u64..5_000,
        hold in proptest::option::of(1u64..20_000),
        events in proptest::collection::vec((0u64..2_000, 0u8..4, 0u64..3_000, any::<u64>()), 1..60),
    ) {
        let terms = Terms { max_hold: hold.map(ms), ..renewed(ttl) };
        let mut lease = Lease::ask(at(0), terms);
        if lease.handle_granted(at(1), None, false, 0).is_err() {
            return Ok(());
        }
        let validity = ttl - (ttl / 100).min(ttl);
        let (mut time, mut best, mut over) = (1, validity, false);
        for (pause, what, age, bits) in events {
            time += pause;
            let now = at(time);
            let was_valid = lease.is_valid(now);
            match what {
                0 => {
                    let sent = time.saturating_sub(age);
                    lease.handle_renewed(at(sent), now, bits);
                    if was_valid { best = best.max(sent + validity); }
                }
                1 => lease.handle_renewal_failed(now, bits),
                2 => over |= matches!(lease.handle_timeout(now), Step::Lost(_)),
                _ if age < 100 => { lease.release(now); over = true; }
                _ => {}
            }
            if lease.is_valid(now) {
                prop_assert!(!over, "revived");
                prop_assert!(time < best, "valid at {} beyond {}", time, best);
                prop_assert!(hold.is_none_or(|hold| time < hold));
                prop_assert!(lease.alarm().unwrap().steady_ns() <= lease.deadline().unwrap().steady_ns());
                prop_assert!(lease.next_timeout().is_some());
            }
            if let Some(next) = lease.next_timeout().filter(|_| lease.loss().is_none()) {
                prop_assert!(!over);
                prop_assert!(next.steady_ns() <= lease.alarm().unwrap().steady_ns());
            }
        }
    }
}

#[test]
fn a_lease_is_passed_on_while_it_is_held_and_wanted_as_it_is() {
    let terms = renewed(10_000);
    let lease = granted(terms);
    let next = lease.pass(at(4_000), Terms { max_hold: Some(ms(2_000)), ..terms }).unwrap();
    assert_eq!(next.remaining(at(4_000)), ms(2_000), "its own maximum, from when it has it");
    assert_eq!(next.pass(at(5_000), terms).unwrap().remaining(at(5_000)), ms(4_898));
    assert_eq!(lease.pass(at(4_000), renewed(9_000)).map(|_| ()), None);
    let later = Terms { renew_after: Some(ms(5_000)), ..terms };
    assert_eq!(lease.pass(at(4_000), later).map(|_| ()), None);
    assert!(lease.pass(at(8_897), terms).is_some());
    assert!(lease.pass(at(8_898), terms).is_none(), "about to be lost");
    let (mut lost, mut released) = (lease.clone(), lease);
    lost.handle_lost(LossReason::NotOwner);
    assert!(lost.pass(at(4_000), terms).is_none());
    assert!(released.release(at(4_000)));
    assert!(released.pass(at(4_000), terms).is_none());
    let fixed = Terms { renew_after: None, ..terms };
    assert!(granted(fixed).pass(at(4_000), fixed).is_none());
    let session = Terms { session: true, ..terms };
    assert!(granted(session).pass(at(4_000), session).is_none());
}
