//! Tests of the semaphore record, step by step.

use super::*;
use crate::Token;
use crate::handoff::{OFFER, Renewed, Verdict};

const TTL: Duration = Duration::from_secs(30);

fn at(seconds: u64) -> Now {
    Now { steady_ns: seconds * 1_000_000_000, wall_ns: 0 }
}

fn attempt(client: u64) -> AttemptId {
    AttemptId::new(crate::ClientId::from_bits(client), 0, 0)
}

fn limit(limit: u32) -> Limit {
    Limit::new(limit).unwrap()
}

/// A record, and all its pushes; clients in `deaf` cannot be reached.
#[derive(Default)]
struct Kit<const CAP: usize = MAX_WORK> {
    record: Record<(), CAP>,
    pushed: Vec<(u64, Push)>,
    deaf: Vec<u64>,
}

/// What a client asks for.
#[derive(Clone, Copy)]
struct Wants {
    slots: u32,
    limit: u32,
    wait: bool,
    tokens: u32,
}

const ONE_OF_TWO: Wants = Wants { slots: 1, limit: 2, wait: true, tokens: 1 };
const TWO_OF_TWO: Wants = Wants { slots: 2, ..ONE_OF_TWO };
const ONE_OF_FOUR: Wants = Wants { limit: 4, ..ONE_OF_TWO };

impl<const CAP: usize> Kit<CAP> {
    fn with<A>(&mut self, step: impl FnOnce(&mut Record<(), CAP>, Reach<'_>) -> A) -> A {
        let Self { record, pushed, deaf } = self;
        step(record, &mut |attempt, push| {
            let client = (0..).find(|client| self::attempt(*client) == attempt).unwrap();
            let there = !deaf.contains(&client);
            if there {
                pushed.push((client, push));
            }
            there
        })
    }

    fn acquire(&mut self, seconds: u64, client: u64, wants: Wants) -> Answer {
        let Wants { slots, limit, wait, tokens } = wants;
        let demand = Demand::new(slots, limit).unwrap();
        let attempt = attempt(client);
        let request = AcquireRequest { attempt, demand, ttl: TTL, wait, tokens, tag: () };
        self.with(|record, reach| record.acquire(at(seconds), &request, reach))
    }

    /// Acquires a permit that fits, and returns its first token and its slots.
    #[track_caller]
    fn hold(&mut self, seconds: u64, client: u64, wants: Wants) -> (Token, Vec<u32>) {
        match self.acquire(seconds, client, wants) {
            Answer::Granted(permit) => (permit.tokens.base(), permit.slots),
            other => panic!("{other:?}"),
        }
    }

    fn end(&mut self, seconds: u64, release: &ReleaseRequest) -> Verdict {
        self.with(|record, reach| record.release(at(seconds), release, reach))
    }

    fn release(&mut self, seconds: u64, client: u64) -> Verdict {
        self.end(seconds, &unheard(client))
    }

    fn renew(&mut self, seconds: u64, client: u64, base: Token) -> Renewed {
        self.record.renew(at(seconds), attempt(client), base, TTL)
    }

    fn set_limit(&mut self, seconds: u64, version: u64, new: u32) -> Result<u64, Conflict> {
        self.with(|record, reach| record.set_limit(at(seconds), version, limit(new), reach))
    }

    /// The clients that hold, with their slots.
    fn holders(&self, seconds: u64) -> Vec<(u64, Vec<u32>)> {
        let client = |holder: Holder<'_>| {
            let found = (0..).find(|client| attempt(*client) == holder.attempt).unwrap();
            (found, holder.permit.slots.clone())
        };
        self.record.holders(at(seconds)).map(client).collect()
    }

    fn waiters(&self) -> Vec<AttemptId> {
        self.record.waiters().map(|waiter| waiter.attempt).collect()
    }
}

fn unheard(client: u64) -> ReleaseRequest {
    let attempt = attempt(client);
    ReleaseRequest { attempt, base: None, last: None, slot: None, suspect: false }
}

