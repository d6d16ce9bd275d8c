//! Picks ports that stay free while their server is down.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};

/// Below the range from which the kernel takes the local ports of connections (32768 and up), or
/// a client that tries to reach a server that is down could take the port, or even connect to
/// itself. A cluster's bus is 10000 above its port, and below 32768 too.
const FIRST: u16 = 12_000;
const COUNT: u16 = 10_000;

/// TCP ports that no other server of the kit takes as long as this value lives, in this process or in
/// another. A server that is down does not listen, so its socket does not keep the port: a UDP socket of
/// the same number does. The kernel closes it when the process ends, however it ends.
#[derive(Debug, Default)]
pub(super) struct Ports(Vec<UdpSocket>);

impl Ports {
    /// Reserves one more port, on which no process listens now. A program that is not of the kit may take
    /// it first: the caller must then try another port.
    ///
    /// # Errors
    /// `AddrInUse` when all are taken.
    pub(super) fn another(&mut self) -> io::Result<u16> {
        let start = RandomState::new().build_hasher().finish() % u64::from(COUNT);
        for port in (0..COUNT).map(|step| FIRST + (start as u16 + step) % COUNT) {
            let Ok(reservation) = UdpSocket::bind((Ipv4Addr::LOCALHOST, port)) else { continue };
            let free = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
            if free(port) && free(port + COUNT) {
                self.0.push(reservation);
                return Ok(port);
            }
        }
        Err(io::ErrorKind::AddrInUse.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_without_a_listener_is_given_once() {
        let mut kept = Ports::default();
        let mut given: Vec<u16> = (0..200).map(|_| kept.another().unwrap()).collect();
        let again = Ports::default().another().unwrap();
        assert!(!given.contains(&again));
        given.sort_unstable();
        given.dedup();
        assert_eq!(given.len(), 200);
        let reserved = |port: &u16| UdpSocket::bind((Ipv4Addr::LOCALHOST, *port)).is_err();
        assert!(given.iter().all(reserved));
        drop(kept);
        assert!(!given.iter().all(reserved));
    }
}
