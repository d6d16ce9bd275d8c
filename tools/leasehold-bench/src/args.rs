//! The command line of `cargo xtask bench`: the benchmarks, and what only it can measure beside
//! Leasehold.

use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, Parser, Subcommand};

use crate::against::{self, AgainstArgs};
use crate::bloom::{self, BloomArgs};
use crate::cache::{self, CacheArgs};
use crate::common::{Common, count, nodes, short_time};
use crate::contention::{self, Beside, ContentionArgs, InteropArgs, ProcessArgs, SemaphoreArgs};
use crate::delay::{self, DelayArgs};
use crate::engines::{self, EnginesArgs};
use crate::faults;
use crate::growth::{self, GrowthArgs};
use crate::hold::{self, HoldArgs, Round};
use crate::once::{self, OnceArgs};
use crate::pairs::{self, Names, PairsArgs, Sides};
use crate::peers::{self, Job, Peer};
use crate::readers::{self, ReaderArgs, ReadersArgs};
use crate::serve::{self, ServeArgs};
use crate::stock::{self, StockArgs};
use crate::store::{Store, cleaned};
use crate::stories::avalanche::{self, AvalancheArgs};
use crate::stories::hot::{self, HotArgs};
use crate::stories::killed::{self, KilledArgs};
use crate::{Result, told};

/// `leasehold-bench [NAME [OPTIONS]]`
#[derive(Debug, Parser)]
#[command(name = "leasehold-bench", about = "The benchmarks of Leasehold", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) bench: Option<Bench>,
}

