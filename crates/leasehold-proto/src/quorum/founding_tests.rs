//! Setting up: no node votes without a wait unless every node answers and none has ever voted.

use super::*;

fn vouched(cluster: &mut Cluster, nodes: usize) -> Admission {
    let mut operator = Admission::new(at(20), nodes, MAX_TTL, Some(Founding::Vouched));
    cluster.run(at(20), &mut operator);
    operator
}

#[test]
fn a_first_start_needs_an_answer_of_every_node_and_changes_nothing_without() {
    // One node restarts empty; one that is silent, or two, may have granted a lease with it.
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
    // Votes; was restarted with its data; was restarted and waits.
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
    // After how many tasks it happens.
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
            // Before its marker is written it may be any empty node.
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
