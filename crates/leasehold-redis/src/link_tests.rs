//! What goes into a batch.

use leasehold_core::backend::End;
use leasehold_core::clock::ManualClock;
use leasehold_core::{AttemptId, ClientId, Name};

use super::*;
use crate::request::What;

fn queued(number: u32, limit: Duration) -> (Queued, oneshot::Receiver<Result<Reply>>) {
    let end = End {
        name: Name::new("a").unwrap(),
        attempt: AttemptId::new(ClientId::from_bits(1), number, 0),
        base: None,
        last: None,
        suspect: false,
        keep: None,
        then: None,
    };
    let request = Request { what: What::End(end, None), limit };
    let (asker, answered) = oneshot::channel();
    (Queued { request, asker, until: None }, answered)
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
    let What::End(end, None) = &batch[0].request.what else { panic!("{batch:?}") };
    assert_eq!(end.attempt, AttemptId::new(ClientId::from_bits(1), 1, 0));
    let late = answers[0].try_recv().unwrap().unwrap_err();
    assert_eq!(late.kind(), ErrorKind::Unavailable);
    assert!(pending.is_empty() && answers[1].try_recv().is_err());
}