/// The benchmarks; the first line of each is what the list shows.
#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// A benchmark with this program and with another build of it, alternately, and the ratios of the figures
    Against(AgainstArgs),
    /// What a held lock and a waiting task cost in memory and CPU, and how fast a lock is handed on
    Hold {
        #[command(flatten)]
        args: HoldArgs,
        #[command(flatten)]
        stores: Stores,
    },
    /// One round of `hold`, in a process of its own
    #[command(hide = true)]
    HoldRound,
    /// How many uncontended pairs of acquire and release there are in a second, and what one costs
    #[command(long_about = PAIRS)]
    Pairs {
        #[command(flatten)]
        args: PairsArgs,
        #[command(flatten)]
        stores: Stores,
        #[command(flatten)]
        beside: PairsBeside,
    },
    /// How many uncontended pairs there are over several independent Redis servers, and what one costs
    #[command(long_about = QUORUM)]
    Quorum {
        #[command(flatten)]
        common: Common,
        /// Numbers of tasks, each with a lock of its own; with --faults 1,16 by default
        #[arg(
            long,
            value_name = "N,..",
            default_value = "1,64,1024",
            default_value_if("faults", "true", "1,16"),
            value_delimiter = ',',
            value_parser = count
        )]
        tasks: Vec<usize>,
        /// Numbers of servers: a majority of them decides; with --faults 5 by default
        #[arg(
            long,
            value_name = "N,..",
            default_value = "3,5",
            default_value_if("faults", "true", "5"),
            value_delimiter = ',',
            value_parser = nodes
        )]
        nodes: Vec<usize>,
        /// How long our client waits for one server, instead of its usual time: up to 5s
        #[arg(long, value_name = "TIME", value_parser = short_time)]
        node_limit: Option<Duration>,
        /// While servers are stopped, silent, slow and killed: how long it takes to acquire
        #[arg(long, conflicts_with_all = ["peers", "node_limit"])]
        faults: bool,
        /// Beside these libraries, or all that can do it: built first, from their usual packages
        #[arg(long, value_name = "PEER", num_args = 0.., default_missing_values = Peer::NAMES)]
        peers: Vec<Peer>,
    },
    /// How often one lock changes hands that many want, what it costs, and who has to wait
    #[command(long_about = CONTENTION)]
    Contention {
        #[command(flatten)]
        args: ContentionArgs,
        #[command(flatten)]
        stores: Stores,
        /// Beside these libraries, or all: built first, from their usual packages
        #[arg(long, value_name = "PEER", num_args = 0.., default_missing_values = Peer::NAMES)]
        peers: Vec<Peer>,
    },
    /// Many tasks read and some write under one read-write lock: turns, and how long writers wait
    #[command(long_about = READERS)]
    Readers {
        #[command(flatten)]
        args: ReadersArgs,
        #[command(flatten)]
        stores: Stores,
        /// Beside these libraries, or all that can do it: built first, from their usual packages
        #[arg(long, value_name = "PEER", num_args = 0.., default_missing_values = Peer::NAMES)]
        peers: Vec<Peer>,
    },
    /// How often permits of one semaphore change hands that many want, and who has to wait
    #[command(long_about = SEMAPHORE)]
    Semaphore {
        #[command(flatten)]
        args: SemaphoreArgs,
        #[command(flatten)]
        stores: Stores,
        /// Beside these libraries, or all that can do it: built first, from their usual packages
        #[arg(long, value_name = "PEER", num_args = 0.., default_missing_values = Peer::NAMES)]
        peers: Vec<Peer>,
    },
    /// Whether locks of other libraries and ours exclude each other under one name
    #[command(long_about = INTEROP)]
    Interop {
        #[command(flatten)]
        args: InteropArgs,
        /// With these libraries, or all that can do it: built first, from their usual packages
        #[arg(long, value_name = "PEER", num_args = 0.., default_values = Peer::NAMES, default_missing_values = Peer::NAMES)]
        peers: Vec<Peer>,
    },
    /// Every engine beside the simplest correct protocol by its plain client: pairs and hand-offs
    #[command(long_about = ENGINES)]
    Engines {
        #[command(flatten)]
        args: EnginesArgs,
        #[command(flatten)]
        stores: Stores,
    },
    /// How costs grow with the locks that are held and the waiters of one lock, on each engine
    #[command(long_about = GROWTH)]
    Growth {
        #[command(flatten)]
        args: GrowthArgs,
        #[command(flatten)]
        stores: Stores,
    },
    /// How many pieces of one item are sold in a second, by locked rows, versions, or a lock
    #[command(long_about = STOCK)]
    Stock {
        #[command(flatten)]
        args: StockArgs,
        #[command(flatten)]
        stores: Stores,
    },
    /// How many rows are saved once in a second, each of which comes twice
    #[command(long_about = ONCE)]
    Once(OnceArgs),
    /// What a hold through the server costs, and what holds, viewers and many locks cost the server
    #[command(long_about = SERVE)]
    Serve(ServeArgs),
    /// The server of `serve`
    #[command(hide = true)]
    ServeProcess,
    /// What a Bloom filter costs the server, how often it is wrong, and what it keeps away
    #[command(long_about = BLOOM)]
    Bloom(BloomArgs),
    /// How many hits there are in a second, in the process and in Redis, beside what does only that
    #[command(long_about = CACHE)]
    Cache(CacheArgs),
    /// One key that many processes want: how often it is loaded, when who loads it dies, and Redis
    #[command(long_about = HOT)]
    CacheHot(HotArgs),
    /// One process of `cache-hot`
    #[command(hide = true)]
    CacheHotProcess(hot::ProcessArgs),
    /// When keys end that were written at one moment, with jitter and without
    #[command(long_about = AVALANCHE)]
    CacheAvalanche(AvalancheArgs),
    /// Loads, errors and waits before Redis is killed under load, while it is down, and after
    #[command(long_about = KILLED)]
    CacheKilled(KilledArgs),
    /// One process of `contention` or `semaphore`
    #[command(hide = true)]
    Contender(ProcessArgs),
    /// One process of `readers`
    #[command(hide = true)]
    Reader(ReaderArgs),
    /// A proxy that delays, in a process of its own
    #[command(hide = true)]
    Delay(DelayArgs),
}

const PAIRS: &str = "Each task acquires and releases a lock of its own, again and again. \
    `leasehold-cached` caches the leases for 1 s, on memory and Redis. \
    `raw` is what people write by hand: for memory, a name put into a tokio Mutex<HashMap> and \
    taken out again; for files, open, flock and close; for Redis, SET NX PX and a script that \
    compares and deletes, over one multiplexed connection, without any token. `raw-socket` is what \
    the server can do at most: those two commands for all tasks in one write each, by a thread \
    that blocks on a plain socket. `raw-record`, with fresh names, is the least that leaves a record \
    behind: SET PX and SETRANGE, sent in the same way.";

