//! Tests of leases that a client keeps.

use super::super::{Granted, Sound};
use super::*;
use crate::{LossReason, Token, TokenBlock};

const TTL: Duration = Duration::from_secs(30);
const TERMS: Terms =
    Terms { ttl: TTL, renew_after: Some(Duration::from_secs(10)), max_hold: None, session: false };

fn at(ms: u64) -> Now {
    Now { steady_ns: ms * 1_000_000, wall_ns: (ms + 500) * 1_000_000 }
}

fn granted(terms: Terms, offer: bool) -> (Lease, HeldTokens) {
    let tokens = TokenBlock::new(Token::new(5).unwrap(), 3).unwrap();
    let granted = Granted { tokens, until: None, offer, wanted: false, slots: Vec::new() };
    (granted.lease(at(0), at(1), terms, 0, Sound).unwrap(), HeldTokens::new(tokens))
}

fn cache(lease: &Lease, tokens: &HeldTokens, ms: u64, now: u64) -> Option<Deadline> {
    decide_cache(lease, tokens, Duration::from_millis(ms), false, at(now), Sound)
}

#[test]
fn a_cached_lease_lasts_for_the_time_and_not_beyond_what_a_task_could_take() {
    let (lease, tokens) = granted(TERMS, false);
    let until = |time, now| cache(&lease, &tokens, time, now).map(|until| until.remaining(at(now)));
    assert_eq!(until(1_000, 2_000), Some(Duration::from_secs(1)));
    // Valid until 29,698 ms, and less than a third of the ttl is left from 19,698 ms on.
    assert_eq!(until(60_000, 19_000), Some(Duration::from_millis(698)));
    assert_eq!(until(1_000, 19_698), None);
    assert_eq!(until(0, 2_000), None, "caching is off");
}

#[test]
fn a_lease_that_others_wait_for_or_that_nobody_could_take_is_given_back() {
    let (lease, tokens) = granted(TERMS, false);
    let second = Duration::from_secs(1);
    assert_eq!(decide_cache(&lease, &tokens, second, true, at(2), Sound), None);
    let (mut offer, _) = granted(TERMS, true);
    assert_eq!(cache(&offer, &tokens, 1_000, 2), None, "not confirmed");
    offer.handle_renewed(at(2), at(3), 0);
    assert!(cache(&offer, &tokens, 1_000, 4).is_some());
    let (fixed, _) = granted(Terms { renew_after: None, ..TERMS }, false);
    assert_eq!(cache(&fixed, &tokens, 1_000, 2), None, "a fixed end");
    let last = tokens.next().unwrap().next().unwrap();
    assert_eq!(cache(&lease, &last, 1_000, 2), None, "no token is left");
    let mut lost = lease;
    lost.handle_lost(LossReason::NotOwner);
    assert_eq!(cache(&lost, &tokens, 1_000, 2), None);
}

#[test]
fn a_task_takes_a_cached_lease_with_the_next_token_and_its_old_deadline() {
    let (lease, tokens) = granted(TERMS, false);
    let (taken, used) = take_cached(&lease, &tokens, TERMS, at(15_000), Sound).unwrap();
    assert_eq!(used.token().get(), 6);
    assert_eq!(taken.deadline(), lease.deadline());
    // Its renewal is due: it had been kept for longer than that.
    assert!(taken.next_timeout().unwrap().has_passed(at(15_000)));
    let mut skipped = lease.clone();
    assert_eq!(skipped.handle_timeout(at(12_000)), crate::Step::Renew);
    let (taken, _) = take_cached(&skipped, &tokens, TERMS, at(12_100), Sound).unwrap();
    assert!(
        taken.next_timeout().unwrap().has_passed(at(12_150)),
        "it was left out while nobody held"
    );
    assert!(take_cached(&lease, &tokens, TERMS, at(19_698), Sound).is_some());
    assert_eq!(take_cached(&lease, &tokens, TERMS, at(19_699), Sound), None, "too little is left");
    assert_eq!(take_cached(&lease, &tokens, TERMS, at(40_000), Sound), None, "it has ended");
    let other = Terms { ttl: TTL * 2, ..TERMS };
    assert_eq!(take_cached(&lease, &tokens, other, at(2), Sound), None, "other terms");
}

#[test]
fn a_paused_process_takes_nothing_whichever_clock_has_seen_the_pause() {
    let (lease, tokens) = granted(TERMS, false);
    for now in [
        Now { steady_ns: at(60_000).steady_ns, ..at(2) },
        Now { wall_ns: at(60_000).wall_ns, ..at(2) },
    ] {
        assert_eq!(take_cached(&lease, &tokens, TERMS, now, Sound), None);
        assert_eq!(decide_cache(&lease, &tokens, TTL, false, now, Sound), None);
    }
}

#[test]
fn the_readers_of_a_cached_lease_have_the_token_of_the_phase() {
    let (lease, _) = granted(TERMS, false);
    let tokens = HeldTokens::of_readers(Token::new(5).unwrap());
    assert!(cache(&lease, &tokens, 1_000, 2).is_some(), "it needs no other token");
    let (taken, same) = take_cached(&lease, &tokens, TERMS, at(15_000), Sound).unwrap();
    assert_eq!((taken.deadline(), same), (lease.deadline(), tokens));
    assert_eq!((same.token(), same.block().top()), (tokens.base(), tokens.base()));
}
