//! Tests of the hand-off record, step by step.

use super::*;

const TTL: Duration = Duration::from_secs(30);

fn at(seconds: u64) -> Now {
    Now { steady_ns: seconds * 1_000_000_000, wall_ns: 0 }
}

fn attempt(client: u64, sequence: u32) -> AttemptId {
    AttemptId::new(crate::ClientId::from_bits(client), sequence, 0)
}

fn request(client: u64) -> AcquireRequest {
    AcquireRequest {
        attempt: attempt(client, 0),
        ttl: TTL,
        wait: true,
        fair: true,
        tokens: 4,
        tag: (),
    }
}

fn release(request: &AcquireRequest, base: Option<u64>, last: Option<u64>) -> ReleaseRequest {
    let token = |value: Option<u64>| value.and_then(Token::new);
    let (base, last) = (token(base), token(last));
    ReleaseRequest { attempt: request.attempt, base, last, suspect: false, keep: None }
}

/// A record and all its pushes; clients in `deaf` cannot be reached.
#[derive(Default)]
struct Kit {
    record: Record,
    pushed: Vec<(AttemptId, Push)>,
    deaf: Vec<u64>,
}

impl Kit {
    fn with<A>(&mut self, step: impl FnOnce(&mut Record, Reach<'_>) -> A) -> A {
        let Self { record, pushed, deaf } = self;
        let deaf: Vec<_> = deaf.iter().map(|bits| crate::ClientId::from_bits(*bits)).collect();
        step(record, &mut |attempt, push| {
            let there = !deaf.contains(&attempt.client());
            if there {
                pushed.push((attempt, push));
            }
            there
        })
    }

    fn acquire(&mut self, seconds: u64, request: &AcquireRequest) -> Answer {
        self.with(|record, reach| record.acquire(at(seconds), request, reach))
    }

    fn release(&mut self, seconds: u64, release: &ReleaseRequest) -> Verdict {
        self.with(|record, reach| record.release(at(seconds), release, reach))
    }

    fn owner(&self) -> Option<AttemptId> {
        self.record.owner().map(|(attempt, ())| attempt)
    }
}

fn base(answer: Answer) -> u64 {
    match answer {
        Answer::Granted { tokens, .. } => tokens.base().get(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_offer_that_came_too_late_is_granted_again_with_new_tokens() {
    let mut kit = Kit::default();
    let first = base(kit.acquire(0, &request(1)));
    kit.acquire(0, &request(2));
    kit.acquire(0, &request(3));
    kit.release(1, &release(&request(1), Some(first), None));
    let again = kit.acquire(4, &request(2));
    assert_eq!(base(again), 9, "the offer had 5..=8");
    // Its owner knows only the offer and ends it: the lease is handed off and counts as lost.
    assert_eq!(kit.release(5, &release(&request(2), Some(5), Some(6))), Verdict::Lost);
    assert_eq!(kit.owner(), Some(request(3).attempt));
    assert_eq!(kit.record.base(), Token::new(13), "no token of 9..=12 was given back");
}

#[test]
fn a_waiter_that_cannot_be_reached_is_passed_over_at_once() {
    let mut kit = Kit { deaf: vec![2, 4], ..Kit::default() };
    let first = base(kit.acquire(0, &request(1)));
    for client in 2..=5 {
        kit.acquire(0, &request(client));
    }
    kit.release(1, &release(&request(1), Some(first), None));
    assert_eq!(kit.owner(), Some(request(3).attempt));
    let queue: Vec<_> = kit.record.waiters().map(|waiter| waiter.attempt).collect();
    assert_eq!(queue, [request(5).attempt]);
    assert!(matches!(kit.pushed.last(), Some((_, Push::Next { .. }))), "{:?}", kit.pushed);
}

#[test]
fn whoever_asks_keeps_its_place_though_no_push_would_reach_it() {
    let mut kit = Kit { deaf: vec![3], ..Kit::default() };
    kit.acquire(0, &request(1));
    kit.acquire(0, &request(2));
    // The lease has expired; the call of 3 grants it to 2, and 3 is now the first waiter.
    let answer = kit.acquire(40, &request(3));
    assert!(matches!(answer, Answer::Queued { place: 0, .. }), "{answer:?}");
    assert_eq!(kit.owner(), Some(request(2).attempt));
    assert_eq!(kit.record.waiters().len(), 1);
}

#[test]
fn the_holder_is_told_of_waiters_in_every_answer_and_each_time_the_first_one_asks() {
    let mut kit = Kit::default();
    let first = base(kit.acquire(0, &request(1)));
    kit.acquire(1, &request(2));
    kit.acquire(1, &request(3));
    let wanted = |kit: &mut Kit| {
        let wanted = |(_, push): &(_, Push)| matches!(push, Push::Wanted { .. });
        let count = kit.pushed.iter().filter(|push| wanted(push)).count();
        kit.pushed.clear();
        count
    };
    assert_eq!(wanted(&mut kit), 1, "the holder knows it when the second waiter comes");
    kit.acquire(2, &request(3));
    assert_eq!(wanted(&mut kit), 0);
    kit.acquire(2, &request(2));
    assert_eq!(wanted(&mut kit), 1);
    let again = kit.acquire(3, &request(1));
    assert!(matches!(again, Answer::Granted { waiters: 2, .. }), "{again:?}");
    kit.release(4, &release(&request(1), Some(first), None));
    let confirmed = kit.acquire(5, &request(2));
    assert!(matches!(confirmed, Answer::Granted { waiters: 1, .. }), "{confirmed:?}");
    let expired = kit.acquire(40, &AcquireRequest { fair: false, ..request(4) });
    assert!(matches!(expired, Answer::Granted { waiters: 1, .. }), "{expired:?}");
}

#[test]
fn unused_tokens_are_given_back_with_the_lease_they_belong_to_only() {
    let mut kit = Kit::default();
    let first = base(kit.acquire(0, &request(1)));
    assert_eq!(
        kit.release(1, &release(&request(1), Some(first), Some(first + 1))),
        Verdict::Released
    );
    let second = base(kit.acquire(2, &request(2)));
    assert_eq!(second, first + 2);
    assert_eq!(kit.release(40, &release(&request(2), Some(second), Some(second))), Verdict::Lost);
    assert_eq!(base(kit.acquire(41, &request(3))), second + 4);
}

#[test]
fn a_release_asked_again_is_told_the_same() {
    let mut kit = Kit::default();
    let first = base(kit.acquire(0, &request(1)));
    let (in_time, late) =
        (release(&request(1), Some(first), None), release(&request(2), Some(first + 4), None));
    assert_eq!(kit.release(1, &in_time), Verdict::Released);
    assert_eq!(kit.release(2, &in_time), Verdict::Released);
    kit.acquire(3, &request(2));
    assert_eq!(kit.release(4, &in_time), Verdict::Released);
    kit.acquire(40, &request(3));
    assert_eq!(kit.release(41, &late), Verdict::Lost);
    assert_eq!(kit.release(41, &in_time), Verdict::Unknown, "a later one was lost meanwhile");
    assert_eq!(Kit::default().release(0, &in_time), Verdict::Lost, "the record was lost");
    assert_eq!(kit.release(42, &release(&request(1), None, None)), Verdict::Gone);
}

#[test]
fn a_kept_lock_stays_taken_without_its_holder() {
    let mut kit = Kit::default();
    let first = base(kit.acquire(0, &request(1)));
    kit.acquire(0, &request(2));
    let keep = ReleaseRequest {
        keep: Some(Duration::from_secs(5)),
        ..release(&request(1), Some(first), None)
    };
    assert_eq!(kit.release(1, &keep), Verdict::Released);
    let remaining = Duration::from_secs(5);
    let next = Push::Next { base: Token::new(first), remaining };
    assert_eq!(kit.pushed.last(), Some(&(request(2).attempt, next)));
    assert_eq!(
        kit.acquire(2, &request(1)),
        Answer::Ended,
        "a request that arrives too late revives nothing"
    );
    assert_eq!(kit.record.state(at(2)), State::Kept);
    assert_eq!(kit.release(3, &keep), Verdict::Released);
    assert!(matches!(kit.acquire(6, &request(2)), Answer::Granted { .. }));
    assert_eq!(kit.release(7, &keep), Verdict::Released);
}

#[test]
fn an_unfair_request_passes_the_queue_only_where_a_lease_ends_without_a_handoff() {
    let unfair = AcquireRequest { fair: false, ..request(9) };
    let prepared = || {
        let mut kit = Kit::default();
        let first = base(kit.acquire(0, &request(1)));
        kit.acquire(0, &request(2));
        (kit, release(&request(1), Some(first), None))
    };
    let (mut released, release) = prepared();
    released.release(1, &release);
    released.acquire(1, &unfair);
    assert_eq!(released.owner(), Some(request(2).attempt), "a release goes to the queue");

    let (mut kept, release) = prepared();
    kept.release(1, &ReleaseRequest { keep: Some(Duration::from_secs(5)), ..release });
    kept.acquire(5, &unfair);
    assert_eq!(kept.owner(), Some(request(1).attempt), "the minimum hold still lasts");
    kept.acquire(6, &unfair);
    let (mut expired, _) = prepared();
    expired.acquire(30, &unfair);
    // The offer that the release made has ended too.
    released.acquire(4, &unfair);
    for (kit, case) in [(kept, "minimum hold"), (expired, "lease"), (released, "offer")] {
        assert_eq!(kit.owner(), Some(unfair.attempt), "{case}");
    }
}

#[test]
fn rotation_hands_on_and_stands_in_line_again() {
    let mut kit = Kit::default();
    let first = base(kit.acquire(0, &request(1)));
    let next = AcquireRequest { attempt: attempt(1, 1), ..request(1) };
    let release = release(&request(1), Some(first), Some(first));
    let alone = kit.with(|record, reach| record.rotate(at(1), &release, &next, reach));
    assert_eq!((alone.0, base(alone.1)), (Verdict::Released, first + 1));
    let again = kit.with(|record, reach| record.rotate(at(1), &release, &next, reach));
    assert_eq!(again, alone, "asked again, it is the same");
    kit.acquire(2, &request(2));
    let last = AcquireRequest { attempt: attempt(1, 2), ..request(1) };
    let release = ReleaseRequest { attempt: next.attempt, base: Token::new(first + 1), ..release };
    let (verdict, answer) = kit.with(|record, reach| record.rotate(at(3), &release, &last, reach));
    assert_eq!(verdict, Verdict::Released);
    assert!(matches!(answer, Answer::Queued { place: 0, .. }), "{answer:?}");
    assert_eq!(kit.owner(), Some(request(2).attempt));
}

#[test]
fn a_forced_release_names_its_lease() {
    let mut kit = Kit::default();
    let (wrong, right) = (Token::new(99).unwrap(), Token::new(2).unwrap());
    let force = |kit: &mut Kit, seconds, token| {
        kit.with(|record, reach| record.force_release(at(seconds), token, reach))
    };
    assert_eq!(force(&mut kit, 0, right), Forced::NotHeld);
    let first = base(kit.acquire(0, &request(1)));
    kit.acquire(0, &request(2));
    assert_eq!(force(&mut kit, 1, wrong), Forced::Other(Token::new(first).unwrap()));
    assert_eq!(force(&mut kit, 1, right), Forced::Ended);
    assert_eq!(kit.owner(), Some(request(2).attempt));
    assert_eq!(kit.release(2, &release(&request(1), Some(first), None)), Verdict::Lost);
    let ended = force(&mut kit, 9, Token::new(5).unwrap());
    assert_eq!(ended, Forced::NotHeld, "its offer had ended already");
    assert_eq!(kit.release(9, &release(&request(2), Some(5), None)), Verdict::Lost);
}

#[test]
fn blocks_that_nobody_uses_never_carry_tokens_far_beyond_the_clock() {
    let mut kit = Kit::default();
    let lead = u64::from(TOKEN_LEAD);
    let mut clock_us = 1_000_000_000;
    for round in 0..2000 {
        // The holder releases; the next waiter ends before it receives its block.
        clock_us += 1;
        let now = Now { steady_ns: clock_us * 1000, wall_ns: clock_us * 1000 };
        let request =
            AcquireRequest { attempt: attempt(1, round), tokens: TOKEN_LEAD, ..request(1) };
        let answer = kit.with(|record, reach| record.acquire(now, &request, reach));
        let Answer::Granted { tokens, .. } = answer else { panic!("{answer:?}") };
        assert!(tokens.top().get() <= clock_us + lead, "round {round}: {tokens:?}");
        assert_eq!(round == 0, tokens.top().get() - tokens.base().get() + 1 == lead);
        let unheard = ReleaseRequest { base: None, last: None, ..release(&request, None, None) };
        assert_eq!(
            kit.with(|record, reach| record.release(now, &unheard, reach)),
            Verdict::Released
        );
    }
    // A while later, grants have whole blocks again.
    let now = Now { steady_ns: clock_us * 1000, wall_ns: (clock_us + 2 * lead) * 1000 };
    let request = AcquireRequest { attempt: attempt(1, 5000), tokens: TOKEN_LEAD, ..request(1) };
    let Answer::Granted { tokens, .. } =
        kit.with(|record, reach| record.acquire(now, &request, reach))
    else {
        panic!("not granted");
    };
    assert_eq!(tokens.top().get() - tokens.base().get() + 1, lead);
}

#[test]
fn tokens_end_before_doubles_lose_exactness() {
    let now = Now { steady_ns: 0, wall_ns: Token::MAX.get() * 1000 };
    let mut record: Record = Record::default();
    let mut deaf = |_: AttemptId, _: Push| false;
    assert_eq!(record.acquire(now, &request(1), &mut deaf), Answer::UsedUp);
    assert_eq!(record.state(now), State::Free);
    let one = AcquireRequest { tokens: 1, ..request(1) };
    assert!(matches!(record.acquire(now, &one, &mut deaf), Answer::Granted { .. }));
}

#[test]
fn one_step_removes_a_bounded_number_of_dead_waiters_and_any_step_goes_on() {
    let dead = DEAD as u64 * 3 + 1;
    let mut kit = Kit::default();
    let first = base(kit.acquire(0, &request(1)));
    for client in 0..dead {
        kit.acquire(0, &request(100 + client));
    }
    kit.deaf = (100..100 + dead).collect();
    let left = |kit: &Kit| kit.record.waiters().len();
    assert_eq!(kit.release(1, &release(&request(1), Some(first), None)), Verdict::Released);
    assert_eq!(left(&kit), 2 * DEAD + 1);
    assert!(kit.record.needs_another_step());
    assert_eq!(kit.record.state(at(1)), State::Free);
    // A try without waiting gets no holder, and continues the removal.
    let no_wait = AcquireRequest { wait: false, ..request(2) };
    let answer = kit.acquire(1, &no_wait);
    assert_eq!(answer, Answer::Busy(Duration::ZERO));
    assert_eq!(left(&kit), DEAD + 1);
    // A waiting attempt does not overtake the others, and must ask again at once.
    let answer = kit.acquire(1, &request(3));
    assert_eq!(answer.ask_again(), Some(Duration::ZERO), "{answer:?}");
    assert_eq!(left(&kit), 2);
    assert!(kit.record.needs_another_step());
    // The end of an unknown attempt continues the removal too.
    kit.release(1, &release(&request(4), None, None));
    assert_eq!(kit.owner(), Some(request(3).attempt));
    assert!(!kit.record.needs_another_step());
}

#[test]
fn an_exchange_removes_no_more_dead_waiters_than_one_step() {
    let mut kit = Kit::default();
    let first = base(kit.acquire(0, &request(1)));
    for client in 0..2 * DEAD as u64 {
        kit.acquire(0, &request(100 + client));
    }
    kit.deaf = (100..100 + 2 * DEAD as u64).collect();
    let next = AcquireRequest { attempt: attempt(1, 1), ..request(1) };
    let release = release(&request(1), Some(first), None);
    let (verdict, answer) = kit.with(|record, reach| record.rotate(at(1), &release, &next, reach));
    assert_eq!(verdict, Verdict::Released);
    assert_eq!(answer.ask_again(), Some(Duration::ZERO), "{answer:?}");
    assert_eq!(kit.record.waiters().len(), DEAD + 1);
}
