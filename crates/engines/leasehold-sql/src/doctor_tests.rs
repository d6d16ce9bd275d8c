//! Tests that a database that becomes silent during the checks costs one timeout.

#![allow(clippy::disallowed_methods, reason = "tests measure time")]

use std::net::SocketAddr;

use leasehold_conformance::before_any_time_limit;
use leasehold_test_servers::{MariaDb, Needs, Postgres, Proxy};

use super::probe::LIMIT;
use super::*;

/// Checks a database from which no answer arrives after the client has connected. The paused clock
/// advances as soon as the client waits only for timers. So the elapsed time is the sum of all
/// waits.
async fn look_at_silence(url: &str, server: SocketAddr) {
    let proxy = Proxy::opaque(server).unwrap();
    let url = url.replace(&server.to_string(), &proxy.address().to_string());
    let address = Address::parse(StoreUrl::parse(&url).unwrap()).unwrap();
    let mut probe = Probe::reach(&address.target, &address).await.unwrap();
    proxy.cut_all();
    tokio::time::pause();
    let begun = tokio::time::Instant::now();
    look(&mut probe, &address).await;
    assert_eq!(begun.elapsed().as_secs(), LIMIT.as_secs(), "{:?}", probe.diagnosis);
    assert!(!probe.diagnosis.unseen.is_empty());
    assert!(probe.diagnosis.findings.is_empty(), "{:?}", probe.diagnosis);
}

#[tokio::test]
async fn doctor_waits_for_a_silent_postgres_once() {
    if !Needs::Postgres.is_skipped() {
        let server = Postgres::start(&[]).unwrap();
        look_at_silence(&server.url(), server.address()).await;
    }
}

#[tokio::test]
async fn doctor_waits_for_a_silent_mariadb_once() {
    if !Needs::MySql.is_skipped() {
        let server = MariaDb::start(&[]).unwrap();
        look_at_silence(&server.url(), server.address()).await;
    }
}

/// The database becomes silent when only the check for a pooler is left.
#[tokio::test]
async fn doctor_does_not_wait_for_a_second_connection_and_then_for_the_first() {
    if Needs::Postgres.is_skipped() {
        return;
    }
    let server = Postgres::start(&[]).unwrap();
    let proxy = Proxy::opaque(server.address()).unwrap();
    let url = server.url().replace(&server.address().to_string(), &proxy.address().to_string());
    let url = format!("{url}?listen={}", proxy.address());
    let address = Address::parse(StoreUrl::parse(&url).unwrap()).unwrap();
    let Target::Postgres(options) = &address.target else { panic!("{url}") };
    let mut probe = Probe::reach(&address.target, &address).await.unwrap();
    proxy.cut_all();
    assert_eq!(proxy.connections_made(), 1);
    tokio::time::pause();
    // The second connection, and the one to the listen address.
    let asked = || proxy.connections_made() == 3;
    let looking = postgres::pooler(&mut probe, &address, options);
    assert!(before_any_time_limit(looking, asked).await);
    postgres::pooler(&mut probe, &address, options).await;
    assert!(probe.is_silent(), "the tables would be waited for anew");
}
