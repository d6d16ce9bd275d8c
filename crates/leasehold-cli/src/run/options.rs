//! The options of `leasehold run`: the command line comes before the config file, then the
//! defaults.

use std::ffi::OsString;
use std::time::Duration;

use crate::cli::{ElectArgs, RunArgs};
use crate::config::RunConfig;
use crate::failure::{Failure, code};
use crate::human;
use crate::on_lost::OnLost;

/// The default ttl of the client library.
const DEFAULT_TTL: Duration = Duration::from_secs(30);

/// The longest metadata that a backend stores.
const METADATA_BYTES: usize = 1024;

/// How long to wait for the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Not at all.
    No,
    /// This long.
    For(Duration),
    /// Until it is free.
    Forever,
}

/// All settings of a run.
#[derive(Clone, Debug)]
pub(crate) struct RunOptions {
    /// The lock.
    pub(crate) name: String,
    /// The locks that are acquired together with it.
    pub(crate) also: Vec<String>,
    /// The command and its arguments; never empty.
    pub(crate) command: Vec<OsString>,
    /// Hold the lock to read.
    pub(crate) shared: bool,
    /// Hold slots of a semaphore with this limit.
    pub(crate) limit: Option<u32>,
    /// How many slots of it.
    pub(crate) weight: u32,
    /// How long to wait for the lock.
    pub(crate) wait: Wait,
    /// The exit code if it was not available.
    pub(crate) conflict_exit_code: u8,
    /// How long a lease lasts unless it is renewed, on stores where leases end by time.
    pub(crate) ttl: Option<Duration>,
    /// The lock is lost after this long.
    pub(crate) max_hold: Option<Duration>,
    /// The lock stays taken for this long.
    pub(crate) min_hold: Option<Duration>,
    /// What happens to the command on loss.
    pub(crate) on_lost: OnLost,
    /// Time between TERM and KILL.
    pub(crate) kill_after: Option<Duration>,
    /// What others see about this holder, if anything.
    pub(crate) metadata: Option<String>,
    /// The holder is a leader, which campaigns again after a loss; the metadata is its candidate.
    pub(crate) is_candidate: bool,
}

impl RunOptions {
    /// Combines command line, config file and defaults.
    pub(crate) fn new(args: RunArgs, config: &RunConfig) -> Self {
        let wait = match args.wait.or(config.wait) {
            _ if args.no_wait => Wait::No,
            Some(Duration::ZERO) => Wait::No,
            Some(time) => Wait::For(time),
            None => Wait::Forever,
        };
        let command = match args.shell_line {
            Some(line) => shell(line),
            None => args.command,
        };
        let metadata = args.metadata.unwrap_or_else(|| described(&command));
        Self {
            name: args.name,
            also: args.also,
            metadata: Some(human::truncate(&metadata, METADATA_BYTES).to_owned())
                .filter(|text| !text.is_empty()),
            command,
            shared: args.shared,
            limit: args.limit,
            weight: args.weight.unwrap_or(1),
            wait,
            conflict_exit_code: args
                .conflict_exit_code
                .or(config.conflict_exit_code)
                .unwrap_or(code::CONFLICT),
            ttl: args.ttl.or(config.ttl),
            max_hold: args.max_hold.or(config.max_hold),
            // A slot and a reader have none.
            min_hold: args
                .min_hold
                .or(config.min_hold.filter(|_| args.limit.is_none() && !args.shared)),
            on_lost: args.on_lost.or(config.on_lost).unwrap_or_default(),
            kill_after: args.kill_after.or(config.kill_after),
            is_candidate: false,
        }
    }

    /// Combines the command line of a candidate, config file and defaults.
    pub(crate) fn of_candidate(args: ElectArgs, config: &RunConfig) -> Self {
        Self {
            name: args.name,
            also: Vec::new(),
            command: args.shell_line.map_or(args.command, shell),
            shared: false,
            limit: None,
            weight: 1,
            wait: Wait::Forever,
            conflict_exit_code: code::CONFLICT,
            ttl: args.ttl.or(config.ttl),
            max_hold: None,
            min_hold: None,
            on_lost: OnLost::Kill,
            kill_after: args.kill_after.or(config.kill_after),
            metadata: args.candidate,
            is_candidate: true,
        }
    }

    /// Refuses what no single option shows to be wrong.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match self.limit {
            Some(limit) if self.weight > limit => Err(Failure::own(format!(
                "--weight: must be between 1 and --limit, which is {limit}, got {}",
                self.weight
            ))),
            _ => Ok(()),
        }
    }

    /// Returns the names of all locks.
    pub(crate) fn names(&self) -> Vec<String> {
        [std::slice::from_ref(&self.name), &self.also].concat()
    }

    /// Returns the time between TERM and KILL for the rest of the command's group after the command
    /// has ended: half the loss margin of the ttl, unless set otherwise.
    pub(crate) fn rest_kill_after(&self) -> Duration {
        let ttl = self.ttl.unwrap_or(DEFAULT_TTL);
        let margin = (ttl / 10).max(Duration::from_millis(50)).min(ttl / 3);
        self.kill_after.unwrap_or(margin / 2)
    }
}

/// Returns the shell that runs a `-c` line, as flock(1) chooses it.
fn shell(line: OsString) -> Vec<OsString> {
    let shell = std::env::var_os("SHELL").filter(|shell| !shell.is_empty());
    vec![shell.unwrap_or_else(|| "/bin/sh".into()), "-c".into(), line]
}

/// Returns the program without its arguments: they may contain a password, and the store shows the
/// text to every user who may look, for longer than the command runs.
fn described(command: &[OsString]) -> String {
    command.first().map(|program| program.to_string_lossy().into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    #[test]
    fn a_candidate_takes_ttl_and_kill_after_of_the_config_file_unless_an_option_sets_them() {
        let secs = Duration::from_secs;
        let (ttl, kill_after) = (Some(secs(9)), Some(secs(2)));
        let config = RunConfig { ttl, kill_after, ..RunConfig::default() };
        for (options, expected) in [
            (&[][..], (ttl, kill_after)),
            (&["--ttl", "7s", "--kill-after", "1s"], (Some(secs(7)), Some(secs(1)))),
        ] {
            let words = [&["leasehold", "elect"], options, &["a", "true"]].concat();
            let Command::Elect(args) = Cli::try_parse_from(words).unwrap().command else {
                panic!("another subcommand");
            };
            let candidate = RunOptions::of_candidate(args, &config);
            assert_eq!((candidate.ttl, candidate.kill_after), expected, "{options:?}");
        }
    }
}