const QUORUM: &str = "Each task acquires and releases a lock of its own, again and again, and a \
    majority of independent Redis servers decides. Servers' CPU time is that of all of them. \
    `one_round_share` is the share of acquisitions whose token was there after one round of requests. \
    --faults: what happens to servers happens when everything is under way, and from then on is measured; \
    `bound_ms` is how long a node is waited for, and a round trip.";

const CONTENTION: &str = "All tasks of all processes want one lock. A hand-off is from one task to \
    another; `local` are those inside a process. Waits are those of hand-offs. A file that who holds \
    the lock must lock too, without waiting, tells whether two ever held it at once.";

const READERS: &str = "All tasks of all processes read or write under one read-write lock, as drawn at random. A turn is \
    either. A record that a writer changes in two steps tells whether a reader or a second writer was ever \
    beside it: each writer looks at it, and one of 16 readers. Then `joins`: tasks of one process read and \
    release while another task of it reads, which needs no command.";

const SEMAPHORE: &str = "All tasks of all processes want a permit of one semaphore. A hand-off is from one task to \
    another in the same slot, `local` are those inside a process. A file for each slot, which its holder must \
    lock without waiting, tells whether there were ever more holders than permits.";

const INTEROP: &str = "For each lock of another library, its processes and ours want one lock, ours in the library's \
    format (`?wire=`). `compete`: two processes of each; every 20 s, or at a third of a short run, one of each is killed, \
    if possible while it holds. `leases`: one process holds for ten leases while one of the other kind waits, and is \
    killed. `moves`: eight processes move from the library to ours, by `wire` and `also`. A file that who holds the lock \
    must lock too, without waiting, tells whether two ever held it at once. The exit code is not 0 if that happened, or if \
    one side never got the lock.";

const ENGINES: &str = "For each engine, Leasehold and `raw` in turn. Pairs: each task acquires and \
    releases a lock of its own. Hand-offs: one lock, wanted by so many tasks on each of two clients; only \
    those from one task to another count. `raw` is what people write by hand, without any token: for \
    memory, a tokio Mutex for each name; for files, open, flock and close; for Redis, SET NX PX and a \
    script that compares and deletes, retried every 10 ms while another client holds it; for redlock, \
    the same on a majority of three servers; for SQL, a row that is inserted, taken over when its time is \
    up, and deleted by its owner, asked again every 10 ms; for ZooKeeper, the recipe of its documentation; \
    for etcd, a key that is put if it is not there, and watched. `raw-push`, on PostgreSQL and etcd with \
    one task, is no lock: two clients pass a turn to and fro with an UPDATE and a NOTIFY, or with a key \
    and its watch, the least that a hand-off by push takes. `raw-queue`, there on PostgreSQL, is a fair lock of two \
    small functions and a push, without leases, tokens and readers. Servers of our own keep their data in \
    memory or write it without syncing, but etcd, which always syncs.";

const GROWTH: &str = "For each engine, the time of an operation and the CPU time of client and server, with more and more \
    locks that one client holds: a pair of acquire and release of a free lock, a renewal, the status of one lock, a list of \
    ten locks by their prefix, a hand-off between two clients. Then with more and more clients that wait for one lock: a \
    renewal by its holder, its status, and a hand-off, after which the client waits again. The waiting clients share one \
    connection. `local hand-off` is between tasks of one client. A cost grows `faster` if its growth is above that of the \
    logarithm of the size, from the first size to the last or in the last step; `log` is no more than that, `flat` less \
    than 1.3. A size that takes longer than --limit is `not reached`, and none above it is measured. \
    ZooKeeper and files need no renewals.";

const STOCK: &str = "All tasks buy pieces of one item, again and again, each in a transaction that \
    reads the amount, writes one less, and the sale. `pessimistic` locks the row (FOR UPDATE), \
    `optimistic` looks at its version when it writes, and `lock` holds a lock of Leasehold, and has \
    the row check its token. Commits are on the disk. After each round the books are looked at.";

const ONCE: &str = "Tasks hand over rows, as many at a time as --rows says, and wait until they are saved; each \
    second row has a key that came a short time ago. `leasehold` is SaveOnce on PostgreSQL and Redis, \
    `unique-key` is INSERT ... ON CONFLICT DO NOTHING on the same table, by all tasks for themselves, \
    `lock-and-check` takes a lock in Redis for each row, looks whether it is there, and inserts it. \
    Commits are on the disk. Servers' CPU time is Redis' alone.";

