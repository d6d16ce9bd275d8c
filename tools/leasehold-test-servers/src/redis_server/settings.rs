//! How a Redis server is to be: a builder, and the configuration file made of it.

use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use super::RedisServer;
use crate::Certificates;

/// The user of the kit itself, so that it has access whatever a test does to the other users.
pub(crate) const USER: &str = "leasehold-kit";
pub(crate) const PASSWORD: &str = "leasehold-kit";

/// How a server is to be. By default: no persistence, no password, no TLS, and any free port.
#[derive(Clone, Debug, Default)]
pub struct RedisSettings {
    pub(crate) program: Option<PathBuf>,
    pub(crate) port: Option<u16>,
    pub(crate) certificates: Option<Certificates>,
    pub(crate) password: Option<String>,
    pub(crate) environment: Vec<(OsString, OsString)>,
    pub(crate) sentinel: bool,
    pub(crate) patient: bool,
    tls_client_optional: bool,
    pub(crate) tls_between: bool,
    pub(crate) announced: Option<u16>,
    pub(crate) announced_bus: Option<u16>,
    lines: Vec<String>,
}

impl RedisSettings {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// The program; by default the first of [`RedisServer::programs`].
    #[must_use]
    pub fn program(mut self, program: impl Into<PathBuf>) -> Self {
        self.program = Some(program.into());
        self
    }

    /// The port; a start then fails when it is taken, instead of trying another.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// `appendonly yes` with `appendfsync always`: what was answered is on the disk.
    #[must_use]
    pub fn append_only(self) -> Self {
        self.line("appendonly yes").line("appendfsync always")
    }

    /// The most memory in bytes, and what happens then: a policy such as `noeviction`.
    #[must_use]
    pub fn max_memory(self, bytes: u64, policy: &str) -> Self {
        self.line(format!("maxmemory {bytes}")).line(format!("maxmemory-policy {policy}"))
    }

    /// The password of the default user (`requirepass`).
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self.line(format!("requirepass {}", quoted(password)))
    }

    /// A user and its rules, such as `on >password ~leasehold:* +@all`.
    #[must_use]
    pub fn user(self, name: &str, rules: &str) -> Self {
        self.line(format!("user {name} {rules}"))
    }

    /// TLS on a second port; clients must show a certificate of the same authority.
    #[must_use]
    pub fn tls(mut self, certificates: &Certificates) -> Self {
        self.certificates = Some(certificates.clone());
        self
    }

    /// With [`tls`](Self::tls): clients without a certificate are accepted too.
    #[must_use]
    pub fn tls_client_optional(mut self) -> Self {
        self.tls_client_optional = true;
        self
    }

    /// With [`tls`](Self::tls): between servers, replicas and sentinels too, and on the bus of a
    /// cluster.
    #[must_use]
    pub fn tls_between(mut self) -> Self {
        self.tls_between = true;
        self.line("tls-replication yes").line("tls-cluster yes")
    }

    /// A replica of `master`.
    #[must_use]
    pub fn replica_of(self, master: &RedisServer) -> Self {
        self.line(format!("replicaof 127.0.0.1 {}", master.port_between()))
    }

    /// A node of a cluster, still alone; [`RedisCluster`](crate::RedisCluster) makes a whole one. Its bus listens 10000 above its port.
    #[must_use]
    pub fn cluster(self) -> Self {
        self.line("cluster-enabled yes")
    }

    /// Other servers reach it by this port, and it connects to them from this address.
    pub(crate) fn announced(mut self, port: u16, from: Ipv4Addr) -> Self {
        self.announced = Some(port);
        let who = if self.sentinel { "sentinel " } else { "replica-" };
        self.line(format!("{who}announce-ip 127.0.0.1"))
            .line(format!("{who}announce-port {port}"))
            .line(format!("bind-source-addr {from}"))
    }

    /// The same for a node of a cluster, whose bus has a port of its own. Each node has the address of another one from that
    /// node alone: without it, they would take the address that a connection comes from, where no proxy listens.
    pub(crate) fn announced_on_bus(mut self, port: u16, bus: u16, from: Ipv4Addr) -> Self {
        (self.announced, self.announced_bus) = (Some(port), Some(bus));
        self.line("cluster-announce-ip 127.0.0.1")
            .line(format!("cluster-announce-port {port}"))
            .line(format!("cluster-announce-bus-port {bus}"))
            .line(format!("bind-source-addr {from}"))
    }

    /// Sentinels, and nodes of a cluster, take another for down after 15 s of silence, not after one or
    /// two: for tests in which none goes, on machines that may pause for a moment.
    #[must_use]
    pub fn patient(mut self) -> Self {
        self.patient = true;
        self
    }

    /// A sentinel that watches `master` under `name`. It takes it for down after a second, and
    /// `quorum` of them must. A server that is restarted has the configuration that it was started
    /// with, whatever a sentinel has made of it.
    #[must_use]
    pub fn sentinel(mut self, name: &str, master: &RedisServer, quorum: u32) -> Self {
        self.sentinel = true;
        let down_after = if self.patient { "15000" } else { "1000" };
        let line = |key: &str, value: &str| format!("sentinel {key} {name} {value}");
        self.line(line("monitor", &format!("127.0.0.1 {} {quorum}", master.port_between())))
            .line(line("down-after-milliseconds", down_after))
            .line(line("failover-timeout", "5000"))
            .line(line("auth-user", USER))
            .line(line("auth-pass", PASSWORD))
            .line(format!("sentinel sentinel-user {USER}"))
            .line(format!("sentinel sentinel-pass {PASSWORD}"))
    }

    /// A further line of the configuration file, as the file wants it.
    #[must_use]
    pub fn line(mut self, line: impl Into<String>) -> Self {
        self.lines.push(line.into());
        self
    }

    /// A variable in the server's environment.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// The configuration file of a server with these ports, whose data is in `data`.
    pub(crate) fn text(
        &self,
        port: u16,
        tls_port: Option<u16>,
        socket: &Path,
        data: &Path,
    ) -> String {
        let mut lines = vec![
            "bind 127.0.0.1".to_owned(),
            format!("port {port}"),
            format!("unixsocket {}", quoted(&socket.to_string_lossy())),
            format!("dir {}", quoted(&data.to_string_lossy())),
            "save \"\"".to_owned(),
            "enable-debug-command yes".to_owned(),
            format!("user {USER} on >{PASSWORD} ~* &* +@all"),
            format!("masteruser {USER}"),
            format!("masterauth {PASSWORD}"),
        ];
        if let (Some(tls_port), Some(certificates)) = (tls_port, &self.certificates) {
            let file =
                |name: &str, path: &Path| format!("{name} {}", quoted(&path.to_string_lossy()));
            let clients = if self.tls_client_optional { "optional" } else { "yes" };
            lines.push(format!("tls-port {tls_port}"));
            lines.push(format!("tls-auth-clients {clients}"));
            lines.push(file("tls-ca-cert-file", &certificates.authority()));
            lines.push(file("tls-cert-file", &certificates.server()));
            lines.push(file("tls-key-file", &certificates.server_key()));
            lines.push(file("tls-client-cert-file", &certificates.client()));
            lines.push(file("tls-client-key-file", &certificates.client_key()));
        }
        lines.extend(self.lines.iter().cloned());
        lines.push(String::new());
        lines.join("\n")
    }
}

/// In double quotes, as the configuration file reads it.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
