//! Latches on files: other kinds under the name, the end by time, kills in the middle of a write, and pushes.

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold_core::backend::{Backend, ValueSwap};
use leasehold_core::clock::{Clock, ManualClock};
use leasehold_core::{Client, ErrorKind, State};
use leasehold_file::FileBackend;

use crate::helper::{Helper, client};
use crate::kit::{Kit, SOON, name, until};

const HOUR: Duration = Duration::from_secs(3600);

fn swap(seen: Option<&str>, next: &str) -> ValueSwap {
    ValueSwap::new(name("a"), seen.map(Into::into), next.into(), HOUR)
}

#[tokio::test]
async fn a_name_is_a_lock_a_semaphore_or_a_latch() {
    let dir = tempfile::tempdir().unwrap();
    let client = client(dir.path());
    let guard = client.lock("l").acquire().await.unwrap();
    client.lock("f").acquire().await.unwrap().release().await.unwrap();
    let permit = client.semaphore("s", 2).acquire().await.unwrap();
    client.latch("a", 2).count_down("one").await.unwrap();
    let read = |file: &str| std::fs::read(dir.path().join("locks").join(file)).unwrap();
    let files = ["l.json", "f.json", "s.json", "a.json"];
    let before = files.map(read);
    let invalid = |error: leasehold_core::Error, kind: &str| {
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.message().contains(kind), "{error}");
    };
    for name in ["l", "f", "s"] {
        let latch = client.latch(name, 2);
        invalid(latch.count_down("one").await.unwrap_err(), "a lock or a semaphore");
        invalid(latch.wait().await.unwrap_err(), "a lock or a semaphore");
    }
    let (lock, semaphore, both) = (client.lock("a"), client.semaphore("a", 2), client.rw_lock("a"));
    invalid(lock.try_acquire().await.unwrap_err(), "a latch");
    invalid(lock.acquire().await.unwrap_err(), "a latch");
    invalid(both.read().await.unwrap_err(), "a latch");
    invalid(both.try_write().await.unwrap_err(), "a latch");
    invalid(semaphore.try_acquire().await.unwrap_err(), "a latch");
    invalid(semaphore.acquire().await.unwrap_err(), "a latch");
    invalid(semaphore.limit().await.unwrap_err(), "a latch");
    invalid(semaphore.set_limit(3).await.unwrap_err(), "a latch");
    assert_eq!(files.map(read), before, "a refused request changed something");
    let listed = client.list("a", 9).await.unwrap();
    let note = listed[0].note.clone().unwrap();
    assert!(note.contains("1 of 2 parties"), "{note}");
    let doctor = FileBackend::diagnose(dir.path(), &Clock::system()).unwrap();
    let is_quiet = |id: &str| id != "damaged" && id != "newer";
    assert!(doctor.findings.iter().all(|finding| is_quiet(finding.id)), "{doctor:?}");
    guard.release().await.unwrap();
    permit.release().await.unwrap();
}

#[tokio::test]
async fn a_latch_that_has_expired_is_not_shown_and_leaves_its_name_to_others() {
    for what in ["latch", "lock", "semaphore", "limit", "forget"] {
        let dir = tempfile::tempdir().unwrap();
        let clock = ManualClock::new();
        let kit = Kit::with_clock(dir.path(), clock.clock());
        let backend = &kit.backend;
        assert!(backend.swap_value(swap(None, "one")).await.unwrap());
        assert!(!backend.swap_value(swap(None, "two")).await.unwrap());
        assert!(!backend.swap_value(swap(Some("two"), "three")).await.unwrap());
        clock.advance(HOUR - Duration::from_millis(1));
        assert_eq!(backend.value(&name("a")).await.unwrap().unwrap(), b"one");
        assert_eq!(kit.refused("a").await.kind(), ErrorKind::Invalid);
        assert_eq!(backend.forget("").unwrap(), 0);
        clock.advance(Duration::from_millis(1));
        assert_eq!(backend.value(&name("a")).await.unwrap(), None);
        let status = backend.status(&name("a")).await.unwrap();
        assert_eq!((status.state, status.waiters), (State::Free, Some(Vec::new())));
        assert!(!backend.swap_value(swap(Some("one"), "two")).await.unwrap());
        let client = Client::new(kit.backend.clone()).unwrap();
        match what {
            "latch" => assert!(backend.swap_value(swap(None, "two")).await.unwrap()),
            "lock" => assert!(kit.try_lock("a").await.is_some()),
            "semaphore" => drop(client.semaphore("a", 2).try_acquire().await.unwrap().unwrap()),
            "limit" => assert_eq!(client.semaphore("a", 2).limit().await.unwrap(), None),
            _ => {
                backend.forget("").unwrap();
                assert!(!dir.path().join("locks/a.json").exists());
            }
        }
    }
}

