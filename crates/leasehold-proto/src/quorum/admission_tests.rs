//! Tests of admission: a node that may have lost leases votes only after the wait.

#[path = "founding_tests.rs"]
mod founding;

use super::super::{MAX_TTL, Node, NodeReply, Op};
use super::*;
use crate::{AttemptId, ClientId, Token};

fn at(seconds: u64) -> Now {
    Now { steady_ns: seconds * 1_000_000_000, wall_ns: seconds * 1_000_000_000 }
}

fn process(number: usize) -> ProcessId {
    ProcessId::from_bytes([number as u8 + 1; 20])
}

/// Nodes that answer at once, or are down.
struct Cluster {
    nodes: Vec<Node<u8>>,
    down: Vec<usize>,
    bits: u64,
}

impl Cluster {
    fn empty(nodes: usize) -> Self {
        let nodes = (0..nodes).map(|node| Node::new(process(node))).collect();
        Self { nodes, down: Vec::new(), bits: 0 }
    }

    fn founded(nodes: usize) -> Self {
        let mut cluster = Self::empty(nodes);
        let mut operator = Admission::new(at(1), nodes, MAX_TTL, Some(Founding::Vouched));
        cluster.run(at(1), &mut operator);
        cluster
    }

    fn run(&mut self, now: Now, admission: &mut Admission) {
        admission.handle_timeout(now);
        while let Some((at, serial, task)) = admission.poll_task() {
            let reply = match self.down.contains(&at) {
                true => TaskReply::Unknown,
                false => answer(now, &mut self.nodes[at], task),
            };
            self.bits += 1;
            admission.handle_reply(now, at, serial, reply, self.bits);
        }
    }

    /// Runs second by second until the node votes.
    fn until_admitted(&mut self, from: u64, admission: &mut Admission, node: usize) -> Option<u64> {
        (from..from + 200).find(|second| {
            self.run(at(*second), admission);
            admission.process(node).is_some()
        })
    }

    fn forget(&mut self, admission: &mut Admission, now: Now, node: usize) {
        self.nodes[node].forget();
        self.nodes[node].restart(process(node + 100));
        admission.handle_doubt(now, node);
    }
}

/// The wall clocks of the nodes are an hour behind the clocks of clients.
fn answer(now: Now, node: &mut Node<u8>, task: Task) -> TaskReply {
    match task {
        Task::Look => TaskReply::Look(node.look()),
        Task::Survey => TaskReply::Survey(node.survey()),
        Task::Propose { process, nonce, max_ttl, first } => {
            let proposed = match first {
                true => node.propose_first(process, nonce, max_ttl),
                false => node.propose(process, nonce, max_ttl),
            };
            proposed.map_or_else(TaskReply::Refused, |marker| TaskReply::Marker(Some(marker)))
        }
        Task::High { process } => match node.high(process) {
            Ok((high, max_ttl)) => TaskReply::High { high, max_ttl },
            Err(refusal) => TaskReply::Refused(refusal),
        },
        Task::Admit { process, nonce, floor } => {
            let floor = floor.unwrap_or_else(|| now.unix_us().saturating_sub(3_600_000_000));
            match node.admit(process, nonce, floor) {
                Ok(marker) => TaskReply::Marker(marker),
                Err(refusal) => TaskReply::Refused(refusal),
            }
        }
    }
}

#[test]
fn nodes_that_nobody_set_up_do_not_admit_themselves() {
    let mut three = Cluster::empty(3);
    let mut admission = Admission::new(at(1), 3, MAX_TTL, None);
    assert_eq!(three.until_admitted(1, &mut admission, 0), None);
    assert_eq!(admission.outlook(at(200)), Outlook::NotSetUp);
    // An operator sets them up, and this client detects it.
    let mut operator = Admission::new(at(201), 3, MAX_TTL, Some(Founding::Vouched));
    three.run(at(201), &mut operator);
    assert_eq!(operator.outlook(at(201)), Outlook::Open);
    assert!(three.until_admitted(202, &mut admission, 2).is_some_and(|second| second < 205));
    assert_eq!(admission.outlook(at(205)), Outlook::Open);
}

