//! Replies lost, requests repeated and delayed, on the wire.

use leasehold_conformance::{force_release_is_pushed, until};
use leasehold_core::backend::{Answer, Event, Term};
use leasehold_core::clock::Clock;
use leasehold_core::{ErrorKind, State};
use leasehold_test_servers::{Pattern, Proxy};

use crate::side::{Side, release, unheard};
use crate::{Test, connect, ms, plain, secs, test};

pub(crate) const TESTS: &[Test] = &[
    test!(a_swallowed_reply_to_an_acquire_gives_the_same_lease),
    test!(a_swallowed_reply_to_a_release_is_seen_through),
    test!(a_swallowed_reply_to_a_renewal_is_not_a_loss),
    test!(a_repeated_acquire_is_one_lease),
    test!(a_repeated_release_is_released_and_not_lost),
    test!(an_acquire_delayed_past_its_end_holds_nothing),
    test!(an_ask_given_up_before_there_was_a_record_gets_nothing),
    test!(a_release_delayed_past_a_successor_leaves_it_alone),
    test!(waiters_whose_pushes_vanish_get_the_lock),
    test!(an_ending_that_was_never_answered_is_no_waiter_any_more),
    test!(a_lease_that_nobody_has_is_ended_when_somebody_wants_it),
    test!(force_release_reaches_the_holder_at_once),
];

/// Scripts are called by their hash, so the lock's key identifies a request.
fn about(name: &str) -> Pattern {
    Pattern::command("EVALSHA").and(&*format!("{{{name}}}"))
}

async fn a_swallowed_reply_to_an_acquire_gives_the_same_lease() {
    let server = plain();
    let proxy = Proxy::start(&server).unwrap();
    let client = connect(&proxy.url()).await;
    let shot = proxy.reset_at_reply_to(about("a"));
    let guard = client.lock("a").ttl(secs(30)).acquire().await.unwrap();
    assert!(shot.happened(), "it went another way");
    let direct = connect(&server.url()).await;
    let status = direct.lock("a").status().await.unwrap();
    assert_eq!(status.token, Some(guard.token()));
    assert_eq!(status.holder.unwrap().attempt, guard.attempt());
    guard.release().await.unwrap();
    assert_eq!(direct.lock("a").status().await.unwrap().state, State::Free);
}

async fn a_swallowed_reply_to_a_release_is_seen_through() {
    let server = plain();
    let proxy = Proxy::start(&server).unwrap();
    let client = connect(&proxy.url()).await;
    let guard = client.lock("a").ttl(secs(30)).acquire().await.unwrap();
    let shot = proxy.reset_at_reply_to(about("a"));
    let kind = guard.release().await.unwrap_err().kind();
    assert_eq!(kind, ErrorKind::Unavailable, "unknown is not lost");
    assert!(shot.happened());
    client.settle().await;
    let direct = connect(&server.url()).await;
    assert_eq!(direct.lock("a").status().await.unwrap().state, State::Free);
}

async fn a_swallowed_reply_to_a_renewal_is_not_a_loss() {
    let server = plain();
    let proxy = Proxy::start(&server).unwrap();
    let client = connect(&proxy.url()).await;
    let guard = client.lock("a").ttl(secs(3)).acquire().await.unwrap();
    let shot = proxy.reset_at_reply_to(about("a"));
    until("a renewal is cut", || async { shot.happened() }).await.unwrap();
    let before = guard.deadline();
    until("the next one comes through", || async { guard.deadline() != before }).await.unwrap();
    assert!(guard.is_valid());
    guard.release().await.unwrap();
}

async fn a_repeated_acquire_is_one_lease() {
    let server = plain();
    let proxy = Proxy::start(&server).unwrap();
    let client = connect(&proxy.url()).await;
    let shot = proxy.duplicate(about("a"));
    let guard = client.lock("a").acquire().await.unwrap();
    until("it was repeated", || async { shot.happened() }).await.unwrap();
    guard.release().await.unwrap();
    let direct = connect(&server.url()).await;
    assert_eq!(direct.lock("a").status().await.unwrap().state, State::Free);
}

async fn a_repeated_release_is_released_and_not_lost() {
    let server = plain();
    let proxy = Proxy::start(&server).unwrap();
    let client = connect(&proxy.url()).await;
    let guard = client.lock("a").acquire().await.unwrap();
    proxy.duplicate(about("a"));
    guard.release().await.unwrap();
    let next = client.lock("a").acquire().await.unwrap();
    next.release().await.unwrap();
}

async fn an_acquire_delayed_past_its_end_holds_nothing() {
    let server = plain();
    let proxy = Proxy::start(&server).unwrap();
    let (client, direct) = (connect(&proxy.url()).await, connect(&server.url()).await);
    let held = proxy.hold(about("a"));
    let given_up = client.lock("a").ttl(secs(30)).acquire_within(ms(300)).await;
    assert_eq!(given_up.unwrap_err().kind(), ErrorKind::Timeout);
    assert!(held.is_caught());
    // Its connection is closed, and its end goes over another connection.
    until("the end has arrived", || async {
        server.admin(&["EXISTS", "leasehold:{a}:t"]).unwrap().integer() == Some(1)
    })
    .await
    .unwrap();
    held.release();
    client.settle().await;
    let next = direct.lock("a").acquire_within(secs(5)).await.unwrap();
    next.release().await.unwrap();
    assert_eq!(direct.lock("a").status().await.unwrap().state, State::Free);
}

