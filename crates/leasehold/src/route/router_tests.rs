//! The lock excludes the second instance when two lists of members disagree.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;

use super::{Members, Routed, Router};
use crate::memory::MemoryStore;
use crate::{Client, ErrorKind, State, Token};

const KEYS: usize = 24;
const ROUNDS: usize = 20;

fn client(store: &MemoryStore) -> Client {
    Client::new(Arc::new(store.connect())).unwrap()
}

fn members(names: &[&str]) -> Members {
    Members::new(names.iter().copied()).unwrap()
}

/// A key of each of these members, in a set of all of them.
fn keys_of<const N: usize>(names: [&str; N]) -> [String; N] {
    let all = members(&names);
    let key = |owner| (0..).map(|at| format!("k{at}")).find(|key| all.owner_of(key) == owner);
    names.map(|name| key(name).unwrap())
}

/// Who is at work on one key.
#[derive(Default)]
struct Work {
    busy: AtomicBool,
    last: AtomicU64,
}

impl Work {
    async fn alone(&self, token: Token) {
        assert!(!self.busy.swap(true, Ordering::SeqCst), "two at work on one key");
        assert!(self.last.swap(token.get(), Ordering::SeqCst) < token.get(), "token order");
        tokio::task::yield_now().await;
        self.busy.store(false, Ordering::SeqCst);
    }
}

/// Each takes itself and `c` for the members in every second round, and all three in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_instances_with_different_members_never_both_hold() {
    let (store, mut tasks) = (MemoryStore::new(), JoinSet::new());
    let work: Arc<Vec<Work>> = Arc::new((0..KEYS).map(|_| Work::default()).collect());
    let (all, a, b) = (members(&["a", "b", "c"]), members(&["a", "c"]), members(&["b", "c"]));
    for (me, own) in [("a", &a), ("b", &b)] {
        let client = client(&store);
        for key in 0..KEYS {
            let lock = client.lock(name(key));
            let router = Router::new(me, own.clone()).unwrap();
            let lists = [own.clone(), all.clone()];
            let work = work.clone();
            tasks.spawn(async move {
                let mut held = 0;
                for round in 0..ROUNDS {
                    router.update(lists[round % 2].clone());
                    if let Routed::Mine(guard) = router.acquire(&lock).await.unwrap() {
                        work[key].alone(guard.token()).await;
                        guard.release().await.unwrap();
                        held += 1;
                    }
                }
                (key, held)
            });
        }
    }
    // The lists disagree about keys that both take for theirs: else nothing is shown.
    let disputed = |key: &usize| a.owner_of(name(*key)) == "a" && b.owner_of(name(*key)) == "b";
    let disputed: Vec<_> = (0..KEYS).filter(disputed).collect();
    assert!(disputed.len() >= 4, "{disputed:?}");
    while let Some(done) = tasks.join_next().await {
        let (key, held) = done.unwrap();
        assert!(held >= ROUNDS / 2 || !disputed.contains(&key), "{key} was held {held} times");
    }
}

fn name(key: usize) -> String {
    format!("orders/{key}")
}

#[tokio::test]
async fn the_owner_works_and_others_are_told_whose_it_is_without_a_lock() {
    let store = MemoryStore::new();
    let client = client(&store);
    let router = Router::new("a", members(&["a", "b", "c"])).unwrap();
    let [mine, other, _] = keys_of(["a", "b", "c"]);
    assert!(router.is_mine(&mine) && !router.is_mine(&other));

    let Routed::Mine(guard) = router.acquire(&client.lock(&mine)).await.unwrap() else { panic!() };
    assert!(guard.is_valid() && guard.name().as_str() == mine);
    let routed = router.acquire(&client.lock(&other)).await.unwrap();
    assert!(matches!(routed, Routed::NotMine { owner } if owner == "b"));
    assert_eq!(client.list("", 10).await.unwrap().len(), 1);

    // A held lock stays held when the key moves to another member.
    router.update(members(&["b", "c"]));
    assert!(!router.is_mine(&mine) && guard.is_valid());
    guard.release().await.unwrap();
}

#[tokio::test]
async fn the_next_in_preference_takes_over_and_waits_for_one_that_lives() {
    let store = MemoryStore::new();
    let names = ["a", "b", "c"];
    let all = members(&names);
    let [_, key, _] = keys_of(names);
    let order = all.owners_of(&key, 3);
    let [gone, next, last] = [order[0], order[1], order[2]];

    let owner = client(&store);
    let Routed::Mine(held) =
        Router::new(gone, all.clone()).unwrap().acquire(&owner.lock(&key)).await.unwrap()
    else {
        panic!()
    };
    let router = Router::new(last, all.clone()).unwrap();
    let client = client(&store);
    let routed = router.take_over(&client.lock(&key), &[gone]).await.unwrap();
    assert!(matches!(routed, Routed::NotMine { owner } if owner == next));

    let router = Router::new(next, all.clone()).unwrap();
    let lock = client.lock(&key).wait(Duration::ZERO);
    let busy = router.take_over(&lock, &[gone]).await.unwrap_err();
    assert_eq!(busy.kind(), ErrorKind::Timeout);
    held.release().await.unwrap();
    let routed = router.take_over(&lock, &[gone]).await.unwrap();
    assert!(matches!(routed, Routed::Mine(guard) if guard.is_valid()));

    let error = router.take_over(&lock, &names).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(
        error.message(),
        "gone: [\"a\", \"b\", \"c\"] are all the members; at least one must remain"
    );
}

#[tokio::test]
async fn a_lock_granted_after_the_key_has_moved_is_given_back() {
    let store = MemoryStore::new();
    let (one, two) = (client(&store), client(&store));
    let [key, _] = keys_of(["a", "b"]);
    let router = Router::new("a", members(&["a", "b"])).unwrap();
    let held = one.lock(&key).acquire().await.unwrap();

    let lock = two.lock(&key).min_hold(Duration::from_secs(3600));
    let moved = async {
        while one.lock(&key).status().await.unwrap().waiters.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        router.update(members(&["b"]));
        held.release().await.unwrap();
    };
    let (routed, ()) = tokio::join!(router.acquire(&lock), moved);
    assert!(matches!(routed.unwrap(), Routed::NotMine { owner } if owner == "b"));
    assert_eq!(one.lock(&key).status().await.unwrap().state, State::Free);
}

#[tokio::test]
async fn wrong_names_are_refused() {
    let error = Router::new("d", members(&["a", "b"])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(error.message(), "me: \"d\" is not a member; the members are [\"a\", \"b\"]");
    let router = Router::new("a", members(&["a"])).unwrap();
    let error = router.acquire(&client(&MemoryStore::new()).lock("")).await.unwrap_err();
    assert_eq!((error.kind(), error.operation()), (ErrorKind::Invalid, "acquire"));
}
