//! One server with the proxy before it, and what is done to both.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use leasehold_test_servers::{Admin, Direction, Pattern, Proxy, RedisServer, Shot};
use tempfile::TempDir;

use super::certificate::Files;
use super::newer::{self, Changed};
use super::remains::{CONNECTIONS, MARKER, Remains};
use super::server::Server;
use crate::Result;
use crate::fault::Fault;
use crate::plan::Planned;

/// Where clients connect from. Other servers have addresses of their own.
const CLIENTS: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// Bytes of the marker before the high-water mark of tokens.
const SAID: usize = 67;

/// What the marker of a node says, but for the tokens, which grow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    text: String,
    process: String,
}

impl Mark {
    /// Of the whole marker, which may be one of a newer version.
    fn of(marker: &str, process: String) -> Self {
        Self { text: marker.get(..SAID).unwrap_or(marker).to_owned(), process }
    }

    /// Whether the node has a vote: its marker names the running process, and says so.
    fn votes(&self) -> bool {
        self.text.starts_with("N2A") && self.text.get(3..43) == Some(&self.process)
    }

    /// Both in words, if this one had a vote and `now`, of the same process, says something else.
    pub(super) fn changed_to(&self, now: &Self) -> Option<String> {
        let is_same = now.text == self.text || newer::is_newer(&now.text);
        let changed = self.votes() && now.process == self.process && !is_same;
        changed.then(|| format!("{}, and is {}", self.text, now.text))
    }
}

/// A server. What depends on another field comes before it, so that it is dropped first.
#[derive(Debug)]
pub(crate) struct Node {
    place: Option<String>,
    proxy: Option<Arc<Proxy>>,
    /// Whether the proxy knows single requests.
    framed: bool,
    server: Box<dyn Server>,
    /// An older copy of its data.
    copy: Option<TempDir>,
    /// The connection by which a limit of connections is lifted.
    admin: Option<Admin>,
    /// Its certificates, if its connections are encrypted.
    files: Option<Files>,
}

impl Node {
    /// A server behind a proxy that knows its protocol.
    pub(super) fn framed(server: RedisServer) -> Result<Self> {
        let proxy = Proxy::start(&server)?;
        Ok(Self { framed: true, ..Self::behind(Some(proxy), Box::new(server)) })
    }

    /// A server behind a proxy that does not look into its protocol.
    pub(super) fn opaque(server: impl Server + 'static) -> Result<Self> {
        let proxy = server.address().map(Proxy::opaque).transpose()?;
        Ok(Self::behind(proxy, Box::new(server)))
    }

    /// A server whose proxy other servers use too; the URL of the set-up does not name it.
    pub(super) fn shared(server: RedisServer, proxy: Option<Arc<Proxy>>) -> Self {
        proxy.iter().for_each(|proxy| proxy.frame_from(CLIENTS));
        Self { proxy, framed: true, ..Self::hidden(server) }
    }

    /// A server that clients do not connect to.
    pub(super) fn hidden(server: impl Server + 'static) -> Self {
        Self { place: None, ..Self::behind(None, Box::new(server)) }
    }

    /// A store in files.
    pub(super) fn in_files(url: String, store: impl Server + 'static) -> Self {
        Self { place: Some(url), ..Self::behind(None, Box::new(store)) }
    }

    fn behind(proxy: Option<Proxy>, server: Box<dyn Server>) -> Self {
        let place = proxy.as_ref().map(|proxy| proxy.address().to_string());
        Self {
            place,
            proxy: proxy.map(Arc::new),
            framed: false,
            server,
            copy: None,
            admin: None,
            files: None,
        }
    }

