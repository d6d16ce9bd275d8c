//! Semaphores and latches beside keys as clients of revision c26c1cc put them: they know queues of locks alone, which end
//! for them at the newline.

use leasehold_core::{ErrorKind, Forced, State};
use leasehold_etcd_api::{Client as Etcd, GetOptions, PutOptions, SortOrder, SortTarget};

use crate::{Test, connect, keys, operator, secs, server, test};

pub(crate) const TESTS: &[Test] = &[
    test!(a_waiter_of_an_earlier_client_is_behind_a_semaphore_and_changes_nothing),
    test!(a_waiter_of_an_earlier_client_is_behind_a_latch_and_changes_nothing),
    test!(a_permit_that_comes_with_an_earlier_client_is_not_passed_by_it),
];

/// Puts the key of a waiting client of the earlier revision. Returns its create revision.
async fn waits(operator: &Etcd, name: &str) -> i64 {
    let operator = operator.clone();
    let key = format!("leasehold/{name}\t0123456789abcdef0123456789abcdef");
    let lease = operator.lease_grant(0, 600).await.unwrap().id;
    let value = r#"{"host":"old","pid":7,"since":1700000000000}"#;
    let put = Some(PutOptions::new().with_lease(lease));
    operator.put(key, value, put).await.unwrap().header.unwrap().revision
}

/// Returns how many keys the earlier client waits for. If there is none, it holds the lock.
async fn before(operator: &Etcd, name: &str, created: i64) -> usize {
    let queue = GetOptions::new()
        .with_range(format!("leasehold/{name}\n"))
        .with_max_create_revision(created - 1)
        .with_sort(SortTarget::Create, SortOrder::Descend);
    operator.clone().get(format!("leasehold/{name}\t"), Some(queue)).await.unwrap().kvs.len()
}

/// Returns the lease of the limit; `None` if no limit is stored.
async fn lease_of_limit(operator: &Etcd, name: &str) -> Option<i64> {
    let key = format!("leasehold/{name}\t~limit");
    keys(operator).await.iter().find(|kv| kv.key == key.as_bytes()).map(|kv| kv.lease)
}

async fn a_waiter_of_an_earlier_client_is_behind_a_semaphore_and_changes_nothing() {
    let server = server();
    let (client, operator) = (connect(&server.url()).await, operator(&server).await);
    let semaphore = client.semaphore("a", 2).ttl(secs(600));
    let first = semaphore.acquire().await.unwrap();
    let lease = lease_of_limit(&operator, "a").await.unwrap();
    assert_ne!(lease, 0);
    let earlier = waits(&operator, "a").await;
    assert!(before(&operator, "a", earlier).await > 0, "it holds the lock beside a permit");
    let second = semaphore.acquire().await.unwrap();
    assert_eq!(second.slot(), 1);
    let waiter = tokio::spawn({
        let semaphore = semaphore.clone();
        async move { semaphore.acquire_within(secs(60)).await }
    });
    first.release().await.unwrap();
    let third = waiter.await.unwrap().unwrap();
    // The time of the first limit ends while permits are held that came after the waiter.
    operator.clone().lease_revoke(lease).await.unwrap();
    assert!(before(&operator, "a", earlier).await > 0, "it holds the lock beside a permit");
    let status = client.lock("a").status().await.unwrap();
    assert_eq!((status.state, status.permits.unwrap().held), (State::Permits, 2));
    semaphore.set_limit(3).await.unwrap();
    let many = client.semaphore("a", 3).try_acquire().await.unwrap().unwrap();
    assert_eq!(client.lock("a").force_release(third.token()).await.unwrap(), Forced::Ended);
    many.release().await.unwrap();
    second.release().await.unwrap();
    assert!(before(&operator, "a", earlier).await > 0, "it holds a semaphore as a lock");
    let error = client.lock("a").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
}

async fn a_waiter_of_an_earlier_client_is_behind_a_latch_and_changes_nothing() {
    let server = server();
    let (client, operator) = (connect(&server.url()).await, operator(&server).await);
    let latch = client.latch("a", 3);
    latch.count_down("one").await.unwrap();
    let earlier = waits(&operator, "a").await;
    assert!(before(&operator, "a", earlier).await > 0, "it holds the lock beside a latch");
    assert_eq!(latch.count_down("two").await.unwrap(), 1);
    assert_eq!(latch.count_down("three").await.unwrap(), 0);
    latch.wait().await.unwrap();
    assert!(before(&operator, "a", earlier).await > 0, "it holds the lock beside a latch");
    let status = client.lock("a").status().await.unwrap();
    assert_eq!(status.state, State::Latch, "{status:?}");
    // Once the latch has expired, the earlier client holds the lock, and no new latch comes beside it.
    operator.clone().delete("leasehold/a\t~latch").await.unwrap();
    assert_eq!(before(&operator, "a", earlier).await, 0);
    let error = latch.count_down("four").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(client.lock("a").try_acquire().await.unwrap().is_none());
}

async fn a_permit_that_comes_with_an_earlier_client_is_not_passed_by_it() {
    let server = server();
    let (client, operator) = (connect(&server.url()).await, operator(&server).await);
    for round in 0..40 {
        let name = format!("a{round}");
        let semaphore = client.semaphore(&name, 64).ttl(secs(600));
        let first = semaphore.acquire().await.unwrap();
        let permits = tokio::spawn(async move {
            let mut permits = Vec::new();
            for _ in 0..6 {
                permits.push(semaphore.acquire().await.unwrap());
            }
            permits
        });
        let earlier = waits(&operator, &name).await;
        let permits = permits.await.unwrap();
        let is_behind = |token: u64| i64::try_from(token).unwrap() < earlier;
        assert!(is_behind(first.token().get()));
        if !permits.iter().all(|permit| is_behind(permit.token().get())) {
            let lease = lease_of_limit(&operator, &name).await;
            assert_eq!(lease, Some(0), "round {round}: it would pass a permit when the limit ends");
        }
        for permit in permits {
            permit.release().await.unwrap();
        }
        first.release().await.unwrap();
    }
}
