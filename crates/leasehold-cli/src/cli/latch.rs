//! The command line of `latch`.

use std::time::Duration;

use clap::Args;

use super::utf8;
use crate::{duration, number};

/// `leasehold latch`.
#[derive(Args, Clone, Debug)]
pub(crate) struct LatchArgs {
    /// The latch: 1 to 512 bytes of UTF-8 without control characters
    #[arg(value_name = "NAME", value_parser = utf8())]
    pub(crate) name: String,

    /// How many parties must count down: 1 to 1,000
    #[arg(
        long, value_name = "NUMBER", value_parser = number::within::<u32>(1..=1000),
        allow_hyphen_values = true
    )]
    pub(crate) parties: u32,

    /// Count this party down; its name stays the same if it is repeated: 1 to 64 bytes
    #[arg(long, value_name = "PARTY", value_parser = utf8())]
    pub(crate) count_down: Option<String>,

    /// Wait until no party is missing
    #[arg(long)]
    pub(crate) wait: bool,

    /// Wait at most this long [default: no limit]
    #[arg(
        long, value_name = "DUR", value_parser = duration::parse, allow_hyphen_values = true,
        requires = "wait"
    )]
    pub(crate) within: Option<Duration>,

    /// Begin the next generation, in which all parties are missing again; 125 if one is missing now
    #[arg(long, conflicts_with_all = ["count_down", "wait"])]
    pub(crate) reset: bool,

    /// Count down, await or reset this generation, and no later one [default: the present one]
    #[arg(
        long, value_name = "NUMBER", value_parser = number::within::<u64>(0..=u64::MAX),
        allow_hyphen_values = true
    )]
    pub(crate) generation: Option<u64>,

    /// How long the store keeps the latch after its last change: 1s to 30d [default: 24h]
    #[arg(long, value_name = "DUR", value_parser = duration::parse_positive, allow_hyphen_values = true)]
    pub(crate) ttl: Option<Duration>,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
