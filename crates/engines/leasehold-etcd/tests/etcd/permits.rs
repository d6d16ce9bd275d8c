//! Semaphores and latches whose processes, leases, connections and servers fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use leasehold_conformance::holder::Process;
use leasehold_conformance::until;
use leasehold_core::{Client, ErrorKind, Forced, LossReason, Semaphore};
use leasehold_test_servers::{Direction, Proxy};

use crate::{Test, connect, keys, ms, no_lease, operator, secs, server, test, watched};

pub(crate) const TESTS: &[Test] = &[
    test!(a_killed_holder_gives_exactly_its_slots_back),
    test!(permits_last_over_a_restart_of_the_server),
    test!(a_lost_reply_to_a_permit_is_the_same_permit),
    test!(lost_replies_to_first_permits_leave_no_lease),
    test!(waiters_are_woken_in_order_without_a_request),
    test!(an_operator_ends_one_permit_and_no_other),
    test!(the_limit_of_the_first_client_has_an_end_and_a_changed_one_has_none),
    test!(a_pair_is_two_reads_and_two_writes),
    test!(no_slot_is_held_twice_while_connections_break),
    test!(a_latch_has_one_lease_and_leaves_none),
];

/// So long that no renewal is due in a test.
const LONG: std::time::Duration = std::time::Duration::from_secs(3_600);

/// Waits until so many slots are held and so many clients wait.
async fn state(semaphore: &Semaphore, held: u32, waiters: usize) {
    until(&format!("{held} slots are held, and {waiters} clients wait"), || async {
        semaphore.status().await.is_ok_and(|status| {
            status.permits.is_some_and(|permits| permits.held == held)
                && status.waiters.is_some_and(|all| all.len() == waiters)
        })
    })
    .await
    .unwrap();
}

/// redisson#3046: the permits of a holder that crashed never came back.
async fn a_killed_holder_gives_exactly_its_slots_back() {
    let server = server();
    let client = connect(&server.url()).await;
    let semaphore = client.semaphore("a", 3).ttl(secs(30));
    let first = semaphore.acquire().await.unwrap();
    let mut killed = Process::with_slots(&server.url(), "a", secs(2), (1, 3)).unwrap();
    let third = semaphore.acquire().await.unwrap();
    assert_eq!((first.slot(), third.slot()), (0, 2));
    let waiter = tokio::spawn({
        let semaphore = semaphore.clone();
        async move { semaphore.acquire().await }
    });
    state(&semaphore, 3, 1).await;
    killed.kill();
    let next = waiter.await.unwrap().unwrap();
    assert_eq!(next.slot(), 1, "another slot than that of the killed holder");
    assert!(next.token().get() > killed.token);
    assert!(first.is_valid() && third.is_valid(), "another permit was ended");
    for permit in [first, next, third] {
        permit.release().await.unwrap();
    }
    state(&semaphore, 0, 0).await;
}

async fn permits_last_over_a_restart_of_the_server() {
    let mut server = server();
    let client = connect(&server.url()).await;
    let semaphore = client.semaphore("a", 2).ttl(secs(60));
    let held = semaphore.acquire_many(2).await.unwrap();
    let waiter = tokio::spawn({
        let semaphore = semaphore.clone();
        async move { semaphore.acquire_within(secs(90)).await }
    });
    state(&semaphore, 2, 1).await;
    server.kill();
    server.start_again().unwrap();
    state(&semaphore, 2, 1).await;
    assert!(held.is_valid() && !waiter.is_finished());
    held.release().await.unwrap();
    let next = waiter.await.unwrap().unwrap();
    assert_eq!(next.slot(), 0);
    next.release().await.unwrap();
}

/// Loses the replies of the server for a while, from this time on.
async fn lose_replies(proxy: &Proxy, after: std::time::Duration) {
    tokio::time::sleep(after).await;
    proxy.cut(Direction::ServerToClient);
    tokio::time::sleep(ms(300)).await;
    proxy.kill_connections();
    proxy.heal();
}

async fn a_lost_reply_to_a_permit_is_the_same_permit() {
    let server = server();
    let direct = connect(&server.url()).await;
    let watcher = direct.semaphore("a", 2);
    let address = format!("127.0.0.1:{}", server.port()).parse::<std::net::SocketAddr>().unwrap();
    let proxy = Proxy::opaque(address).unwrap();
    let client = connect(&format!("etcd://{}", proxy.address())).await;
    for round in 0..8_u64 {
        let semaphore = client.semaphore("a", 2);
        semaphore.acquire().await.unwrap().release().await.unwrap();
        // The later, the more of the requests of the acquire have an answer.
        let cut = lose_replies(&proxy, std::time::Duration::from_micros(round * 300));
        let (permit, ()) = tokio::join!(semaphore.acquire_within(secs(60)), cut);
        let permit = permit.unwrap();
        let status = watcher.status().await.unwrap();
        let permits = status.permits.unwrap();
        assert_eq!((permits.held, permits.holders[0].token), (1, permit.token()));
        permit.release().await.ok();
        client.settle().await;
        state(&watcher, 0, 0).await;
    }
}

