//! Records of a lock that are not for the nodes beside them.

use leasehold_core::State;
use leasehold_test_servers::ZooKeeperServer;
use zookeeper_client::Client as ZooKeeper;

use crate::{Test, connect, plain, test};

pub(crate) const TESTS: &[Test] = &[
    test!(the_record_of_a_removed_node_is_not_used),
    test!(a_record_for_earlier_nodes_is_not_that_of_the_holder),
];

const LOCK: &str = "/leasehold/a";
/// Above each transaction of a new server.
const HIGH: u64 = 1 << 40;

async fn operator(server: &ZooKeeperServer) -> ZooKeeper {
    ZooKeeper::connect(&server.address().to_string()).await.unwrap()
}

/// Stores a record with a high token, for the nodes up to the number `last`.
async fn store(operator: &ZooKeeper, last: i32, queue: i64) {
    let record = format!(r#"{{"token":{HIGH},"last":{last},"queue":{queue}}}"#);
    operator.set_data(LOCK, record.as_bytes(), None).await.unwrap();
}

/// A request from the time before the node of the lock was removed arrives late.
async fn the_record_of_a_removed_node_is_not_used() {
    let server = plain();
    let (client, operator) = (connect(&server.url()).await, operator(&server).await);
    client.rw_lock("a").read().await.unwrap().release().await.unwrap();
    let created = operator.check_stat(LOCK).await.unwrap().unwrap().czxid;
    store(&operator, i32::MAX, created - 1).await;
    let read = client.rw_lock("a").read().await.unwrap();
    assert!(read.token().get() < HIGH, "{} is above the token of an earlier queue", read.token());
    read.release().await.unwrap();
    // That of this queue counts.
    store(&operator, 0, created).await;
    let read = client.rw_lock("a").read().await.unwrap();
    assert!(read.token().get() > HIGH, "{} is not above the last token", read.token());
    read.release().await.unwrap();
}

async fn a_record_for_earlier_nodes_is_not_that_of_the_holder() {
    let server = plain();
    let (client, operator) = (connect(&server.url()).await, operator(&server).await);
    client.lock("a").acquire().await.unwrap().release().await.unwrap();
    let held = client.lock("a").acquire().await.unwrap();
    let node = operator.list_children(LOCK).await.unwrap().remove(0);
    let number: i32 = node.rsplit_once('-').unwrap().1.parse().unwrap();
    let created = operator.check_stat(LOCK).await.unwrap().unwrap().czxid;
    store(&operator, number - 1, created).await;
    let status = client.lock("a").status().await.unwrap();
    assert_eq!((status.state, status.token), (State::Held, Some(held.token())));
    held.release().await.unwrap();
}