#[test]
fn a_node_that_forgot_is_admitted_after_the_wait_and_starts_above_the_others() {
    for (nodes, forget) in [(3, 1), (5, 2), (7, 3)] {
        let mut cluster = Cluster::founded(nodes);
        let mut admission = Admission::new(at(2), nodes, MAX_TTL, None);
        cluster.run(at(2), &mut admission);
        (0..forget).for_each(|node| cluster.forget(&mut admission, at(10), node));
        cluster.run(at(10), &mut admission);
        assert!(matches!(admission.member(at(10), 0), Member::Waiting(_)));
        // Tokens grow while it waits; the client asks for them afterwards.
        let attempt = AttemptId::new(ClientId::from_bits(1), 1, 1);
        let ttl = Duration::from_secs(1);
        for node in forget..nodes {
            let proposal = Token::new(3_000_000_000).unwrap();
            let op = Op::Acquire { attempt, ttl, proposal };
            let reply = cluster.nodes[node].handle(at(60), process(node), &0, op);
            assert!(matches!(reply, NodeReply::Granted(_)));
        }
        let second = cluster.until_admitted(11, &mut admission, 0).unwrap();
        assert_eq!(second, 71, "60.6 s after the second 10");
        let (high, _) = cluster.nodes[0].high(process(100)).unwrap();
        assert_eq!(high, 3_000_000_000);
        assert_eq!(admission.outlook(at(second)), Outlook::Open);
    }
}

#[test]
fn when_more_forgot_than_can_be_made_up_for_an_operator_is_needed() {
    for (nodes, forget) in [(3, 2), (5, 3), (4, 2), (7, 4)] {
        let mut cluster = Cluster::founded(nodes);
        let mut admission = Admission::new(at(2), nodes, MAX_TTL, None);
        cluster.run(at(2), &mut admission);
        (0..forget).for_each(|node| cluster.forget(&mut admission, at(10), node));
        assert_eq!(cluster.until_admitted(10, &mut admission, 0), None);
        assert_eq!(admission.outlook(at(210)), Outlook::Forgotten, "{forget} of {nodes}");
        let mut operator = Admission::new(at(300), nodes, MAX_TTL, Some(Founding::AfterLoss));
        let second = cluster.until_admitted(300, &mut operator, 0).unwrap();
        assert_eq!(second, 361);
        assert!(cluster.nodes[0].high(process(100)).unwrap().0 >= at(361).unix_us());
    }
}

#[test]
fn the_others_must_be_heard_after_the_wait() {
    let mut three = Cluster::founded(3);
    let mut admission = Admission::new(at(2), 3, MAX_TTL, None);
    three.run(at(2), &mut admission);
    three.forget(&mut admission, at(10), 0);
    three.run(at(10), &mut admission);
    three.down = vec![1];
    assert_eq!(three.until_admitted(11, &mut admission, 0), None);
    three.down.clear();
    assert!(three.until_admitted(211, &mut admission, 0).is_some());
}

#[test]
fn a_wait_that_was_interrupted_begins_anew() {
    let mut three = Cluster::founded(3);
    let mut admission = Admission::new(at(2), 3, MAX_TTL, None);
    three.run(at(2), &mut admission);
    three.forget(&mut admission, at(10), 0);
    (10..60).for_each(|second| three.run(at(second), &mut admission));
    three.nodes[0].forget();
    assert_eq!(three.until_admitted(60, &mut admission, 0), Some(121));
}

#[test]
fn a_wall_clock_that_jumps_does_not_shorten_the_wait() {
    let mut three = Cluster::founded(3);
    let mut admission = Admission::new(at(2), 3, MAX_TTL, None);
    three.run(at(2), &mut admission);
    three.forget(&mut admission, at(10), 0);
    three.run(at(10), &mut admission);
    let jumped = Now { wall_ns: at(5000).wall_ns, ..at(20) };
    three.run(jumped, &mut admission);
    assert_eq!(admission.process(0), None);
}

