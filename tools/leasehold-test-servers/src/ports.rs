//! Picks ports that stay free while their server is down.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, TcpListener};

/// Below the range from which the kernel takes the local ports of connections (32768 and up), or
/// a client that tries to reach a server that is down could take the port, or even connect to
/// itself. A cluster's bus is 10000 above its port, and below 32768 too.
const FIRST: u16 = 12_000;
const COUNT: u16 = 10_000;

/// Returns a port on which no process listens now. Another process may take it first: the caller
/// must then try another port.
pub(super) fn free() -> u16 {
    let start = RandomState::new().build_hasher().finish() % u64::from(COUNT);
    let ports = (0..COUNT).map(|step| FIRST + (start as u16 + step) % COUNT);
    let free = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    ports.into_iter().find(|port| free(*port) && free(port + COUNT)).unwrap_or(0)
}

/// Tries to start: another process may take a free port before the server does.
const TRIES: usize = 20;

/// Starts a server on a free port, and on another as long as it says `AddrInUse`.
pub(super) fn with_free<T>(mut start: impl FnMut(u16) -> io::Result<T>) -> io::Result<T> {
    for _ in 1..TRIES {
        match start(free()) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            outcome => return outcome,
        }
    }
    start(free())
}
