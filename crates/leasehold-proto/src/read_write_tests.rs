//! Tests of the read-write record, rule by rule.

use super::Mode::{Read, Write};
use super::*;
use crate::handoff::{
    AcquireRequest, Forced, OFFER, Push, Reach, ReleaseRequest, Renewed, Verdict,
};
use crate::{ClientId, TokenBlock};

pub(super) const TTL: Duration = Duration::from_secs(30);

pub(super) fn at(seconds: u64) -> Now {
    Now { steady_ns: seconds * 1_000_000_000, wall_ns: 0 }
}

pub(super) fn attempt(client: u64, sequence: u32) -> AttemptId {
    AttemptId::new(ClientId::from_bits(client), sequence, 0)
}

pub(super) fn request(attempt: AttemptId) -> AcquireRequest {
    AcquireRequest { attempt, ttl: TTL, wait: true, fair: true, tokens: 4, tag: () }
}

pub(super) fn end(attempt: AttemptId, base: Option<u64>) -> ReleaseRequest {
    let base = base.and_then(Token::new);
    ReleaseRequest { attempt, base, last: None, suspect: false, keep: None }
}

/// A record and all its pushes; clients in `deaf` cannot be reached. One step grants to two waiters.
struct Kit {
    record: Record<(), 2>,
    pushed: Vec<(AttemptId, Push)>,
    deaf: Vec<u64>,
}

/// Attempt 0 of a client.
fn one(client: u64) -> AttemptId {
    attempt(client, 0)
}

impl Kit {
    fn new() -> Self {
        let record = Record::default().with_waiter_lease(Duration::ZERO);
        Self { record, pushed: Vec::new(), deaf: Vec::new() }
    }

