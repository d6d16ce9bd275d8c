//! The command of an earlier revision.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::time::Duration;

use tempfile::TempDir;

const TTL: Duration = Duration::from_secs(30);

/// The command, for one store.
pub(crate) struct Old {
    binary: PathBuf,
    pub(crate) url: String,
    home: TempDir,
}

/// A command that runs; killed when dropped.
pub(crate) struct Running {
    child: Child,
    /// Its command ends when this is closed, if it reads.
    pub(crate) stdin: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

/// How a try ended that does not wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tried {
    /// It held the lock with this token.
    Held(u64),
    /// Another client holds the lock.
    Waits,
    /// It refused what is stored under the name.
    Refuses,
}

impl Old {
    pub(crate) fn new(binary: PathBuf, url: String) -> Self {
        Self { binary, url, home: tempfile::tempdir().unwrap() }
    }

    fn command(&self, name: &str, options: &[&str], script: &str) -> Command {
        let mut command = Command::new(&self.binary);
        command.args(["run", "--store", &self.url]).args(options);
        command.args([name, "--", "sh", "-c", script]);
        command.env("HOME", self.home.path()).env_remove("LEASEHOLD_NAME");
        command
    }

    /// Starts a command that waits for the lock, and runs a script while it holds it.
    pub(crate) fn waiting(&self, name: &str, script: &str) -> Running {
        self.waiting_with_ttl(name, script, TTL)
    }

    /// The same with another ttl.
    pub(crate) fn waiting_with_ttl(&self, name: &str, script: &str, ttl: Duration) -> Running {
        let ttl = format!("{}s", ttl.as_secs());
        let mut command = self.command(name, &["--ttl", &ttl, "-w", "150s"], script);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        Running { child, stdin, output }
    }

    /// Holds the lock until its standard input is closed; returns when it holds it, with the token.
    pub(crate) fn holding(&self, name: &str) -> (Running, u64) {
        let mut running = self.waiting(name, "echo $LEASEHOLD_TOKEN; read line; true");
        let token = running.token();
        (running, token)
    }

    /// Tries once.
    pub(crate) fn tries(&self, name: &str) -> Tried {
        let mut command = self.command(name, &["--ttl", "30s", "-n"], "echo $LEASEHOLD_TOKEN");
        let output = command.stdin(Stdio::null()).output().unwrap();
        judged(&output)
    }
}

impl Running {
    /// Returns the token that it prints when it holds the lock.
    pub(crate) fn token(&mut self) -> u64 {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim()
            .parse()
            .unwrap_or_else(|_| panic!("no token: {line:?}, {:?}", self.child.wait()))
    }

    /// Returns true while it has not ended.
    pub(crate) fn runs(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Ends it; returns true if it has never held the lock.
    pub(crate) fn has_not_held(mut self) -> bool {
        let _ = self.child.kill();
        let mut shown = String::new();
        self.output.read_to_string(&mut shown).unwrap();
        shown.is_empty()
    }

    /// Waits for its end; returns whether its command succeeded.
    pub(crate) fn ends(mut self) -> bool {
        self.stdin = None;
        self.child.wait().unwrap().success()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn judged(output: &Output) -> Tried {
    let shown = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    match (output.status.code(), shown.trim().parse()) {
        (Some(0), Ok(token)) => Tried::Held(token),
        (Some(1), _) if shown.is_empty() => Tried::Waits,
        // The nodes of a quorum do not admit it.
        (Some(69), _) if shown.is_empty() && said.contains("node") => Tried::Refuses,
        (Some(69 | 125), _) if shown.is_empty() => {
            // Not an error of the set-up.
            let refuses =
                ["newer", "not a lock", "not ours", "does not belong", "unknown", "another"];
            assert!(refuses.iter().any(|word| said.contains(word)), "{said}");
            Tried::Refuses
        }
        _ => panic!("{:?}: {shown:?}, {said}", output.status),
    }
}
