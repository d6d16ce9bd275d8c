//! What becomes of a read-write lock whose lease is lost, or ends, while it is converted.

#![allow(clippy::unwrap_used)]

use leasehold_conformance::{Fault, says};
use leasehold_core::{ErrorKind, OnLoss, ReadGuard, RwLock, Upgraded, WriteGuard, telemetry};
use metrics_util::debugging::{DebugValue, DebuggingRecorder};

use crate::bench::{Bench, ms, others_run, secs};
use crate::measured;

/// A reader with a token that is cancelled when it loses the lock.
async fn reader(lock: &RwLock) -> (ReadGuard, tokio_util::sync::CancellationToken) {
    let read = lock.read().await.unwrap();
    let cancelled = read.cancellation_token();
    (read, cancelled)
}

async fn upgraded(read: ReadGuard) -> WriteGuard {
    match read.try_upgrade().await.unwrap() {
        Upgraded::Write(write) => write,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_cancellation_token_continues_with_the_new_lease() {
    let bench = Bench::new();
    let (lock, other) = (bench.client.rw_lock("a"), bench.other_client().rw_lock("a"));
    let (read, cancelled) = reader(&lock).await;
    let read = upgraded(read).await.downgrade().await.unwrap();
    bench.pass(secs(60)).await;
    assert!(read.is_valid() && !cancelled.is_cancelled());
    other.force_release(read.token()).await.unwrap();
    read.lost().await;
    assert!(
        cancelled.is_cancelled(),
        "the work of the first lease goes on after the loss of the last"
    );
    drop(read);
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn a_release_cancels_no_token_of_an_earlier_lease() {
    let bench = Bench::new();
    let lock = bench.client.rw_lock("a");
    let (read, cancelled) = reader(&lock).await;
    upgraded(read).await.release().await.unwrap();
    bench.nothing_is_left().await;
    assert!(!cancelled.is_cancelled());
}

#[tokio::test]
async fn a_conversion_that_fails_cancels_the_work() {
    let bench = Bench::new();
    let lock = bench.client.rw_lock("a").ttl(secs(3));
    let (read, cancelled) = reader(&lock).await;
    bench.faults.on_convert(&[Fault::Hang]);
    let converting = tokio::spawn(read.try_upgrade());
    bench.pass(secs(5)).await;
    says(&converting.await.unwrap().unwrap_err(), ErrorKind::Unavailable, &["upgrade a: "]);
    assert!(cancelled.is_cancelled());
    let (read, cancelled) = reader(&lock).await;
    bench.faults.on_convert(&[Fault::Refuse(ErrorKind::Refused)]);
    says(&read.try_upgrade().await.unwrap_err(), ErrorKind::Refused, &["upgrade a: "]);
    assert!(cancelled.is_cancelled());
    bench.nothing_is_left().await;
}

#[tokio::test]
async fn an_upgrade_that_is_refused_as_the_maximum_hold_ends_leaves_nothing() {
    let bench = Bench::new();
    let lock = bench.client.rw_lock("a").max_hold(secs(5)).ttl(secs(3));
    let beside = bench.other_client().rw_lock("a").read().await.unwrap();
    let (read, cancelled) = reader(&lock).await;
    bench.pass(ms(4_600)).await;
    bench.faults.on_convert(&[Fault::Late]);
    let converting = tokio::spawn(read.try_upgrade());
    bench.pass(ms(200)).await;
    bench.faults.arrive();
    others_run().await;
    assert!(cancelled.is_cancelled(), "its loss is reported before its end");
    let error = converting.await.unwrap().unwrap_err();
    says(&error, ErrorKind::Lost, &["upgrade a: ", "maximum hold"]);
    bench.client.settle().await;
    let write = upgraded(beside).await; // Alone at once, not after the ttl of the other one.
    write.release().await.unwrap();
    bench.nothing_is_left().await;
}

#[test]
fn a_loss_during_a_conversion_is_counted_once() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let bench = Bench::new();
            let lock = bench.client.rw_lock("a").ttl(secs(3));
            let write = lock.write().await.unwrap();
            bench.faults.on_convert(&[Fault::Hang]);
            let converting = tokio::spawn(write.downgrade());
            bench.pass(secs(5)).await;
            converting.await.unwrap().unwrap_err();
            bench.nothing_is_left().await;
        });
    });
    let seen = measured(&snapshotter);
    for (name, expected) in [(telemetry::LOST, 1), (telemetry::RELEASED, 0)] {
        let of_writers = (name.to_owned(), Some("exclusive".to_owned()));
        assert_eq!(seen[&of_writers], DebugValue::Counter(expected), "{name}");
    }
}

/// Set in the process that must not abort.
const CONVERTS: &str = "LEASEHOLD_TEST_CONVERTS";

#[test]
fn a_loss_during_a_conversion_is_an_error_and_aborts_nothing() {
    if std::env::var_os(CONVERTS).is_some() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let bench = Bench::new();
            let lock = bench.client.rw_lock("a").ttl(secs(3)).on_loss(OnLoss::Abort);
            let write = lock.write().await.unwrap();
            bench.faults.on_convert(&[Fault::Hang]);
            let converting = tokio::spawn(write.downgrade());
            bench.pass(secs(5)).await;
            let error = converting.await.unwrap().unwrap_err();
            says(&error, ErrorKind::Unavailable, &["downgrade a: "]);
        });
        return;
    }
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "conversions::a_loss_during_a_conversion_is_an_error_and_aborts_nothing"])
        .env(CONVERTS, "yes")
        .output()
        .unwrap();
    assert!(child.status.success(), "{child:?}");
    assert!(String::from_utf8_lossy(&child.stdout).contains("1 passed"), "{child:?}");
}
