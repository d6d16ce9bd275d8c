//! Readers, permits, multi-locks and leaders in metrics and spans.

#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use leasehold_core::telemetry::{
    ACQUIRED, CONTENDED, HELD, HOLD, LEADING, LOST, RELEASED, SLOTS, TIMED_OUT, WAIT, WAITING,
};
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::bench::{Bench, ms, others_run, secs};
use crate::measured;

/// The metrics so far, by name and mode; of a histogram, the number of its values.
#[derive(Default)]
struct Counts(HashMap<(String, Option<String>), f64>);

impl Counts {
    fn of(&self, name: &str, mode: Option<&str>) -> f64 {
        let key = (name.to_owned(), mode.map(str::to_owned));
        self.0.get(&key).copied().unwrap_or_default()
    }

    /// Returns the value for the modes `exclusive`, `shared` and `permit`.
    fn by_mode(&self, name: &str) -> [f64; 3] {
        ["exclusive", "shared", "permit"].map(|mode| self.of(name, Some(mode)))
    }
}

/// Runs a test; `looks` adds what was counted since the last look.
fn play<F: Future<Output = ()>>(test: impl FnOnce(Bench, Box<dyn FnMut() -> Counts>) -> F) {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let mut sums: HashMap<(String, Option<String>), f64> = HashMap::new();
    let looks = Box::new(move || {
        for (key, value) in measured(&snapshotter) {
            let change = match value {
                DebugValue::Counter(count) => count as f64,
                DebugValue::Gauge(change) => change.into_inner(),
                DebugValue::Histogram(values) => values.len() as f64,
            };
            *sums.entry(key).or_default() += change;
        }
        Counts(sums.clone())
    });
    metrics::with_local_recorder(&recorder, || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { test(Bench::new(), looks).await });
    });
}

#[test]
fn each_mode_and_the_slots_in_use_are_counted() {
    play(|bench, mut looks| async move {
        let lock = bench.client.rw_lock("a");
        let semaphore = bench.client.semaphore("gpu", 4);
        let (one, two) = (lock.read().await.unwrap(), lock.read().await.unwrap());
        let permit = semaphore.acquire_many(3).await.unwrap();
        let seen = looks();
        assert_eq!(seen.by_mode(ACQUIRED), [0.0, 2.0, 1.0], "two tasks read");
        assert_eq!(seen.by_mode(HELD), [0.0, 1.0, 1.0], "two tasks read under one lease");
        assert_eq!(seen.by_mode(WAIT), [0.0, 2.0, 1.0]);
        assert_eq!(seen.of(SLOTS, None), 3.0);

        assert!(semaphore.try_acquire_many(2).await.unwrap().is_none());
        assert!(semaphore.acquire_many_within(2, secs(0)).await.is_err());
        let writing = tokio::spawn({
            let lock = lock.clone();
            async move { lock.write().await }
        });
        others_run().await;
        let seen = looks();
        assert_eq!(seen.by_mode(CONTENDED), [1.0, 0.0, 2.0]);
        assert_eq!(seen.by_mode(TIMED_OUT), [0.0, 0.0, 1.0]);
        assert_eq!(seen.by_mode(WAITING), [1.0, 0.0, 0.0]);

        one.release().await.unwrap();
        two.release().await.unwrap();
        permit.release().await.unwrap();
        let write = writing.await.unwrap().unwrap();
        let seen = looks();
        assert_eq!(seen.by_mode(HELD), [1.0, 0.0, 0.0]);
        assert_eq!(seen.by_mode(WAITING), [0.0; 3]);
        assert_eq!(seen.by_mode(RELEASED), [0.0, 1.0, 1.0]);
        assert_eq!(seen.by_mode(HOLD), [0.0, 1.0, 1.0]);
        assert_eq!(seen.of(SLOTS, None), 0.0);

        let read = write.downgrade().await.unwrap();
        let seen = looks();
        assert_eq!(seen.by_mode(ACQUIRED), [1.0, 3.0, 1.0]);
        assert_eq!(
            (seen.by_mode(HELD), seen.of(RELEASED, Some("exclusive"))),
            ([0.0, 1.0, 0.0], 1.0)
        );
        read.release().await.unwrap();

        let permit = semaphore.clone().ttl(secs(30)).acquire_many(2).await.unwrap();
        bench.faults.cut_renewals(true);
        bench.pass(secs(31)).await;
        let seen = looks();
        assert_eq!(seen.by_mode(LOST), [0.0, 0.0, 1.0]);
        assert_eq!((seen.by_mode(HELD), seen.of(SLOTS, None)), ([0.0; 3], 0.0));
        drop(permit);
    });
}