async fn an_ask_given_up_before_there_was_a_record_gets_nothing() {
    let server = plain();
    let proxy = Proxy::start(&server).unwrap();
    let (client, direct) = (connect(&proxy.url()).await, connect(&server.url()).await);
    let held = proxy.hold(about("a"));
    client.lock("a").ttl(secs(30)).acquire_within(ms(300)).await.unwrap_err();
    client.settle().await;
    // Another client creates the record, which must know the abandoned attempt.
    let guard = direct.lock("a").ttl(secs(30)).acquire_within(secs(5)).await.unwrap();
    held.release();
    proxy.forget_rules();
    client.lock("b").acquire().await.unwrap().release().await.unwrap();
    let waiters = direct.lock("a").status().await.unwrap().waiters.unwrap();
    assert!(waiters.is_empty(), "{waiters:?}");
    guard.release().await.unwrap();
}

async fn a_release_delayed_past_a_successor_leaves_it_alone() {
    let server = plain();
    let proxy = Proxy::start(&server).unwrap();
    let (client, direct) = (connect(&proxy.url()).await, connect(&server.url()).await);
    let guard = client.lock("a").ttl(secs(1)).acquire().await.unwrap();
    let held = proxy.hold(about("a")); // Its renewal or its release, whichever comes first.
    drop(guard);
    let next = direct.lock("a").ttl(secs(30)).acquire_within(secs(10)).await.unwrap();
    held.release();
    client.settle().await;
    assert_eq!(direct.lock("a").status().await.unwrap().token, Some(next.token()));
    next.release().await.unwrap();
}

async fn waiters_whose_pushes_vanish_get_the_lock() {
    let server = plain();
    let proxy = Proxy::start(&server).unwrap();
    let (client, direct) = (connect(&proxy.url()).await, connect(&server.url()).await);
    let held = direct.lock("a").ttl(secs(2)).acquire().await.unwrap();
    proxy.swallow_pushes(true);
    let lock = client.lock("a");
    let waiting = tokio::spawn(async move { lock.acquire_within(secs(20)).await });
    until("it stands in line", || async {
        direct.lock("a").status().await.unwrap().waiters.unwrap().len() == 1
    })
    .await
    .unwrap();
    held.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

async fn an_ending_that_was_never_answered_is_no_waiter_any_more() {
    let server = plain();
    let proxy = Proxy::start(&server).unwrap();
    let (mut side, mut direct) =
        (Side::connect(&proxy.url()).await, Side::connect(&server.url()).await);
    let held = direct.request(secs(60));
    let grant = direct.granted(&held).await;
    let waits = side.request(secs(60));
    side.queued(&waits).await;
    assert!(matches!(side.next_event().await, Event::Reset), "it has been subscribed");
    // It is ended while the server is down, and never again.
    proxy.refuse_connections(true).unwrap();
    proxy.kill_connections();
    assert!(matches!(side.next_event().await, Event::Broken));
    side.release(&unheard(&waits)).await.unwrap_err();
    proxy.refuse_connections(false).unwrap();
    while !matches!(side.next_event().await, Event::Reset) {}
    // So its client must end the lease that it gets. A client that only asked again would find no
    // caller, and the lock would stay taken for as long as the offer.
    direct.verdict(&release(&held, grant)).await;
    let (attempt, pushed) = side.pushed().await;
    assert_eq!(attempt, waits.attempt);
    let Term::Offer(until) = pushed.term else { panic!("{pushed:?}") };
    assert!(until.has_passed(Clock::system().now()), "it is good for nothing");
    side.verdict(&unheard(&waits)).await;
    assert_eq!(direct.status().await.state, State::Free);
}

async fn a_lease_that_nobody_has_is_ended_when_somebody_wants_it() {
    let server = plain();
    let (client, other) = (connect(&server.url()).await, connect(&server.url()).await);
    let guard = client.lock("a").acquire().await.unwrap();
    let attempt = guard.attempt();
    guard.release().await.unwrap();
    // The request is repeated, and the client does not know.
    let mut side = Side::connect(&server.url()).await;
    let mut repeated = side.request(secs(300));
    (repeated.attempt, repeated.wait) = (attempt, false);
    side.granted(&repeated).await;
    let guard = other.lock("a").acquire_within(secs(30)).await.unwrap();
    assert_eq!(side.acquire(&repeated).await, Answer::Ended, "nor may it come once more");
    guard.release().await.unwrap();
}

async fn force_release_reaches_the_holder_at_once() {
    let server = plain();
    let (one, two, operator) =
        (connect(&server.url()).await, connect(&server.url()).await, connect(&server.url()).await);
    force_release_is_pushed(&one, &two, &operator).await.unwrap();
}
