//! Streams and replies that are cut, and revisions that are gone when a stream is opened again.

use leasehold_conformance::{reconnects, until};
use leasehold_core::{Client, State};
use leasehold_test_servers::{Direction, EtcdServer, Proxy};

use crate::{Test, connect, ms, no_lease, operator, secs, server, test, watched};

pub(crate) const TESTS: &[Test] = &[
    test!(a_cut_stream_of_keep_alives_is_opened_again),
    test!(a_push_is_not_lost_with_its_stream),
    test!(a_compaction_hides_no_push),
    test!(all_watches_are_made_again_after_a_cut),
    test!(a_hand_off_leaves_no_watch_on_the_server),
    test!(who_gives_up_leaves_no_watch_on_the_server),
    test!(a_key_that_was_put_twice_leaves_no_lease_for_others),
    test!(a_lost_reply_to_the_grant_is_the_same_lease),
    test!(a_lost_reply_to_a_release_is_no_loss),
    test!(what_is_given_up_while_the_server_is_silent_leaves_nothing),
    test!(streams_that_break_at_once_are_opened_again_with_pauses),
    test!(a_restarted_server_has_kept_the_locks),
];

async fn through(server: &EtcdServer) -> (Proxy, Client) {
    let address = format!("127.0.0.1:{}", server.port()).parse::<std::net::SocketAddr>().unwrap();
    let proxy = Proxy::opaque(address).unwrap();
    let client = connect(&format!("etcd://{}", proxy.address())).await;
    (proxy, client)
}

async fn waits(client: &Client, name: &str) {
    until("a client waits", || async {
        let waiters = client.lock(name).status().await.unwrap().waiters;
        waiters.is_some_and(|waiters| waiters.len() == 1)
    })
    .await
    .unwrap();
}

async fn a_cut_stream_of_keep_alives_is_opened_again() {
    let server = server();
    let (proxy, client) = through(&server).await;
    let guard = client.lock("a").ttl(secs(60)).renew_after(secs(1)).acquire().await.unwrap();
    let first = guard.deadline();
    until("it is renewed", || async { guard.deadline() != first }).await.unwrap();
    for _ in 0..2 {
        let before = guard.deadline();
        proxy.kill_connections();
        until("it is renewed again", || async { guard.deadline() != before }).await.unwrap();
    }
    assert!(guard.is_valid());
    guard.release().await.unwrap();
}

