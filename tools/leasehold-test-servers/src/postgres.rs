//! A PostgreSQL server of the test's own.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;

use crate::daemon::{Daemon, is_a_daemon, on_free_port, when_up};
use crate::programs::missing;
use crate::{Certificates, ClockShim, PATIENCE, find};

/// The user of the kit itself: over the unix socket alone, which no other user can reach.
const KIT: &str = "kit";
/// The user, the password and the database of the tests.
const NAME: &str = "leasehold";

/// The accepted connections: the kit and pgbouncer over the socket, tests over TCP.
const HBA: &str = "local all all trust\n";

/// A server on loopback and on a unix socket, in a temporary directory; killed when dropped.
///
/// It has a database `leasehold` that belongs to the user `leasehold`, whose password is the same.
#[derive(Debug)]
pub struct Postgres {
    daemon: Daemon,
    psql: Psql,
    port: u16,
    certificates: Option<Certificates>,
    options: Vec<String>,
    environment: Vec<(String, String)>,
}

impl Postgres {
    /// Whether one can be started here. If not, tests are reported as ignored, or fail when
    /// [`required`](crate::required) says so of `postgres`.
    pub fn is_present() -> bool {
        ["initdb", "postgres", "psql"].into_iter().all(|name| program(name).is_some())
            && find("setpriv").is_some()
    }

    /// Starts one with further settings such as `max_connections=20`, and returns when it answers
    /// and is known to be the process that was started. Nothing is synced to the disk, which a
    /// killed process does not need; `fsync=on` is for those who measure.
    ///
    /// # Errors
    /// When a program is missing, or with the end of the server's log.
    pub fn start(options: &[&str]) -> io::Result<Self> {
        Self::make(options, None, Vec::new())
    }

