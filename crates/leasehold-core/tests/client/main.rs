//! The client on a manual clock: what it reports about validity, when it reports a loss, what it
//! sends.

mod also;
mod bench;
mod cached_reads;
mod caching;
mod confirm;
mod conversions;
mod election;
mod extend;
mod handoff_races;
mod latches;
mod local_handoff;
mod mode_metrics;
mod multi;
mod read_write;
mod read_write_stress;
mod semaphores;
mod silent_engine;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold_conformance::{Fault, Faults};
use leasehold_core::backend::Backend;
use leasehold_core::clock::ManualClock;
use leasehold_core::memory::MemoryStore;
use leasehold_core::{Client, ErrorKind, LossReason, OnLoss, Owner, telemetry};
use leasehold_core::{Name, State};
use metrics_util::CompositeKey;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};

use bench::{Bench, connect, ms, others_run, secs};

#[tokio::test]
async fn a_process_that_was_paused_is_not_valid_at_the_first_look() {
    let bench = Bench::new();
    let lock = bench.client.lock("orders/555").ttl(secs(30));
    let guard = lock.acquire().await.unwrap();
    assert!(guard.is_valid());
    bench.hand.advance(secs(35)); // No task runs: neither a renewal nor a timer.
    assert!(!guard.is_valid());
    assert_eq!(guard.remaining(), Duration::ZERO);
    assert_eq!(guard.ensure(Duration::ZERO).unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(guard.reenter().unwrap_err().kind(), ErrorKind::Lost);
    let next = bench.other_client().lock("orders/555").try_acquire().await.unwrap().unwrap();
    assert!(next.token() > guard.token());
    assert_eq!(guard.lost().await, LossReason::Expired);
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    assert!(next.is_valid(), "the late release affected the successor");
}

#[tokio::test]
async fn the_loss_is_told_before_the_deadline_and_the_work_is_cancelled() {
    let bench = Bench::new();
    let lock = bench.client.lock("work").ttl(secs(30));
    let told = Arc::new(AtomicBool::new(false));
    let running = tokio::spawn({
        let told = told.clone();
        async move {
            lock.run(|guard| async move {
                let fires = guard.cancellation_token();
                tokio::spawn(async move {
                    fires.cancelled().await;
                    told.store(guard.remaining() >= ms(2_500), Ordering::SeqCst);
                });
                std::future::pending::<()>().await;
            })
            .await
        }
    });
    others_run().await;
    bench.faults.cut_renewals(true);
    bench.pass(secs(26)).await;
    assert!(!running.is_finished(), "reported far too early");
    bench.pass(secs(1)).await;
    assert!(told.load(Ordering::SeqCst), "not reported with the margin left");
    assert_eq!(running.await.unwrap().unwrap_err().kind(), ErrorKind::Lost);
}

#[tokio::test]
async fn losses_are_told_without_the_renewal_task() {
    let bench = Bench::new();
    let guard = bench.client.lock("starved").ttl(secs(30)).acquire().await.unwrap();
    let lost = guard.lost();
    tokio::pin!(lost);
    bench.hand.advance(secs(27)); // The task has not run when the future is polled.
    tokio::select! {
        biased;
        reason = &mut lost => assert_eq!(reason, LossReason::Expired),
        () = others_run() => panic!("not reported at once"),
    }
}

#[tokio::test]
async fn a_guard_is_renewed_at_a_third_of_its_ttl_for_as_long_as_it_lives() {
    let bench = Bench::new();
    let guard = bench.client.lock("long").ttl(secs(30)).acquire().await.unwrap();
    let first = guard.deadline();
    bench.pass(ms(8_800)).await;
    assert_eq!(guard.deadline(), first, "renewed far too early");
    bench.pass(ms(1_300)).await;
    assert_ne!(guard.deadline(), first, "not renewed at a third");
    bench.pass(secs(600)).await;
    assert!(guard.is_valid());
    assert!(bench.other_client().lock("long").try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    let sent = bench.faults.calls();
    bench.pass(secs(60)).await;
    assert_eq!(bench.faults.calls(), sent, "renewed after its release");
}

#[tokio::test]
async fn renew_after_sets_when_the_guard_is_renewed() {
    let bench = Bench::new();
    let lock = bench.client.lock("long").ttl(secs(60)).renew_after(secs(50));
    let guard = lock.acquire().await.unwrap();
    let first = guard.deadline();
    bench.pass(ms(44_800)).await;
    assert_eq!(guard.deadline(), first, "renewed more than a tenth earlier");
    bench.pass(ms(5_300)).await;
    assert_ne!(guard.deadline(), first, "not renewed after 50 s of 60");
}

#[tokio::test]
async fn a_thousand_locks_are_renewed_in_a_few_batches() {
    let bench = Bench::new();
    let mut guards = Vec::new();
    for number in 0..1000 {
        guards.push(bench.client.lock(format!("lock {number}")).acquire().await.unwrap());
    }
    let sent = bench.faults.calls();
    bench.pass(secs(10)).await;
    let batches = bench.faults.calls() - sent;
    assert!((1..=16).contains(&batches), "{batches} calls for a thousand locks");
    bench.pass(secs(50)).await;
    assert!(guards.iter().all(|guard| guard.is_valid()));
}

#[tokio::test]
async fn the_wall_clock_may_step_back_and_costs_at_worst_an_early_loss_ahead() {
    let bench = Bench::new();
    let guard = bench.client.lock("wall").ttl(secs(30)).acquire().await.unwrap();
    bench.hand.step_wall(-3600);
    others_run().await;
    assert!(guard.is_valid());
    bench.pass(secs(60)).await;
    assert!(guard.is_valid(), "renewals stopped");
    bench.hand.step_wall(7200);
    assert!(!guard.is_valid());
    assert_eq!(guard.lost().await, LossReason::Expired);
}

#[tokio::test]
async fn a_grant_that_comes_after_its_own_end_is_given_back_and_asked_for_anew() {
    let bench = Bench::new();
    let hand = bench.hand.clone();
    bench.faults.before_next_answer(move || hand.advance(secs(31)));
    let guard = bench.client.lock("late").ttl(secs(30)).acquire().await.unwrap();
    assert!(guard.is_valid());
    assert!(guard.remaining() > secs(29));
}

#[tokio::test]
async fn validity_counts_from_before_the_request() {
    let bench = Bench::new();
    let hand = bench.hand.clone();
    bench.faults.before_next_answer(move || hand.advance(secs(12)));
    let guard = bench.client.lock("slow").ttl(secs(30)).acquire().await.unwrap();
    assert!(guard.remaining() <= secs(18));
}

#[tokio::test]
async fn a_renewal_counts_from_before_its_request() {
    let bench = Bench::new();
    let guard = bench.client.lock("slow").ttl(secs(30)).acquire().await.unwrap();
    let (hand, faults) = (bench.hand.clone(), bench.faults.clone());
    bench.faults.before_next_renewal_answer(move || {
        hand.advance(secs(12));
        faults.cut_renewals(true); // No other renewal succeeds.
    });
    let before = guard.deadline();
    bench.pass(ms(10_100)).await;
    assert_ne!(guard.deadline(), before, "not renewed");
    assert!(guard.remaining() <= secs(18), "{:?}", guard.remaining());
}

#[tokio::test]
async fn the_time_of_waiting_is_not_held_against_a_maximum_hold() {
    let bench = Bench::new();
    let held = bench.other_client().lock("waited").ttl(secs(60)).acquire().await.unwrap();
    let lock = bench.client.lock("waited").max_hold(secs(5));
    let waiting = tokio::spawn(async move { lock.acquire().await });
    others_run().await;
    bench.pass(secs(6)).await;
    held.release().await.unwrap();
    let guard = waiting.await.unwrap().unwrap();
    bench.pass(secs(3)).await;
    assert!(guard.is_valid() && guard.remaining() <= secs(2), "{:?}", guard.remaining());
}

#[tokio::test]
async fn a_backend_that_hangs_holds_nobody_beyond_the_clients_patience() {
    let bench = Bench::new();
    bench.faults.on_acquire(&[Fault::Hang]);
    let lock = bench.client.lock("hangs");
    let asking = tokio::spawn(async move { lock.acquire().await });
    others_run().await;
    bench.pass(secs(11)).await;
    assert_eq!(asking.await.unwrap().unwrap_err().kind(), ErrorKind::Unavailable);
    let guard = bench.client.lock("b").acquire().await.unwrap();
    bench.faults.on_release(&[Fault::Hang]);
    let releasing = tokio::spawn(guard.release());
    others_run().await;
    bench.pass(secs(11)).await;
    assert_eq!(releasing.await.unwrap().unwrap_err().kind(), ErrorKind::Unavailable);
}

#[tokio::test]
async fn a_loss_is_told_even_if_the_release_after_it_hangs() {
    let bench = Bench::new();
    let lock = bench.client.lock("told").ttl(secs(30));
    let running = tokio::spawn(async move { lock.run(|_| std::future::pending::<()>()).await });
    others_run().await;
    bench.faults.cut_renewals(true);
    bench.faults.on_release(&[Fault::Hang; 8]);
    bench.pass(secs(28)).await;
    assert!(running.is_finished(), "still waiting for its release");
    assert_eq!(running.await.unwrap().unwrap_err().kind(), ErrorKind::Lost);
}

#[tokio::test]
async fn an_ending_is_not_repeated_for_longer_than_its_lease_can_last() {
    let bench = Bench::new();
    bench.faults.on_acquire(&[Fault::LoseReply; 200]);
    bench.faults.on_release(&[Fault::LoseRequest; 1000]);
    let lock = bench.client.lock("down").ttl(secs(1));
    let asking = tokio::spawn(async move { lock.try_acquire().await.map(drop) });
    bench.pass(secs(11)).await;
    assert_eq!(asking.await.unwrap().unwrap_err().kind(), ErrorKind::Unavailable);
    bench.pass(secs(4)).await;
    let calls = bench.faults.calls();
    bench.pass(secs(60)).await;
    assert_eq!(bench.faults.calls(), calls, "it still sends");
}

#[tokio::test]
async fn every_guard_of_a_lost_lock_hears_of_it() {
    let bench = Bench::new();
    let first = bench.client.lock("shared").ttl(secs(30)).acquire().await.unwrap();
    let second = first.reenter().unwrap();
    bench.hand.advance(secs(31));
    assert_eq!(first.release().await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(second.release().await.unwrap_err().kind(), ErrorKind::Lost);
}

#[tokio::test]
async fn a_wall_clock_that_jumps_is_told_of_to_those_who_only_listen() {
    let bench = Bench::new();
    let guard = bench.client.lock("listen").ttl(secs(3600)).acquire().await.unwrap();
    let told = guard.cancellation_token();
    others_run().await;
    bench.hand.step_wall(7200);
    bench.pass(secs(2)).await;
    assert!(told.is_cancelled(), "only at its next renewal");
}

#[test]
fn guards_dropped_just_before_their_runtime_ends_are_released() {
    let hand = ManualClock::new();
    let store = MemoryStore::with_clock(hand.clock());
    for flavor in 0..2 {
        let runtime = match flavor {
            0 => tokio::runtime::Builder::new_current_thread().enable_all().build(),
            _ => tokio::runtime::Builder::new_multi_thread().enable_all().build(),
        };
        let runtime = runtime.unwrap();
        let client = runtime.block_on(async {
            let faults = Faults::before(Arc::new(store.connect()));
            faults.on_release(&[Fault::Hang; 200]); // They are under way when it ends.
            let client = connect(&hand, Arc::new(faults));
            for number in 0..400 {
                let name = format!("{flavor}/{number}");
                drop(client.lock(name).ttl(secs(3600)).acquire().await.unwrap());
            }
            client
        });
        drop(runtime);
        let look = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let held = look.block_on(async {
            let listed = client.list("", 1000).await.unwrap();
            listed.iter().filter(|status| status.state == State::Held).count()
        });
        assert_eq!(held, 0, "flavour {flavor}");
    }
}

#[tokio::test]
async fn a_maximum_hold_ends_a_renewed_lease_exactly_then() {
    let bench = Bench::new();
    let lock = bench.client.lock("bounded").ttl(secs(30)).max_hold(secs(60));
    let guard = lock.acquire().await.unwrap();
    bench.pass(ms(59_900)).await;
    assert_eq!(guard.lost().await, LossReason::MaxHold);
    let other = bench.other_client();
    assert!(other.lock("bounded").try_acquire().await.unwrap().is_none(), "ended early");
    std::mem::forget(guard);
    bench.pass(ms(300)).await;
    assert!(other.lock("bounded").try_acquire().await.unwrap().is_some(), "not released");
}

#[tokio::test]
async fn a_push_that_is_not_confirmed_in_time_is_not_relied_on() {
    let bench = Bench::new();
    let holder = bench.other_client();
    let held = holder.lock("offer").acquire().await.unwrap();
    let lock = bench.client.lock("offer").ttl(secs(30));
    let waiting = tokio::spawn(async move { lock.acquire().await });
    others_run().await;
    bench.faults.cut_renewals(true);
    held.release().await.unwrap();
    let guard = waiting.await.unwrap().unwrap();
    // Two seconds, less one per cent and two milliseconds for clock drift.
    assert!(guard.remaining() <= ms(1_978), "more than was offered: {:?}", guard.remaining());
    bench.pass(secs(2)).await;
    assert!(!guard.is_valid());
    assert_eq!(guard.lost().await, LossReason::Expired);
}

#[tokio::test]
async fn a_fixed_lease_that_was_waited_for_lasts_its_whole_time_and_no_longer() {
    let bench = Bench::new();
    let held = bench.other_client().lock("fixed").acquire().await.unwrap();
    let lock = bench.client.lock("fixed").lease(secs(20));
    let waiting = tokio::spawn(async move { lock.acquire().await });
    others_run().await;
    held.release().await.unwrap();
    let guard = waiting.await.unwrap().unwrap();
    bench.pass(secs(10)).await;
    assert!(guard.is_valid(), "an offer that was not confirmed");
    bench.pass(secs(10)).await;
    assert_eq!(guard.lost().await, LossReason::MaxHold);
}

#[tokio::test]
async fn a_client_that_is_dropped_leaves_no_task_and_no_connection() {
    let hand = ManualClock::new();
    let store = MemoryStore::with_clock(hand.clock());
    let backend: Arc<dyn Backend> = Arc::new(store.connect());
    let watched = Arc::downgrade(&backend);
    let client = connect(&hand, backend);
    let guard = client.lock("a").acquire().await.unwrap();
    drop(client);
    others_run().await;
    assert!(watched.upgrade().is_some(), "a guard needs its client");
    drop(guard);
    others_run().await;
    assert!(watched.upgrade().is_none(), "the background task has not ended");
}

/// Metrics by name, and by scope or mode.
fn measured(snapshotter: &Snapshotter) -> HashMap<(String, Option<String>), DebugValue> {
    let one = |(key, _, _, value): (CompositeKey, _, _, _)| {
        let key = key.key();
        let scope = key.labels().find(|label| ["scope", "mode"].contains(&label.key()));
        ((key.name().to_owned(), scope.map(|label| label.value().to_owned())), value)
    };
    snapshotter.snapshot().into_vec().into_iter().map(one).collect()
}

#[test]
fn hand_offs_and_waiters_are_counted_where_they_are() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    // Changes since the last look.
    let counted = || {
        let seen = measured(&snapshotter);
        let counter =
            |scope: &str| match seen[&(telemetry::HANDOFFS.to_owned(), Some(scope.to_owned()))] {
                DebugValue::Counter(count) => count,
                ref other => panic!("{other:?}"),
            };
        let waiting = match seen[&(telemetry::WAITING.to_owned(), Some("exclusive".to_owned()))] {
            DebugValue::Gauge(waiting) => waiting.into_inner(),
            ref other => panic!("{other:?}"),
        };
        (counter("local"), counter("remote"), waiting)
    };
    metrics::with_local_recorder(&recorder, || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let bench = Bench::new();
            let other =
                metrics::with_local_recorder(&metrics::NoopRecorder, || bench.other_client());
            let outside = other.lock("m").acquire().await.unwrap();
            let wanting = |number: u64| {
                let lock = bench.client.lock("m");
                tokio::spawn(async move { lock.acquire_within(secs(number)).await })
            };
            let (first, second, third) = (wanting(60), wanting(60), wanting(60));
            let impatient = wanting(1);
            others_run().await;
            assert_eq!(counted(), (0, 0, 4.0));
            bench.pass(secs(2)).await;
            assert_eq!(impatient.await.unwrap().unwrap_err().kind(), ErrorKind::Timeout);
            assert_eq!(counted(), (0, 0, -1.0));
            outside.release().await.unwrap();
            let first = first.await.unwrap().unwrap();
            assert_eq!(counted(), (0, 1, -1.0));
            first.release().await.unwrap();
            let second = second.await.unwrap().unwrap();
            assert_eq!(
                counted(),
                (0, 1, -1.0),
                "the first holder reserved no tokens for a local hand-off"
            );
            second.release().await.unwrap();
            let third = third.await.unwrap().unwrap();
            assert_eq!(counted(), (1, 0, -1.0));
            third.release().await.unwrap();
            bench.client.lock("m").acquire().await.unwrap().release().await.unwrap();
            assert_eq!(counted(), (0, 0, 0.0), "no task waited for that lock");
        });
    });
}

