//! Redis servers with replicas that take their masters' places.

use std::io;

use leasehold_test_servers::{
    Links, RedisCluster, RedisSentinels, RedisServer, RedisSettings, wait,
};

use super::{Cluster, Node, Variables, password, settings};
use crate::Result;
use crate::setup::SetUp;

impl Cluster {
    /// A master and two replicas, watched by sentinels.
    pub(super) fn with_sentinels(variables: Variables) -> Result<Self> {
        let all = RedisSentinels::start_linked(settings(variables), RedisSettings::new())?;
        let url = format!("redis+sentinel://{}{}", password::LOGIN, all.place());
        let RedisSentinels { servers, sentinels, links } = all;
        let nodes = behind_fronts(servers, &links);
        Ok(Self { url, sentinels, links, ..Self::of(SetUp::Sentinel, nodes) })
    }

    /// Three masters of slots, and a replica of each.
    pub(super) fn of_slots(variables: Variables) -> Result<Self> {
        let all = RedisCluster::start_linked(settings(variables))?;
        let url = format!("redis+cluster://{}{}", password::LOGIN, all.place());
        let RedisCluster { nodes, links } = all;
        let nodes = behind_fronts(nodes, &links);
        Ok(Self { url, links, ..Self::of(SetUp::Cluster, nodes) })
    }

    /// Has a sentinel choose another master; it refuses while it chooses one already.
    pub(super) fn promote_by_sentinel(&self, target: u64) {
        let sentinel = &self.sentinels[target as usize % self.sentinels.len()];
        sentinel.admin(&["SENTINEL", "FAILOVER", RedisSentinels::NAME]).ok();
    }

    /// Makes a replica the master of its slots, without waiting for the last writes if `force`; on a master
    /// nothing happens.
    pub(super) fn promote(&self, at: usize, force: bool) {
        let words = ["CLUSTER", "FAILOVER", "FORCE"];
        let words = if force { &words[..] } else { &words[..2] };
        self.nodes[at].redis().map(|server| server.admin(words).ok());
    }

    /// Gives a server that was started again the role that the sentinels name. Its own file has the role of its
    /// first start, where a server outside of tests has the last one.
    pub(super) fn follow_master(&self, at: usize) -> Result<()> {
        let Some(server) = self.nodes[at].redis() else { return Ok(()) };
        wait("a server has the role that the sentinels name", || self.give_role(server).is_ok())?;
        Ok(())
    }

    fn give_role(&self, server: &RedisServer) -> io::Result<()> {
        let args = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", RedisSentinels::NAME];
        let answers = self.sentinels.iter().filter_map(|sentinel| sentinel.admin(&args).ok());
        let named = answers.filter_map(|answer| match answer.items() {
            [host, port] => Some((host.text(), port.text())),
            _ => None,
        });
        let named: Vec<(String, String)> = named.collect();
        // A sentinel that was cut off may still name an earlier master.
        let agreed = |one: &&(String, String)| {
            2 * named.iter().filter(|other| other == one).count() > self.sentinels.len()
        };
        let master = named.iter().find(agreed);
        let (host, port) = master.ok_or_else(|| io::Error::other("the sentinels do not agree"))?;
        let words = match *port == server.port_between().to_string() {
            true => ["REPLICAOF", "NO", "ONE"],
            false => ["REPLICAOF", host, port],
        };
        server.admin(&words).map(drop)
    }
}

/// Servers whose proxies are between them too.
fn behind_fronts(servers: Vec<RedisServer>, links: &Links) -> Vec<Node> {
    let servers = servers.into_iter().enumerate();
    servers.map(|(at, server)| Node::shared(server, links.front(at))).collect()
}
