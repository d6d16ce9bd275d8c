//! Checks each server and its ensemble by four-letter words.

use std::io::{Read, Write};
use std::net::ToSocketAddrs;

use leasehold_core::doctor::Diagnosis;

use crate::address::Address;
use crate::connect_failure::{MOST, connect};

/// The number of outstanding requests at a server above which sessions may expire.
const OUTSTANDING: u64 = 100;

/// Returns true if all servers are on this machine.
pub(super) fn is_here(address: &Address) -> bool {
    address.hosts.iter().all(|(host, port)| {
        let found = (host.as_str(), *port).to_socket_addrs();
        found.is_ok_and(|mut all| all.all(|one| one.ip().is_loopback()))
    })
}

/// The answers of one server.
pub(crate) struct Said {
    pub(crate) place: String,
    /// `None` if it could not be reached.
    pub(crate) srvr: Option<String>,
    pub(crate) conf: String,
}

pub(super) async fn look(diagnosis: &mut Diagnosis, address: &Address) {
    if address.tls.is_some() {
        let why = "four-letter words are not sent over TLS";
        return diagnosis.unseen("each server's state, and the size of the ensemble", why);
    }
    let asking = address.hosts.iter().cloned().map(|(host, port)| {
        tokio::task::spawn_blocking(move || {
            let srvr = ask(&host, port, "srvr");
            // Wait only once for a silent server.
            let conf = srvr.as_ref().and_then(|_| ask(&host, port, "conf")).unwrap_or_default();
            Said { place: format!("{host}:{port}"), srvr, conf }
        })
    });
    let said: Vec<Said> =
        futures_util::future::join_all(asking).await.into_iter().flatten().collect();
    for one in &said {
        diagnosis.join(server(one));
    }
    ensemble(diagnosis, address, &said);
}

fn ask(host: &str, port: u16, word: &str) -> Option<String> {
    let mut stream = connect(host, port).ok()?;
    stream.write_all(word.as_bytes()).ok()?;
    let mut said = Vec::new();
    // The server closes the connection after its answer.
    stream.take(MOST).read_to_end(&mut said).ok()?;
    Some(String::from_utf8_lossy(&said).into_owned())
}

fn forbidden(said: &str) -> bool {
    said.contains("whitelist")
}

/// Returns the value after this word at the beginning of a line.
fn field<'a>(said: &'a str, word: &str) -> Option<&'a str> {
    said.lines().find_map(|line| line.strip_prefix(word)).map(str::trim)
}

pub(crate) fn server(said: &Said) -> Diagnosis {
    let mut diagnosis = Diagnosis::at(&said.place);
    let Some(srvr) = &said.srvr else {
        diagnosis.warning(
            "silent-server",
            "the server cannot be reached",
            "without it, a majority of all servers must still answer",
            "start it, or find out why it cannot be reached",
        );
        return diagnosis;
    };
    if forbidden(srvr) {
        let why = "the four-letter word srvr is not allowed; add it to 4lw.commands.whitelist";
        diagnosis.unseen("version, mode and load", why);
        return diagnosis;
    }
    if srvr.contains("not currently serving") || field(srvr, "Mode:") == Some("read-only") {
        diagnosis.warning(
            "no-majority",
            "the server has no majority of its ensemble",
            "its clients cannot acquire locks",
            "start the other servers, or find out why they cannot reach each other",
        );
    }
    let version = field(srvr, "Zookeeper version:").unwrap_or_default();
    let mut numbers = version.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    if let (Some(major), Some(minor)) = (numbers.next(), numbers.next())
        && let patch = numbers.next().unwrap_or_default()
        && (major, minor, patch) < (3, 5, 3)
    {
        diagnosis.problem(
            "version",
            format!("the server is ZooKeeper {major}.{minor}.{patch}"),
            "3.5.3 or newer is needed: locks are containers, which remove themselves",
            "upgrade the server",
        );
    }
    let waiting = field(srvr, "Outstanding:").and_then(|number| number.parse::<u64>().ok());
    if let Some(waiting) = waiting.filter(|&waiting| waiting > OUTSTANDING) {
        diagnosis.warning(
            "overloaded",
            format!("{waiting} requests wait at the server"),
            "renewals wait with them, and sessions may expire",
            "check the latency of its disk: the server syncs each change before it answers",
        );
    }
    diagnosis
}

fn ensemble(diagnosis: &mut Diagnosis, address: &Address, said: &[Said]) {
    let mode =
        |one: &Said| one.srvr.as_deref().and_then(|srvr| field(srvr, "Mode:").map(str::to_owned));
    if said.iter().any(|one| mode(one).as_deref() == Some("standalone")) {
        return diagnosis.warning(
            "standalone",
            "the server runs alone (standalone), without an ensemble",
            "while it is down no lock can be acquired, and a loss of its disk loses all locks",
            "run three or five servers",
        );
    }
    let confs: Vec<&str> =
        said.iter().map(|one| one.conf.as_str()).filter(|conf| !conf.is_empty()).collect();
    let members = confs.iter().filter(|conf| !forbidden(conf)).map(|conf| members(conf)).max();
    let Some(members) = members.filter(|&members| members > 0) else {
        let why = "the four-letter word conf is not allowed; add it to 4lw.commands.whitelist";
        return diagnosis.unseen("the size of the ensemble", why);
    };
    if members.is_multiple_of(2) {
        diagnosis.note(
            "even-number",
            format!("the ensemble has {members} servers"),
            format!(
                "it tolerates no more failures than {} servers, but one more must answer",
                members - 1
            ),
            "run an odd number of servers",
        );
    }
    if address.hosts.len() < members {
        diagnosis.note(
            "named",
            format!("the URL names {} of {members} servers", address.hosts.len()),
            "while those are down, clients cannot find the others",
            "name all of them",
        );
    }
}

/// Returns the number of servers in a configuration.
pub(crate) fn members(conf: &str) -> usize {
    conf.lines().filter(|line| line.starts_with("server.")).count()
}
