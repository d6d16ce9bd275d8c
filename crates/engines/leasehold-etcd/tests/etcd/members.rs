//! Ensembles of three that lose their leader.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use leasehold_conformance::until;
use leasehold_core::Client;
use leasehold_test_servers::{EtcdServer, wait};

use crate::{Test, cluster, connect, secs, test, url_of};

pub(crate) const TESTS: &[Test] = &[
    test!(a_killed_leader_costs_time_and_nothing_else),
    test!(a_stopped_leader_costs_time_and_nothing_else),
];

/// Who leads now; one that is stopped is not asked.
pub(crate) fn leader(members: &[EtcdServer], stopped: Option<usize>) -> usize {
    let leads = |(at, member): (usize, &EtcdServer)| {
        let asked = member.pid() != 0 && Some(at) != stopped;
        (asked && member.leads().unwrap_or(false)).then_some(at)
    };
    let mut leader = None;
    wait("the cluster has a leader", || {
        leader = members.iter().enumerate().find_map(leads);
        leader.is_some()
    })
    .unwrap();
    leader.unwrap()
}

/// What clients see that lock and unlock one lock.
#[derive(Default)]
struct Seen {
    inside: AtomicBool,
    overlaps: AtomicU64,
    last_token: AtomicU64,
    disorder: AtomicU64,
    rounds: AtomicU64,
    lost: AtomicU64,
    stop: AtomicBool,
}

async fn lock_and_unlock(client: Client, seen: Arc<Seen>) {
    while !seen.stop.load(Ordering::SeqCst) {
        let Ok(guard) = client.lock("shared").acquire_within(secs(60)).await else { continue };
        let token = guard.token().get();
        seen.disorder.fetch_add(
            u64::from(seen.last_token.fetch_max(token, Ordering::SeqCst) >= token),
            Ordering::SeqCst,
        );
        let overlaps = seen.inside.swap(true, Ordering::SeqCst);
        tokio::task::yield_now().await;
        seen.inside.store(false, Ordering::SeqCst);
        if guard.is_valid() {
            seen.overlaps.fetch_add(overlaps.into(), Ordering::SeqCst);
        } else {
            seen.lost.fetch_add(1, Ordering::SeqCst);
        }
        seen.rounds.fetch_add(1, Ordering::SeqCst);
        // An end without an answer is seen through in the background.
        guard.release().await.ok();
    }
}

/// Fifty tasks on ten clients go through `fault`, and go on after it.
async fn under(fault: impl FnOnce(&mut [EtcdServer]) + Send + 'static) {
    let mut members = cluster();
    let url = url_of(&members);
    let seen = Arc::new(Seen::default());
    let held = connect(&url).await;
    let kept = held.lock("kept").ttl(secs(30)).acquire().await.unwrap();
    let mut tasks = Vec::new();
    for _ in 0..10 {
        let client = connect(&url).await;
        tasks.extend((0..5).map(|_| tokio::spawn(lock_and_unlock(client.clone(), seen.clone()))));
    }
    let rounds = || seen.rounds.load(Ordering::SeqCst);
    until("they take turns", || async { rounds() >= 50 }).await.unwrap();
    let clock = leasehold_core::clock::Clock::system();
    let before = clock.now();
    let members = tokio::task::spawn_blocking(move || {
        fault(&mut members);
        members
    });
    let members = members.await.unwrap();
    let at = rounds();
    // More than what was under way.
    wait_rounds(&seen, at + 50).await;
    let elapsed = (clock.now().steady_ns - before.steady_ns) / 1_000_000;
    seen.stop.store(true, Ordering::SeqCst);
    for task in tasks {
        task.await.unwrap();
    }
    let count = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
    println!("{} rounds, {elapsed} ms from the fault to 50 more", rounds());
    assert_eq!(count(&seen.overlaps), 0, "two held at once");
    assert_eq!(count(&seen.disorder), 0, "tokens went back");
    assert_eq!(count(&seen.lost), 0, "lost while it was held for a moment");
    assert!(kept.is_valid(), "lost with the leader");
    kept.release().await.unwrap();
    drop(members);
}

async fn wait_rounds(seen: &Seen, wanted: u64) {
    let clock = leasehold_core::clock::Clock::system();
    // The test as a whole is limited: an acquire may take longer than `until` waits.
    while seen.rounds.load(Ordering::SeqCst) < wanted {
        clock.sleep(std::time::Duration::from_millis(5)).await;
    }
}

async fn a_killed_leader_costs_time_and_nothing_else() {
    under(|members| {
        let at = leader(members, None);
        members[at].kill();
    })
    .await;
}

async fn a_stopped_leader_costs_time_and_nothing_else() {
    under(|members| {
        let at = leader(members, None);
        members[at].stop().unwrap();
        leader(members, Some(at));
    })
    .await;
}
