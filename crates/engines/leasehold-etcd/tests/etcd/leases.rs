//! Leases that end from outside: by an operator or with a process, while a client waits.

use leasehold_conformance::holder::Process;
use leasehold_conformance::until;
use leasehold_core::backend::Answer;
use leasehold_core::{ErrorKind, LossReason};
use leasehold_test_servers::{EtcdServer, EtcdSettings};

use crate::{Test, connect, ms, no_lease, operator, raw, secs, server, test, waits, watched};

pub(crate) const TESTS: &[Test] = &[
    test!(a_revoked_lease_is_told_at_once_and_the_next_gets_the_lock),
    test!(a_deleted_key_is_told_at_once),
    test!(a_waiter_whose_lease_was_revoked_waits_again),
    test!(a_killed_waiter_is_passed_over),
    test!(a_holder_that_is_killed_or_stopped_loses_the_lock),
    test!(clean_releases_use_the_same_lease_again),
    test!(nothing_is_left_on_the_server),
    test!(what_is_refused_leaves_no_lease),
    test!(a_key_on_a_lease_that_is_not_ours_is_removed_and_put_anew),
];

async fn a_revoked_lease_is_told_at_once_and_the_next_gets_the_lock() {
    let server = server();
    let (one, two) = (connect(&server.url()).await, connect(&server.url()).await);
    let guard = one.lock("a").ttl(secs(3_600)).acquire().await.unwrap();
    let lock = two.lock("a");
    let waiting = tokio::spawn(async move { lock.acquire_within(secs(60)).await });
    until("it waits", || async {
        one.lock("a").status().await.unwrap().waiters.is_some_and(|waiters| waiters.len() == 1)
    })
    .await
    .unwrap();
    // The holder's own key too.
    watched(&server, 2).await;
    let operator = operator(&server).await;
    let keys =
        operator.get("leasehold/", Some(leasehold_etcd_api::GetOptions::new().with_prefix()));
    let keys = keys.await.unwrap();
    let held = keys.kvs.iter().min_by_key(|kv| kv.create_revision).unwrap();
    assert_eq!(held.create_revision as u64, guard.token().get());
    operator.lease_revoke(held.lease).await.unwrap();
    // No renewal is due for twenty minutes.
    let reason = guard.lost().await;
    assert_eq!(reason, LossReason::NotOwner);
    assert!(!guard.is_valid());
    let next = waiting.await.unwrap().unwrap();
    assert!(next.token() > guard.token());
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    next.release().await.unwrap();
}

async fn a_deleted_key_is_told_at_once() {
    let server = server();
    let client = connect(&server.url()).await;
    let guard = client.lock("a").ttl(secs(3_600)).acquire().await.unwrap();
    watched(&server, 1).await;
    client.lock("a").force_release(guard.token()).await.unwrap();
    assert_eq!(guard.lost().await, LossReason::NotOwner);
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
}