#[tokio::test]
async fn the_doctor_names_a_latch_of_a_newer_version_until_it_expires() {
    let dir = tempfile::tempdir().unwrap();
    let clock = ManualClock::new();
    let kit = Kit::with_clock(dir.path(), clock.clock());
    let found = || {
        let found = FileBackend::diagnose(dir.path(), &clock.clock()).unwrap().findings;
        let mut newer = found.into_iter().filter(|finding| finding.id == "newer");
        newer.next().map(|finding| finding.what)
    };
    assert!(kit.backend.swap_value(swap(None, "leasehold latch 2\n1 1 1\n")).await.unwrap());
    let what = found().unwrap();
    assert!(what.ends_with("those of \"a\""), "{what}");
    clock.advance(HOUR);
    assert_eq!(found(), None);
}

#[tokio::test]
async fn processes_that_are_killed_while_they_count_lose_no_count_that_was_confirmed() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().to_str().unwrap();
    let latch = client(dir.path()).latch("a", 1_000);
    let mut confirmed = BTreeSet::new();
    for round in 0..12_u32 {
        let helpers = [0, 1]
            .map(|number| Helper::start(&["count-down", store, "a", &format!("{round}/{number}")]));
        for (number, mut helper) in helpers.into_iter().enumerate() {
            // Killed at any moment after some counts.
            for _ in 0..=(round + number as u32) % 5 {
                confirmed.insert(helper.next().expect("it counts until it is killed"));
            }
            tokio::time::sleep(Duration::from_micros(u64::from(round) * 317)).await;
            helper.signal(nix::sys::signal::Signal::SIGKILL);
            while let Some(party) = helper.next() {
                confirmed.insert(party);
            }
            assert!(helper.was_killed());
        }
        let counted: BTreeSet<String> = latch.state().await.unwrap().counted.into_iter().collect();
        let lost: Vec<_> = confirmed.difference(&counted).collect();
        assert!(lost.is_empty(), "{lost:?}");
        // At most the one that was not confirmed.
        assert!(counted.len() <= confirmed.len() + 2 * (round as usize + 1), "{counted:?}");
    }
}

#[tokio::test]
async fn a_count_and_the_end_of_a_process_are_pushed_to_observers_of_another() {
    let dir = tempfile::tempdir().unwrap();
    let observer = client(dir.path());
    let mut changes = observer.lock("a").changes().unwrap();
    let pushed = async |changes: &mut leasehold_core::LockChanges| {
        tokio::time::timeout(SOON, changes.within(HOUR)).await.expect("a push");
    };
    client(dir.path()).latch("a", 1).count_down("one").await.unwrap();
    pushed(&mut changes).await;
    let mut changes = observer.lock("b").changes().unwrap();
    let (helper, token) = Helper::holding(dir.path(), "b");
    while observer.lock("b").status().await.unwrap().holder.is_none() {
        pushed(&mut changes).await;
    }
    assert_eq!(observer.lock("b").status().await.unwrap().token.unwrap().get(), token);
    helper.signal(nix::sys::signal::Signal::SIGKILL);
    while observer.lock("b").status().await.unwrap().state != leasehold_core::State::Free {
        pushed(&mut changes).await;
    }
    // The permit of a process that ends.
    let semaphore = observer.semaphore("s", 2);
    let mut changes = observer.lock("s").changes().unwrap();
    let other = client(dir.path());
    let permit = other.semaphore("s", 2).acquire().await.unwrap();
    let held = async || semaphore.status().await.unwrap().permits.map_or(0, |permits| permits.held);
    while held().await != 1 {
        pushed(&mut changes).await;
    }
    permit.release().await.unwrap();
    while held().await != 0 {
        pushed(&mut changes).await;
    }
}

#[tokio::test]
async fn observers_of_a_directory_that_is_removed_ask_at_intervals() {
    let dir = tempfile::tempdir().unwrap();
    let observer = client(dir.path());
    let mut changes = observer.lock("a").changes().unwrap();
    std::fs::remove_dir_all(dir.path().join("locks")).unwrap();
    // A push that there will be no more, or none.
    tokio::time::timeout(SOON, changes.within(Duration::from_millis(1))).await.unwrap();
    let waiting = tokio::spawn({
        let latch = observer.latch("a", 1);
        async move { latch.wait().await }
    });
    let latch = client(dir.path()).latch("a", 1);
    latch.count_down("one").await.unwrap();
    until("the waiter returns", SOON, async || waiting.is_finished().then_some(())).await;
    waiting.await.unwrap().unwrap();
}
