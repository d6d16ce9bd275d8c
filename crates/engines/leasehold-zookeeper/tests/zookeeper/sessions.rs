//! Sessions that end: by a pause, by a cut, by an operator.

use leasehold_conformance::holder::Process;
use leasehold_conformance::{reconnects, until};
use leasehold_core::{ErrorKind, LossReason, State};
use leasehold_test_servers::{Direction, Proxy};

use crate::{Test, connect, free, plain, secs, test, waiting};

pub(crate) const TESTS: &[Test] = &[
    test!(the_loss_is_told_while_the_session_still_keeps_the_node),
    test!(a_process_that_was_stopped_for_longer_than_its_session_has_lost),
    test!(a_client_whose_session_has_ended_goes_on_in_another),
    test!(connections_that_break_at_once_are_made_anew_with_pauses),
    test!(a_waiter_keeps_its_wait_over_the_end_of_its_session),
];

async fn the_loss_is_told_while_the_session_still_keeps_the_node() {
    let server = plain();
    let proxy = Proxy::opaque(server.address()).unwrap();
    let client = connect(&format!("zookeeper://{}?session=20s", proxy.address())).await;
    let direct = connect(&server.url()).await;
    let guard = client.lock("a").acquire().await.unwrap();
    let lock = direct.lock("a");
    let next = tokio::spawn(async move { lock.acquire_within(secs(60)).await });
    waiting(&direct, "a", 1).await;
    proxy.cut_all();
    assert_eq!(guard.lost().await, LossReason::Expired);
    assert!(!guard.is_valid());
    let status = direct.lock("a").status().await.unwrap();
    assert_eq!((status.state, status.token), (State::Held, Some(guard.token())), "told too late");
    assert!(!next.is_finished(), "the next has got in before");
    let next = next.await.unwrap().unwrap();
    assert!(next.token() > guard.token() && guard.remaining().is_zero());
    proxy.kill_connections();
    proxy.heal();
    let error = guard.release().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    assert!(next.is_valid(), "the late release touched its successor");
    next.release().await.unwrap();
    client.lock("a").acquire_within(secs(60)).await.unwrap().release().await.unwrap();
    free(&direct, "a").await;
}

async fn a_process_that_was_stopped_for_longer_than_its_session_has_lost() {
    let server = plain();
    let mut holder = Process::start(&(server.url() + "?session=6s"), "a").unwrap();
    let client = connect(&server.url()).await;
    let lock = client.lock("a");
    let next = tokio::spawn(async move { lock.acquire_within(secs(60)).await });
    waiting(&client, "a", 1).await;
    holder.stop();
    let next = next.await.unwrap().unwrap();
    holder.resume();
    assert_eq!(holder.ask("valid").unwrap(), "false", "valid while another client holds it");
    assert_eq!(holder.ask("release").unwrap(), "Lost");
    assert!(next.is_valid() && next.token().get() > holder.token);
    next.release().await.unwrap();
}

async fn a_client_whose_session_has_ended_goes_on_in_another() {
    let server = plain();
    let proxy = Proxy::opaque(server.address()).unwrap();
    let client = connect(&format!("zookeeper://{}?session=6s", proxy.address())).await;
    let direct = connect(&server.url()).await;
    let guard = client.lock("a").acquire().await.unwrap();
    proxy.refuse_connections(true).unwrap();
    proxy.kill_connections();
    free(&direct, "a").await;
    guard.lost().await;
    assert!(!guard.is_valid());
    let error = client.lock("b").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    proxy.refuse_connections(false).unwrap();
    client.lock("a").acquire_within(secs(60)).await.unwrap().release().await.unwrap();
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    free(&direct, "a").await;
}

async fn connections_that_break_at_once_are_made_anew_with_pauses() {
    let server = plain();
    let proxy = Proxy::opaque(server.address()).unwrap();
    let client = connect(&format!("zookeeper://{}?session=6s", proxy.address())).await;
    let direct = connect(&server.url()).await;
    let guard = direct.lock("a").acquire().await.unwrap();
    let lock = client.lock("a");
    let waiter = tokio::spawn(async move { lock.acquire_within(secs(100)).await });
    waiting(&direct, "a", 1).await;
    let made = reconnects(&proxy, secs(5), || proxy.bytes(Direction::ServerToClient)).await;
    assert!((2..100).contains(&made), "{made} connections in 5 s");
    guard.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
}

async fn a_waiter_keeps_its_wait_over_the_end_of_its_session() {
    let server = plain();
    let proxy = Proxy::opaque(server.address()).unwrap();
    let client = connect(&format!("zookeeper://{}?session=6s", proxy.address())).await;
    let direct = connect(&server.url()).await;
    let guard = direct.lock("a").acquire().await.unwrap();
    let lock = client.lock("a");
    let waiter = tokio::spawn(async move { lock.acquire_within(secs(100)).await });
    waiting(&direct, "a", 1).await;
    proxy.refuse_connections(true).unwrap();
    proxy.kill_connections();
    waiting(&direct, "a", 0).await;
    proxy.refuse_connections(false).unwrap();
    waiting(&direct, "a", 1).await;
    guard.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
    until("nothing is left", || async { client.usage() == Default::default() }).await.unwrap();
    free(&direct, "a").await;
}
