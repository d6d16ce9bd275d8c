//! Requests and replies that are lost with their connection.

use std::pin::pin;

use leasehold_conformance::{Raw, until};
use leasehold_core::backend::{AcquireRequest, Answer, Event};
use leasehold_core::{Client, ErrorKind, Name, State};
use leasehold_test_servers::{Direction, Proxy, ZooKeeperServer};

use zookeeper_client::{Acl, Acls, AuthId, Client as ZooKeeper, CreateMode, Permission, Stat};

use crate::{Test, connect, free, ms, plain, secs, test, waiting, waits};

pub(crate) const TESTS: &[Test] = &[
    test!(a_seat_whose_creation_was_not_answered_is_found_again),
    test!(a_creation_that_never_arrived_is_sent_again),
    test!(a_creation_that_arrives_after_its_repetition_is_removed),
    test!(a_creation_that_arrives_after_its_attempt_has_ended_is_removed),
    test!(a_creation_that_arrives_after_an_end_on_a_new_connection_is_removed),
    test!(a_search_for_late_nodes_that_the_server_refuses_ends),
    test!(a_failed_removal_of_a_late_node_is_tried_again),
    test!(a_node_of_another_session_is_removed_and_never_claimed),
    test!(a_creation_that_was_given_up_leaves_no_node),
    test!(a_release_that_was_not_answered_is_finished),
    test!(a_waiter_whose_connection_was_cut_is_told),
    test!(a_session_that_has_moved_leaves_no_node_behind),
    test!(a_release_that_was_dropped_half_way_is_finished),
    test!(a_lease_that_nobody_renews_ends_in_its_own_time),
];

/// A server, a client behind a proxy, and one that sees it directly.
async fn set_up() -> (ZooKeeperServer, Proxy, Client, Client) {
    let server = plain();
    let proxy = Proxy::opaque(server.address()).unwrap();
    let client = connect(&format!("zookeeper://{}?session=20s", proxy.address())).await;
    let direct = connect(&server.url()).await;
    // The parents are there before.
    direct.lock("a").acquire().await.unwrap().release().await.unwrap();
    (server, proxy, client, direct)
}

async fn held(direct: &Client) {
    until("the node is there", || async {
        direct.lock("a").status().await.is_ok_and(|status| status.state == State::Held)
    })
    .await
    .unwrap();
}

async fn a_seat_whose_creation_was_not_answered_is_found_again() {
    let (_server, proxy, client, direct) = set_up().await;
    proxy.cut(Direction::ServerToClient);
    let lock = client.lock("a");
    let asking = tokio::spawn(async move { lock.acquire_within(secs(60)).await });
    held(&direct).await;
    let token = direct.lock("a").status().await.unwrap().token;
    proxy.kill_connections();
    proxy.heal();
    let guard = asking.await.unwrap().unwrap();
    assert_eq!(Some(guard.token()), token, "another node was made");
    let status = direct.lock("a").status().await.unwrap();
    assert_eq!(status.waiters.unwrap().len(), 0, "an orphan stands in line");
    guard.release().await.unwrap();
    free(&direct, "a").await;
}

async fn a_creation_that_never_arrived_is_sent_again() {
    let (_server, proxy, client, direct) = set_up().await;
    proxy.cut(Direction::ClientToServer);
    let lock = client.lock("a");
    let asking = tokio::spawn(async move { lock.acquire_within(secs(60)).await });
    until("it asks", || async { client.usage().waiting == 1 }).await.unwrap();
    proxy.kill_connections();
    proxy.heal();
    let guard = asking.await.unwrap().unwrap();
    let status = direct.lock("a").status().await.unwrap();
    assert_eq!((status.token, status.waiters.unwrap().len()), (Some(guard.token()), 0));
    guard.release().await.unwrap();
    free(&direct, "a").await;
}

/// The path of an attempt's nodes, without their number.
fn path_of(request: &AcquireRequest) -> String {
    let id = request.attempt.to_string();
    let parts = [&id[..8], &id[8..12], &id[12..16], &id[16..20], &id[20..]];
    format!("/leasehold/a/_c_{}-lock-", parts.join("-"))
}

