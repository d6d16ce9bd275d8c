//! Tests of the set-up: no node votes without a wait unless every node answers and none has ever
//! voted.

use super::*;

fn vouched(cluster: &mut Cluster, nodes: usize) -> Admission {
    let mut operator = Admission::new(at(20), nodes, MAX_TTL, Some(Founding::Vouched));
    cluster.run(at(20), &mut operator);
    operator
}

#[test]
fn a_first_start_needs_an_answer_of_every_node_and_changes_nothing_without() {
    // One node restarts empty; one or two silent nodes may have granted a lease with it.
    for down in [vec![2], vec![0, 2]] {
        let mut three = Cluster::founded(3);
        three.nodes[1] = Node::new(process(101));
        three.down = down.clone();
        let before = three.nodes.clone();
        let operator = vouched(&mut three, 3);
        assert_eq!(operator.halt(), Some(Halt::Silent));
        assert_eq!(operator.silent().collect::<Vec<_>>(), down);
        assert_eq!(three.nodes, before);
        assert_eq!(operator.poll_timeout(at(20)), None, "nothing more is done");
    }
}

#[test]
fn a_first_start_is_refused_where_a_node_has_voted() {
    let attempt = AttemptId::new(ClientId::from_bits(1), 1, 1);
    let acquire =
        Op::Acquire { attempt, ttl: Duration::from_secs(1), proposal: Token::new(7).unwrap() };
    // A node votes; restarted with its data; restarted and waits.
    for case in 0..3 {
        let mut three = Cluster::founded(3);
        three.nodes[0].handle(at(2), process(0), &0, acquire);
        (1..3).for_each(|node| three.nodes[node] = Node::new(process(node + 100)));
        if case > 0 {
            three.nodes[0].restart(process(100));
        }
        if case > 1 {
            three.nodes[0].propose(process(100), 3, MAX_TTL).unwrap();
        }
        let before = three.nodes.clone();
        assert_eq!(vouched(&mut three, 3).halt(), Some(Halt::Voted(0)), "{case}");
        assert_eq!(three.nodes, before);
    }
}

#[test]
fn a_first_start_goes_on_where_clients_have_written_markers_that_wait() {
    let mut three = Cluster::empty(3);
    let mut client = Admission::new(at(1), 3, MAX_TTL, None);
    three.run(at(1), &mut client);
    assert_eq!(client.outlook(at(1)), Outlook::NotSetUp);
    assert_eq!(vouched(&mut three, 3).outlook(at(20)), Outlook::Open);
}

#[test]
fn a_node_that_forgets_during_a_first_start_is_not_admitted() {
    // The number of tasks before the event.
    for after in 0..12 {
        for restarts in [false, true] {
            let mut three = Cluster::empty(3);
            let mut operator = Admission::new(at(1), 3, MAX_TTL, Some(Founding::Vouched));
            let mut done = 0;
            while let Some((node, serial, task)) = operator.poll_task() {
                if done == after {
                    three.nodes[1] = Node::new(process(if restarts { 101 } else { 1 }));
                }
                done += 1;
                let reply = answer(at(1), &mut three.nodes[node], task);
                operator.handle_reply(at(1), node, serial, reply, done);
            }
            let votes = three.nodes[1].look().current().is_some_and(|marker| marker.admitted);
            // Before the client writes its marker, it may be any empty node.
            let early = after <= if restarts { 1 } else { 4 };
            assert_eq!(votes, early, "after {after}, restarts: {restarts}");
        }
    }
}

#[test]
fn where_a_majority_votes_the_others_join_it_after_their_wait() {
    let mut three = Cluster::founded(3);
    three.nodes[1] = Node::new(process(101));
    let mut operator = vouched(&mut three, 3);
    assert_eq!(operator.halt(), None);
    assert_eq!(operator.process(1), None);
    assert_eq!(three.until_admitted(20, &mut operator, 1), Some(81));
}

#[test]
fn after_a_loss_a_majority_must_answer_before_anything_is_written() {
    let mut three = Cluster::empty(3);
    three.down = vec![0, 2];
    let mut operator = Admission::new(at(1), 3, MAX_TTL, Some(Founding::AfterLoss));
    three.run(at(1), &mut operator);
    assert_eq!(operator.halt(), Some(Halt::TooFew));
    assert_eq!(three.nodes[1], Node::new(process(1)));
}

#[test]
fn one_server_in_two_places_is_never_set_up() {
    let mut three = Cluster::empty(3);
    three.nodes[2] = three.nodes[0].clone();
    let before = three.nodes.clone();
    assert_eq!(vouched(&mut three, 3).halt(), Some(Halt::Twin(2, 0)));
    assert_eq!(three.nodes, before);
}