    /// Where clients connect to, if it is reached over a network and they know it.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.place.as_ref().and(self.proxy.as_ref()).map(|proxy| proxy.address())
    }

    /// Where its proxy listens.
    pub(super) fn front(&self) -> Option<SocketAddr> {
        self.proxy.as_ref().map(|proxy| proxy.address())
    }

    /// The same with certificates.
    pub(super) fn with_files(self, files: Files) -> Self {
        Self { files: Some(files), ..self }
    }

    /// Its certificates, if its connections are encrypted.
    pub(super) fn files(&self) -> Option<&Files> {
        self.files.as_ref()
    }

    /// What the URL of the set-up names; `None` for a server that clients do not connect to.
    pub(super) fn place(&self) -> Option<&str> {
        self.place.as_deref()
    }

    /// Whether the proxy knows single requests.
    pub(crate) fn is_framed(&self) -> bool {
        self.framed
    }

    /// Whether a fault of its set-up can happen to it.
    pub(super) fn bears(&self, fault: Fault) -> bool {
        match fault {
            Fault::LoseReply | Fault::Cut | Fault::Slow | Fault::Reset => self.proxy.is_some(),
            Fault::Certificate | Fault::Authority => self.files.is_some(),
            Fault::Connections => self.proxy.is_some() && self.server.limits_connections(),
            Fault::Empty | Fault::Older | Fault::Full | Fault::Newer | Fault::Password => {
                self.server.has_data()
            }
            _ => true,
        }
    }

    /// The server.
    pub(super) fn server(&mut self) -> &mut dyn Server {
        self.server.as_mut()
    }

    /// The Redis server, if it is one.
    pub(super) fn redis(&self) -> Option<&RedisServer> {
        self.server.redis()
    }

    /// Keeps a copy of its data for a later fault.
    pub(super) fn save(&mut self) -> Result<()> {
        if !self.server.has_data() {
            return Ok(());
        }
        let copy = match self.copy.take() {
            Some(copy) => copy,
            None => tempfile::Builder::new().prefix("leasehold-chaos-copy-").tempdir()?,
        };
        self.server.save(&copy.path().join("data"))?;
        self.copy = Some(copy);
        Ok(())
    }

    /// Another server without data takes its place, behind the same address.
    pub(super) fn replace<'a>(&mut self, others: impl Iterator<Item = &'a Self>) -> Result<()> {
        let others: Vec<&dyn Server> = others.map(|other| other.server.as_ref()).collect();
        self.server.replace(&others)?;
        if let (Some(proxy), Some(address)) = (&self.proxy, self.server.address()) {
            proxy.point_to(address);
        }
        Ok(())
    }

    /// Does it; what is meant for one request happens with the next one, which the shot tells.
    pub(super) fn inject(&mut self, planned: Planned) -> Result<Option<Shot>> {
        match planned.fault {
            Fault::Stop => self.server.daemon()?.stop()?,
            Fault::Restart => {
                self.server.kill()?;
                self.server.start_again()?;
            }
            Fault::Truncate => {
                self.server.kill()?;
                if let Some(server) = self.server.redis() {
                    server.truncate_aof(1 + planned.target % 4096)?;
                }
                self.server.start_again()?;
                // As docs/redis.md tells operators: what is written after a part of a transaction may be lost by the next
                // restart.
                if let Some(server) = self.server.redis() {
                    server.rewrite_aof()?;
                }
                // The end of its file may have been what took a newer record away. Servers that replace each other have
                // none.
                if self.place.is_some() {
                    self.server.put_back()?;
                }
            }
            Fault::Empty => self.server.empty()?,
            Fault::Older => {
                if let Some(copy) = &self.copy {
                    self.server.restore(&copy.path().join("data"))?;
                }
                self.save()?;
            }
            Fault::CutPeers => {
                let direction = direction(planned.target);
                self.server.peer_proxies().iter().for_each(|proxy| proxy.cut(direction));
            }
            Fault::Connections => self.admin = self.server.limit_connections()?,
            Fault::Certificate => self.present(Files::renew)?,
            Fault::Authority => self.present(Files::forge)?,
            Fault::Newer => self.server.put_newer(planned.target)?,
            Fault::Password => self.server.change_user(planned.target)?,
            _ => {}
        }
        match &self.proxy {
            Some(proxy) => Ok(disturb(proxy, self.framed, planned)),
            None => Ok(None),
        }
    }

    /// Changes its certificate, which new connections have.
    fn present(&mut self, change: impl Fn(&Files) -> std::io::Result<()>) -> Result<()> {
        if let Some(files) = &self.files {
            change(files)?;
            self.server.reload_certificates()?;
        }
        Ok(())
    }

    /// Ends what lasts, and says what clients have changed that they may not.
    pub(crate) fn heal(&mut self, fault: Fault) -> Result<Changed> {
        match (fault, &self.proxy) {
            (Fault::Stop, _) => self.server.daemon()?.resume()?,
            (Fault::Connections, _) => {
                let admin = self.admin.take();
                self.server.allow_connections(admin)?;
            }
            (Fault::Authority, _) => self.present(Files::renew)?,
            (Fault::Newer, _) => return Ok(self.server.put_back()?),
            (Fault::Password, _) => self.server.restore_user()?,
            (Fault::CutPeers, _) => self.server.peer_proxies().iter().for_each(Proxy::heal),
            (Fault::Cut, Some(proxy)) => proxy.heal_from(CLIENTS),
            (Fault::Slow, Some(proxy)) => proxy.set_latency_from(CLIENTS, Duration::ZERO),
            _ => {}
        }
        Ok(None)
    }

    pub(super) fn mark(&self) -> Result<Mark> {
        let server = self.server.redis().ok_or("only a Redis server has a marker")?;
        let marker = server.admin(&["GET", MARKER])?.text();
        let process = server.info("run_id")?;
        Ok(Mark::of(&marker, process))
    }

    /// The followers of ZooKeeper's leader that have all of its writes; 0 for another server.
    pub(super) fn followers(&self) -> usize {
        self.server.followers()
    }

    pub(crate) fn votes(&self) -> bool {
        self.mark().is_ok_and(|mark| mark.votes())
    }

    /// What is there once all clients have ended: of it, what they have left behind.
    pub(super) fn left(&self) -> Result<Remains> {
        let mut remains = self.server.left()?;
        // Those of a pooler stay.
        let pooled = self.proxy.is_none() && self.redis().is_none();
        remains.left.retain(|what| !pooled || !what.ends_with(CONNECTIONS));
        let open = self.proxy.as_ref().map_or(0, |proxy| proxy.connections_from(CLIENTS));
        remains.left.extend((open > 0).then(|| format!("{open} {CONNECTIONS} to the proxy")));
        Ok(remains)
    }

    /// The connections that were made to its proxy so far.
    pub(crate) fn connections_made(&self) -> u64 {
        self.proxy.as_ref().map_or(0, |proxy| proxy.connections_made())
    }

    /// Takes back what waits for a request.
    pub(crate) fn forget_rules(&self) {
        self.proxy.iter().for_each(|proxy| proxy.forget_rules());
    }
}

