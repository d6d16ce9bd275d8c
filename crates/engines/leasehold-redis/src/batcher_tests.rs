//! Tests of how requests are batched.

use leasehold_core::backend::ReleaseRequest;
use leasehold_core::clock::ManualClock;
use leasehold_core::{AttemptId, ClientId, Name};

use super::*;
use crate::request::Operation;
use crate::sample_requests::request;

fn queued(number: u32, limit: Duration) -> (Queued, oneshot::Receiver<Result<Reply>>) {
    let release = ReleaseRequest::new(
        Name::new("a").unwrap(),
        AttemptId::new(ClientId::from_bits(1), number, 0),
    );
    let request = Request { what: Operation::Release(release, None), limit };
    let (asker, answered) = oneshot::channel();
    (Queued { request, asker, until: None }, answered)
}

fn asked(number: u32) -> (Queued, oneshot::Receiver<Result<Reply>>) {
    let request =
        Request { what: Operation::Acquire(request(number)), limit: Duration::from_secs(5) };
    let (asker, answered) = oneshot::channel();
    (Queued { request, asker, until: None }, answered)
}

#[test]
fn a_lone_release_does_not_wait_for_a_stream_of_asks_to_end() {
    let now = ManualClock::new().clock().now();
    let mut pending = Pending::default();
    let (release, _answered) = queued(0, Duration::from_secs(5));
    let mut answers = Vec::new();
    pending.add(release, now);
    let mut kinds = Vec::new();
    for round in 0..3 {
        for number in 0..40 {
            let (request, answered) = asked(1 + round * 40 + number);
            pending.add(request, now);
            answers.push(answered);
        }
        // Other requests are always outstanding.
        while let Some((kind, batch)) = pending.take(EAGER, now) {
            kinds.push((kind, batch.len()));
        }
    }
    let asks = (Kind::Acquire, 40);
    assert_eq!(kinds, [asks, asks, (Kind::End, 1), asks]);
    let (release, _answered) = queued(0, Duration::from_secs(5));
    pending.add(release, now);
    assert!(pending.take(EAGER, now).is_none(), "no other kind went first: it waits for more");
}

#[test]
fn what_nobody_waits_for_any_more_or_too_late_is_not_sent() {
    let hand = ManualClock::new();
    let now = hand.clock().now();
    let mut pending = Pending::default();
    let second = Duration::from_secs(1);
    let asked: Vec<_> = (0..3).map(|number| queued(number, second * (number + 1))).collect();
    let mut answers = Vec::new();
    for (queued, answered) in asked {
        pending.add(queued, now);
        answers.push(answered);
    }
    drop(answers.remove(2));
    hand.advance(second);
    assert!(pending.take(4, now).is_none(), "fewer than asked for");
    let (kind, batch) = pending.take(1, hand.clock().now()).unwrap();
    assert_eq!((kind, batch.len()), (Kind::End, 1));
    let Operation::Release(release, None) = &batch[0].request.what else { panic!("{batch:?}") };
    assert_eq!(release.attempt, AttemptId::new(ClientId::from_bits(1), 1, 0));
    let late = answers[0].try_recv().unwrap().unwrap_err();
    assert_eq!(late.kind(), ErrorKind::Unavailable);
    assert!(pending.is_empty() && answers[1].try_recv().is_err());
}
