//! How far tokens run ahead of the server's clock, and what is left of that if a clock goes back.

use std::time::Duration;

use futures_util::FutureExt;
use leasehold_conformance::until;
use leasehold_core::backend::{Answer, Verdict};
use leasehold_core::proto::handoff::TOKEN_LEAD;
use leasehold_core::{State, StoreUrl};
use leasehold_test_servers::{ClockShim, RedisServer, RedisSettings};

use crate::side::{Side, release, unheard};
use crate::{Test, connect, plain, secs, test};

pub(crate) const TESTS: &[Test] = &[
    test!(tokens_stay_near_the_clock_though_waiters_leave_with_their_blocks),
    test!(a_block_is_cut_where_it_would_reach_beyond_the_clock),
    test!(a_record_outlives_its_tokens_though_the_clock_was_set_back),
    test!(forgetting_keeps_the_tokens_that_the_clock_has_not_passed),
    test!(a_late_release_is_not_told_released_once_the_record_was_removed),
    test!(forgetting_keeps_what_late_requests_are_refused_by),
];

/// Tokens that may be beyond [`TOKEN_LEAD`]: one for each grant of a call of 64 requests with two
/// grants each.
const CALL: u64 = 128;

fn number(server: &RedisServer, from: &str, to: &str) -> u64 {
    let text = server.admin(&["GETRANGE", "leasehold:{a}", from, to]).unwrap().text();
    text.parse().unwrap()
}

/// Returns the highest token that was reserved.
fn top(server: &RedisServer) -> u64 {
    number(server, "84", "99")
}

fn clock_us(server: &RedisServer) -> u64 {
    let time = server.admin(&["TIME"]).unwrap();
    let part = |at: usize| time.items()[at].text().parse::<u64>().unwrap();
    part(0) * 1_000_000 + part(1)
}

async fn tokens_stay_near_the_clock_though_waiters_leave_with_their_blocks() {
    let server = plain();
    let client = connect(&server.url()).await;
    let lock = client.lock("a").ttl(secs(60));
    let mut last = 0;
    for round in 0..2000 {
        let held = lock.acquire().await.unwrap();
        last = held.token().get();
        let mut waiting = Box::pin(lock.acquire());
        assert!((&mut waiting).now_or_never().is_none());
        // The release asks for a block for the waiter, which leaves before it is notified.
        held.release().await.unwrap();
        drop(waiting);
        let (clock, top) = (clock_us(&server), top(&server));
        let bound = clock + u64::from(TOKEN_LEAD) + CALL;
        assert!(top <= bound, "round {round}: {} us ahead of the clock", top - clock);
    }
    client.settle().await;
    // So a lock whose record is lost continues, a moment later, above all reserved tokens.
    let reserved = top(&server);
    assert!(reserved >= last);
    until("the clock has passed them", || async { clock_us(&server) > reserved }).await.unwrap();
    server.admin(&["DEL", "leasehold:{a}"]).unwrap();
    assert!(lock.acquire().await.unwrap().token().get() > reserved);
}

async fn a_block_is_cut_where_it_would_reach_beyond_the_clock() {
    let server = plain();
    let mut side = Side::connect(&server.url()).await;
    for round in 0..100 {
        let mut request = side.request(Duration::from_secs(60));
        request.tokens = if round % 10 == 9 { 1_000_000 } else { TOKEN_LEAD };
        let before = clock_us(&server);
        let Answer::Granted(grant) = side.acquire(&request).await else { panic!("not granted") };
        let (base, last) = (grant.tokens.base().get(), grant.tokens.top().get());
        let after = clock_us(&server);
        assert!(last < (after + u64::from(TOKEN_LEAD)).max(base + 1), "round {round}");
        // It is not shorter than the space that was left.
        let room = (before + u64::from(TOKEN_LEAD)).saturating_sub(base).max(1);
        assert!(last - base + 1 >= room.min(u64::from(TOKEN_LEAD)), "round {round}");
        assert_eq!(number(&server, "84", "99"), last, "the record says the same");
        side.verdict(&unheard(&request)).await;
        // The next holder gets the tokens that an end returns.
        if round == 50 {
            let request = side.request(Duration::from_secs(60));
            let grant = side.granted(&request).await;
            side.verdict(&release(&request, grant)).await;
            assert_eq!(number(&server, "84", "99"), grant.tokens.base().get());
        }
    }
}

