//! `leasehold bench`: the benchmarks on a store of the user's.

use std::time::Duration;

use crate::contention::{self, Beside, ContentionArgs, ProcessArgs};
use crate::hold::{self, HoldArgs, Round};
use crate::pairs::{self, Names, PairsArgs, Sides};
use crate::store::{Store, cleaned};
use crate::told;

/// How the command `leasehold` calls itself for a process of a benchmark.
const AGAIN: &[&str] = &["bench"];

/// `leasehold bench NAME [OPTIONS]`.
#[derive(Clone, Debug, clap::Args)]
pub struct Bench {
    #[command(subcommand)]
    which: Which,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum Which {
    /// Uncontended pairs of acquire and release: how many in a second, and what one costs
    Pairs(PairsArgs),
    /// One lock that many want: how often it changes hands, how long they wait, who gets how much
    ///
    /// A hand-off is from one task to another; `local` are those inside a process. Waits are those
    /// of hand-offs. A judge beside the store tells whether two ever held the lock at once.
    Contention(ContentionArgs),
    /// What held locks and waiting tasks cost while nothing happens
    Hold(HoldArgs),
    /// One round of `hold`, in a process of its own
    #[command(hide = true)]
    HoldRound,
    /// One process of `contention`
    #[command(hide = true)]
    Contender(ProcessArgs),
}

impl Bench {
    /// Returns true for a process that a benchmark has started and that receives its store from it.
    pub fn is_part(&self) -> bool {
        matches!(self.which, Which::HoldRound | Which::Contender(_))
    }

    /// Measures on the store at `url`, under names of its own (`leasehold-bench/...`), and removes
    /// them at the end. Prints a table. Must not be called in an async runtime.
    ///
    /// # Errors
    /// A sentence for people, without credentials.
    pub fn run(self, url: &str) -> Result<(), String> {
        let stores = vec![Store::url(url)];
        let done = match self.which {
            Which::Pairs(args) => {
                let sides = Sides {
                    bench: "pairs",
                    stores: stores.clone(),
                    names: vec![Names::Reused],
                    delays: vec![Duration::ZERO],
                    node_limit: None,
                    #[cfg(feature = "servers")]
                    peers: Vec::new(),
                };
                cleaned(&stores, pairs::run(&args, &sides, Vec::new()))
            }
            Which::Contention(args) => {
                let beside = Beside {
                    stores: stores.clone(),
                    #[cfg(feature = "servers")]
                    peers: Vec::new(),
                    again: AGAIN,
                };
                cleaned(&stores, contention::run(&args, &beside, Vec::new()))
            }
            Which::Hold(args) => cleaned(&stores, hold::run(&args, &stores, AGAIN)),
            Which::HoldRound => Round::answer(),
            Which::Contender(args) => contention::process(args),
        };
        done.map_err(|error| told(error.as_ref()))
    }
}