const SERVE: &str = "Each task acquires and releases a lock of its own, again and again: `leasehold` by the \
    library, `serve-lease` by POST acquire and DELETE, `serve-hold` by POST hold, and DELETE on another \
    connection. Connections stay open. Then the server's process is measured: with open holds, which get a \
    heartbeat every 10 s; with viewers of its events, while a lock is acquired and released every second; and \
    with very many locks, while a user goes from page to page of the overview. The servers run with two threads.";

const BLOOM: &str = "First a filter in Redis: `leasehold` by one BITFIELD, `lua` by a script that \
    looks at one bit after the other; call_us is what the server itself counts for a call. Then full \
    filters in this process, and how often they are wrong. Last, requests for keys that do not exist, and \
    how many reach the loader: a fourth of them are for keys that are requested only once, a fourth have no \
    form of a key, and half are for ten thousand keys again and again.";

const CACHE: &str = "Tasks read and write ten thousand keys with values of 100 bytes at random, a hundred \
    requests at a time. L1 is in the process: `leasehold` beside the crates quick_cache and moka, whose \
    writes reach no other process. L2 is Redis, with nothing in the process: `leasehold` beside `raw`, plain \
    GET and SET over one multiplexed connection. A write of ours is begin_write and committed_with, each a \
    script call and a push. commands_per_hit is what the server has counted where all requests read.";

const HOT: &str = "Tasks of several processes want one key, again and again, which takes 100 ms to load and \
    ends after three seconds. Then the process that loads it is killed while it does; then Redis is \
    killed; then all processes request keys that are not cached. `cache-aside` is GET, load what is missing, SET. \
    loads_at_once are the loads that began within the time of one, in all processes.";

const AVALANCHE: &str = "Keys are loaded and written at one moment, as far as that goes, with a ttl of an \
    hour; the server tells when each of them ends (PEXPIRETIME).";

const KILLED: &str = "Requests come for ten thousand keys, whether those before are answered or not, in one \
    process. The database has 16 connections and reads for 5 ms; who finds none free within a second \
    fails. When all keys are in the cache, Redis is killed, and comes back empty. `cache-aside` is \
    GET, load what is missing or cannot be asked for, SET.";

/// Where the locks are.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Stores {
    /// Where the locks are: memory, file (a temporary directory; TMPDIR says where), redis (a server
    /// of our own), redlock (three of them) or store URLs
    #[arg(long = "backend", value_name = "STORE", num_args = 1..)]
    pub(crate) backends: Vec<Store>,
}

impl Stores {
    /// Those that are named, or those that the benchmark measures when none is.
    pub(crate) fn or(&self, otherwise: &[Store]) -> Vec<Store> {
        if self.backends.is_empty() { otherwise.to_vec() } else { self.backends.clone() }
    }
}

/// What `pairs` measures beside.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct PairsBeside {
    /// Beside these libraries, or all that can do it: built first, from their usual packages
    #[arg(long, value_name = "PEER", num_args = 0.., default_missing_values = Peer::NAMES)]
    pub(crate) peers: Vec<Peer>,
    /// Whether a task takes the same name again, or another each time
    #[arg(long, value_name = "NAMES", default_value = "reused")]
    pub(crate) names: NameSets,
    /// Requests arrive so much later: each of these times is measured
    #[arg(long, value_name = "TIME,..", default_value = "0", value_delimiter = ',', value_parser = short_time)]
    pub(crate) delay: Vec<Duration>,
}

/// What `--names` can be.
#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
pub(crate) enum NameSets {
    Reused,
    Fresh,
    Both,
}

impl NameSets {
    fn all(self) -> Vec<Names> {
        match self {
            Self::Reused => vec![Names::Reused],
            Self::Fresh => vec![Names::Fresh],
            Self::Both => vec![Names::Reused, Names::Fresh],
        }
    }
}

