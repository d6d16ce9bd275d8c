//! The kit's Redis Cluster: its nodes reach each other through proxies.

use leasehold_test_servers::{RedisCluster, RedisSettings, wait};

type Test = (&'static str, fn());

pub(crate) const TESTS: &[Test] = &[("cluster::a_node_is_cut_off", a_node_is_cut_off)];

/// The nodes find each other through the proxies, and each cut ends what they know of each other.
fn a_node_is_cut_off() {
    let cluster = RedisCluster::start_linked(RedisSettings::new()).unwrap();
    let old = cluster.id(0).unwrap();
    let flags = || {
        let nodes = cluster.nodes[1].admin(&["CLUSTER", "NODES"]).unwrap().text();
        let line = nodes.lines().find(|line| line.starts_with(&old)).unwrap();
        line.split(' ').nth(2).unwrap().to_owned()
    };
    assert_eq!(flags(), "master");
    cluster.links.cut(0, true, true);
    cluster.promoted(0).unwrap();
    wait("the others take it for down", || flags() == "master,fail").unwrap();
    // Clients still reach it, and it serves none: it does not see most of the masters.
    wait("it is alone", || cluster.nodes[0].admin(&["GET", "a"]).is_err()).unwrap();
    assert!(cluster.nodes[0].info("role").unwrap() == "master", "it knows of no other");
    cluster.links.heal();
    wait("it follows", || cluster.nodes[0].info("role").unwrap() == "slave").unwrap();
    cluster.settled().unwrap();
}
