//! Tokens of a list of servers when clocks of clients differ, and nothing is known of the name any more.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::clock::{Clock, ManualClock};
use leasehold_core::{Client, StoreUrl};
use leasehold_test_servers::{ClockShim, Needs, RedisServer, RedisSettings};

use crate::connect::quorum_with_wire_at;

/// A client whose wall clock is so many seconds ahead.
async fn client(url: &str, ahead_s: i64) -> Client {
    let clock = ManualClock::new();
    let real = Clock::system().now().wall_ns / 1_000_000_000;
    let shown = clock.clock().now().wall_ns / 1_000_000_000;
    clock.step_wall(real as i64 - shown as i64 + ahead_s);
    let backend = quorum_with_wire_at(StoreUrl::parse(url).unwrap(), clock.clock()).await.unwrap();
    Client::new(Arc::new(backend)).unwrap()
}

/// Returns the token of one lease.
async fn token(client: &Client) -> u64 {
    let lock = client.lock("a").ttl(Duration::from_secs(10));
    let guard = lock.acquire_within(Duration::from_secs(20)).await.unwrap();
    let token = guard.token().get();
    guard.release().await.unwrap();
    token
}

/// Returns how many servers know a token of the lock.
fn notes(servers: &[RedisServer]) -> i64 {
    let each = servers.iter().map(|server| {
        server.admin(&["HEXISTS", "leasehold:wire:{a}:a", "t"]).unwrap().integer().unwrap()
    });
    each.sum()
}

/// Returns the token of a lease that all servers know. Two are enough for a lease: the request to the third one may still be
/// on its way, or arrive after the release, which refuses it.
async fn token_at_all(client: &Client, servers: &[RedisServer]) -> u64 {
    for _ in 0..1000 {
        let token = token(client).await;
        let knows = |server: &RedisServer| {
            let stored = server.admin(&["HGET", "leasehold:wire:{a}:a", "t"]).unwrap().text();
            stored.parse() == Ok(token)
        };
        if servers.iter().all(knows) {
            return token;
        }
    }
    panic!("a server misses each token");
}

async fn tokens_grow(retain: &str, idle_s: f64, gone: bool) {
    let shim = ClockShim::build().unwrap();
    let start = || RedisServer::start(shim.on(RedisSettings::new())).unwrap();
    let servers: Vec<RedisServer> = (0..3).map(|_| start()).collect();
    let places: Vec<String> = servers.iter().map(|server| server.address().to_string()).collect();
    let options = format!("wire=set-nx&node-limit=5s&retain={retain}");
    let url = format!("redlock://{}?{options}", places.join(","));
    let (ahead, behind) = (client(&url, 1800).await, client(&url, -7200).await);
    let before = token_at_all(&ahead, &servers).await;
    shim.set_offset(idle_s).unwrap();
    assert_eq!(notes(&servers) == 0, gone, "{} servers know the token", notes(&servers));
    let after = token(&behind).await;
    assert!(after > before, "the token has fallen by {} s", (before - after) / 1_000_000);
    // Also the next one, and that of the first client.
    assert!(token(&behind).await > after && token(&ahead).await > after);
}

#[tokio::test]
async fn a_client_whose_clock_is_behind_gets_no_smaller_token_once_the_notes_are_gone() {
    if Needs::Redis.is_skipped() {
        return;
    }
    tokens_grow("40m", 2.0 * 3600.0 + 60.0, true).await;
}

#[tokio::test]
async fn notes_stay_until_the_servers_clocks_have_passed_the_token() {
    if Needs::Redis.is_skipped() {
        return;
    }
    tokens_grow("2m", 180.0, false).await;
}
