//! Locks over nodes that stop, lose data, are slow, and repeat messages; on a manual clock.

#![allow(clippy::unwrap_used)]

mod metrics;
mod nodes;
mod turns;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use leasehold_conformance::manual_time::{connect, ms, others_run, secs, stands_in_line};
use leasehold_core::backend::{Backend, Renewal, Renewed};
use leasehold_core::{Error, ErrorKind, Lock, LossReason, State, Usage};
use leasehold_quorum::{
    Founding, MAX_TTL, Member, MemoryNode, NodeFault, Outlook, QuorumBackend, found, found_exactly,
    members,
};

use nodes::Quorum;

const FAULTS: [NodeFault; 7] = [
    NodeFault::Stopped,
    NodeFault::Unfit,
    NodeFault::BlackHole,
    NodeFault::Mute,
    NodeFault::Slow(Duration::from_millis(200)),
    NodeFault::Jitters(Duration::from_millis(100)),
    NodeFault::Repeats,
];

#[tokio::test]
async fn one_or_two_of_five_that_fail_cost_no_time_and_leave_nothing() {
    for fault in FAULTS {
        for bad in [1, 2] {
            let quorum = Quorum::founded(5).await;
            let client = quorum.client().await;
            quorum.fault(0..bad, fault);
            let lock = client.lock("a").ttl(secs(10));
            let mut last = None;
            for _ in 0..20 {
                // The clock does not advance: the client does not wait for the bad nodes.
                let guard = lock.try_acquire().await.unwrap().unwrap();
                assert!(Some(guard.token()) > last, "{fault:?}");
                last = Some(guard.token());
                guard.release().await.unwrap();
            }
            let guard = lock.acquire().await.unwrap();
            quorum.pass(secs(30)).await;
            assert!(guard.is_valid(), "{fault:?}: not renewed by {} of 5", 5 - bad);
            guard.release().await.unwrap();
            quorum.pass(secs(11)).await;
            assert_eq!(quorum.leases(), 0, "{fault:?}");
            assert_eq!(client.usage(), Usage::default());
        }
    }
}