/// Sets the clock two hours ahead, then right, with the lock idle for longer and longer.
async fn a_record_outlives_its_tokens_though_the_clock_was_set_back() {
    let shim = ClockShim::build().unwrap();
    shim.set_offset(7200.0).unwrap();
    let server = RedisServer::start(shim.on(RedisSettings::new())).unwrap();
    let client = connect(&server.url()).await;
    let mut last = 0;
    for hours in [2.0, 0.0, 0.0, 0.9, 1.1, 1.9, 2.1, 3.3, 4.5, 7.0, 7.1, 10.0] {
        shim.set_offset(hours * 3600.0).unwrap();
        let guard = client.lock("a").acquire_within(secs(20)).await.unwrap();
        assert!(guard.token().get() > last, "tokens have fallen, {hours} h after");
        last = guard.token().get();
        guard.release().await.unwrap();
    }
}

async fn forgetting_keeps_the_tokens_that_the_clock_has_not_passed() {
    let shim = ClockShim::build().unwrap();
    shim.set_offset(7200.0).unwrap();
    let server = RedisServer::start(shim.on(RedisSettings::new())).unwrap();
    let client = connect(&server.url()).await;
    let guard = client.lock("a").acquire().await.unwrap();
    let token = guard.token();
    guard.release().await.unwrap();
    let forget = || leasehold_redis::forget(StoreUrl::parse(&server.url()).unwrap(), "");
    shim.set_offset(0.0).unwrap();
    assert_eq!(forget().await.unwrap(), 0);
    let guard = client.lock("a").acquire().await.unwrap();
    assert!(guard.token() > token, "tokens have fallen");
    guard.release().await.unwrap();
    shim.set_offset(7300.0).unwrap();
    assert_eq!(forget().await.unwrap(), 1);
}

async fn forgetting_keeps_what_late_requests_are_refused_by() {
    let server = plain();
    let mut side = Side::connect(&server.url()).await;
    let request = side.request(secs(60));
    let mut given_up = unheard(&request);
    given_up.suspect = true;
    side.verdict(&given_up).await;
    let other = side.request(secs(60));
    let grant = side.granted(&other).await;
    side.verdict(&release(&other, grant)).await;
    let forget = leasehold_redis::forget(StoreUrl::parse(&server.url()).unwrap(), "").await;
    assert_eq!(forget.unwrap(), 1);
    assert_eq!(server.admin(&["EXISTS", "leasehold:{a}"]).unwrap().integer(), Some(0));
    assert_eq!(side.acquire(&request).await, Answer::Ended, "a lease that nobody knows of");
}

async fn a_late_release_is_not_told_released_once_the_record_was_removed() {
    let server = plain();
    let mut side = Side::connect(&server.url()).await;
    // The short path of a free lock, and that of a waiter's request.
    for wait in [false, true] {
        let lost = side.request(Duration::from_millis(100));
        let late = release(&lost, side.granted(&lost).await);
        until("the lease is over", || async { side.status().await.state == State::Free })
            .await
            .unwrap();
        server.admin(&["DEL", "leasehold:{a}"]).unwrap();
        if wait {
            // The long path creates a record if another key of the lock exists.
            server.admin(&["ZADD", "leasehold:{a}:t", "1", &"0".repeat(32)]).unwrap();
        }
        let next = side.request(secs(600));
        let grant = side.granted(&next).await;
        assert_eq!(side.verdict(&late).await, Verdict::Unknown, "the lease was lost");
        side.verdict(&release(&next, grant)).await;
        server.admin(&["DEL", "leasehold:{a}", "leasehold:{a}:t"]).unwrap();
    }
}
