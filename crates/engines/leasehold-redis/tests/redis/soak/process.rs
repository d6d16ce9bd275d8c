//! A process of the soak: its tasks acquire the lock again and again.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Client, ErrorKind, Lock, Usage};
use tokio::task::JoinSet;

use super::judge::Judge;
use super::{NAME, TASKS, TTL, now_us};

const ROLE: &str = "LEASEHOLD_SOAK_PROCESS";
/// The waits that are reported.
const LONG: Duration = Duration::from_millis(500);

/// The settings of a process.
#[derive(Clone, Debug)]
pub(crate) struct Role {
    pub(crate) url: String,
    pub(crate) number: u32,
    pub(crate) judge: PathBuf,
    /// The file for its lines: `wait FROM_US TO_US`, `wrong WHAT`, `done`.
    pub(crate) log: PathBuf,
}

impl Role {
    /// Starts a process of this program for that role.
    pub(crate) fn start(&self) -> std::io::Result<leasehold_test_servers::Process> {
        let (judge, log) = (self.judge.display(), self.log.display());
        let role = format!("{}\n{}\n{judge}\n{log}", self.url, self.number);
        leasehold_test_servers::Process::start(
            &std::env::current_exe()?,
            |command: &mut Command| {
                command.env(ROLE, role);
            },
        )
    }

    /// The role that this process was started for.
    pub(crate) fn told() -> Option<Self> {
        let role = std::env::var(ROLE).ok()?;
        let [url, number, judge, log] = role.split('\n').collect::<Vec<_>>()[..] else {
            return None;
        };
        let (url, number) = (url.to_owned(), number.parse().ok()?);
        Some(Self { url, number, judge: judge.into(), log: log.into() })
    }

    /// Runs until the judge's page ends it.
    pub(crate) fn play(self) -> ExitCode {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let log = OpenOptions::new().append(true).open(&self.log).unwrap();
            let log = Log(Arc::new(log));
            let client = crate::connect(&self.url).await;
            let mut tasks = JoinSet::new();
            for _ in 0..TASKS {
                let judge = Judge::open(&self.judge).unwrap();
                let lock = client.lock(NAME).ttl(TTL);
                tasks.spawn(again_and_again(lock, self.number, judge, log.clone()));
            }
            tasks.join_all().await;
            close(&client, &log).await;
        });
        ExitCode::SUCCESS
    }
}

/// Each line is one write to a file that is appended to, so the lines of several processes stay
/// whole.
#[derive(Clone)]
struct Log(Arc<File>);

impl Log {
    fn line(&self, line: &str) {
        (&*self.0).write_all(format!("{line}\n").as_bytes()).unwrap();
    }
}

/// Acquires the lock until it has acquired it once after the end began.
async fn again_and_again(lock: Lock, number: u32, mut judge: Judge, log: Log) {
    loop {
        let asked = now_us();
        let guard = match lock.acquire().await {
            Ok(guard) => guard,
            Err(error) => return log.line(&format!("wrong {number}: {error}")),
        };
        let got = now_us();
        if got - asked >= LONG.as_micros() as u64 {
            log.line(&format!("wait {asked} {got}"));
        }
        let token = guard.token().get();
        let visit = judge.enter(number, token, || guard.is_valid()).unwrap();
        match token % 8 {
            0 => tokio::time::sleep(Duration::from_millis(1)).await,
            _ => tokio::task::yield_now().await,
        }
        let enough = visit.is_some_and(|visit| judge.leave(visit, || guard.is_valid()).unwrap());
        match guard.release().await {
            Err(error) if !matches!(error.kind(), ErrorKind::Lost | ErrorKind::Unavailable) => {
                log.line(&format!("wrong {number}: {error}"));
            }
            _ => {}
        }
        if enough {
            return;
        }
    }
}

/// Checks that nothing is left in this process.
async fn close(client: &Client, log: &Log) {
    client.close().await;
    match client.usage() {
        usage if usage == Usage::default() => log.line("done"),
        usage => log.line(&format!("wrong: {usage:?} is left")),
    }
}
