//! A child process that ends with the test process, and can be stopped, continued and killed.

use std::io;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;

use crate::programs::setpriv;
use crate::user::User;
use crate::wait;

/// A running program; killed when dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
}

type Order = (Command, SyncSender<io::Result<Child>>);

/// Starts programs from one thread that never ends: the kernel sends a child its parent-death
/// signal when the *thread* that started it ends, and those of tests come and go.
fn spawner() -> &'static Mutex<SyncSender<Order>> {
    static SPAWNER: OnceLock<Mutex<SyncSender<Order>>> = OnceLock::new();
    SPAWNER.get_or_init(|| {
        let (send, orders): (_, Receiver<Order>) = sync_channel(0);
        thread::spawn(move || {
            for (mut command, answer) in orders {
                // The one who asked waits for the answer.
                let _ = answer.send(command.spawn());
            }
        });
        Mutex::new(send)
    })
}

impl Process {
    /// Starts `program` through `setpriv --pdeathsig KILL`; `prepare` adds the arguments, the
    /// environment and the rest. Its process id is that of the program, since `setpriv` becomes it.
    ///
    /// # Errors
    /// `NotFound` without `setpriv` (util-linux); else what the system says. A program that does
    /// not exist is no error here: its child ends with 127.
    pub fn start(program: &Path, prepare: impl FnOnce(&mut Command)) -> io::Result<Self> {
        Self::start_as(None, program, prepare)
    }

    /// The same as another user of the system, if one is given: some servers refuse root.
    pub(super) fn start_as(
        user: Option<&User>,
        program: &Path,
        prepare: impl FnOnce(&mut Command),
    ) -> io::Result<Self> {
        let mut command = setpriv()?;
        command.args(user.map(User::setpriv).unwrap_or_default());
        command.args(["--pdeathsig", "KILL", "--"]).arg(program);
        prepare(&mut command);
        let (answer, child) = sync_channel(1);
        let gone = || io::Error::other("the thread that starts programs has ended");
        let spawner = spawner().lock().unwrap_or_else(PoisonError::into_inner).clone();
        spawner.send((command, answer)).map_err(|_| gone())?;
        let child = child.recv().map_err(|_| gone())??;
        Ok(Self { child })
    }

    /// Starts the test program that runs once more, with `name=value` in its environment, and returns when
    /// that has written something to its output.
    ///
    /// # Errors
    /// As [`start`](Self::start); when the process ends or [`PATIENCE`](crate::PATIENCE) passes before
    /// that.
    pub fn again(name: &str, value: &str) -> io::Result<Self> {
        let output = tempfile::tempfile()?;
        let write = output.try_clone()?;
        let mut process = Self::start(&std::env::current_exe()?, |command| {
            command.env(name, value).stdin(Stdio::null()).stdout(write);
        })?;
        let mut ended = None;
        wait("the other process writes to its output", || {
            ended = process.ended();
            ended.is_some() || output.metadata().is_ok_and(|output| output.len() > 0)
        })?;
        match ended {
            Some(status) => Err(io::Error::other(format!("{name}={value} has ended: {status}"))),
            None => Ok(process),
        }
    }

    /// Its standard input and output, if they are pipes; the first time only.
    pub(crate) fn pipes(&mut self) -> Option<(ChildStdin, ChildStdout)> {
        Some((self.child.stdin.take()?, self.child.stdout.take()?))
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Stops it (SIGSTOP), and returns when the system says that all of its threads are stopped.
    ///
    /// # Errors
    /// When it has ended, or does not stop.
    pub fn stop(&self) -> io::Result<()> {
        self.signal(Signal::SIGSTOP)?;
        wait("all threads are stopped", || {
            let states = self.states();
            !states.is_empty() && states.iter().all(|state| *state == 'T')
        })
    }

    /// Lets it go on (SIGCONT), and returns when the system says that none of its threads is
    /// stopped.
    ///
    /// # Errors
    /// When it has ended, or does not go on.
    pub fn resume(&self) -> io::Result<()> {
        self.signal(Signal::SIGCONT)?;
        wait("no thread is stopped", || !self.states().contains(&'T'))
    }

    /// Kills it (SIGKILL) and returns when it is gone. Does nothing when it has gone already.
    pub fn kill(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(signal::kill(Pid::from_raw(self.pid() as i32), signal)?)
    }

    /// The state of each of its threads, as a letter.
    fn states(&self) -> Vec<char> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid()));
        let stat = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("stat")).ok();
        let stats = tasks.into_iter().flatten().flatten().filter_map(stat);
        // The name before the state may have any characters in it, parentheses too.
        stats.filter_map(|stat| stat.rsplit_once(") ")?.1.chars().next()).collect()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