#[test]
fn a_cached_read_lease_is_no_reader() {
    play(|bench, mut looks| async move {
        let lock = bench.client.rw_lock("a").cache(secs(5));
        lock.read().await.unwrap().release().await.unwrap();
        assert_eq!(looks().by_mode(HELD), [0.0; 3]);
        let read = lock.read().await.unwrap();
        assert_eq!(looks().by_mode(HELD), [0.0, 1.0, 0.0]);
        read.release().await.unwrap();
        bench.pass(secs(6)).await;
        assert_eq!(looks().by_mode(HELD), [0.0; 3], "its time is over");
    });
}

#[test]
fn the_locks_of_a_multi_lock_are_counted_one_by_one() {
    play(|bench, mut looks| async move {
        let both = bench.client.lock_all(["a", "b"]).acquire().await.unwrap();
        let seen = looks();
        assert_eq!(
            (seen.by_mode(ACQUIRED), seen.by_mode(HELD)),
            ([2.0, 0.0, 0.0], [2.0, 0.0, 0.0])
        );
        both.release().await.unwrap();
        assert_eq!(looks().by_mode(RELEASED), [2.0, 0.0, 0.0]);
    });
}

#[test]
fn a_leader_is_counted_until_it_resigns_or_its_loss_is_reported() {
    play(|bench, mut looks| async move {
        let election = bench.client.election("a").ttl(secs(30));
        let term = election.campaign().await.unwrap();
        let seen = looks();
        assert_eq!((seen.of(LEADING, None), seen.by_mode(HELD)), (1.0, [1.0, 0.0, 0.0]));
        term.resign().await.unwrap();
        others_run().await;
        assert_eq!(looks().of(LEADING, None), 0.0);

        let term = election.campaign().await.unwrap();
        assert_eq!(looks().of(LEADING, None), 1.0);
        bench.faults.cut_renewals(true);
        while term.leadership().is_leader() {
            bench.pass(ms(100)).await;
        }
        others_run().await;
        assert_eq!(looks().of(LEADING, None), 0.0, "a term that is lost is counted");
        drop(term);
        others_run().await;
        let seen = looks();
        assert_eq!((seen.of(LEADING, None), seen.of(LOST, Some("exclusive"))), (0.0, 1.0));
    });
}

/// The spans that were opened: names, and fields as text.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<String>>>);

/// The fields of a span as text.
struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.push_str(&format!(" {}={value:?}", field.name()));
    }
}

impl Subscriber for Spans {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut fields = Fields(span.metadata().name().to_owned());
        span.record(&mut fields);
        let mut spans = self.0.lock().unwrap();
        spans.push(fields.0);
        Id::from_u64(spans.len() as u64)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[test]
fn spans_say_what_is_acquired() {
    let seen = Spans::default().0;
    let work = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let client = Bench::new().client;
            drop(client.lock("a").acquire().await.unwrap());
            drop(client.rw_lock("b").read().await.unwrap());
            drop(client.semaphore("c", 4).acquire_many(3).await.unwrap());
            drop(client.lock_all(["d", "e"]).acquire().await.unwrap());
            drop(client.election("f").campaign().await.unwrap());
        });
    };
    // Another test that comes to a span first, while this subscriber begins, may disable it for all. The second
    // subscriber asks again for each span that the first round has registered.
    for _ in 0..2 {
        tracing::subscriber::with_default(Spans(seen.clone()), work);
    }
    let seen = seen.lock().unwrap();
    let acquire = |name: &str, mode: &str| {
        format!("leasehold.acquire name=\"{name}\" engine=\"memory\" mode=\"{mode}\"")
    };
    for span in [
        acquire("a", "exclusive"),
        acquire("b", "shared"),
        acquire("c", "permit") + " slots=3",
        "leasehold.acquire_all locks=2 engine=\"memory\"".to_owned(),
        acquire("d", "exclusive"),
        acquire("e", "exclusive"),
        "leasehold.campaign name=\"f\" engine=\"memory\"".to_owned(),
        acquire("f", "exclusive"),
    ] {
        assert!(seen.contains(&span), "{span}: {seen:?}");
    }
}
