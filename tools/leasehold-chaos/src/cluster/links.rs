//! Cuts between servers, which clients do not notice.

use leasehold_test_servers::{ZooKeeperEnsemble, ZooKeeperSettings};

use super::{Cluster, Node, Variables};
use crate::Result;
use crate::setup::SetUp;

/// How often servers look for idle locks.
const CONTAINERS_MS: u64 = 1000;

impl Cluster {
    /// ZooKeeper servers that reach each other through proxies; `env` is the environment of each.
    pub(super) fn of_zookeeper(env: impl Fn(usize) -> Variables) -> Result<Self> {
        let settings = ZooKeeperSettings::new().environments([0, 1, 2].map(env).to_vec());
        // A lock that is free for a moment is removed beside the load.
        let settings = settings.containers_every_ms(CONTAINERS_MS).peers_behind_proxies();
        let ZooKeeperEnsemble { servers, links } = ZooKeeperEnsemble::start(3, &settings)?;
        let nodes = servers.into_iter().map(Node::opaque).collect::<Result<_>>()?;
        Ok(Self { links, ..Self::of(SetUp::Zookeeper, nodes) })
    }

    /// Lets nothing get from the other servers to one of them, or back from it, or both.
    pub(super) fn cut_peers(&self, at: usize, target: u64) {
        let (to_it, from_it) = [(true, false), (false, true), (true, true)][target as usize % 3];
        let server = self.cut_sentinel(target).map_or(at, |sentinel| self.nodes.len() + sentinel);
        self.links.cut(server, to_it, from_it);
    }

    /// The sentinel that is cut off from all others instead of a server, in every other case.
    pub(crate) fn cut_sentinel(&self, target: u64) -> Option<usize> {
        let target = target as usize / 8;
        let sentinels = self.sentinels.len();
        (sentinels > 0 && target.is_multiple_of(2)).then(|| target / 2 % sentinels)
    }
}