async fn a_push_is_not_lost_with_its_stream() {
    let server = server();
    let holder = connect(&server.url()).await;
    let (proxy, client) = through(&server).await;
    let guard = holder.lock("a").acquire().await.unwrap();
    let lock = client.lock("a");
    let waiting = tokio::spawn(async move { lock.acquire_within(secs(60)).await });
    waits(&holder, "a").await;
    proxy.refuse_connections(true).unwrap();
    proxy.kill_connections();
    guard.release().await.unwrap();
    proxy.refuse_connections(false).unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

async fn a_compaction_hides_no_push() {
    let server = server();
    let holder = connect(&server.url()).await;
    let (proxy, client) = through(&server).await;
    let guard = holder.lock("a").acquire().await.unwrap();
    let own = client.lock("own").ttl(secs(3_600)).acquire().await.unwrap();
    let lock = client.lock("a");
    let waiting = tokio::spawn(async move { lock.acquire_within(secs(60)).await });
    waits(&holder, "a").await;
    // The two that are held are watched too, by who holds them.
    watched(&server, 3).await;
    proxy.refuse_connections(true).unwrap();
    proxy.kill_connections();
    guard.release().await.unwrap();
    let operator = operator(&server).await;
    let revision = operator.put("junk", "", None).await.unwrap();
    let revision = revision.header.unwrap().revision;
    operator.compact(revision).await.unwrap();
    proxy.refuse_connections(false).unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    assert!(own.is_valid(), "a compaction is no loss");
    // No renewal is due for twenty minutes: the watch has been made again.
    holder.lock("own").force_release(own.token()).await.unwrap();
    own.lost().await;
}

async fn all_watches_are_made_again_after_a_cut() {
    let server = server();
    let holder = connect(&server.url()).await;
    let (proxy, client) = through(&server).await;
    let mut held = Vec::new();
    let mut waiting = Vec::new();
    for name in ["a", "b", "c"] {
        held.push(holder.lock(name).ttl(LONG).acquire().await.unwrap());
        let lock = client.lock(name).ttl(LONG);
        waiting.push(tokio::spawn(async move { lock.acquire_within(secs(60)).await }));
        waits(&holder, name).await;
    }
    // The three before those who wait, and by who holds them, their own.
    watched(&server, 6).await;
    proxy.refuse_connections(true).unwrap();
    proxy.kill_connections();
    watched(&server, 3).await;
    proxy.refuse_connections(false).unwrap();
    watched(&server, 6).await;
    for (guard, waiting) in held.into_iter().zip(waiting) {
        guard.release().await.unwrap();
        waiting.await.unwrap().unwrap().release().await.unwrap();
    }
}

async fn who_gives_up_leaves_no_watch_on_the_server() {
    let server = server();
    let (holder, client) = (connect(&server.url()).await, connect(&server.url()).await);
    let _held = holder.lock("a").ttl(LONG).acquire().await.unwrap();
    watched(&server, 1).await;
    for _ in 0..3 {
        let lock = client.lock("a").ttl(LONG);
        let waiting = tokio::spawn(async move { lock.acquire().await });
        watched(&server, 2).await;
        waiting.abort();
        watched(&server, 1).await;
    }
}

async fn a_hand_off_leaves_no_watch_on_the_server() {
    let server = server();
    let clients = [connect(&server.url()).await, connect(&server.url()).await];
    let watches = || server.metric("etcd_debugging_mvcc_watcher_total").unwrap();
    let before = watches();
    let mut guard = clients[0].lock("a").acquire().await.unwrap();
    for turn in 1..=20 {
        let lock = clients[turn % 2].lock("a");
        let waiting = tokio::spawn(async move { lock.acquire_within(secs(60)).await });
        waits(&clients[0], "a").await;
        guard.release().await.unwrap();
        guard = waiting.await.unwrap().unwrap();
    }
    guard.release().await.unwrap();
    until("all watches are gone", || async { watches() <= before }).await.unwrap();
}

/// Two ways to one server, of which the client has used the first.
async fn by_two_ways(server: &EtcdServer) -> (Proxy, Proxy, Client) {
    let address = format!("127.0.0.1:{}", server.port()).parse::<std::net::SocketAddr>().unwrap();
    let [one, two] = [(); 2].map(|()| Proxy::opaque(address).unwrap());
    let client = connect(&format!("etcd://{},{}", one.address(), two.address())).await;
    client.lock("a").ttl(LONG).acquire().await.unwrap().release().await.unwrap();
    let sent = |proxy: &Proxy| proxy.bytes(Direction::ClientToServer);
    if sent(&one) > sent(&two) { (one, two, client) } else { (two, one, client) }
}

/// So that no keep-alive is needed, only what puts the key.
const LONG: std::time::Duration = std::time::Duration::from_secs(600);

async fn a_key_that_was_put_twice_leaves_no_lease_for_others() {
    let server = server();
    let operator = operator(&server).await;
    for taken in [false, true] {
        let (slow, _other, client) = by_two_ways(&server).await;
        let holder = connect(&server.url()).await;
        let held = match taken {
            true => Some(holder.lock("a").ttl(LONG).acquire().await.unwrap()),
            false => None,
        };
        slow.cut(Direction::ClientToServer);
        let guard = client.lock("a").ttl(LONG).try_acquire().await.unwrap();
        assert_eq!(guard.is_none(), taken);
        if let Some(guard) = guard {
            guard.release().await.unwrap();
        }
        // What is still on its way would be put under it. The holder's own stays.
        until("its lease is gone", || async {
            operator.clone().leases().await.unwrap().leases.len() == usize::from(taken)
        })
        .await
        .unwrap();
        if let Some(guard) = held {
            guard.release().await.unwrap();
        }
        slow.heal();
        client.lock("b").ttl(LONG).acquire().await.unwrap().release().await.unwrap();
        let all = Some(leasehold_etcd_api::GetOptions::new().with_prefix());
        let keys = operator.get("leasehold/", all).await.unwrap();
        assert!(keys.kvs.is_empty(), "{:?}", keys.kvs);
        drop((client, holder));
        no_lease(&operator).await;
    }
}

async fn a_lost_reply_to_the_grant_is_the_same_lease() {
    let server = server();
    let watcher = connect(&server.url()).await;
    let (proxy, client) = through(&server).await;
    // The lease is there already, so that what is lost is the reply to the key.
    client.lock("a").ttl(secs(30)).acquire().await.unwrap().release().await.unwrap();
    proxy.cut(Direction::ServerToClient);
    let lock = client.lock("a").ttl(secs(30));
    let asking = tokio::spawn(async move { lock.acquire_within(secs(60)).await });
    until("the key is there", || async {
        watcher.lock("a").status().await.unwrap().state == State::Held
    })
    .await
    .unwrap();
    let token = watcher.lock("a").status().await.unwrap().token.unwrap();
    proxy.kill_connections();
    proxy.heal();
    let guard = asking.await.unwrap().unwrap();
    assert_eq!(guard.token(), token, "another lease");
    guard.release().await.unwrap();
    assert_eq!(watcher.lock("a").status().await.unwrap().state, State::Free);
}

async fn a_lost_reply_to_a_release_is_no_loss() {
    let server = server();
    let watcher = connect(&server.url()).await;
    let (proxy, client) = through(&server).await;
    let guard = client.lock("a").acquire().await.unwrap();
    proxy.cut(Direction::ServerToClient);
    let releasing = tokio::spawn(guard.release());
    until("it is released", || async {
        watcher.lock("a").status().await.unwrap().state == State::Free
    })
    .await
    .unwrap();
    proxy.kill_connections();
    proxy.heal();
    // It may be told that nothing was heard, never that the lock was lost.
    let told = releasing.await.unwrap();
    let kind = told.err().map(|error| error.kind());
    assert!(matches!(kind, None | Some(leasehold_core::ErrorKind::Unavailable)), "{kind:?}");
    client.settle().await;
    let next = watcher.lock("a").acquire().await.unwrap();
    assert!(next.is_valid());
}

async fn what_is_given_up_while_the_server_is_silent_leaves_nothing() {
    let server = server();
    let watcher = connect(&server.url()).await;
    let (proxy, client) = through(&server).await;
    client.lock("a").acquire().await.unwrap().release().await.unwrap();
    proxy.cut(Direction::ServerToClient);
    let lock = client.lock("a");
    let given_up = lock.acquire_within(ms(300)).await;
    assert!(given_up.is_err());
    proxy.kill_connections();
    proxy.heal();
    client.settle().await;
    let status = watcher.lock("a").status().await.unwrap();
    assert_eq!(status.state, State::Free, "{status:?}");
}

async fn streams_that_break_at_once_are_opened_again_with_pauses() {
    let server = server();
    let holder = connect(&server.url()).await;
    let (proxy, client) = through(&server).await;
    let guard = holder.lock("a").ttl(secs(600)).acquire().await.unwrap();
    let lock = client.lock("a");
    let waiting = tokio::spawn(async move { lock.acquire_within(secs(90)).await });
    waits(&holder, "a").await;
    let made = reconnects(&proxy, secs(5), || proxy.bytes(Direction::ServerToClient)).await;
    assert!((2..100).contains(&made), "{made} connections in 5 s");
    guard.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

async fn a_restarted_server_has_kept_the_locks() {
    let mut server = server();
    let client = connect(&server.url()).await;
    let guard = client.lock("a").ttl(secs(60)).renew_after(secs(1)).acquire().await.unwrap();
    let token = guard.token();
    let lock = client.lock("a").ttl(secs(60));
    let waiting = tokio::spawn(async move { lock.acquire_within(secs(60)).await });
    waits(&client, "a").await;
    server.kill();
    server.start_again().unwrap();
    let before = guard.deadline();
    until("it is renewed", || async { guard.deadline() != before }).await.unwrap();
    guard.release().await.unwrap();
    let next = waiting.await.unwrap().unwrap();
    assert!(next.token() > token);
    next.release().await.unwrap();
}
