//! The command line: subcommands, options and their help.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

use crate::duration;
use crate::manual;
use crate::number;
use crate::run::options::OnLost;

/// Run a command while holding a lock, and look after locks
///
/// A lock is a name that at most one owner holds at a time. Without a server, locks live in a
/// directory on this machine; --store, LEASEHOLD_STORE or a config file name another place.
#[derive(Clone, Debug, Parser)]
#[command(name = "leasehold", version, max_term_width = 100, subcommand_required = true)]
#[command(args_override_self = true)]
#[command(after_help = manual::SHORT_HELP)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) globals: Globals,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Where help lists the options that every subcommand has.
const ALL: &str = "Options of all subcommands";

/// Options that stand before or after the subcommand.
#[derive(Args, Clone, Debug)]
pub(crate) struct Globals {
    /// Where the locks are, such as file:/var/lib/leasehold [default: what --config says,
    /// then LEASEHOLD_STORE, then the config files, then a directory of this user]
    #[arg(long, global = true, help_heading = ALL, value_name = "URL", value_parser = utf8())]
    pub(crate) store: Option<String>,

    /// Read this config file, and no other
    #[arg(long, global = true, help_heading = ALL, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Say more
    #[arg(short, long, global = true, help_heading = ALL, conflicts_with = "quiet")]
    pub(crate) verbose: bool,

    /// Say nothing but errors
    #[arg(short, long, global = true, help_heading = ALL)]
    pub(crate) quiet: bool,
}

/// The subcommands.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a command while holding a lock
    ///
    /// The command gets a process group of its own, the terminal, standard input and every signal.
    /// The whole group ends before the lock can pass on, also when leasehold itself is killed.
    Run(RunArgs),
    /// List the known locks
    ///
    /// A directory knows every name that was ever locked in it, by two small files that stay;
    /// --held leaves out those that nobody holds. On a terminal, rows are cut to its width.
    List(ListArgs),
    /// Show who holds a lock and who waits for it; exits with 0 if it is held, 1 if it is free
    Status(StatusArgs),
    /// Follow a lock, or all whose names start alike
    ///
    /// It looks each --interval, and says what has changed since; what happens between two looks
    /// is not seen. The first look is always told. On a terminal there is a table that is drawn
    /// anew; elsewhere a line for each change, with the moment in UTC, or JSON.
    Watch(WatchArgs),
    /// End the lease of a holder that cannot end it itself
    ///
    /// It exits with 0 when it ended the lease, with 1 when that had ended before. It never works
    /// on file: stores. There the kernel keeps the lock for as long as the holder's process has it
    /// open, and nobody else can take it away; the process to end is named instead.
    ForceRelease(ForceReleaseArgs),
    /// Make the tables of a store that needs some: postgres://, mysql:// and sqlite:
    ///
    /// The first use of such a store makes them too, if its user may. Done again, it changes nothing.
    Init(InitArgs),
    /// Set up the nodes of a quorum (redlock://...), or look at them
    #[command(subcommand)]
    Quorum(QuorumCommand),
    /// Look at a store for everything that can hurt locks
    ///
    /// It locks nothing and changes nothing, and sees what this user may see; the rest is named.
    #[command(after_help = manual::DOCTOR_HELP)]
    Doctor(DoctorArgs),
    /// Measure what locks cost on a store
    ///
    /// It measures on the store that --store names, under names of its own (leasehold-bench/...), and
    /// removes them at the end. When it is interrupted, what is left of them goes by itself on
    /// servers, within two hours; in a directory it stays, and locks nobody out.
    #[cfg(feature = "bench")]
    Bench(leasehold_bench::Bench),
    /// Keep a cache in Redis true to its database: the outbox of its invalidations
    #[cfg(feature = "cache")]
    #[command(subcommand)]
    Cache(CacheCommand),
    /// Play the stories of locks that fail, in a simulator; nothing is locked
    ///
    /// Each story shows what a pause, a clock, a restart or a lost message does to a lock, on a set-up
    /// of your choice: what happens when, and what would have prevented it. Nothing but the files
    /// that are asked for is written, and no server is needed.
    #[cfg(feature = "lab")]
    Lab(LabArgs),
    /// Print the completions for a shell
    #[command(after_help = manual::COMPLETIONS_HELP)]
    Completions(CompletionsArgs),
    /// Show a manual page, or write all of them to a directory
    ///
    /// On a terminal man(1) shows the page; without man(1) it is plain text. A file or a pipe gets the
    /// source of the page, for nroff(1).
    Man(ManArgs),
}

