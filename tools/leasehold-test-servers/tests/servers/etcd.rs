//! What can happen to servers of etcd.

use leasehold_test_servers::{Certificates, Direction, EtcdServer, EtcdSettings, Proxy, wait};
use serde_json::json;

pub(crate) const TESTS: &[(&str, fn())] = &[
    ("etcd::a_killed_server_keeps_its_data", a_killed_server_keeps_its_data),
    ("etcd::an_ensemble_has_one_leader_and_another_after_it", an_ensemble_has_one_leader),
    ("etcd::a_replaced_member_has_the_data_of_the_others", a_replaced_member_has_the_data),
    ("etcd::a_leader_that_is_not_heard_loses_its_place", a_leader_that_is_not_heard),
    ("etcd::a_member_with_older_data_ends", a_member_with_older_data_ends),
    ("etcd::users_count", users_count),
    ("etcd::tls_is_served_beside_the_port_of_the_kit", tls_is_served),
];

fn revision(server: &EtcdServer) -> i64 {
    let answer = server.call("kv/range", &json!({"key": "AA=="})).unwrap();
    answer["header"]["revision"].as_str().unwrap().parse().unwrap()
}

fn a_killed_server_keeps_its_data() {
    let mut server = EtcdServer::start(EtcdSettings::new()).unwrap();
    let before = revision(&server);
    server.call("kv/put", &json!({"key": "YQ==", "value": "YQ=="})).unwrap();
    assert_eq!(revision(&server), before + 1);
    server.kill();
    assert!(server.pid() == 0 && server.leads().is_err());
    // No other server of the kit gets its port meanwhile.
    let reserved = std::net::UdpSocket::bind(("127.0.0.1", server.port())).unwrap_err();
    assert_eq!(reserved.kind(), std::io::ErrorKind::AddrInUse);
    server.start_again().unwrap();
    assert_eq!(revision(&server), before + 1);
    assert!(server.metric("etcd_server_has_leader").unwrap() > 0.0);
    assert!(server.log().contains("etcd"));
}

fn leads(member: &EtcdServer) -> bool {
    member.pid() != 0 && member.leads().unwrap_or(false)
}

fn leaders(members: &[EtcdServer]) -> usize {
    members.iter().filter(|member| leads(member)).count()
}

fn an_ensemble_has_one_leader() {
    let mut members = EtcdServer::start_all(3, &EtcdSettings::new()).unwrap();
    let mut first = None;
    wait("one leads", || {
        first = members.iter().position(leads);
        first.is_some() && leaders(&members) == 1
    })
    .unwrap();
    let first = first.unwrap();
    members[first].kill();
    wait("another leads", || leaders(&members) == 1).unwrap();
    members[first].start_again().unwrap();
    wait("one leads still", || leaders(&members) == 1).unwrap();
}

fn a_replaced_member_has_the_data() {
    let mut members = EtcdServer::start_all(3, &EtcdSettings::new()).unwrap();
    members[0].call("kv/put", &json!({"key": "YQ==", "value": "YQ=="})).unwrap();
    let (replaced, others) = members.split_at_mut(1);
    let id = |member: &EtcdServer| {
        member.call("maintenance/status", &json!({})).unwrap()["header"]["member_id"].clone()
    };
    for _ in 0..2 {
        let before = id(&replaced[0]);
        replaced[0].replace(&[&others[0]]).unwrap();
        assert_ne!(id(&replaced[0]), before);
        let answer = replaced[0].call("kv/range", &json!({"key": "YQ=="})).unwrap();
        assert_eq!(answer["kvs"][0]["value"], "YQ==");
    }
}

fn a_leader_that_is_not_heard() {
    let settings = EtcdSettings::new().peers_behind_proxies();
    let mut members = EtcdServer::start_all(3, &settings).unwrap();
    let mut leader = None;
    wait("one leads", || {
        leader = members.iter().position(leads);
        leader.is_some()
    })
    .unwrap();
    let old = leader.unwrap();
    members[old].peer_proxies().iter().for_each(|proxy| proxy.cut(Direction::ServerToClient));
    wait("another leads", || {
        members.iter().enumerate().any(|(at, member)| at != old && leads(member))
    })
    .unwrap();
    members[old].peer_proxies().iter().for_each(Proxy::heal);
    wait("one leads again", || leaders(&members) == 1).unwrap();
    let (replaced, others) = members.split_at_mut(1);
    replaced[0].replace(&[&others[0]]).unwrap();
}

fn a_member_with_older_data_ends() {
    // No other leader is chosen meanwhile: this one knows what the member had.
    let settings = EtcdSettings::new().arg("--election-timeout=10000");
    let mut members = EtcdServer::start_all(3, &settings).unwrap();
    wait("one leads", || leaders(&members) == 1).unwrap();
    let follower = members.iter().position(|member| !leads(member)).unwrap();
    members.swap(0, follower);
    let directory = tempfile::tempdir().unwrap();
    let copy = directory.path().join("copy");
    members[0].save_data(&copy).unwrap();
    for _ in 0..50 {
        members[0].call("kv/put", &json!({"key": "YQ==", "value": "YQ=="})).unwrap();
    }
    members[0].kill();
    members[0].restore_data(&copy).unwrap();
    // It may answer before the leader reaches it.
    members[0].start_again().ok();
    wait("it has ended", || members[0].has_ended()).unwrap();
    let log = members[0].log();
    assert!(log.contains("Was the raft log corrupted, truncated, or lost?"), "{log}");
    let (restored, others) = members.split_at_mut(1);
    restored[0].replace(&[&others[0]]).unwrap();
    let answer = restored[0].call("kv/range", &json!({"key": "YQ=="})).unwrap();
    assert_eq!(answer["kvs"][0]["value"], "YQ==");
}

fn users_count() {
    let server = EtcdServer::start(EtcdSettings::new()).unwrap();
    server.enable_users("app", "secret", "p/").unwrap();
    let get = json!({"key": "cC9h"});
    assert!(server.call("kv/range", &get).is_err());
    server.call_as_root("kv/range", &get).unwrap();
    let wrong = json!({"name": "app", "password": "wrong"});
    assert!(server.call("auth/authenticate", &wrong).is_err());
}

fn tls_is_served() {
    let certificates = Certificates::make().unwrap();
    let server = EtcdServer::start(EtcdSettings::new().tls(&certificates)).unwrap();
    assert!(server.url().starts_with("etcds://localhost:"));
    assert!(server.plain_url().starts_with("http://127.0.0.1:"));
    assert!(server.leads().unwrap());
}
