//! Two clients that take turns: who has released to a waiter lets it ask first.

use leasehold_conformance::manual_time::{ms, others_run};
use leasehold_core::Client;
use leasehold_quorum::MemoryNode;

use crate::nodes::Quorum;

#[tokio::test]
async fn who_has_released_to_a_waiter_and_asks_again_lets_it_go_first() {
    let quorum = Quorum::founded(3).await;
    let (one, two) = (quorum.client().await, quorum.client().await);
    let steps = || quorum.nodes.iter().map(MemoryNode::steps).sum::<u64>();
    let acquire = |client: &Client| {
        let lock = client.lock("a");
        tokio::spawn(async move { lock.acquire().await.unwrap() })
    };
    // The clock does not advance: what is awaited waits for no timer.
    let mut guard = one.lock("a").acquire().await.unwrap();
    let mut waiting = acquire(&two);
    others_run().await;
    for turn in 0..10 {
        let own = if turn % 2 == 0 { &one } else { &two };
        let before = steps();
        guard.release().await.unwrap();
        let again = acquire(own);
        guard = waiting.await.unwrap();
        waiting = again;
        others_run().await;
        // The release, and the request of the waiter: the other client has sent none.
        assert_eq!(steps() - before, 6);
        assert!(!waiting.is_finished());
    }
    guard.release().await.unwrap();
    waiting.await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_waiter_that_has_left_delays_who_asks_again_only_a_little() {
    let quorum = Quorum::founded(3).await;
    let (one, two) = (quorum.client().await, quorum.client().await);
    let guard = one.lock("a").acquire().await.unwrap();
    let lock = two.lock("a");
    let waiting = tokio::spawn(async move { lock.acquire().await.map(drop) });
    others_run().await;
    waiting.abort();
    others_run().await;
    guard.release().await.unwrap();
    let lock = one.lock("a");
    let again = tokio::spawn(async move { lock.acquire().await });
    quorum.pass_by(ms(1), ms(2)).await;
    others_run().await;
    assert!(again.is_finished());
    again.await.unwrap().unwrap().release().await.unwrap();
    // Nothing else is left of it.
    one.lock("a").acquire().await.unwrap().release().await.unwrap();
}