#[test]
fn the_metrics_are_those_that_are_documented() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let bench = Bench::new();
            let guard = bench.client.lock("m").ttl(secs(30)).acquire().await.unwrap();
            bench.pass(secs(11)).await;
            assert!(bench.client.lock("m").try_acquire().await.unwrap().is_none());
            assert!(bench.client.lock("m").acquire_within(Duration::ZERO).await.is_err());
            bench.client.settle().await;
            guard.release().await.unwrap();
            let guard = bench.client.lock("m").ttl(secs(30)).acquire().await.unwrap();
            bench.faults.cut_renewals(true);
            bench.pass(secs(31)).await;
            drop(guard);
        });
    });
    let mut seen = HashMap::new();
    for (key, _, _, value) in snapshotter.snapshot().into_vec() {
        let has = |name: &str| key.key().labels().any(|label| label.key() == name);
        assert!(has("engine"), "{key:?}");
        assert_eq!(has("mode"), telemetry::BY_MODE.contains(&key.key().name()), "{key:?}");
        let name = key.key().name().to_owned();
        match (seen.get_mut(&name), value) {
            (Some(DebugValue::Counter(sum)), DebugValue::Counter(count)) => *sum += count,
            (Some(_), _) => {}
            (None, value) => drop(seen.insert(name, value)),
        }
    }
    for (name, ..) in telemetry::METRICS {
        assert!(seen.contains_key(*name), "{name} is documented but not reported");
    }
    assert_eq!(seen.len(), telemetry::METRICS.len(), "undocumented: {seen:?}");
    let counter = |name| match seen.get(name) {
        Some(DebugValue::Counter(count)) => *count,
        other => panic!("{name}: {other:?}"),
    };
    assert_eq!(counter(telemetry::ACQUIRED), 2);
    assert_eq!(counter(telemetry::RELEASED), 1);
    assert_eq!(counter(telemetry::LOST), 1);
    assert_eq!(counter(telemetry::TIMED_OUT), 1);
    assert_eq!(counter(telemetry::CONTENDED), 2);
    assert!(counter(telemetry::RENEWED) >= 1 && counter(telemetry::RENEWAL_FAILED) >= 1);
}