/// The program `leasehold-bench`.
pub fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {}", told(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> Result<()> {
    match cli.bench {
        None => {
            list();
            Ok(())
        }
        Some(Bench::Against(args)) => against::run(&args),
        Some(Bench::Hold { args, stores }) => {
            let stores = stores.or(&[Store::Memory]);
            cleaned(&stores, hold::run(&args, &stores, &[]))
        }
        Some(Bench::HoldRound) => Round::answer(),
        Some(Bench::Pairs { args, stores, beside }) => {
            let (peers, notes) = peers::build(&beside.peers, Job::Pairs);
            let sides = sides(&stores, &beside, peers);
            cleaned(&sides.stores, pairs::run(&args, &sides, notes))
        }
        Some(Bench::Quorum { common, tasks, nodes, faults: true, .. }) => {
            faults::run(&PairsArgs { common, tasks }, &nodes)
        }
        Some(Bench::Quorum { common, tasks, nodes, node_limit, peers, .. }) => {
            let args = PairsArgs { common, tasks };
            let (peers, notes) = peers::build(&peers, Job::Quorum);
            pairs::run(&args, &Sides { node_limit, ..over(&nodes, peers) }, notes)
        }
        Some(Bench::Contention { args, stores, peers }) => {
            let (peers, notes) = peers::build(&peers, Job::Contention);
            let beside = Beside { stores: stores.or(&[Store::Redis]), peers, again: &[] };
            cleaned(&beside.stores, contention::run(&args, &beside, notes))
        }
        Some(Bench::Readers { args, stores, peers }) => {
            let stores = stores.or(&[Store::Redis]);
            let (peers, notes) = peers::build(&on(&stores, &peers), Job::Readers);
            let beside = Beside { stores, peers, again: &[] };
            cleaned(&beside.stores, readers::run(&args, &beside, notes))
        }
        Some(Bench::Interop { args, peers }) => {
            let peers = peers::with_one_of(&peers, Job::Interop, &args.locks);
            let (peers, notes) = peers::build(&peers, Job::Interop);
            contention::run_interop(&args, &peers, &[], &notes)
        }
        Some(Bench::Semaphore { args, stores, peers }) => {
            let stores = stores.or(&[Store::Redis]);
            let (peers, notes) = peers::build(&on(&stores, &peers), Job::Semaphore);
            let beside = Beside { stores, peers, again: &[] };
            cleaned(&beside.stores, contention::run_semaphore(&args, &beside, notes))
        }
        Some(Bench::Engines { args, stores }) => {
            let stores = stores.or(Store::ENGINES);
            cleaned(&stores, engines::run(&args, &stores))
        }
        Some(Bench::Growth { args, stores }) => {
            let stores = stores.or(Store::ENGINES);
            cleaned(&stores, growth::run(&args, &stores))
        }
        Some(Bench::Stock { args, stores }) => {
            let stores = stores.or(&[Store::Memory]);
            cleaned(&stores, stock::run(&args, &stores))
        }
        Some(Bench::Once(args)) => once::run(&args),
        Some(Bench::Serve(args)) => serve::run(&args),
        Some(Bench::ServeProcess) => serve::answer(),
        Some(Bench::Bloom(args)) => bloom::run(&args),
        Some(Bench::Cache(args)) => cache::run(&args),
        Some(Bench::CacheHot(args)) => hot::run(&args),
        Some(Bench::CacheHotProcess(args)) => hot::process(args),
        Some(Bench::CacheAvalanche(args)) => avalanche::run(&args),
        Some(Bench::CacheKilled(args)) => killed::run(&args),
        Some(Bench::Contender(args)) => contention::process(args),
        Some(Bench::Reader(args)) => readers::process(args),
        Some(Bench::Delay(args)) => delay::run(args),
    }
}

/// Those of the peers that work on one of these stores.
fn on(stores: &[Store], peers: &[Peer]) -> Vec<Peer> {
    let works = |peer: &&Peer| stores.iter().any(|store| store.backend() == peer.engine());
    peers.iter().filter(works).copied().collect()
}

/// What `pairs` measures.
pub(crate) fn sides(stores: &Stores, beside: &PairsBeside, peers: Vec<peers::Built>) -> Sides {
    Sides {
        bench: "pairs",
        stores: stores.or(&[Store::Memory, Store::File]),
        names: beside.names.all(),
        delays: beside.delay.clone(),
        node_limit: None,
        peers,
    }
}

/// What `quorum` measures.
fn over(nodes: &[usize], peers: Vec<peers::Built>) -> Sides {
    Sides {
        bench: "quorum",
        stores: nodes.iter().copied().map(Store::Redlock).collect(),
        names: vec![Names::Reused],
        delays: vec![Duration::ZERO],
        node_limit: None,
        peers,
    }
}