/// How a holder releases its permit.
fn heard(client: u64, (base, slots): &(Token, Vec<u32>)) -> ReleaseRequest {
    ReleaseRequest { base: Some(*base), slot: slots.first().copied(), ..unheard(client) }
}

#[test]
fn the_first_request_stores_the_limit_and_another_limit_is_refused() {
    let mut kit = Kit::<MAX_WORK>::default();
    kit.hold(0, 1, ONE_OF_TWO);
    assert_eq!((kit.record.limit(), kit.record.limit_version()), (Some(limit(2)), 1));
    assert_eq!(kit.acquire(0, 2, ONE_OF_FOUR), Answer::Invalid(limit(2)));
    assert_eq!(kit.holders(0).len(), 1);
    assert_eq!(kit.waiters(), []);
}

#[test]
fn bad_limits_and_demands_name_the_field_the_value_and_the_range() {
    let error = |error: OutOfRange| error.to_string();
    let wrong = "limit must be between 1 and 10000, got ";
    for value in [0, 10_001, u32::MAX] {
        assert_eq!(error(Limit::new(value).unwrap_err()), format!("{wrong}{value}"));
        assert_eq!(error(Demand::new(1, value).unwrap_err()), format!("{wrong}{value}"));
    }
    for (slots, limit, most) in [(0, 4, 4), (5, 4, 4), (1_025, 10_000, 1_024)] {
        let text = error(Demand::new(slots, limit).unwrap_err());
        assert!(text.starts_with(&format!("slots must be between 1 and {most}, got {slots}:")));
    }
    assert!(Demand::new(1_024, 10_000).is_ok());
}

#[test]
fn a_permit_gets_the_lowest_free_slots() {
    let mut kit = Kit::<MAX_WORK>::default();
    for client in 1..=4 {
        assert_eq!(kit.hold(0, client, ONE_OF_FOUR).1, [client as u32 - 1]);
    }
    kit.release(1, 3);
    kit.release(1, 1);
    assert_eq!(kit.hold(1, 5, Wants { slots: 2, ..ONE_OF_FOUR }).1, [0, 2]);
}

#[test]
fn a_repeated_request_returns_the_same_permit() {
    let mut kit = Kit::<MAX_WORK>::default();
    let first = kit.hold(0, 1, TWO_OF_TWO);
    assert_eq!(kit.hold(20, 1, TWO_OF_TWO), first);
    assert!(matches!(kit.renew(49, 1, first.0), Renewed::Renewed { .. }));
}

#[test]
fn a_permit_over_several_slots_has_a_token_above_those_of_each_slot() {
    let mut kit = Kit::<MAX_WORK>::default();
    let low = kit.hold(0, 1, ONE_OF_TWO);
    for _ in 0..3 {
        kit.hold(0, 2, ONE_OF_TWO);
        kit.release(0, 2);
    }
    kit.end(0, &heard(1, &low));
    let both = kit.hold(1, 3, TWO_OF_TWO);
    assert_eq!((low.0.get(), both.0.get()), (1, 4), "slot 1 had 1, 2 and 3");
    kit.end(2, &heard(3, &both));
    assert_eq!(kit.hold(3, 4, ONE_OF_TWO), (Token::new(5).unwrap(), vec![0]));
}

#[test]
fn tokens_never_fall_below_the_wall_clock() {
    let mut kit = Kit::<MAX_WORK>::default();
    let now = Now { steady_ns: 0, wall_ns: 7_000_000 };
    let demand = Demand::new(1, 2).unwrap();
    let (attempt, wait) = (attempt(1), true);
    let request = AcquireRequest { attempt, demand, ttl: TTL, wait, tokens: 3, tag: () };
    let answer = kit.with(|record, reach| record.acquire(now, &request, reach));
    let Answer::Granted(permit) = answer else { panic!("{answer:?}") };
    assert_eq!((permit.tokens.base().get(), permit.tokens.top().get()), (7_000, 7_002));
}

