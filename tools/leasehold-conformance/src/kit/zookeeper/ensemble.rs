//! Several ZooKeeper servers that elect a leader among them.

use std::io;
use std::net::SocketAddr;

use super::super::{ports, wait};
use super::settings::Place;
use super::{TRIES, ZooKeeperServer, ZooKeeperSettings};

/// An ensemble, in order of the servers' numbers.
#[derive(Debug)]
pub struct ZooKeeperEnsemble {
    /// The servers.
    pub servers: Vec<ZooKeeperServer>,
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
        let peers: Vec<(u16, u16)> = (0..size).map(|_| (ports::free(), ports::free())).collect();
        let mut servers = Vec::new();
        for number in 1..=size {
            let alone = Place::alone(settings.certificates.is_some());
            let place = Place { number, peers: peers.clone(), ..alone };
            servers.push(ZooKeeperServer::new(settings.clone(), place)?);
        }
        servers.iter_mut().try_for_each(ZooKeeperServer::launch)?;
        servers.iter_mut().try_for_each(ZooKeeperServer::when_up)?;
        Ok(Self { servers })
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
