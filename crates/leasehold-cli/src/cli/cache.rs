//! The command line of `leasehold cache`.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::utf8;
use crate::duration;
use crate::help;
use crate::number;

/// `leasehold cache`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum CacheCommand {
    /// Create the outbox table in a database, or the stream of NATS JetStream
    ///
    /// Repeating it changes nothing.
    Init(CacheInitArgs),
    /// Deliver the rows of the outbox: invalidate in Redis, or put them into a stream
    ///
    /// --store names the Redis server, or its sentinels. Several relays may run at once. TERM and
    /// INT end it after its current batch, with 0. Rows that cannot be delivered wait in the table.
    #[command(after_help = help::RELAY_HELP)]
    Relay(CacheRelayArgs),
    /// Invalidate in Redis what relays have put into a stream of NATS JetStream
    ///
    /// --store names the Redis server. Several may run at once: those of one durable share the
    /// work. TERM and INT end it after its current batch, with 0. Messages that cannot be applied
    /// wait in the stream.
    #[cfg(feature = "nats")]
    #[command(after_help = help::APPLY_HELP)]
    Apply(CacheApplyArgs),
}

/// The place of the outbox.
#[derive(Args, Clone, Debug)]
pub(crate) struct OutboxArgs {
    /// The database: postgres://, mysql:// or sqlite:
    #[arg(long, value_name = "URL", value_parser = utf8())]
    pub(crate) database: String,

    /// The table, optionally with its schema and a dot in front
    #[arg(
        long, value_name = "NAME", default_value = "leasehold_cache_outbox", value_parser = utf8()
    )]
    pub(crate) table: String,
}

/// `leasehold cache init`.
#[derive(Args, Clone, Debug)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true))]
pub(crate) struct CacheInitArgs {
    /// The database: postgres://, mysql:// or sqlite:
    #[arg(long, value_name = "URL", value_parser = utf8(), group = "what")]
    pub(crate) database: Option<String>,

    /// The table, optionally with its schema and a dot in front
    #[arg(
        long, value_name = "NAME", default_value = "leasehold_cache_outbox", value_parser = utf8()
    )]
    pub(crate) table: String,

    /// The stream: nats:// or tls://, with its name, subject, replicas and max-age as options
    #[cfg(feature = "nats")]
    #[arg(long, value_name = "URL", value_parser = utf8(), group = "what")]
    pub(crate) to: Option<String>,

    /// Print the statements and the stream's configuration, and create nothing
    #[arg(long)]
    pub(crate) print: bool,
}

/// How often a running subcommand reports its progress.
#[derive(Args, Clone, Debug)]
pub(crate) struct Pace {
    /// Time between two progress lines
    #[arg(
        long, value_name = "DUR", default_value = "10s", value_parser = duration::parse_positive,
        allow_hyphen_values = true
    )]
    pub(crate) interval: Duration,

    /// Print the lines as JSON objects
    #[arg(long)]
    pub(crate) json: bool,
}

/// `leasehold cache relay`.
#[derive(Args, Clone, Debug)]
pub(crate) struct CacheRelayArgs {
    #[command(flatten)]
    pub(crate) outbox: OutboxArgs,

    /// The destination, if not the store: redis:// or, for a stream, nats:// or tls://
    #[arg(long, value_name = "URL", value_parser = utf8())]
    pub(crate) to: Option<String>,

    /// End when no row is due
    #[arg(long)]
    pub(crate) once: bool,

    /// First try parked rows again
    #[arg(long)]
    pub(crate) retry_parked: bool,

    /// Rows in one batch, 1 to 1000
    #[arg(
        long, value_name = "NUMBER", default_value_t = 256, value_parser = number::within::<usize>(1..=1000),
        allow_hyphen_values = true
    )]
    pub(crate) batch: usize,

    /// How often it polls while there is no row, 10ms to 1m; PostgreSQL also wakes it
    #[arg(
        long, value_name = "DUR", default_value = "200ms", value_parser = duration::parse,
        allow_hyphen_values = true
    )]
    pub(crate) poll: Duration,

    /// How long other relays leave the rows of a batch alone if this relay dies, 1s to 1h
    #[arg(
        long, value_name = "DUR", default_value = "30s", value_parser = duration::parse,
        allow_hyphen_values = true
    )]
    pub(crate) claim: Duration,

    /// How often a row may be refused before it is parked, 1 to 1000
    #[arg(
        long, value_name = "NUMBER", default_value_t = 10, value_parser = number::within::<u32>(1..=1000),
        allow_hyphen_values = true
    )]
    pub(crate) tries: u32,

    #[command(flatten)]
    pub(crate) pace: Pace,
}

/// `leasehold cache apply`.
#[cfg(feature = "nats")]
#[derive(Args, Clone, Debug)]
pub(crate) struct CacheApplyArgs {
    /// The stream: nats:// or tls://, with its name and subject and the durable's name as options
    #[arg(long, value_name = "URL", value_parser = utf8())]
    pub(crate) from: String,

    /// End when the stream has no more messages
    #[arg(long)]
    pub(crate) once: bool,

    /// Messages in one batch, 1 to 1000
    #[arg(
        long, value_name = "NUMBER", default_value_t = 256, value_parser = number::within::<usize>(1..=1000),
        allow_hyphen_values = true
    )]
    pub(crate) batch: usize,

    /// How long other receivers leave the messages of a batch alone if this one dies, 1s to 1h; the
    /// first receiver sets it for the durable
    #[arg(
        long, value_name = "DUR", default_value = "30s", value_parser = duration::parse,
        allow_hyphen_values = true
    )]
    pub(crate) claim: Duration,

    /// How often a message may be refused before it is abandoned, 1 to 1000
    #[arg(
        long, value_name = "NUMBER", default_value_t = 10, value_parser = number::within::<u32>(1..=1000),
        allow_hyphen_values = true
    )]
    pub(crate) tries: u32,

    #[command(flatten)]
    pub(crate) pace: Pace,
}
