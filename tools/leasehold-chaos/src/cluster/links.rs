//! Cuts between servers, which clients do not notice.

use leasehold_test_servers::{ZooKeeperEnsemble, ZooKeeperSettings};

use super::{Cluster, Node, Variables};
use crate::Result;
use crate::setup::SetUp;

impl Cluster {
    /// ZooKeeper servers that reach each other through proxies.
    pub(super) fn of_zookeeper(variables: Variables) -> Result<Self> {
        let settings = ZooKeeperSettings::new().environment(variables).peers_behind_proxies();
        let ZooKeeperEnsemble { servers, links } = ZooKeeperEnsemble::start(3, &settings)?;
        let nodes = servers.into_iter().map(|server| Node::opaque(server, None));
        let nodes = nodes.collect::<Result<_>>()?;
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
