//! ZooKeeper and etcd.

#[cfg(feature = "etcd")]
use leasehold_test_servers::{EtcdServer, EtcdSettings, wait};
use leasehold_test_servers::{Needs, ZooKeeperEnsemble, ZooKeeperServer, ZooKeeperSettings};

use super::finds;

#[test]
fn a_tiny_session_limit_and_a_server_alone_are_named() {
    if Needs::ZooKeeper.is_skipped() {
        return;
    }
    let settings = ZooKeeperSettings::new().line("maxSessionTimeout=2000");
    let server = ZooKeeperServer::start(settings).unwrap();
    let wanted = ["problem session", "warning standalone", "note open"];
    let found = finds(&server.url(), 2, &wanted);
    let what = found["findings"][0]["what"].as_str().unwrap();
    assert!(what.contains("2s") && what.contains("30s"), "{what}");
    assert!(found["findings"][0]["change"].as_str().unwrap().contains("maxSessionTimeout"));
}

#[test]
fn an_ensemble_is_looked_at_server_by_server() {
    if Needs::ZooKeeper.is_skipped() {
        return;
    }
    let mut ensemble = ZooKeeperEnsemble::start(3, &ZooKeeperSettings::new()).unwrap();
    finds(&ensemble.url(), 0, &["note open"]);
    finds(&ensemble.url().replace("zookeeper://", "zookeeper://u:s3cret@"), 0, &[]);
    let one = format!("zookeeper://{}", ensemble.addresses()[0]);
    finds(&one, 0, &["note open", "note named"]);
    let follower = (ensemble.leader().unwrap() + 1) % 3;
    ensemble.servers[follower].kill();
    finds(&ensemble.url(), 1, &["warning silent-server", "note open"]);
}

#[cfg(feature = "etcd")]
#[test]
fn etcd_is_looked_at_member_by_member_with_its_alarms_and_rights() {
    if Needs::Etcd.is_skipped() {
        return;
    }
    let mut members = EtcdServer::start_all(3, &EtcdSettings::new()).unwrap();
    let places: Vec<String> = members.iter().map(EtcdServer::place).collect();
    let url = format!("etcd://{}", places.join(","));
    // Debian's has the fault, newer ones do not.
    let status = members[0].call("maintenance/status", &serde_json::json!({})).unwrap();
    let late = status["version"].as_str().unwrap().starts_with("3.4.2");
    let late: &[&str] = if late { &["warning late-revokes"] } else { &[] };
    let code = i32::from(!late.is_empty());
    finds(&url, code, late);
    finds(&members[0].url(), code, &[late, &["note named"][..]].concat());
    // A follower, so that no server votes while the doctor checks them.
    wait("two follow", || {
        members.iter().filter(|one| matches!(one.leads(), Ok(false))).count() == 2
    })
    .unwrap();
    let follower = members.iter().rposition(|one| !one.leads().unwrap()).unwrap();
    members[follower].kill();
    finds(&url, 1, &[&["warning silent-member"][..], late].concat());
    let raised = serde_json::json!({ "action": "ACTIVATE", "memberID": "0", "alarm": "NOSPACE" });
    members[0].call("maintenance/alarm", &raised).unwrap();
    let (code, found) = super::doctor(&url);
    assert_eq!(code, 2, "{found:#}");
    assert!(super::ids(&found).contains(&"problem alarm".to_owned()), "{found:#}");
    let alone = EtcdServer::start(EtcdSettings::new()).unwrap();
    finds(&alone.url(), 1, &["warning one-member"]);
    alone.enable_users("app", "s3cret", "leasehold/").unwrap();
    let (code, found) = super::doctor(&format!("etcd://app:s3cret@{}/other", alone.place()));
    assert_eq!(code, 2, "{found:#}");
    assert!(super::ids(&found).contains(&"problem rights".to_owned()), "{found:#}");
    assert!(!found.to_string().contains("s3cret"));
}
