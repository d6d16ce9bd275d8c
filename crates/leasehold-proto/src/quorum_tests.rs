//! Tests of the quorum machine: majorities, validity, tokens, late replies, renewal and release.

use super::*;
use crate::{AttemptId, ClientId, Deadline, Now, Token, drift};

const TTL: Duration = Duration::from_secs(30);
const LIMIT: Duration = Duration::from_millis(50);

fn ms(time: u64) -> Now {
    Now { steady_ns: time * 1_000_000, wall_ns: time * 1_000_000 }
}

fn id(number: u32) -> AttemptId {
    AttemptId::new(ClientId::from_bits(7), number, 0)
}

fn process(node: usize) -> ProcessId {
    ProcessId::from_bytes([node as u8 + 1; 20])
}

fn token(value: u64) -> Token {
    Token::new(value).unwrap()
}

/// Admitted nodes with one lock, which answer at once, or are down.
struct Cluster {
    nodes: Vec<Node<u8>>,
    down: Vec<usize>,
    sent: Vec<Request>,
}

impl Cluster {
    fn new(nodes: usize) -> Self {
        let node = |at| {
            let mut node = Node::new(process(at));
            node.propose(process(at), 1, MAX_TTL).unwrap();
            node.admit(process(at), 1, 0).unwrap();
            node
        };
        Self { nodes: (0..nodes).map(node).collect(), down: Vec::new(), sent: Vec::new() }
    }

    /// Carries out the requests; a node that is down never answers.
    fn run(&mut self, now: Now, attempt: &mut Attempt) -> Vec<Event> {
        while let Some(request) = attempt.poll_request() {
            self.sent.push(request);
            if !self.down.contains(&request.node) {
                let reply =
                    self.nodes[request.node].handle(now, process(request.node), &0, request.op);
                attempt.handle_reply(now, request.node, request.round, reply);
            }
        }
        std::iter::from_fn(|| attempt.poll_event()).collect()
    }

    fn acquire(&mut self, now: Now, number: u32, seen: u64) -> (Attempt, Vec<Event>) {
        let mut attempt = Attempt::acquire(now, terms(number, self.nodes.len(), seen));
        let events = self.run(now, &mut attempt);
        (attempt, events)
    }

    /// Lets time limits pass.
    fn settle(&mut self, now: Now, attempt: &mut Attempt) -> Vec<Event> {
        attempt.handle_timeout(now);
        self.run(now, attempt)
    }

    fn holders(&self, now: Now, number: u32) -> usize {
        let holds =
            |node: &&Node<u8>| node.lease(now, &0).is_some_and(|lease| lease.attempt == id(number));
        self.nodes.iter().filter(holds).count()
    }
}

fn terms(number: u32, nodes: usize, seen: u64) -> AttemptTerms {
    AttemptTerms { attempt: id(number), nodes, ttl: TTL, limit: LIMIT, seen }
}

fn held(events: &[Event]) -> Option<(u64, bool)> {
    events.iter().find_map(|event| match event {
        Event::Held { token, at_once, .. } => Some((token.get(), *at_once)),
        _ => None,
    })
}

fn denied(events: &[Event]) -> Option<Why> {
    events.iter().find_map(|event| match event {
        Event::Denied(denied) => Some(denied.why),
        _ => None,
    })
}

#[test]
fn an_uncontended_lock_takes_one_round_trip() {
    let mut five = Cluster::new(5);
    let (mut attempt, events) = five.acquire(ms(1000), 1, 0);
    assert_eq!(held(&events), Some((1_000_001, true)));
    assert_eq!(five.sent.len(), 5);
    let until = Deadline::after(ms(1000), TTL - drift(TTL));
    assert_eq!(attempt.deadline(), Some(until));
    attempt.release(ms(1001));
    assert_eq!(five.run(ms(1001), &mut attempt), [Event::Released { held: Some(true) }]);
    assert!(attempt.is_done());
    assert_eq!(five.holders(ms(1001), 1), 0);
    // A client whose clock is behind.
    assert_eq!(held(&five.acquire(ms(3), 2, 0).1), Some((1_000_002, true)));
}