#[test]
fn a_first_start_replaces_the_longest_ttl_of_markers_that_only_wait() {
    let mut three = Cluster::empty(3);
    // A client connected before the operator, with another longest ttl.
    for number in 0..3 {
        three.nodes[number].propose(process(number), 1, 2 * MAX_TTL).unwrap();
    }
    let operator = vouched(&mut three, 3);
    assert_eq!(operator.halt(), None);
    for (number, node) in three.nodes.iter().enumerate() {
        let marker = node.look().current().unwrap();
        assert!(marker.admitted, "node {number}");
        assert_eq!(marker.max_ttl, MAX_TTL, "node {number}");
    }
}

#[test]
fn after_a_loss_no_node_is_asked_to_look_through_its_keys() {
    let mut operator = Admission::new(at(1), 3, MAX_TTL, Some(Founding::AfterLoss));
    for node in 0..3 {
        assert_eq!(operator.poll_task().map(|(at, _, task)| (at, task)), Some((node, Task::Look)));
    }
    assert_eq!(operator.poll_task(), None);
}

#[test]
fn another_longest_ttl_is_refused_where_one_node_keeps_its_own() {
    for founding in [Founding::Vouched, Founding::AfterLoss] {
        let mut three = Cluster::founded(3);
        (1..3).for_each(|node| three.nodes[node] = Node::new(process(node + 100)));
        let before = three.nodes.clone();
        let mut operator = Admission::new(at(20), 3, MAX_TTL / 2, Some(founding));
        operator.refuse_other_max_ttl();
        three.run(at(20), &mut operator);
        assert_eq!(operator.halt(), Some(Halt::OtherMaxTtl(0, MAX_TTL)));
        assert_eq!(three.nodes, before);
    }
}

/// The markers of the nodes: admitted or not, and the longest ttl in seconds.
fn markers(cluster: &Cluster) -> Vec<Option<(bool, u64)>> {
    let marker = |node: &Node<u8>| {
        node.look().current().map(|marker| (marker.admitted, marker.max_ttl.as_secs()))
    };
    cluster.nodes.iter().map(marker).collect()
}

/// Runs second by second until every node votes.
fn until_all_vote(cluster: &mut Cluster, operator: &mut Admission, from: u64) -> Option<u64> {
    let nodes = cluster.nodes.len();
    (from..from + 400).find(|second| {
        cluster.run(at(*second), operator);
        (0..nodes).all(|node| operator.process(node).is_some())
    })
}

#[test]
fn a_waiting_marker_with_another_longest_ttl_is_replaced_where_a_majority_votes() {
    for exact in [true, false] {
        // The URL of another client names a longer ttl, or a shorter one.
        for other in [4 * MAX_TTL, MAX_TTL / 4] {
            let mut three = Cluster::founded(3);
            three.nodes[2] = Node::new(process(102));
            three.nodes[2].propose(process(102), 77, other).unwrap();
            let mut operator = Admission::new(at(20), 3, MAX_TTL, Some(Founding::Vouched));
            if exact {
                operator.refuse_other_max_ttl();
            }
            let votes = until_all_vote(&mut three, &mut operator, 20);
            assert_eq!(operator.halt(), None);
            assert_eq!(markers(&three), [Some((true, 60)); 3], "exact: {exact}, {other:?}");
            // The wait begins anew with the new marker; recovery needs no wait for a lease of the old.
            assert_eq!(votes, Some(81), "exact: {exact}, {other:?}");
        }
    }
}

#[test]
fn a_node_restarted_with_older_data_gets_the_longest_ttl_that_the_majority_grants() {
    let mut three = Cluster::founded(3);
    three.nodes[2] = Node::new(process(2));
    three.nodes[2].propose(process(2), 77, 3 * MAX_TTL).unwrap();
    three.nodes[2].admit(process(2), 77, 5).unwrap();
    three.nodes[2].restart(process(102));
    let mut operator = vouched(&mut three, 3);
    // It waits for the leases of the process before.
    assert_eq!(until_all_vote(&mut three, &mut operator, 21), Some(202));
    assert_eq!(markers(&three), [Some((true, 60)); 3]);
}

#[test]
fn only_nodes_that_vote_count_for_the_longest_ttl_of_a_majority() {
    // Two of five vote with one longest ttl, and a third waits with it.
    let mut five = Cluster::empty(5);
    let ttls = [MAX_TTL, MAX_TTL, 2 * MAX_TTL, MAX_TTL, MAX_TTL / 2];
    for (number, max_ttl) in ttls.into_iter().enumerate() {
        five.nodes[number].propose(process(number), 77, max_ttl).unwrap();
        if number < 3 {
            five.nodes[number].admit(process(number), 77, 5).unwrap();
        }
    }
    let mut operator = vouched(&mut five, 5);
    until_all_vote(&mut five, &mut operator, 20).unwrap();
    assert_eq!(markers(&five), [60, 60, 120, 60, 30].map(|secs| Some((true, secs))));
}

