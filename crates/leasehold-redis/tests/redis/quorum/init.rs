//! `quorum init` admits no node without a wait unless every node answers and none has ever voted.

use leasehold_conformance::kit::{Proxy, RedisServer, Settings};
use leasehold_core::clock::Clock;
use leasehold_core::quorum::{Founding, Members, found};
use leasehold_core::{Error, ErrorKind};

use super::{Servers, connect, nodes};
use crate::{Test, ms, secs, test};

pub(crate) const TESTS: &[Test] = &[
    test!(init_admits_no_forgetful_node_while_another_does_not_answer),
    test!(init_admits_no_forgetful_node_while_a_majority_does_not_answer),
    test!(a_refused_init_changes_no_node),
    test!(init_is_refused_for_nodes_that_voted_before),
    test!(init_after_loss_needs_a_majority_before_it_changes_a_node),
];

/// Longer than any of these tests holds a lock.
const OPTIONS: &str = "max-ttl=30s&node-limit=200ms";

async fn try_init(url: &str, founding: Founding) -> Result<Members, Error> {
    let (nodes, max_ttl, _) = nodes(url);
    found(nodes, max_ttl, founding, Clock::system(), |_| {}).await
}

/// Three nodes, each behind a proxy. The first two grant a lease while the third is cut off; then the
/// second restarts empty, and `quorum init` runs while these do not answer.
async fn init_beside_a_holder(silent: &[usize]) {
    let mut servers = Servers::start(3);
    let proxies: Vec<Proxy> =
        servers.0.iter().map(|server| Proxy::start(server.address()).unwrap()).collect();
    let places: Vec<String> = proxies.iter().map(|proxy| proxy.address().to_string()).collect();
    let url = format!("redlock://{}?{OPTIONS}", places.join(","));
    try_init(&url, Founding::Vouched).await.unwrap();
    let (one, two) = (connect(&url).await, connect(&url).await);
    proxies[2].cut_all();
    let guard = one.lock("a").lease(secs(20)).acquire_within(secs(10)).await.unwrap();
    servers.0[1].restart_empty().unwrap();
    silent.iter().for_each(|node| proxies[*node].cut_all());
    let founded = try_init(&url, Founding::Vouched).await;
    for proxy in &proxies {
        proxy.kill_connections(); // What was withheld is lost.
        proxy.heal();
    }
    // The second and the third would be a majority.
    let early = two.lock("a").ttl(secs(5)).acquire_within(secs(5)).await;
    assert!(guard.is_valid(), "the machine is too slow for this test");
    assert!(early.is_err(), "two hold it");
    let error = founded.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    for node in silent {
        assert!(error.to_string().contains(&places[*node]), "{error}");
    }
    assert!(error.to_string().contains("nothing was changed"), "{error}");
    drop(guard);
}

async fn init_admits_no_forgetful_node_while_another_does_not_answer() {
    init_beside_a_holder(&[2]).await;
}

async fn init_admits_no_forgetful_node_while_a_majority_does_not_answer() {
    init_beside_a_holder(&[0, 2]).await;
}

fn keys(server: &RedisServer) -> String {
    let node = server.admin(&["GET", "leasehold:node"]).unwrap();
    format!("{:?} {node:?}", server.admin(&["DBSIZE"]).unwrap())
}

async fn a_refused_init_changes_no_node() {
    let mut servers = Servers::start(3);
    let url = servers.url(OPTIONS);
    // At a first start.
    servers.0[2].kill();
    let error = try_init(&url, Founding::Vouched).await.unwrap_err();
    assert!(error.to_string().contains(&servers.0[2].address().to_string()), "{error}");
    servers.0[2].restart().unwrap();
    for server in &servers.0 {
        assert_eq!(server.admin(&["DBSIZE"]).unwrap().integer(), Some(0));
    }
    try_init(&url, Founding::Vouched).await.unwrap();
    // After a loss of too many.
    servers.0[0].restart_empty().unwrap();
    servers.0[1].restart_empty().unwrap();
    let before: Vec<String> = servers.0.iter().map(keys).collect();
    let error = try_init(&url, Founding::Vouched).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert!(error.to_string().contains(&servers.0[2].address().to_string()), "{error}");
    assert!(error.to_string().contains("--after-loss"), "{error}");
    assert_eq!(servers.0.iter().map(keys).collect::<Vec<_>>(), before);
}

async fn init_is_refused_for_nodes_that_voted_before() {
    let durable = || RedisServer::start(Settings::new().append_only()).unwrap();
    let mut servers = Servers((0..3).map(|_| durable()).collect());
    let url = servers.url(OPTIONS);
    try_init(&url, Founding::Vouched).await.unwrap();
    let client = connect(&url).await;
    client.lock("a").ttl(secs(5)).acquire().await.unwrap().release().await.unwrap();
    drop(client);
    // All were restarted with their data: none votes, and each may have granted a lease.
    servers.0.iter_mut().for_each(|server| server.restart().unwrap());
    let error = try_init(&url, Founding::Vouched).await.unwrap_err();
    assert!(error.to_string().contains("no first start"), "{error}");
    // The marker was deleted by hand, and locks are left.
    servers.each(&["DEL", "leasehold:node"]);
    let error = try_init(&url, Founding::Vouched).await.unwrap_err();
    assert!(error.to_string().contains("no first start"), "{error}");
    assert_eq!(servers.0[0].admin(&["EXISTS", "leasehold:node"]).unwrap().integer(), Some(0));
}

async fn init_after_loss_needs_a_majority_before_it_changes_a_node() {
    let mut servers = Servers::start(3);
    let url = servers.url("max-ttl=50ms&node-limit=200ms");
    servers.0[0].kill();
    servers.0[1].kill();
    let error = try_init(&url, Founding::AfterLoss).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("1 of 3 nodes answer"), "{error}");
    tokio::time::sleep(ms(100)).await; // Longer than a node would wait.
    assert_eq!(servers.0[2].admin(&["DBSIZE"]).unwrap().integer(), Some(0));
}
