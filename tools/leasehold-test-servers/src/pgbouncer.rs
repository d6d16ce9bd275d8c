//! A pgbouncer of the test's own, in transaction mode in front of a PostgreSQL.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;

use crate::daemon::{Daemon, is_a_daemon, on_free_port, when_up};
use crate::programs::needed;
use crate::{PATIENCE, Postgres, find};

/// A pooler on loopback: each transaction gets whatever server connection is free, so that
/// prepared statements, `LISTEN`, `SET` and advisory locks do not stay. Killed when dropped.
///
/// It knows the user `leasehold`, as [`Postgres`] does.
#[derive(Debug)]
pub struct PgBouncer {
    daemon: Daemon,
    port: u16,
    server: String,
    pool: u32,
    /// How many clients it accepts.
    clients: u32,
}

/// More than any test has.
const CLIENTS: u32 = 1000;

impl PgBouncer {
    /// Whether one can be started here. If not, tests are reported as ignored, or fail when
    /// [`required`](crate::required) says so of `pgbouncer`.
    pub fn is_present() -> bool {
        find("pgbouncer").is_some() && Postgres::is_present()
    }

    /// Starts one in front of `server`, to which it makes `pool` connections at most.
    ///
    /// # Errors
    /// When the program is missing, or with the end of its log.
    pub fn start(server: &Postgres, pool: u32) -> io::Result<Self> {
        let program = needed("pgbouncer", "pgbouncer")?;
        // The same user as the server's: it enters the directory of its socket.
        let daemon = Daemon::new("pgbouncer", program, Some("postgres"))?;
        let socket = server.socket_directory().display();
        let server = format!("host={socket} port={}", server.port());
        let mut pooler = Self { daemon, port: 0, server, pool, clients: CLIENTS };
        on_free_port(&mut pooler, |pooler, port| {
            pooler.port = port;
            pooler.start_again()
        })?;
        Ok(pooler)
    }

    /// Its TCP port; stays the same over restarts.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its TCP address.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// `postgres://...` through it, as the user `leasehold`.
    pub fn url(&self) -> String {
        format!("postgres://leasehold:leasehold@127.0.0.1:{}/leasehold", self.port)
    }

    /// Kills it and starts it on the same port: the connections of its clients break, and the server
    /// rolls their transactions back.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn restart(&mut self) -> io::Result<()> {
        self.kill();
        self.start_again()
    }

    /// Starts it after [`kill`](Daemon::kill), on the same port.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_again(&mut self) -> io::Result<()> {
        let config = self.write()?;
        self.daemon.launch(|command| {
            command.arg(config);
        })?;
        // It has no other way to listen, and ends when it cannot have the port.
        when_up(self, PATIENCE, |pooler| {
            let up = pooler.log().contains("process up");
            Ok(up && TcpStream::connect(pooler.address()).is_ok())
        })
    }

    /// Accepts so many clients from now on, 1,000 for `None`; those that are connected stay.
    ///
    /// # Errors
    /// When it is not running.
    pub fn limit_clients(&mut self, clients: Option<u32>) -> io::Result<()> {
        self.clients = clients.unwrap_or(CLIENTS);
        self.write()?;
        self.daemon.signal(Signal::SIGHUP)
    }

    /// Writes its files; the path of the first.
    fn write(&self) -> io::Result<PathBuf> {
        let (config, users) = (self.daemon.path("pgbouncer.ini"), self.daemon.path("users.txt"));
        self.daemon.write("users.txt", b"\"leasehold\" \"leasehold\"\n")?;
        self.daemon.write("pgbouncer.ini", self.text(&users).as_bytes())?;
        Ok(config)
    }

    fn text(&self, users: &Path) -> String {
        let lines = [
            "[databases]".to_owned(),
            format!("* = {}", self.server),
            "[pgbouncer]".into(),
            "listen_addr = 127.0.0.1".into(),
            format!("listen_port = {}", self.port),
            "unix_socket_dir =".into(),
            "pool_mode = transaction".into(),
            format!("default_pool_size = {}", self.pool),
            format!("max_client_conn = {}", self.clients),
            // By default clients are refused for 15 s after a failed connection to the server.
            "server_login_retry = 1".into(),
            "auth_type = scram-sha-256".into(),
            format!("auth_file = {}", users.display()),
            // Sent by clients at the start, and the same for all of them.
            "ignore_startup_parameters = extra_float_digits".into(),
        ];
        lines.join("\n") + "\n"
    }
}

is_a_daemon!(PgBouncer);