/// Creates a node of the attempt in another session, and returns its path.
async fn create_node(
    other: &ZooKeeper,
    request: &AcquireRequest,
    mode: CreateMode,
) -> (Stat, String) {
    let path = path_of(request);
    let options = mode.with_acls(Acls::anyone_all());
    let (stat, number) = other.create(&path, b"", &options).await.unwrap();
    (stat, format!("{path}{number}"))
}

async fn create_late(other: &ZooKeeper, request: &AcquireRequest) -> (Stat, String) {
    create_node(other, request, CreateMode::EphemeralSequential).await
}

/// Asks with a new attempt whose creation is sent and lost with its connection.
async fn lose_creation(raw: &mut Raw, proxy: &Proxy) -> AcquireRequest {
    loop {
        let name = Name::new("b").unwrap();
        until("it is connected", || async { raw.backend.status(&name).await.is_ok() })
            .await
            .unwrap();
        let request = waits(raw);
        proxy.cut(Direction::ClientToServer);
        let mut asking = pin!(raw.backend.acquire(request.clone()));
        // The first poll sends it to the client library, which needs a moment to write it.
        let early = tokio::time::timeout(ms(100), &mut asking).await;
        proxy.kill_connections();
        proxy.heal();
        let is_lost = match early {
            Ok(_) => false, // The connection had broken before.
            Err(_) => asking.await.is_err(),
        };
        if is_lost {
            return request;
        }
        // The library wrote it to the next connection.
        until("it is ended", || async { raw.backend.release(raw.end(&request)).await.is_ok() })
            .await
            .unwrap();
    }
}

async fn a_creation_that_arrives_after_its_repetition_is_removed() {
    let (server, proxy, _, direct) = set_up().await;
    let mut raw = crate::raw(&format!("zookeeper://{}?session=60s", proxy.address()), 7).await;
    let request = lose_creation(&mut raw, &proxy).await;
    until("it is granted", || async {
        matches!(raw.backend.acquire(request.clone()).await, Ok(Answer::Granted(_)))
    })
    .await
    .unwrap();
    // No search is answered before the node is there.
    proxy.cut(Direction::ClientToServer);
    let held = direct.lock("a").status().await.unwrap();
    // The first creation arrives. Its node is last in line, and would block the lock at its turn.
    let other = ZooKeeper::connect(&server.address().to_string()).await.unwrap();
    let (_, late) = create_late(&other, &request).await;
    proxy.heal();
    until("the second node is removed", || async {
        other.check_stat(&late).await.unwrap().is_none()
    })
    .await
    .unwrap();
    let status = direct.lock("a").status().await.unwrap();
    assert_eq!(status.token, held.token, "the node of the lease was removed");
    raw.backend.release(raw.end(&request)).await.unwrap();
    free(&direct, "a").await;
}

async fn a_creation_that_arrives_after_its_attempt_has_ended_is_removed() {
    let (server, proxy, _, direct) = set_up().await;
    let mut raw = crate::raw(&format!("zookeeper://{}?session=20s", proxy.address()), 7).await;
    let request = lose_creation(&mut raw, &proxy).await;
    until("it is ended", || async { raw.backend.release(raw.end(&request)).await.is_ok() })
        .await
        .unwrap();
    // No search is answered before the node is there.
    proxy.cut(Direction::ClientToServer);
    let other = ZooKeeper::connect(&server.address().to_string()).await.unwrap();
    create_late(&other, &request).await;
    proxy.heal();
    free(&direct, "a").await;
}

async fn a_creation_that_arrives_after_an_end_on_a_new_connection_is_removed() {
    let (server, proxy, _, direct) = set_up().await;
    let mut raw = crate::raw(&format!("zookeeper://{}?session=20s", proxy.address()), 7).await;
    let request = lose_creation(&mut raw, &proxy).await;
    let name = Name::new("b").unwrap();
    until("it is connected", || async { raw.backend.status(&name).await.is_ok() }).await.unwrap();
    // The first release succeeds: no other work wakes the search.
    raw.backend.release(raw.end(&request)).await.unwrap();
    // No search is answered before the node is there.
    proxy.cut(Direction::ClientToServer);
    let other = ZooKeeper::connect(&server.address().to_string()).await.unwrap();
    create_late(&other, &request).await;
    proxy.heal();
    free(&direct, "a").await;
}