/// The first permit of a name stores the limit, under a lease of two hours.
async fn lost_replies_to_first_permits_leave_no_lease() {
    let server = server();
    let operator = operator(&server).await;
    let address = format!("127.0.0.1:{}", server.port()).parse::<std::net::SocketAddr>().unwrap();
    let proxy = Proxy::opaque(address).unwrap();
    let client = connect(&format!("etcd://{}", proxy.address())).await;
    for round in 0..24_u64 {
        let semaphore = client.semaphore(format!("many/{round}"), 2).ttl(secs(5));
        let cut = lose_replies(&proxy, std::time::Duration::from_micros(round * 250));
        let (permit, ()) = tokio::join!(semaphore.acquire_within(secs(60)), cut);
        permit.unwrap().release().await.ok();
        client.settle().await;
    }
    client.close().await;
    let stored = keys(&operator).await;
    assert_eq!(stored.len(), 24, "the limits alone are stored");
    let limits: Vec<i64> = stored.iter().map(|kv| kv.lease).collect();
    until("no other lease is left", || async {
        let left = operator.clone().leases().await.unwrap();
        left.leases.iter().all(|left| limits.contains(&left.id))
    })
    .await
    .unwrap();
}

async fn waiters_are_woken_in_order_without_a_request() {
    let server = server();
    let (one, two) = (connect(&server.url()).await, connect(&server.url()).await);
    let (semaphore, other) = (one.semaphore("a", 2).ttl(LONG), two.semaphore("a", 2).ttl(LONG));
    let held = semaphore.acquire_many(2).await.unwrap();
    let mut waiters = Vec::new();
    for (count, slots) in [2, 1, 1].into_iter().enumerate() {
        let other = connect(&server.url()).await.semaphore("a", 2).ttl(LONG);
        waiters.push(tokio::spawn(async move { other.acquire_many(slots).await }));
        state(&semaphore, 2, count + 1).await;
    }
    held.release().await.unwrap();
    let heavy = waiters.remove(0).await.unwrap().unwrap();
    state(&semaphore, 2, 2).await;
    assert!(waiters.iter().all(|waiter| !waiter.is_finished()), "passed the first waiter");
    other.set_limit(3).await.unwrap();
    let light = waiters.remove(0).await.unwrap().unwrap();
    assert_eq!(light.slot(), 2);
    assert!(light.token() > heavy.token(), "tokens do not grow with the grants");
    heavy.release().await.unwrap();
    let last = waiters.remove(0).await.unwrap().unwrap();
    assert_eq!(last.slot(), 0);
    light.release().await.unwrap();
    last.release().await.unwrap();
    state(&other, 0, 0).await;
    watched(&server, 0).await;
}

async fn an_operator_ends_one_permit_and_no_other() {
    let server = server();
    let (one, two) = (connect(&server.url()).await, connect(&server.url()).await);
    let (first, second) = (
        one.semaphore("a", 2).ttl(LONG).acquire().await.unwrap(),
        two.semaphore("a", 2).ttl(LONG).acquire().await.unwrap(),
    );
    watched(&server, 2).await;
    let semaphore = two.semaphore("a", 2);
    let wrong = leasehold_core::Token::new(second.token().get() + 7).unwrap();
    let lock = two.lock("a");
    assert_eq!(lock.force_release(wrong).await.unwrap(), Forced::NotHeld);
    assert_eq!(lock.force_release(first.token()).await.unwrap(), Forced::Ended);
    assert_eq!(first.lost().await, LossReason::NotOwner);
    assert!(second.is_valid());
    assert_eq!(first.release().await.unwrap_err().kind(), ErrorKind::Lost);
    let next = semaphore.acquire().await.unwrap();
    assert_eq!(next.slot(), 0);
    next.release().await.unwrap();
    second.release().await.unwrap();
}

