//! The command line: subcommands, options and their help.

#[cfg(feature = "cache")]
mod cache;
mod election;
mod latch;
mod quorum;
#[cfg(feature = "serve")]
mod serve;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{ArgGroup, Args, Parser, Subcommand};
use clap_complete::Shell;
use leasehold::AttemptId;

#[cfg(feature = "nats")]
pub(crate) use self::cache::CacheApplyArgs;
#[cfg(feature = "cache")]
pub(crate) use self::cache::{CacheCommand, CacheInitArgs, CacheRelayArgs, Pace};
pub(crate) use self::election::{ElectArgs, LeaderArgs};
pub(crate) use self::latch::LatchArgs;
pub(crate) use self::quorum::{QuorumCommand, QuorumInitArgs, QuorumStatusArgs};
#[cfg(feature = "serve")]
pub(crate) use self::serve::ServeArgs;
use crate::duration;
use crate::help;
use crate::lang::Lang;
use crate::number;
use crate::on_lost::OnLost;

/// Run a command while holding a lock, and manage locks
///
/// A lock is a name that at most one owner holds at a time. Without a server, locks are in a
/// directory on this machine; --store, LEASEHOLD_STORE or a config file name another place.
#[derive(Clone, Debug, Parser)]
#[command(name = "leasehold", version, max_term_width = 100, subcommand_required = true)]
#[command(args_override_self = true)]
#[command(after_help = help::SHORT_HELP)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) globals: Globals,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The help heading of the options that every subcommand has.
const ALL: &str = "Options of all subcommands";

/// Options that may be written before or after the subcommand.
#[derive(Args, Clone, Debug)]
pub(crate) struct Globals {
    /// Where the locks are, such as file:/var/lib/leasehold [default: the store in the file of
    /// --config, then LEASEHOLD_STORE, then the config files, then a directory of this user]
    #[arg(long, global = true, help_heading = ALL, value_name = "URL", value_parser = utf8())]
    pub(crate) store: Option<String>,

    /// Read this config file, and no other
    #[arg(long, global = true, help_heading = ALL, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Print more messages
    #[arg(short, long, global = true, help_heading = ALL, conflicts_with = "quiet")]
    pub(crate) verbose: bool,

    /// Print errors only
    #[arg(short, long, global = true, help_heading = ALL)]
    pub(crate) quiet: bool,

    /// The language of help, messages and stories [default: that of LEASEHOLD_LANG, or of the locale]
    #[arg(long, global = true, help_heading = ALL, value_name = "LANGUAGE")]
    pub(crate) lang: Option<Lang>,
}