async fn a_search_for_late_nodes_that_the_server_refuses_ends() {
    let (server, proxy, _, _) = set_up().await;
    let mut raw = crate::raw(&format!("zookeeper://{}?session=60s", proxy.address()), 7).await;
    let request = lose_creation(&mut raw, &proxy).await;
    let other = ZooKeeper::connect(&server.address().to_string()).await.unwrap();
    let no_read = [Acl::new(Permission::CREATE | Permission::DELETE, AuthId::anyone())];
    other.set_acl("/leasehold/a", &no_read, None).await.unwrap();
    until("it is ended", || async {
        let released = raw.backend.release(raw.end(&request)).await;
        released.map_or_else(|error| error.kind() == ErrorKind::Refused, |_| true)
    })
    .await
    .unwrap();
    let sent = || proxy.bytes(Direction::ClientToServer);
    // In 5 s, a client without work sends five pings of 12 bytes. A search has 57 bytes, and would be repeated
    // every second.
    until("the client has stopped the search", || async {
        let before = sent();
        tokio::time::sleep(secs(5)).await;
        sent() - before < 100
    })
    .await
    .unwrap();
}

async fn a_failed_removal_of_a_late_node_is_tried_again() {
    let (server, proxy, _, direct) = set_up().await;
    let mut raw = crate::raw(&format!("zookeeper://{}?session=60s", proxy.address()), 7).await;
    let request = lose_creation(&mut raw, &proxy).await;
    until("it is ended", || async { raw.backend.release(raw.end(&request)).await.is_ok() })
        .await
        .unwrap();
    // No search is answered before the node is there.
    proxy.cut(Direction::ClientToServer);
    let other = ZooKeeper::connect(&server.address().to_string()).await.unwrap();
    // The server removes no node that has a child.
    let (_, late) = create_node(&other, &request, CreateMode::PersistentSequential).await;
    let child = format!("{late}/child");
    let ephemeral = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
    other.create(&child, b"", &ephemeral).await.unwrap();
    proxy.heal();
    // The client searches every second, three times if nothing fails.
    tokio::time::sleep(secs(5)).await;
    assert!(other.check_stat(&late).await.unwrap().is_some());
    other.delete(&child, None).await.unwrap();
    free(&direct, "a").await;
}

async fn a_node_of_another_session_is_removed_and_never_claimed() {
    let (server, proxy, _, direct) = set_up().await;
    let mut raw = crate::raw(&format!("zookeeper://{}?session=20s", proxy.address()), 7).await;
    let request = lose_creation(&mut raw, &proxy).await;
    // As an earlier session of the same program would have left it.
    let other = ZooKeeper::connect(&server.address().to_string()).await.unwrap();
    let (theirs, _) = create_late(&other, &request).await;
    let mut granted = None;
    until("it is granted", || async {
        matches!(raw.backend.acquire(request.clone()).await, Ok(Answer::Granted(_)))
    })
    .await
    .unwrap();
    if let Answer::Granted(grant) = raw.backend.acquire(request.clone()).await.unwrap() {
        granted = Some(grant.tokens.base().get());
    }
    assert!(granted.is_some_and(|token| token > theirs.czxid as u64), "{granted:?}");
    assert_eq!(other.list_children("/leasehold/a").await.unwrap().len(), 1);
    assert_eq!(direct.lock("a").status().await.unwrap().token.map(|t| t.get()), granted);
}

