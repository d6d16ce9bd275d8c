//! The eight ways in which the first sketch of the hand-off failed, each closed on a real server.
//! Each is also a bug in the model (`leasehold-sim`, `tests/handoff.rs`).

use leasehold_conformance::until;
use leasehold_core::State;
use leasehold_core::backend::{Answer, Event, Term, Verdict};
use leasehold_core::clock::Clock;
use leasehold_test_servers::{Direction, Proxy};

use crate::side::{Side, release, unheard};
use crate::{Test, connect, ms, plain, secs, test};

pub(crate) const TESTS: &[Test] = &[
    test!(push_before_rotation_is_not_the_grant_after_it),
    test!(old_push_does_not_affect_a_client_that_holds_again),
    test!(late_push_is_not_valid_from_its_receipt),
    test!(push_after_reconnect_is_not_valid_without_a_new_request),
    test!(waiter_with_late_push_asks_again),
    test!(leaving_waiter_releases_a_grant_on_its_way),
    test!(late_acquire_is_refused_after_its_attempt_left_the_record),
    test!(repeated_release_does_not_report_a_loss),
    test!(waiter_behind_crashed_holder_and_crashed_head_gets_the_lock),
    test!(new_head_is_notified_after_the_previous_head_was_granted_or_left),
    test!(tokens_of_an_earlier_block_are_not_returned),
    test!(release_naming_the_first_offer_ends_the_repeated_one),
];

async fn push_before_rotation_is_not_the_grant_after_it() {
    let server = plain();
    let (mut one, mut two) =
        (Side::connect(&server.url()).await, Side::connect(&server.url()).await);
    let held = two.request(secs(30));
    let grant = two.granted(&held).await;
    let waits = one.request(secs(30));
    one.queued(&waits).await;
    two.verdict(&release(&held, grant)).await;
    let (attempt, pushed) = one.pushed().await;
    assert_eq!(attempt, waits.attempt);
    // It rotates while another client waits, and the push arrives once more.
    let other = two.request(secs(30));
    two.queued(&other).await;
    let next = one.request(secs(30));
    let mut rotate = release(&waits, pushed);
    rotate.then = Some(next.clone().into());
    let ended = one.release(&rotate).await.unwrap();
    assert_eq!(ended.verdict, Verdict::Released);
    assert!(matches!(ended.then, Some(Answer::Queued { .. })), "{ended:?}");
    let (base, top) = (pushed.tokens.base().get(), pushed.tokens.top().get());
    let channel = format!("leasehold:c:{}", one.client);
    let message = format!("G{attempt}{base:016}{top:016}{base:016}00002000-leasehold:{{a}}");
    assert_eq!(server.admin(&["PUBLISH", &channel, &message]).unwrap().integer(), Some(1));
    let (attempt, again) = one.pushed().await;
    assert_eq!(attempt, waits.attempt, "it is about the ended attempt");
    let Term::Offer(until) = again.term else { panic!("{again:?}") };
    assert!(until.has_passed(Clock::system().now()), "and good for nothing");
    assert_eq!(one.status().await.holder.unwrap().attempt, other.attempt);
}

async fn old_push_does_not_affect_a_client_that_holds_again() {
    let server = plain();
    let (client, direct) = (connect(&server.url()).await, connect(&server.url()).await);
    let held = direct.lock("a").acquire().await.unwrap();
    let lock = client.lock("a");
    let waiting = tokio::spawn(async move { lock.acquire_within(secs(20)).await });
    until("it stands in line", || async {
        direct.lock("a").status().await.unwrap().waiters.unwrap().len() == 1
    })
    .await
    .unwrap();
    held.release().await.unwrap();
    let first = waiting.await.unwrap().unwrap();
    let (attempt, token) = (first.attempt(), first.token().get());
    first.release().await.unwrap();
    let second = client.lock("a").acquire().await.unwrap();
    let channel = format!("leasehold:c:{}", &attempt.to_string()[..16]);
    let message = format!("G{attempt}{token:016}{token:016}{token:016}00002000-leasehold:{{a}}");
    assert_eq!(server.admin(&["PUBLISH", &channel, &message]).unwrap().integer(), Some(1));
    client.settle().await;
    assert!(second.is_valid());
    assert!(second.token().get() > token);
    let status = direct.lock("a").status().await.unwrap();
    assert_eq!((status.state, status.token), (State::Held, Some(second.token())));
    second.release().await.unwrap();
}