    fn with<A>(&mut self, step: impl FnOnce(&mut Record<(), 2>, Reach<'_>) -> A) -> A {
        let Self { record, pushed, deaf } = self;
        pushed.clear();
        step(record, &mut |attempt, push| {
            let there = deaf.iter().all(|bits| attempt.client() != ClientId::from_bits(*bits));
            if there {
                pushed.push((attempt, push));
            }
            there
        })
    }

    fn ask(&mut self, seconds: u64, mode: Mode, client: u64) -> Answer {
        let request = request(one(client));
        self.with(|record, reach| record.acquire(at(seconds), mode, &request, reach))
    }

    fn end(&mut self, seconds: u64, client: u64, base: u64) -> Verdict {
        self.release(seconds, end(one(client), Some(base)))
    }

    fn release(&mut self, seconds: u64, release: ReleaseRequest) -> Verdict {
        self.with(|record, reach| record.release(at(seconds), &release, reach))
    }

    fn renew(&mut self, seconds: u64, client: u64, base: u64) -> Renewed {
        let base = Token::new(base).unwrap();
        self.with(|record, reach| record.renew(at(seconds), one(client), base, TTL, reach))
    }

    fn downgrade(&mut self, seconds: u64, end: ReleaseRequest, next: AttemptId) -> Converted {
        let next = request(next);
        self.with(|record, reach| record.downgrade(at(seconds), &end, &next, reach))
    }

    fn upgrade(
        &mut self,
        seconds: u64,
        end: ReleaseRequest,
        to: AttemptId,
        again: bool,
    ) -> Converted {
        let next = request(to);
        self.with(|record, reach| record.upgrade(at(seconds), &end, &next, again, reach))
    }

    fn holders(&self, seconds: u64) -> Vec<AttemptId> {
        self.record.holders(at(seconds)).map(|member| member.attempt).collect()
    }

    fn notified(&self, wanted: fn(&Push) -> bool) -> Vec<AttemptId> {
        let pushed = self.pushed.iter().filter(|(_, push)| wanted(push));
        pushed.map(|(attempt, _)| *attempt).collect()
    }
}

fn is_wanted(push: &Push) -> bool {
    matches!(push, Push::Wanted { .. })
}

fn is_next(push: &Push) -> bool {
    matches!(push, Push::Next { .. })
}

fn granted(base: u64, waiters: usize) -> Answer {
    Answer::Granted { tokens: TokenBlock::single(Token::new(base).unwrap()), waiters }
}

/// Returns the first token of a grant.
fn base(answer: Answer) -> u64 {
    match answer {
        Answer::Granted { tokens, .. } => tokens.base().get(),
        other => panic!("{other:?}"),
    }
}

fn converted(base: u64, count: u32, waiters: usize) -> Converted {
    let tokens = TokenBlock::new(Token::new(base).unwrap(), count).unwrap();
    Converted::Granted { tokens, waiters }
}

#[test]
fn readers_of_a_phase_share_its_token_and_the_next_writer_has_a_higher_one() {
    let mut kit = Kit::new();
    assert_eq!(kit.ask(0, Read, 1), granted(1, 0));
    assert_eq!(kit.ask(1, Read, 2), granted(1, 0));
    assert_eq!(kit.record.phase(at(1)), Phase::Read);
    assert_eq!(kit.end(2, 1, 1), Verdict::Released);
    assert_eq!(kit.record.phase(at(2)), Phase::Read, "the other reader still reads");
    assert_eq!(kit.end(2, 2, 1), Verdict::Released);
    assert_eq!(base(kit.ask(3, Write, 3)), 2);
}

#[test]
fn no_reader_joins_once_a_writer_is_queued() {
    let mut kit = Kit::new();
    kit.ask(0, Read, 1);
    assert!(matches!(kit.ask(0, Write, 2), Answer::Queued { place: 0, .. }));
    assert!(matches!(kit.ask(0, Read, 3), Answer::Queued { place: 1, .. }));
    assert_eq!(kit.ask(0, Read, 1), granted(1, 1), "asked again, it learns of the writer");
    assert_eq!(kit.holders(0), [one(1)]);
    let unfair = AcquireRequest { fair: false, wait: false, ..request(one(4)) };
    let answer = kit.with(|record, reach| record.acquire(at(0), Read, &unfair, reach));
    assert_eq!(answer, Answer::Busy(TTL), "not even an unfair one");
}

#[test]
fn after_a_writer_the_queued_readers_enter_together_and_then_the_next_writer() {
    let mut kit = Kit::new();
    kit.ask(0, Write, 1);
    kit.ask(0, Write, 2);
    kit.ask(0, Read, 3);
    kit.ask(0, Read, 4);
    kit.end(1, 1, 1);
    assert_eq!(kit.holders(1), [one(3), one(4)]);
    assert_eq!(kit.notified(is_next), [one(2)]);
    kit.end(1, 3, 5);
    kit.ask(1, Read, 5);
    assert_eq!(kit.holders(1), [one(4)], "a reader that came later waits for the writer");
    kit.end(1, 4, 5);
    assert_eq!(kit.holders(1), [one(2)]);
}

#[test]
fn a_renewal_prolongs_the_lease_of_one_reader_only() {
    let mut kit = Kit::new();
    kit.ask(0, Read, 1);
    kit.ask(0, Read, 2);
    assert_eq!(kit.renew(20, 1, 1), Renewed::Renewed { remaining: TTL, waiters: 0 });
    assert_eq!(kit.holders(31), [one(1)]);
    assert_eq!(kit.renew(31, 2, 1), Renewed::Lost);
    assert_eq!(kit.end(31, 2, 1), Verdict::Lost);
    assert_eq!(kit.end(32, 1, 1), Verdict::Released);
}

#[test]
fn a_dead_reader_keeps_a_writer_out_for_its_own_ttl_only() {
    let mut kit = Kit::new();
    kit.ask(0, Read, 1);
    kit.ask(10, Read, 2);
    kit.ask(11, Write, 3);
    kit.end(12, 2, 1);
    assert_eq!(kit.notified(is_next), [one(3)], "the phase now ends earlier");
    let Answer::Queued { remaining, .. } = kit.ask(12, Write, 3) else { panic!("not queued") };
    assert_eq!(remaining, Duration::from_secs(18));
    assert_eq!(base(kit.ask(30, Write, 3)), 2);
}

#[test]
fn the_first_waiter_notifies_the_members_each_time_it_asks_and_others_do_not() {
    let mut kit = Kit::new();
    kit.ask(0, Read, 1);
    for (client, asks, notified) in
        [(2, Write, true), (3, Write, false), (4, Read, false), (3, Write, false), (2, Write, true)]
    {
        kit.ask(1, asks, client);
        assert_eq!(kit.notified(is_wanted) == [one(1)], notified, "{client}");
    }
}

#[test]
fn a_notice_goes_to_the_members_with_the_longest_leases() {
    let mut kit = Kit::new();
    for client in 1..=5 {
        kit.ask(client, Read, client);
    }
    kit.ask(6, Write, 6);
    assert_eq!(kit.notified(is_wanted), [one(5), one(4), one(3)], "two notices, and one more");
}

#[test]
fn readers_join_again_when_the_only_queued_writer_leaves() {
    let mut kit = Kit::new();
    kit.ask(0, Read, 1);
    kit.ask(0, Write, 2);
    kit.ask(0, Read, 3);
    assert_eq!(kit.release(1, end(one(2), None)), Verdict::Gone);
    assert_eq!(kit.holders(1), [one(1), one(3)]);
    assert!(matches!(kit.pushed[..], [(_, Push::Granted { offer: OFFER, waiters: 0, .. })]));
}

#[test]
fn a_waiter_that_stops_asking_leaves_the_queue() {
    let mut kit = Kit::new();
    kit.record = Record::default();
    kit.ask(0, Read, 1);
    kit.ask(0, Write, 2);
    kit.ask(20, Read, 3);
    kit.renew(25, 1, 1);
    kit.renew(45, 1, 1);
    assert_eq!(kit.record.waiting(Write), 1, "45 s after it has asked it still waits");
    kit.renew(46, 1, 1);
    assert_eq!(kit.record.waiting(Write), 0);
    assert_eq!(kit.holders(46), [one(1), one(3)], "the reader behind it has entered");
}

#[test]
fn readers_beyond_the_limit_of_a_step_form_the_next_phase() {
    let mut kit = Kit::new();
    kit.ask(0, Write, 1);
    for client in 3..=6 {
        kit.ask(0, Read, client);
    }
    kit.ask(0, Write, 2);
    kit.end(1, 1, 1);
    assert_eq!(kit.holders(1), [one(3), one(4)]);
    let Answer::Queued { place, .. } = kit.ask(1, Read, 6) else { panic!("not queued") };
    assert_eq!(place, 1, "the writer precedes it");
    kit.end(1, 3, 5);
    kit.end(1, 4, 5);
    assert_eq!(kit.holders(1), [one(2)]);
    kit.end(1, 2, 6);
    assert_eq!(kit.holders(1), [one(5), one(6)]);
}

#[test]
fn readers_beyond_the_limit_of_a_step_enter_with_later_steps_if_no_writer_waits() {
    let mut kit = Kit::new();
    kit.ask(0, Write, 1);
    for client in 3..=6 {
        kit.ask(0, Read, client);
    }
    kit.end(1, 1, 1);
    assert_eq!(kit.holders(1).len(), 2);
    kit.renew(1, 3, 5);
    assert_eq!(kit.holders(1), [one(3), one(4), one(5), one(6)]);
}

#[test]
fn unreachable_waiters_leave_and_a_step_ends_after_its_limit() {
    let mut kit = Kit::new();
    kit.ask(0, Write, 1);
    for client in 2..=7 {
        kit.ask(0, if client % 2 == 0 { Read } else { Write }, client);
    }
    kit.deaf = (2..=6).collect();
    kit.end(1, 1, 1);
    assert!(kit.record.needs_another_step());
    assert_eq!(kit.record.phase(at(1)), Phase::Free);
    assert_eq!(kit.record.waiters().count(), 4);
    kit.release(1, end(one(99), None));
    assert!(kit.record.needs_another_step(), "the end of an unknown attempt continues");
    kit.release(1, end(one(99), None));
    assert_eq!(kit.holders(1), [one(7)]);
    assert!(!kit.record.needs_another_step());
}

#[test]
fn a_downgrade_admits_the_queued_readers_and_no_writer() {
    let mut kit = Kit::new();
    kit.ask(0, Write, 1);
    kit.ask(0, Write, 2);
    kit.ask(0, Read, 3);
    let down = ReleaseRequest { last: Token::new(2), ..end(one(1), Some(1)) };
    assert_eq!(kit.downgrade(1, down, attempt(1, 1)), converted(3, 1, 1), "3 and 4 are unused");
    assert_eq!(kit.holders(1), [attempt(1, 1), one(3)]);
    assert_eq!(kit.notified(is_next), [one(2)]);
    let again = kit.downgrade(2, down, attempt(1, 1));
    assert_eq!(again, converted(3, 1, 1), "asked again, it is the same");
    assert_eq!(kit.release(2, down), Verdict::Released);
    assert_eq!(kit.holders(2), [attempt(1, 1), one(3)], "a late release ends nothing");
}

#[test]
fn a_downgrade_of_a_lost_lease_queues_nothing() {
    let mut kit = Kit::new();
    kit.ask(0, Write, 1);
    let down = end(one(1), Some(1));
    assert_eq!(kit.downgrade(30, down, attempt(1, 1)), Converted::Lost);
    assert_eq!(kit.record.waiters().count(), 0);
    let mut kit = Kit::new();
    kit.ask(0, Write, 1);
    kit.release(1, ReleaseRequest { suspect: true, ..end(attempt(1, 1), None) });
    assert_eq!(kit.downgrade(1, down, attempt(1, 1)), Converted::Lost, "its new attempt has ended");
    assert_eq!(kit.holders(1), [one(1)]);
}

#[test]
fn only_a_reader_alone_is_upgraded() {
    let mut kit = Kit::new();
    kit.ask(0, Read, 1);
    kit.ask(0, Read, 2);
    let (up, next) = (end(one(1), Some(1)), attempt(1, 1));
    assert_eq!(kit.upgrade(1, up, next, false), Converted::Refused { waiters: 0 });
    kit.end(1, 2, 1);
    kit.ask(1, Write, 3);
    assert_eq!(kit.upgrade(1, up, next, false), Converted::Refused { waiters: 1 });
    kit.release(1, end(one(3), None));
    assert_eq!(kit.upgrade(1, up, next, false), converted(2, 4, 0));
    assert_eq!(kit.holders(1), [next]);
    assert_eq!(kit.upgrade(2, up, next, true), converted(2, 4, 0), "asked again, it is the same");
    assert_eq!(kit.upgrade(40, up, next, true), Converted::Lost);
}

#[test]
fn an_offer_to_another_reader_prevents_an_upgrade() {
    let mut kit = Kit::new();
    kit.ask(0, Write, 1);
    kit.ask(0, Read, 2);
    kit.ask(0, Read, 3);
    kit.end(1, 1, 1);
    kit.renew(1, 2, 5);
    let up = end(one(2), Some(5));
    assert_eq!(kit.upgrade(1, up, attempt(2, 1), false), Converted::Refused { waiters: 0 });
    assert!(matches!(kit.upgrade(3, up, attempt(2, 2), false), Converted::Granted { .. }));
    assert_eq!(kit.end(4, 3, 5), Verdict::Unknown, "the other reader was not released");
}

#[test]
fn an_upgrade_that_was_repeated_and_refused_never_succeeds_later() {
    let mut kit = Kit::new();
    kit.ask(0, Read, 1);
    kit.ask(0, Read, 2);
    let (up, next) = (end(one(1), Some(1)), attempt(1, 1));
    assert_eq!(kit.upgrade(1, up, next, true), Converted::Refused { waiters: 0 });
    kit.end(2, 2, 1);
    let late = kit.upgrade(3, up, next, false);
    assert_eq!(late, Converted::Refused { waiters: 0 }, "an earlier copy of the request");
    assert_eq!(kit.holders(3), [one(1)]);
}

#[test]
fn a_released_reader_never_receives_the_loss_of_another_as_its_own() {
    let mut kit = Kit::new();
    kit.ask(0, Read, 1);
    kit.ask(0, Read, 2);
    assert_eq!(kit.end(1, 1, 1), Verdict::Released);
    kit.ask(40, Write, 3);
    assert_eq!(kit.end(41, 1, 1), Verdict::Unknown);
    assert_eq!(kit.end(41, 2, 1), Verdict::Unknown);
    assert_eq!(kit.end(80, 3, 2), Verdict::Lost);
    assert_eq!(kit.end(81, 3, 2), Verdict::Lost, "a writer is alone in its phase");
}

#[test]
fn a_late_offer_is_granted_again_while_its_read_phase_lasts() {
    let mut kit = Kit::new();
    kit.ask(0, Write, 1);
    kit.ask(0, Read, 2);
    kit.ask(0, Read, 3);
    kit.end(1, 1, 1);
    kit.renew(2, 2, 5);
    assert_eq!(kit.holders(4), [one(2)]);
    assert_eq!(kit.ask(4, Read, 3), granted(5, 0));
    assert_eq!(kit.holders(4), [one(2), one(3)]);
}

#[test]
fn a_reader_that_lost_its_confirmed_lease_waits_behind_the_writer() {
    let mut kit = Kit::new();
    kit.ask(0, Read, 1);
    kit.ask(1, Read, 2);
    kit.renew(20, 2, 1);
    kit.ask(20, Write, 3);
    assert!(matches!(kit.ask(31, Read, 1), Answer::Queued { place: 1, .. }));
    assert_eq!(kit.holders(31), [one(2)]);
}

#[test]
fn a_forced_release_ends_all_readers_of_its_phase() {
    let mut kit = Kit::new();
    kit.ask(0, Read, 1);
    kit.ask(1, Read, 2);
    kit.ask(2, Read, 3);
    kit.ask(2, Write, 4);
    let force = |kit: &mut Kit, token| {
        let token = Token::new(token).unwrap();
        kit.with(|record, reach| record.force_release(at(3), token, reach))
    };
    assert_eq!(force(&mut kit, 9), Forced::Other(Token::new(1).unwrap()));
    assert_eq!(force(&mut kit, 1), Forced::Ended);
    let lost = |push: &Push| matches!(push, Push::Lost { .. });
    assert_eq!(kit.notified(lost), [one(3), one(2)], "two notices in one step");
    assert_eq!(kit.holders(3), [one(4)]);
    assert_eq!(force(&mut kit, 1), Forced::Other(Token::new(2).unwrap()));
}

#[test]
fn a_forced_release_of_one_reader_leaves_the_others() {
    let mut kit = Kit::new();
    let base = base(kit.ask(0, Read, 1));
    kit.ask(1, Read, 2);
    kit.ask(2, Write, 3);
    let force = |kit: &mut Kit, client| {
        kit.with(|record, reach| record.force_release_attempt(at(3), one(client), reach))
    };
    assert_eq!(force(&mut kit, 3), Forced::NotHeld, "a waiter holds nothing");
    assert_eq!(force(&mut kit, 9), Forced::NotHeld);
    assert_eq!(kit.holders(3), [one(1), one(2)]);
    assert_eq!(force(&mut kit, 2), Forced::Ended);
    assert_eq!(kit.notified(|push: &Push| matches!(push, Push::Lost { .. })), [one(2)]);
    assert_eq!(kit.holders(3), [one(1)]);
    assert_eq!(force(&mut kit, 2), Forced::NotHeld);
    assert_eq!(kit.renew(3, 2, base), Renewed::Lost);
    assert_ne!(kit.end(3, 2, base), Verdict::Released, "its lease had ended before");
    assert_eq!(kit.holders(3), [one(1)]);
    assert_eq!(force(&mut kit, 1), Forced::Ended);
    assert_eq!(kit.holders(3), [one(3)], "the writer waits although nobody reads");
    assert_eq!(force(&mut kit, 3), Forced::Ended, "a writer too");
    assert!(kit.holders(3).is_empty());
}

#[test]
fn an_attempt_has_one_mode() {
    let mut kit = Kit::new();
    kit.ask(0, Read, 1);
    assert_eq!(kit.ask(0, Write, 1), Answer::Ended);
    kit.ask(0, Write, 2);
    assert_eq!(kit.ask(0, Read, 2), Answer::Ended);
    assert_eq!(kit.holders(0), [one(1)]);
    assert_eq!(kit.record.waiting(Write), 1, "nothing has changed");
}

#[test]
fn a_lock_that_a_writer_keeps_stays_taken_for_readers_too() {
    let mut kit = Kit::new();
    kit.ask(0, Write, 1);
    kit.ask(0, Read, 2);
    let keep = Some(Duration::from_secs(5));
    assert_eq!(kit.release(1, ReleaseRequest { keep, ..end(one(1), Some(1)) }), Verdict::Released);
    assert_eq!(kit.notified(is_next), [one(2)]);
    assert_eq!((kit.record.phase(at(2)), kit.holders(2)), (Phase::Kept, vec![]));
    assert!(matches!(kit.ask(2, Read, 2), Answer::Queued { .. }));
    assert_eq!(kit.ask(6, Read, 2), granted(5, 0));
    assert_eq!(kit.end(7, 1, 1), Verdict::Released);
}

#[test]
fn readers_that_expired_long_ago_leave_a_phase_that_lasts() {
    let mut kit = Kit::new();
    kit.ask(0, Read, 1);
    for round in 1..100 {
        kit.ask(20 * round, Read, 100 + round);
        kit.renew(20 * round, 1, 1);
    }
    let members = Parts::from(kit.record).members.len();
    assert!(members < 8, "{members} members");
}

#[test]
fn waiters_are_listed_in_the_order_in_which_they_came() {
    let mut kit = Kit::new();
    kit.ask(0, Write, 1);
    for (client, mode) in [(5, Read), (2, Write), (4, Read), (3, Write)] {
        kit.ask(0, mode, client);
    }
    let listed: Vec<_> = kit.record.waiters().map(|waiter| waiter.attempt).collect();
    assert_eq!(listed, [one(5), one(2), one(4), one(3)]);
}