/// The subcommands.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a command while holding a lock
    ///
    /// The command gets its own process group, the terminal, standard input and every signal. The
    /// whole group ends before the next holder gets the lock, even if leasehold itself is killed.
    Run(RunArgs),
    /// Run a command while this candidate is the leader; campaign again after a loss
    ///
    /// The leader is the holder of the lock NAME. If the leadership is lost, the command is ended
    /// before another leads. When the command ends by itself, the candidate resigns.
    Elect(ElectArgs),
    /// Print the leader of an election; exits with 0 if there is one, else with 1
    ///
    /// It prints the candidate. With --watch it prints each change with the time in UTC: at once if
    /// the store pushes changes, as Redis does; else it polls every --interval, and does not see
    /// changes between two polls.
    Leader(LeaderArgs),
    /// List the known locks
    ///
    /// A directory lists every name that was ever locked in it, since it keeps two small files for
    /// each; --held shows only held locks. On a terminal, rows are cut to its width, and tokens are
    /// left out first.
    List(ListArgs),
    /// Show the holder and the waiters of a lock; exits with 0 if it is held, 1 if it is free
    Status(StatusArgs),
    /// Show or change how many slots of a semaphore may be in use at once
    ///
    /// It exits with 0, or with 1 if no limit is stored yet. A higher limit lets waiters in at once.
    /// After a lower one, runs that hold a slot continue, and no other starts until enough slots are
    /// free. Later runs must name the new limit.
    Limit(LimitArgs),
    /// Wait until several parties have counted down a latch, or count one of them
    ///
    /// It prints how many parties are missing. It exits with 0 if none is, or if it counted a party, and
    /// with 1 if parties are missing, also after --within. A party counts once, however often it is
    /// repeated. The first call stores the number of parties; all calls name the same.
    #[command(after_help = help::LATCH_HELP)]
    Latch(LatchArgs),
    /// Follow one lock, or all locks whose names start with a prefix
    ///
    /// It polls every --interval and prints what changed since; it does not see changes between two
    /// polls. If it follows one lock, and the store pushes changes, as Redis does, it looks at once.
    /// It always prints the first state. On a terminal it redraws a table; elsewhere it prints a line
    /// for each change, with the time in UTC, or JSON.
    Watch(WatchArgs),
    /// End the lease of a holder that cannot end it itself
    ///
    /// It exits with 0 if it ended the lease, with 1 if the lease had ended before. It never works
    /// on file: stores, where the kernel keeps the lock as long as the holder's process has its file
    /// open. The message then names the process to end instead.
    ForceRelease(ForceReleaseArgs),
    /// Create the tables of a store that needs some: postgres://, mysql:// and sqlite:
    ///
    /// The first use of such a store creates them too, if its user may. Repeating it changes
    /// nothing.
    Init(InitArgs),
    /// Set up the nodes of a quorum (redlock://...), or show their state
    #[command(subcommand)]
    Quorum(QuorumCommand),
    /// Check a store for everything that can harm locks
    ///
    /// It locks nothing and changes nothing. It checks what this user may see, and names the rest.
    #[command(after_help = help::DOCTOR_HELP)]
    Doctor(DoctorArgs),
    /// Measure what locks cost on a store
    ///
    /// It measures on the store that --store names, under its own names (leasehold-bench/...), and
    /// removes them at the end. If it is interrupted, servers remove the rest within two hours; in
    /// a directory the rest stays, and blocks no client.
    #[cfg(feature = "bench")]
    Bench(leasehold_bench::Bench),
    /// Keep a cache in Redis consistent with its database: the outbox of its invalidations
    #[cfg(feature = "cache")]
    #[command(subcommand)]
    Cache(CacheCommand),
    /// Serve a dashboard of locks, and an HTTP API to hold them from any language
    ///
    /// It listens on this machine alone, unless it has tokens and TLS. Without --token-file the
    /// address shows locks and changes nothing; a unix socket allows its owner everything.
    #[cfg(feature = "serve")]
    #[command(after_help = help::SERVE_HELP)]
    Serve(Box<ServeArgs>),
    /// Play stories of failing locks and stale caches, in a simulator; nothing is locked
    ///
    /// Each story shows what a pause, a clock, a restart or a lost message does to a lock, or to a
    /// cache, on a set-up of your choice: what happens when, and what would have prevented it.
    /// `walk-through` is a table of 3, 5 and 6 nodes of which some are away; `matrix` counts what
    /// every set-up does under every fault. It writes only the requested files, and needs no server.
    #[cfg(feature = "lab")]
    Lab(LabArgs),
    /// Print the completions for a shell
    #[command(after_help = help::COMPLETIONS_HELP)]
    Completions(CompletionsArgs),
    /// Show a manual page, or write all pages to a directory
    ///
    /// On a terminal man(1) shows the page; without man(1) it is plain text. A file or a pipe gets
    /// the source of the page, for nroff(1).
    Man(ManArgs),
}

/// `leasehold run`.
#[derive(Args, Clone, Debug)]
#[command(after_help = help::RUN_HELP)]
#[command(override_usage = "leasehold run [OPTIONS] <NAME> [--] <CMD>...\n       \
                            leasehold run [OPTIONS] <NAME> -c <LINE>")]
pub(crate) struct RunArgs {
    /// The lock: 1 to 512 bytes of UTF-8 without control characters
    #[arg(value_name = "NAME", value_parser = utf8())]
    pub(crate) name: String,

    /// The command and its arguments; a command that itself starts with - needs -- before it
    #[arg(
        value_name = "CMD",
        // The words after the first word belong to the command. The first word may start with `-`
        // only after `--`: otherwise it is a mistyped option.
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

