//! Nodes that are silent, stopped, slow or down do not delay a majority of the other nodes.
//!
//! Each node may take five seconds for a step here. A client that waits for a silent node is late
//! by that time for each step, on any machine.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use leasehold_conformance::until;
use leasehold_core::backend::Origin;
use leasehold_core::proto::quorum::{NodeReply, Op, Task, TaskReply};
use leasehold_core::{AttemptId, Client, ClientId, ErrorKind, Name};
use leasehold_quorum::{Founding, Step};
use leasehold_test_servers::{Proxy, RedisServer};
use tokio::task::JoinSet;

use super::{Servers, connect, init, nodes};
use crate::{Test, ms, secs, test};

pub(crate) const TESTS: &[Test] = &[
    test!(nobody_waits_for_a_node_that_is_silent),
    test!(nobody_waits_for_a_node_that_is_stopped),
    test!(nobody_waits_for_a_node_that_is_slow),
    test!(nobody_waits_for_two_nodes_that_are_gone),
    test!(when_three_nodes_are_gone_the_error_says_so_of_each),
    test!(a_call_under_way_ends_when_its_server_is_killed),
];

/// Enough time for all pairs, and for less than a fifth of them if each waited for one node once.
const ENOUGH: Duration = Duration::from_secs(60);
const TASKS: usize = 16;
const PAIRS: usize = 4;

/// Five servers, the first behind a proxy.
async fn five() -> (Servers, Proxy, String) {
    let servers = Servers::start(5);
    let proxy = Proxy::start(servers.0[0].address()).unwrap();
    let mut places = vec![proxy.address().to_string()];
    places.extend(servers.0[1..].iter().map(|server| server.address().to_string()));
    let url = format!("redlock://{}?max-ttl=60s&node-limit=5s", places.join(","));
    init(&url, Founding::Vouched).await;
    (servers, proxy, url)
}

/// Many tasks acquire and release their own lock, again and again.
async fn pairs(client: &Client) {
    let mut tasks = JoinSet::new();
    for number in 0..TASKS {
        let lock = client.lock(format!("lock/{number}")).ttl(secs(60));
        tasks.spawn(async move {
            for _ in 0..PAIRS {
                lock.acquire().await.unwrap().release().await.unwrap();
            }
        });
    }
    let all = async { while tasks.join_next().await.transpose().unwrap().is_some() {} };
    tokio::time::timeout(ENOUGH, all).await.expect("a client waits for silent nodes");
}

async fn nobody_waits_for_a_node_that_is_silent() {
    let (_servers, proxy, url) = five().await;
    let client = connect(&url).await;
    pairs(&client).await;
    proxy.cut_all();
    pairs(&client).await;
    proxy.heal();
    pairs(&client).await;
}

async fn nobody_waits_for_a_node_that_is_stopped() {
    let (servers, _proxy, url) = five().await;
    let client = connect(&url).await;
    servers.0[1].stop().unwrap();
    pairs(&client).await;
    servers.0[1].resume().unwrap();
    pairs(&client).await;
}

async fn nobody_waits_for_a_node_that_is_slow() {
    let (_servers, proxy, url) = five().await;
    let client = connect(&url).await;
    proxy.set_latency(secs(4));
    pairs(&client).await;
}

async fn nobody_waits_for_two_nodes_that_are_gone() {
    let (mut servers, _proxy, url) = five().await;
    let client = connect(&url).await;
    // While they are asked, and when they are known to be down.
    tokio::join!(pairs(&client), async {
        servers.0[1].kill();
        servers.0[2].kill();
    });
    pairs(&client).await;
}

async fn when_three_nodes_are_gone_the_error_says_so_of_each() {
    let (mut servers, _proxy, url) = five().await;
    let client = connect(&url).await;
    servers.0[2..].iter_mut().for_each(RedisServer::kill);
    let lock = client.lock("a").ttl(secs(60));
    let reason = |server: &RedisServer| {
        let place = server.address();
        format!("node {place} is not connected: no server listens there; is the server running?")
    };
    // Right after it was killed, a node may not be known to be down.
    until("each is known to be gone", || async {
        let error = lock.acquire_within(ms(200)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        let text = error.to_string();
        servers.0[2..].iter().all(|server| text.contains(&reason(server)))
            && text.contains(": granted by 2 of 5 nodes, 3 needed: node ")
            && text.ends_with("; locks can be acquired again when 1 of these can vote")
            && !text.contains(&servers.0[1].address().to_string())
    })
    .await
    .unwrap();
}

async fn a_call_under_way_ends_when_its_server_is_killed() {
    let (mut servers, url) = Servers::founded(1).await;
    let node = nodes(&url).0.remove(0);
    let TaskReply::Look(look) = node.task(Task::Look).await else { panic!("no answer") };
    servers.0[0].stop().unwrap();
    let op = Op::Release { attempt: AttemptId::new(ClientId::from_bits(1), 1, 0) };
    let (name, origin) = (Name::new("a").unwrap(), Arc::new(Origin::new("", 0, None)));
    let step = Step::new(name, op, origin);
    let mut asking = pin!(node.steps(look.process, vec![step], secs(3600)));
    assert!(poll_fn(|cx| Poll::Ready(asking.as_mut().poll(cx))).await.is_pending());
    servers.0[0].kill();
    let replies = tokio::time::timeout(secs(20), asking).await.expect("it ends with its server");
    assert_eq!(replies, [NodeReply::Unknown]);
    let gone = "is not connected: no server listens there; is the server running?";
    let is_gone = || async { node.trouble().is_some_and(|trouble| trouble.starts_with(gone)) };
    until("it is known to be gone", is_gone).await.unwrap();
}