/// Set in the process that must abort.
const ABORT: &str = "LEASEHOLD_TEST_ABORT";

#[test]
fn a_loss_aborts_the_process_when_it_is_told_to() {
    use std::os::unix::process::ExitStatusExt;
    if let Some(several) = std::env::var_os(ABORT) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let bench = Bench::new();
            let lock = bench.client.lock("a").on_loss(OnLoss::Abort);
            let all = bench.client.lock_all(["a", "b"]).on_loss(OnLoss::Abort);
            let _guards = match several == "yes" {
                true => (None, Some(all.acquire().await.unwrap())),
                false => (Some(lock.acquire().await.unwrap()), None),
            };
            bench.faults.cut_renewals(true);
            bench.pass(secs(30)).await;
        });
        return;
    }
    for several in ["no", "yes"] {
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_loss_aborts_the_process_when_it_is_told_to"])
            .env(ABORT, several)
            .output()
            .unwrap();
        assert_eq!(child.status.signal(), Some(6), "several: {several}, {child:?}");
    }
}

#[test]
fn a_client_outside_a_runtime_is_an_error_and_not_a_panic() {
    let backend: Arc<dyn Backend> = Arc::new(MemoryStore::new().connect());
    let error = Client::new(backend).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("runtime"), "{error}");
}

