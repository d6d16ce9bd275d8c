//! A store in a temporary directory, processes that end with the test, and a terminal.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

/// Longer than anything should take, even on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The binary under test.
pub(crate) const LEASEHOLD: &str = env!("CARGO_BIN_EXE_leasehold");

/// Waits until something is so.
#[track_caller]
pub(crate) fn until(what: &str, mut so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(start.elapsed() < PATIENCE, "waited in vain until {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A directory with a store in it, in which commands run.
pub(crate) struct Place(TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn store(&self) -> String {
        format!("file:{}", self.path("store").display())
    }

    /// What a command wrote to a file; empty when it has not.
    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    #[track_caller]
    pub(crate) fn until_exists(&self, name: &str) {
        until(&format!("{name} exists"), || self.path(name).exists());
    }

    /// Any program in this directory, with an environment that knows nothing of other stores.
    pub(crate) fn program(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        for variable in ["STORE", "NAME", "HELD", "TOKEN", "OWNER"] {
            command.env_remove(format!("LEASEHOLD_{variable}"));
        }
        command
            .current_dir(self.0.path())
            .env("LEASEHOLD", LEASEHOLD)
            .env("XDG_CONFIG_HOME", self.path("config"))
            .env("XDG_STATE_HOME", self.path("state"))
            .stdin(Stdio::null());
        command
    }

    /// `leasehold` with this store.
    pub(crate) fn leasehold(&self, arguments: &[&str]) -> Command {
        let mut command = self.program(LEASEHOLD);
        command.arg("--store").arg(self.store()).args(arguments);
        command
    }

    /// Runs it to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Done {
        Done::new(self.leasehold(arguments).output().unwrap())
    }

    /// Starts it.
    pub(crate) fn start(&self, arguments: &[&str]) -> Running {
        Running::new(&mut self.leasehold(arguments))
    }

    /// Starts `leasehold run NAME -- sh -c SCRIPT`, and waits until the script has made the file
    /// `ready`.
    pub(crate) fn start_ready(&self, options: &[&str], script: &str) -> Running {
        let mut arguments = vec!["run"];
        arguments.extend(options);
        arguments.extend(["--", "sh", "-c", script]);
        let running = self.start(&arguments);
        self.until_exists("ready");
        running
    }
}

impl Place {
    /// Starts `leasehold run ARGUMENTS`, and waits until it says that it waits, in the file
    /// `err-...` that is returned.
    pub(crate) fn start_waiting(&self, arguments: &[&str]) -> (Running, String) {
        let file = (1..).map(|n| format!("err-of-waiter-{n}")).find(|f| !self.path(f).exists());
        let file = file.unwrap();
        let mut command = self.leasehold(&[&["run"], arguments].concat());
        command.stdout(Stdio::piped()).stderr(File::create(self.path(&file)).unwrap());
        let running = Running(Some(command.spawn().unwrap()));
        until("it waits", || self.read(&file).contains("leasehold: waiting for "));
        (running, file)
    }
}

/// What a command that has ended left behind.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Done {
    pub(crate) fn new(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// A process that is asked to end, then killed, if the test fails half-way.
pub(crate) struct Running(Option<Child>);

impl Running {
    pub(crate) fn new(command: &mut Command) -> Self {
        Self(Some(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()))
    }

    pub(crate) fn pid(&self) -> i32 {
        self.0.as_ref().unwrap().id() as i32
    }

    pub(crate) fn send(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).unwrap();
    }

    #[track_caller]
    pub(crate) fn end(mut self) -> Done {
        self.until_ended();
        Done::new(self.0.take().unwrap().wait_with_output().unwrap())
    }

    #[track_caller]
    pub(crate) fn until_ended(&mut self) -> ExitStatus {
        let child = self.0.as_mut().unwrap();
        let mut status = None;
        until("the process ends", || {
            status = child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }

    /// The supervisor that a `leasehold run` has started.
    pub(crate) fn supervisor(&self) -> i32 {
        let children = children(self.pid());
        assert_eq!(children.len(), 1, "one child, the supervisor");
        children[0]
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The state letter, parent and process group of a process that is there.
pub(crate) fn stat(pid: i32) -> Option<(char, i32, i32)> {
    let line = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = line.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?.chars().next()?;
    Some((state, fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// True while a process runs; a zombie does not.
pub(crate) fn runs(pid: i32) -> bool {
    stat(pid).is_some_and(|(state, ..)| state != 'Z' && state != 'X')
}

pub(crate) fn children(parent: i32) -> Vec<i32> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| stat(*pid).is_some_and(|(_, its, _)| its == parent)).collect()
}

/// The numbers in a text.
pub(crate) fn numbers(text: &str) -> Vec<i32> {
    text.split_whitespace().map(|word| word.parse().unwrap()).collect()
}

/// A terminal with a program as the leader of its session.
pub(crate) struct Terminal {
    master: File,
    seen: Arc<Mutex<String>>,
    at: usize,
    child: Child,
}

impl Terminal {
    pub(crate) fn start(place: &Place, program: &str, arguments: &[&str]) -> Self {
        let pty = nix::pty::openpty(None, None).unwrap();
        let end = |fd: &OwnedFd| Stdio::from(fd.try_clone().unwrap());
        let mut command = place.program("setsid");
        command.arg("-c").arg(program).args(arguments).env("PS1", "$ ").env("HISTFILE", "");
        command.env("TERM", "xterm").env("LEASEHOLD_STORE", place.store());
        command.stdin(end(&pty.slave)).stdout(end(&pty.slave)).stderr(end(&pty.slave));
        let child = command.spawn().unwrap();
        drop((command, pty.slave));
        let master = File::from(pty.master);
        let seen = Arc::new(Mutex::new(String::new()));
        thread::spawn({
            let (mut reader, seen) = (master.try_clone().unwrap(), seen.clone());
            move || {
                let mut chunk = [0; 4096];
                while let Ok(count @ 1..) = reader.read(&mut chunk) {
                    seen.lock().unwrap().push_str(&String::from_utf8_lossy(&chunk[..count]));
                }
            }
        });
        Self { master, seen, at: 0, child }
    }

    pub(crate) fn send(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until this was printed, after what was expected before.
    #[track_caller]
    pub(crate) fn expect(&mut self, text: &str) {
        let start = Instant::now();
        loop {
            let seen = self.seen.lock().unwrap().clone();
            if let Some(at) = seen[self.at..].find(text) {
                self.at += at + text.len();
                return;
            }
            assert!(
                start.elapsed() < PATIENCE,
                "no {text:?} after {:?} in {seen:?}",
                &seen[..self.at]
            );
            thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn seen(&self) -> String {
        self.seen.lock().unwrap().clone()
    }

    #[track_caller]
    pub(crate) fn end(mut self) -> i32 {
        let mut code = None;
        until("the session ends", || {
            code = self.child.try_wait().unwrap();
            code.is_some()
        });
        code.unwrap().code().unwrap_or(-1)
    }
}

impl Drop for Terminal {
    /// Kills the whole session: a test may have failed half-way.
    fn drop(&mut self) {
        let leader = self.child.id().to_string();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let line = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            let fields = line.rsplit_once(") ").map_or("", |(_, fields)| fields);
            if let (Some(session), Some(pid)) = (fields.split(' ').nth(3), line.split(' ').next())
                && session == leader
            {
                let _ = kill(Pid::from_raw(pid.parse().unwrap()), Signal::SIGKILL);
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