/// `leasehold run`.
#[derive(Args, Clone, Debug)]
#[command(after_help = manual::RUN_HELP)]
#[command(override_usage = "leasehold run [OPTIONS] <NAME> [--] <CMD>...\n       \
                            leasehold run [OPTIONS] <NAME> -c <LINE>")]
pub(crate) struct RunArgs {
    /// The lock: 1 to 512 bytes of UTF-8 without control characters
    #[arg(value_name = "NAME", value_parser = utf8())]
    pub(crate) name: String,

    /// The command and its arguments; a command that itself starts with - needs -- before it
    #[arg(
        value_name = "CMD",
        // What follows the first word is the command's own. The first word may start with `-` after `--`
        // only: without that it is an option that was mistyped.
        trailing_var_arg = true,
        required_unless_present = "shell_line"
    )]
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

    /// Do not wait when somebody else holds the lock
    #[arg(short, long, conflicts_with = "wait")]
    pub(crate) no_wait: bool,

    /// Wait this long at most; 0 is --no-wait [default: as long as it takes]
    #[arg(
        short, long, value_name = "DUR", value_parser = duration::parse, allow_hyphen_values = true
    )]
    pub(crate) wait: Option<Duration>,

    /// Exit code when the lock was not to be had [default: 1]
    #[arg(short = 'E', long, value_name = "CODE", allow_hyphen_values = true)]
    pub(crate) conflict_exit_code: Option<u8>,

    /// How long the lock outlives a crash, on stores where leases end by time: 10ms to 24h
    /// [default: 30s]
    #[arg(long, value_name = "DUR", value_parser = duration::parse_ttl, allow_hyphen_values = true)]
    pub(crate) ttl: Option<Duration>,

    /// Lose the lock after this long, whatever the command does; the command is ended sooner, by
    /// the loss margin: a tenth of the ttl, at least 50 ms, at most a third of the time
    #[arg(
        long, value_name = "DUR", value_parser = duration::parse_positive, allow_hyphen_values = true
    )]
    pub(crate) max_hold: Option<Duration>,

    /// Keep the lock for at least this long, even if the command ends sooner. A short job on many
    /// machines needs it, longer than their clocks differ, or it runs twice. Not after TERM or INT
    #[arg(long, value_name = "DUR", value_parser = duration::parse, allow_hyphen_values = true)]
    pub(crate) min_hold: Option<Duration>,

    /// What happens to the command when the lock is lost [default: kill]
    #[arg(long, value_name = "WHAT", value_enum)]
    pub(crate) on_lost: Option<OnLost>,

    /// Time between TERM and KILL [default: half the loss margin; never beyond the deadline]
    #[arg(long, value_name = "DUR", value_parser = duration::parse, allow_hyphen_values = true)]
    pub(crate) kill_after: Option<Duration>,

    /// What others see about this holder, cut at 1 KiB [default: the program's name, without its
    /// arguments, which may hold secrets]
    #[arg(long, value_name = "TEXT", value_parser = utf8())]
    pub(crate) metadata: Option<String>,
}

/// `leasehold list`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ListArgs {
    /// Only names that start with this
    #[arg(
        value_name = "PREFIX", default_value = "", hide_default_value = true,
        value_parser = utf8()
    )]
    pub(crate) prefix: String,

    /// Only locks that are held, or kept after their holder
    #[arg(long)]
    pub(crate) held: bool,

    /// List this many at most
    #[arg(
        long, default_value_t = 1000, value_name = "NUMBER",
        value_parser = number::within::<usize>(0..=u64::MAX), allow_hyphen_values = true
    )]
    pub(crate) limit: usize,

    /// One JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

/// `leasehold status`.
#[derive(Args, Clone, Debug)]
pub(crate) struct StatusArgs {
    /// The lock
    #[arg(value_name = "NAME", value_parser = utf8())]
    pub(crate) name: String,

    /// One JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// `leasehold watch`.
#[derive(Args, Clone, Debug)]
pub(crate) struct WatchArgs {
    /// A name, or what names start with
    #[arg(
        value_name = "NAME|PREFIX", default_value = "", hide_default_value = true,
        value_parser = utf8()
    )]
    pub(crate) prefix: String,

    /// Time between two looks
    #[arg(
        long, value_name = "DUR", default_value = "1s", value_parser = duration::parse_positive,
        allow_hyphen_values = true
    )]
    pub(crate) interval: Duration,

    /// One JSON object a line for each change
    #[arg(long)]
    pub(crate) json: bool,
}

/// `leasehold force-release`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ForceReleaseArgs {
    /// The lock
    #[arg(value_name = "NAME", value_parser = utf8())]
    pub(crate) name: String,

    /// The token of the lease to end, as `status` shows it; a later one is left alone
    #[arg(
        long, value_name = "TOKEN", value_parser = number::within::<u64>(1..=leasehold::Token::MAX.get()),
        allow_hyphen_values = true
    )]
    pub(crate) token: u64,

    /// One JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// `leasehold init`.