#[test]
fn a_marker_written_between_the_first_answers_and_the_admission_is_replaced() {
    // The number of tasks before another client writes its marker to each node without one.
    for after in 0..20 {
        for founding in [Founding::Vouched, Founding::AfterLoss] {
            for lost in [vec![2], vec![0, 1, 2]] {
                let mut three = Cluster::founded(3);
                lost.iter().for_each(|node| three.nodes[*node] = Node::new(process(node + 100)));
                let mut operator = Admission::new(at(20), 3, MAX_TTL, Some(founding));
                operator.refuse_other_max_ttl();
                let mut done = 0;
                for second in 20..420 {
                    operator.handle_timeout(at(second));
                    while let Some((node, serial, task)) = operator.poll_task() {
                        if done == after {
                            for node in &lost {
                                three.nodes[*node]
                                    .propose(process(node + 100), 77, 2 * MAX_TTL)
                                    .unwrap();
                            }
                        }
                        done += 1;
                        let reply = answer(at(second), &mut three.nodes[node], task);
                        operator.handle_reply(at(second), node, serial, reply, 1000 + done);
                    }
                }
                let case = format!("after {after}, {founding:?}, lost: {lost:?}");
                if founding == Founding::AfterLoss && operator.halt().is_some() {
                    // The marker was there before the first answer.
                    assert!(after <= lost[lost.len() - 1] as u64, "{case}");
                    continue;
                }
                assert_eq!(markers(&three), [Some((true, 60)); 3], "{case}");
            }
        }
    }
}

#[test]
fn two_operators_who_name_different_values_never_make_two_values_vote() {
    // How many tasks the first does before the second begins, and how many the second before the
    // first goes on.
    for (first, second) in (0..13).flat_map(|first| (0..13).map(move |second| (first, second))) {
        let mut three = Cluster::empty(3);
        let mut operators: Vec<Admission> = Vec::new();
        let mut bits = 0;
        let mut step = |three: &mut Cluster, operator: &mut Admission, now: Now, most: usize| {
            operator.handle_timeout(now);
            for _ in 0..most {
                let Some((node, serial, task)) = operator.poll_task() else { break };
                bits += 1;
                let reply = answer(now, &mut three.nodes[node], task);
                operator.handle_reply(now, node, serial, reply, bits);
            }
        };
        for max_ttl in [MAX_TTL, 2 * MAX_TTL] {
            let mut operator = Admission::new(at(1), 3, max_ttl, Some(Founding::Vouched));
            operator.refuse_other_max_ttl();
            let most = if operators.is_empty() { first } else { second };
            step(&mut three, &mut operator, at(1), most);
            operators.push(operator);
        }
        for now in 1..400 {
            operators.iter_mut().for_each(|operator| step(&mut three, operator, at(now), 100));
        }
        let votes: Vec<_> = markers(&three).into_iter().flatten().filter(|(is, _)| *is).collect();
        let one = votes.iter().all(|vote| *vote == votes[0]);
        assert!(one, "first {first}, second {second}: {:?}", markers(&three));
    }
}

#[test]
fn a_marker_that_waited_at_a_loss_keeps_its_longest_ttl() {
    // It may be the only trace of longer leases.
    let mut three = Cluster::empty(3);
    three.nodes[2].propose(process(2), 77, 2 * MAX_TTL).unwrap();
    let mut operator = Admission::new(at(20), 3, MAX_TTL, Some(Founding::AfterLoss));
    assert!(until_all_vote(&mut three, &mut operator, 20).is_some_and(|second| second > 140));
    assert_eq!(markers(&three)[2], Some((true, 120)));
}

#[test]
fn after_a_loss_new_markers_allow_what_the_process_before_did() {
    // The last node to answer has a trace of longer leases.
    let mut three = Cluster::empty(3);
    three.nodes[2].propose(process(2), 77, 2 * MAX_TTL).unwrap();
    three.nodes[2].admit(process(2), 77, 5).unwrap();
    three.nodes[2].restart(process(102));
    let mut operator = Admission::new(at(20), 3, MAX_TTL, Some(Founding::AfterLoss));
    operator.refuse_other_max_ttl();
    until_all_vote(&mut three, &mut operator, 20).unwrap();
    assert_eq!(markers(&three), [Some((true, 120)); 3]);
}