    /// Acquire this lock too, all of them or none; repeat it for more, at most 64 locks in all. The
    /// other options apply to each lock, --wait to all together
    #[arg(long, value_name = "OTHER", value_parser = utf8())]
    pub(crate) also: Vec<String>,

    /// Hold the lock to read: with other readers, but no other holder (not on quorums)
    #[arg(short, long, conflicts_with = "also")]
    pub(crate) shared: bool,

    /// Take a slot of the semaphore NAME, whose limit is this: up to as many runs at a time. All runs
    /// name the same limit; `leasehold limit` changes it. LEASEHOLD_SLOT is the slot, from 0 on
    #[arg(
        long, value_name = "NUMBER", value_parser = number::within::<u32>(1..=10_000),
        allow_hyphen_values = true, conflicts_with_all = ["also", "shared", "min_hold"]
    )]
    pub(crate) limit: Option<u32>,

    /// Take this many slots of the semaphore together: 1 to 1,024, at most its limit. LEASEHOLD_SLOTS
    /// has them, separated by spaces [default: 1]
    #[arg(
        long, value_name = "NUMBER", value_parser = number::within::<u32>(1..=1024),
        allow_hyphen_values = true, requires = "limit"
    )]
    pub(crate) weight: Option<u32>,

    /// Do not wait if another client holds the lock
    #[arg(short, long, conflicts_with = "wait")]
    pub(crate) no_wait: bool,

    /// Wait at most this long; 0 is --no-wait [default: no limit]
    #[arg(
        short, long, value_name = "DUR", value_parser = duration::parse, allow_hyphen_values = true
    )]
    pub(crate) wait: Option<Duration>,

    /// Exit code if the lock is not available in that time [default: 1]
    #[arg(
        short = 'E', long, value_name = "CODE", value_parser = number::within::<u8>(0..=255),
        allow_hyphen_values = true
    )]
    pub(crate) conflict_exit_code: Option<u8>,

    /// How long the lock outlives a crash, on stores where leases end by time: 10ms to 24h
    /// [default: 30s]
    #[arg(long, value_name = "DUR", value_parser = duration::parse_ttl, allow_hyphen_values = true)]
    pub(crate) ttl: Option<Duration>,

    /// Lose the lock after this long, even if the command still runs; the command is ended sooner,
    /// by the loss margin: a tenth of the ttl, at least 50 ms, at most a third of the time
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

    /// What other users see about this holder, cut at 1 KiB
    /// [default: the program's name, without its arguments, which may contain secrets]
    #[arg(long, value_name = "TEXT", value_parser = utf8())]
    pub(crate) metadata: Option<String>,
}

/// `leasehold list`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ListArgs {
    /// Only names that start with this prefix
    #[arg(
        value_name = "PREFIX", default_value = "", hide_default_value = true,
        value_parser = utf8()
    )]
    pub(crate) prefix: String,

    /// Only locks that are held, kept after their release, or unknown
    #[arg(long)]
    pub(crate) held: bool,

    /// List at most this many
    #[arg(
        long, default_value_t = 1000, value_name = "NUMBER",
        value_parser = number::within::<usize>(0..=u64::MAX), allow_hyphen_values = true
    )]
    pub(crate) limit: usize,

    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
}

/// `leasehold status`.
#[derive(Args, Clone, Debug)]
pub(crate) struct StatusArgs {
    /// The lock
    #[arg(value_name = "NAME", value_parser = utf8())]
    pub(crate) name: String,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// `leasehold limit`.
#[derive(Args, Clone, Debug)]
pub(crate) struct LimitArgs {
    /// The semaphore
    #[arg(value_name = "NAME", value_parser = utf8())]
    pub(crate) name: String,

    /// The new limit [default: show the stored one]
    #[arg(
        value_name = "NUMBER", value_parser = number::within::<u32>(1..=10_000),
        allow_hyphen_values = true
    )]
    pub(crate) limit: Option<u32>,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// `leasehold watch`.
