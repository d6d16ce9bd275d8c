//! The operator: starts the drawn commands as processes of their own, ends some of them half-way, and
//! writes down how each ended.

mod operation;
mod pipe;

use std::fmt;
use std::fs::{self, File};
use std::io::PipeReader;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::thread::{self, JoinHandle};

use leasehold_test_servers::Process;
use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use serde_json::json;

use crate::client::{LULL, visit_words};
use crate::cluster::{Cluster, Mark};
use crate::workload::Workload;
use crate::{MS, Result, SECOND, now};

use self::operation::NOT_HAD;
pub(crate) use self::operation::{Call, LOST, Operation, Plan, Planned, Situation, UNAVAILABLE};

/// Every command ends within this time, whatever the servers do.
pub(crate) const LIMIT: u64 = 30 * SECOND;
/// Commands at the same time.
const TOGETHER: usize = 3;
/// `force-release` and `forget` begin when no client has got the lock for this long,
const QUIET: u64 = 150 * MS;
/// or after this time.
const AT_MOST: u64 = 5 * SECOND;
/// Tokens of holders that are kept for `force-release`.
const TOKENS: usize = 1000;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandEnd {
    Exit(i32),
    /// A signal that the operator did not send.
    Signal,
    /// The operator killed it: what it has done is not known.
    Killed,
    /// It did not end within [`LIMIT`].
    TooLong,
}

impl fmt::Display for CommandEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exit(code) => write!(f, "exited with {code}"),
            Self::Signal => f.write_str("ended by a signal"),
            Self::Killed => f.write_str("was killed"),
            Self::TooLong => write!(f, "did not end within {} s", LIMIT / SECOND),
        }
    }
}

/// A command that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) operation: Operation,
    pub(crate) call: Call,
    pub(crate) from: u64,
    pub(crate) until: u64,
    pub(crate) end: CommandEnd,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// What a command came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    /// It changed nothing, and said so.
    Refused,
    Unavailable,
    Killed,
}

impl Ran {
    pub(crate) fn outcome(&self) -> Outcome {
        match self.end {
            CommandEnd::Exit(0) => Outcome::Done,
            // The lock is free.
            CommandEnd::Exit(1) if self.operation == Operation::Status => Outcome::Done,
            // There are warnings, or problems.
            CommandEnd::Exit(1 | 2) if self.operation == Operation::Doctor => Outcome::Done,
            CommandEnd::Exit(NOT_HAD | LOST) if self.operation == Operation::Run => {
                Outcome::Unavailable
            }
            CommandEnd::Exit(UNAVAILABLE) if !self.call.must_be_refused() => Outcome::Unavailable,
            CommandEnd::Exit(_) => Outcome::Refused,
            CommandEnd::Signal | CommandEnd::Killed | CommandEnd::TooLong => Outcome::Killed,
        }
    }

    /// In words, with what it wrote.
    pub(crate) fn told(&self) -> String {
        let (words, end) = (self.call.words.join(" "), self.end);
        let said = [&self.stdout, &self.stderr].map(|text| text.trim().replace('\n', " | "));
        format!("{} ({words}) {end}: {} {}", self.operation, said[0], said[1])
    }

    fn line(&self) -> String {
        let object = json!({
            "operation": self.operation.name(),
            "words": self.call.words,
            "from": self.from,
            "until": self.until,
            "end": self.end.to_string(),
            "stdout": self.stdout,
            "stderr": self.stderr,
        });
        format!("{object}\n")
    }
}

/// A command that runs.
struct Running {
    operation: Operation,
    call: Call,
    process: Process,
    /// Returns when the process has ended.
    end: JoinHandle<u64>,
    from: u64,
    kill_at: Option<u64>,
    output: [PathBuf; 2],
    /// What the nodes of a quorum said of themselves before it.
    marks: Vec<Option<Mark>>,
    /// The other end of a pipe that is not read.
    _unread: Option<PipeReader>,
}

/// The operator of a run.
pub(crate) struct Operator {
    leasehold: PathBuf,
    folder: PathBuf,
    url: String,
    workload: Workload,
    plan: Plan,
    due: u64,
    planned: Option<Planned>,
    running: Vec<Running>,
    tokens: Vec<u64>,
    /// When the latest of them was first seen.
    seen: u64,
    prepared: bool,
    started: u64,
    /// The drawn commands, with their times.
    pub(crate) begun: Vec<(u64, Planned)>,
    pub(crate) ran: Vec<Ran>,
    pub(crate) wrong: Vec<String>,
}