#[derive(Args, Clone, Debug)]
pub(crate) struct InitArgs {
    /// Print the statements, and run none
    #[arg(long)]
    pub(crate) print: bool,
}

/// `leasehold quorum`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum QuorumCommand {
    /// Let the nodes vote: at their first start, or after more have forgotten than can be made up for
    ///
    /// Nodes that may vote already stay as they are. A node that does not answer is left out; it comes
    /// in by itself when it does.
    Init(QuorumInitArgs),
    /// Show what each node is; exits with 0 if locks can be had, 69 if not, or if a client would refuse
    /// to connect: a node that cannot take part, the same server twice
    ///
    /// It looks as every client does that connects: a node that has forgotten begins to wait by that.
    Status(QuorumStatusArgs),
}

/// `leasehold quorum init`.
#[derive(Args, Clone, Debug)]
pub(crate) struct QuorumInitArgs {
    /// Most nodes have lost their data: wait until no lease can be left, then begin with tokens at
    /// the wall clock. Without it you say that nobody holds a lock
    #[arg(long)]
    pub(crate) after_loss: bool,

    /// The longest ttl that the nodes will grant, and how long one stays out that may have forgotten
    /// [default: max-ttl of the URL, or 60s]
    #[arg(long, value_name = "DUR", value_parser = duration::parse_ttl, allow_hyphen_values = true)]
    pub(crate) max_ttl: Option<Duration>,

    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
}

/// `leasehold quorum status`.
#[derive(Args, Clone, Debug)]
pub(crate) struct QuorumStatusArgs {
    /// One JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// `leasehold doctor`.
#[derive(Args, Clone, Debug)]
pub(crate) struct DoctorArgs {
    /// The store [default: as for all subcommands]
    #[arg(value_name = "URL", value_parser = utf8(), conflicts_with = "store")]
    pub(crate) url: Option<String>,

    /// One JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// `leasehold cache`.
#[cfg(feature = "cache")]
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum CacheCommand {
    /// Make the outbox table in a database, or the stream of NATS JetStream
    ///
    /// Done again, it changes nothing.
    Init(CacheInitArgs),
    /// Deliver what transactions have put into the outbox: invalidate in Redis, or put it into a stream
    ///
    /// --store names the Redis server, or its sentinels. Several relays may run at once. TERM and INT end it after the
    /// batch that it has, with 0. What cannot be delivered waits in the table.
    #[command(after_help = manual::RELAY_HELP)]
    Relay(CacheRelayArgs),
    /// Invalidate in Redis what relays have put into a stream of NATS JetStream
    ///
    /// --store names the Redis server. Several may run at once: those of one durable share the work. TERM
    /// and INT end it after the batch that it has, with 0. What cannot be applied waits in the stream.
    #[cfg(feature = "nats")]
    #[command(after_help = manual::APPLY_HELP)]
    Apply(CacheApplyArgs),
}

/// Where the outbox is.
#[cfg(feature = "cache")]
#[derive(Args, Clone, Debug)]
pub(crate) struct OutboxArgs {
    /// The database: postgres://, mysql:// or sqlite:
    #[arg(long, value_name = "URL", value_parser = utf8())]
    pub(crate) database: String,

    /// The table, with its schema and a dot before it if need be
    #[arg(
        long, value_name = "NAME", default_value = "leasehold_cache_outbox", value_parser = utf8()
    )]
    pub(crate) table: String,
}

/// `leasehold cache init`.
#[cfg(feature = "cache")]
#[derive(Args, Clone, Debug)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true))]
pub(crate) struct CacheInitArgs {
    /// The database: postgres://, mysql:// or sqlite:
    #[arg(long, value_name = "URL", value_parser = utf8(), group = "what")]
    pub(crate) database: Option<String>,

    /// The table, with its schema and a dot before it if need be
    #[arg(
        long, value_name = "NAME", default_value = "leasehold_cache_outbox", value_parser = utf8()
    )]
    pub(crate) table: String,

    /// The stream: nats:// or tls://, with its name, subject, replicas and max-age as options
    #[cfg(feature = "nats")]
    #[arg(long, value_name = "URL", value_parser = utf8(), group = "what")]
    pub(crate) to: Option<String>,

    /// Print the statements and the stream's configuration, and make nothing
    #[arg(long)]
    pub(crate) print: bool,
}

