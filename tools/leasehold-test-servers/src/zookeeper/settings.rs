//! How a ZooKeeper server is to be: a builder, and the files that are made of it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::Certificates;
use crate::daemon::Daemon;

/// How a server is to be. By default: a tick of 500 ms, so that sessions of 1 to 60 s are allowed;
/// no TLS; every four-letter word; nothing is forced to the disk, since no test pulls the plug.
#[derive(Clone, Debug)]
pub struct ZooKeeperSettings {
    pub(super) certificates: Option<Certificates>,
    pub(super) properties: Vec<String>,
    pub(super) environments: Vec<Vec<(String, String)>>,
    pub(super) peers_behind_proxies: bool,
    lines: Vec<String>,
}

/// One server of an ensemble: its number and its ports.
#[derive(Clone, Debug)]
pub(super) struct EnsembleMember {
    pub(super) port: u16,
    pub(super) tls_port: Option<u16>,
    /// Its number, from 1, and the ports by which it knows all; empty when it is alone.
    pub(super) number: usize,
    pub(super) peers: Vec<(u16, u16)>,
}

impl EnsembleMember {
    /// A server on ports that `daemon` reserves.
    pub(super) fn alone(tls: bool, daemon: &mut Daemon) -> io::Result<Self> {
        let port = daemon.ports.another()?;
        let tls_port = if tls { Some(daemon.ports.another()?) } else { None };
        Ok(Self { port, tls_port, number: 1, peers: Vec::new() })
    }
}

impl Default for ZooKeeperSettings {
    fn default() -> Self {
        Self::new()
    }
}

impl ZooKeeperSettings {
    /// The defaults.
    pub fn new() -> Self {
        Self {
            certificates: None,
            properties: Vec::new(),
            environments: Vec::new(),
            peers_behind_proxies: false,
            lines: Vec::new(),
        }
    }

    /// TLS on a second port; clients must show a certificate of the same authority.
    #[must_use]
    pub fn tls(mut self, certificates: &Certificates) -> Self {
        self.certificates = Some(certificates.clone());
        self
    }

    /// Servers of an ensemble connect to each other through proxies.
    #[must_use]
    pub fn peers_behind_proxies(mut self) -> Self {
        self.peers_behind_proxies = true;
        self
    }

    /// A further line of the configuration file.
    #[must_use]
    pub fn line(mut self, line: impl Into<String>) -> Self {
        self.lines.push(line.into());
        self
    }

    /// Variables in the environment of each server, in order of their numbers.
    #[must_use]
    pub fn environments(mut self, variables: Vec<Vec<(String, String)>>) -> Self {
        self.environments = variables;
        self
    }

    /// Empty containers are looked for this often, not once a minute.
    #[must_use]
    pub fn containers_every_ms(mut self, ms: u64) -> Self {
        self.properties.push(format!("-Dznode.container.checkIntervalMs={ms}"));
        self
    }

    /// Writes the configuration into a directory; its path.
    pub(super) fn write(&self, member: &EnsembleMember, directory: &Path) -> io::Result<PathBuf> {
        let data = directory.join("data");
        fs::create_dir_all(&data)?;
        fs::write(data.join("myid"), member.number.to_string())?;
        let mut lines = vec![
            "tickTime=500".to_owned(),
            "initLimit=20".into(),
            "syncLimit=8".into(),
            "maxSessionTimeout=60000".into(),
            format!("dataDir={}", data.display()),
            format!("clientPort={}", member.port),
            "clientPortAddress=127.0.0.1".into(),
            "admin.enableServer=false".into(),
            "4lw.commands.whitelist=*".into(),
            "maxClientCnxns=0".into(),
            "forceSync=no".into(),
            "preAllocSize=1024".into(),
        ];
        for (at, (peer, election)) in member.peers.iter().enumerate() {
            lines.push(format!("server.{}=127.0.0.1:{peer}:{election}", at + 1));
        }
        if let (Some(port), Some(certificates)) = (member.tls_port, &self.certificates) {
            let store = directory.join("server.pem");
            let key = fs::read_to_string(certificates.server_key())?;
            fs::write(&store, key + &fs::read_to_string(certificates.server())?)?;
            let trust = directory.join("authority.pem");
            fs::copy(certificates.authority(), &trust)?;
            lines.extend([
                format!("secureClientPort={port}"),
                "secureClientPortAddress=127.0.0.1".into(),
                "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory".into(),
                format!("ssl.keyStore.location={}", store.display()),
                format!("ssl.trustStore.location={}", trust.display()),
                "ssl.clientAuth=need".into(),
            ]);
        }
        lines.extend(self.lines.iter().cloned());
        lines.push(String::new());
        let config = directory.join("zoo.cfg");
        fs::write(&config, lines.join("\n"))?;
        Ok(config)
    }
}