#[test]
fn unused_tokens_are_given_back_with_their_permit_only() {
    let mut kit = Kit::<MAX_WORK>::default();
    let wants = Wants { tokens: 4, ..TWO_OF_TWO };
    let first = kit.hold(0, 1, wants);
    kit.end(1, &ReleaseRequest { last: Token::new(2), ..heard(1, &first) });
    let second = kit.hold(1, 2, wants);
    assert_eq!(second.0.get(), 3);
    // The lease has expired: its holder may have used all tokens.
    kit.end(31, &ReleaseRequest { last: Some(second.0), ..heard(2, &second) });
    assert_eq!(kit.hold(32, 3, wants).0.get(), 7);
}

#[test]
fn a_weighted_waiter_is_never_passed_by_a_smaller_one() {
    let mut kit = Kit::<MAX_WORK>::default();
    kit.hold(0, 1, ONE_OF_TWO);
    assert!(matches!(kit.acquire(0, 2, TWO_OF_TWO), Answer::Queued { place: 0, .. }));
    assert!(matches!(kit.acquire(0, 3, ONE_OF_TWO), Answer::Queued { place: 1, .. }));
    let no_wait = Wants { wait: false, ..ONE_OF_TWO };
    assert_eq!(kit.acquire(0, 4, no_wait), Answer::Busy(TTL), "one slot is free, and two wait");
    kit.release(1, 1);
    assert_eq!(kit.holders(1), [(2, vec![0, 1])]);
    kit.release(2, 2);
    assert_eq!(kit.holders(2), [(3, vec![0])]);
}

#[test]
fn a_release_serves_as_many_waiters_as_fit() {
    let mut kit = Kit::<MAX_WORK>::default();
    kit.hold(0, 1, TWO_OF_TWO);
    for client in 2..=4 {
        kit.acquire(0, client, ONE_OF_TWO);
    }
    kit.release(1, 1);
    assert_eq!(kit.holders(1), [(2, vec![0]), (3, vec![1])]);
    assert_eq!(kit.waiters(), [attempt(4)]);
    let pushed: Vec<_> = kit.pushed.iter().map(|(client, _)| *client).collect();
    assert_eq!(pushed, [2, 3, 4], "two grants, and the first waiter learns when to ask");
    assert_eq!(kit.pushed.last(), Some(&(4, Push::Next { remaining: OFFER })));
}

#[test]
fn an_expired_permit_comes_back_to_those_who_ask() {
    let mut kit = Kit::<MAX_WORK>::default();
    let lost = kit.hold(0, 1, TWO_OF_TWO);
    assert!(matches!(kit.acquire(29, 2, ONE_OF_TWO), Answer::Queued { .. }));
    assert_eq!(kit.hold(30, 2, ONE_OF_TWO).1, [0]);
    assert_eq!(kit.renew(30, 1, lost.0), Renewed::Lost);
    assert_eq!(kit.end(31, &heard(1, &lost)), Verdict::Lost);
    assert_eq!(kit.record.held(), 1);
}

#[test]
fn an_expired_permit_that_was_confirmed_is_not_granted_again() {
    let mut kit = Kit::<MAX_WORK>::default();
    let first = kit.hold(0, 1, ONE_OF_TWO);
    let second = kit.hold(30, 1, ONE_OF_TWO);
    assert!(second.0 > first.0);
    assert_eq!(kit.end(31, &heard(1, &first)), Verdict::Lost, "the attempt's later permit ends");
    assert_eq!(kit.record.held(), 0);
}

/// One client holds both slots and two wait; at second 1 it releases, and both have offers.
fn two_offers() -> Kit {
    let mut kit = Kit::default();
    kit.hold(0, 1, TWO_OF_TWO);
    kit.acquire(0, 2, ONE_OF_TWO);
    kit.acquire(0, 3, ONE_OF_TWO);
    kit.release(1, 1);
    kit
}