#[derive(Args, Clone, Debug)]
pub(crate) struct WatchArgs {
    /// A name, or the prefix of names
    #[arg(
        value_name = "NAME|PREFIX", default_value = "", hide_default_value = true,
        value_parser = utf8()
    )]
    pub(crate) prefix: String,

    /// Time between two polls
    #[arg(
        long, value_name = "DUR", default_value = "1s", value_parser = duration::parse_positive,
        allow_hyphen_values = true
    )]
    pub(crate) interval: Duration,

    /// Print one JSON object per line for each change
    #[arg(long)]
    pub(crate) json: bool,
}

/// `leasehold force-release`.
#[derive(Args, Clone, Debug)]
#[command(group(ArgGroup::new("lease").required(true).args(["token", "attempt"])))]
pub(crate) struct ForceReleaseArgs {
    /// The lock
    #[arg(value_name = "NAME", value_parser = utf8())]
    pub(crate) name: String,

    /// The token of the lease to end, as `status` shows it; a later lease is not ended. Readers have
    /// one token, and end together
    #[arg(
        long, value_name = "TOKEN", value_parser = number::within::<u64>(1..=leasehold::Token::MAX.get()),
        allow_hyphen_values = true
    )]
    pub(crate) token: Option<u64>,

    /// The owner to end, as `status` shows it: one of several readers, or one permit of a semaphore
    #[arg(long, value_name = "ID", value_parser = parse_attempt)]
    pub(crate) attempt: Option<AttemptId>,

    /// Print one JSON object
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

/// `leasehold doctor`.
#[derive(Args, Clone, Debug)]
pub(crate) struct DoctorArgs {
    /// The store [default: as for all subcommands]
    #[arg(value_name = "URL", value_parser = utf8(), conflicts_with = "store")]
    pub(crate) url: Option<String>,

    /// Look for locks of other libraries whose names begin with this, too (Redis)
    #[arg(long, value_name = "TEXT", value_parser = utf8())]
    pub(crate) prefix: Option<String>,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// `leasehold lab`.
#[cfg(feature = "lab")]
#[derive(Args, Clone, Debug)]
#[command(after_help = help::LAB_HELP)]
pub(crate) struct LabArgs {
    /// A story such as gc-pause, or `list`, `walk-through`, `matrix`
    #[arg(value_name = "STORY", default_value = "list", value_parser = utf8())]
    pub(crate) story: String,

    /// Play the story on this way to lock, such as plain-set, single or redlock (`lab list` has all)
    /// [default: the set-up of the story]
    #[arg(long, value_name = "SET-UP", value_parser = utf8())]
    pub(crate) setup: Option<String>,

    /// The seed of the random numbers; the same seed plays the same story [default: 1]
    #[arg(
        long, value_name = "NUMBER", value_parser = number::within::<u64>(0..=u64::MAX),
        allow_hyphen_values = true
    )]
    pub(crate) seed: Option<u64>,

    /// How many runs the matrix makes of each set-up under each fault [default: 100]
    #[arg(
        long, value_name = "NUMBER", value_parser = number::within::<u64>(1..=u64::MAX),
        allow_hyphen_values = true
    )]
    pub(crate) seeds: Option<u64>,

    /// Draw the story, or the matrix, into this file
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,

    /// Print the matrix, or the list, as one JSON object per line
    #[arg(long, conflicts_with = "markdown")]
    pub(crate) json: bool,

    /// Print the matrix as a Markdown document
    #[arg(long)]
    pub(crate) markdown: bool,
}

/// `leasehold completions`.
#[derive(Args, Clone, Debug)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: Shell,
}

/// `leasehold man`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ManArgs {
    /// The subcommand of the page [default: the page of leasehold]
    #[arg(value_name = "COMMAND", conflicts_with = "dir")]
    pub(crate) command: Option<String>,

    /// Write all pages into this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

/// Parses the id of an attempt.
fn parse_attempt(text: &str) -> Result<AttemptId, String> {
    AttemptId::parse(text).ok_or_else(|| "32 hexadecimal digits are allowed".to_owned())
}

/// Parses text; an argument that is not UTF-8 is an error that names it.
fn utf8() -> impl TypedValueParser<Value = String> {
    OsStringValueParser::new().try_map(|text| text.into_string().map_err(|_| "it is not UTF-8"))
}
