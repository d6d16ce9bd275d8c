//! A thousand waiters and a thousand holders: a release wakes one waiter, and each client acquires
//! its lock.

use leasehold_conformance::crowd;
use leasehold_core::backend::{AcquireRequest, Answer, Event};

use crate::{Test, connect, raw, secs, server, test, waits};

pub(crate) const TESTS: &[Test] = &[
    test!(a_release_wakes_one_of_a_thousand),
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
        assert!(matches!(told, Some(Event::Freed { .. })), "{told:?}");
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
