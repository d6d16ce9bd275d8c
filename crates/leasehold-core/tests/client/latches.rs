//! Latches: what a waiter does while the store is away, and what is counted.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use leasehold_conformance::Fault;
use leasehold_core::{ErrorKind, State, telemetry};
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};

use crate::bench::{Bench, others_run, secs};

#[tokio::test]
async fn all_waiters_wake_without_a_poll_where_the_engine_pushes() {
    let bench = Bench::new();
    let latch = bench.client.latch("import", 1);
    let waits = |latch: &leasehold_core::Latch| {
        let latch = latch.clone();
        tokio::spawn(async move { latch.wait().await })
    };
    let theirs = bench.other_client().latch("import", 1);
    let waiters = [waits(&latch), waits(&latch), waits(&theirs), waits(&theirs)];
    others_run().await;
    assert!(waiters.iter().all(|waiter| !waiter.is_finished()));
    theirs.count_down("a").await.unwrap();
    others_run().await; // The clock does not advance.
    for waiter in waiters {
        assert!(waiter.is_finished(), "it was not woken");
        waiter.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_count_without_an_answer_may_be_repeated_and_counts_once() {
    let bench = Bench::new();
    let latch = bench.client.latch("import", 3);
    let latch = latch.clone().of_generation(latch.state().await.unwrap().generation);
    for (fault, party, missing) in [(Fault::LoseReply, "a", 2), (Fault::LoseRequest, "b", 1)] {
        bench.faults.on_swap(&[fault]);
        let error = latch.count_down(party).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert_eq!(latch.count_down(party).await.unwrap(), missing);
    }
}

#[tokio::test]
async fn a_latch_is_shown_as_a_latch() {
    let bench = Bench::new();
    let latch = bench.client.latch("import", 2);
    latch.count_down("a").await.unwrap();
    let status = bench.client.lock("import").status().await.unwrap();
    let shown = status.latch.unwrap();
    assert_eq!((status.state, shown.parties, shown.missing), (State::Latch, 2, 1));
    assert_eq!(shown.counted, ["a"]);
    assert_eq!(status.remaining, Some(secs(24 * 3600)));
    assert!(status.note.unwrap().contains("1 of 2 parties are missing"));
    let listed = bench.client.list("imp", 10).await.unwrap();
    assert!(listed.iter().any(|status| status.state == State::Latch), "{listed:?}");
    bench.hand.advance(secs(24 * 3600));
    let status = bench.client.lock("import").status().await.unwrap();
    assert_eq!((status.state, status.latch), (State::Free, None), "it has expired");
}

/// Returns parties counted, waits now (the change since the last look), and waits that have ended.
fn measured(snapshotter: &Snapshotter) -> (u64, f64, usize) {
    let mut seen = (0, 0.0, 0);
    for (key, _, _, value) in snapshotter.snapshot().into_vec() {
        match (key.key().name(), value) {
            (telemetry::LATCH_COUNTED, DebugValue::Counter(count)) => seen.0 = count,
            (telemetry::LATCH_WAITING, DebugValue::Gauge(waiting)) => seen.1 = waiting.into_inner(),
            (telemetry::LATCH_WAIT, DebugValue::Histogram(waits)) => seen.2 = waits.len(),
            _ => {}
        }
    }
    seen
}

#[test]
fn counts_and_waits_are_measured_also_those_that_are_dropped() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let bench = Bench::new();
            let latch = bench.client.latch("import", 2);
            let dropped = tokio::spawn({
                let latch = latch.clone();
                async move { latch.wait().await }
            });
            let waits = tokio::spawn({
                let latch = latch.clone();
                async move { latch.wait().await }
            });
            others_run().await;
            assert_eq!(measured(&snapshotter), (0, 2.0, 0));
            dropped.abort();
            others_run().await;
            assert_eq!(measured(&snapshotter), (0, -1.0, 0));
            for party in ["a", "a", "b", "c"] {
                latch.count_down(party).await.unwrap();
            }
            waits.await.unwrap().unwrap();
            assert_eq!(measured(&snapshotter), (2, -1.0, 1), "a counts once, c not at all");
            latch.wait_within(Duration::ZERO).await.unwrap();
            assert_eq!(measured(&snapshotter), (0, 0.0, 1), "it did not wait");
        });
    });
}
