//! A Redis (or Valkey) server of the test's own, with all that can happen to one.

mod settings;

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use crate::daemon::{Daemon, is_a_daemon, when_up};
use crate::programs::missing;
use crate::proxy::Target;
use crate::{Admin, PATIENCE, Proxy, Value, find, links};

pub use settings::RedisSettings;
pub(crate) use settings::{PASSWORD, USER};

/// A server on loopback, and on a unix socket, in a temporary directory; killed when dropped.
#[derive(Debug)]
pub struct RedisServer {
    settings: RedisSettings,
    port: u16,
    tls_port: Option<u16>,
    daemon: Daemon,
}

/// So much larger is the port of a node's bus than that for clients.
const ABOVE: u16 = 10_000;
/// Tries to start: another process may take a free port before the server does.
const TRIES: usize = 20;

impl From<&RedisServer> for Target {
    fn from(server: &RedisServer) -> Self {
        Self::Tcp(server.address())
    }
}

impl RedisServer {
    /// The servers that are installed: Redis, then Valkey; or the one that
    /// `LEASEHOLD_REDIS_SERVER` names by its path, so that tests can run on another server.
    pub fn programs() -> Vec<PathBuf> {
        if let Some(program) = std::env::var_os("LEASEHOLD_REDIS_SERVER") {
            return vec![program.into()];
        }
        ["redis-server", "valkey-server"].into_iter().filter_map(find).collect()
    }

    /// Whether one can be started here. If not, tests are reported as ignored, or fail when
    /// [`required`](crate::required) says so of `redis`.
    pub fn is_present() -> bool {
        !Self::programs().is_empty() && find("setpriv").is_some()
    }

