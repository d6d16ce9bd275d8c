//! The life of a server: its directory, log, start, stop and kill, with all processes that it starts.

use std::fs::{self, File};
use std::io;
use std::ops::DerefMut;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::ports::Ports;
use crate::programs::needed;
use crate::user::{self, User};
use crate::{Process, wait};

/// A server in the foreground, in a temporary directory that is its own; killed when dropped,
/// with all processes that it started. What the kit's servers have in common.
#[derive(Debug)]
pub struct Daemon {
    program: PathBuf,
    user: Option<User>,
    /// `None` while it is killed.
    process: Option<Process>,
    directory: TempDir,
    /// Its ports, also while it is down.
    pub(super) ports: Ports,
}

impl Daemon {
    /// Not started yet. `user` is who runs it where the test is root, for servers that refuse root.
    pub(super) fn new(name: &str, program: PathBuf, user: Option<&str>) -> io::Result<Self> {
        let directory = tempfile::Builder::new().prefix(&format!("leasehold-{name}-")).tempdir()?;
        let user = user.map(User::for_root).transpose()?.flatten();
        if let Some(user) = &user {
            user.own(directory.path())?;
        }
        Ok(Self { program, user, process: None, directory, ports: Ports::default() })
    }

    /// A file in its directory.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Returns its directory, whose random name no other server has.
    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Where its data is.
    pub fn data(&self) -> PathBuf {
        self.path("data")
    }

    /// Whether it has been killed, or has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.process.as_mut().is_none_or(|process| process.ended().is_some())
    }

    /// Writes a file that its user alone may read.
    pub(super) fn write(&self, name: &str, text: &[u8]) -> io::Result<()> {
        use std::os::unix::fs::OpenOptionsExt;
        let path = self.path(name);
        let mut file =
            File::options().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
        io::Write::write_all(&mut file, text)?;
        self.user.as_ref().map_or(Ok(()), |user| user.own(&path))
    }

    /// Copies its data to `copy`, an absolute path that is replaced. A running server is stopped
    /// meanwhile, so that the copy is what the disk had at one moment, as a snapshot of a volume is.
    ///
    /// # Errors
    /// When the server cannot be stopped, or what `cp` says.
    pub fn save_data(&self, copy: &Path) -> io::Result<()> {
        let is_running = self.process.is_some();
        if is_running {
            self.stop()?;
        }
        let copied = copy_data(&self.path("data"), copy);
        if is_running {
            self.resume()?;
        }
        copied
    }

    /// Replaces the data of a killed server with a copy that [`save_data`](Self::save_data) made.
    ///
    /// # Errors
    /// When the server is running, or what `cp` says.
    pub fn restore_data(&self, copy: &Path) -> io::Result<()> {
        if self.process.is_some() {
            return Err(io::Error::other("kill the server before its data is replaced"));
        }
        copy_data(copy, &self.path("data"))
    }

    /// Runs another program to its end, as the server's user; its output.
    pub(super) fn run(
        &self,
        program: &Path,
        prepare: impl FnOnce(&mut Command),
    ) -> io::Result<String> {
        user::run(self.user.as_ref(), program, self.directory.path(), prepare)
    }

    /// Its log, over all starts.
    pub fn log(&self) -> String {
        let log = fs::read(self.path("server.log")).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    /// Its process id; 0 while it is killed.
    pub fn pid(&self) -> u32 {
        self.process.as_ref().map_or(0, Process::pid)
    }

    /// Starts the process; does not wait for it.
    pub(super) fn launch(&mut self, prepare: impl FnOnce(&mut Command)) -> io::Result<()> {
        let log = File::options().create(true).append(true).open(self.path("server.log"))?;
        let errors = log.try_clone()?;
        let directory = self.directory.path();
        let process = Process::start_as(self.user.as_ref(), &self.program, |command| {
            prepare(command);
            // Its user may have no right in the test's own.
            command.env("TMPDIR", directory);
            command.current_dir(directory).stdin(Stdio::null()).stdout(log).stderr(errors);
        })?;
        self.process = Some(process);
        Ok(())
    }

    /// Stops it and its children (SIGSTOP); returns when all are stopped.
    ///
    /// # Errors
    /// When it is not running.
    pub fn stop(&self) -> io::Result<()> {
        self.process.as_ref().ok_or_else(not_running)?.stop()?;
        // It makes no more of them now.
        for child in children(self.pid()) {
            signal::kill(child, Signal::SIGSTOP).ok();
        }
        wait("all processes are stopped", || {
            children(self.pid()).iter().all(|child| matches!(state(*child), None | Some('T' | 'Z')))
        })
    }

    /// Sets whether each of its writes to files fails with `EFBIG`; its children and its next start are free.
    /// For programs that [`DiskShim`](crate::DiskShim) does not reach, and that ignore `SIGXFSZ`.
    ///
    /// # Errors
    /// Without `prlimit` (util-linux), or with what it says.
    pub fn refuse_writes(&self, refuse: bool) -> io::Result<()> {
        let program = needed("prlimit", "util-linux")?;
        let limit = if refuse { "--fsize=0:" } else { "--fsize=unlimited:" };
        let pid = self.pid().to_string();
        let output = Command::new(program).args(["--pid", &pid, limit]).output()?;
        if output.status.success() {
            return Ok(());
        }
        Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()))
    }

    /// Lets them go on (SIGCONT); returns when it does.
    ///
    /// # Errors
    /// When it is not running.
    pub fn resume(&self) -> io::Result<()> {
        for child in children(self.pid()) {
            signal::kill(child, Signal::SIGCONT).ok();
        }
        self.process.as_ref().ok_or_else(not_running)?.resume()
    }

    /// Kills it and its children (SIGKILL); returns when they are gone. The data stays.
    pub fn kill(&mut self) {
        let Some(mut process) = self.process.take() else { return };
        // It makes no more of them then.
        if process.ended().is_none() {
            process.stop().ok();
        }
        let children = children(process.pid());
        for child in &children {
            signal::kill(*child, Signal::SIGKILL).ok();
        }
        process.kill();
        wait("the children are gone", || {
            children.iter().all(|child| matches!(state(*child), None | Some('Z')))
        })
        .ok();
    }

    /// Sends it a signal.
    pub(super) fn signal(&self, signal: Signal) -> io::Result<()> {
        let process = self.process.as_ref().ok_or_else(not_running)?;
        Ok(signal::kill(Pid::from_raw(process.pid() as i32), signal)?)
    }

    /// Ends it by a signal that it cleans up at; kills it when it does not end by that.
    pub(super) fn end(&mut self, by: Signal) {
        self.resume().ok();
        let Some(process) = &mut self.process else { return };
        if signal::kill(Pid::from_raw(process.pid() as i32), by).is_ok() {
            wait("the server has ended", || process.ended().is_some()).ok();
        }
        self.kill();
    }

    fn failed(&self, what: &str) -> io::Error {
        let log = self.log();
        let taken = log.to_ascii_lowercase().contains("address already in use");
        let kind = if taken { io::ErrorKind::AddrInUse } else { io::ErrorKind::Other };
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(20)..].join("\n");
        io::Error::new(kind, format!("{}: {what}\n{tail}", self.program.display()))
    }
}