/// How often something that goes on says how it goes.
#[cfg(feature = "cache")]
#[derive(Args, Clone, Debug)]
pub(crate) struct Pace {
    /// Time between two lines that say how it goes
    #[arg(
        long, value_name = "DUR", default_value = "10s", value_parser = duration::parse_positive,
        allow_hyphen_values = true
    )]
    pub(crate) interval: Duration,

    /// The lines as JSON objects
    #[arg(long)]
    pub(crate) json: bool,
}

/// `leasehold cache relay`.
#[cfg(feature = "cache")]
#[derive(Args, Clone, Debug)]
pub(crate) struct CacheRelayArgs {
    #[command(flatten)]
    pub(crate) outbox: OutboxArgs,

    /// Where to, if not to the store: redis:// or, into a stream, nats:// or tls://
    #[arg(long, value_name = "URL", value_parser = utf8())]
    pub(crate) to: Option<String>,

    /// End when nothing is due
    #[arg(long)]
    pub(crate) once: bool,

    /// Try parked rows anew, first of all
    #[arg(long)]
    pub(crate) retry_parked: bool,

    /// Rows that are taken at a time, 1 to 1000
    #[arg(
        long, value_name = "NUMBER", default_value_t = 256, value_parser = number::within::<usize>(1..=1000),
        allow_hyphen_values = true
    )]
    pub(crate) batch: usize,

    /// How often it looks while there is nothing, 10ms to 1m; PostgreSQL wakes it besides
    #[arg(
        long, value_name = "DUR", default_value = "200ms", value_parser = duration::parse,
        allow_hyphen_values = true
    )]
    pub(crate) poll: Duration,

    /// For how long others leave the rows of a batch alone when this relay dies, 1s to 1h
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

    /// End when the stream holds no more
    #[arg(long)]
    pub(crate) once: bool,

    /// Messages that are taken at a time, 1 to 1000
    #[arg(
        long, value_name = "NUMBER", default_value_t = 256, value_parser = number::within::<usize>(1..=1000),
        allow_hyphen_values = true
    )]
    pub(crate) batch: usize,

    /// For how long others leave the messages of a batch alone when this one dies, 1s to 1h; of the
    /// durable that the first one makes
    #[arg(
        long, value_name = "DUR", default_value = "30s", value_parser = duration::parse,
        allow_hyphen_values = true
    )]
    pub(crate) claim: Duration,

    /// How often a message may be refused before it is given up, 1 to 1000
    #[arg(
        long, value_name = "NUMBER", default_value_t = 10, value_parser = number::within::<u32>(1..=1000),
        allow_hyphen_values = true
    )]
    pub(crate) tries: u32,

    #[command(flatten)]
    pub(crate) pace: Pace,
}

/// `leasehold lab`.
#[cfg(feature = "lab")]
#[derive(Args, Clone, Debug)]
#[command(after_help = manual::LAB_HELP)]
pub(crate) struct LabArgs {
    /// `list`, `matrix`, `walk-through`, or a story
    #[arg(value_name = "STORY", default_value = "list", value_parser = utf8())]
    pub(crate) story: String,

    /// Play the story on this set-up [default: the one that the story is told about]
    #[arg(long, value_name = "SET-UP", value_parser = utf8())]
    pub(crate) setup: Option<String>,

    /// What chance is drawn from; the same seed plays the same story [default: 1]
    #[arg(
        long, value_name = "NUMBER", value_parser = number::within::<u64>(0..=u64::MAX),
        allow_hyphen_values = true
    )]
    pub(crate) seed: Option<u64>,

    /// How many runs a cell of the matrix has [default: 100]
    #[arg(
        long, value_name = "NUMBER", value_parser = number::within::<u64>(1..=u64::MAX),
        allow_hyphen_values = true
    )]
    pub(crate) seeds: Option<u64>,

    /// Draw the story, or the matrix, into this file
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,

    /// The matrix, or the list, as one JSON object a line
    #[arg(long, conflicts_with = "markdown")]
    pub(crate) json: bool,

    /// The matrix as a document
    #[arg(long)]
    pub(crate) markdown: bool,
}

/// `leasehold completions`.
#[derive(Args, Clone, Debug)]
pub(crate) struct CompletionsArgs {
    /// Which shell
    pub(crate) shell: Shell,
}

/// `leasehold man`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ManArgs {
    /// The subcommand whose page it is [default: the page of leasehold]
    #[arg(value_name = "COMMAND", conflicts_with = "dir")]
    pub(crate) command: Option<String>,

    /// Write all pages into this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

/// Text; what is not UTF-8 is an error that names the argument.
fn utf8() -> impl TypedValueParser<Value = String> {
    OsStringValueParser::new().try_map(|text| text.into_string().map_err(|_| "it is not UTF-8"))
}
