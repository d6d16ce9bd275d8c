//! Several locks at once: all or none, one deadline, and a loss of one that is a loss of all.

#![allow(clippy::unwrap_used)]

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use leasehold_conformance::{Fault, says};
use leasehold_core::{ErrorKind, LossReason, OnLoss, State, Usage};

use crate::bench::{Bench, ms, others_run, secs};

/// Checks that no client holds one of these locks or waits for it.
async fn all_free(bench: &Bench, names: &[&str]) {
    bench.client.settle().await;
    assert_eq!(bench.client.usage(), Usage::default());
    for name in names {
        let status = bench.client.lock(name).status().await.unwrap();
        assert_eq!((status.state, status.waiters), (State::Free, Some(Vec::new())), "{name}");
    }
}

#[tokio::test]
async fn several_locks_exclude_single_locks_and_have_their_own_tokens() {
    let bench = Bench::new();
    let lock = bench.client.lock_all(["b", "a"]);
    let guard = lock.acquire().await.unwrap();
    let other = bench.other_client();
    for name in ["a", "b"] {
        assert!(other.lock(name).try_acquire().await.unwrap().is_none());
        assert!(bench.client.lock(name).try_acquire().await.unwrap().is_none());
        assert!(guard.token_of(name).is_some());
    }
    assert!(guard.names().map(AsRef::<str>::as_ref).eq(["a", "b"]));
    let tokens: Vec<_> = guard.tokens().map(|(_, token)| Some(token)).collect();
    assert_eq!(tokens, [guard.token_of("a"), guard.token_of("b")]);
    assert_eq!(guard.token_of("c"), None);
    assert_eq!(guard.remaining(), guard.guards()[0].remaining());
    guard.ensure(secs(29)).unwrap();
    says(&guard.ensure(secs(31)).unwrap_err(), ErrorKind::Lost, &["ensure a: valid for"]);
    guard.release().await.unwrap();
    all_free(&bench, &["a", "b"]).await;
}

#[tokio::test]
async fn a_timeout_names_the_lock_and_gives_the_others_back() {
    let bench = Bench::new();
    let other = bench.other_client();
    let taken = other.lock("b").acquire().await.unwrap();
    let lock = bench.client.lock_all(["c", "b", "a"]).min_hold(secs(60));
    let waiting = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire_within(secs(5)).await }
    });
    others_run().await;
    assert!(other.lock("a").try_acquire().await.unwrap().is_none(), "held while it waits");
    assert!(other.lock("c").try_acquire().await.unwrap().is_some(), "not asked for yet");
    bench.pass(ms(5_100)).await;
    let error = waiting.await.unwrap().unwrap_err();
    says(&error, ErrorKind::Timeout, &["acquire b: timed out after 5s", "held by "]);
    let none = lock.try_acquire().await.unwrap();
    assert!(none.is_none());
    says(&lock.acquire_within(ms(0)).await.unwrap_err(), ErrorKind::Timeout, &["acquire b: "]);
    // The minimum hold is for work that has begun.
    all_free(&bench, &["a", "c"]).await;
    taken.release().await.unwrap();
    lock.acquire().await.unwrap().release_early().await.unwrap();
    all_free(&bench, &["a", "b", "c"]).await;
}

#[tokio::test]
async fn one_deadline_is_for_all_locks() {
    let bench = Bench::new();
    let other = bench.other_client();
    let (first, second) =
        (other.lock("a").acquire().await.unwrap(), other.lock("b").acquire().await.unwrap());
    let lock = bench.client.lock_all(["a", "b"]).wait(secs(10));
    let waiting = tokio::spawn(async move { lock.acquire().await });
    bench.pass(secs(6)).await;
    first.release().await.unwrap();
    bench.pass(secs(3)).await;
    assert!(!waiting.is_finished());
    bench.pass(ms(1_100)).await;
    let error = waiting.await.unwrap().unwrap_err();
    says(&error, ErrorKind::Timeout, &["acquire b: timed out after 10s"]);
    second.release().await.unwrap();
    all_free(&bench, &["a", "b"]).await;
}