impl Operator {
    pub(crate) fn new(
        leasehold: &Path,
        folder: &Path,
        url: String,
        workload: Workload,
        mut plan: Plan,
    ) -> Self {
        let (due, planned) = (now() + plan.first(), plan.next());
        Self {
            leasehold: leasehold.to_path_buf(),
            folder: folder.to_path_buf(),
            url,
            workload,
            plan,
            due,
            planned,
            running: Vec::new(),
            tokens: Vec::new(),
            seen: now(),
            prepared: false,
            started: 0,
            begun: Vec::new(),
            ran: Vec::new(),
            wrong: Vec::new(),
        }
    }

    /// Ends what is to end, and starts the next command when it is due. `token` is that of the last holder;
    /// nodes for which `stopped` is true cannot be asked.
    pub(crate) fn step(
        &mut self,
        cluster: &Cluster,
        token: u64,
        stopped: impl Fn(usize) -> bool,
    ) -> Result<()> {
        self.note(token);
        self.reap(cluster, &stopped)?;
        let Some(planned) = self.planned.filter(|_| now() >= self.due) else { return Ok(()) };
        if let Some(file) = planned.prepares().filter(|_| !self.prepared) {
            fs::write(self.folder.join(file), "")?;
            self.prepared = true;
        }
        // The latest holder keeps the lock, or none has taken it since.
        let quiet = now() >= self.seen + QUIET || now() >= self.due + AT_MOST;
        if self.running.len() >= TOGETHER || (self.prepared && !quiet) {
            return Ok(());
        }
        let situation = Situation {
            setup: cluster.setup,
            workload: self.workload,
            tokens: &self.tokens,
            started: self.started,
        };
        if let Some(call) = situation.call(planned.operation, planned.way) {
            let kill_at = planned.killed.map(|time| now() + time);
            self.begun.push((now(), planned));
            self.start(planned, call, kill_at, cluster, &stopped)?;
        }
        self.prepared = false;
        self.planned = self.plan.next();
        self.due = now().saturating_add(planned.pause);
        Ok(())
    }

    /// When `forget` has ended for the last time; never before now while it runs.
    pub(crate) fn forgotten(&self) -> u64 {
        let runs = self.running.iter().any(|one| one.operation == Operation::Forget);
        let ended = self.ran.iter().rfind(|ran| ran.operation == Operation::Forget);
        if runs { u64::MAX } else { ended.map_or(0, |ran| ran.until) }
    }

    /// Whether no command runs.
    pub(crate) fn is_idle(&self) -> bool {
        self.running.is_empty()
    }

    /// Starts no command of the plan before this time.
    pub(crate) fn rest_until(&mut self, time: u64) {
        self.due = self.due.max(time);
    }

    /// Starts no further command of the plan.
    pub(crate) fn stop_drawing(&mut self) {
        self.planned = None;
    }

    /// Runs a command while no fault is left; it has to succeed, or to be refused.
    pub(crate) fn start_in_calm(
        &mut self,
        operation: Operation,
        way: u64,
        cluster: &Cluster,
    ) -> Result<()> {
        let situation = Situation {
            setup: cluster.setup,
            workload: self.workload,
            tokens: &self.tokens,
            started: self.started,
        };
        let Some(call) = situation.call(operation, way).map(Call::in_calm) else { return Ok(()) };
        let planned = Planned { pause: 0, operation, way, killed: None };
        self.start(planned, call, None, cluster, &|_| false)
    }

    fn note(&mut self, token: u64) {
        if token > 0 && self.tokens.last() != Some(&token) {
            if self.tokens.len() == TOKENS {
                self.tokens.remove(0);
            }
            self.tokens.push(token);
            self.seen = now();
        }
    }