    /// The same with a clock that the test moves.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_with_clock(options: &[&str], clock: &ClockShim) -> io::Result<Self> {
        Self::start_in(options, clock.env().into())
    }

    /// The same with further variables in its environment.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_in(options: &[&str], environment: Vec<(String, String)>) -> io::Result<Self> {
        Self::make(options, None, environment)
    }

    /// The same with TLS; over TCP it takes no connection without.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_tls(options: &[&str], certificates: &Certificates) -> io::Result<Self> {
        Self::make(options, Some(certificates.clone()), Vec::new())
    }

    fn make(
        options: &[&str],
        certificates: Option<Certificates>,
        environment: Vec<(String, String)>,
    ) -> io::Result<Self> {
        let daemon = Daemon::new("postgres", needed("postgres")?, Some("postgres"))?;
        daemon.run(&needed("initdb")?, |command| {
            command.args(["--no-sync", "--no-locale", "--encoding=UTF8", "--auth=trust"]);
            command.arg("--username").arg(KIT).arg("--pgdata").arg(daemon.path("data"));
        })?;
        let host = if certificates.is_some() { "hostssl" } else { "host" };
        let tcp = format!("{host} all all 127.0.0.1/32 scram-sha-256\n");
        daemon.write("data/pg_hba.conf", (HBA.to_owned() + &tcp).as_bytes())?;
        if let Some(certificates) = &certificates {
            certificates.give(&daemon)?;
        }
        let options = options.iter().map(ToString::to_string).collect();
        let psql = Psql(needed("psql")?);
        let mut server = Self { daemon, psql, port: 0, certificates, options, environment };
        on_free_port(&mut server, |server, port| {
            server.port = port;
            server.start_again()
        })?;
        for statement in [
            format!("CREATE ROLE {NAME} LOGIN PASSWORD '{NAME}'"),
            format!("CREATE DATABASE {NAME} OWNER {NAME}"),
        ] {
            server.psql.run(&server.daemon, server.port, "postgres", &statement)?;
        }
        Ok(server)
    }

    /// Its TCP port; stays the same over restarts.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its TCP address.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// The directory of its unix socket, which root and the server's user alone may enter.
    pub fn socket_directory(&self) -> &Path {
        self.daemon.directory()
    }

    /// `postgres://...` as the user `leasehold`; with TLS it checks the server's certificate.
    pub fn url(&self) -> String {
        self.url_as(NAME, NAME)
    }

    /// `postgres://...` as another user. Neither part may need escaping in a URL.
    pub fn url_as(&self, user: &str, password: &str) -> String {
        let url = format!("postgres://{user}:{password}@127.0.0.1:{}/{NAME}", self.port);
        match &self.certificates {
            Some(certificates) => {
                let authority = certificates.authority();
                format!("{url}?sslmode=verify-full&sslrootcert={}", authority.display())
            }
            None => url,
        }
    }

    /// Runs a statement as a superuser in the database `leasehold`; the rows, one a line, columns
    /// separated by `|`. Several statements are one transaction.
    ///
    /// # Errors
    /// What the server says, or that it cannot be reached.
    pub fn sql(&self, statement: &str) -> io::Result<String> {
        self.psql.run(&self.daemon, self.port, NAME, statement)
    }

    /// Has it read its certificate and key again: new connections have them.
    ///
    /// # Errors
    /// As [`sql`](Self::sql).
    pub fn reload_certificates(&self) -> io::Result<()> {
        if let Some(certificates) = &self.certificates {
            certificates.give(&self.daemon)?;
        }
        self.sql("SELECT pg_reload_conf()").map(drop)
    }

    /// Kills it and starts it on the same port and data.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn restart(&mut self) -> io::Result<()> {
        self.kill();
        self.start_again()
    }

    /// Starts it after [`kill`](Daemon::kill), on the same port and data.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_again(&mut self) -> io::Result<()> {
        let data = self.daemon.path("data");
        let mut settings = vec![
            format!("port={}", self.port),
            format!("unix_socket_directories={}", self.daemon.directory().display()),
            "listen_addresses=127.0.0.1".into(),
            "fsync=off".into(),
            // Else a killed server leaves its segments in /dev/shm.
            "dynamic_shared_memory_type=mmap".into(),
        ];
        if self.certificates.is_some() {
            settings.push("ssl=on".into());
            for (name, file) in [
                ("ssl_ca_file", "authority.crt"),
                ("ssl_cert_file", "server.crt"),
                ("ssl_key_file", "server.key"),
            ] {
                settings.push(format!("{name}={}", self.daemon.path(file).display()));
            }
        }
        settings.extend(self.options.iter().cloned());
        let environment = self.environment.clone();
        self.daemon.launch(|command| {
            command.arg("-D").arg(&data).envs(environment);
            for setting in settings {
                command.arg("-c").arg(setting);
            }
        })?;
        // No other server listens in that directory or on the port: this one ends if it cannot listen.
        when_up(self, PATIENCE, |server| {
            let asks = "SHOW data_directory";
            let said = server.psql.run(&server.daemon, server.port, "postgres", asks);
            Ok(said.is_ok_and(|said| Path::new(&said) == data))
        })
    }
}

is_a_daemon!(Postgres);

impl Drop for Postgres {
    fn drop(&mut self) {
        // Killed, it would leave a segment of System V shared memory behind.
        self.daemon.end(Signal::SIGQUIT);
    }
}

/// The program that the kit talks to a server by.
#[derive(Debug)]
struct Psql(PathBuf);

impl Psql {
    fn run(
        &self,
        daemon: &Daemon,
        port: u16,
        database: &str,
        statement: &str,
    ) -> io::Result<String> {
        let said = daemon.run(&self.0, |command| {
            command.args([
                "--no-psqlrc",
                "--quiet",
                "--no-align",
                "--tuples-only",
                "--no-password",
            ]);
            command.args(["--set=ON_ERROR_STOP=1", "--username", KIT, "--dbname", database]);
            command.arg("--host").arg(daemon.directory()).args(["--port", &port.to_string()]);
            command.args(["--command", statement]).env("PGCONNECT_TIMEOUT", "10");
        })?;
        Ok(said.trim_end().to_owned())
    }
}

/// A program of the newest version that Debian has put apart from the others, or of the `PATH`.
fn program(name: &str) -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let number = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
    let newest = versions.map(|entry| entry.path()).max_by_key(number);
    let file = newest.map(|version| version.join("bin").join(name));
    file.filter(|file| file.is_file()).or_else(|| find(name))
}

fn needed(name: &str) -> io::Result<PathBuf> {
    program(name).ok_or_else(|| missing(name, "postgresql"))
}
