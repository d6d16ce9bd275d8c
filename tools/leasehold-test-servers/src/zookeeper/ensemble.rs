//! Several ZooKeeper servers that elect a leader among them.

use std::io;
use std::net::SocketAddr;

use super::{TRIES, ZooKeeperServer, ZooKeeperSettings};
use crate::{Links, links, wait};

/// An ensemble, in order of the servers' numbers.
#[derive(Debug)]
pub struct ZooKeeperEnsemble {
    /// The servers.
    pub servers: Vec<ZooKeeperServer>,
    /// The ways between them, with [`peers_behind_proxies`](ZooKeeperSettings::peers_behind_proxies).
    pub links: Links,
}

impl ZooKeeperEnsemble {
    /// Starts this many, and returns when all serve.
    ///
    /// # Errors
    /// As [`ZooKeeperServer::start`].
    pub fn start(size: usize, settings: &ZooKeeperSettings) -> io::Result<Self> {
        for round in 1.. {
            match Self::start_once(size, settings) {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse && round < TRIES => {}
                done => return done,
            }
        }
        Err(io::ErrorKind::AddrInUse.into())
    }

    fn start_once(size: usize, settings: &ZooKeeperSettings) -> io::Result<Self> {
        let mut servers: Vec<_> =
            (0..size).map(|_| ZooKeeperServer::new(settings.clone())).collect::<io::Result<_>>()?;
        let peers: Vec<Ports> =
            servers.iter_mut().map(ports_for_others).collect::<io::Result<_>>()?;
        let (known, links) = match settings.peers_behind_proxies {
            true => linked(&peers)?,
            false => (vec![peers.clone(); size], Links::default()),
        };
        for ((number, peers), server) in (1..).zip(known).zip(&mut servers) {
            (server.member.number, server.member.peers) = (number, peers);
        }
        servers.iter_mut().try_for_each(ZooKeeperServer::launch)?;
        servers.iter_mut().try_for_each(ZooKeeperServer::when_up)?;
        Ok(Self { servers, links })
    }

    /// `zookeeper://` with the addresses of all.
    pub fn url(&self) -> String {
        let places: Vec<String> =
            self.servers.iter().map(|server| server.address().to_string()).collect();
        format!("zookeeper://{}", places.join(","))
    }

    /// The address of each.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.servers.iter().map(ZooKeeperServer::address).collect()
    }

    /// The place of the leader among the servers; waits until there is one.
    ///
    /// # Errors
    /// When none is elected.
    pub fn leader(&self) -> io::Result<usize> {
        let mut leader = None;
        wait("a leader is elected", || {
            leader = self
                .servers
                .iter()
                .position(|server| server.pid() != 0 && server.mode() == "leader");
            leader.is_some()
        })?;
        leader.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// The ports of a server for the others: for its followers, and for elections.
type Ports = (u16, u16);

fn ports_for_others(server: &mut ZooKeeperServer) -> io::Result<Ports> {
    Ok((server.daemon.ports.another()?, server.daemon.ports.another()?))
}

/// Puts proxies between servers that have these ports: the ports by which each of them knows all, its own among
/// them.
fn linked(peers: &[Ports]) -> io::Result<(Vec<Vec<Ports>>, Links)> {
    let place = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
    let mut known = vec![peers.to_vec(); peers.len()];
    let mut proxies = Vec::new();
    for (from, known) in known.iter_mut().enumerate() {
        for (to, real) in peers.iter().enumerate().filter(|(to, _)| *to != from) {
            let [peer, election] = [links::proxy()?, links::proxy()?];
            known[to] = (peer.address().port(), election.address().port());
            peer.point_to(place(real.0));
            election.point_to(place(real.1));
            proxies.push((from, to, [peer, election]));
        }
    }
    let mut links = Links::default();
    for (from, to, [peer, election]) in proxies {
        // A server with a smaller number has the other one connect to where it says that it is.
        let [own, by_the_other] = [peers[from].1, known[to][from].1].map(place);
        election.rewrite(&own.to_string(), &by_the_other.to_string());
        links.add(from, to, peer);
        links.add(from, to, election);
    }
    Ok((known, links))
}
