//! Records of semaphores and of readers that a newer version wrote.

use std::sync::Arc;

use leasehold_conformance::newer::{readers_are_left_alone, semaphore_is_left_alone};
use leasehold_core::backend::{Backend, Renewed, Verdict};
use leasehold_core::{State, StoreUrl};
use leasehold_test_servers::RedisServer;

use crate::permits::content;
use crate::side::name;
use crate::{Test, connect, plain, test};

pub(crate) const TESTS: &[Test] = &[
    test!(a_newer_semaphore_is_left_alone_by_everything),
    test!(newer_readers_are_left_alone_by_everything),
];

const SAYS: &str = "a newer version";
const KEY: &str = "leasehold:{a}";

async fn backend(server: &RedisServer) -> Arc<dyn Backend> {
    let url = StoreUrl::parse(&server.url()).unwrap();
    Arc::new(leasehold_redis::connect(url).await.unwrap())
}

/// Other names are listed, forgotten and used as before, and the newer record stays.
async fn the_others_work(server: &RedisServer) {
    let client = connect(&server.url()).await;
    let before = server.admin(&["DUMP", KEY]).unwrap();
    let held = client.lock("b").acquire().await.unwrap();
    let listed = client.list("", 10).await.unwrap();
    assert!(listed.iter().any(|status| status.name.as_str() == "b"), "{listed:?}");
    let noted = |note: &String| note.contains(SAYS);
    let newer = listed.iter().find(|status| status.note.as_ref().is_some_and(noted));
    assert_eq!(newer.map(|status| status.state), Some(State::Unknown), "{listed:?}");
    held.release().await.unwrap();
    let url = StoreUrl::parse(&server.url()).unwrap();
    leasehold_redis::forget(url, "").await.unwrap();
    assert_eq!(server.admin(&["DUMP", KEY]).unwrap(), before);
}

async fn a_newer_semaphore_is_left_alone_by_everything() {
    let server = plain();
    let make_newer = async || drop(server.admin(&["SETRANGE", KEY, "0", "S2"]).unwrap());
    let (backend, stored) = (backend(&server).await, async || content(&server));
    let held = semaphore_is_left_alone(backend, &name(), SAYS, make_newer, stored).await.unwrap();
    assert_eq!((held.0.unwrap(), held.1.unwrap()), (Renewed::Lost, Verdict::Lost));
    the_others_work(&server).await;
}

async fn newer_readers_are_left_alone_by_everything() {
    let server = plain();
    let make_newer = async || drop(server.admin(&["SETRANGE", KEY, "0", "L3"]).unwrap());
    let (backend, stored) = (backend(&server).await, async || content(&server));
    let held = readers_are_left_alone(backend, &name(), SAYS, make_newer, stored).await.unwrap();
    assert_eq!((held.0.unwrap(), held.1.unwrap()), (Renewed::Lost, Verdict::Lost));
    the_others_work(&server).await;
}
