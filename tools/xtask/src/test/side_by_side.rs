//! Runs the test programs, several at a time: tests mostly wait, so one program at a time leaves
//! the cores idle.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::fs;
use std::io::{IsTerminal, Write, stdout};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::job::{Job, Running};
use super::why::why;
use crate::run::root;
use crate::tally::Tally;
use crate::ui::{self, Outcome};

/// A program that takes longer has failed.
const LIMIT: Duration = Duration::from_secs(30 * 60);
/// How long each took the last time, for the order of the next run.
const DURATIONS: &str = "target/test-output/durations";
/// Where what they print goes.
pub(super) const OUTPUT: &str = "target/test-output";

/// What came of all of them.
#[derive(Debug, Default)]
pub(super) struct Run {
    pub(super) tally: Tally,
    /// The output of those that failed.
    pub(super) failed: Vec<PathBuf>,
}

/// Runs all jobs, so many at a time, those that took longest the last time first.
pub(super) fn run(mut jobs: Vec<Job>, programs: usize) -> Result<Run, String> {
    let dir = root().join(OUTPUT);
    let mut durations = Durations::load(&root().join(DURATIONS));
    jobs.sort_by_key(|job| Reverse(durations.of(&job.name)));
    let mut jobs: VecDeque<Job> = jobs.into();
    let mut running: Vec<(Running, Instant)> = Vec::new();
    let mut run = Run::default();
    while !jobs.is_empty() || !running.is_empty() {
        while running.len() < programs
            && let Some(job) = jobs.pop_front()
        {
            running.push((job.start(&dir)?, Instant::now()));
        }
        progress(&running, jobs.len());
        thread::sleep(Duration::from_millis(100));
        let mut index = 0;
        while index < running.len() {
            let (job, start) = &mut running[index];
            let status = job.child.try_wait().map_err(|error| format!("{}: {error}", job.name))?;
            let took = start.elapsed();
            if status.is_none() && took < LIMIT {
                index += 1;
                continue;
            }
            let (mut job, _) = running.swap_remove(index);
            if status.is_none() {
                let _ = job.child.kill();
                let _ = job.child.wait();
            }
            durations.note(&job.name, took);
            run.take(&job, took, status.is_some_and(|status| status.success()));
        }
    }
    durations.save(&root().join(DURATIONS));
    Ok(run)
}

impl Run {
    /// Takes in a program that has ended, and prints its line.
    fn take(&mut self, job: &Running, took: Duration, is_good: bool) {
        let (tally, said) = job.tally();
        let counts = format!("{:<32}{:>4} passed", job.name, tally.passed);
        let ignored = match tally.ignored {
            0 => String::new(),
            ignored => format!("{ignored} ignored"),
        };
        let outcome = match is_good {
            true => Outcome::Good(ignored),
            false if took >= LIMIT => Outcome::Bad(format!("{said}\nnot done within {LIMIT:?}")),
            false => Outcome::Bad(said.clone()),
        };
        ui::line(&counts, took, &outcome);
        let Tally { passed, failed, ignored, failures } = tally;
        self.tally.passed += passed;
        self.tally.failed += failed;
        self.tally.ignored += ignored;
        let named = failures.into_iter().map(|name| {
            let why = why(&said, &name).into_iter().map(|line| format!("\n        {line}"));
            format!("{} {name}{}", job.name, why.collect::<String>())
        });
        self.tally.failures.extend(named);
        if !is_good {
            self.failed.push(job.log.clone());
            if failed == 0 {
                self.tally.failures.push(format!("{} (its end, not a test)", job.name));
            }
        }
    }
}

/// On a terminal, what runs.
fn progress(running: &[(Running, Instant)], waiting: usize) {
    if stdout().is_terminal() {
        let names: Vec<&str> = running.iter().map(|(job, _)| job.name.as_str()).collect();
        print!("\r\x1b[K  ...   {} ({waiting} more)", names.join(", "));
        let _ = stdout().flush();
    }
}

/// How many seconds each program took, from the last run.
#[derive(Debug, Default)]
struct Durations(Vec<(String, u64)>);

impl Durations {
    fn load(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap_or_default();
        let read = |line: &str| {
            let (name, seconds) = line.split_once(' ')?;
            Some((name.to_owned(), seconds.parse().ok()?))
        };
        Self(text.lines().filter_map(read).collect())
    }

    /// That of the last run; the first time, what the programs with servers are known to take.
    fn of(&self, name: &str) -> u64 {
        if let Some((_, seconds)) = self.0.iter().find(|(known, _)| known == name) {
            return *seconds;
        }
        let place = LONGEST.iter().rev().position(|long| *long == name);
        place.map_or(0, |place| place as u64 + 1)
    }

    fn note(&mut self, name: &str, took: Duration) {
        self.0.retain(|(known, _)| known != name);
        self.0.push((name.to_owned(), took.as_secs()));
    }

    /// The order is all that is lost without it.
    fn save(&self, path: &Path) {
        let lines: String =
            self.0.iter().map(|(name, seconds)| format!("{name} {seconds}\n")).collect();
        let _ = fs::write(path, lines);
    }
}

/// The programs that take longest, for the first run on a machine.
const LONGEST: [&str; 9] = [
    "leasehold-conformance::conformance",
    "leasehold-cli::cli",
    "leasehold-sim::quorum",
    "doc",
    "leasehold-redis::redis",
    "leasehold-sim::handoff",
    "leasehold-bench::own",
    "leasehold-sql::sql",
    "leasehold-zookeeper::zookeeper",
];