    /// Starts one, and returns when it answers and is known to be the process that was started.
    ///
    /// # Errors
    /// When there is no program, or with the end of the server's log.
    pub fn start(settings: RedisSettings) -> io::Result<Self> {
        let installed = || Self::programs().into_iter().next();
        let program = settings
            .program
            .clone()
            .or_else(installed)
            .ok_or_else(|| missing("redis-server", "redis-server"))?;
        let daemon = Daemon::new("redis", program, None)?;
        let mut server = Self { settings, port: 0, tls_port: None, daemon };
        let mut outcome = Ok(());
        for _ in 0..TRIES {
            let wanted = server.settings.port;
            server.port = wanted.map_or_else(|| server.daemon.ports.another(), Ok)?;
            if server.settings.certificates.is_some() {
                server.tls_port = Some(server.daemon.ports.another()?);
            }
            outcome = server.start_again();
            let taken = outcome.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::AddrInUse);
            if !taken || server.settings.port.is_some() {
                break;
            }
        }
        outcome.map(|()| server)
    }

    /// Its TCP port; stays the same over restarts.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its TCP address.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// The port by which other servers reach it: that of a proxy between them, or that for TLS, where they use it.
    pub fn port_between(&self) -> u16 {
        let tls_port = self.tls_port.filter(|_| self.settings.tls_between);
        self.settings.announced.or(tls_port).unwrap_or(self.port)
    }

    /// The port by which other nodes of a cluster reach its bus.
    pub(super) fn bus_between(&self) -> u16 {
        self.settings.announced_bus.unwrap_or(self.port_between() + ABOVE)
    }

    /// Starts one that others reach through a proxy; its number in the ensemble.
    pub(super) fn start_linked(
        number: usize,
        settings: RedisSettings,
    ) -> io::Result<(Self, Proxy)> {
        let proxy = links::proxy()?;
        let settings = settings.announced(proxy.address().port(), links::source(number));
        let server = Self::start(settings)?;
        proxy.point_to(server.address());
        Ok((server, proxy))
    }

    /// Starts a node of a cluster that others reach through two proxies, the second one before its bus.
    pub(super) fn start_in_cluster(
        number: usize,
        settings: RedisSettings,
    ) -> io::Result<(Self, [Proxy; 2])> {
        let proxies = [links::proxy()?, links::proxy()?];
        let [port, bus] = [&proxies[0], &proxies[1]].map(|proxy| proxy.address().port());
        let settings = settings.announced_on_bus(port, bus, links::source(number));
        let server = Self::start(settings)?;
        proxies[0].point_to(server.address());
        proxies[1].point_to(SocketAddr::from((Ipv4Addr::LOCALHOST, server.port + ABOVE)));
        Ok((server, proxies))
    }

    /// `redis://...`, with the default user's password if there is one.
    pub fn url(&self) -> String {
        match &self.settings.password {
            Some(password) => self.url_as("", password),
            None => format!("redis://127.0.0.1:{}", self.port),
        }
    }

    /// `redis://...` for a user. Neither part may need escaping in a URL.
    pub fn url_as(&self, user: &str, password: &str) -> String {
        format!("redis://{user}:{password}@127.0.0.1:{}", self.port)
    }

    /// `rediss://...`; `None` without TLS.
    pub fn tls_url(&self) -> Option<String> {
        Some(format!("rediss://127.0.0.1:{}", self.tls_port?))
    }

    /// The address for TLS; `None` without.
    pub fn tls_address(&self) -> Option<SocketAddr> {
        Some((Ipv4Addr::LOCALHOST, self.tls_port?).into())
    }

    /// Has it read its certificate and key again: new connections have them.
    ///
    /// # Errors
    /// As [`admin`](Self::admin).
    pub fn reload_certificates(&self) -> io::Result<()> {
        let Some(certificates) = &self.settings.certificates else { return Ok(()) };
        let [file, key] = [certificates.server(), certificates.server_key()];
        let [file, key] = [file.to_string_lossy(), key.to_string_lossy()];
        let set = ["CONFIG", "SET", "tls-cert-file", &file, "tls-key-file", &key];
        self.admin(&set).map(drop)
    }

    /// `redis+unix://...`
    pub fn unix_url(&self) -> String {
        format!("redis+unix://{}", self.socket().display())
    }

    /// Its unix socket.
    pub fn socket(&self) -> PathBuf {
        self.path("redis.sock")
    }

    /// A new connection over the unix socket, as a user of the kit that may do everything.
    ///
    /// # Errors
    /// What the connection says: refused while it is killed, `WouldBlock` while it is stopped.
    pub fn connect(&self) -> io::Result<Admin> {
        let mut admin = Admin::unix(&self.socket())?;
        admin.call(&["AUTH", USER, PASSWORD])?;
        Ok(admin)
    }

    /// Runs one command in a connection of its own; once more if the connection ends, and so perhaps twice.
    ///
    /// # Errors
    /// As [`with_admin`](Self::with_admin) and [`Admin::call`].
    pub fn admin<A: AsRef<[u8]>>(&self, args: &[A]) -> io::Result<Value> {
        self.with_admin(|admin| admin.call(args))
    }

    /// Runs commands in a connection of its own. Sentinels end all connections of a server that they
    /// reconfigure: so it is done from the start again if the connection ends, a few times.
    ///
    /// # Errors
    /// As [`connect`](Self::connect) and the commands.
    pub fn with_admin<T>(&self, mut run: impl FnMut(&mut Admin) -> io::Result<T>) -> io::Result<T> {
        const TRIES: usize = 3;
        let mut tries = 0;
        loop {
            tries += 1;
            match self.connect().and_then(|mut admin| run(&mut admin)) {
                Err(error) if tries < TRIES && is_end(&error) => {}
                done => return done,
            }
        }
    }

    /// Has a node of a cluster take up another one.
    pub(super) fn meet(&self, other: &Self) -> io::Result<()> {
        let [port, bus] = [other.port_between(), other.bus_between()].map(|port| port.to_string());
        self.admin(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]).map(drop)
    }

    /// A field of its `INFO`.
    ///
    /// # Errors
    /// As [`admin`](Self::admin); `NotFound` when there is no such field.
    pub fn info(&self, field: &str) -> io::Result<String> {
        let info = self.admin(&["INFO", "everything"])?.text();
        let mut fields = info.lines().filter_map(|line| line.split_once(':'));
        let found = fields.find(|(name, _)| *name == field).map(|(_, value)| value.to_owned());
        found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("INFO has no {field}")))
    }

    /// Kills it (SIGKILL); returns when it is gone. Its data stays.
    pub fn kill(&mut self) {
        self.daemon.kill();
        // It would refuse connections anyway; without the file no client takes it for alive.
        fs::remove_file(self.socket()).ok();
    }

    /// Kills it and starts it on the same port with the data that is on the disk.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn restart(&mut self) -> io::Result<()> {
        self.kill();
        self.start_again()
    }

    /// Kills it and starts it on the same port without data; a node of a cluster forgets who it
    /// was.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn restart_empty(&mut self) -> io::Result<()> {
        self.kill();
        fs::remove_dir_all(self.data())?;
        self.start_again()
    }

    /// Kills it and starts it on the same port without its keys; a node of a cluster still knows the others.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn restart_without_keys(&mut self) -> io::Result<()> {
        self.kill();
        self.keep_nodes(|daemon| fs::remove_dir_all(daemon.data()))?;
        self.start_again()
    }

    /// Replaces the keys of a killed server with those of a copy that [`save_data`](Daemon::save_data) made; a node of a
    /// cluster still knows the others.
    ///
    /// # Errors
    /// As [`restore_data`](Daemon::restore_data).
    pub fn restore_keys(&self, copy: &Path) -> io::Result<()> {
        self.keep_nodes(|daemon| daemon.restore_data(copy))
    }

    /// Changes the data, but for the file of a cluster's nodes.
    fn keep_nodes(&self, change: impl FnOnce(&Daemon) -> io::Result<()>) -> io::Result<()> {
        let file = self.data().join("nodes.conf");
        let nodes = fs::read(&file).ok();
        change(&self.daemon)?;
        if let Some(nodes) = nodes {
            fs::create_dir_all(self.data())?;
            fs::write(file, nodes)?;
        }
        Ok(())
    }

    /// Kills it, and starts another one with the same settings in its place: without data, and on another
    /// port.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn replace(&mut self) -> io::Result<()> {
        self.kill();
        *self = Self::start(self.settings.clone())?;
        Ok(())
    }

    /// Starts it after [`kill`](Self::kill); returns when it has loaded its data.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_again(&mut self) -> io::Result<()> {
        self.launch("")?;
        let loaded = |admin: &mut Admin| {
            let info = admin.call(&["INFO", "persistence"])?.text();
            // A sentinel says nothing of it.
            Ok(!info.lines().any(|line| line.trim() == "loading:1"))
        };
        self.when_up(loaded)
    }

    /// Starts the process with further lines in its configuration; does not wait for it.
    pub(super) fn launch(&mut self, lines: &str) -> io::Result<()> {
        let config = self.path("redis.conf");
        fs::create_dir_all(self.data())?;
        let text = self.settings.text(self.port, self.tls_port, &self.socket(), &self.data());
        fs::write(&config, text + lines)?;
        let environment = &self.settings.environment;
        let mode = self.settings.sentinel.then_some("--sentinel");
        self.daemon.launch(|command| {
            command.arg(&config).args(mode);
            command.envs(environment.iter().map(|(name, value)| (name, value)));
        })
    }

    /// Waits until the server answers, and `ready` agrees; checks that it is our child.
    pub(super) fn when_up(
        &mut self,
        mut ready: impl FnMut(&mut Admin) -> io::Result<bool>,
    ) -> io::Result<()> {
        let mut admin = None;
        when_up(self, PATIENCE, |server| {
            if admin.is_none() {
                admin = server.connect().ok();
            }
            let Some(admin) = &mut admin else { return Ok(false) };
            admin.must_be(server.pid())?;
            ready(admin)
        })?;
        // The socket is ours for sure. Of the port only this connection knows: it is asked as
        // the same user.
        let mut admin = Admin::tcp(self.address())?;
        admin.call(&["AUTH", USER, PASSWORD])?;
        admin.must_be(self.pid())
    }
}

is_a_daemon!(RedisServer);

/// Whether the server has closed the connection.
fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}