#[tokio::test]
async fn an_error_gives_everything_back() {
    let bench = Bench::new();
    let lock = bench.client.lock_all(["a", "b", "c"]);
    for error in [ErrorKind::Refused, ErrorKind::Foreign] {
        bench.faults.on_acquire(&[Fault::Duplicate, Fault::Duplicate, Fault::Refuse(error)]);
        says(&lock.acquire().await.unwrap_err(), error, &["acquire c: refused (injected)"]);
        all_free(&bench, &["a", "b", "c"]).await;
    }
    bench.client.close().await;
    says(&lock.acquire().await.unwrap_err(), ErrorKind::Closed, &["acquire a: "]);
}

#[tokio::test]
async fn names_and_options_that_are_not_allowed_send_nothing() {
    let bench = Bench::new();
    let none: [&str; 0] = [];
    for (lock, part) in [
        (bench.client.lock_all(none), "acquire: names: the list is empty"),
        (bench.client.lock_all(["a", "b", "a"]), "acquire: names: a is given twice"),
        (bench.client.lock_all(["a"; 65]), "acquire: names: more than 64 are given"),
        (bench.client.lock_all(["a", ""]), "acquire: names: number 2 is empty"),
        (bench.client.lock_all(["a", "b"]).ttl(ms(1)), "acquire a: ttl: 1ms"),
    ] {
        for error in [
            lock.acquire().await.unwrap_err(),
            lock.acquire_within(secs(1)).await.unwrap_err(),
            lock.try_acquire().await.unwrap_err(),
            lock.run(|_| async {}).await.unwrap_err(),
        ] {
            says(&error, ErrorKind::Invalid, &[part]);
        }
    }
    assert_eq!(bench.faults.calls(), 0);
}

#[tokio::test]
async fn losing_one_loses_all() {
    let bench = Bench::new();
    let guard = bench.client.lock_all(["a", "b", "c"]).acquire().await.unwrap();
    let (fires, late) = (guard.cancellation_token(), guard.reenter().unwrap());
    let token = guard.token_of("b").unwrap();
    assert!(!fires.is_cancelled() && guard.is_valid());
    bench.client.lock("b").force_release(token).await.unwrap();
    let lost = guard.lost().await;
    assert_eq!((lost.name.as_str(), lost.reason), ("b", LossReason::NotOwner));
    assert!(fires.is_cancelled() && !guard.is_valid() && !late.is_valid());
    assert!(late.cancellation_token().is_cancelled(), "a token that is made after the loss");
    assert_eq!(guard.remaining(), late.remaining());
    says(&guard.ensure(ms(0)).unwrap_err(), ErrorKind::Lost, &["ensure b: "]);
    says(&guard.reenter().unwrap_err(), ErrorKind::Lost, &["reenter b: "]);
    // The work may still rely on the others until it has ended.
    bench.pass(secs(60)).await;
    assert!(bench.other_client().lock("a").try_acquire().await.unwrap().is_none());
    drop(late);
    says(&guard.release().await.unwrap_err(), ErrorKind::Lost, &["release b: the lock was lost"]);
    all_free(&bench, &["a", "b", "c"]).await;
}

#[tokio::test]
async fn the_work_is_cancelled_before_the_first_lease_ends() {
    let bench = Bench::new();
    let stopped = Arc::new(AtomicBool::new(false));
    let lock = bench.client.lock_all(["a", "b"]).ttl(secs(30));
    let running = tokio::spawn({
        let (lock, stopped) = (lock.clone(), stopped.clone());
        async move {
            lock.run(|guard| async move {
                let fires = guard.cancellation_token();
                tokio::spawn(async move {
                    fires.cancelled().await;
                    stopped.store(guard.remaining() >= ms(2_500), Ordering::SeqCst);
                });
                pending::<()>().await;
            })
            .await
        }
    });
    others_run().await;
    bench.faults.cut_renewals(true);
    bench.pass(secs(28)).await;
    says(&running.await.unwrap().unwrap_err(), ErrorKind::Lost, &["run a: the lock was lost"]);
    assert!(stopped.load(Ordering::SeqCst), "the token fired in time");
    bench.faults.cut_renewals(false);
    // With `Notify` the work continues.
    let lock = lock.on_loss(OnLoss::Notify);
    let done = lock.run(|guard| async move {
        let token = guard.token_of("b").unwrap();
        bench.client.lock("b").force_release(token).await.unwrap();
        (guard.lost().await.name, bench)
    });
    let (name, bench) = done.await.unwrap();
    assert_eq!(name.as_str(), "b");
    all_free(&bench, &["a", "b"]).await;
}

