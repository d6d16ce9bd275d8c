//! Records of semaphores and of readers that a newer version wrote.

use std::sync::Arc;

use leasehold_conformance::newer::{readers_are_left_alone, semaphore_is_left_alone};
use leasehold_core::backend::{Backend, Renewed, Verdict};
use leasehold_core::{Name, StoreUrl};
use leasehold_test_servers::ZooKeeperServer;
use zookeeper_client::Client as ZooKeeper;

use crate::{Test, connect, plain, test};

pub(crate) const TESTS: &[Test] = &[
    test!(a_newer_semaphore_is_left_alone_by_everything),
    test!(newer_readers_are_left_alone_by_everything),
];

const SAYS: &str = "that this version knows";

async fn backend(server: &ZooKeeperServer) -> Arc<dyn Backend> {
    let url = StoreUrl::parse(&server.url()).unwrap();
    Arc::new(leasehold_zookeeper::connect(url).await.unwrap())
}

async fn operator(server: &ZooKeeperServer) -> ZooKeeper {
    ZooKeeper::connect(&server.address().to_string()).await.unwrap()
}

/// Returns the data of a node, and the nodes below it.
async fn stored(operator: &ZooKeeper, path: &str) -> (String, Vec<String>) {
    let (data, _) = operator.get_data(path).await.unwrap();
    let mut nodes = operator.list_children(path).await.unwrap();
    nodes.sort();
    (String::from_utf8(data).unwrap(), nodes)
}

/// Other names are listed, forgotten and used as before, and the newer record stays.
async fn the_others_work(server: &ZooKeeperServer, operator: &ZooKeeper, path: &str) {
    let client = connect(&server.url()).await;
    let before = stored(operator, path).await;
    let held = client.lock("b").acquire().await.unwrap();
    let listed = client.list("", 10).await.unwrap();
    assert!(listed.iter().any(|status| status.name.as_str() == "b"), "{listed:?}");
    held.release().await.unwrap();
    let url = StoreUrl::parse(&server.url()).unwrap();
    leasehold_zookeeper::forget(url, "").await.unwrap();
    assert!(operator.check_stat("/leasehold/b").await.unwrap().is_none(), "not forgotten");
    assert_eq!(stored(operator, path).await, before);
}

async fn a_newer_semaphore_is_left_alone_by_everything() {
    const PATH: &str = "/leasehold/a/semaphore";
    let server = plain();
    let (operator, name) = (operator(&server).await, Name::new("a").unwrap());
    let make_newer = async || {
        let (data, _) = operator.get_data(PATH).await.unwrap();
        let data = String::from_utf8(data).unwrap().replace('}', r#","fair":true}"#);
        operator.set_data(PATH, data.as_bytes(), None).await.unwrap();
    };
    let stored = async || stored(&operator, PATH).await;
    let asked = semaphore_is_left_alone(backend(&server).await, &name, SAYS, make_newer, stored);
    // Both are about the node of the permit alone.
    let (renewed, released) = asked.await.unwrap();
    assert_eq!((renewed.unwrap(), released.unwrap()), (Renewed::Renewed, Verdict::Released));
    the_others_work(&server, &operator, PATH).await;
}

async fn newer_readers_are_left_alone_by_everything() {
    const PATH: &str = "/leasehold/a";
    let server = plain();
    let (operator, name) = (operator(&server).await, Name::new("a").unwrap());
    let make_newer = async || {
        let data = br#"{"token":9,"last":1,"queue":2,"fair":true}"#;
        operator.set_data(PATH, data, None).await.unwrap();
    };
    let stored = async || stored(&operator, PATH).await;
    let asked = readers_are_left_alone(backend(&server).await, &name, SAYS, make_newer, stored);
    let (renewed, released) = asked.await.unwrap();
    assert_eq!((renewed.unwrap(), released.unwrap()), (Renewed::Renewed, Verdict::Released));
}
