//! Thousands of waiters that time out or are dropped at any moment: nothing of them is left at the
//! engine or in the process.
//!
//! It uses 2,000 waiters at a time, until the process does not grow any more;
//! `LEASEHOLD_LEAVING=10000 LEASEHOLD_ROUNDS=20` is more. It runs in its own process, so that the
//! memory of the process belongs to the waiters.

use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use leasehold_conformance::until;
use leasehold_core::memory::MemoryStore;
use leasehold_core::{Client, ErrorKind, Guard, Lock, State, Usage};
use tokio::task::JoinSet;

use crate::{Test, connect, plain, test};

pub(crate) const TESTS: &[Test] = &[
    test!(waiters_that_leave_redis_leave_nothing),
    test!(waiters_that_leave_memory_leave_nothing),
];

const ROLE: &str = "LEASEHOLD_LEAVING_PROCESS";
/// The least number of rounds.
const ROUNDS: usize = 6;
/// The most rounds, as a multiple of that. Buffers grow until each has reached its worst case, which
/// takes longer on a loaded machine; leftovers of waiters grow in each round.
const MOST: usize = 5;
/// How much the process may grow in two rounds, for each waiter of one round. A waiter takes
/// hundreds of bytes.
const GROWTH: usize = 16;
/// The most memory of one client's buffers, for any number of waiters.
const BUFFERS: usize = 192 << 10;
/// The clients that wait for the same names.
const CLIENTS: usize = 20;

async fn waiters_that_leave_redis_leave_nothing() {
    let server = plain();
    leave(&server.url());
    let keys = server.admin(&["KEYS", "*:q"]).unwrap();
    assert!(keys.items().is_empty(), "{keys:?}");
}

async fn waiters_that_leave_memory_leave_nothing() {
    leave("memory:");
}

fn leave(store: &str) {
    let program = std::env::current_exe().unwrap();
    let output = Command::new(program).env(ROLE, store).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let wrong = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{wrong}");
    print!("{said}");
}

/// The store, if this process was started to let waiters leave.
pub(crate) fn told() -> Option<String> {
    std::env::var(ROLE).ok()
}

pub(crate) fn play(store: &str) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.unwrap().block_on(rounds(store));
    ExitCode::SUCCESS
}

async fn rounds(url: &str) {
    let number = |variable| std::env::var(variable).ok()?.parse().ok();
    let count = number("LEASEHOLD_LEAVING").unwrap_or(2000);
    let rounds = number("LEASEHOLD_ROUNDS").unwrap_or(ROUNDS).max(2);
    let store = MemoryStore::new();
    let open = async || match url {
        "memory:" => Client::new(Arc::new(store.connect())).unwrap(),
        url => connect(url).await,
    };
    let holder = open().await;
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(open().await);
    }
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = in_use();
    let (mut tasks, mut memory) = (0, vec![before]);
    println!("{url}: {} tasks, {} KiB before", alive(), before >> 10);
    for round in 1..=rounds * MOST {
        let here = in_one_process(&holder, &clients[0], count).await;
        let there = at_the_engine(&holder, &clients, count).await;
        for client in clients.iter().chain([&holder]) {
            client.settle().await;
            assert_eq!(client.usage(), Usage::default(), "round {round}");
        }
        for status in holder.list("", 1_000_000).await.unwrap() {
            assert_eq!(status.state, State::Free, "{status:?}");
            assert!(status.waiters.as_ref().is_some_and(Vec::is_empty), "{status:?}");
        }
        if round >= rounds {
            until("no task is left", || async { alive() <= tasks }).await.unwrap();
        }
        let (tasks_now, memory_now) = (alive(), in_use());
        println!(
            "{url} round {round}: {count} in line, of whom {here} got it; {count} in queues, of \
             whom {there} got it; {tasks_now} tasks, {} KiB",
            memory_now >> 10
        );
        memory.push(memory_now);
        assert!(memory_now <= before + (CLIENTS + 1) * BUFFERS, "{memory:?}");
        if round < rounds {
            tasks = tasks.max(tasks_now);
        } else if memory_now <= memory[round - 2] + 2 * count * GROWTH {
            return;
        }
    }
    panic!("the memory grows in each round: {memory:?}");
}

/// All tasks of one client want one lock; returns how many acquired it.
async fn in_one_process(holder: &Client, client: &Client, count: usize) -> usize {
    let held = holder.lock("one").acquire().await.unwrap();
    let waiting = (0..count).map(|_| client.lock("one")).collect();
    leaving(waiting, vec![held]).await
}

/// Each client waits in the queues of many locks; returns how many acquired one.
async fn at_the_engine(holder: &Client, clients: &[Client], count: usize) -> usize {
    let mut held = Vec::new();
    let mut waiting = Vec::new();
    for number in 0..count / clients.len() {
        let name = format!("many/{number}");
        held.push(holder.lock(&name).acquire().await.unwrap());
        waiting.extend(clients.iter().map(|client| client.lock(&name)));
    }
    leaving(waiting, held).await
}

/// Lets all tasks wait for random times, while the holders release at random.
async fn leaving(waiting: Vec<Lock>, held: Vec<Guard>) -> usize {
    let mut tasks = JoinSet::new();
    let mut aborted = Vec::new();
    for (number, lock) in waiting.into_iter().enumerate() {
        let patience = Duration::from_micros(fastrand::u64(0..500_000));
        let task = tasks.spawn(async move {
            let guard = match number % 3 {
                0 => match lock.acquire_within(patience).await {
                    Err(error) if error.kind() == ErrorKind::Timeout => None,
                    acquired => Some(acquired.unwrap()),
                },
                1 => tokio::time::timeout(patience, lock.acquire()).await.ok().map(Result::unwrap),
                _ => Some(lock.acquire().await.unwrap()),
            };
            guard.map(drop)
        });
        if number % 3 == 2 {
            aborted.push((patience, task));
        }
    }
    let aborting = tokio::spawn(async move {
        aborted.sort_by_key(|(patience, _)| *patience);
        let mut slept = Duration::ZERO;
        for (patience, task) in aborted {
            tokio::time::sleep(patience - slept).await;
            slept = patience;
            task.abort();
        }
    });
    let mut holding = JoinSet::new();
    for guard in held {
        holding.spawn(async move {
            tokio::time::sleep(Duration::from_micros(fastrand::u64(0..600_000))).await;
            guard.release().await.unwrap();
        });
    }
    let mut got = 0;
    while let Some(done) = tasks.join_next().await {
        got += usize::from(matches!(done, Ok(Some(()))));
        assert!(!done.is_err_and(|error| error.is_panic()), "a waiter panicked");
    }
    aborting.await.unwrap();
    holding.join_all().await;
    got
}

/// Returns the memory that this process uses, in bytes.
fn in_use() -> usize {
    let stats = crate::ALLOCATOR.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}
