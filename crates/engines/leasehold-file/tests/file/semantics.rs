//! What the trait promises about one attempt: repeats, late messages, dropped futures, health.

use leasehold_core::backend::{Answer, Backend, Renewed, Verdict};
use leasehold_core::{ErrorKind, State};

use crate::kit::{Kit, SOON, attempt, descriptors, inline, name, release, request, until};

#[tokio::test]
async fn asking_again_gives_the_same_lease_and_releasing_again_the_same_answer() {
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::open(dir.path());
    let attempt = attempt();
    let first = kit.ask("a", attempt, false).await.unwrap();
    assert_eq!(kit.ask("a", attempt, false).await.unwrap(), first);
    let Answer::Granted(grant) = first else { panic!("{first:?}") };
    let token = grant.tokens.base();
    assert_eq!(kit.renew("a", attempt, token).await, Renewed::Renewed);
    for _ in 0..2 {
        assert_eq!(kit.release("a", attempt, token).await, Verdict::Released);
    }
    assert_eq!(kit.renew("a", attempt, token).await, Renewed::Lost);
    assert_eq!(kit.ask("a", attempt, false).await.unwrap(), Answer::Ended);
    assert_eq!(kit.release("a", crate::kit::attempt(), token).await, Verdict::Unknown);
    let status = kit.status("a").await;
    assert_eq!((status.state, status.token), (State::Free, Some(token)));
    assert_eq!(status.holder.unwrap().attempt, attempt);
}

#[tokio::test]
async fn an_acquire_that_arrives_after_its_own_end_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::open(dir.path());
    let attempt = attempt();
    assert_eq!(kit.end_attempt("a", attempt).await, Verdict::Gone);
    assert_eq!(kit.ask("a", attempt, true).await.unwrap(), Answer::Ended);
    assert!(!kit.is_held("a").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_acquire_that_is_ended_leaves_nothing_held_and_nothing_open() {
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::open(dir.path());
    for round in 0..50 {
        let attempt = attempt();
        let mut acquire = kit.backend.acquire(request("a", attempt, true));
        // Polled once: the work has been handed to another thread, or is done.
        let _ = tokio::time::timeout(std::time::Duration::ZERO, &mut acquire).await;
        drop(acquire);
        if round < 25 {
            kit.end_attempt("a", attempt).await;
            assert!(!kit.is_held("a").await);
        } else {
            kit.backend.abandon(&crate::kit::release("a", attempt, None));
            let next = kit.lock("a").await;
            kit.release("a", next.0, next.1).await;
        }
    }
    until("all descriptors are closed", SOON, async || {
        (descriptors(dir.path()) == 0).then_some(())
    })
    .await;
    assert!(!kit.is_held("a").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_waiting_attempts_leave_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::open(dir.path());
    let (holder, token) = kit.lock("a").await;
    let waiting: Vec<_> = (0..100).map(|_| attempt()).collect();
    for attempt in &waiting {
        let answer = kit.ask("a", *attempt, true).await.unwrap();
        assert!(matches!(answer, Answer::Busy { .. } | Answer::Queued { .. }), "{answer:?}");
    }
    for (at, attempt) in waiting.iter().enumerate() {
        if at % 2 == 0 {
            assert_eq!(kit.end_attempt("a", *attempt).await, Verdict::Gone);
        } else {
            kit.backend.abandon(&crate::kit::release("a", *attempt, None));
        }
    }
    kit.release("a", holder, token).await;
    assert_eq!(descriptors(dir.path()), 0);
    assert_eq!(crate::kit::walk(dir.path()), ["format", "locks/a.json", "locks/a.lock"]);
    assert!(!dir.path().join("locks/a.wait").exists());
}

#[tokio::test]
async fn a_removed_lock_file_is_a_loss_and_never_two_healthy_holders() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (Kit::open(dir.path()), Kit::open(dir.path()));
    let (first, base) = one.lock("a").await;
    let file = dir.path().join("locks/a.lock");
    let aside = dir.path().join("aside");
    std::fs::rename(&file, &aside).unwrap();
    let (second, next) = two.lock("a").await;
    assert!(next > base);
    assert_eq!(one.renew("a", first, base).await, Renewed::Lost);
    assert_eq!(two.renew("a", second, next).await, Renewed::Renewed);
    std::fs::rename(&aside, &file).unwrap();
    assert_eq!(one.renew("a", first, base).await, Renewed::Lost, "a loss is never taken back");
    assert_eq!(two.renew("a", second, next).await, Renewed::Lost);
    assert_eq!(one.release("a", first, base).await, Verdict::Lost);
    assert_eq!(two.release("a", second, next).await, Verdict::Lost);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_notices_at_once_that_the_lock_file_was_removed() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (Kit::open(dir.path()), Kit::open(dir.path()));
    let (first, base) = one.lock("a").await;
    let second = attempt();
    two.ask("a", second, true).await.unwrap();
    std::fs::remove_file(dir.path().join("locks/a.lock")).unwrap();
    until("the push", SOON, async || (two.heard() > 0).then_some(())).await;
    let next = two.lock_as("a", second).await;
    assert!(next > base);
    assert_eq!(one.release("a", first, base).await, Verdict::Lost);
    assert_eq!(two.release("a", second, next).await, Verdict::Released);
}

#[tokio::test]
async fn a_removed_directory_is_a_loss_and_is_made_anew_with_larger_tokens() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let kit = Kit::open(&store);
    let (first, base) = kit.lock("a").await;
    std::fs::remove_dir_all(&store).unwrap();
    assert_eq!(kit.renew("a", first, base).await, Renewed::Lost);
    assert!(!kit.is_held("a").await);
    let (second, next) = kit.lock("a").await;
    assert!(next > base);
    assert_eq!(kit.release("a", first, base).await, Verdict::Lost);
    assert_eq!(kit.release("a", second, next).await, Verdict::Released);
}

#[tokio::test]
async fn what_the_engine_has_not_is_refused_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::open(dir.path());
    let (holder, token) = kit.lock("a").await;
    let keep = release("a", holder, Some(token)).with_keep(SOON);
    let then = release("a", holder, Some(token)).with_then(request("a", attempt(), true));
    let errors = [
        kit.backend.release(keep).await.unwrap_err(),
        kit.backend.release(then).await.unwrap_err(),
        kit.backend.force_release(&name("a"), token).await.unwrap_err(),
    ];
    assert!(errors.iter().all(|error| error.kind() == ErrorKind::Unsupported), "{errors:?}");
    assert!(errors[2].to_string().contains(&std::process::id().to_string()), "{}", errors[2]);
    assert!(kit.is_held("a").await);
    assert_eq!(kit.renew("a", holder, token).await, Renewed::Renewed);
}

#[test]
fn everything_works_without_a_runtime() {
    let dir = tempfile::tempdir().unwrap();
    let clock = leasehold_core::clock::Clock::system();
    let backend = leasehold_file::FileBackend::open(dir.path(), clock).unwrap();
    let attempt = attempt();
    let answer = inline(backend.acquire(request("a", attempt, true))).unwrap();
    assert!(matches!(answer, Answer::Granted(_)));
    let busy = inline(backend.acquire(request("a", crate::kit::attempt(), true))).unwrap();
    assert!(!matches!(busy, Answer::Granted(_)));
    backend.abandon(&crate::kit::release("a", attempt, None));
    assert_eq!(inline(backend.status(&name("a"))).unwrap().state, State::Free);
}
