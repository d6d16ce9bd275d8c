//! A thousand waiters and a thousand holders: a release wakes one waiter, and each client acquires
//! its lock.

use leasehold_conformance::crowd;
use leasehold_core::backend::{AcquireRequest, Answer, Event};

use leasehold_core::Token;

use crate::{Raw, Test, connect, raw, secs, server, test, waits, watched};

pub(crate) const TESTS: &[Test] = &[
    test!(a_release_wakes_one_of_a_thousand),
    test!(who_takes_turns_is_told_of_each_release_once_and_leaves_no_watch),
    test!(a_thousand_tasks_take_turns_and_locks_of_their_own),
];

const CLIENTS: usize = 10;
const WAITERS: usize = 1_000;
const TURNS: usize = 20;

async fn a_thousand_tasks_take_turns_and_locks_of_their_own() {
    let server = server();
    let mut clients = Vec::new();
    for _ in 0..8 {
        clients.push(connect(&server.url()).await);
    }
    crowd::pairs(&clients[0], 1024, 2).await.unwrap();
    crowd::turns(&clients[..1], 1024).await.unwrap();
    crowd::turns(&clients, 1024).await.unwrap();
}

/// Each of two clients asks again at once, and watches the other one's key before its own is put.
async fn who_takes_turns_is_told_of_each_release_once_and_leaves_no_watch() {
    let server = server();
    let mut clients = [raw(&server, 1).await, raw(&server, 2).await];
    let ttl = secs(3_600);
    let mut held = waits(&mut clients[0], ttl);
    let mut token = granted(&clients[0], &held).await;
    let mut next = waits(&mut clients[1], ttl);
    queued(&clients[1], &next).await;
    for turn in 0..TURNS {
        let (holder, waiter) = (turn % 2, (turn + 1) % 2);
        let release = clients[holder].end(&held).with_base(Some(token));
        clients[holder].backend.release(release).await.unwrap();
        let again = waits(&mut clients[holder], ttl);
        queued(&clients[holder], &again).await;
        let told = clients[waiter].events.recv().await;
        let is_next = |attempt| attempt == next.attempt;
        assert!(matches!(told, Some(Event::Next { attempt, .. }) if is_next(attempt)), "{told:?}");
        let now = granted(&clients[waiter], &next).await;
        assert!(now > token);
        (held, token, next) = (next, now, again);
    }
    // The holder asks again after the last waiter has left, whose key it watches in advance.
    let (holder, waiter) = (TURNS % 2, (TURNS + 1) % 2);
    let release = clients[holder].end(&held).with_base(Some(token));
    clients[holder].backend.release(release).await.unwrap();
    let token = granted(&clients[waiter], &next).await;
    let release = clients[waiter].end(&next).with_base(Some(token));
    clients[waiter].backend.release(release).await.unwrap();
    let again = waits(&mut clients[holder], ttl);
    let token = granted(&clients[holder], &again).await;
    let release = clients[holder].end(&again).with_base(Some(token));
    clients[holder].backend.release(release).await.unwrap();
    watched(&server, 0).await;
}

async fn granted(client: &Raw, request: &AcquireRequest) -> Token {
    match client.backend.acquire(request.clone()).await.unwrap() {
        Answer::Granted(grant) => grant.tokens.base(),
        other => panic!("{other:?}"),
    }
}

async fn queued(client: &Raw, request: &AcquireRequest) {
    let answer = client.backend.acquire(request.clone()).await.unwrap();
    assert!(matches!(answer, Answer::Queued { .. }), "{answer:?}");
}

async fn a_release_wakes_one_of_a_thousand() {
    let server = server();
    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        clients.push(raw(&server, number as u64).await);
    }
    // So long that no waiter repeats its request meanwhile.
    let queue: Vec<AcquireRequest> =
        (0..=WAITERS).map(|place| waits(&mut clients[place % CLIENTS], secs(3_600))).collect();
    let mut token = None;
    for (place, request) in queue.iter().enumerate() {
        match clients[place % CLIENTS].backend.acquire(request.clone()).await.unwrap() {
            Answer::Granted(grant) if place == 0 => token = Some(grant.tokens.base()),
            Answer::Queued { place: Some(before), .. } => assert_eq!(before as usize, place - 1),
            other => panic!("{other:?}"),
        }
    }
    let count = || {
        let method = |metric: &str, method: &str| {
            server.metric_of(metric, &format!("grpc_method=\"{method}\"")).unwrap()
        };
        [
            server.metric("etcd_debugging_mvcc_events_total").unwrap(),
            method("grpc_server_handled_total", "Txn"),
            method("grpc_server_msg_received_total", "LeaseKeepAlive"),
        ]
    };
    let before = count();
    for turn in 0..TURNS {
        let holder = &clients[turn % CLIENTS];
        let release = holder.end(&queue[turn]).with_base(token);
        holder.backend.release(release).await.unwrap();
        let next = turn + 1;
        let waiter = &mut clients[next % CLIENTS];
        let told = waiter.events.recv().await;
        let is_told = |attempt| attempt == queue[next].attempt;
        assert!(matches!(told, Some(Event::Next { attempt, .. }) if is_told(attempt)), "{told:?}");
        let answer = waiter.backend.acquire(queue[next].clone()).await.unwrap();
        let Answer::Granted(grant) = answer else { panic!("{answer:?}") };
        assert!(Some(grant.tokens.base()) > token);
        token = Some(grant.tokens.base());
    }
    let after = count();
    let each = |place: usize| (after[place] - before[place]) / TURNS as f64;
    let (events, requests, kept) = (each(0), each(1), each(2));
    println!("a hand-off: {events} events, {requests} transactions, {kept} keep-alives");
    for client in &mut clients {
        assert!(client.events.try_recv().is_none(), "two were woken");
    }
    assert!(events <= 1.5, "{events} events for one release");
    // The release, and the look of the one that it wakes.
    assert!(requests <= 2.5, "{requests} requests");
    assert!(kept <= 1.5, "{kept} keep-alives");
}