#[test]
fn the_majority_is_that_of_the_configured_nodes() {
    for (nodes, enough) in [(1, 1), (3, 2), (4, 3), (5, 3), (6, 4), (7, 4)] {
        let mut cluster = Cluster::new(nodes);
        cluster.down = (enough..nodes).collect();
        assert!(held(&cluster.acquire(ms(0), 1, 0).1).is_some(), "{enough} of {nodes}");
        let mut cluster = Cluster::new(nodes);
        cluster.down = (enough - 1..nodes).collect();
        let (mut attempt, events) = cluster.acquire(ms(0), 1, 0);
        assert_eq!(held(&events), None);
        let events = cluster.settle(ms(50), &mut attempt);
        assert_eq!(denied(&events), Some(Why::Unavailable));
        assert_eq!(cluster.holders(ms(50), 1), 0);
    }
}

#[test]
fn a_held_lock_is_busy_though_some_nodes_are_down() {
    let mut five = Cluster::new(5);
    five.down = vec![0, 1];
    assert!(held(&five.acquire(ms(0), 1, 0).1).is_some());
    let (mut second, mut events) = five.acquire(ms(1), 2, 0);
    events.extend(five.settle(ms(60), &mut second));
    assert_eq!(denied(&events), Some(Why::Busy));
    // If too few nodes are left to grant it to any client, that is the reason.
    five.down = vec![0, 1, 2];
    let (mut third, mut events) = five.acquire(ms(2), 3, 0);
    events.extend(five.settle(ms(60), &mut third));
    assert_eq!(denied(&events), Some(Why::Unavailable));
}

#[test]
fn different_counters_are_brought_to_one_token_in_a_second_round() {
    let mut three = Cluster::new(3);
    three.down = vec![2];
    let (mut first, _) = three.acquire(ms(5), 1, 0);
    first.release(ms(5));
    three.run(ms(5), &mut first);
    three.down = vec![0];
    let (mut second, events) = three.acquire(ms(1), 2, 0);
    // 5002 on one node, 1001 on the other.
    assert_eq!(held(&events), Some((5002, false)));
    second.release(ms(1));
    three.run(ms(1), &mut second);
    three.down = vec![1];
    assert_eq!(held(&three.acquire(ms(1), 3, 0).1).map(|(token, _)| token), Some(5003));
}

#[test]
fn a_commit_that_is_too_late_is_no_token() {
    let mut attempt = Attempt::acquire(ms(0), terms(1, 3, 0));
    let asks: Vec<Request> = std::iter::from_fn(|| attempt.poll_request()).collect();
    attempt.handle_reply(ms(1), 0, asks[0].round, NodeReply::Granted(token(4)));
    attempt.handle_reply(ms(1), 1, asks[1].round, NodeReply::Granted(token(9)));
    let commit = attempt.poll_request().unwrap();
    assert_eq!(
        (commit.node, commit.op),
        (0, Op::Commit { attempt: id(1), from: token(4), token: token(9) })
    );
    attempt.handle_reply(ms(2), 0, commit.round, NodeReply::Moved);
    assert_eq!(attempt.poll_event(), None);
    // A node that granted a higher value counts for the lock, not for the token.
    attempt.handle_reply(ms(2), 2, asks[2].round, NodeReply::Granted(token(11)));
    assert_eq!(denied(&[attempt.poll_event().unwrap()]), Some(Why::Contended));
    let released = std::iter::from_fn(|| attempt.poll_request()).count();
    assert_eq!(released, 3);
}

#[test]
fn replies_read_after_the_ttl_are_refused() {
    let mut three = Cluster::new(3);
    let mut attempt = Attempt::acquire(ms(0), terms(1, 3, 0));
    let events = three.run(ms(29_698), &mut attempt);
    assert_eq!(denied(&events), Some(Why::TooLate));
    assert_eq!(three.holders(ms(29_698), 1), 0);
    let mut attempt = Attempt::acquire(ms(40_000), terms(2, 3, 0));
    assert!(held(&three.run(ms(69_697), &mut attempt)).is_some());
}

