//! Redis behind sentinels, and as a cluster.

use leasehold_test_servers::{Needs, RedisCluster, RedisSentinels, RedisServer, RedisSettings};

use crate::support::until;

use super::{doctor, finds, ids, sound};

#[test]
fn sentinels_and_the_master_that_they_name_are_looked_at() {
    if Needs::Redis.is_skipped() {
        return;
    }
    let settings = sound().line("min-replicas-to-write 1");
    let mut all = RedisSentinels::start(settings, RedisSettings::new()).unwrap();
    until("the replicas follow", || doctor(&all.url()).0 == 0);
    finds(&all.url(), 0, &["note failover"]);
    let (code, found) = doctor(&format!("{}?replicas=majority", all.url()));
    assert_eq!((code, ids(&found)), (0, vec!["note failover".to_owned()]), "{found:#}");
    let master = all.master().unwrap();
    all.servers[master].admin(&["CONFIG", "SET", "min-replicas-to-write", "0"]).unwrap();
    finds(&all.url(), 1, &["warning two-masters", "note failover"]);
    all.sentinels[0].kill();
    let (code, found) = doctor(&all.url());
    assert_eq!(code, 1, "{found:#}");
    assert!(ids(&found).contains(&"warning silent-sentinel".to_owned()), "{found:#}");
    all.sentinels[1].kill();
    // The one that is left takes a while to take the others for down.
    until("there is no quorum", || {
        let (code, found) = doctor(&all.url());
        code == 2 && ids(&found).contains(&"problem no-quorum".to_owned())
    });
}

#[test]
fn every_master_of_a_cluster_is_looked_at() {
    if Needs::Redis.is_skipped() {
        return;
    }
    let cluster = RedisCluster::start(sound().patient()).unwrap();
    cluster.settled().unwrap();
    until("the replicas follow", || doctor(&cluster.url()).0 == 0);
    finds(&cluster.url(), 0, &["note failover"]);
    cluster.nodes[1].admin(&["CONFIG", "SET", "maxmemory", "100mb"]).unwrap();
    cluster.nodes[1].admin(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lfu"]).unwrap();
    let found = finds(&cluster.url(), 2, &["problem eviction", "note failover"]);
    let place = found["findings"][0]["place"].as_str().unwrap();
    assert!(place.ends_with(&cluster.nodes[1].port().to_string()), "{place}");
}

#[test]
fn a_node_of_a_quorum_that_may_evict_is_a_problem() {
    if Needs::Redis.is_skipped() {
        return;
    }
    let server = RedisServer::start(sound()).unwrap();
    server.admin(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
    server.admin(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lfu"]).unwrap();
    let url = |options: &str| format!("{}{options}", server.url());
    let eviction = |url: &str| {
        let (_, found) = doctor(url);
        ids(&found).into_iter().find(|id| id.ends_with(" eviction"))
    };
    assert_eq!(eviction(&url("")).as_deref(), Some("warning eviction"));
    assert_eq!(eviction(&url("?admission=strict")).as_deref(), Some("problem eviction"));
}
