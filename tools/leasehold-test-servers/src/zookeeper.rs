//! A ZooKeeper server of the test's own: its configuration, its process, and the words it answers.

mod ensemble;
mod settings;

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use self::settings::EnsembleMember;
use crate::daemon::{Daemon, is_a_daemon, when_up};
use crate::programs::{missing, needed};
use crate::{PATIENCE, find};

pub use ensemble::ZooKeeperEnsemble;
pub use settings::ZooKeeperSettings;

/// Where Debian's packages keep the server, and what it needs beside what it names itself.
const JARS: &str = "/usr/share/java";
const CLASSES: [&str; 5] =
    ["zookeeper.jar", "slf4j-simple.jar", "netty-codec.jar", "netty-resolver.jar", "netty-all.jar"];
const MAIN: &str = "org.apache.zookeeper.server.quorum.QuorumPeerMain";
/// Quick to start and small, rather than fast. A leader that once got a snapshot has a gap in its transaction log, and
/// does not notice that when it updates others from the log: the last one has it send snapshots (ZOOKEEPER-2846).
const JAVA: [&str; 7] = [
    "-Xmx128m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Djava.net.preferIPv4Stack=true",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dzookeeper.snapshotSizeFactor=-1",
];
/// Tries to start: another process may take a free port before the server does.
const TRIES: usize = 20;
/// A server that is stopped must not hang its test.
const LIMIT: Duration = Duration::from_secs(10);

/// A server on loopback, in a temporary directory; killed when dropped.
#[derive(Debug)]
pub struct ZooKeeperServer {
    settings: ZooKeeperSettings,
    member: EnsembleMember,
    daemon: Daemon,
}

impl ZooKeeperServer {
    /// Whether one can be started here. If not, tests are reported as ignored, or fail when
    /// [`required`](crate::required) says so of `zookeeper`.
    pub fn is_present() -> bool {
        Path::new(JARS).join(CLASSES[0]).is_file()
            && find("java").is_some()
            && find("setpriv").is_some()
    }

    /// Starts one, and returns when it serves and is known to be the process that was started.
    ///
    /// # Errors
    /// When there is no program, or with the end of the server's log.
    pub fn start(settings: ZooKeeperSettings) -> io::Result<Self> {
        for round in 1.. {
            let mut server = Self::new(settings.clone())?;
            match server.start_again() {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse && round < TRIES => {}
                Err(error) => return Err(error),
                Ok(()) => return Ok(server),
            }
        }
        Err(io::ErrorKind::AddrInUse.into())
    }

    /// Not started yet.
    fn new(settings: ZooKeeperSettings) -> io::Result<Self> {
        let java = needed("java", "default-jre-headless")?;
        if !Self::is_present() {
            return Err(missing("zookeeper", "zookeeper"));
        }
        let mut daemon = Daemon::new("zookeeper", java, None)?;
        let member = EnsembleMember::alone(settings.certificates.is_some(), &mut daemon)?;
        Ok(Self { settings, member, daemon })
    }

    /// Its address for clients; stays the same over restarts.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.member.port).into()
    }

    /// The address for clients with TLS; `None` without.
    pub fn tls_address(&self) -> Option<SocketAddr> {
        Some((Ipv4Addr::LOCALHOST, self.member.tls_port?).into())
    }

    /// `zookeeper://...`
    pub fn url(&self) -> String {
        format!("zookeeper://{}", self.address())
    }

    /// What it answers to a word of four letters, such as `srvr` or `mntr`.
    ///
    /// # Errors
    /// What the connection says: refused while it is killed, `WouldBlock` while it is stopped.
    pub fn ask(&self, word: &str) -> io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&self.address(), LIMIT)?;
        stream.set_read_timeout(Some(LIMIT))?;
        stream.write_all(word.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }

    /// A number of its `mntr`, such as `zk_watch_count`.
    ///
    /// # Errors
    /// As [`ask`](Self::ask); `NotFound` when there is no such number.
    pub fn number(&self, field: &str) -> io::Result<f64> {
        let said = self.ask("mntr")?;
        let value = said.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix('\t'));
        let number = value.and_then(|value| value.trim().parse().ok());
        number
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("mntr has no {field}")))
    }

    /// Whether it leads the ensemble, follows, or stands alone: `leader`, `follower`, `standalone`;
    /// empty while it serves no client.
    pub fn mode(&self) -> String {
        let said = self.ask("srvr").unwrap_or_default();
        let mode = said.lines().find_map(|line| line.strip_prefix("Mode: "));
        mode.unwrap_or_default().to_owned()
    }

    /// Starts it after [`kill`](Daemon::kill), on the same port with the data that is on the disk;
    /// returns when it serves.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_again(&mut self) -> io::Result<()> {
        self.launch()?;
        self.when_up()
    }

    /// Kills it and starts it on the same port without its data, under the same number; returns when it
    /// serves. In an ensemble it has then got the data of the leader.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn restart_empty(&mut self) -> io::Result<()> {
        self.kill();
        std::fs::remove_dir_all(self.daemon.path("data"))?;
        self.start_again()
    }

    /// Removes the transaction logs without a byte of a killed server. One is left where the disk was full when
    /// the server began it; with it the server does not start (ZOOKEEPER-2332), and an operator removes it.
    ///
    /// # Errors
    /// What the file system says.
    pub fn remove_empty_logs(&self) -> io::Result<()> {
        for entry in std::fs::read_dir(self.data().join("version-2"))? {
            let entry = entry?;
            let is_log = entry.file_name().to_string_lossy().starts_with("log.");
            if is_log && entry.metadata()?.len() == 0 {
                std::fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// Starts the process; does not wait for it.
    fn launch(&mut self) -> io::Result<()> {
        let config = self.settings.write(&self.member, self.directory())?;
        let classes = CLASSES.map(|jar| format!("{JARS}/{jar}")).join(":");
        let properties = &self.settings.properties;
        let environment = self.settings.environments.get(self.member.number - 1).cloned();
        self.daemon.launch(|command| {
            command
                .envs(environment.unwrap_or_default())
                .args(JAVA)
                .args(properties)
                .args(["-cp", &classes, MAIN])
                .arg(&config);
        })
    }

    /// Waits until the server serves; checks that it is our child, which works in our directory.
    fn when_up(&mut self) -> io::Result<()> {
        when_up(self, PATIENCE * 2, |server| {
            Ok(!server.mode().is_empty() && server.listens_for_tls())
        })?;
        let ours = format!("user.dir={}", self.directory().canonicalize()?.display());
        match self.ask("envi")?.lines().any(|line| line == ours) {
            true => Ok(()),
            false => {
                let message = format!("the server on {} is not ours", self.address());
                Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
            }
        }
    }

    /// The port for TLS comes after the other.
    fn listens_for_tls(&self) -> bool {
        let address = self.tls_address();
        address.is_none_or(|address| TcpStream::connect_timeout(&address, LIMIT).is_ok())
    }
}

is_a_daemon!(ZooKeeperServer);
