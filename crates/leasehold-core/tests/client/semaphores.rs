//! Semaphores: permits are renewed and lost as locks are, and a lost message loses no slot.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use leasehold_conformance::{Fault, says};
use leasehold_core::backend::Backend;
use leasehold_core::memory::MemoryStore;
use leasehold_core::{Client, Error, ErrorKind, LossReason, Name, Permit, Semaphore, Usage};
use tokio::task::JoinHandle;

use crate::bench::{Bench, ms, others_run, secs};

/// Starts a task that waits for so many slots.
async fn waits(semaphore: &Semaphore, slots: u32) -> JoinHandle<Result<Permit, Error>> {
    let semaphore = semaphore.clone();
    let waiting = tokio::spawn(async move { semaphore.acquire_many(slots).await });
    others_run().await;
    assert!(!waiting.is_finished());
    waiting
}

async fn got(waiting: JoinHandle<Result<Permit, Error>>) -> Permit {
    others_run().await;
    assert!(waiting.is_finished(), "its turn has come");
    waiting.await.unwrap().unwrap()
}

/// Returns how many slots are in use, and how many clients wait.
async fn in_use(semaphore: &Semaphore) -> (u32, usize) {
    let status = semaphore.status().await.unwrap();
    (status.permits.map_or(0, |permits| permits.held), status.waiters.unwrap().len())
}

async fn nothing_is_left(client: &Client, semaphore: &Semaphore) {
    client.settle().await;
    assert_eq!(client.usage(), Usage::default());
    assert_eq!(in_use(semaphore).await, (0, 0));
}

#[tokio::test]
async fn a_permit_is_renewed_and_its_loss_is_told_before_its_slots_are_free() {
    let bench = Bench::new();
    let semaphore = bench.client.semaphore("a", 2).ttl(secs(30));
    let permit = semaphore.acquire().await.unwrap();
    bench.pass(secs(90)).await;
    assert!(permit.is_valid(), "not renewed");
    bench.faults.cut_renewals(true);
    let told = permit.cancellation_token();
    let other = bench.other_client().semaphore("a", 2);
    while !told.is_cancelled() {
        assert!(
            other.try_acquire_many(2).await.unwrap().is_none(),
            "free before the loss was told"
        );
        bench.pass(ms(100)).await;
    }
    assert!(permit.remaining() > secs(2) && !permit.is_valid(), "{:?}", permit.remaining());
    assert_eq!(permit.lost().await, LossReason::Expired);
    bench.pass(secs(4)).await;
    let both = other.try_acquire_many(2).await.unwrap().unwrap();
    assert!(both.token() > permit.token());
    says(&permit.release().await.unwrap_err(), ErrorKind::Lost, &["a"]);
    assert!(both.is_valid(), "the late release ended it");
}

#[tokio::test]
async fn a_lost_answer_uses_no_second_slot() {
    let bench = Bench::new();
    let semaphore = bench.client.semaphore("a", 2);
    bench.faults.on_acquire(&[Fault::LoseReply, Fault::LoseReply, Fault::Duplicate]);
    let acquiring = tokio::spawn({
        let semaphore = semaphore.clone();
        async move { semaphore.acquire().await }
    });
    bench.pass(secs(3)).await;
    let permit = got(acquiring).await;
    assert_eq!((permit.slot(), in_use(&semaphore).await), (0, (1, 0)));
    bench.faults.on_release(&[Fault::LoseReply]);
    drop(permit);
    bench.pass(secs(3)).await;
    nothing_is_left(&bench.client, &semaphore).await;
}

#[tokio::test]
async fn a_request_that_arrives_after_its_caller_has_left_gets_nothing() {
    let bench = Bench::new();
    let semaphore = bench.client.semaphore("a", 1);
    bench.faults.on_acquire(&[Fault::Delay]);
    let acquiring = waits(&semaphore, 1).await;
    acquiring.abort();
    others_run().await;
    bench.client.settle().await;
    bench.faults.deliver().await.unwrap();
    nothing_is_left(&bench.client, &semaphore).await;
}