#[tokio::test]
async fn a_maximum_hold_that_ends_while_others_are_waited_for_ends_the_acquire() {
    let bench = Bench::new();
    let taken = bench.other_client().lock("b").acquire().await.unwrap();
    // An abort is for work that must not continue, and there is none yet.
    let lock = bench.client.lock_all(["a", "b"]).max_hold(secs(10)).on_loss(OnLoss::Abort);
    let waiting = tokio::spawn(async move { lock.acquire().await });
    bench.pass(secs(11)).await;
    let error = waiting.await.unwrap().unwrap_err();
    says(&error, ErrorKind::Lost, &["acquire a: the lock was lost: ", "acquire again"]);
    taken.release().await.unwrap();
    all_free(&bench, &["a", "b"]).await;
}

#[tokio::test]
async fn a_lock_that_is_lost_while_others_are_waited_for_is_acquired_again() {
    let bench = Bench::new();
    let other = bench.other_client();
    let taken = other.lock("b").acquire().await.unwrap();
    let lock = bench.client.lock_all(["a", "b"]).ttl(secs(30)).wait(secs(600));
    let waiting = tokio::spawn(async move { lock.acquire().await });
    others_run().await;
    // An operator ends it, then no renewal is answered in time.
    let token = other.lock("a").status().await.unwrap().token.unwrap();
    other.lock("a").force_release(token).await.unwrap();
    bench.pass(secs(1)).await;
    let again = other.lock("a").status().await.unwrap().token.unwrap();
    assert!(again > token, "it is held again");
    bench.faults.cut_renewals(true);
    bench.pass(secs(31)).await;
    bench.faults.cut_renewals(false);
    bench.pass(secs(60)).await;
    assert!(!waiting.is_finished());
    taken.release().await.unwrap();
    others_run().await;
    let guard = waiting.await.unwrap().unwrap();
    assert!(guard.is_valid());
    guard.release().await.unwrap();
    all_free(&bench, &["a", "b"]).await;
}

#[tokio::test]
async fn a_lock_that_is_lost_again_and_again_ends_with_the_time() {
    let bench = Bench::new();
    let taken = bench.other_client().lock("b").acquire().await.unwrap();
    bench.faults.cut_renewals(true);
    let lock = bench.client.lock_all(["a", "b"]).ttl(secs(3)).wait(secs(60));
    let waiting = tokio::spawn(async move { lock.acquire().await });
    bench.pass(secs(61)).await;
    says(&waiting.await.unwrap().unwrap_err(), ErrorKind::Timeout, &["acquire b: timed out"]);
    bench.faults.cut_renewals(false);
    taken.release().await.unwrap();
    all_free(&bench, &["a", "b"]).await;
}

#[tokio::test]
async fn a_dropped_acquire_and_a_dropped_guard_leave_nothing() {
    let bench = Bench::new();
    let taken = bench.other_client().lock("b").acquire().await.unwrap();
    let lock = bench.client.lock_all(["a", "b"]).min_hold(secs(60));
    let waiting = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await }
    });
    others_run().await;
    assert_eq!(bench.client.usage().held, 1);
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    taken.release().await.unwrap();
    all_free(&bench, &["a", "b"]).await;

    let lock = bench.client.lock_all(["a", "b"]);
    drop(lock.acquire().await.unwrap());
    all_free(&bench, &["a", "b"]).await;
    let panicked = tokio::spawn(async move {
        lock.run::<_, _, ()>(|_| async { std::panic::resume_unwind(Box::new("injected")) }).await
    });
    assert!(panicked.await.unwrap_err().is_panic());
    all_free(&bench, &["a", "b"]).await;
}

#[tokio::test]
async fn every_lock_is_released_though_one_release_fails() {
    let bench = Bench::new();
    let lock = bench.client.lock_all(["a", "b", "c"]);
    let guard = lock.acquire().await.unwrap();
    // The requests leave in the reverse order of the names: `c` has no answer.
    bench.faults.on_release(&[Fault::Refuse(ErrorKind::Refused)]);
    let token = guard.token_of("a").unwrap();
    bench.faults.cut_pushes(true);
    bench.client.lock("a").force_release(token).await.unwrap();
    let error = guard.release().await.unwrap_err();
    assert_eq!((error.kind(), error.name().unwrap().as_str()), (ErrorKind::Lost, "a"), "{error}");
    assert_eq!(bench.client.lock("b").status().await.unwrap().state, State::Free);
}
