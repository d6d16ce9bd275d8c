//! A plan in a file: the set-up of a run, and its faults and commands with their times and targets.

use std::fmt;
use std::fs;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;

use crate::operator;
use crate::plan::Planned;
use crate::setup::SetUp;
use crate::workload::Workload;
use crate::{MS, Result};

/// After the last fault or command a run goes on for this long. Nothing lasts longer, but for cuts between servers.
const REST: u64 = 3000 * MS;

/// What a run was, or is to be.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Written {
    pub(crate) setup: SetUp,
    pub(crate) workload: Workload,
    pub(crate) seed: u64,
    pub(crate) time: Duration,
    pub(crate) clients: u32,
    pub(crate) tasks: u32,
    /// In the order of their times, which count from the start of the run.
    pub(crate) events: Vec<Event>,
}

/// A fault or a command, and its time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) at: u64,
    pub(crate) what: What,
}

/// A fault, or a command of the operator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum What {
    Fault(Planned),
    Command(operator::Planned),
}

impl Written {
    /// Reads a file.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let failed = |error: &dyn fmt::Display| format!("--plan {}: {error}", path.display());
        let text = fs::read_to_string(path).map_err(|error| failed(&error))?;
        Ok(text.parse().map_err(|error: String| failed(&error))?)
    }

    /// The faults, each with the pause until the next one, and the time of the first.
    pub(crate) fn faults(&self) -> (u64, Vec<Planned>) {
        let faults = self.events.iter().filter_map(|event| match event.what {
            What::Fault(fault) => Some((event.at, fault)),
            What::Command(_) => None,
        });
        paused(faults.collect(), |fault, pause| fault.pause = pause)
    }

    /// The commands, in the same way.
    pub(crate) fn commands(&self) -> (u64, Vec<operator::Planned>) {
        let commands = self.events.iter().filter_map(|event| match event.what {
            What::Command(command) => Some((event.at, command)),
            What::Fault(_) => None,
        });
        paused(commands.collect(), |command, pause| command.pause = pause)
    }

    /// The same with some of the events, and no longer than they need: what was between those that are left and is not
    /// there any more takes no time.
    pub(crate) fn with(&self, events: &[Event]) -> Self {
        let (mut before, mut at) = (0, 0);
        let closer = |event: &Event| {
            at += (event.at - before).min(REST);
            before = event.at;
            Event { at, ..*event }
        };
        let events: Vec<Event> = events.iter().map(closer).collect();
        let time = self.time.min(Duration::from_nanos(at + REST));
        Self { events, time, ..self.clone() }
    }
}

/// Gives each the time until the next one; also the time of the first.
fn paused<T: Copy>(timed: Vec<(u64, T)>, set: impl Fn(&mut T, u64)) -> (u64, Vec<T>) {
    let first = timed.first().map_or(0, |(at, _)| *at);
    let next: Vec<u64> = timed.iter().skip(1).map(|(at, _)| *at).chain([u64::MAX]).collect();
    let with = |((at, one), next): ((u64, T), u64)| {
        let mut one = one;
        set(&mut one, next - at);
        one
    };
    (first, timed.into_iter().zip(next).map(with).collect())
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "# Times are in milliseconds, those of faults and commands since the start.")?;
        writeln!(f, "engine {}\nseed {}\ntime {}", self.setup, self.seed, self.time.as_millis())?;
        if self.workload != Workload::default() {
            writeln!(f, "workload {}", self.workload)?;
        }
        writeln!(f, "clients {}\ntasks {}", self.clients, self.tasks)?;
        for event in &self.events {
            let at = event.at / MS;
            match event.what {
                What::Fault(Planned { fault, target, time, .. }) => {
                    writeln!(f, "{at} fault {fault} {target} {}", time / MS)?;
                }
                What::Command(command) => {
                    let killed = command.killed.map_or("-".to_owned(), |at| (at / MS).to_string());
                    writeln!(f, "{at} command {} {} {killed}", command.operation, command.way)?;
                }
            }
        }
        Ok(())
    }
}

