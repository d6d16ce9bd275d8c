//! Extensions: the key moves to a longer lease, and nothing that is late moves it back.

use leasehold_core::backend::{Answer, Renewal, Renewed};
use leasehold_core::{ErrorKind, Guard};

use crate::{EtcdServer, Test, connect, ms, operator, raw, secs, server, test, waits};

pub(crate) const TESTS: &[Test] = &[
    test!(an_extension_moves_the_key_and_keeps_its_revision),
    test!(of_two_extensions_at_once_the_guard_believes_none_that_was_undone),
    test!(an_extension_that_is_dropped_anywhere_is_followed_by_another),
    test!(a_deleted_key_is_not_put_again),
];

/// Returns the create revision of the only key, and the time of its lease.
async fn key(server: &EtcdServer) -> (u64, i64) {
    let operator = operator(server).await;
    let all = Some(leasehold_etcd_api::GetOptions::new().with_prefix());
    let keys = operator.get("leasehold/", all).await.unwrap();
    let [kv] = &*keys.kvs else { panic!("{:?}", keys.kvs) };
    let lease = operator.lease_time_to_live(kv.lease).await.unwrap();
    (kv.create_revision as u64, lease.ttl)
}

async fn an_extension_moves_the_key_and_keeps_its_revision() {
    let server = server();
    let client = connect(&server.url()).await;
    let guard = client.lock("a").lease(secs(5)).acquire().await.unwrap();
    let other = connect(&server.url()).await;
    let lock = other.lock("a");
    let waiting = tokio::spawn(async move { lock.acquire_within(secs(60)).await });
    for time in [secs(60), secs(120), secs(120)] {
        guard.extend(time).await.unwrap();
        let (created, ttl) = key_of(&server, &guard).await;
        assert_eq!(created, guard.token().get());
        assert!((time.as_secs() as i64 - 5..=time.as_secs() as i64).contains(&ttl), "{ttl}");
    }
    guard.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    // The leases that the key has left are revoked.
    let leases = || async { operator(&server).await.leases().await.unwrap().leases.len() };
    leasehold_conformance::until("two leases are left", || async { leases().await <= 2 })
        .await
        .unwrap();
}

/// Returns the same for the key of a guard, though others wait.
async fn key_of(server: &EtcdServer, guard: &Guard) -> (u64, i64) {
    let operator = operator(server).await;
    let key = format!("leasehold/{}\t{}", guard.name(), guard.attempt());
    let found = operator.get(&*key, None).await.unwrap();
    let lease = operator.lease_time_to_live(found.kvs[0].lease).await.unwrap();
    (found.kvs[0].create_revision as u64, lease.ttl)
}

async fn of_two_extensions_at_once_the_guard_believes_none_that_was_undone() {
    let server = server();
    let client = connect(&server.url()).await;
    for round in 0..20 {
        let guard = client.lock("a").lease(secs(5)).acquire().await.unwrap();
        let same = guard.reenter().unwrap();
        let (one, two) = tokio::join!(guard.extend(secs(100)), async {
            tokio::time::sleep(ms(round / 4)).await;
            same.extend(secs(30)).await
        });
        assert!(one.is_ok() || two.is_ok(), "{one:?} {two:?}");
        for error in [one.err(), two.err()].into_iter().flatten() {
            let kind = error.kind();
            assert!(matches!(kind, ErrorKind::Unavailable | ErrorKind::Invalid), "{error}");
        }
        let believed = guard.remaining();
        let (_, ttl) = key(&server).await;
        assert!(secs(ttl as u64 + 1) >= believed, "{ttl} s at the server, {believed:?} here");
        drop(same);
        guard.release().await.unwrap();
    }
}

async fn an_extension_that_is_dropped_anywhere_is_followed_by_another() {
    let server = server();
    let client = connect(&server.url()).await;
    for round in 0..40 {
        let guard = client.lock("a").lease(secs(5)).acquire().await.unwrap();
        let deadline = guard.deadline();
        let dropped = tokio::time::timeout(ms(round) / 8, guard.extend(secs(100))).await;
        if dropped.is_err() {
            assert_eq!(guard.deadline(), deadline);
        }
        guard.extend(secs(200)).await.unwrap();
        let (created, ttl) = key(&server).await;
        assert_eq!(created, guard.token().get());
        assert!(ttl > 190, "{ttl}");
        guard.release().await.unwrap();
    }
}

async fn a_deleted_key_is_not_put_again() {
    let server = server();
    let mut raw = raw(&server, 7).await;
    let request = waits(&mut raw, secs(5));
    let Answer::Granted(grant) = raw.backend.acquire(request.clone()).await.unwrap() else {
        panic!("not granted");
    };
    let (name, attempt, base) = (request.name.clone(), request.attempt, grant.tokens.base());
    let renewal = Renewal::new(name, attempt, base, secs(100));
    let key = format!("leasehold/a\t{attempt}");
    operator(&server).await.delete(&*key).await.unwrap();
    let answers = raw.backend.renew(std::slice::from_ref(&renewal)).await;
    assert_eq!(answers.into_iter().next().unwrap().unwrap(), Renewed::Lost);
    assert!(operator(&server).await.get(&*key, None).await.unwrap().kvs.is_empty());
    // Nor where another program has put a key of the same name since.
    operator(&server).await.put(&*key, "{}", None).await.unwrap();
    let answers = raw.backend.renew(&[renewal]).await;
    assert_eq!(answers.into_iter().next().unwrap().unwrap(), Renewed::Lost);
    let found = operator(&server).await.get(&*key, None).await.unwrap();
    assert_eq!(found.kvs[0].lease, 0);
}
