//! A thousand waiters and a thousand holders: a release wakes one waiter, and each client acquires
//! its lock.

use std::sync::Arc;

use leasehold_conformance::crowd;
use leasehold_core::backend::{Answer, Event};
use leasehold_core::{Client, ClientSettings, StoreUrl};
use leasehold_test_servers::{ZooKeeperServer, ZooKeeperSettings};

use crate::{Test, plain, raw, secs, test, waits};

pub(crate) const TESTS: &[Test] = &[
    test!(a_release_wakes_one_of_a_thousand),
    test!(a_thousand_tasks_take_turns_and_locks_of_their_own),
];

const SESSIONS: u64 = 10;
const EACH: usize = 100;

/// A client that waits long for answers: a machine with much to do is slow with a thousand nodes.
async fn patient(url: &str) -> Client {
    let backend = leasehold_zookeeper::connect(StoreUrl::parse(url).unwrap()).await.unwrap();
    Client::with_settings(Arc::new(backend), ClientSettings::new().patience(secs(100))).unwrap()
}

async fn a_thousand_tasks_take_turns_and_locks_of_their_own() {
    let server = plain();
    let url = server.url() + "?session=60s";
    let mut clients = Vec::new();
    for _ in 0..8 {
        clients.push(patient(&url).await);
    }
    crowd::pairs(&clients[0], 1024, 2).await.unwrap();
    crowd::turns(&clients[..1], 1024).await.unwrap();
    crowd::turns(&clients, 1024).await.unwrap();
}

/// What the server has done so far for those who lock: changes, looks, watches that fired. Pings are
/// none of these.
fn count(server: &ZooKeeperServer) -> [u64; 3] {
    let numbers = [
        "zk_cnt_updatelatency",
        "zk_cnt_leasehold_read_per_namespace",
        "zk_sum_node_deleted_watch_count",
    ];
    numbers.map(|number| server.number(number).unwrap() as u64)
}

async fn a_release_wakes_one_of_a_thousand() {
    // So long that no lease ends meanwhile, and no session has to be verified.
    let settings = ZooKeeperSettings::new().line("maxSessionTimeout=600000");
    let server = ZooKeeperServer::start(settings).unwrap();
    let url = server.url() + "?session=600s";
    let mut holder = raw(&url, 99).await;
    let mut held = waits(&mut holder).with_ttl(secs(300));
    let Answer::Granted(_) = holder.backend.acquire(held.clone()).await.unwrap() else {
        panic!("not granted");
    };
    let mut sessions = Vec::new();
    for number in 0..SESSIONS {
        sessions.push(raw(&url, number).await);
    }
    let mut queue = Vec::new();
    for place in 0..EACH * SESSIONS as usize {
        let session = &mut sessions[place % SESSIONS as usize];
        let request = waits(session).with_ttl(secs(300));
        let answer = session.backend.acquire(request.clone()).await.unwrap();
        let Answer::Queued { place: Some(at), .. } = answer else { panic!("{answer:?}") };
        assert_eq!(at as usize, place);
        queue.push(request);
    }
    assert_eq!(server.number("zk_watch_count").unwrap() as usize, queue.len(), "one watch each");
    // Those who wait ask again now and then: that costs the server nothing.
    let before = count(&server);
    for (place, request) in queue.iter().enumerate() {
        let session = &sessions[place % SESSIONS as usize];
        let answer = session.backend.acquire(request.clone()).await.unwrap();
        assert!(matches!(answer, Answer::Queued { .. }), "{answer:?}");
    }
    assert_eq!(count(&server), before, "requests while all clients waited");
    let mut owner = holder.backend.clone();
    for (place, request) in queue.iter().take(20).enumerate() {
        let before = count(&server);
        owner.release(holder.end(&held)).await.unwrap();
        let session = &mut sessions[place % SESSIONS as usize];
        match session.events.recv().await {
            Some(Event::Next { attempt, .. }) => assert_eq!(attempt, request.attempt),
            other => panic!("{other:?}"),
        }
        let answer = session.backend.acquire(request.clone()).await.unwrap();
        assert!(matches!(answer, Answer::Granted(_)), "{answer:?}");
        let after = count(&server);
        let [changes, looks, fired] = [0, 1, 2].map(|at| after[at] - before[at]);
        assert_eq!((changes, looks, fired), (1, 1, 1), "removal, look of the next, watch");
        held = request.clone();
        owner = session.backend.clone();
    }
    for session in &mut sessions {
        assert!(session.events.try_recv().is_none(), "another waiter was woken");
    }
}
