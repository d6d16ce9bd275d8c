//! A store in a temporary directory, and processes that end with the test.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
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
pub(crate) struct WorkDir(TempDir);

impl WorkDir {
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
        for variable in ["STORE", "NAME", "HELD", "TOKEN", "OWNER", "LANG"] {
            command.env_remove(format!("LEASEHOLD_{variable}"));
        }
        for variable in ["LC_ALL", "LC_MESSAGES", "LANG"] {
            command.env_remove(variable);
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

    /// Starts it; what it says on stderr is in this file.
    pub(crate) fn start_saying(&self, arguments: &[&str], file: &str) -> Running {
        let mut command = self.leasehold(arguments);
        command.stdout(Stdio::piped()).stderr(File::create(self.path(file)).unwrap());
        Running(Some(command.spawn().unwrap()))
    }

    /// Starts it; what it answers goes to the file `out`.
    pub(crate) fn start_to(&self, out: &str, arguments: &[&str]) -> Running {
        let mut command = self.leasehold(arguments);
        command.stdout(File::create(self.path(out)).unwrap()).stderr(Stdio::piped());
        Running(Some(command.spawn().unwrap()))
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

impl WorkDir {
    /// Starts `leasehold run ARGUMENTS`, and waits until it says that it waits, in the file
    /// `err-...` that is returned.
    pub(crate) fn start_waiting(&self, arguments: &[&str]) -> (Running, String) {
        let file = (1..).map(|n| format!("err-of-waiter-{n}")).find(|f| !self.path(f).exists());
        let file = file.unwrap();
        let running = self.start_saying(&[&["run"], arguments].concat(), &file);
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

impl From<Child> for Running {
    fn from(child: Child) -> Self {
        Self(Some(child))
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