async fn late_push_is_not_valid_from_its_receipt() {
    let server = plain();
    let proxy = Proxy::start(&server).unwrap();
    let (mut late, mut direct) =
        (Side::connect(&proxy.url()).await, Side::connect(&server.url()).await);
    let held = direct.request(secs(30));
    let grant = direct.granted(&held).await;
    let waits = late.request(ms(200));
    late.queued(&waits).await;
    proxy.cut(Direction::ServerToClient);
    direct.verdict(&release(&held, grant)).await;
    direct.ended().await; // The offer expires before any client receives it.
    proxy.heal();
    loop {
        match late.next_event().await {
            Event::Broken | Event::Reset | Event::Next { .. } => {}
            Event::Freed { .. } => break,
            other => panic!("a lease that is over was taken for one: {other:?}"),
        }
    }
}

async fn push_after_reconnect_is_not_valid_without_a_new_request() {
    let server = plain();
    let proxy = Proxy::start(&server).unwrap();
    let (mut waiter, mut direct) =
        (Side::connect(&proxy.url()).await, Side::connect(&server.url()).await);
    let held = direct.request(secs(30));
    let grant = direct.granted(&held).await;
    let waits = waiter.request(secs(30));
    waiter.queued(&waits).await;
    assert!(matches!(waiter.next_event().await, Event::Reset), "it has been subscribed");
    proxy.kill_connections();
    loop {
        match waiter.next_event().await {
            Event::Broken | Event::Next { .. } => {}
            Event::Reset => break, // Pushes may have been missed; a client that asks gets them again.
            other => panic!("{other:?}"),
        }
    }
    direct.verdict(&release(&held, grant)).await;
    assert!(matches!(waiter.next_event().await, Event::Freed { .. }));
    waiter.granted(&waits).await;
}

async fn waiter_with_late_push_asks_again() {
    let server = plain();
    let proxy = Proxy::start(&server).unwrap();
    let (client, mut direct) = (connect(&proxy.url()).await, Side::connect(&server.url()).await);
    let held = direct.request(secs(30));
    let grant = direct.granted(&held).await;
    let lock = client.lock("a");
    let waiting = tokio::spawn(async move { lock.acquire_within(secs(30)).await });
    until("it stands in line", || async { direct.status().await.waiters.unwrap().len() == 1 })
        .await
        .unwrap();
    // On the same connection: when this is answered, the waiter has its answer too. Without it, it would
    // ask again during its offer.
    client.lock("a").status().await.unwrap();
    proxy.cut(Direction::ServerToClient);
    direct.verdict(&release(&held, grant)).await;
    direct.ended().await;
    let other = direct.request(secs(2));
    let between = direct.granted(&other).await;
    proxy.heal();
    let guard = waiting.await.unwrap().unwrap();
    assert!(guard.token() > between.tokens.top(), "two held at the same time");
    guard.release().await.unwrap();
}

async fn leaving_waiter_releases_a_grant_on_its_way() {
    let server = plain();
    let (mut one, mut two) =
        (Side::connect(&server.url()).await, Side::connect(&server.url()).await);
    let request = one.request(secs(60));
    one.granted(&request).await; // As if its answer had never arrived.
    let waits = two.request(secs(60));
    two.queued(&waits).await;
    let mut given_up = unheard(&request);
    given_up.suspect = true;
    assert_eq!(one.verdict(&given_up).await, Verdict::Released);
    assert_eq!(two.pushed().await.0, waits.attempt);
}

async fn late_acquire_is_refused_after_its_attempt_left_the_record() {
    let server = plain();
    let (mut one, mut two) =
        (Side::connect(&server.url()).await, Side::connect(&server.url()).await);
    let request = one.request(secs(30));
    let mut given_up = unheard(&request);
    given_up.suspect = true;
    assert_eq!(one.verdict(&given_up).await, Verdict::Gone);
    let other = two.request(secs(30));
    let grant = two.granted(&other).await;
    assert_eq!(one.acquire(&request).await, Answer::Ended, "a zombie in line");
    two.verdict(&release(&other, grant)).await;
    assert_eq!(one.acquire(&request).await, Answer::Ended, "a zombie that holds");
    let status = two.status().await;
    assert_eq!((status.state, status.waiters), (State::Free, Some(Vec::new())));
}

