//! Extensions of fixed leases: what they promise, what is refused, and what lost messages leave.

use leasehold_conformance::Fault;
use leasehold_core::{ErrorKind, LossReason, State};

use crate::bench::{Bench, got, ms, others_run, secs, waits};

#[tokio::test]
async fn an_extended_lease_lasts_from_before_the_request() {
    let bench = Bench::new();
    let guard = bench.client.lock("a").lease(secs(10)).acquire().await.unwrap();
    let same = guard.reenter().unwrap();
    bench.pass(secs(5)).await;
    let hand = bench.hand.clone();
    bench.faults.before_next_renewal_answer(move || hand.advance(secs(2)));
    guard.extend(secs(30)).await.unwrap();
    assert_eq!(guard.remaining(), secs(28) - ms(302));
    assert_eq!(same.deadline(), guard.deadline());
    bench.pass(secs(24)).await;
    assert!(guard.is_valid());
    assert!(bench.other_client().lock("a").try_acquire().await.unwrap().is_none());
    bench.pass(secs(1)).await;
    assert_eq!(guard.lost().await, LossReason::MaxHold, "reported a tenth before its end");
    assert_eq!(guard.extend(secs(30)).await.unwrap_err().kind(), ErrorKind::Lost);
    bench.pass(secs(4)).await;
    let next = bench.other_client().lock("a").try_acquire().await.unwrap().unwrap();
    assert_eq!(guard.extend(secs(30)).await.unwrap_err().kind(), ErrorKind::Lost);
    drop((guard, same));
    bench.client.settle().await;
    assert!(next.is_valid());
    next.release().await.unwrap();
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn a_repeated_extension_lasts_from_the_last_request() {
    let bench = Bench::new();
    let guard = bench.client.lock("a").lease(secs(3)).acquire().await.unwrap();
    for _ in 0..20 {
        bench.pass(secs(2)).await;
        guard.extend(secs(3)).await.unwrap();
        guard.extend(secs(3)).await.unwrap();
        assert_eq!(guard.remaining(), secs(3) - ms(32));
    }
    guard.release().await.unwrap();
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn an_extension_without_an_answer_leaves_the_earlier_deadline() {
    for fault in [Fault::LoseReply, Fault::LoseRequest, Fault::Fail(ErrorKind::Unavailable)] {
        let bench = Bench::new();
        let guard = bench.client.lock("a").lease(secs(10)).acquire().await.unwrap();
        let deadline = guard.deadline();
        bench.faults.on_renew(&[fault]);
        let error = guard.extend(secs(60)).await.unwrap_err();
        assert_eq!((error.kind(), error.operation()), (ErrorKind::Unavailable, "extend"));
        assert!(error.to_string().contains("keeps its earlier deadline, in 9.898s"), "{error}");
        assert_eq!(guard.deadline(), deadline, "{fault:?}");
        bench.pass(secs(1)).await;
        guard.extend(secs(60)).await.unwrap();
        assert_eq!(guard.remaining(), secs(60) - ms(602));
        guard.release().await.unwrap();
        bench.nothing_is_left().await;
    }
}

#[tokio::test]
async fn an_extension_without_an_answer_ends_by_the_earlier_deadline_at_the_latest() {
    for (lease, ends, kind) in
        [(secs(30), secs(10), ErrorKind::Unavailable), (secs(5), secs(5), ErrorKind::Lost)]
    {
        let bench = Bench::new();
        let guard = bench.client.lock("a").lease(lease).acquire().await.unwrap();
        bench.faults.on_renew(&[Fault::Hang]);
        let guard = std::sync::Arc::new(guard);
        let extending = guard.clone();
        let extending = tokio::spawn(async move { extending.extend(secs(60)).await });
        others_run().await;
        bench.pass(ends - ms(200)).await;
        assert!(!extending.is_finished());
        bench.pass(ms(200)).await;
        assert!(extending.is_finished());
        assert_eq!(extending.await.unwrap().unwrap_err().kind(), kind);
        assert_eq!(guard.is_valid(), kind == ErrorKind::Unavailable);
        drop(guard);
        bench.nothing_is_left().await;
    }
}

#[tokio::test]
async fn a_release_is_repeated_for_as_long_as_an_unanswered_extension_may_last() {
    let bench = Bench::new();
    let guard = bench.client.lock("a").lease(secs(2)).acquire().await.unwrap();
    bench.faults.on_renew(&[Fault::LoseReply]);
    guard.extend(secs(60)).await.unwrap_err();
    bench.faults.on_release(&[Fault::LoseRequest; 20]);
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Unavailable);
    bench.pass(secs(50)).await;
    let status = bench.other_client().lock("a").status().await.unwrap();
    assert_eq!(status.state, State::Free, "the release was given up");
}

#[tokio::test]
async fn an_answer_after_the_end_of_the_lease_is_a_loss() {
    let bench = Bench::new();
    let guard = bench.client.lock("a").lease(secs(10)).acquire().await.unwrap();
    let hand = bench.hand.clone();
    bench.faults.before_next_renewal_answer(move || hand.advance(secs(11)));
    assert_eq!(guard.extend(secs(60)).await.unwrap_err().kind(), ErrorKind::Lost);
    assert!(!guard.is_valid());
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    // The store had extended it: the release ends it all the same.
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn a_dropped_extension_leaves_the_earlier_deadline() {
    let bench = Bench::new();
    let guard = bench.client.lock("a").lease(secs(10)).acquire().await.unwrap();
    let deadline = guard.deadline();
    bench.faults.on_renew(&[Fault::Late]);
    tokio::select! {
        biased;
        _ = guard.extend(secs(60)) => panic!("it is on its way"),
        () = others_run() => {}
    }
    assert_eq!(guard.deadline(), deadline);
    guard.release().await.unwrap();
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn a_lease_of_another_holder_is_never_extended() {
    let bench = Bench::new();
    let guard = bench.client.lock("a").lease(secs(10)).acquire().await.unwrap();
    let other = bench.other_client();
    other.lock("a").force_release(guard.token()).await.unwrap();
    let next = other.lock("a").lease(secs(20)).try_acquire().await.unwrap().unwrap();
    let deadline = next.deadline();
    // The client of the first guard has not heard of it yet.
    assert_eq!(guard.extend(secs(60)).await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(guard.lost().await, LossReason::NotOwner);
    let remaining = bench.client.lock("a").status().await.unwrap().remaining.unwrap();
    assert!(remaining <= secs(20) && next.deadline() == deadline, "{remaining:?}");
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    next.extend(secs(60)).await.unwrap();
    next.release().await.unwrap();
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn what_cannot_be_extended_is_refused_before_anything_is_sent() {
    let bench = Bench::new();
    let lock = bench.client.lock("a");
    let renewed = bench.client.lock("b").acquire().await.unwrap();
    let fixed = lock.lease(secs(10)).max_hold(secs(30)).acquire().await.unwrap();
    let calls = bench.faults.calls();
    for (guard, time, parts) in [
        (&renewed, secs(60), ["the client renews this lease", "acquire the lock with a `lease`"]),
        (
            &fixed,
            secs(9),
            ["9s is shorter than the rest of the lease (9.898s)", "release the lock"],
        ),
        (
            &fixed,
            secs(31),
            ["31s is longer than the rest of `max_hold` (30s)", "longer `max_hold`"],
        ),
        (&fixed, ms(9), ["duration: 9ms; 10ms to 24 h is allowed", "extend a"]),
        (&fixed, secs(86_401), ["duration: 86401s; 10ms to 24 h is allowed", "extend a"]),
    ] {
        let error = guard.extend(time).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let text = format!("{error}");
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    }
    assert_eq!(bench.faults.calls(), calls);
    assert_eq!(fixed.remaining(), secs(10) - ms(102));
}

#[tokio::test]
async fn a_lease_that_was_handed_over_is_extended_before_it_is_confirmed() {
    let bench = Bench::new();
    let other = bench.other_client();
    let held = other.lock("a").acquire().await.unwrap();
    let waiting = waits(&bench.client.lock("a").lease(secs(10))).await;
    held.release().await.unwrap();
    let guard = got(waiting).await;
    assert!(guard.remaining() <= secs(2), "an offer");
    guard.extend(secs(30)).await.unwrap();
    assert_eq!(guard.remaining(), secs(30) - ms(302));
    bench.pass(secs(20)).await;
    assert!(guard.is_valid());
    assert!(other.lock("a").try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    bench.nothing_is_left().await;
}