#[test]
fn an_offer_that_expired_is_granted_again_with_a_new_token() {
    let mut kit = two_offers();
    let again = kit.hold(10, 2, ONE_OF_TWO);
    assert_eq!(again, (Token::new(3).unwrap(), vec![0]), "the offer had token 2");
    assert_eq!(kit.renew(10, 2, Token::new(2).unwrap()), Renewed::Lost);
    let offer = (Token::new(2).unwrap(), vec![0]);
    assert_eq!(kit.end(11, &heard(2, &offer)), Verdict::Lost, "its holder knows the offer only");
    assert_eq!(kit.holders(11), [], "the attempt alone decides what ends");
}

#[test]
fn the_loss_of_an_offer_is_told_although_another_slot_has_the_same_token() {
    let mut kit = Kit::<MAX_WORK>::default();
    kit.hold(0, 1, ONE_OF_TWO);
    kit.hold(0, 2, ONE_OF_TWO);
    kit.acquire(0, 3, ONE_OF_TWO);
    kit.release(1, 2);
    kit.release(10, 1);
    let token = Token::new(2).unwrap();
    assert_eq!(kit.hold(10, 3, ONE_OF_TWO), (token, vec![0]), "the offer was of slot 1");
    assert_eq!(kit.end(11, &heard(3, &(token, vec![1]))), Verdict::Lost);
    assert_eq!(kit.holders(11), []);
}

#[test]
fn an_offer_that_expired_is_not_granted_again_under_a_lowered_limit() {
    let mut kit = two_offers();
    kit.renew(2, 2, Token::new(2).unwrap());
    kit.set_limit(2, 1, 1).unwrap();
    assert_eq!(kit.acquire(10, 3, ONE_OF_TWO), Answer::Invalid(limit(1)));
    assert_eq!((kit.holders(10), kit.record.held()), (vec![(2, vec![0])], 1));
}

#[test]
fn a_renewal_confirms_an_offer() {
    let mut kit = two_offers();
    assert!(kit.record.holders(at(2)).all(|holder| !holder.confirmed));
    let renewed = kit.renew(2, 3, Token::new(2).unwrap());
    assert_eq!(renewed, Renewed::Renewed { remaining: TTL, waiters: 0 });
    assert_eq!(kit.holders(20), [(3, vec![1])]);
}

#[test]
fn a_lowered_limit_grants_nothing_before_enough_slots_are_back() {
    let mut kit = Kit::<MAX_WORK>::default();
    for client in 1..=4 {
        kit.hold(0, client, ONE_OF_FOUR);
    }
    kit.acquire(0, 5, ONE_OF_FOUR);
    assert_eq!(kit.set_limit(1, 1, 2), Ok(2));
    kit.release(1, 1);
    kit.release(1, 2);
    assert_eq!(kit.holders(1).len(), 2, "slots 0 and 1 are free, and two permits are left");
    let renewed = kit.renew(2, 4, Token::new(1).unwrap());
    assert!(matches!(renewed, Renewed::Renewed { .. }), "slot 3 is above the limit: {renewed:?}");
    kit.release(3, 3);
    assert_eq!(kit.holders(3), [(4, vec![3]), (5, vec![0])]);
}

#[test]
fn a_raised_limit_serves_waiters_and_returns_the_slots_of_an_earlier_one() {
    let mut kit = Kit::<MAX_WORK>::default();
    for client in 1..=4 {
        kit.hold(0, client, ONE_OF_FOUR);
    }
    kit.set_limit(0, 1, 1).unwrap();
    for client in 2..=4 {
        kit.release(1, client);
    }
    for client in 5..=6 {
        kit.acquire(1, client, Wants { limit: 1, ..ONE_OF_TWO });
    }
    assert_eq!(kit.set_limit(2, 2, 3), Ok(3));
    assert_eq!(kit.holders(2), [(1, vec![0]), (5, vec![1]), (6, vec![2])]);
}

