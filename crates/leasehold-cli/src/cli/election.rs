//! The command line of `elect` and `leader`.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;

use super::utf8;
use crate::{duration, help};

/// `leasehold elect`.
#[derive(Args, Clone, Debug)]
#[command(after_help = help::ELECT_HELP)]
#[command(override_usage = "leasehold elect [OPTIONS] <NAME> [--] <CMD>...\n       \
                            leasehold elect [OPTIONS] <NAME> -c <LINE>")]
pub(crate) struct ElectArgs {
    /// The election: 1 to 512 bytes of UTF-8 without control characters
    #[arg(value_name = "NAME", value_parser = utf8())]
    pub(crate) name: String,

    /// The command and its arguments; a command that itself starts with - needs -- before it
    #[arg(value_name = "CMD", trailing_var_arg = true, required_unless_present = "shell_line")]
    pub(crate) command: Vec<OsString>,

    /// Run this line with $SHELL, or /bin/sh
    #[arg(
        short = 'c',
        long = "command",
        value_name = "LINE",
        allow_hyphen_values = true,
        conflicts_with = "command"
    )]
    pub(crate) shell_line: Option<OsString>,

    /// What others see while this candidate leads, such as its address: 1 byte to 1 KiB
    /// [default: the host and the process id]
    #[arg(long, value_name = "VALUE", value_parser = utf8())]
    pub(crate) candidate: Option<String>,

    /// How long a leader that crashed is not replaced, on stores where leases end by time: 10ms to
    /// 24h [default: 30s]
    #[arg(long, value_name = "DUR", value_parser = duration::parse_ttl, allow_hyphen_values = true)]
    pub(crate) ttl: Option<Duration>,

    /// Time between TERM and KILL [default: half the loss margin; never beyond the deadline]
    #[arg(long, value_name = "DUR", value_parser = duration::parse, allow_hyphen_values = true)]
    pub(crate) kill_after: Option<Duration>,
}

/// `leasehold leader`.
#[derive(Args, Clone, Debug)]
pub(crate) struct LeaderArgs {
    /// The election
    #[arg(value_name = "NAME", value_parser = utf8())]
    pub(crate) name: String,

    /// Print each change, until it is interrupted
    #[arg(long)]
    pub(crate) watch: bool,

    /// Time between two polls
    #[arg(
        long, value_name = "DUR", default_value = "1s", value_parser = duration::parse_positive,
        allow_hyphen_values = true
    )]
    pub(crate) interval: Duration,

    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
}
