//! Confirmations of leases that a store has only offered: what they send, and what lost messages
//! leave.

#![allow(clippy::unwrap_used)]

use leasehold_conformance::Fault;
use leasehold_core::{ErrorKind, Guard};

use crate::bench::{Bench, got, ms, others_run, secs, waits};

/// A lease of 30 s that another client has handed over just now, and the other client.
async fn handed_over(bench: &Bench) -> (Guard, leasehold_core::Client) {
    let other = bench.other_client();
    let held = other.lock("a").acquire().await.unwrap();
    let waiting = waits(&bench.client.lock("a").ttl(secs(30))).await;
    held.release().await.unwrap();
    (got(waiting).await, other)
}

#[tokio::test]
async fn an_offered_lease_gets_its_whole_ttl_at_once() {
    let bench = Bench::new();
    let (guard, _other) = handed_over(&bench).await;
    assert!(guard.remaining() <= secs(2), "{:?}", guard.remaining());
    assert_eq!(guard.ensure(secs(10)).unwrap_err().kind(), ErrorKind::Lost);
    let hand = bench.hand.clone();
    bench.faults.before_next_renewal_answer(move || hand.advance(ms(500)));
    guard.confirm().await.unwrap();
    // From when it was asked for, without the allowance for drift.
    assert_eq!(guard.remaining(), secs(30) - ms(500) - ms(302));
    guard.ensure(secs(29)).unwrap();
    // It is renewed as usual.
    bench.pass(secs(100)).await;
    assert!(guard.is_valid());
    guard.release().await.unwrap();
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn a_lease_that_needs_no_confirmation_sends_nothing() {
    let bench = Bench::new();
    let (guard, _other) = handed_over(&bench).await;
    guard.confirm().await.unwrap();
    let free = bench.client.lock("free").acquire().await.unwrap();
    let fixed = bench.client.lock("fixed").lease(secs(9)).acquire().await.unwrap();
    let calls = bench.faults.calls();
    for guard in [&guard, &free, &fixed] {
        let deadline = guard.deadline();
        guard.confirm().await.unwrap();
        assert_eq!(guard.deadline(), deadline);
    }
    assert_eq!(bench.faults.calls(), calls);
    drop((guard, free, fixed));
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn without_an_answer_the_lease_keeps_its_deadline_and_is_confirmed_later() {
    for fault in [Fault::LoseReply, Fault::LoseRequest, Fault::Fail(ErrorKind::Unavailable)] {
        let bench = Bench::new();
        let (guard, _other) = handed_over(&bench).await;
        let deadline = guard.deadline();
        bench.faults.on_renew(&[fault]);
        let error = guard.confirm().await.unwrap_err();
        assert_eq!((error.kind(), error.operation()), (ErrorKind::Unavailable, "confirm"));
        assert!(error.to_string().contains("keeps its earlier deadline"), "{error}");
        assert_eq!(guard.deadline(), deadline, "{fault:?}");
        bench.pass(secs(1)).await;
        assert!(guard.remaining() > secs(20), "{fault:?}: {:?}", guard.remaining());
        guard.release().await.unwrap();
        bench.nothing_is_left().await;
    }
}

#[tokio::test]
async fn an_abandoned_confirmation_changes_nothing() {
    let bench = Bench::new();
    let (guard, _other) = handed_over(&bench).await;
    let deadline = guard.deadline();
    bench.faults.on_renew(&[Fault::Hang]);
    tokio::select! {
        biased;
        _ = guard.confirm() => panic!("it hangs"),
        () = others_run() => {}
    }
    assert_eq!(guard.deadline(), deadline);
    bench.pass(secs(1)).await;
    assert!(guard.remaining() > secs(20), "{:?}", guard.remaining());
    guard.release().await.unwrap();
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn a_store_that_does_not_answer_is_waited_for_until_the_deadline() {
    let bench = Bench::new();
    let (guard, _other) = handed_over(&bench).await;
    bench.faults.on_renew(&[Fault::Hang; 64]);
    let guard = std::sync::Arc::new(guard);
    let confirming = tokio::spawn({
        let guard = guard.clone();
        async move { guard.confirm().await }
    });
    others_run().await;
    bench.pass(secs(3)).await;
    let error = confirming.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    assert!(!guard.is_valid());
}

#[tokio::test]
async fn a_lease_that_was_taken_away_is_lost() {
    let bench = Bench::new();
    let (guard, other) = handed_over(&bench).await;
    bench.faults.cut_pushes(true);
    other.lock("a").force_release(guard.token()).await.unwrap();
    let next = other.lock("a").acquire().await.unwrap();
    assert_eq!(guard.confirm().await.unwrap_err().kind(), ErrorKind::Lost);
    assert!(!guard.is_valid() && next.is_valid());
    assert_eq!(guard.confirm().await.unwrap_err().kind(), ErrorKind::Lost);
    next.release().await.unwrap();
}