#[tokio::test]
async fn a_grant_that_is_pushed_to_a_caller_that_leaves_is_given_back() {
    let bench = Bench::new();
    let semaphore = bench.client.semaphore("a", 1);
    let held = bench.other_client().semaphore("a", 1).acquire().await.unwrap();
    let first = waits(&semaphore, 1).await;
    let second = waits(&semaphore, 1).await;
    held.release().await.unwrap(); // Its grant is on the way to the first one.
    first.abort();
    let permit = got(second).await;
    assert_eq!(permit.slot(), 0);
    permit.release().await.unwrap();
    nothing_is_left(&bench.client, &semaphore).await;
}

#[tokio::test]
async fn without_pushes_waiters_find_their_turn_by_asking() {
    let bench = Bench::new();
    let semaphore = bench.client.semaphore("a", 1);
    let held = bench.other_client().semaphore("a", 1).acquire().await.unwrap();
    bench.faults.cut_pushes(true);
    let waiting = waits(&semaphore, 1).await;
    held.release().await.unwrap();
    bench.pass(secs(16)).await;
    got(waiting).await.release().await.unwrap();
    nothing_is_left(&bench.client, &semaphore).await;
}

#[tokio::test]
async fn a_change_of_the_limit_whose_answer_is_lost_counts_once() {
    let bench = Bench::new();
    let (semaphore, name) = (bench.client.semaphore("a", 2), Name::new("a").unwrap());
    semaphore.acquire().await.unwrap().release().await.unwrap();
    bench.faults.on_set_limit(&[Fault::LoseReply, Fault::LoseRequest, Fault::Duplicate]);
    let changing = tokio::spawn({
        let semaphore = semaphore.clone();
        async move { semaphore.set_limit(3).await }
    });
    bench.pass(secs(3)).await;
    changing.await.unwrap().unwrap();
    let stored = bench.store.connect().limit(&name).await.unwrap().unwrap();
    assert_eq!((stored.limit.get(), stored.version), (3, 2));
    assert_eq!(semaphore.acquire_many(3).await.unwrap().slots(), [0, 1, 2]);
    bench.faults.on_set_limit(&[Fault::Refuse(ErrorKind::Refused)]);
    says(&semaphore.set_limit(4).await.unwrap_err(), ErrorKind::Refused, &["set-limit a"]);
    assert_eq!(semaphore.limit().await.unwrap(), Some(3));
}

#[tokio::test]
async fn a_waiter_for_more_than_a_new_limit_gets_an_error_even_if_the_push_is_lost() {
    for pushes in [true, false] {
        let bench = Bench::new();
        let (semaphore, other) =
            (bench.client.semaphore("a", 3), bench.other_client().semaphore("a", 3));
        let held = other.acquire().await.unwrap();
        bench.faults.cut_pushes(!pushes);
        let heavy = waits(&semaphore, 3).await;
        other.set_limit(2).await.unwrap();
        if !pushes {
            bench.pass(secs(16)).await;
        }
        others_run().await;
        assert!(heavy.is_finished(), "pushes: {pushes}");
        let error = heavy.await.unwrap().unwrap_err();
        says(&error, ErrorKind::Invalid, &["acquire a", "limit 2", "3 of 3"]);
        held.release().await.unwrap();
        nothing_is_left(&bench.client, &semaphore).await;
    }
}

#[tokio::test]
async fn a_wait_that_times_out_leaves_the_queue_and_says_what_is_in_use() {
    let bench = Bench::new();
    let semaphore = bench.client.semaphore("a", 2);
    let held = bench.other_client().semaphore("a", 2).acquire_many(2).await.unwrap();
    let error = semaphore.acquire_within(ms(0)).await.unwrap_err();
    says(&error, ErrorKind::Timeout, &["not enough slots are free", "2 slots are in use"]);
    let waiting = tokio::spawn({
        let semaphore = semaphore.clone();
        async move { semaphore.acquire_within(secs(2)).await }
    });
    bench.pass(secs(3)).await;
    let error = waiting.await.unwrap().unwrap_err();
    says(&error, ErrorKind::Timeout, &["timed out after 2s", "2 slots are in use"]);
    held.release().await.unwrap();
    nothing_is_left(&bench.client, &semaphore).await;
}