#[tokio::test]
async fn a_wait_that_times_out_names_the_holder() {
    let bench = Bench::new();
    let held = bench.other_client().lock("a").acquire().await.unwrap();
    bench.pass(secs(12)).await;
    let lock = bench.client.lock("a");
    let waiting = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire_within(secs(5)).await }
    });
    bench.pass(ms(5_100)).await;
    let error = waiting.await.unwrap().unwrap_err();
    let holder = lock.status().await.unwrap().holder.unwrap();
    let who = format!("held by {}/{} for 17s", holder.host, holder.pid);
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert_eq!(error.message(), format!("timed out after 5s waiting for the lock ({who})"));
    assert_eq!(error.name().map(Name::as_str), Some("a"));
    let error = lock.acquire_within(Duration::ZERO).await.unwrap_err();
    assert_eq!(error.message(), format!("the lock is taken ({who})"));
    drop(held);
}

#[tokio::test]
async fn an_owner_whose_other_task_acquires_is_told_so_and_who_holds() {
    let bench = Bench::new();
    let held = bench.other_client().lock("a").acquire().await.unwrap();
    let (lock, owner) = (bench.client.lock("a"), Owner::new());
    let first = {
        let (lock, owner) = (lock.clone(), owner.clone());
        tokio::spawn(async move { lock.acquire_as(&owner).await })
    };
    others_run().await;
    let second = lock.clone().wait(secs(5));
    let second = tokio::spawn(async move { second.acquire_as(&owner).await });
    bench.pass(ms(5_100)).await;
    let error = second.await.unwrap().unwrap_err();
    let holder = lock.status().await.unwrap().holder.unwrap();
    let who = format!("held by {}/{} for 5s", holder.host, holder.pid);
    assert_eq!(error.kind(), ErrorKind::Timeout);
    let what =
        "timed out after 5s waiting for another task of this owner that is acquiring the lock";
    assert_eq!(error.message(), format!("{what} ({who})"));
    first.abort();
    drop(held);
}