fn direction(target: u64) -> Direction {
    match target % 2 {
        0 => Direction::ClientToServer,
        _ => Direction::ServerToClient,
    }
}

/// Does to the network what a fault does there.
fn disturb(proxy: &Proxy, framed: bool, planned: Planned) -> Option<Shot> {
    let scripts = || Pattern::command("EVALSHA");
    let time = Duration::from_nanos(planned.time);
    match planned.fault {
        Fault::LoseReply if framed => return Some(proxy.swallow_reply_to(scripts())),
        // What is carried out meanwhile is not answered.
        Fault::LoseReply => {
            proxy.cut_from(CLIENTS, Direction::ServerToClient);
            sleep(Duration::from_millis(5 + planned.target % 45));
            proxy.kill_connections_from(CLIENTS);
            proxy.heal_from(CLIENTS);
        }
        Fault::Duplicate => return Some(proxy.duplicate(scripts())),
        Fault::Delay => return Some(proxy.delay(scripts(), time)),
        Fault::Cut => proxy.cut_from(CLIENTS, direction(planned.target)),
        Fault::Slow => {
            let latency = Duration::from_millis(20 + planned.target % 180);
            proxy.set_latency_from(CLIENTS, latency);
        }
        // Those that were there must come again, and meet the limit.
        Fault::Reset | Fault::Connections | Fault::Authority => {
            proxy.kill_connections_from(CLIENTS);
        }
        // Connections may go on with the old certificate.
        Fault::Certificate if planned.target.is_multiple_of(2) => {
            proxy.kill_connections_from(CLIENTS);
        }
        _ => {}
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_that_changes_is_told_but_for_one_of_a_newer_version() {
        let process = "d55af1bb2eff0d0b59f39f7a514f9cc761f2cdfb";
        let mark = |state: &str| {
            let marker = format!("N2{state}{process}{:016x}{:08}{:016}{:016}", 7, 4000, 8, 9);
            Mark::of(&marker, process.to_owned())
        };
        let newer = Mark::of("N9, of a newer program", process.to_owned());
        assert!(mark("A").votes() && !mark("W").votes() && !newer.votes());
        assert_eq!(mark("A").changed_to(&mark("A")), None);
        assert!(mark("A").changed_to(&mark("W")).is_some());
        assert_eq!(mark("A").changed_to(&newer), None);
        assert_eq!(newer.changed_to(&mark("A")), None);
    }
}