#[tokio::test]
async fn three_of_five_that_fail_are_a_clear_error_within_the_wait() {
    let refused = "refused: it cannot write now";
    for (fault, says) in [
        (NodeFault::Stopped, "is stopped"),
        (NodeFault::Unfit, refused),
        (NodeFault::BlackHole, "does not answer"),
        (NodeFault::Slow(ms(200)), "does not answer"),
    ] {
        let quorum = Quorum::founded(5).await;
        let client = quorum.client().await;
        quorum.fault([0, 1, 3], fault);
        let start = quorum.hand.clock().now();
        let lock = client.lock("a");
        let error = quorum.until(ms(1), lock.acquire_within(secs(3))).await.unwrap_err();
        let took = quorum.hand.clock().now().steady_ns - start.steady_ns;
        // Shortly before the timeout: one more request would not have ended in time.
        assert!((2_900_000_000..3_000_000_000).contains(&took), "{took}");
        assert_eq!(error.kind(), ErrorKind::Timeout);
        let each = format!("node n0 {says}, node n1 {says}, node n3 {says}");
        let text = format!(
            "granted by 2 of 5 nodes, 3 needed: {each}; locks can be acquired again when 1 of \
             these can vote"
        );
        assert!(told(&error).ends_with(&text), "{error}");
        let error = quorum.until(ms(10), lock.try_acquire()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        quorum.fault(0..5, NodeFault::None);
        quorum.pass(secs(3)).await;
        assert_eq!(quorum.leases(), 0, "{says}");
        assert!(lock.try_acquire().await.unwrap().is_some());
    }
}

#[tokio::test]
async fn the_error_says_what_those_have_answered_that_are_well() {
    let quorum = Quorum::founded(5).await;
    let (one, two) = (quorum.client().await, quorum.client().await);
    quorum.fault([0, 1], NodeFault::Stopped);
    let guard = one.lock("a").lease(secs(5)).acquire().await.unwrap();
    // Down, down, silent; and another client holds it on the two healthy nodes.
    quorum.fault([2], NodeFault::BlackHole);
    quorum.fault([0, 1, 3], NodeFault::Stopped);
    let error = quorum.until(ms(1), two.lock("a").acquire_within(ms(500))).await.unwrap_err();
    let text = "granted by 0 of 5 nodes, 3 needed (another client holds it on 1): node n0 is \
                stopped, node n1 is stopped, node n2 does not answer, node n3 is stopped; locks \
                can be acquired again when 2 of these can vote";
    assert!(told(&error).ends_with(text), "{error}");
    drop(guard);
}

#[tokio::test]
async fn the_error_says_what_is_known_of_those_that_have_not_said_who_they_are() {
    let quorum = Quorum::founded(5).await;
    quorum.fault([0], NodeFault::Stopped);
    quorum.fault([1], NodeFault::BlackHole);
    let client = quorum.until(ms(10), quorum.client()).await;
    quorum.fault([3], NodeFault::Stopped);
    let error = quorum.until(ms(1), client.lock("a").acquire_within(ms(500))).await.unwrap_err();
    let each = ": node n0 is stopped, node n1 does not answer, node n3 is stopped; locks can";
    assert!(error.message().contains(each), "{error}");
}

/// Returns the text of an error. A silent node was asked by this attempt, or by earlier ones.
fn told(error: &Error) -> String {
    error.message().replace("did not answer in 50ms", "does not answer")
}

#[tokio::test]
async fn a_release_while_the_last_answers_to_a_denied_acquire_are_missing_is_answered_at_once() {
    let quorum = Quorum::founded(5).await;
    let backend = quorum.backend().await.unwrap();
    let client = connect(&quorum.hand, Arc::new(backend));
    quorum.fault(0..3, NodeFault::Stopped);
    quorum.fault(3..5, NodeFault::BlackHole);
    let lock = client.lock("a");
    // Denied, and two nodes may still reply.
    stands_in_line(pin!(lock.acquire())).await;
    client.settle().await;
    assert_eq!(client.usage(), Usage::default());
}

#[tokio::test]
async fn a_node_that_was_slow_once_is_asked_for_everybody_where_it_is_needed() {
    let quorum = Quorum::founded(5).await;
    let client = quorum.client().await;
    quorum.fault([0, 1], NodeFault::Stopped);
    quorum.fault([2], NodeFault::BlackHole);
    let first = client.lock("first");
    let first = tokio::spawn(async move { first.acquire().await });
    others_run().await;
    quorum.pass_by(ms(10), ms(60)).await;
    quorum.fault([2], NodeFault::None);
    // They wait behind the lost call, and are sent together when that call times out.
    let waiting: Vec<_> = (0..9)
        .map(|number| {
            let lock = client.lock(format!("lock {number}"));
            tokio::spawn(async move { lock.acquire().await })
        })
        .collect();
    others_run().await;
    quorum.pass_by(ms(10), ms(40)).await;
    let late = waiting.iter().filter(|task| !task.is_finished()).count();
    assert_eq!(late, 0, "denied, though all that are needed answer");
    drop(quorum.until(ms(10), first).await.unwrap().unwrap());
}

#[tokio::test]
async fn nodes_that_are_down_make_no_room_for_more_than_the_others_can_do() {
    let quorum = Quorum::founded(5).await;
    let client = quorum.client().await;
    let locks: Vec<_> = (0..1000).map(|number| client.lock(format!("lock {number}"))).collect();
    quorum.fault([0, 1], NodeFault::Stopped);
    for lock in &locks {
        // No counter is new then, so one round is enough for any order of calls.
        lock.acquire().await.unwrap().release().await.unwrap();
    }
    quorum.pass(secs(1)).await;
    // One is fast, and two are needed that take 20 of their 50 ms for each call.
    quorum.fault([3, 4], NodeFault::Slow(ms(20)));
    let before = quorum.nodes[2].steps();
    let acquire = |lock: Lock| tokio::spawn(async move { lock.acquire().await });
    let asking: Vec<_> = locks.into_iter().map(acquire).collect();
    let mut guards = Vec::new();
    for task in asking {
        guards.push(quorum.until(ms(5), task).await.unwrap().unwrap());
    }
    assert_eq!(quorum.nodes[2].steps() - before, 1000, "some were denied, and tried again");
}

#[tokio::test]
async fn nodes_that_answer_late_are_given_back_what_they_grant() {
    let quorum = Quorum::founded(5).await;
    let client = quorum.client().await;
    quorum.fault(0..3, NodeFault::Slow(ms(200)));
    let lock = client.lock("a").ttl(secs(30));
    let error = quorum.until(ms(10), lock.acquire_within(ms(60))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(quorum.leases() <= 2, "nothing has arrived yet");
    quorum.pass_by(ms(10), ms(120)).await;
    quorum.pass_by(ms(10), ms(600)).await;
    assert_eq!(quorum.leases(), 0, "left until the end of their ttl");
}

#[tokio::test]
async fn a_silent_node_is_tried_with_one_step_at_a_time() {
    let quorum = Quorum::founded(5).await;
    let client = quorum.client().await;
    quorum.fault([4], NodeFault::BlackHole);
    let pairs = async |count: usize| {
        for number in 0..count {
            let lock = client.lock(format!("lock {number}"));
            lock.try_acquire().await.unwrap().unwrap().release().await.unwrap();
        }
    };
    pairs(100).await;
    quorum.pass_by(ms(10), ms(100)).await;
    let before = quorum.nodes[4].steps();
    pairs(1000).await;
    quorum.pass_by(ms(10), secs(1)).await;
    let sent = quorum.nodes[4].steps() - before;
    assert!((1..=25).contains(&sent), "{sent} steps in a second to a node that is not there");
    quorum.fault([4], NodeFault::None);
    quorum.pass_by(ms(10), secs(1)).await;
    let before = quorum.nodes[4].steps();
    pairs(10).await;
    others_run().await;
    assert_eq!(quorum.nodes[4].steps() - before, 20, "it takes part again");
}

#[tokio::test]
async fn nodes_that_restart_empty_while_a_bare_majority_holds_let_nobody_in() {
    for forget in [1, 2] {
        let quorum = Quorum::founded(5).await;
        let (one, two) = (quorum.client().await, quorum.client().await);
        quorum.fault([3, 4], NodeFault::Stopped);
        let guard = one.lock("a").lease(secs(50)).acquire().await.unwrap();
        quorum.fault([3, 4], NodeFault::None);
        quorum.pass(secs(1)).await;
        assert_eq!(quorum.leases(), 3);
        (0..forget).for_each(|node| quorum.restart_empty(node));
        while guard.is_valid() {
            let second = quorum.until(ms(10), two.lock("a").try_acquire()).await;
            assert!(second.is_err() || second.unwrap().is_none(), "{forget} forgot: two holders");
            quorum.pass(secs(1)).await;
        }
        // Admitted again without an operator, they complete the majority.
        quorum.pass(secs(20)).await;
        quorum.fault([2, 3].into_iter().take(3 - forget), NodeFault::Stopped);
        let next = quorum.until(ms(10), two.lock("a").acquire_within(secs(5))).await.unwrap();
        assert!(next.token() > guard.token());
    }
}

#[tokio::test]
async fn when_three_of_five_forget_nobody_is_let_in_until_an_operator_says_so() {
    let quorum = Quorum::founded(5).await;
    let client = quorum.client().await;
    let before = client.lock("a").acquire().await.unwrap();
    let token = before.token();
    (0..3).for_each(|node| quorum.restart_empty(node));
    quorum.pass(secs(300)).await;
    assert_eq!(before.lost().await, LossReason::NotOwner);
    let error = quorum.until(ms(10), client.lock("a").acquire()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
    assert!(error.message().contains("`leasehold quorum init --after-loss`"), "{error}");
    let seen = members(quorum.connected(), MAX_TTL, quorum.hand.clock()).await;
    assert_eq!(seen.outlook, Outlook::Forgotten);
    assert!(matches!(seen.nodes[0].1, Member::Waiting(_)), "{seen:?}");
    assert!(matches!(seen.nodes[4].1, Member::Admitted(_)), "{seen:?}");
    assert_eq!(quorum.found(Founding::AfterLoss).await.unwrap(), Outlook::Open);
    quorum.pass(secs(2)).await;
    let after = client.lock("a").acquire().await.unwrap();
    assert!(after.token() > token);
}

#[tokio::test]
async fn init_returns_though_a_node_loses_its_data_again_and_again() {
    let quorum = Quorum::founded(3).await;
    (0..3).for_each(|node| quorum.restart_empty(node));
    let clock = quorum.hand.clock();
    let founding = found(quorum.connected(), MAX_TTL, Founding::AfterLoss, clock, |_| {});
    let founding = tokio::spawn(founding);
    for _ in 0..40 {
        if founding.is_finished() {
            break;
        }
        quorum.restart_empty(2);
        quorum.pass(MAX_TTL / 8).await;
    }
    assert!(founding.is_finished(), "it waits for a node that never stays");
    let members = founding.await.unwrap().unwrap();
    assert_eq!(members.outlook, Outlook::Open);
    assert!(matches!(members.nodes[2].1, Member::Waiting(_)), "{members:?}");
}

#[tokio::test]
async fn two_operators_with_different_longest_ttls_learn_of_each_other() {
    let quorum = Quorum::empty(3);
    quorum.fault(0..3, NodeFault::Slow(ms(200))); // Both look at the nodes before either writes.
    let init = |max_ttl| {
        let (nodes, clock) = (quorum.connected(), quorum.hand.clock());
        found_exactly(nodes, max_ttl, Founding::AfterLoss, clock, |_| {})
    };
    let both = async { tokio::join!(init(secs(2)), init(secs(3))) };
    for (done, other) in <[_; 2]>::from(quorum.until(ms(100), both).await).into_iter().zip([3, 2]) {
        let error = done.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        let text = format!("sets up the same nodes with a longest ttl of {other}s");
        assert!(error.message().contains(&text), "{error}");
    }
}

#[tokio::test]
async fn nodes_that_nobody_set_up_say_how() {
    let quorum = Quorum::empty(3);
    let backend = quorum.backend().await.unwrap();
    assert!(backend.warnings().iter().any(|it| it.contains("leasehold quorum status")));
    let client = connect(&quorum.hand, Arc::new(backend));
    let error = quorum.until(ms(10), client.lock("a").acquire()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
    assert!(error.message().starts_with("not set up yet: run `leasehold quorum init`"), "{error}");
    quorum.found(Founding::Vouched).await.unwrap();
    quorum.pass(secs(2)).await;
    drop(client.lock("a").acquire().await.unwrap());
}

#[tokio::test]
async fn a_single_node_waits_and_is_waited_for() {
    let quorum = Quorum::empty(1);
    let client = quorum.client().await;
    let lock = client.lock("a");
    let known = "when one client has run for another";
    let error = quorum.until(ms(10), lock.try_acquire()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.message().contains(known), "{error}");
    let error = quorum.until(ms(10), lock.acquire_within(secs(20))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(error.message().contains(known), "{error}");
    // The wait is known, and longer than the client's patience.
    let guard = quorum.until(ms(10), lock.acquire_within(secs(60))).await.unwrap();
    assert!(guard.token().get() > quorum.hand.clock().now().unix_us() - 60_000_000);
    quorum.restart_empty(0);
    quorum.pass(secs(30)).await;
    assert_eq!(guard.lost().await, LossReason::NotOwner);
    assert!(quorum.until(ms(10), client.lock("a").try_acquire()).await.is_err(), "too early");
    quorum.pass(secs(40)).await;
    assert!(client.lock("a").acquire().await.unwrap().token() > guard.token());
}

#[tokio::test]
async fn connections_that_are_made_anew_are_no_loss() {
    let quorum = Quorum::founded(5).await;
    let client = quorum.client().await;
    let guard = client.lock("a").ttl(secs(30)).acquire().await.unwrap();
    let mut renewed = 0;
    for _ in 0..100 {
        let before = guard.deadline();
        quorum.fault(0..5, NodeFault::Slow(ms(5)));
        quorum.nodes.iter().for_each(MemoryNode::reset);
        others_run().await;
        quorum.hand.advance(ms(900));
        others_run().await;
        quorum.pass_by(ms(1), ms(30)).await;
        renewed += usize::from(guard.deadline() != before);
    }
    assert!(guard.is_valid());
    assert!(renewed >= 8, "{renewed} renewals in 93 seconds");
    // Nor while no node answers for a while.
    quorum.fault(0..5, NodeFault::BlackHole);
    quorum.nodes.iter().for_each(MemoryNode::reset);
    quorum.pass(secs(12)).await;
    quorum.fault(0..5, NodeFault::None);
    quorum.pass(secs(30)).await;
    assert!(guard.is_valid());
    guard.release().await.unwrap();
    assert_eq!(quorum.leases(), 0);
}

#[tokio::test]
async fn an_acquire_dropped_anywhere_between_slow_nodes_leaves_nothing() {
    for drop_at in 0..40 {
        let quorum = Quorum::founded(5).await;
        let client = quorum.client().await;
        quorum.fault(0..5, NodeFault::Jitters(ms(20)));
        let acquiring = client.lock("a");
        let mut acquiring = Box::pin(acquiring.acquire());
        for _ in 0..drop_at {
            if poll_fn(|cx| Poll::Ready(acquiring.as_mut().poll(cx))).await.is_ready() {
                break;
            }
            others_run().await;
            quorum.hand.advance(ms(1));
        }
        drop(acquiring);
        quorum.pass_by(ms(1), ms(250)).await;
        assert_eq!(quorum.leases(), 0, "dropped after {drop_at} ms");
        assert_eq!(client.usage(), Usage::default());
    }
}

#[tokio::test]
async fn calls_that_arrive_twice_and_late_are_one_lease() {
    let quorum = Quorum::founded(3).await;
    let clients = [quorum.client().await, quorum.client().await];
    quorum.fault(0..3, NodeFault::Repeats);
    let mut last = None;
    for turn in 0..100 {
        let (one, other) = (&clients[turn % 2], &clients[(turn + 1) % 2]);
        let guard = one.lock("a").acquire().await.unwrap();
        assert!(Some(guard.token()) > last);
        last = Some(guard.token());
        assert!(other.lock("a").try_acquire().await.unwrap().is_none(), "two holders");
        guard.release().await.unwrap();
    }
    assert_eq!(quorum.leases(), 0);
}

#[tokio::test]
async fn clients_that_start_together_all_get_it_within_a_bounded_number_of_rounds() {
    let mut asked = Vec::new();
    for _ in 0..9 {
        asked.push(steps_of_clients_that_start_together().await);
    }
    // Pauses are random, so a single start may need more.
    asked.sort_unstable();
    assert!(asked[4] < 200 && asked[8] < 600, "{asked:?} steps for each");
}

/// Returns how many steps each node got, for each of the clients.
async fn steps_of_clients_that_start_together() -> u64 {
    const CLIENTS: usize = 16;
    let quorum = Quorum::founded(5).await;
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(quorum.client().await);
    }
    // Each client sees the nodes in another order.
    quorum.fault(0..5, NodeFault::Jitters(ms(4)));
    let before = quorum.nodes[0].steps();
    let turns = clients.iter().map(|client| {
        let lock = client.lock("a");
        tokio::spawn(async move {
            let guard = lock.acquire().await.unwrap();
            let token = guard.token();
            guard.release().await.unwrap();
            token
        })
    });
    let turns: Vec<_> = turns.collect();
    let mut tokens = Vec::new();
    for turn in turns {
        tokens.push(quorum.until(ms(1), turn).await.unwrap());
    }
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), CLIENTS);
    (quorum.nodes[0].steps() - before) / CLIENTS as u64
}

#[tokio::test]
async fn a_ttl_above_what_the_nodes_grant_is_refused_before_anything_is_sent() {
    let quorum = Quorum::founded(3).await;
    let client = quorum.client().await;
    let before = quorum.nodes[0].steps();
    let error = client.lock("a").ttl(secs(61)).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(
        error.message().starts_with(
            "ttl: 61s is more than max-ttl=60s, the longest that these nodes grant; use at most 60s"
        ),
        "{error}"
    );
    assert_eq!(quorum.nodes[0].steps(), before);
    drop(client.lock("a").ttl(secs(60)).acquire().await.unwrap());
}

#[tokio::test]
async fn one_node_that_grants_shorter_leases_does_not_cap_the_others() {
    let quorum = Quorum::founded(3).await;
    let clock = quorum.hand.clock();
    quorum.restart_empty(0);
    let short = found(vec![quorum.nodes[0].connect()], secs(5), Founding::Vouched, clock, |_| {});
    quorum.until(ms(200), short).await.unwrap();
    let client = quorum.client().await;
    let lock = client.lock("a").ttl(secs(30));
    drop(quorum.until(ms(10), lock.try_acquire()).await.unwrap().unwrap());
    // Without a majority the error names the fault of this node, and not the ttl.
    quorum.fault(1..2, NodeFault::Unfit);
    let error =
        quorum.until(ms(10), client.lock("b").ttl(secs(30)).try_acquire()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.message().contains("n0 refused: it grants at most 5s"), "{error}");
}

#[tokio::test]
async fn wrong_lists_of_nodes_are_refused_and_even_ones_warned_of() {
    let quorum = Quorum::founded(4).await;
    let warnings = quorum.backend().await.unwrap().warnings().to_vec();
    assert!(warnings.iter().any(|it| it.contains("use an odd number")), "{warnings:?}");
    let builder = QuorumBackend::builder(Vec::new());
    assert_eq!(builder.connect().await.unwrap_err().kind(), ErrorKind::Invalid);
    let mut twice = quorum.connected();
    twice[2] = quorum.nodes[0].connect();
    let builder = QuorumBackend::builder(twice).clock(quorum.hand.clock());
    let error = builder.connect().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.message().contains("n0 is the same server as n0"), "{error}");
    quorum.fault(0..3, NodeFault::Stopped);
    let error = quorum.backend().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.message().contains("1 of 4 nodes answer, 3 must: n0 does not"), "{error}");
}