#[test]
fn a_late_repeat_of_a_change_undoes_nothing() {
    let mut kit = Kit::<MAX_WORK>::default();
    assert_eq!(kit.set_limit(0, 0, 4), Ok(1));
    assert_eq!(kit.set_limit(0, 1, 6), Ok(2));
    assert_eq!(kit.set_limit(0, 1, 6), Ok(2), "repeated, it is the same");
    assert_eq!(kit.set_limit(0, 2, 8), Ok(3));
    let conflict = kit.set_limit(0, 1, 6).unwrap_err();
    assert_eq!(conflict, Conflict { limit: Some(limit(8)), version: 3 });
    let text = "the limit is 8 with version 3: use this version to change it";
    assert_eq!(conflict.to_string(), text);
    assert_eq!(kit.record.limit(), Some(limit(8)));
    let conflict = Kit::<MAX_WORK>::default().set_limit(0, 1, 6).unwrap_err();
    assert_eq!(conflict.to_string(), "no limit is stored: use version 0 to set one");
}

#[test]
fn a_waiter_that_needs_more_than_a_new_limit_is_refused() {
    let mut kit = Kit::<MAX_WORK>::default();
    kit.hold(0, 1, ONE_OF_TWO);
    kit.acquire(0, 2, TWO_OF_TWO);
    kit.acquire(0, 3, TWO_OF_TWO);
    kit.deaf = vec![2];
    kit.set_limit(1, 1, 1).unwrap();
    assert_eq!(kit.waiters(), []);
    assert_eq!(kit.pushed.last(), Some(&(3, Push::Refused { limit: limit(1) })));
    assert_eq!(kit.acquire(2, 2, TWO_OF_TWO), Answer::Invalid(limit(1)), "the push was lost");
}

#[test]
fn a_waiter_keeps_its_place_although_the_limit_is_another_one_by_now() {
    let mut kit = Kit::<MAX_WORK>::default();
    kit.hold(0, 1, TWO_OF_TWO);
    kit.acquire(0, 2, ONE_OF_TWO);
    kit.set_limit(1, 1, 1).unwrap();
    assert!(matches!(kit.acquire(2, 2, ONE_OF_TWO), Answer::Queued { place: 0, .. }));
    assert_eq!(kit.acquire(2, 3, ONE_OF_TWO), Answer::Invalid(limit(1)));
    kit.release(3, 1);
    assert_eq!(kit.holders(3), [(2, vec![0])]);
}

#[test]
fn a_waiter_that_does_not_ask_any_more_blocks_nobody_for_longer_than_its_lease() {
    let mut kit = Kit::<MAX_WORK>::default();
    let holder = kit.hold(0, 1, ONE_OF_TWO);
    kit.acquire(0, 2, TWO_OF_TWO);
    kit.acquire(1, 3, ONE_OF_TWO);
    for seconds in [15, 30, 45] {
        kit.renew(seconds, 1, holder.0);
        assert!(matches!(kit.acquire(seconds, 3, ONE_OF_TWO), Answer::Queued { place: 1, .. }));
    }
    assert_eq!(kit.hold(46, 3, ONE_OF_TWO).1, [1]);
    assert!(matches!(kit.acquire(47, 2, TWO_OF_TWO), Answer::Queued { place: 0, .. }));
}

#[test]
fn a_waiter_that_cannot_be_reached_is_passed_over_at_once() {
    let mut kit = Kit::<MAX_WORK> { deaf: vec![2, 4], ..Kit::default() };
    kit.hold(0, 1, ONE_OF_TWO);
    kit.acquire(0, 2, TWO_OF_TWO);
    assert_eq!(kit.hold(0, 3, ONE_OF_TWO).1, [1], "the first waiter leaves, and the next fits");
    kit.acquire(1, 4, ONE_OF_TWO);
    kit.acquire(1, 5, ONE_OF_TWO);
    kit.release(2, 1);
    assert_eq!(kit.holders(2), [(3, vec![1]), (5, vec![0])]);
}

#[test]
fn a_weighted_waiter_that_leaves_lets_those_behind_it_in() {
    let mut kit = Kit::<MAX_WORK>::default();
    kit.hold(0, 1, ONE_OF_TWO);
    kit.acquire(0, 2, TWO_OF_TWO);
    kit.acquire(0, 3, ONE_OF_TWO);
    assert_eq!(kit.release(1, 2), Verdict::Gone);
    assert_eq!(kit.holders(1), [(1, vec![0]), (3, vec![1])]);
}