/// Tries to start: another process may take a free port before the server does.
const TRIES: usize = 20;

/// Starts a server on a free port, and on another as long as it says `AddrInUse`.
pub(super) fn on_free_port<S: DerefMut<Target = Daemon>>(
    server: &mut S,
    mut start: impl FnMut(&mut S, u16) -> io::Result<()>,
) -> io::Result<()> {
    let mut outcome = Ok(());
    for _ in 0..TRIES {
        let port = server.ports.another()?;
        outcome = start(server, port);
        if !outcome.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse) {
            break;
        }
    }
    outcome
}

/// Returns when `check` says that a server that was launched answers; else it is killed. An error
/// of `check` is final.
pub(super) fn when_up<S: DerefMut<Target = Daemon>>(
    server: &mut S,
    limit: Duration,
    mut check: impl FnMut(&mut S) -> io::Result<bool>,
) -> io::Result<()> {
    let start = Instant::now();
    loop {
        if server.process.as_mut().is_none_or(|process| process.ended().is_some()) {
            server.process = None;
            return Err(server.failed("it has ended"));
        }
        match check(server) {
            Ok(true) => return Ok(()),
            Ok(false) if start.elapsed() <= limit => {}
            Ok(false) => {
                server.kill();
                return Err(server.failed("it does not answer"));
            }
            Err(error) => {
                server.kill();
                return Err(error);
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Gives a server all that a [`Daemon`] has.
macro_rules! is_a_daemon {
    ($server:ty) => {
        impl std::ops::Deref for $server {
            type Target = $crate::Daemon;

            fn deref(&self) -> &Self::Target {
                &self.daemon
            }
        }

        impl std::ops::DerefMut for $server {
            fn deref_mut(&mut self) -> &mut Self::Target {
                &mut self.daemon
            }
        }
    };
}
pub(super) use is_a_daemon;

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Replaces a directory with a copy of another one; owners and modes are kept.
fn copy_data(from: &Path, to: &Path) -> io::Result<()> {
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    let output = Command::new("cp").arg("-a").arg("--").arg(from).arg(to).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(io::Error::other(format!("cannot copy {}: {}", from.display(), said.trim())))
}

fn not_running() -> io::Error {
    io::Error::other("the server is not running")
}

/// The processes that `parent` has started and that have not been waited for.
fn children(parent: u32) -> Vec<Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let of_parent = |pid: &i32| stat(*pid).is_some_and(|(_, owner)| owner == parent);
    pids.filter(of_parent).map(Pid::from_raw).collect()
}

fn state(pid: Pid) -> Option<char> {
    Some(stat(pid.as_raw())?.0)
}

/// The state of a process and its parent.
fn stat(pid: i32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before the state may have any characters in it, parentheses too.
    let mut words = stat.rsplit_once(") ")?.1.split(' ');
    Some((words.next()?.chars().next()?, words.next()?.parse().ok()?))
}