#[tokio::test]
async fn waiters_are_woken_though_holders_had_a_bare_majority_and_a_node_is_down() {
    let quorum = Quorum::founded(3).await;
    let (one, two) = (quorum.client().await, quorum.client().await);
    quorum.fault(2..3, NodeFault::Unfit);
    let (mut guards, mut waiting) = (Vec::new(), Vec::new());
    for name in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        guards.push(one.lock(name).acquire().await.unwrap());
        let lock = two.lock(name);
        waiting.push(async move { lock.acquire().await });
    }
    quorum.fault(2..3, NodeFault::None);
    quorum.fault(1..2, NodeFault::BlackHole);
    // The first node refuses, the third grants, and the second is silent.
    let waiting: Vec<_> = waiting.into_iter().map(tokio::spawn).collect();
    quorum.pass_by(ms(5), secs(3)).await;
    let releasing: Vec<_> = guards.into_iter().map(|one| tokio::spawn(one.release())).collect();
    // Sooner than they would ask again: a running try takes 50 ms.
    quorum.pass_by(ms(1), ms(60)).await;
    let late = waiting.iter().filter(|waiter| !waiter.is_finished()).count();
    assert_eq!(late, 0);
    quorum.pass(secs(1)).await;
    drop(releasing);
}

#[tokio::test]
async fn more_leases_than_fit_into_calls_are_renewed_in_time() {
    let quorum = Quorum::founded(3).await;
    let backend = Arc::new(quorum.backend().await.unwrap());
    let client = connect(&quorum.hand, backend.clone());
    let (mut guards, mut leases) = (Vec::new(), Vec::new());
    for number in 0..1000 {
        let guard = client.lock(format!("n{number}")).ttl(secs(30)).acquire().await.unwrap();
        leases.push(Renewal::new(guard.name().clone(), guard.attempt(), guard.token(), secs(30)));
        guards.push(guard);
    }
    // Each call takes 20 of the 50 ms limit, and four calls of 64 steps run at a time.
    quorum.fault(0..3, NodeFault::Slow(ms(20)));
    let verdicts = quorum.until(ms(5), backend.renew(&leases)).await;
    let renewed = verdicts.iter().filter(|one| matches!(one, Ok(Renewed::Renewed))).count();
    assert_eq!(renewed, leases.len());
}

