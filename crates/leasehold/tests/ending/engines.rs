//! The same promise on every engine, and that a minimum hold outlives the program.

use leasehold::State;
use leasehold_conformance::runner::Test;
use leasehold_conformance::test;

use crate::program::program;
use crate::stores::Store;
use crate::{blocking, ends_with_a_free_lock};

/// On one thread each run left the lock taken.
const FEW: usize = 5;

pub(crate) const TESTS: &[Test] = &[
    test!(file_lock_is_free_when_a_program_has_ended),
    test!(sqlite_lock_is_free_when_a_program_has_ended),
    test!(postgres_lock_is_free_when_a_program_has_ended, Postgres),
    test!(mysql_lock_is_free_when_a_program_has_ended, MySql),
    test!(etcd_lock_is_free_when_a_program_has_ended, Etcd),
    test!(zookeeper_lock_is_free_when_a_program_has_ended, ZooKeeper),
    test!(sentinel_lock_is_free_when_a_program_has_ended),
    test!(cluster_lock_is_free_when_a_program_has_ended),
    test!(quorum_lock_is_free_when_a_program_has_ended),
    test!(quorum_lock_is_free_when_a_program_has_ended_while_a_node_is_stopped),
    test!(strict_lock_is_free_when_a_program_has_ended),
    test!(etcd_lock_stays_for_its_minimum_hold, Etcd),
    test!(zookeeper_lock_stays_for_its_minimum_hold, ZooKeeper),
    test!(quorum_lock_stays_for_its_minimum_hold),
    test!(redis_lock_stays_for_its_minimum_hold),
    test!(postgres_lock_stays_for_its_minimum_hold, Postgres),
];

async fn free_when_a_program_has_ended(store: Store) {
    ends_with_a_free_lock("drop on one thread", &store.url, FEW).await;
    ends_with_a_free_lock("drop", &store.url, FEW).await;
}

async fn file_lock_is_free_when_a_program_has_ended() {
    free_when_a_program_has_ended(Store::file()).await;
}

async fn sqlite_lock_is_free_when_a_program_has_ended() {
    free_when_a_program_has_ended(Store::sqlite()).await;
}

async fn postgres_lock_is_free_when_a_program_has_ended() {
    free_when_a_program_has_ended(Store::postgres()).await;
}

async fn mysql_lock_is_free_when_a_program_has_ended() {
    free_when_a_program_has_ended(Store::mysql()).await;
}

async fn etcd_lock_is_free_when_a_program_has_ended() {
    free_when_a_program_has_ended(Store::etcd()).await;
}

async fn zookeeper_lock_is_free_when_a_program_has_ended() {
    free_when_a_program_has_ended(Store::zookeeper()).await;
}

async fn sentinel_lock_is_free_when_a_program_has_ended() {
    free_when_a_program_has_ended(Store::sentinel()).await;
}

async fn cluster_lock_is_free_when_a_program_has_ended() {
    free_when_a_program_has_ended(Store::cluster()).await;
}

async fn quorum_lock_is_free_when_a_program_has_ended() {
    free_when_a_program_has_ended(Store::quorum().await).await;
}

async fn strict_lock_is_free_when_a_program_has_ended() {
    free_when_a_program_has_ended(Store::strict().await).await;
}

async fn quorum_lock_is_free_when_a_program_has_ended_while_a_node_is_stopped() {
    let store = Store::quorum().await;
    store.redis()[2].stop().unwrap();
    ends_with_a_free_lock("drop on one thread", &store.url, FEW).await;
    store.redis()[2].resume().unwrap();
}

/// The program ends at once, and the lock stays taken: kept by the engine, or for its ttl.
async fn stays_for_its_minimum_hold(store: Store) {
    let mut program = program("minimum hold", &store.url);
    let ended = blocking(move || program.status()).await.unwrap();
    assert!(ended.success(), "{ended}");
    let client = leasehold::connect(&store.url).await.unwrap();
    assert_ne!(client.lock("job").status().await.unwrap().state, State::Free);
    client.close().await;
}

async fn etcd_lock_stays_for_its_minimum_hold() {
    stays_for_its_minimum_hold(Store::etcd()).await;
}

async fn zookeeper_lock_stays_for_its_minimum_hold() {
    stays_for_its_minimum_hold(Store::zookeeper()).await;
}

async fn quorum_lock_stays_for_its_minimum_hold() {
    stays_for_its_minimum_hold(Store::quorum().await).await;
}

async fn redis_lock_stays_for_its_minimum_hold() {
    stays_for_its_minimum_hold(Store::single()).await;
}

async fn postgres_lock_stays_for_its_minimum_hold() {
    stays_for_its_minimum_hold(Store::postgres()).await;
}
