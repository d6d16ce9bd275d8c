//! Read-write locks under many tasks that come and go: a judge refuses a writer beside another holder.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use leasehold_core::memory::MemoryStore;
use leasehold_core::{Client, Guard, ReadGuard, RwLock, State, Upgraded, Usage};

use crate::bench::secs;

/// Counts who holds, and refuses a writer beside another holder.
#[derive(Default)]
struct Judge(AtomicU64);

const WRITER: u64 = 1 << 32;

impl Judge {
    fn enter(&self, kind: u64) {
        let before = self.0.fetch_add(kind, Ordering::SeqCst);
        assert!(before < WRITER && (kind != WRITER || before == 0), "two holders: {before:x}");
    }

    fn leave(&self, kind: u64) {
        self.0.fetch_sub(kind, Ordering::SeqCst);
    }
}

async fn reads(judge: &Judge) {
    judge.enter(1);
    tokio::task::yield_now().await;
    judge.leave(1);
}

async fn writes(judge: &Judge) {
    judge.enter(WRITER);
    tokio::task::yield_now().await;
    judge.leave(WRITER);
}

/// Does one thing with the lock. The future may be dropped at each await.
async fn act(lock: &RwLock, judge: &Judge, draw: u64) {
    match draw % 8 {
        0 | 1 => {
            let read = lock.read().await.unwrap();
            reads(judge).await;
            match draw % 3 {
                0 => drop(read),
                1 => read.release().await.unwrap(),
                _ => {
                    if let Upgraded::Write(write) = read.try_upgrade().await.unwrap() {
                        writes(judge).await;
                        drop(write);
                    }
                }
            }
        }
        2 => {
            if let Some(read) = lock.try_read().await.unwrap() {
                reads(judge).await;
                drop(read);
            }
        }
        3 => {
            if let Some(write) = lock.try_write().await.unwrap() {
                writes(judge).await;
                write.release().await.unwrap();
            }
        }
        4 | 5 => {
            let write = lock.write().await.unwrap();
            writes(judge).await;
            let read = write.downgrade().await.unwrap();
            reads(judge).await;
            if let Upgraded::Write(write) = read.try_upgrade().await.unwrap() {
                writes(judge).await;
                drop(write);
            }
        }
        6 => {
            let read = lock.read().await.unwrap();
            let again = read.reenter().unwrap();
            drop(read);
            reads(judge).await;
            drop(again);
        }
        _ => {
            let write = lock.write().await.unwrap();
            writes(judge).await;
            write.release().await.unwrap();
        }
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
async fn tasks_that_come_and_go_never_hold_beside_a_writer() {
    let store = MemoryStore::new();
    let clients: Vec<Client> =
        (0..3).map(|_| Client::new(Arc::new(store.connect())).unwrap()).collect();
    let judge = Arc::new(Judge::default());
    let mut tasks = Vec::new();
    for task in 0..24_u64 {
        let (lock, judge) = (clients[task as usize % 3].rw_lock("a"), judge.clone());
        tasks.push(tokio::spawn(async move {
            let mut random = task.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            for _ in 0..150 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let work = act(&lock, &judge, random >> 8);
                match random % 4 {
                    // A judge that is entered is left before the next drop.
                    0 => {
                        let waiting = async { drop(lock.read().await.unwrap()) };
                        drops_after(random >> 4 & 7, waiting).await;
                    }
                    1 => {
                        let waiting = async {
                            let write = lock.write().await.unwrap();
                            drop(write.downgrade().await.unwrap());
                        };
                        drops_after(random >> 4 & 7, waiting).await;
                    }
                    _ => work.await,
                }
            }
        }));
    }
    let done = futures_util::future::join_all(tasks);
    let done = tokio::time::timeout(secs(20), done).await.expect("a task waits forever");
    done.into_iter().for_each(|task| task.unwrap());
    for client in &clients {
        client.settle().await;
        assert_eq!(client.usage(), Usage::default());
    }
    let status = clients[0].rw_lock("a").status().await.unwrap();
    assert_eq!((status.state, status.waiters), (State::Free, Some(Vec::new())));
}

/// Releases many times from two threads at the same moment.
async fn released_together<G, W>(pair: impl AsyncFn() -> (G, G), release: fn(G) -> W)
where
    G: Send + 'static,
    W: Future<Output = leasehold_core::Result<()>> + Send + 'static,
{
    for _ in 0..20_000 {
        let (one, other) = pair().await;
        let other = tokio::spawn(async move { release(other).await });
        release(one).await.unwrap();
        other.await.unwrap().unwrap();
    }
}

/// The last of them ends the lease; the others held it until they released it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guards_of_one_lease_that_are_released_at_the_same_moment_report_no_loss() {
    let client = Client::new(Arc::new(MemoryStore::new().connect())).unwrap();
    let (shared, lock) = (client.rw_lock("a"), client.lock("b"));
    let reads = async || (shared.read().await.unwrap(), shared.read().await.unwrap());
    let reenters = async || {
        let guard = lock.acquire().await.unwrap();
        let again = guard.reenter().unwrap();
        (guard, again)
    };
    let reads = released_together(reads, ReadGuard::release);
    let reenters = released_together(reenters, Guard::release);
    tokio::join!(reads, reenters);
}