async fn a_creation_that_was_given_up_leaves_no_node() {
    let (_server, proxy, client, direct) = set_up().await;
    proxy.cut(Direction::ServerToClient);
    let error = client.lock("a").acquire_within(ms(200)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    held(&direct).await;
    proxy.kill_connections();
    proxy.heal();
    // The session goes on, and would keep the node.
    free(&direct, "a").await;
    client.lock("a").acquire().await.unwrap().release().await.unwrap();
}

async fn a_release_that_was_not_answered_is_finished() {
    let (_server, proxy, client, direct) = set_up().await;
    for direction in [Direction::ServerToClient, Direction::ClientToServer] {
        let guard = client.lock("a").acquire().await.unwrap();
        proxy.cut(direction);
        let releasing = tokio::spawn(guard.release());
        tokio::task::yield_now().await;
        proxy.kill_connections();
        proxy.heal();
        if let Err(error) = releasing.await.unwrap() {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        }
        free(&direct, "a").await;
    }
}

async fn a_waiter_whose_connection_was_cut_is_told() {
    let (_server, proxy, client, direct) = set_up().await;
    let guard = direct.lock("a").acquire().await.unwrap();
    let lock = client.lock("a");
    let asking = tokio::spawn(async move { lock.acquire_within(secs(60)).await });
    waiting(&direct, "a", 1).await;
    proxy.cut_all();
    guard.release().await.unwrap();
    proxy.kill_connections();
    proxy.heal();
    asking.await.unwrap().unwrap().release().await.unwrap();
    free(&direct, "a").await;
}

async fn a_session_that_has_moved_leaves_no_node_behind() {
    let server = plain();
    let ways = [(); 2].map(|()| Proxy::opaque(server.address()).unwrap());
    let url = format!("zookeeper://{},{}?session=20s", ways[0].address(), ways[1].address());
    let (client, direct) = (connect(&url).await, connect(&server.url()).await);
    client.lock("a").acquire().await.unwrap().release().await.unwrap();
    // The creation arrives and its answer is lost, or it arrives when the session is elsewhere.
    for direction in [Direction::ServerToClient, Direction::ClientToServer] {
        let old = ways.iter().find(|way| !way.connections().is_empty()).unwrap();
        let before: Vec<u64> = old.connections().iter().map(|connection| connection.id).collect();
        old.cut(direction);
        let guard = client.lock("a").acquire_within(secs(60)).await.unwrap();
        old.heal();
        // What was withheld has arrived then. On a slow machine the session may come back this way.
        until("the old connection is closed", || async {
            old.connections().iter().all(|connection| !before.contains(&connection.id))
        })
        .await
        .unwrap();
        // A creation that arrives last of all is removed within a few seconds.
        waiting(&direct, "a", 0).await;
        let status = direct.lock("a").status().await.unwrap();
        assert_eq!(status.token, Some(guard.token()));
        // One whose answer is lost with a connection is seen through in the background.
        guard.release().await.ok();
        free(&direct, "a").await;
    }
}

async fn a_release_that_was_dropped_half_way_is_finished() {
    let (_server, proxy, _, direct) = set_up().await;
    let mut raw = crate::raw(&format!("zookeeper://{}?session=60s", proxy.address()), 7).await;
    let request = waits(&mut raw);
    proxy.cut(Direction::ServerToClient);
    let (backend, asked) = (raw.backend.clone(), request.clone());
    let asking = tokio::spawn(async move { backend.acquire(asked).await });
    held(&direct).await;
    asking.abort();
    let release = raw.end(&request).with_suspect(true);
    // It looks for the node, and is not told what there is.
    let half = tokio::time::timeout(ms(50), raw.backend.release(release)).await;
    assert!(half.is_err(), "{half:?}");
    proxy.heal();
    free(&direct, "a").await;
}

async fn a_lease_that_nobody_renews_ends_in_its_own_time() {
    let (server, _proxy, _, direct) = set_up().await;
    let mut raw = crate::raw(&(server.url() + "?session=60s"), 7).await;
    // The second ends first.
    for (name, ttl) in [("long", secs(30)), ("a", ms(500))] {
        let mut request = waits(&mut raw).with_ttl(ttl);
        request.name = Name::new(name).unwrap();
        let answer = raw.backend.acquire(request.clone()).await.unwrap();
        assert!(matches!(answer, Answer::Granted(_)), "{answer:?}");
        if name == "a" {
            free(&direct, "a").await;
            let told = raw.events.recv().await;
            assert!(
                matches!(told, Some(Event::Lost { attempt, .. }) if attempt == request.attempt),
                "{told:?}"
            );
        }
    }
    assert_eq!(direct.lock("long").status().await.unwrap().state, State::Held);
}