#[tokio::test]
async fn a_silent_minority_keeps_nobody_from_connecting() {
    let quorum = Quorum::founded(5).await;
    quorum.fault(0..2, NodeFault::BlackHole);
    let before = quorum.hand.clock().now();
    let backend = quorum.until(ms(10), quorum.backend()).await.unwrap();
    let took = quorum.hand.clock().now().steady_ns - before.steady_ns;
    assert!(took <= 400_000_000, "{took} ns");
    assert!(backend.warnings().iter().any(|it| it == "n0 does not answer"), "{backend:?}");
}

#[tokio::test]
async fn status_and_list_need_a_majority_of_answers() {
    let quorum = Quorum::founded(3).await;
    let client = quorum.client().await;
    let guard = client.lock("a").acquire().await.unwrap();
    quorum.fault([0], NodeFault::Stopped);
    let status = client.lock("a").status().await.unwrap();
    assert_eq!((status.state, status.token), (State::Held, Some(guard.token())));
    assert_eq!(client.list("", 9).await.unwrap().len(), 1);
    quorum.fault([1], NodeFault::Stopped);
    let error = client.lock("a").status().await.unwrap_err();
    assert!(error.message().contains("1 of 3 nodes answer"), "{error}");
}

#[tokio::test]
async fn a_client_that_is_dropped_gives_everything_back_and_leaves_no_task() {
    let quorum = Quorum::founded(3).await;
    let client = quorum.client().await;
    let guard = client.lock("a").acquire().await.unwrap();
    std::mem::forget(client.lock("b").lease(secs(5)).acquire().await.unwrap());
    drop((guard, client));
    quorum.pass(secs(6)).await;
    assert_eq!(quorum.leases(), 0);
    let nodes: Vec<_> = quorum.connected().iter().map(Arc::downgrade).collect();
    assert!(nodes.iter().all(|node| node.upgrade().is_none()));
}
