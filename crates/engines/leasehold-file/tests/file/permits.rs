//! Permits of several processes: killed and stopped ones, weights, limits, and records of a newer version.

use std::collections::HashMap;
use std::path::Path;

use leasehold_core::backend::{Backend, LimitChange};
use leasehold_core::proto::semaphore::{Demand, Limit};
use leasehold_core::{ErrorKind, Permit, Result, Semaphore};
use nix::sys::signal::Signal;
use tokio::task::JoinHandle;

use crate::helper::{Helper, client};
use crate::kit::{Kit, SOON, attempt, name, request, until};

/// Starts a process that holds so many slots; returns it with its slots and its token.
fn holding(dir: &Path, slots: u32, limit: u32) -> (Helper, String, u64) {
    let (slots, limit) = (slots.to_string(), limit.to_string());
    let mut helper = Helper::start(&["permit", dir.to_str().unwrap(), "a", &slots, &limit]);
    let said = helper.next().unwrap();
    let (slots, token) = said.rsplit_once(' ').unwrap();
    (helper, slots.to_owned(), token.parse().unwrap())
}

async fn waits(semaphore: &Semaphore, slots: u32, waiting: usize) -> JoinHandle<Result<Permit>> {
    let waiter = tokio::spawn({
        let semaphore = semaphore.clone();
        async move { semaphore.acquire_many_within(slots, SOON).await }
    });
    until("so many wait", SOON, async || {
        let status = semaphore.status().await.unwrap();
        (status.waiters.unwrap().len() == waiting).then_some(())
    })
    .await;
    waiter
}

async fn held(semaphore: &Semaphore) -> u32 {
    semaphore.status().await.unwrap().permits.unwrap().held
}

/// redisson#3046: the permits of a process that was killed never came back.
#[tokio::test]
async fn a_killed_process_gives_exactly_its_slots_back() {
    let dir = tempfile::tempdir().unwrap();
    let semaphore = client(dir.path()).semaphore("a", 4);
    let first = semaphore.acquire().await.unwrap();
    let (helper, slots, token) = holding(dir.path(), 2, 4);
    let last = semaphore.acquire().await.unwrap();
    assert_eq!((first.slots(), &*slots, last.slots()), (&[0][..], "[1, 2]", &[3][..]));
    let waiter = waits(&semaphore, 2, 1).await;
    assert_eq!(held(&semaphore).await, 4);
    helper.signal(Signal::SIGKILL);
    let next = waiter.await.unwrap().unwrap();
    assert!(helper.was_killed());
    assert_eq!(next.slots(), [1, 2]);
    assert!(next.token().get() > token, "the token went back");
    assert!(first.is_valid() && last.is_valid(), "another permit was ended");
    assert!(semaphore.try_acquire().await.unwrap().is_none(), "more slots than the limit");
    for permit in [first, next, last] {
        permit.release().await.unwrap();
    }
    assert_eq!(held(&semaphore).await, 0);
}

#[tokio::test]
async fn a_killed_waiter_for_many_slots_lets_the_next_one_pass() {
    let dir = tempfile::tempdir().unwrap();
    let semaphore = client(dir.path()).semaphore("a", 2);
    let first = semaphore.acquire().await.unwrap();
    let store = dir.path().to_str().unwrap();
    let heavy = Helper::start(&["permit", store, "a", "2", "2"]);
    until("it waits", SOON, async || {
        let status = semaphore.status().await.unwrap();
        (status.waiters.unwrap().len() == 1).then_some(())
    })
    .await;
    assert!(semaphore.try_acquire().await.unwrap().is_none(), "passed the first waiter");
    let light = waits(&semaphore, 1, 2).await;
    assert!(!light.is_finished() && held(&semaphore).await == 1, "passed the first waiter");
    heavy.signal(Signal::SIGKILL);
    assert!(heavy.was_killed());
    let light = light.await.unwrap().unwrap();
    assert_eq!(light.slots(), [1]);
    light.release().await.unwrap();
    first.release().await.unwrap();
}