async fn the_limit_of_the_first_client_has_an_end_and_a_changed_one_has_none() {
    let server = server();
    let operator = operator(&server).await;
    // Several first clients store one limit.
    let mut clients: Vec<Client> = Vec::new();
    for _ in 0..4 {
        clients.push(connect(&server.url()).await);
    }
    let first = clients.iter().map(|client| {
        let semaphore = client.semaphore("a", 4);
        tokio::spawn(async move { semaphore.acquire().await.unwrap().release().await })
    });
    for task in first.collect::<Vec<_>>() {
        task.await.unwrap().unwrap();
    }
    let stored = keys(&operator).await;
    assert_eq!(stored.len(), 1, "{stored:?}");
    let lease = stored[0].lease;
    let left = operator.clone().lease_time_to_live(lease).await.unwrap();
    assert!(left.ttl > 3_600, "{} s", left.ttl);
    clients[0].semaphore("a", 4).set_limit(5).await.unwrap();
    let stored = keys(&operator).await;
    assert_eq!((stored.len(), stored[0].lease), (1, 0));
    drop(clients);
    // That of the first limit ends by itself.
    until("no other lease is left", || async {
        let left = operator.clone().leases().await.unwrap();
        left.leases.iter().all(|left| left.id == lease)
    })
    .await
    .unwrap();
}

async fn a_pair_is_two_reads_and_two_writes() {
    const PAIRS: usize = 50;
    let server = server();
    let client = connect(&server.url()).await;
    let semaphore = client.semaphore("a", 8).ttl(LONG);
    let _held = semaphore.acquire_many(7).await.unwrap();
    semaphore.acquire().await.unwrap().release().await.unwrap();
    let count = || {
        let requests =
            server.metric_of("grpc_server_handled_total", "grpc_method=\"Txn\"").unwrap();
        let written = server.metric("etcd_mvcc_put_total").unwrap()
            + server.metric("etcd_mvcc_delete_total").unwrap();
        (requests, written)
    };
    let before = count();
    for _ in 0..PAIRS {
        semaphore.acquire().await.unwrap().release().await.unwrap();
    }
    let after = count();
    let (requests, written) =
        ((after.0 - before.0) / PAIRS as f64, (after.1 - before.1) / PAIRS as f64);
    println!("a pair: {requests} transactions, {written} written keys");
    assert!(requests <= 3.2, "{requests} transactions for a pair");
    assert!(written <= 2.2, "{written} written keys for a pair");
}

async fn no_slot_is_held_twice_while_connections_break() {
    const LIMIT: u32 = 3;
    const HELD: u64 = 1 << 63;
    let server = server();
    let address = format!("127.0.0.1:{}", server.port()).parse::<std::net::SocketAddr>().unwrap();
    let proxy = Proxy::opaque(address).unwrap();
    let url = format!("etcd://{}", proxy.address());
    // For each slot its last token; while it is held, with the highest bit.
    let slots: Arc<[AtomicU64; LIMIT as usize]> = Arc::default();
    let wrong = Arc::new(AtomicU64::new(0));
    let mut tasks = Vec::new();
    for number in 0..6_u32 {
        let client = connect(&url).await;
        let (slots, wrong) = (slots.clone(), wrong.clone());
        tasks.push(tokio::spawn(async move {
            let semaphore = client.semaphore("a", LIMIT).ttl(secs(60));
            for round in 0..30 {
                let many = 1 + (number + round) % 3;
                let permit = semaphore.acquire_many_within(many, secs(100)).await?;
                let token = permit.token().get();
                for slot in permit.slots() {
                    let before = slots[*slot as usize].swap(token | HELD, Ordering::SeqCst);
                    wrong.fetch_add(u64::from(before >= token), Ordering::SeqCst);
                }
                tokio::time::sleep(ms(2)).await;
                for slot in permit.slots() {
                    slots[*slot as usize].store(token, Ordering::SeqCst);
                }
                permit.release().await.ok();
            }
            client.settle().await;
            Ok::<_, leasehold_core::Error>(())
        }));
    }
    while tasks.iter().any(|task| !task.is_finished()) {
        tokio::time::sleep(ms(300)).await;
        proxy.kill_connections();
    }
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    assert_eq!(wrong.load(Ordering::SeqCst), 0, "a slot held twice, or a smaller token");
    let direct = connect(&server.url()).await;
    state(&direct.semaphore("a", LIMIT), 0, 0).await;
}

async fn a_latch_has_one_lease_and_leaves_none() {
    let server = server();
    let client = connect(&server.url()).await;
    let operator = operator(&server).await;
    let latch = client.latch("a", 3);
    for party in ["one", "two", "three"] {
        latch.count_down(party).await.unwrap();
    }
    until("the leases of earlier values are revoked", || async {
        operator.clone().leases().await.unwrap().leases.len() == 1
    })
    .await
    .unwrap();
    let stored = keys(&operator).await;
    assert_eq!(stored.len(), 1);
    let left = operator.clone().lease_time_to_live(stored[0].lease).await.unwrap();
    assert!(left.ttl > 23 * 3_600, "{} s", left.ttl);
    operator.clone().lease_revoke(stored[0].lease).await.unwrap();
    assert_eq!(latch.of_generation(1).wait().await.unwrap_err().kind(), ErrorKind::Lost);
    no_lease(&operator).await;
}