#[test]
fn a_suspect_attempt_is_refused_later() {
    let mut kit = Kit::<MAX_WORK>::default();
    kit.end(0, &ReleaseRequest { suspect: true, ..unheard(1) });
    assert_eq!(kit.acquire(59, 1, ONE_OF_TWO), Answer::Ended);
    assert_eq!(kit.record.limit(), None, "nothing has changed");
    kit.hold(60, 1, ONE_OF_TWO);
}

#[test]
fn a_release_that_is_repeated_gets_the_same_verdict() {
    let mut kit = Kit::<MAX_WORK>::default();
    let first = kit.hold(0, 1, TWO_OF_TWO);
    assert_eq!(kit.end(1, &heard(1, &first)), Verdict::Released);
    assert_eq!(kit.end(1, &heard(1, &first)), Verdict::Released);
    let second = kit.hold(2, 2, ONE_OF_TWO);
    assert_eq!(kit.end(3, &heard(1, &first)), Verdict::Released);
    assert_eq!(kit.end(33, &heard(2, &second)), Verdict::Lost);
    assert_eq!(kit.end(33, &heard(2, &second)), Verdict::Lost);
    assert_eq!(kit.end(34, &heard(1, &first)), Verdict::Unknown, "a later one was lost");
    assert_eq!(kit.end(34, &ReleaseRequest { slot: None, ..heard(1, &first) }), Verdict::Unknown);
    assert_eq!(kit.release(34, 1), Verdict::Gone);
    let mut empty = Kit::<MAX_WORK>::default();
    assert_eq!(empty.end(0, &heard(1, &first)), Verdict::Lost, "the server lost the record");
    empty.hold(1, 4, ONE_OF_TWO);
    let (base, slots) = (Token::new(1).unwrap(), vec![0]);
    empty.release(2, 4);
    assert_eq!(empty.end(3, &heard(9, &(base, slots))), Verdict::Released);
}

#[test]
fn a_forced_release_names_a_permit_by_its_token_and_slot() {
    let mut kit = Kit::<MAX_WORK>::default();
    let force = |kit: &mut Kit, token, slot| {
        let token = Token::new(token).unwrap();
        kit.with(|record, reach| record.force_release(at(1), token, slot, reach))
    };
    let first = kit.hold(0, 1, ONE_OF_TWO);
    kit.hold(0, 2, ONE_OF_TWO);
    kit.acquire(0, 3, ONE_OF_TWO);
    assert_eq!(force(&mut kit, 9, None), Forced::NotHeld);
    assert_eq!(force(&mut kit, 1, None), Forced::Several);
    assert_eq!(kit.holders(1).len(), 2);
    assert_eq!(force(&mut kit, 1, Some(0)), Forced::Ended);
    assert!(kit.pushed.contains(&(1, Push::Lost { base: first.0 })));
    assert_eq!(kit.holders(1), [(2, vec![1]), (3, vec![0])]);
    assert_eq!(kit.end(2, &heard(1, &first)), Verdict::Lost);
}

#[test]
fn a_forced_release_names_a_permit_by_its_attempt() {
    let mut kit = Kit::<MAX_WORK>::default();
    let force = |kit: &mut Kit<MAX_WORK>, client| {
        kit.with(|record, reach| record.force_release_attempt(at(1), attempt(client), reach))
    };
    let first = kit.hold(0, 1, ONE_OF_TWO);
    kit.hold(0, 2, ONE_OF_TWO);
    kit.acquire(0, 3, ONE_OF_TWO);
    assert_eq!(force(&mut kit, 3), Forced::NotHeld, "a waiter holds nothing");
    assert_eq!(kit.holders(1).len(), 2);
    assert_eq!(force(&mut kit, 1), Forced::Ended);
    assert!(kit.pushed.contains(&(1, Push::Lost { base: first.0 })));
    assert_eq!(kit.holders(1), [(2, vec![1]), (3, vec![0])]);
    assert_eq!(force(&mut kit, 1), Forced::NotHeld);
    assert_eq!(kit.end(2, &heard(1, &first)), Verdict::Lost);
}

