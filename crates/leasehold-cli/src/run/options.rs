//! What `leasehold run` was asked to do: command line over config file over defaults.

use std::ffi::OsString;
use std::time::Duration;

use serde::Deserialize;

use crate::cli::RunArgs;
use crate::config::RunConfig;
use crate::failure::code;
use crate::human;

/// The ttl that the client library uses unless told otherwise.
const DEFAULT_TTL: Duration = Duration::from_secs(30);

/// The longest metadata that a backend keeps.
const METADATA_BYTES: usize = 1024;

/// What happens to the command when its lock is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OnLost {
    /// TERM, then KILL, all before the lock can pass on; exit code 76
    #[default]
    Kill,
    /// Say so on stderr, and let it go on
    Warn,
    /// Let it go on
    Ignore,
}

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

/// Everything that a run needs to know.
#[derive(Clone, Debug)]
pub(crate) struct RunOptions {
    /// The lock.
    pub(crate) name: String,
    /// The command and its arguments; never empty.
    pub(crate) command: Vec<OsString>,
    /// How long to wait for the lock.
    pub(crate) wait: Wait,
    /// The exit code when it was not to be had.
    pub(crate) conflict_exit_code: u8,
    /// How long a lease lasts unless renewed, where leases end by time.
    pub(crate) ttl: Option<Duration>,
    /// The lock is lost after this long.
    pub(crate) max_hold: Option<Duration>,
    /// The lock stays taken for this long.
    pub(crate) min_hold: Option<Duration>,
    /// What happens to the command on loss.
    pub(crate) on_lost: OnLost,
    /// Time between TERM and KILL.
    pub(crate) kill_after: Option<Duration>,
    /// What others see about this holder; empty for nothing.
    pub(crate) metadata: String,
}

impl RunOptions {
    /// Puts command line, config file and defaults together.
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
            metadata: human::truncate(&metadata, METADATA_BYTES).to_owned(),
            command,
            wait,
            conflict_exit_code: args
                .conflict_exit_code
                .or(config.conflict_exit_code)
                .unwrap_or(code::CONFLICT),
            ttl: args.ttl.or(config.ttl),
            max_hold: args.max_hold.or(config.max_hold),
            min_hold: args.min_hold.or(config.min_hold),
            on_lost: args.on_lost.or(config.on_lost).unwrap_or_default(),
            kill_after: args.kill_after.or(config.kill_after),
        }
    }

    /// Time between TERM and KILL for what is left of the command's group when the command has
    /// ended: half the loss margin that goes with the ttl, unless said otherwise.
    pub(crate) fn rest_kill_after(&self) -> Duration {
        let ttl = self.ttl.unwrap_or(DEFAULT_TTL);
        let margin = (ttl / 10).max(Duration::from_millis(50)).min(ttl / 3);
        self.kill_after.unwrap_or(margin / 2)
    }
}

/// The shell that runs a `-c` line, as flock(1) chooses it.
fn shell(line: OsString) -> Vec<OsString> {
    let shell = std::env::var_os("SHELL").filter(|shell| !shell.is_empty());
    vec![shell.unwrap_or_else(|| "/bin/sh".into()), "-c".into(), line]
}

/// The program, and nothing of its arguments: they may hold a password, and the store keeps what
/// it is told for everybody who may look, and longer than the command runs.
fn described(command: &[OsString]) -> String {
    command.first().map(|program| program.to_string_lossy().into_owned()).unwrap_or_default()
}
