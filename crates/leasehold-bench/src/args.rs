//! The command line: the benchmarks, and the options that all of them have.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

use crate::hold::HoldArgs;
use crate::hold::round::Round;
use crate::pairs::PairsArgs;
use crate::runtime::Flavour;
use crate::store::Store;

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
    /// What a held lock and a waiting task cost in memory and CPU, and how fast a lock is handed on
    Hold(HoldArgs),
    /// One round of `hold`, in a process of its own
    #[command(hide = true)]
    HoldRound(Round),
    /// How many uncontended pairs of acquire and release there are in a second, and what one costs
    Pairs(PairsArgs),
}

/// The options that all benchmarks have.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Common {
    /// Shorter measurements: a minute or two for everything
    #[arg(long)]
    pub(crate) quick: bool,
    /// Draw the figures into this file
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Write the figures into this file, one object a line
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Rounds; each figure is their median
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub(crate) rounds: u32,
    /// Where the locks are: memory, file (a temporary directory; TMPDIR says where), redis (a server
    /// of our own) or store URLs
    #[arg(long = "backend", value_name = "STORE", num_args = 1..)]
    pub(crate) backends: Vec<Store>,
    /// Runtime that the tasks run on: tokio's with a thread per core, with one thread, or in turn
    #[arg(long, value_name = "RUNTIME", default_value = "both")]
    pub(crate) runtime: Runtimes,
}

/// What `--runtime` can be.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub(crate) enum Runtimes {
    Multi,
    Current,
    Both,
}

impl Common {
    /// The stores to measure, or those that the benchmark measures when none is named.
    pub(crate) fn stores(&self, otherwise: &[Store]) -> Vec<Store> {
        if self.backends.is_empty() { otherwise.to_vec() } else { self.backends.clone() }
    }

    /// The runtimes to measure on.
    pub(crate) fn flavours(&self) -> &'static [Flavour] {
        match self.runtime {
            Runtimes::Multi => &[Flavour::Multi],
            Runtimes::Current => &[Flavour::Current],
            Runtimes::Both => &[Flavour::Multi, Flavour::Current],
        }
    }
}

/// A number of locks or tasks.
pub(crate) fn count(text: &str) -> Result<usize, String> {
    const MOST: usize = 1_000_000;
    match text.parse() {
        Ok(count @ 1..=MOST) => Ok(count),
        _ => Err(format!("allowed is a whole number from 1 to {MOST}")),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

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
            (
                vec!["hold", "--backend", "disk"],
                ["--backend", "disk", "memory, file, redis, or a URL"],
            ),
            (vec!["hold", "--backend", "gopher:x"], ["--backend", "gopher:x", "file:, memory:"]),
            (vec!["hold", "--locks", "many"], ["--locks", "many", "a whole number from 1 to"]),
            (vec!["hold", "--seconds", "0"], ["--seconds", "'0'", "1..=3600"]),
            (vec!["pairs", "--tasks", "1,0"], ["--tasks", "'0'", "a whole number from 1 to"]),
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
        let Some(Bench::Pairs(args)) = cli.unwrap().bench else { unreachable!() };
        assert_eq!(args.common.stores(&[]), [Store::Memory, Store::File]);
        let Some(Bench::Pairs(args)) = Cli::try_parse_from(["x", "pairs"]).unwrap().bench else {
            unreachable!()
        };
        assert_eq!(args.common.stores(&[Store::Memory]), [Store::Memory]);
        assert_eq!(args.common.flavours(), [Flavour::Multi, Flavour::Current]);
    }
}
