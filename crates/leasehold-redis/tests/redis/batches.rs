//! Requests of many tasks in one script call: each hears its own answer.

use leasehold_core::{ErrorKind, Guard, Lock};
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
    // The same with their ends: some of them have been ended by somebody else.
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

/// A task that waits for the lock, in line.
async fn waits(lock: Lock) -> JoinHandle<Guard> {
    let waiting = tokio::spawn(async move { lock.acquire().await.unwrap() });
    tokio::time::sleep(ms(100)).await;
    waiting
}

async fn those_outside_are_heard_of_with_the_grant() {
    let server = plain();
    let client = connect(&server.url()).await;
    let lock = client.lock("a");
    let holder = lock.acquire().await.unwrap();
    // Ours stand in line between two others.
    let first = waits(lock.clone()).await;
    let second = waits(lock.clone()).await;
    let before = waits(connect(&server.url()).await.lock("a")).await;
    holder.release().await.unwrap();
    let before = before.await.unwrap();
    let after = waits(connect(&server.url()).await.lock("a")).await;
    before.release().await.unwrap();
    let first = first.await.unwrap();
    tokio::time::sleep(ms(50)).await;
    first.release().await.unwrap();
    // They are in turn, though our second one was nearer.
    let after = tokio::time::timeout(secs(10), after).await.unwrap().unwrap();
    assert!(!second.is_finished());
    after.release().await.unwrap();
    second.await.unwrap().release().await.unwrap();
}