async fn a_waiter_whose_lease_was_revoked_waits_again() {
    let server = server();
    let (one, two) = (connect(&server.url()).await, connect(&server.url()).await);
    let guard = one.lock("a").acquire().await.unwrap();
    let lock = two.lock("a").ttl(secs(3));
    let waiting = tokio::spawn(async move { lock.acquire_within(secs(60)).await });
    let waiters = || async { one.lock("a").status().await.unwrap().waiters.unwrap() };
    until("it waits", || async { waiters().await.len() == 1 }).await.unwrap();
    let operator = operator(&server).await;
    let keys =
        operator.get("leasehold/", Some(leasehold_etcd_api::GetOptions::new().with_prefix()));
    let keys = keys.await.unwrap();
    let waits = keys.kvs.iter().max_by_key(|kv| kv.create_revision).unwrap();
    operator.lease_revoke(waits.lease).await.unwrap();
    assert_eq!(waiters().await.len(), 0);
    until("it waits again", || async { waiters().await.len() == 1 }).await.unwrap();
    guard.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

async fn a_killed_waiter_is_passed_over() {
    let server = server();
    let client = connect(&server.url()).await;
    let guard = client.lock("a").acquire().await.unwrap();
    let url = server.url();
    // It asks with a ttl of 2 s and never holds.
    let waiter = std::thread::spawn(move || Process::start(&url, "a"));
    let waiters = || async { client.lock("a").status().await.unwrap().waiters.unwrap() };
    until("it waits", || async { waiters().await.len() == 1 }).await.unwrap();
    let pid = waiters().await[0].holder.pid;
    let kill = std::process::Command::new("kill").args(["-9", &pid.to_string()]).status();
    assert!(kill.unwrap().success());
    assert!(waiter.join().unwrap().is_err(), "it held");
    guard.release().await.unwrap();
    client.lock("a").acquire_within(secs(30)).await.unwrap().release().await.unwrap();
}

async fn a_holder_that_is_killed_or_stopped_loses_the_lock() {
    let server = server();
    let client = connect(&server.url()).await;
    let mut holder = Process::start(&server.url(), "a").unwrap();
    holder.kill();
    let guard = client.lock("a").acquire_within(secs(30)).await.unwrap();
    assert!(guard.token().get() > holder.token);
    guard.release().await.unwrap();
    let mut holder = Process::start(&server.url(), "a").unwrap();
    holder.stop();
    let guard = client.lock("a").acquire_within(secs(30)).await.unwrap();
    holder.resume();
    assert_eq!(holder.ask("valid").unwrap(), "false");
    assert_eq!(holder.ask("release").unwrap(), "Lost");
    assert!(guard.is_valid() && guard.token().get() > holder.token);
}

async fn clean_releases_use_the_same_lease_again() {
    let server = server();
    let client = connect(&server.url()).await;
    client.lock("a").acquire().await.unwrap().release().await.unwrap();
    let granted = || server.metric("etcd_debugging_lease_granted_total").unwrap();
    let proposed = || server.metric("etcd_server_proposals_committed_total").unwrap();
    let mut seen = Vec::new();
    // What is answered late is asked again, and a lease that may be used twice is used no more.
    for _ in 0..5 {
        let before = (granted(), proposed());
        for number in 0..20 {
            let lock = client.lock(format!("lock {}", number % 3));
            lock.acquire().await.unwrap().release().await.unwrap();
        }
        seen.push((granted() - before.0, proposed() - before.1));
        // One for the key, one for its end; and a few of the server's own.
        if seen.iter().any(|(leases, asked)| *leases == 0.0 && (40.0..=44.0).contains(asked)) {
            return;
        }
    }
    panic!("leases and proposals for 20 pairs, each time: {seen:?}");
}

async fn nothing_is_left_on_the_server() {
    let server = server();
    let (one, two) = (connect(&server.url()).await, connect(&server.url()).await);
    let guard = one.lock("a").acquire().await.unwrap();
    for number in 0..10 {
        let name = format!("{number}");
        drop(one.lock(&name).acquire().await.unwrap());
        assert!(two.lock("a").try_acquire().await.unwrap().is_none());
        assert!(two.lock("a").acquire_within(ms(20 * number)).await.is_err());
    }
    one.settle().await;
    two.settle().await;
    guard.release().await.unwrap();
    let operator = operator(&server).await;
    let all = Some(leasehold_etcd_api::GetOptions::new().with_prefix());
    let keys = operator.get("leasehold/", all).await.unwrap();
    assert!(keys.kvs.is_empty(), "{:?}", keys.kvs);
    drop((one, two));
    // Long before the thirty seconds of their ttl.
    no_lease(&operator).await;
}

async fn what_is_refused_leaves_no_lease() {
    let server = EtcdServer::start(EtcdSettings::new().quota(256 * 1024)).unwrap();
    let client = connect(&server.url()).await;
    // The lease is there before, since none is granted by a full server.
    client.lock("a").acquire().await.unwrap().release().await.unwrap();
    let operator = operator(&server).await;
    while operator.put("junk", vec![0; 64 * 1024], None).await.is_ok() {}
    assert_eq!(operator.leases().await.unwrap().leases.len(), 1);
    assert_eq!(client.lock("a").acquire().await.unwrap_err().kind(), ErrorKind::Refused);
    no_lease(&operator).await;
}

async fn a_key_on_a_lease_that_is_not_ours_is_removed_and_put_anew() {
    let server = server();
    let mut raw = raw(&server, 7).await;
    let operator = operator(&server).await;
    let request = waits(&mut raw, secs(30));
    // As an earlier request of the attempt would put it that was long on its way.
    let key = format!("leasehold/a\t{}", request.attempt);
    let theirs = operator.lease_grant(0, 60).await.unwrap().id;
    let options = leasehold_etcd_api::PutOptions::new().with_lease(theirs);
    let put = operator.put(&*key, "{}", Some(options)).await.unwrap();
    let before = put.header.unwrap().revision as u64;
    let Answer::Granted(grant) = raw.backend.acquire(request.clone()).await.unwrap() else {
        panic!("not granted");
    };
    assert!(grant.tokens.base().get() > before, "the key would go with the other lease");
    operator.lease_revoke(theirs).await.unwrap();
    let found = operator.get(&*key, None).await.unwrap();
    assert_eq!(found.kvs[0].create_revision as u64, grant.tokens.base().get());
}
