//! `quorum init` admits no node without a wait unless every node answers and none has ever voted.

use std::time::Duration;

use leasehold_conformance::until;
use leasehold_core::clock::Clock;
use leasehold_core::{Error, ErrorKind};
use leasehold_quorum::{Founding, Membership, found, found_exactly, members};
use leasehold_test_servers::{Pattern, Proxy, RedisServer, RedisSettings};

use super::{Servers, comes_back, connect, nodes};
use crate::{Test, ms, secs, test};

pub(crate) const TESTS: &[Test] = &[
    test!(init_admits_no_forgetful_node_while_another_does_not_answer),
    test!(init_admits_no_forgetful_node_while_a_majority_does_not_answer),
    test!(a_refused_init_changes_no_node),
    test!(init_is_refused_for_nodes_that_voted_before),
    test!(init_with_another_longest_ttl_is_refused_as_soon_as_one_node_keeps_its_own),
    test!(init_with_another_longest_ttl_is_refused_though_the_first_questions_are_not_answered),
    test!(clients_that_name_another_longest_ttl_after_a_new_first_start_are_safe_and_warned),
    test!(init_sets_the_longest_ttl_though_a_client_has_connected_before),
    test!(init_replaces_a_waiting_marker_with_another_longest_ttl_where_a_majority_votes),
    test!(init_names_the_node_that_votes_with_another_longest_ttl),
    test!(init_after_loss_is_quick_though_the_nodes_have_very_many_keys),
    test!(init_after_loss_needs_a_majority_before_it_changes_a_node),
];

/// Longer than any of these tests holds a lock.
const OPTIONS: &str = "max-ttl=30s&node-limit=200ms";

async fn try_init(url: &str, founding: Founding) -> Result<Membership, Error> {
    let (nodes, max_ttl, _) = nodes(url);
    found(nodes, max_ttl, founding, Clock::system(), |_| {}).await
}

/// Sets nodes up as `leasehold quorum init --max-ttl` does.
async fn init_exactly(
    url: &str,
    max_ttl: Duration,
    founding: Founding,
) -> Result<Membership, Error> {
    found_exactly(nodes(url).0, max_ttl, founding, Clock::system(), |_| {}).await
}

/// Three nodes, each behind a proxy. The first two grant a lease while the third is cut off. Then
/// the second restarts empty, and `quorum init` runs while these do not answer.
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
        proxy.kill_connections(); // The withheld messages are lost.
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
    // After a loss of too many nodes.
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
    let durable = || RedisServer::start(RedisSettings::new().append_only()).unwrap();
    let mut servers = Servers((0..3).map(|_| durable()).collect());
    let url = servers.url(OPTIONS);
    try_init(&url, Founding::Vouched).await.unwrap();
    let client = connect(&url).await;
    client.lock("a").ttl(secs(5)).acquire().await.unwrap().release().await.unwrap();
    drop(client);
    // All were restarted with their data: none votes, and each may have granted a lease.
    servers.0.iter_mut().for_each(|server| server.restart().unwrap());
    let error = try_init(&url, Founding::Vouched).await.unwrap_err();
    assert!(error.to_string().contains("not a first start"), "{error}");
    // The marker was deleted by hand, and locks are left.
    servers.each(&["DEL", "leasehold:node"]);
    let error = try_init(&url, Founding::Vouched).await.unwrap_err();
    assert!(error.to_string().contains("not a first start"), "{error}");
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

/// The others are empty, or have markers that wait.
async fn init_with_another_longest_ttl_is_refused_as_soon_as_one_node_keeps_its_own() {
    let mut servers = Servers::start(3);
    let url = servers.url(OPTIONS);
    try_init(&url, Founding::Vouched).await.unwrap();
    for step in 0..3 {
        match step {
            0 => {}
            1 => servers.0[1].restart_empty().unwrap(),
            _ => servers.0[2].restart_empty().unwrap(),
        }
        for founding in [Founding::Vouched, Founding::AfterLoss] {
            let before: Vec<String> = servers.0.iter().map(keys).collect();
            let error = init_exactly(&url, secs(7), founding).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
            let place = servers.0[0].address().to_string();
            assert!(
                error.to_string().contains(&format!("node {place} is set up with 30s")),
                "{error}"
            );
            assert_eq!(servers.0.iter().map(keys).collect::<Vec<_>>(), before);
        }
        // One that connects writes a marker that waits.
        drop(connect(&url).await);
    }
}

