//! What can happen to servers of etcd.

use leasehold_conformance::kit::{Certificates, EtcdServer, EtcdSettings, wait};
use serde_json::json;

pub(crate) const TESTS: &[(&str, fn())] = &[
    ("etcd::a_killed_server_keeps_its_data", a_killed_server_keeps_its_data),
    ("etcd::an_ensemble_has_one_leader_and_another_after_it", an_ensemble_has_one_leader),
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
    server.start_again().unwrap();
    assert_eq!(revision(&server), before + 1);
    assert!(server.metric("etcd_server_has_leader").unwrap() > 0.0);
    assert!(server.log().contains("etcd"));
}

fn an_ensemble_has_one_leader() {
    let mut members = EtcdServer::start_all(3, &EtcdSettings::new()).unwrap();
    let leads = |member: &EtcdServer| member.pid() != 0 && member.leads().unwrap_or(false);
    let leaders = |members: &[EtcdServer]| members.iter().filter(|member| leads(member)).count();
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