#[test]
fn a_straggler_is_released_when_it_answers() {
    let mut attempt = Attempt::acquire(ms(0), terms(1, 3, 0));
    let asks: Vec<Request> = std::iter::from_fn(|| attempt.poll_request()).collect();
    let busy = NodeReply::Busy { counter: token(7), remaining: Duration::from_secs(3) };
    attempt.handle_reply(ms(1), 0, asks[0].round, busy);
    attempt.handle_reply(ms(1), 1, asks[1].round, busy);
    let Some(Event::Denied(Denied { why: Why::Busy, seen: 7, free_in, tally })) =
        attempt.poll_event()
    else {
        panic!("not denied")
    };
    assert_eq!(free_in, Some(Duration::from_secs(3)));
    assert_eq!((tally.busy, tally.unknown), (2, 1));
    // Nodes that refused have no lease; the node that has not answered may have.
    assert_eq!(attempt.poll_request(), None);
    assert!(!attempt.is_done());
    let release = Op::Release { attempt: id(1) };
    let mut silent = attempt.clone();
    attempt.handle_reply(ms(2), 2, asks[2].round, NodeReply::Granted(token(8)));
    let last = attempt.poll_request().unwrap();
    assert_eq!((last.node, last.op), (2, release));
    attempt.handle_reply(ms(3), 2, last.round, NodeReply::Released);
    assert!(attempt.is_done());
    // When it times out, and again when it answers late.
    silent.handle_timeout(ms(50));
    let last = silent.poll_request().unwrap();
    assert_eq!((last.node, last.op), (2, release));
    silent.handle_reply(ms(60), 2, last.round, NodeReply::NotHeld);
    assert!(silent.is_done());
    silent.handle_reply(ms(90), 2, asks[2].round, NodeReply::Granted(token(8)));
    assert_eq!(silent.poll_request().unwrap().op, release);
    assert!(!silent.is_done());
}

#[test]
fn a_release_is_repeated_until_the_lease_has_ended_by_itself() {
    let mut three = Cluster::new(3);
    let (mut attempt, _) = three.acquire(ms(0), 1, 0);
    three.down = vec![1, 2];
    attempt.release(ms(10));
    assert_eq!(three.run(ms(10), &mut attempt), []);
    assert_eq!(three.settle(ms(60), &mut attempt), [Event::Released { held: None }]);
    assert!(!attempt.is_done());
    three.down = vec![2];
    let mut time = 60;
    while let Some(due) = attempt.poll_timeout() {
        time = time.max(due.steady_ns() / 1_000_000);
        three.settle(ms(time), &mut attempt);
    }
    assert!(attempt.is_done());
    assert!((30_000..32_000).contains(&time), "{time}");
    assert_eq!(three.holders(ms(10_000), 1), 1);
}

#[test]
fn a_renewal_counts_from_when_it_was_sent_and_needs_a_majority() {
    let mut three = Cluster::new(3);
    let (mut attempt, _) = three.acquire(ms(0), 1, 0);
    three.down = vec![2];
    attempt.renew(ms(10_000), TTL);
    let until = Deadline::after(ms(10_000), TTL - drift(TTL));
    assert_eq!(three.run(ms(10_040), &mut attempt), [Event::Renewed { until }]);
    three.down = vec![1, 2];
    attempt.renew(ms(20_000), TTL);
    assert_eq!(three.run(ms(20_000), &mut attempt), []);
    assert_eq!(three.settle(ms(20_050), &mut attempt), [Event::NotRenewed]);
    assert_eq!(attempt.deadline(), Some(until));
    three.down.clear();
    attempt.renew(ms(39_697), TTL);
    assert_eq!(three.run(ms(39_698), &mut attempt), [Event::Lost]);
}

#[test]
fn a_late_reply_to_an_earlier_renewal_does_not_count() {
    let mut three = Cluster::new(3);
    let (mut attempt, _) = three.acquire(ms(0), 1, 0);
    attempt.renew(ms(10_000), TTL);
    let old: Vec<Request> = std::iter::from_fn(|| attempt.poll_request()).collect();
    attempt.renew(ms(20_000), TTL);
    for request in old {
        attempt.handle_reply(ms(20_001), request.node, request.round, NodeReply::Renewed);
    }
    assert_eq!(attempt.poll_event(), None);
}

