//! A Redis (or Valkey) server of the test's own, with all that can happen to one.

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::settings::{PASSWORD, USER};
use super::{Admin, PATIENCE, Process, Settings, Value, find, ports};

/// A server on loopback, and on a unix socket, in a temporary directory; killed when dropped.
#[derive(Debug)]
pub struct RedisServer {
    settings: Settings,
    program: PathBuf,
    port: u16,
    tls_port: Option<u16>,
    /// `None` while it is killed. Before the directory, so that it goes first.
    process: Option<Process>,
    directory: TempDir,
}

/// Somebody else may take a free port before the server does.
const TRIES: usize = 20;

impl RedisServer {
    /// The servers that are installed: Redis, then Valkey; or the one that
    /// `LEASEHOLD_REDIS_SERVER` names by its path, so that anybody can test on another.
    pub fn programs() -> Vec<PathBuf> {
        if let Some(program) = std::env::var_os("LEASEHOLD_REDIS_SERVER") {
            return vec![program.into()];
        }
        ["redis-server", "valkey-server"].into_iter().filter_map(find).collect()
    }

    /// Whether one can be started here. If not, tests are reported as ignored, or fail when
    /// [`required`](super::required) says so of `redis`.
    pub fn is_present() -> bool {
        !Self::programs().is_empty() && find("setpriv").is_some()
    }

    /// Starts one, and returns when it answers and is known to be the process that was started.
    ///
    /// # Errors
    /// When there is no program, or with the end of the server's log.
    pub fn start(settings: Settings) -> io::Result<Self> {
        let installed = || Self::programs().into_iter().next();
        let program = settings.program.clone().or_else(installed).ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, "redis-server is not installed")
        })?;
        let directory = tempfile::Builder::new().prefix("leasehold-redis-").tempdir()?;
        let mut server =
            Self { settings, program, port: 0, tls_port: None, process: None, directory };
        let mut outcome = Ok(());
        for _ in 0..TRIES {
            server.port = server.settings.port.unwrap_or_else(ports::free);
            server.tls_port = server.settings.certificates.is_some().then(ports::free);
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

    /// `redis+unix://...`
    pub fn unix_url(&self) -> String {
        format!("redis+unix://{}", self.socket().display())
    }

    /// Its unix socket.
    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("redis.sock")
    }

    /// Where its data is.
    pub fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// Its log, over all restarts.
    pub fn log(&self) -> String {
        fs::read(self.log_file())
            .map(|log| String::from_utf8_lossy(&log).into_owned())
            .unwrap_or_default()
    }

    /// Its process id; 0 while it is killed.
    pub fn pid(&self) -> u32 {
        self.process.as_ref().map_or(0, Process::pid)
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

    /// Runs one command in a connection of its own.
    ///
    /// # Errors
    /// As [`connect`](Self::connect) and [`Admin::call`].
    pub fn admin<A: AsRef<[u8]>>(&self, args: &[A]) -> io::Result<Value> {
        self.connect()?.call(args)
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

    /// Stops it (SIGSTOP); returns when it is stopped.
    ///
    /// # Errors
    /// When it is not running.
    pub fn stop(&self) -> io::Result<()> {
        self.process.as_ref().ok_or_else(not_running)?.stop()
    }

    /// Lets it go on (SIGCONT); returns when it does.
    ///
    /// # Errors
    /// When it is not running.
    pub fn go_on(&self) -> io::Result<()> {
        self.process.as_ref().ok_or_else(not_running)?.go_on()
    }

    /// Kills it (SIGKILL); returns when it is gone. Its data stays.
    pub fn kill(&mut self) {
        self.process = None;
        // It would refuse connections anyway; without the file nobody takes it for alive.
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

    fn log_file(&self) -> PathBuf {
        self.directory.path().join("server.log")
    }

    /// Starts the process with further lines in its configuration; does not wait for it.
    pub(super) fn launch(&mut self, lines: &str) -> io::Result<()> {
        let config = self.directory.path().join("redis.conf");
        fs::create_dir_all(self.data())?;
        let text = self.settings.text(self.port, self.tls_port, &self.socket(), &self.data());
        fs::write(&config, text + lines)?;
        let log = File::options().create(true).append(true).open(self.log_file())?;
        let errors = log.try_clone()?;
        let environment = &self.settings.environment;
        let mode = self.settings.sentinel.then_some("--sentinel");
        let process = Process::start(&self.program, |command| {
            command
                .arg(&config)
                .args(mode)
                .envs(environment.iter().map(|(name, value)| (name, value)));
            command.stdin(Stdio::null()).stdout(log).stderr(errors);
        })?;
        self.process = Some(process);
        Ok(())
    }

    /// Waits until the server answers, and `ready` agrees; checks that it is our child.
    pub(super) fn when_up(
        &mut self,
        mut ready: impl FnMut(&mut Admin) -> io::Result<bool>,
    ) -> io::Result<()> {
        let start = Instant::now();
        let mut admin = None;
        loop {
            let process = self.process.as_mut().ok_or_else(not_running)?;
            let pid = process.pid();
            if process.ended().is_some() {
                self.process = None;
                return Err(self.failed("it has ended"));
            }
            if admin.is_none() {
                admin = self.connect().ok();
            }
            if let Some(admin) = &mut admin {
                admin.must_be(pid)?;
                if ready(admin)? {
                    break;
                }
            }
            if start.elapsed() > PATIENCE {
                self.process = None;
                return Err(self.failed("it does not answer"));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        // The socket is ours for sure. Of the port only this connection knows: it is asked as
        // the same user.
        let mut admin = Admin::tcp(self.address())?;
        admin.call(&["AUTH", USER, PASSWORD])?;
        admin.must_be(self.pid())
    }

    fn failed(&self, what: &str) -> io::Error {
        let log = self.log();
        let tail: Vec<&str> = log.lines().rev().take(12).collect();
        let tail: Vec<&str> = tail.into_iter().rev().collect();
        let taken = tail.iter().any(|line| line.contains("Address already in use"));
        let kind = if taken { io::ErrorKind::AddrInUse } else { io::ErrorKind::Other };
        let program = self.program.file_name().map(Path::new).unwrap_or(&self.program);
        let message =
            format!("{} on {}: {what}\n{}", program.display(), self.port, tail.join("\n"));
        io::Error::new(kind, message)
    }
}

fn not_running() -> io::Error {
    io::Error::other("the server is not running")
}
