//! Requests of many tasks in one script call: each caller gets its own answer.

use leasehold_conformance::until;
use leasehold_core::{Client, ErrorKind, Guard};
use tokio::task::{JoinHandle, JoinSet};

use crate::{Test, connect, ms, plain, secs, test};

pub(crate) const TESTS: &[Test] = &[
    test!(everybody_in_a_batch_hears_its_own_answer),
    test!(those_outside_are_heard_of_with_the_grant),
];

async fn everybody_in_a_batch_hears_its_own_answer() {
    let server = plain();
    let (client, other) = (connect(&server.url()).await, connect(&server.url()).await);
    let name = |number: usize| format!("batch/{number}");
    let mut taken = Vec::new();
    for number in (0..300).filter(|number| number % 3 == 0) {
        taken.push(other.lock(name(number)).acquire().await.unwrap());
    }
    let mut tasks = JoinSet::new();
    for number in 0..300 {
        let lock = client.lock(name(number));
        tasks.spawn(async move { (number, lock.try_acquire().await.unwrap()) });
    }
    let mut guards: Vec<(usize, Guard)> = Vec::new();
    while let Some(done) = tasks.join_next().await {
        let (number, guard) = done.unwrap();
        assert_eq!(guard.is_none(), number % 3 == 0, "{number}");
        guards.extend(guard.map(|guard| (number, guard)));
    }
    // The same with their ends: another client has ended some of them.
    for (number, guard) in guards.iter().filter(|(number, _)| number % 5 == 0) {
        other.lock(name(*number)).force_release(guard.token()).await.unwrap();
    }
    for (number, guard) in guards {
        tasks.spawn(async move {
            let lost = guard.release().await.is_err_and(|error| error.kind() == ErrorKind::Lost);
            assert_eq!(lost, number % 5 == 0, "{number}");
            (number, None)
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    drop(taken);
}

/// Starts a task that waits for the lock behind the tasks that wait already: in the local queue, or
/// in the queue of the server.
async fn waits(client: &Client, in_line: &impl Fn() -> usize, count: usize) -> JoinHandle<Guard> {
    let lock = client.lock("a");
    let waiting = tokio::spawn(async move { lock.acquire().await.unwrap() });
    until("it stands in line", || async { in_line() == count }).await.unwrap();
    // Longer than clients outside wait while a process hands a lock to its own tasks.
    tokio::time::sleep(ms(100)).await;
    waiting
}

async fn those_outside_are_heard_of_with_the_grant() {
    let server = plain();
    let client = connect(&server.url()).await;
    let lock = client.lock("a");
    let holder = lock.acquire().await.unwrap();
    // The local tasks wait between two other clients.
    let ours = || client.usage().waiting;
    let outside = || {
        let queue = server.admin(&["ZCARD", "leasehold:{a}:q"]).unwrap();
        queue.integer().unwrap() as usize
    };
    let first = waits(&client, &ours, 1).await;
    let second = waits(&client, &ours, 2).await;
    let other = connect(&server.url()).await;
    let before = waits(&other, &outside, 1).await;
    holder.release().await.unwrap();
    let before = before.await.unwrap();
    // The first local task has joined the queue.
    let other = connect(&server.url()).await;
    let after = waits(&other, &outside, 2).await;
    before.release().await.unwrap();
    let first = first.await.unwrap();
    tokio::time::sleep(ms(50)).await;
    first.release().await.unwrap();
    // They get it in turn, though the second local task was closer.
    let after = tokio::time::timeout(secs(10), after).await.unwrap().unwrap();
    assert!(!second.is_finished());
    after.release().await.unwrap();
    second.await.unwrap().release().await.unwrap();
}
