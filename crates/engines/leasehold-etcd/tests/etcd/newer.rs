//! Records of semaphores and of readers that a newer version wrote.

use std::sync::Arc;

use leasehold_conformance::newer::{readers_are_left_alone, semaphore_is_left_alone};
use leasehold_core::backend::{Backend, Renewed, Verdict};
use leasehold_core::{Name, StoreUrl};
use leasehold_etcd_api::Client as Etcd;
use leasehold_test_servers::EtcdServer;

use crate::{Test, connect, keys, operator, server, test};

pub(crate) const TESTS: &[Test] = &[
    test!(a_newer_limit_is_left_alone_by_everything),
    test!(a_newer_record_of_readers_is_left_alone_by_everything),
];

const SAYS: &str = "a newer version";

async fn backend(server: &EtcdServer) -> Arc<dyn Backend> {
    let url = StoreUrl::parse(&server.url()).unwrap();
    Arc::new(leasehold_etcd::connect(url).await.unwrap())
}

/// Returns the keys with their values.
async fn stored(operator: &Etcd) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    keys(operator).await.iter().map(|kv| (text(&kv.key), text(&kv.value))).collect()
}

/// Other names are listed and used as before.
async fn the_others_work(server: &EtcdServer) {
    let client = connect(&server.url()).await;
    let held = client.lock("b").acquire().await.unwrap();
    let listed = client.list("", 10).await.unwrap();
    assert!(listed.iter().any(|status| status.name.as_str() == "b"), "{listed:?}");
    held.release().await.unwrap();
}

async fn a_newer_limit_is_left_alone_by_everything() {
    let server = server();
    let (operator, name) = (operator(&server).await, Name::new("a").unwrap());
    let make_newer = async || {
        let all = keys(&operator).await;
        let limit = all.iter().find(|kv| kv.value.starts_with(b"{\"limit\":")).unwrap();
        operator.put(limit.key.clone(), r#"{"limits":[3],"version":1}"#, None).await.unwrap();
    };
    let stored = async || stored(&operator).await;
    let before = semaphore_is_left_alone(backend(&server).await, &name, SAYS, make_newer, stored);
    // Both are about the key of the permit alone.
    let (renewed, released) = before.await.unwrap();
    assert_eq!((renewed.unwrap(), released.unwrap()), (Renewed::Renewed, Verdict::Released));
    the_others_work(&server).await;
}

async fn a_newer_record_of_readers_is_left_alone_by_everything() {
    let server = server();
    let (operator, name) = (operator(&server).await, Name::new("a").unwrap());
    let make_newer = async || {
        operator.put("leasehold/a\u{b}", r#"{"tokens":[1]}"#, None).await.unwrap();
    };
    let stored = async || stored(&operator).await;
    let before = readers_are_left_alone(backend(&server).await, &name, SAYS, make_newer, stored);
    let (renewed, released) = before.await.unwrap();
    assert_eq!((renewed.unwrap(), released.unwrap()), (Renewed::Renewed, Verdict::Released));
    the_others_work(&server).await;
}
