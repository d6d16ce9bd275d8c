//! The network between the servers of an ensemble.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use crate::{Direction, Proxy};

/// Proxies through which the servers of an ensemble connect to each other. Clients have other ways to the servers, or
/// come from another address.
#[derive(Debug, Default)]
pub struct Links(Vec<Link>);

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
        self.0.push(Link { from, to, proxy: Arc::new(proxy), source: None });
    }

    /// Servers that have proxies each, in order of their numbers, by which all connect to it; each connects from its
    /// [`source`].
    pub(super) fn by_source(proxies: Vec<Vec<Proxy>>) -> Self {
        let all = 0..proxies.len();
        let each = |(to, proxies): (usize, Vec<Proxy>)| {
            proxies.into_iter().map(move |proxy| (to, Arc::new(proxy)))
        };
        let proxies = proxies.into_iter().enumerate().flat_map(each);
        let links = proxies.flat_map(|(to, proxy)| {
            let others = all.clone().filter(move |from| *from != to);
            others.map(move |from| {
                let source = Some(source(from).into());
                Link { from, to, proxy: proxy.clone(), source }
            })
        });
        Self(links.collect())
    }

    /// From now on nothing gets from the other servers to one of them, or from it to them, or both. Its clients do not
    /// notice.
    pub fn cut(&self, server: usize, to_it: bool, from_it: bool) {
        for link in &self.0 {
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

    /// Ends all cuts: what was withheld arrives.
    pub fn heal(&self) {
        self.0.iter().for_each(|link| link.proxy.heal());
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