#[test]
fn a_node_that_lost_the_lease_is_healed_and_counts_from_the_next_renewal_on() {
    let mut five = Cluster::new(5);
    let (mut attempt, _) = five.acquire(ms(0), 1, 0);
    five.nodes[0].handle(ms(1), process(0), &0, Op::Release { attempt: id(1) });
    five.nodes[0].handle(ms(1), process(0), &0, Op::Release { attempt: id(9) });
    attempt.renew(ms(10_000), TTL);
    assert!(matches!(five.run(ms(10_000), &mut attempt)[..], [Event::Renewed { .. }]));
    assert_eq!(attempt.evidence(), 4);
    five.down = vec![3, 4];
    attempt.renew(ms(11_000), TTL);
    assert_eq!(five.run(ms(11_000), &mut attempt), []);
    assert_eq!(five.holders(ms(11_000), 1), 5);
    assert_eq!(five.settle(ms(11_050), &mut attempt), [Event::NotRenewed]);
    attempt.renew(ms(12_000), TTL);
    assert!(matches!(five.run(ms(12_000), &mut attempt)[..], [Event::Renewed { .. }]));
}

#[test]
fn a_lease_that_a_majority_has_no_more_is_lost_and_not_brought_back() {
    let mut three = Cluster::new(3);
    let (mut attempt, _) = three.acquire(ms(0), 1, 0);
    for node in [0, 1] {
        three.nodes[node].handle(ms(1), process(node), &0, Op::Release { attempt: id(1) });
        three.nodes[node].handle(ms(1), process(node), &0, Op::Release { attempt: id(9) });
    }
    attempt.renew(ms(10_000), TTL);
    assert_eq!(three.run(ms(10_000), &mut attempt), [Event::Lost]);
    attempt.renew(ms(10_001), TTL);
    assert_eq!(three.run(ms(10_001), &mut attempt), []);
    attempt.release(ms(10_002));
    assert_eq!(three.run(ms(10_002), &mut attempt), [Event::Released { held: Some(false) }]);
    assert_eq!(three.holders(ms(10_002), 1), 0);
}

#[test]
fn spurious_calls_do_nothing() {
    let mut three = Cluster::new(3);
    let (mut attempt, _) = three.acquire(ms(0), 1, 0);
    let before = attempt.clone();
    for node in [0, 2, 9] {
        attempt.handle_reply(ms(1), node, 77, NodeReply::Unknown);
        attempt.handle_reply(ms(1), node, 1, NodeReply::Missing);
    }
    attempt.handle_timeout(ms(1));
    assert_eq!(attempt, before);
    attempt.release(ms(2));
    three.run(ms(2), &mut attempt);
    let before = attempt.clone();
    attempt.release(ms(3));
    attempt.renew(ms(3), TTL);
    attempt.handle_timeout(ms(90_000));
    assert_eq!(attempt, before);
}

#[test]
fn a_proposal_is_above_all_that_was_seen_and_the_wall_clock() {
    let first = |seen| Attempt::acquire(ms(5), terms(1, 3, seen)).poll_request().unwrap().op;
    let Op::Acquire { proposal, .. } = first(0) else { panic!("no acquire") };
    assert_eq!(proposal, token(5001));
    let Op::Acquire { proposal, .. } = first(70_000) else { panic!("no acquire") };
    assert_eq!(proposal, token(70_001));
}

#[test]
fn a_single_node_has_more_time_than_one_of_several() {
    let (ms, limit) = (Duration::from_millis, super::node_limit);
    assert_eq!(
        (limit(ms(900), 3), limit(ms(4_000), 3), limit(ms(60_000), 3)),
        (ms(5), ms(20), ms(50))
    );
    assert_eq!((limit(ms(900), 1), limit(ms(60_000), 1)), (ms(225), ms(1_000)));
}