#[tokio::test]
async fn a_stopped_process_keeps_its_slots() {
    let dir = tempfile::tempdir().unwrap();
    let (mut helper, slots, token) = holding(dir.path(), 2, 3);
    assert_eq!(slots, "[0, 1]");
    helper.stop();
    let semaphore = client(dir.path()).semaphore("a", 3);
    let beside = semaphore.try_acquire().await.unwrap().unwrap();
    assert_eq!(beside.slots(), [2]);
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    let holders = semaphore.status().await.unwrap().permits.unwrap().holders;
    assert!(
        holders.iter().any(|one| one.slots == [0, 1] && one.token.get() == token),
        "{holders:?}"
    );
    helper.signal(Signal::SIGCONT);
    helper.resume();
    assert_eq!(helper.next().unwrap(), "Ok(())");
    beside.release().await.unwrap();
    let all = semaphore.acquire_many(3).await.unwrap();
    assert!(all.token().get() > token);
    all.release().await.unwrap();
}

#[tokio::test]
async fn no_two_processes_have_a_slot_at_a_time_and_its_tokens_grow() {
    const LIMIT: u32 = 4;
    let (dir, witness) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for slot in 0..LIMIT {
        std::fs::write(witness.path().join(slot.to_string()), "").unwrap();
    }
    let (store, place) = (dir.path().to_str().unwrap(), witness.path().to_str().unwrap());
    let limit = LIMIT.to_string();
    let role = ["permits", store, "a", &*limit, place, "40"];
    let helpers = [(); 4].map(|()| Helper::start(&role));
    // Each process says its tokens in order; those of all of them are compared after their ends.
    let mut tokens: HashMap<u32, Vec<u64>> = HashMap::new();
    let mut many = 0;
    for mut helper in helpers {
        let mut last: HashMap<u32, u64> = HashMap::new();
        while let Some(said) = helper.next() {
            let [slot, token, is_alone] = said.split(' ').collect::<Vec<_>>().try_into().unwrap();
            let (slot, token): (u32, u64) = (slot.parse().unwrap(), token.parse().unwrap());
            assert_eq!(is_alone, "true", "slot {slot} was held twice");
            assert!(slot < LIMIT, "slot {slot} is above the limit");
            assert!(last.insert(slot, token).is_none_or(|last| last < token), "slot {slot}");
            tokens.entry(slot).or_default().push(token);
            many += 1;
        }
    }
    assert!(many >= 4 * 40, "{many} slots were granted");
    for (slot, mut tokens) in tokens {
        let all = tokens.len();
        tokens.sort_unstable();
        tokens.dedup();
        assert_eq!(tokens.len(), all, "a token of slot {slot} was granted twice");
    }
    assert_eq!(held(&client(dir.path()).semaphore("a", LIMIT)).await, 0);
}

#[tokio::test]
async fn a_lower_limit_drains_though_a_process_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let semaphore = client(dir.path()).semaphore("a", 3);
    let first = semaphore.acquire().await.unwrap();
    let (helper, slots, _) = holding(dir.path(), 2, 3);
    assert_eq!(slots, "[1, 2]");
    semaphore.set_limit(2).await.unwrap();
    assert_eq!(held(&semaphore).await, 3, "a permit was ended");
    first.release().await.unwrap();
    assert!(semaphore.try_acquire().await.unwrap().is_none(), "two of two slots are in use");
    let waiter = waits(&semaphore, 1, 1).await;
    helper.signal(Signal::SIGKILL);
    let next = waiter.await.unwrap().unwrap();
    assert!(helper.was_killed());
    let last = semaphore.try_acquire().await.unwrap().unwrap();
    assert_eq!((next.slots(), last.slots()), (&[0][..], &[1][..]));
    assert!(semaphore.try_acquire().await.unwrap().is_none(), "more slots than the lower limit");
    last.release().await.unwrap();
    next.release().await.unwrap();
}