#[tokio::test]
async fn a_closed_client_waits_for_no_slot_and_its_permits_stay() {
    let bench = Bench::new();
    let semaphore = bench.client.semaphore("a", 1);
    let permit = semaphore.acquire().await.unwrap();
    let waiting = waits(&semaphore, 1).await;
    let usage = bench.client.usage();
    assert_eq!((usage.held, usage.waiting, usage.queues), (1, 1, 1));
    bench.client.close().await;
    others_run().await;
    says(&waiting.await.unwrap().unwrap_err(), ErrorKind::Closed, &["closed"]);
    assert!(permit.is_valid());
    permit.release().await.unwrap();
    assert_eq!(in_use(&bench.other_client().semaphore("a", 1)).await, (0, 0));
}

#[tokio::test]
async fn more_waiters_than_one_step_serves_are_all_served() {
    const MANY: usize = 600;
    let bench = Bench::new();
    let semaphore = bench.client.semaphore("a", MANY as u32);
    let other = bench.other_client().semaphore("a", MANY as u32);
    let held = other.acquire_many(MANY as u32).await.unwrap();
    let mut waiting = Vec::new();
    for _ in 0..MANY {
        let semaphore = semaphore.clone();
        waiting.push(tokio::spawn(async move { semaphore.acquire().await }));
    }
    while in_use(&semaphore).await.1 < MANY {
        others_run().await;
    }
    held.release().await.unwrap();
    let mut permits = Vec::new();
    for one in waiting {
        permits.push(one.await.unwrap().unwrap());
    }
    let mut slots: Vec<u32> = permits.iter().map(|permit| permit.slot()).collect();
    slots.sort_unstable();
    assert!(slots.into_iter().eq(0..MANY as u32), "a slot was granted twice");
    drop(permits);
    nothing_is_left(&bench.client, &semaphore).await;
}

/// For each slot the last token that was used in it, with the highest bit while it is used.
struct Judge([AtomicU64; 4]);

const USED: u64 = 1 << 63;

impl Judge {
    async fn uses(&self, permit: &Permit) {
        let token = permit.token().get();
        for slot in permit.slots() {
            let before = self.0[*slot as usize].swap(token | USED, Ordering::SeqCst);
            assert!(before < token, "slot {slot}: {token} after {before:x}");
        }
        tokio::task::yield_now().await;
        for slot in permit.slots() {
            self.0[*slot as usize].store(token, Ordering::SeqCst);
        }
    }
}

/// Does one thing with the semaphore. The future may be dropped at each await.
async fn act(semaphore: &Semaphore, judge: &Judge, draw: u64) {
    let slots = 1 + (draw % 4) as u32;
    let permit = match draw / 4 % 3 {
        0 => semaphore.try_acquire_many(slots).await.unwrap(),
        _ => Some(semaphore.acquire_many(slots).await.unwrap()),
    };
    let Some(permit) = permit else { return };
    // Only what is not dropped while it uses the slots can be judged.
    let done = judge.uses(&permit);
    done.await;
    match draw % 2 {
        0 => drop(permit),
        _ => permit.release().await.unwrap(),
    }
}

/// Polls `work` at most `polls` times.
async fn drops_after(polls: u64, work: impl Future<Output = ()>) {
    let mut work = std::pin::pin!(work);
    let mut left = polls;
    std::future::poll_fn(|context| {
        left = left.saturating_sub(1);
        match work.as_mut().poll(context) {
            Poll::Pending if left > 0 => Poll::Pending,
            _ => Poll::Ready(()),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_that_come_and_go_never_use_a_slot_twice_and_leave_nothing() {
    let store = MemoryStore::new();
    let clients: Vec<Client> =
        (0..3).map(|_| Client::new(Arc::new(store.connect())).unwrap()).collect();
    let judge = Arc::new(Judge(Default::default()));
    let mut tasks = Vec::new();
    for task in 0..24_u64 {
        let (semaphore, judge) = (clients[task as usize % 3].semaphore("a", 4), judge.clone());
        tasks.push(tokio::spawn(async move {
            for round in 0..60_u64 {
                let draw = (task * 31 + round).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
                match draw % 5 {
                    // Dropped while it waits; a caller that got slots gives them back unused.
                    0 => {
                        let leaves =
                            async { drop(semaphore.acquire_many(1 + (draw % 4) as u32).await) };
                        drops_after(1 + draw % 4, leaves).await;
                    }
                    _ => act(&semaphore, &judge, draw).await,
                }
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    for client in &clients {
        client.settle().await;
        assert_eq!(client.usage(), Usage::default());
    }
    assert_eq!(in_use(&clients[0].semaphore("a", 4)).await, (0, 0));
}