#[test]
fn another_client_goes_on_with_a_wait_that_one_began() {
    let mut three = Cluster::founded(3);
    let mut gone = Admission::new(at(2), 3, MAX_TTL, None);
    three.run(at(2), &mut gone);
    three.forget(&mut gone, at(10), 0);
    three.run(at(10), &mut gone);
    let mut admission = Admission::new(at(30), 3, MAX_TTL, None);
    assert_eq!(three.until_admitted(30, &mut admission, 0), Some(91));
    // A client that was there from the beginning admits it; the other client sees it.
    three.run(at(92), &mut gone);
    three.run(at(94), &mut gone);
    assert_eq!(gone.process(0), Some(process(100)));
}

#[test]
fn a_node_listed_twice_has_one_vote() {
    let mut three = Cluster::founded(3);
    let twin = three.nodes[0].clone();
    three.nodes[2] = twin;
    let mut admission = Admission::new(at(2), 3, MAX_TTL, None);
    three.run(at(2), &mut admission);
    assert_eq!(admission.member(at(2), 2), Member::Twin(0));
    assert_eq!(admission.process(2), None);
}

#[test]
fn a_single_node_waits_and_starts_at_its_own_clock() {
    let mut one = Cluster::empty(1);
    let mut admission = Admission::new(at(5000), 1, MAX_TTL, None);
    one.run(at(5000), &mut admission);
    assert!(matches!(admission.outlook(at(5000)), Outlook::Later(_)));
    assert_eq!(one.until_admitted(5000, &mut admission, 0), Some(5061));
    assert_eq!(one.nodes[0].high(process(0)).unwrap().0, at(5061 - 3600).unix_us());
}

#[test]
fn leases_that_one_node_granted_for_longer_are_waited_for() {
    let short = Duration::from_secs(5);
    // By the marker of the previous process: the node restarts with its data.
    let mut one = Cluster::founded(1);
    one.nodes[0].restart(process(100));
    let mut admission = Admission::new(at(10), 1, short, None);
    assert_eq!(one.until_admitted(10, &mut admission, 0), Some(71));
    // By the marker that was seen before all data was lost.
    one.forget(&mut admission, at(100), 0);
    assert_eq!(one.until_admitted(100, &mut admission, 0), Some(161));
    assert_eq!(one.nodes[0].look().marker.unwrap().max_ttl, MAX_TTL);
    // Not if an operator states that there are no leases.
    one.forget(&mut admission, at(200), 0);
    let mut operator = Admission::new(at(200), 1, short, Some(Founding::Vouched));
    assert_eq!(one.until_admitted(200, &mut operator, 0), Some(200));
    assert_eq!(one.nodes[0].look().marker.unwrap().max_ttl, short);
}

#[test]
fn leases_that_may_last_longer_elsewhere_are_waited_for() {
    let mut three = Cluster::founded(3);
    let short = Duration::from_secs(5);
    let mut admission = Admission::new(at(2), 3, short, None);
    three.run(at(2), &mut admission);
    three.forget(&mut admission, at(10), 0);
    let second = three.until_admitted(10, &mut admission, 0).unwrap();
    assert!(second >= 10 + 60, "{second}");
}

#[test]
fn a_longer_ttl_that_is_heard_of_after_the_wait_prolongs_it() {
    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    let mut three = Cluster::empty(3);
    for (number, max_ttl) in [(0, minutes(2)), (1, minutes(2)), (2, minutes(1))] {
        three.nodes[number].propose(process(number), 1, max_ttl).unwrap();
        three.nodes[number].admit(process(number), 1, 5).unwrap();
    }
    // A node restarts empty while the other node that grants for two minutes is down.
    three.nodes[1].forget();
    three.nodes[1].restart(process(101));
    three.down = vec![0];
    let mut admission = Admission::new(at(10), 3, minutes(1), None);
    (10..75).for_each(|second| three.run(at(second), &mut admission));
    assert_eq!(admission.member(at(75), 1), Member::Waiting(Duration::ZERO), "too few answered");
    three.down.clear();
    let second = three.until_admitted(75, &mut admission, 1).unwrap();
    assert!(second >= 75 + 120, "{second}");
}