#[tokio::test]
async fn another_limit_is_refused_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (kit, semaphore) = (Kit::open(dir.path()), client(dir.path()).semaphore("a", 4));
    let held_permit = semaphore.acquire().await.unwrap();
    let record = || std::fs::read(dir.path().join("locks/a.json")).unwrap();
    let before = record();
    for (slots, limit) in [(1, 3), (1, 5), (5, 5)] {
        for is_waiting in [false, true] {
            let demand = Demand::new(slots, limit).unwrap();
            let asked = request("a", attempt(), is_waiting).with_demand(demand);
            let error = kit.backend.acquire(asked).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
            assert!(error.message().contains("limit 4"), "{error}");
        }
    }
    let late = LimitChange::new(name("a"), 7, Limit::new(9).unwrap());
    kit.backend.set_limit(late).await.unwrap();
    assert_eq!(record(), before, "a refused request changed the record");
    assert!(kit.status("a").await.waiters.unwrap().is_empty(), "a refused one waits");
    assert_eq!(held(&semaphore).await, 1);
    held_permit.release().await.unwrap();
}

#[tokio::test]
async fn a_lock_is_refused_at_once_under_the_name_of_a_semaphore_that_a_process_waits_for() {
    let dir = tempfile::tempdir().unwrap();
    let semaphore = client(dir.path()).semaphore("a", 1);
    let held = semaphore.acquire().await.unwrap();
    let waiter = waits(&semaphore, 1, 1).await;
    let (other, no_wait) = (client(dir.path()), std::time::Duration::ZERO);
    let (lock, both) = (other.lock("a"), other.rw_lock("a"));
    for wait in [no_wait, SOON] {
        let write = lock.acquire_within(wait).await.map(drop);
        let read = both.read_within(wait).await.map(drop);
        for refused in [write, read] {
            let error = refused.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        }
    }
    assert_eq!(semaphore.status().await.unwrap().waiters.unwrap().len(), 1);
    held.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_newer_semaphore_is_left_alone_by_everything() {
    let dir = tempfile::tempdir().unwrap();
    let (kit, client) = (Kit::open(dir.path()), client(dir.path()));
    let semaphore = client.semaphore("a", 2);
    let permit = semaphore.acquire().await.unwrap();
    let path = dir.path().join("locks/a.json");
    let newer = std::fs::read_to_string(&path).unwrap().replace("\"version\":2", "\"version\":7");
    assert!(newer.contains("\"version\":7"), "{newer}");
    std::fs::write(&path, &newer).unwrap();
    let demand = Demand::new(1, 2).unwrap();
    let mut errors = Vec::new();
    for is_waiting in [false, true] {
        let asked = request("a", attempt(), is_waiting).with_demand(demand);
        errors.push(kit.backend.acquire(asked).await.unwrap_err());
    }
    errors.push(semaphore.limit().await.unwrap_err());
    errors.push(semaphore.set_limit(3).await.unwrap_err());
    errors.push(kit.backend.status(&name("a")).await.unwrap_err());
    errors.push(client.rw_lock("a").try_read().await.unwrap_err());
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Foreign, "{error}");
        assert!(error.to_string().contains("newer"), "{error}");
    }
    // Other names are listed, forgotten and used as before.
    client.lock("b").acquire().await.unwrap().release().await.unwrap();
    let listed = client.list("", 9).await.unwrap();
    assert!(listed[0].note.as_ref().is_some_and(|note| note.contains("newer")), "{listed:?}");
    assert_eq!(listed.len(), 2);
    // The kernel has the slots of the permit, whatever the record says.
    assert!(permit.is_valid());
    permit.release().await.unwrap();
    assert_eq!(kit.backend.forget("a").unwrap_err().kind(), ErrorKind::Foreign);
    until("the other one is forgotten", SOON, async || {
        let forgotten = kit.backend.forget("b").unwrap();
        (forgotten == 1).then_some(())
    })
    .await;
    assert_eq!(std::fs::read_to_string(&path).unwrap(), newer);
}
