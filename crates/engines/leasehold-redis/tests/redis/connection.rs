//! Credentials, permissions, sockets, and connections that are cut.

use std::sync::Arc;

use leasehold_conformance::{reconnects, until};
use leasehold_core::{Client, ClientSettings, ErrorKind, State, StoreUrl};
use leasehold_test_servers::{Direction, Proxy, RedisServer, RedisSettings};

use crate::{Test, connect, plain, secs, test, try_connect};

pub(crate) const TESTS: &[Test] = &[
    test!(no_server_is_said_at_once),
    test!(a_wrong_password_is_refused_and_not_shown),
    test!(a_user_without_a_password_is_never_taken_for_the_default_user),
    test!(a_password_file_is_read),
    test!(a_user_without_rights_is_refused_and_told_which),
    test!(a_unix_socket_and_a_database_of_its_own),
    test!(a_cut_subscription_is_made_anew_and_nobody_waits_for_ever),
    test!(a_black_hole_is_left_within_the_time_limit),
    test!(a_connection_that_breaks_at_subscribe_is_made_anew_with_pauses),
    test!(everybody_in_line_hears_in_time_that_the_server_has_gone),
    test!(try_acquire_is_bounded_at_a_silent_server),
    test!(a_release_after_a_known_loss_says_lost_while_the_server_is_silent),
    test!(a_wait_that_times_out_names_the_holder),
];

async fn no_server_is_said_at_once() {
    let mut server = plain();
    let url = server.url();
    server.kill();
    let error = try_connect(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("is the server running?"), "{error}");
}

