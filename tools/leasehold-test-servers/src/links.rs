//! The network between the servers of an ensemble.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use crate::{Direction, Proxy};

/// Proxies through which the servers of an ensemble connect to each other. Clients have other ways to the servers, or
/// come from another address.
#[derive(Debug, Default)]
pub struct Links {
    links: Vec<Link>,
    /// Those by which clients connect to each server too, in order of the servers.
    fronts: Vec<Arc<Proxy>>,
}

/// The connections that one server makes to another one.
#[derive(Debug)]
struct Link {
    from: usize,
    to: usize,
    proxy: Arc<Proxy>,
    /// Where `from` connects from, if the proxy has connections of others too.
    source: Option<IpAddr>,
}

impl Links {
    /// Adds a proxy that one server alone connects to another one by.
    pub(super) fn add(&mut self, from: usize, to: usize, proxy: Proxy) {
        self.links.push(Link { from, to, proxy: Arc::new(proxy), source: None });
    }

    /// Servers that have proxies each, in order of their numbers, by which all connect to it; each connects from its
    /// [`source`].
    pub(super) fn by_source(proxies: Vec<Vec<Proxy>>) -> Self {
        let all = 0..proxies.len();
        let shared = |proxies: Vec<Proxy>| proxies.into_iter().map(Arc::new).collect();
        let proxies: Vec<Vec<Arc<Proxy>>> = proxies.into_iter().map(shared).collect();
        let fronts = proxies.iter().filter_map(|of_server| of_server.first().cloned()).collect();
        let each = |(to, proxies): (usize, Vec<Arc<Proxy>>)| {
            proxies.into_iter().map(move |proxy| (to, proxy))
        };
        let proxies = proxies.into_iter().enumerate().flat_map(each);
        let links = proxies.flat_map(|(to, proxy)| {
            let others = all.clone().filter(move |from| *from != to);
            others.map(move |from| {
                let source = Some(source(from).into());
                Link { from, to, proxy: proxy.clone(), source }
            })
        });
        Self { links: links.collect(), fronts }
    }

    /// The proxy by which clients connect to a server, as the others do, each from its own address; `None` where clients
    /// have other ways.
    pub fn front(&self, server: usize) -> Option<Arc<Proxy>> {
        self.fronts.get(server).cloned()
    }

    /// From now on nothing gets from the other servers to one of them, or from it to them, or both. Its clients do not
    /// notice.
    pub fn cut(&self, server: usize, to_it: bool, from_it: bool) {
        for link in &self.links {
            let directions = match (link.from == server, link.to == server) {
                (true, _) => [Direction::ServerToClient, Direction::ClientToServer],
                (_, true) => [Direction::ClientToServer, Direction::ServerToClient],
                _ => continue,
            };
            for (direction, is_cut) in directions.into_iter().zip([to_it, from_it]) {
                match link.source {
                    _ if !is_cut => {}
                    Some(source) => link.proxy.cut_from(source, direction),
                    None => link.proxy.cut(direction),
                }
            }
        }
    }

    /// Ends all cuts between servers: what was withheld arrives.
    pub fn heal(&self) {
        for link in &self.links {
            match link.source {
                Some(source) => link.proxy.heal_from(source),
                None => link.proxy.heal(),
            }
        }
    }
}

/// The address that a server of an ensemble connects to others from.
pub(super) fn source(server: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 1, 1 + server as u8)
}

/// A proxy whose server has no port yet.
pub(super) fn proxy() -> io::Result<Proxy> {
    Proxy::opaque(SocketAddr::from((Ipv4Addr::LOCALHOST, 1)))
}