impl FromStr for Written {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let mut written = Self {
            setup: SetUp::default(),
            workload: Workload::default(),
            seed: 0,
            time: Duration::ZERO,
            clients: 6,
            tasks: 2,
            events: Vec::new(),
        };
        for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let strange = || {
                format!("{line:?} is no line of a plan; compare it with a plan that chaos wrote")
            };
            let number = |word: &str| word.parse::<u64>().map_err(|_| strange());
            match words[..] {
                [] => {}
                ["engine", name] => written.setup = value(name).ok_or_else(strange)?,
                ["workload", name] => written.workload = value(name).ok_or_else(strange)?,
                ["seed", seed] => written.seed = number(seed)?,
                ["time", time] => written.time = Duration::from_millis(number(time)?),
                ["clients", clients] => written.clients = number(clients)? as u32,
                ["tasks", tasks] => written.tasks = number(tasks)? as u32,
                [at, "fault", fault, target, time] => {
                    let fault = value(fault).ok_or_else(strange)?;
                    let (target, time) = (number(target)?, number(time)? * MS);
                    let what = What::Fault(Planned { pause: 0, fault, target, time });
                    written.events.push(Event { at: number(at)? * MS, what });
                }
                [at, "command", operation, way, killed] => {
                    let operation = value(operation).ok_or_else(strange)?;
                    let killed = (killed != "-").then(|| number(killed)).transpose()?;
                    let killed = killed.map(|at| at * MS);
                    let command =
                        operator::Planned { pause: 0, operation, way: number(way)?, killed };
                    written
                        .events
                        .push(Event { at: number(at)? * MS, what: What::Command(command) });
                }
                _ => return Err(strange()),
            }
        }
        written.events.sort_by_key(|event| event.at);
        Ok(written)
    }
}

/// A name of the command line.
fn value<T: ValueEnum>(name: &str) -> Option<T> {
    T::from_str(name, false).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Fault;

    const TEXT: &str = "# a comment\nengine sentinel\nworkload readers\nseed 7\ntime 9000\nclients 3\ntasks 1\n\
                        2000 command force-release 5 30\n500 fault stop 18 1200\n700 fault kill 4 0\n\
                        2500 command list 1 -\n";

    #[test]
    fn a_plan_is_read_as_it_was_written() {
        let written: Written = TEXT.parse().unwrap();
        assert_eq!(
            (written.setup, written.time, written.events.len()),
            (SetUp::Sentinel, Duration::from_secs(9), 4)
        );
        assert_eq!(written.to_string().parse(), Ok(written.clone()));
        let (first, faults) = written.faults();
        assert_eq!((first, faults[0].pause, faults[1].fault), (500 * MS, 200 * MS, Fault::Kill));
        let (first, commands) = written.commands();
        assert_eq!(
            (first, commands[0].pause, commands[0].killed),
            (2000 * MS, 500 * MS, Some(30 * MS))
        );
        assert_eq!(written.with(&written.events[..1]).time, Duration::from_millis(3500));
    }

    #[test]
    fn what_is_left_of_a_plan_moves_together() {
        let text = "500 fault kill 1 0\n20000 fault kill 2 0\n20500 fault kill 3 0\n29000 fault kill 4 0\n";
        let written: Written = format!("time 60000\n{text}").parse().unwrap();
        let times = |events: &[Event]| {
            let smaller = written.with(events);
            let at = smaller.events.iter().map(|event| event.at / MS).collect::<Vec<_>>();
            (at, smaller.time.as_millis())
        };
        assert_eq!(times(&written.events[1..3]), (vec![3000, 3500], 6500));
        assert_eq!(times(&written.events), (vec![500, 3500, 4000, 7000], 10_000));
    }

    #[test]
    fn a_line_that_is_not_understood_is_named() {
        for line in ["12 fault fire 1 2", "12 fault stop", "engine moon", "time soon"] {
            let error = line.parse::<Written>().unwrap_err();
            assert!(
                ["fire", "stop", "moon", "soon"].iter().any(|word| error.contains(word)),
                "{error}"
            );
        }
    }
}