/// The benchmarks, one line each.
fn list() {
    println!("cargo xtask bench NAME [--quick] [--svg FILE] [--json FILE]\n");
    let command = Cli::command();
    for bench in command.get_subcommands().filter(|bench| !bench.is_hide_set()) {
        println!("  {:<15} {}", bench.get_name(), bench.get_about().cloned().unwrap_or_default());
    }
    println!("\n`cargo xtask bench NAME --help` lists the options of one.");
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;
    use crate::runtime::Flavour;

    fn refused(args: &[&str]) -> String {
        let words = ["leasehold-bench"].iter().chain(args);
        Cli::try_parse_from(words).unwrap_err().to_string()
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_bad_value_is_refused_with_flag_value_and_what_is_allowed() {
        for (args, parts) in [
            (vec!["pairs", "--runtime", "both2"], ["--runtime", "both2", "multi, current, both"]),
            (vec!["pairs", "--rounds", "0"], ["--rounds", "'0'", "1..=99"]),
            (vec!["hold", "--backend", "disk"], ["--backend", "disk", "redis, redlock, zookeeper"]),
            (vec!["hold", "--backend", "gopher:x"], ["--backend", "gopher:x", "file:, mariadb:"]),
            (vec!["hold", "--locks", "many"], ["--locks", "many", "a whole number from 1 to"]),
            (vec!["hold", "--seconds", "0"], ["--seconds", "'0'", "1..=3600"]),
            (vec!["pairs", "--tasks", "1,0"], ["--tasks", "'0'", "a whole number from 1 to"]),
            (vec!["pairs", "--delay", "1h"], ["--delay", "'1h'", "us, ms or s"]),
            (vec!["contention", "--shapes", "8x8,0x1"], ["--shapes", "'0x1'", "such as 8x8"]),
            (vec!["contention", "--hold", "1d"], ["--hold", "'1d'", "us, ms or s"]),
            (vec!["quorum", "--nodes", "3,0"], ["--nodes", "'0'", "from 1 to 9"]),
            (vec!["quorum", "--faults", "--peers"], ["--faults", "--peers", "cannot be used"]),
            (vec!["pairs", "--peers", "jedis"], ["--peers", "'jedis'", "rslock"]),
        ] {
            let told = refused(&args);
            for part in parts {
                assert!(told.contains(part), "{args:?}: no {part:?} in {told:?}");
            }
        }
    }

    #[test]
    fn several_stores_may_be_named_and_none_means_those_of_the_benchmark() {
        let cli = Cli::try_parse_from(["x", "pairs", "--backend", "memory", "file", "--quick"]);
        let Some(Bench::Pairs { stores, .. }) = cli.unwrap().bench else { unreachable!() };
        assert_eq!(stores.or(&[]), [Store::Memory, Store::File]);
        let cli = Cli::try_parse_from(["x", "pairs"]).unwrap();
        let Some(Bench::Pairs { args, stores, beside }) = cli.bench else { unreachable!() };
        assert_eq!(stores.or(&[Store::Memory]), [Store::Memory]);
        assert_eq!(args.common.flavours(), [Flavour::Multi, Flavour::Current]);
        assert!(beside.peers.is_empty() && beside.delay == [Duration::ZERO]);
    }

    #[test]
    fn faults_have_numbers_of_their_own_until_others_are_named() {
        for (words, expected) in [
            (vec!["--faults"], (vec![1, 16], vec![5])),
            (vec!["--faults", "--tasks=2", "--nodes=3"], (vec![2], vec![3])),
            (vec![], (vec![1, 64, 1024], vec![3, 5])),
        ] {
            let cli = Cli::try_parse_from(["x", "quorum"].iter().chain(&words)).unwrap();
            let Some(Bench::Quorum { tasks, nodes, .. }) = cli.bench else { unreachable!() };
            assert_eq!((tasks, nodes), expected, "{words:?}");
        }
    }

    #[test]
    fn peers_without_a_name_are_all_of_them() {
        let cli = Cli::try_parse_from(["x", "pairs", "--peers", "--quick"]).unwrap();
        let Some(Bench::Pairs { beside, .. }) = cli.bench else { unreachable!() };
        assert_eq!(beside.peers, Peer::value_variants());
    }
}