async fn init_with_another_longest_ttl_is_refused_though_the_first_questions_are_not_answered() {
    let servers = Servers::start(3);
    let proxies: Vec<Proxy> =
        servers.0.iter().map(|server| Proxy::start(server.address()).unwrap()).collect();
    let places: Vec<String> = proxies.iter().map(|proxy| proxy.address().to_string()).collect();
    let url = format!("redlock://{}?{OPTIONS}", places.join(","));
    try_init(&url, Founding::Vouched).await.unwrap();
    let before: Vec<String> = servers.0.iter().map(keys).collect();
    let marker = || Pattern::command("GET").and(Pattern::containing("leasehold:node"));
    let shots: Vec<_> = proxies.iter().map(|proxy| proxy.reset_at_reply_to(marker())).collect();
    let error = init_exactly(&url, secs(7), Founding::Vouched).await.unwrap_err();
    assert!(shots.iter().all(|shot| shot.happened()));
    // A node whose connection was reset is silent, or answers a repeated question.
    assert!(
        matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Refused)
            && error.to_string().ends_with("nothing was changed"),
        "{error}"
    );
    assert_eq!(servers.0.iter().map(keys).collect::<Vec<_>>(), before);
}

/// All nodes have lost their data, and the operator sets them up with another longest ttl than clients name.
async fn clients_that_name_another_longest_ttl_after_a_new_first_start_are_safe_and_warned() {
    let mut servers = Servers::start(3);
    let url = servers.url(OPTIONS);
    try_init(&url, Founding::Vouched).await.unwrap();
    let before = connect(&url).await;
    servers.0.iter_mut().for_each(|server| server.restart_empty().unwrap());
    let members = init_exactly(&url, secs(2), Founding::Vouched).await.unwrap();
    assert_eq!(members.max_ttl, Some(secs(2)));
    let after = connect(&url).await;
    let warnings = after.warnings();
    let what = "max-ttl=30s has no effect: the nodes grant 2s";
    assert!(warnings.iter().any(|warning| warning.contains(what)), "{warnings:?}");
    for client in [&before, &after] {
        let refused = || async {
            let error = client.lock("a").ttl(secs(3)).try_acquire().await.unwrap_err();
            error.to_string().contains(
                "3s is more than max-ttl=2s, the longest that these nodes grant; use at most 2s",
            )
        };
        until("a longer ttl is refused with the reason", refused).await.unwrap();
    }
    let guard = comes_back(&before.lock("a").ttl(secs(2))).await;
    // A slow machine may not answer within the node limit.
    let other = after.lock("a").ttl(secs(2)).try_acquire().await.unwrap_or_else(|error| {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        None
    });
    assert!(other.is_none() || !guard.is_valid(), "two hold it");
    drop((guard, other));
    // The nodes get a shorter limit while a client sends nothing. The refusals tell the client.
    for server in &servers.0 {
        let marker = server.admin(&["GET", "leasehold:node"]).unwrap().text();
        let shorter = format!("{}{:08}{}", &marker[..59], 1000, &marker[67..]);
        server.admin(&["SET", "leasehold:node", &shorter]).unwrap();
    }
    let refused = || async {
        let tried = before.lock("b").ttl(secs(2)).try_acquire().await;
        tried.is_err_and(|error| {
            error.to_string().contains(
                "2s is more than max-ttl=1s, the longest that these nodes grant; use at most 1s",
            )
        })
    };
    until("the refusals name the shorter limit", refused).await.unwrap();
}