#[test]
fn a_step_looks_at_a_bounded_number_of_waiters_and_any_step_goes_on() {
    let mut kit = Kit::<2>::default();
    let four = Wants { slots: 4, ..ONE_OF_FOUR };
    kit.hold(0, 1, four);
    for client in 2..=6 {
        kit.acquire(0, client, ONE_OF_FOUR);
    }
    kit.release(1, 1);
    assert_eq!((kit.holders(1).len(), kit.waiters().len()), (2, 3));
    assert!(kit.record.needs_another_step(at(1)));
    kit.release(1, 99);
    assert_eq!((kit.holders(1).len(), kit.waiters().len()), (4, 1));
    assert!(!kit.record.needs_another_step(at(1)));
    // All four offers expire: one step reaps two of them, and says so.
    let no_wait = Wants { slots: 2, wait: false, ..ONE_OF_FOUR };
    assert_eq!(kit.acquire(9, 7, no_wait), Answer::Busy(Duration::ZERO));
    assert_eq!(kit.holders(9), [(6, vec![0])]);
    assert_eq!(kit.record.held(), 3, "two expired permits are left");
}

#[test]
fn a_waiter_behind_more_than_one_step_serves_asks_again_at_once() {
    let mut kit = Kit::<1>::default();
    kit.hold(0, 1, ONE_OF_TWO);
    for client in 2..=4 {
        kit.acquire(0, client, TWO_OF_TWO);
    }
    kit.deaf = vec![2, 3];
    let answer = kit.acquire(1, 4, TWO_OF_TWO);
    assert_eq!(answer, Answer::Queued { place: 1, remaining: Duration::from_secs(29) });
    assert_eq!(answer.ask_again(), Some(SLOW_POLL), "never less often than the slow poll");
    kit.deaf = vec![2, 3];
    kit.release(2, 1);
    let answer = kit.acquire(3, 4, TWO_OF_TWO);
    assert_eq!(answer.ask_again(), None, "{answer:?}");
}

#[test]
fn ten_thousand_slots_are_held_and_come_back() {
    let mut kit = Kit::<MAX_WORK>::default();
    let wants = Wants { slots: 1, limit: MAX_LIMIT, wait: true, tokens: 1 };
    let demand = Demand::new(1, MAX_LIMIT).unwrap();
    let mut reach = |_: AttemptId, _: Push| true;
    for client in 0..u64::from(MAX_LIMIT) {
        let attempt = attempt(client);
        let request = AcquireRequest { attempt, demand, ttl: TTL, wait: true, tokens: 1, tag: () };
        let answer = kit.record.acquire(at(0), &request, &mut reach);
        assert!(matches!(answer, Answer::Granted(_)));
    }
    assert!(matches!(kit.acquire(0, 10_000, wants), Answer::Queued { .. }));
    for client in (0..u64::from(MAX_LIMIT)).rev() {
        kit.record.release(at(1), &unheard(client), &mut reach);
    }
    assert_eq!((kit.record.held(), kit.waiters().len()), (1, 0));
}

#[test]
fn a_record_survives_being_taken_apart() {
    let mut kit = two_offers();
    kit.acquire(1, 4, ONE_OF_TWO);
    kit.end(1, &ReleaseRequest { suspect: true, ..unheard(9) });
    let copy: Record = Parts::from(kit.record.clone()).into();
    assert_eq!(copy, kit.record);
    let mut parts = Parts::from(copy);
    parts.slots.push((u32::MAX, Mark::default()));
    parts.queue.push(parts.queue[0]);
    parts.permits[0].permit.slots.push(u32::MAX);
    let clean: Record = parts.into();
    assert_eq!(clean, kit.record, "what no record has is left out");
}
