//! What the service is started with: which defences, and which load.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};

/// A shop's product pages behind leasehold-cache, with and without each of its defences
#[derive(Clone, Debug, Parser)]
pub(crate) struct Settings {
    /// Where HTTP is served: GET and PUT /products/ID, GET /stats
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,

    /// A SQLite file; without it one that goes at the end
    #[arg(long, value_name = "FILE")]
    pub(crate) database: Option<PathBuf>,

    /// As the cache's `open` takes it; without it a redis-server of its own
    #[arg(long, value_name = "URL")]
    pub(crate) redis: Option<String>,

    /// Defences to leave out
    #[arg(long, value_name = "WHICH", value_delimiter = ',', conflicts_with = "plain")]
    pub(crate) without: Vec<Defence>,

    /// None at all, neither leases nor single flight: GET, load, SET; DEL after the commit
    #[arg(long)]
    pub(crate) plain: bool,

    /// Caches as so many processes would have them, each with a level of its own
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub(crate) processes: usize,

    /// Seconds that an entry is fresh
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    pub(crate) ttl: f64,

    /// How long a query takes, in milliseconds, beside what SQLite needs
    #[arg(long, value_name = "MS", default_value_t = 20)]
    pub(crate) query: u64,

    /// Products in the database; a fifth of all reads is for the first
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) products: u64,

    /// Run the built-in load, then end
    #[arg(long)]
    pub(crate) load: bool,

    /// How long, in seconds
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub(crate) seconds: u64,

    /// Tasks that read
    #[arg(long, value_name = "N", default_value_t = 128)]
    pub(crate) readers: u32,

    /// Reads a second, of all tasks
    #[arg(long, value_name = "N", default_value_t = 5_000)]
    pub(crate) rate: u32,

    /// Reads in a hundred for products that do not exist; one in ten of them for what is no number
    #[arg(long, value_name = "PERCENT", default_value_t = 10)]
    pub(crate) absent: u32,

    /// Writes a second
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(crate) writes: u32,

    /// Kill Redis at half of the time, and start it again, empty, a quarter later
    #[arg(long, requires = "load", conflicts_with = "redis")]
    pub(crate) kill_redis: bool,

    /// One JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

/// What can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Defence {
    /// The level in the process
    Local,
    /// Ends of entries that are spread at random
    Jitter,
    /// Loads before the end (XFetch)
    Early,
    /// Entries that are served for a while after their end
    Stale,
    /// Entries that say that there is no value
    Null,
    /// The Bloom filter
    Filter,
    /// The predicate on the key's form
    Form,
    /// The bound on loads under way
    Bulkhead,
    /// Holds over keys while they are written
    Hold,
    /// The outbox, for writes while Redis is down
    Outbox,
}

impl Settings {
    /// Whether this defence is there.
    pub(crate) fn has(&self, defence: Defence) -> bool {
        !self.plain && !self.without.contains(&defence)
    }

    /// How long the load goes on.
    pub(crate) fn span(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    /// In a few words.
    pub(crate) fn ways(&self) -> String {
        let names = self.without.iter().filter_map(Defence::to_possible_value);
        let names: Vec<String> = names.map(|value| value.get_name().to_owned()).collect();
        match (self.plain, names.is_empty()) {
            (true, _) => "plain cache-aside".to_owned(),
            (_, true) => "all defences".to_owned(),
            _ => format!("without {}", names.join(", ")),
        }
    }
}