    fn start(
        &mut self,
        planned: Planned,
        call: Call,
        kill_at: Option<u64>,
        cluster: &Cluster,
        stopped: &impl Fn(usize) -> bool,
    ) -> Result<()> {
        let operation = planned.operation;
        let marks = match operation {
            Operation::QuorumInit if cluster.setup.has_admission() => cluster.marks(stopped),
            _ => Vec::new(),
        };
        self.started += 1;
        let output =
            ["stdout", "stderr"].map(|of| self.folder.join(format!("{of}-{}", self.started)));
        let [stdout, stderr] = [File::create(&output[0])?, File::create(&output[1])?];
        let (stderr, unread): (Stdio, _) = match planned.blocks_stderr() {
            true => pipe::full().map(|(reader, writer)| (writer.into(), Some(reader)))?,
            false => (stderr.into(), None),
        };
        let from = now();
        let (program, first) = match operation {
            // No command of `leasehold` does it: this program calls the library.
            Operation::Forget => {
                let after = format!("{}ms", planned.way / 4 % 100);
                (std::env::current_exe()?, vec!["forget".to_owned(), after, self.url.clone()])
            }
            Operation::CleanUp => {
                (std::env::current_exe()?, vec!["clean-up".to_owned(), self.url.clone()])
            }
            _ => (self.leasehold.clone(), vec!["--store".to_owned(), self.url.clone()]),
        };
        let mut inner = Vec::new();
        if operation == Operation::Run {
            inner.push(std::env::current_exe()?.display().to_string());
            inner.extend(visit_words(&self.folder, from, planned.work(), &self.url));
        }
        let process = Process::start(&program, |command| {
            command.args(first).args(&call.words).args(inner).stdout(stdout).stderr(stderr);
            command.envs(cluster.env());
        })?;
        if operation == Operation::Forget && planned.way % 4 == 2 {
            // The clients come back while it runs.
            fs::remove_file(self.folder.join(LULL)).or_else(absent)?;
        }
        let end = watch_end(process.pid());
        let running = Running {
            operation,
            call,
            process,
            end,
            from,
            kill_at,
            output,
            marks,
            _unread: unread,
        };
        self.running.push(running);
        Ok(())
    }

    /// Takes note of commands that have ended, and kills those whose time is up.
    fn reap(&mut self, cluster: &Cluster, stopped: &impl Fn(usize) -> bool) -> Result<()> {
        for mut one in std::mem::take(&mut self.running) {
            let time = now();
            let ended = if one.end.is_finished() { one.process.ended() } else { None };
            let end = match ended {
                Some(status) => exit(status),
                None if one.kill_at.is_some_and(|at| at <= time) => {
                    one.process.kill();
                    CommandEnd::Killed
                }
                None if one.from + LIMIT <= time => {
                    one.process.kill();
                    CommandEnd::TooLong
                }
                None => {
                    self.running.push(one);
                    continue;
                }
            };
            self.ended(one, end, cluster, stopped)?;
        }
        Ok(())
    }

    fn ended(
        &mut self,
        one: Running,
        end: CommandEnd,
        cluster: &Cluster,
        stopped: &impl Fn(usize) -> bool,
    ) -> Result<()> {
        let Running { operation, call, from, output, marks, end: watch, .. } = one;
        let until = watch.join().unwrap_or_else(|_| now());
        let read = |path: &Path| -> std::io::Result<String> {
            let text = fs::read(path)?;
            fs::remove_file(path)?;
            Ok(String::from_utf8_lossy(&text).into_owned())
        };
        let [stdout, stderr] = [read(&output[0])?, read(&output[1])?];
        let ran = Ran { operation, call, from, until, end, stdout, stderr };
        if operation == Operation::Forget {
            fs::remove_file(self.folder.join(LULL)).or_else(absent)?;
        }
        if !marks.is_empty() {
            let changed = cluster.changed(&marks, stopped);
            let changed = changed.map(|what| format!("{what}, by {}", ran.told()));
            self.wrong.extend(changed);
        }
        let mut journal =
            File::options().create(true).append(true).open(self.folder.join("operator"))?;
        std::io::Write::write_all(&mut journal, ran.line().as_bytes())?;
        self.ran.push(ran);
        Ok(())
    }
}

/// Waits in a thread of its own for the end of a child process, which stays to be collected, and returns the time.
/// The thread of the run may be busy for seconds, with the restart of a server or the copy of its data.
fn watch_end(pid: u32) -> JoinHandle<u64> {
    thread::spawn(move || {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let again = |pid| matches!(waitid(WaitId::Pid(pid), ended), Err(Errno::INTR));
        while pid.is_some_and(again) {}
        now()
    })
}

fn absent(error: std::io::Error) -> std::io::Result<()> {
    if error.kind() == std::io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

fn exit(status: ExitStatus) -> CommandEnd {
    status.code().map_or(CommandEnd::Signal, CommandEnd::Exit)
}