async fn a_wrong_password_is_refused_and_not_shown() {
    let server = RedisServer::start(RedisSettings::new().password("right")).unwrap();
    for (user, password) in [("default", "s3cret"), ("nobody", "s3cret")] {
        let error = try_connect(&server.url_as(user, password)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
    }
    let error = try_connect(&format!("redis://{}", server.address())).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    let client = connect(&server.url_as("default", "right")).await;
    assert!(!format!("{client:?} {}", client.place()).contains("right"));
}

async fn a_user_without_a_password_is_never_taken_for_the_default_user() {
    let open = "on nopass ~leasehold:* &leasehold:* +@all";
    let users = RedisSettings::new().user("app", crate::RIGHTS).user("open", open);
    let server = RedisServer::start(users).unwrap();
    let url = |user: &str| format!("redis://{user}@{}", server.address());
    let error = try_connect(&url("app")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert!(error.to_string().contains("wrong user or password"), "{error}");
    let client = connect(&url("open")).await;
    client.lock("a").acquire().await.unwrap().release().await.unwrap();
    let users = server.admin(&["CLIENT", "LIST"]).unwrap().text();
    assert!(users.contains("user=open"), "{users}");
}

async fn a_password_file_is_read() {
    let server = RedisServer::start(RedisSettings::new().password("right")).unwrap();
    let file = server.data().join("password");
    std::fs::write(&file, "right\n").unwrap();
    let url = format!("redis://{}?password-file={}", server.address(), file.display());
    connect(&url).await.lock("a").acquire().await.unwrap().release().await.unwrap();
}

async fn a_user_without_rights_is_refused_and_told_which() {
    let rules = "on >pw ~leasehold:* &leasehold:* +@all -set -setrange";
    let server = RedisServer::start(RedisSettings::new().user("weak", rules)).unwrap();
    let client = connect(&server.url_as("weak", "pw")).await;
    let error = client.lock("a").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    let rules = "on >pw ~leasehold:* resetchannels +@all";
    let server = RedisServer::start(RedisSettings::new().user("mute", rules)).unwrap();
    let error = try_connect(&server.url_as("mute", "pw")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
}

async fn a_unix_socket_and_a_database_of_its_own() {
    let server = plain();
    let unix = format!("redis+unix:{}?db=3", server.socket().display());
    let (unix, tcp) = (connect(&unix).await, connect(&server.url()).await);
    let guard = unix.lock("a").acquire().await.unwrap();
    let other = tcp.lock("a").try_acquire().await.unwrap();
    other.expect("another database is another store").release().await.unwrap();
    guard.release().await.unwrap();
}

async fn a_cut_subscription_is_made_anew_and_nobody_waits_for_ever() {
    let server = plain();
    let proxy = Proxy::start(&server).unwrap();
    let (client, direct) = (connect(&proxy.url()).await, connect(&server.url()).await);
    let held = direct.lock("a").ttl(secs(60)).acquire().await.unwrap();
    let lock = client.lock("a");
    let waiting = tokio::spawn(async move { lock.acquire_within(secs(30)).await });
    until("it stands in line", || async {
        direct.lock("a").status().await.unwrap().waiters.unwrap().len() == 1
    })
    .await
    .unwrap();
    proxy.kill_connections();
    held.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    assert_eq!(direct.lock("a").status().await.unwrap().waiters.unwrap().len(), 0);
}

async fn a_black_hole_is_left_within_the_time_limit() {
    let server = plain();
    let proxy = Proxy::start(&server).unwrap();
    let client = connect(&proxy.url()).await;
    client.lock("a").acquire().await.unwrap().release().await.unwrap();
    proxy.cut(Direction::ServerToClient);
    let lock = client.lock("a").ttl(secs(1));
    let asking = tokio::spawn(async move { lock.acquire_within(secs(30)).await });
    until("the connection is given up for another", || async { proxy.connections_made() > 1 })
        .await
        .unwrap();
    proxy.heal();
    drop(asking.await.unwrap().unwrap());
    // Also if the answer to the release is lost with a connection that was made meanwhile.
    until("it is released", || async {
        client.lock("a").status().await.is_ok_and(|status| status.state == State::Free)
    })
    .await
    .unwrap();
}

async fn a_connection_that_breaks_at_subscribe_is_made_anew_with_pauses() {
    let server = plain();
    let proxy = Proxy::start(&server).unwrap();
    let client = connect(&proxy.url()).await;
    client.lock("a").acquire().await.unwrap().release().await.unwrap();
    let subscribed = || proxy.commands().get("SUBSCRIBE").copied().unwrap_or_default();
    // Pauses that double from 20 ms to 1 s take half of that on average.
    let made = reconnects(&proxy, secs(5), subscribed).await;
    assert!((3..60).contains(&made), "{made} connections in 5 s");
    // A connection that lasts is used.
    client.lock("a").acquire_within(secs(20)).await.unwrap().release().await.unwrap();
}

async fn everybody_in_line_hears_in_time_that_the_server_has_gone() {
    let mut server = plain();
    let url = StoreUrl::parse(&server.url()).unwrap();
    let backend = Arc::new(leasehold_redis::connect(url).await.unwrap());
    let client = Client::with_settings(backend, ClientSettings::new().patience(secs(2))).unwrap();
    let _held = connect(&server.url()).await.lock("a").ttl(secs(300)).acquire().await.unwrap();
    let lock = client.lock("a");
    let waiting: Vec<_> = (0..30)
        .map(|_| lock.clone())
        .map(|lock| tokio::spawn(async move { lock.acquire().await }))
        .collect();
    until("they stand in line", || async {
        let queue = server.admin(&["ZCARD", "leasehold:{a}:q"]).unwrap();
        queue.integer() == Some(1) && client.usage().waiting == 30
    })
    .await
    .unwrap();
    server.kill();
    // One after the other would take a minute.
    let all = async {
        for waiting in waiting {
            assert_eq!(waiting.await.unwrap().unwrap_err().kind(), ErrorKind::Unavailable);
        }
    };
    tokio::time::timeout(secs(30), all).await.expect("they wait for each other's patience to end");
}

/// The bound is 2 s; without it the limit was the client's patience of 10 s.
async fn try_acquire_is_bounded_at_a_silent_server() {
    let server = plain();
    let client = connect(&server.url()).await;
    server.stop().unwrap();
    let lock = client.lock("a");
    let tried = tokio::time::timeout(secs(7), lock.try_acquire()).await;
    let error = tried.expect("it waits as one that waits does").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    server.resume().unwrap();
    client.settle().await;
    assert_eq!(lock.status().await.unwrap().state, State::Free, "a late grant was kept");
}

async fn a_release_after_a_known_loss_says_lost_while_the_server_is_silent() {
    let server = plain();
    let client = connect(&server.url()).await;
    let guard = client.lock("a").ttl(secs(1)).acquire().await.unwrap();
    server.stop().unwrap();
    guard.lost().await;
    let error = guard.release().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    server.resume().unwrap();
}

async fn a_wait_that_times_out_names_the_holder() {
    let server = plain();
    let (one, two) = (connect(&server.url()).await, connect(&server.url()).await);
    let held = one.lock("a").acquire().await.unwrap();
    let error = two.lock("a").acquire_within(crate::ms(200)).await.unwrap_err();
    let holder = two.lock("a").status().await.unwrap().holder.unwrap();
    let text = error.to_string();
    assert!(text.starts_with("acquire a: timed out after 200ms waiting for the lock"), "{text}");
    assert!(text.contains(&format!("held by {}/{}", holder.host, holder.pid)), "{text}");
    held.release().await.unwrap();
}