async fn repeated_release_does_not_report_a_loss() {
    let server = plain();
    let (mut one, mut two) =
        (Side::connect(&server.url()).await, Side::connect(&server.url()).await);
    let request = one.request(secs(30));
    let first_release = release(&request, one.granted(&request).await);
    assert_eq!(one.verdict(&first_release).await, Verdict::Released);
    assert_eq!(one.verdict(&first_release).await, Verdict::Released);
    let next = two.request(ms(100));
    let lost = release(&next, two.granted(&next).await);
    assert_eq!(one.verdict(&first_release).await, Verdict::Released);
    two.ended().await;
    let last = two.request(secs(30));
    two.granted(&last).await;
    assert_eq!(two.verdict(&lost).await, Verdict::Lost);
    assert_eq!(
        one.verdict(&first_release).await,
        Verdict::Unknown,
        "a later one was lost meanwhile"
    );
    assert_eq!(two.status().await.holder.unwrap().attempt, last.attempt);
}

async fn waiter_behind_crashed_holder_and_crashed_head_gets_the_lock() {
    let server = plain();
    let client = connect(&server.url()).await;
    let mut crashes = Side::connect(&server.url()).await;
    let (owner, head) = (crashes.request(secs(2)), crashes.request(secs(2)));
    crashes.granted(&owner).await;
    crashes.queued(&head).await;
    let lock = client.lock("a");
    let waiting = tokio::spawn(async move { lock.acquire_within(secs(30)).await });
    until("it stands in line", || async {
        client.lock("a").status().await.unwrap().waiters.unwrap().len() == 2
    })
    .await
    .unwrap();
    drop(crashes);
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

async fn new_head_is_notified_after_the_previous_head_was_granted_or_left() {
    let server = plain();
    let mut sides = Vec::new();
    for _ in 0..4 {
        sides.push(Side::connect(&server.url()).await);
    }
    let owner = sides[0].request(ms(300));
    sides[0].granted(&owner).await;
    let mut asks = Vec::new();
    for side in &mut sides[1..] {
        let request = side.request(secs(30));
        side.queued(&request).await;
        asks.push(request);
    }
    sides[1].ended().await;
    sides[1].granted(&asks[0]).await; // It asks itself: nothing is handed on.
    let told = async |side: &mut Side| loop {
        if let Event::Next { ask_again, .. } = side.next_event().await {
            break ask_again;
        }
    };
    assert!(told(&mut sides[2]).await > secs(20), "it reckons with the lease of 300 ms");
    sides[2].verdict(&unheard(&asks[1])).await;
    assert!(told(&mut sides[3]).await > secs(20));
}

/// An offer that had expired when its waiter asked, and was granted again: returns the two grants.
macro_rules! granted_again {
    ($one:ident, $two:ident, $request:ident) => {{
        let held = $two.request(secs(30));
        let grant = $two.granted(&held).await;
        $one.queued(&$request).await;
        $two.verdict(&release(&held, grant)).await;
        let (_, first) = $one.pushed().await;
        $two.ended().await;
        let second = $one.granted(&$request).await;
        assert!(second.tokens.base() > first.tokens.top());
        (first, second)
    }};
}

async fn tokens_of_an_earlier_block_are_not_returned() {
    let server = plain();
    let (mut one, mut two) =
        (Side::connect(&server.url()).await, Side::connect(&server.url()).await);
    let request = one.request(ms(200));
    let (first, second) = granted_again!(one, two, request);
    one.verdict(&release(&request, first)).await;
    // Check the record: the next block starts at the wall clock, which would hide it.
    let top = server.admin(&["GETRANGE", "leasehold:{a}", "84", "99"]).unwrap();
    assert_eq!(top.text().parse().ok(), Some(second.tokens.top().get()), "tokens were given back");
}

async fn release_naming_the_first_offer_ends_the_repeated_one() {
    let server = plain();
    let (mut one, mut two) =
        (Side::connect(&server.url()).await, Side::connect(&server.url()).await);
    let mut request = one.request(ms(200));
    let (first, _) = granted_again!(one, two, request);
    request.ttl = secs(60);
    one.granted(&request).await; // For much longer than the test takes.
    assert_eq!(one.verdict(&release(&request, first)).await, Verdict::Lost);
    assert_eq!(two.status().await.state, State::Free);
}