async fn init_sets_the_longest_ttl_though_a_client_has_connected_before() {
    let servers = Servers::start(3);
    let url = servers.url("max-ttl=60s&node-limit=200ms&prefix=other");
    let client = connect(&url).await;
    client.lock("a").try_acquire().await.unwrap_err();
    drop(client);
    let error = init_exactly(&url, secs(7), Founding::AfterLoss).await.unwrap_err();
    assert!(error.to_string().contains("delete the key other:node"), "{error}");
    let members = init_exactly(&url, secs(7), Founding::Vouched).await.unwrap();
    assert_eq!(members.max_ttl, Some(secs(7)));
    let url = servers.url("max-ttl=7s&node-limit=200ms&prefix=other");
    let error = connect(&url).await.lock("a").ttl(secs(8)).try_acquire().await.unwrap_err();
    assert!(error.to_string().contains("delete the key other:node"), "{error}");
    // They vote by now, and keep it.
    let error = init_exactly(&url, secs(9), Founding::Vouched).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
}

/// Returns what a node was asked, by its command counters.
fn scans(server: &RedisServer) -> bool {
    server.admin(&["INFO", "commandstats"]).unwrap().text().contains("cmdstat_scan:")
}

async fn init_after_loss_is_quick_though_the_nodes_have_very_many_keys() {
    let servers = Servers::start(3);
    let url = servers.url("max-ttl=50ms&node-limit=200ms");
    servers.each(&["SET", "a key of another program", "1"]);
    try_init(&url, Founding::AfterLoss).await.unwrap();
    assert!(!servers.0.iter().any(scans), "the keys were looked through");
}

/// The longest ttl of each node's marker in milliseconds, and whether it votes.
fn markers(servers: &Servers) -> Vec<(bool, u64)> {
    let marker = |server: &RedisServer| {
        let marker = server.admin(&["GET", "leasehold:node"]).unwrap().text();
        (&marker[2..3] == "A", marker[59..67].trim().parse().unwrap())
    };
    servers.0.iter().map(marker).collect()
}

async fn init_replaces_a_waiting_marker_with_another_longest_ttl_where_a_majority_votes() {
    let mut servers = Servers::start(3);
    let url = servers.url("max-ttl=1s&node-limit=200ms");
    for exact in [true, false] {
        try_init(&url, Founding::Vouched).await.unwrap();
        servers.0[2].restart_empty().unwrap();
        // A client that connects writes a marker that waits, with the longer value of its URL.
        drop(look_as_client(&servers.url("max-ttl=3s")).await);
        assert_eq!(markers(&servers), [(true, 1000), (true, 1000), (false, 3000)]);
        let members = match exact {
            true => init_exactly(&url, secs(1), Founding::Vouched).await.unwrap(),
            false => try_init(&url, Founding::Vouched).await.unwrap(),
        };
        assert_eq!(markers(&servers), [(true, 1000); 3], "exact: {exact}");
        assert_eq!(members.unequal_max_ttl(), None);
    }
}

/// Looks at the nodes as a client does that connects.
async fn look_as_client(url: &str) -> Membership {
    let (nodes, max_ttl, _) = nodes(url);
    members(nodes, max_ttl, Clock::system()).await
}

async fn init_names_the_node_that_votes_with_another_longest_ttl() {
    let servers = Servers::start(3);
    // The third is set up alone, with another longest ttl.
    let alone = format!("redlock://{}?max-ttl=4s", servers.0[2].address());
    try_init(&alone, Founding::Vouched).await.unwrap();
    let two = format!("redlock://{},{}?max-ttl=1s", servers.0[0].address(), servers.0[1].address());
    try_init(&two, Founding::Vouched).await.unwrap();
    let url = servers.url("max-ttl=1s&node-limit=200ms");
    let place = servers.0[2].address().to_string();
    let members = try_init(&url, Founding::Vouched).await.unwrap();
    let warning = members.unequal_max_ttl().unwrap();
    assert!(
        warning.contains(&format!("a majority grants at least 1s, but node {place} grants 4s")),
        "{warning}"
    );
    assert!(warning.contains("delete the key leasehold:node there"), "{warning}");
    let error = init_exactly(&url, secs(1), Founding::Vouched).await.unwrap_err();
    assert!(error.to_string().contains(&format!("node {place} is set up with 4s")), "{error}");
    // What the warning says helps.
    servers.0[2].admin(&["DEL", "leasehold:node"]).unwrap();
    let members = init_exactly(&url, secs(1), Founding::Vouched).await.unwrap();
    assert_eq!(members.unequal_max_ttl(), None);
    assert_eq!(markers(&servers), [(true, 1000); 3]);
}
