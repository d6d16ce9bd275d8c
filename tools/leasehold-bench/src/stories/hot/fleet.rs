//! The processes of `cache-hot`, and what they tell while they run.

use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::HotArgs;
use super::process::{LOADS, Tally};
use super::times::Times;
use crate::Result;
use crate::runtime::Flavour;
use crate::talk::Talk;

/// How often is looked whether a process has told of a load: a fraction of what a load takes.
const LOOK: Duration = Duration::from_millis(2);
/// How long after the end of the lease another process may load.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub(super) struct Fleet {
    processes: Vec<Talk>,
    /// When each load began that was told of, in microseconds since 1970.
    pub(super) loads: Vec<u64>,
}

impl Fleet {
    /// Starts them; all are ready.
    pub(super) fn start(
        side: &str,
        runtime: Flavour,
        args: &HotArgs,
        times: &Times,
        url: &str,
    ) -> Result<Self> {
        let mut processes = Vec::new();
        for _ in 0..args.processes {
            let mut command = Command::new(std::env::current_exe()?);
            command.args(["cache-hot-process", side, runtime.name()]);
            let numbers = [args.tasks as u128, times.ttl.as_millis(), times.lease.as_millis()];
            command.args(numbers.map(|number| number.to_string())).arg(url);
            processes.push(Talk::start("a process that wants a key", command)?);
        }
        processes.iter_mut().try_for_each(|process| process.expect("ready"))?;
        Ok(Self { processes, loads: Vec::new() })
    }

    /// Tells all.
    pub(super) fn say(&mut self, line: &str) -> Result<()> {
        self.processes.iter_mut().try_for_each(|process| process.say(line))
    }

    /// Reads the reports of loads for this time.
    pub(super) fn look_for(&mut self, time: Duration) -> Result<()> {
        let start = Instant::now();
        while start.elapsed() < time {
            self.look()?;
            sleep(LOOK);
        }
        Ok(())
    }

    /// Which process has told of a load since the last look, if one has.
    fn look(&mut self) -> Result<Option<usize>> {
        let mut who = None;
        for (at, process) in self.processes.iter_mut().enumerate() {
            for line in process.heard_by_now() {
                let us = line.strip_prefix(LOADS).ok_or_else(|| format!("what is {line:?}?"))?;
                self.loads.push(us.parse()?);
                who = Some(at);
            }
        }
        Ok(who)
    }

    /// Kills the process that next tells of a load, while it loads. When the loads of that expiry began,
    /// and how long after the kill the first of others did.
    pub(super) fn kill_who_loads(&mut self, times: &Times) -> Result<(Vec<u64>, Option<Duration>)> {
        let start = Instant::now();
        let who = loop {
            if let Some(who) = self.look()? {
                break who;
            }
            if start.elapsed() > times.ttl + PATIENCE {
                return Err("no process loads the expired value".into());
            }
            sleep(LOOK);
        };
        let before = self.loads.len();
        // Dropped, it is killed.
        drop(self.processes.remove(who));
        let killed = Instant::now();
        let mut next = None;
        while next.is_none() && killed.elapsed() < times.lease + PATIENCE {
            self.look()?;
            next = (self.loads.len() > before).then(|| killed.elapsed());
            sleep(LOOK);
        }
        // What is loaded for the same end; the key does not end again so soon.
        self.look_for(times.ttl / 3)?;
        Ok((std::mem::take(&mut self.loads), next))
    }

    /// Reads the report of each process, phase by phase, and ends all processes.
    pub(super) fn reports(mut self) -> Result<Vec<Vec<Tally>>> {
        let mut reports = Vec::new();
        for process in &mut self.processes {
            let report = loop {
                let line = process.hear()?;
                if !line.starts_with(LOADS) {
                    break line;
                }
            };
            reports.push(serde_json::from_str(&report)?);
        }
        for process in self.processes {
            process.end()?;
        }
        Ok(reports)
    }
}
