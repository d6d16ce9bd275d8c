//! A Galera cluster of the test's own.

use std::io;
use std::path::Path;

use crate::ports::Ports;
use crate::{MariaDb, PATIENCE, find, wait};

/// Where Debian puts the library that replicates.
const PROVIDER: &str = "/usr/lib/galera/libgalera_smm.so";

/// MariaDB servers that replicate to each other, and of which each takes writes. Killed when dropped.
///
/// Each has the data of the others from their start. None can be started again after it was killed.
#[derive(Debug)]
pub struct Galera {
    nodes: Vec<MariaDb>,
    _ports: Ports,
}

impl Galera {
    /// Whether one can be started here: MariaDB is installed, as Debian does it.
    pub fn is_present() -> bool {
        MariaDb::is_present() && Path::new(PROVIDER).is_file() && find("rsync").is_some()
    }

    /// Starts so many nodes one by one, each with these further options, and returns when all know each other.
    ///
    /// # Errors
    /// As [`MariaDb::start`].
    pub fn start(size: usize, options: &[&str]) -> io::Result<Self> {
        let mut nodes = Vec::new();
        let (mut first, mut ports) = (None, Ports::default());
        for _ in 0..size {
            let port = ports.another()?;
            let own = settings(port, first, [ports.another()?, ports.another()?]);
            let own = own.iter().map(String::as_str).chain(options.iter().copied());
            nodes.push(MariaDb::start(&own.collect::<Vec<_>>())?);
            first = first.or(Some(port));
        }
        let cluster = Self { nodes, _ports: ports };
        wait(&format!("{size} nodes know each other ({PATIENCE:?})"), || {
            cluster.nodes.iter().all(|node| knows(node, size))
        })?;
        Ok(cluster)
    }

    /// Its nodes.
    pub fn nodes(&self) -> &[MariaDb] {
        &self.nodes
    }
}

/// The options of a node that talks to the others on `port`, and finds them at the first one's. Of `receive`,
/// it gets whole copies on the first port, and changes that it missed on the second.
fn settings(port: u16, first: Option<u16>, receive: [u16; 2]) -> Vec<String> {
    let found = first.unwrap_or(port);
    let mut options = vec![
        "--wsrep-on=ON".to_owned(),
        format!("--wsrep-provider={PROVIDER}"),
        "--binlog-format=ROW".into(),
        "--innodb-autoinc-lock-mode=2".into(),
        "--wsrep-cluster-name=leasehold".into(),
        format!("--wsrep-cluster-address=gcomm://127.0.0.1:{found}"),
        format!("--wsrep-node-address=127.0.0.1:{port}"),
        "--wsrep-sst-method=rsync".into(),
        format!("--wsrep-sst-receive-address=127.0.0.1:{}", receive[0]),
        format!(
            "--wsrep-provider-options=gmcast.listen_addr=tcp://127.0.0.1:{port};ist.recv_addr=127.0.0.1:{};\
             gcache.size=16M;pc.recovery=false",
            receive[1]
        ),
    ];
    if first.is_none() {
        options.push("--wsrep-new-cluster".into());
    }
    options
}

fn knows(node: &MariaDb, size: usize) -> bool {
    let asked = "SELECT variable_value FROM information_schema.global_status \
                 WHERE variable_name IN ('WSREP_CLUSTER_SIZE', 'WSREP_READY') ORDER BY variable_name";
    node.sql(asked).is_ok_and(|said| said == format!("{size}\nON"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_node_makes_the_cluster_that_the_others_join() {
        let (first, second) = (
            settings(12_001, None, [12_003, 12_004]),
            settings(12_002, Some(12_001), [12_005, 12_006]),
        );
        let at = "--wsrep-cluster-address=gcomm://127.0.0.1:12001".to_owned();
        assert!(first.contains(&at) && second.contains(&at), "{second:?}");
        let new = "--wsrep-new-cluster".to_owned();
        assert!(first.contains(&new) && !second.contains(&new), "{second:?}");
    }
}
