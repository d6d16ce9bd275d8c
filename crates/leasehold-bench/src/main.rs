//! The benchmarks of Leasehold: `cargo xtask bench NAME` builds and runs one.

mod args;
mod chart;
mod hold;
mod json;
mod measure;
mod metric;
mod output;
mod pairs;
mod progress;
mod row;
mod runtime;
mod scale;
#[cfg(test)]
mod smoke_tests;
mod store;
mod svg;
mod system;
mod table;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

/// What goes wrong here is only ever shown.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> ExitCode {
    let cli = args::Cli::parse();
    let done = match cli.bench {
        None => {
            list();
            Ok(())
        }
        Some(args::Bench::Hold(args)) => hold::run(&args),
        Some(args::Bench::HoldRound(round)) => hold::round::print(&round),
        Some(args::Bench::Pairs(args)) => pairs::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {}", told(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

/// The benchmarks, one line each.
fn list() {
    println!("cargo xtask bench NAME [--quick] [--svg FILE] [--json FILE]\n");
    let command = args::Cli::command();
    for bench in command.get_subcommands().filter(|bench| !bench.is_hide_set()) {
        println!("  {:<7} {}", bench.get_name(), bench.get_about().cloned().unwrap_or_default());
    }
    println!("\n`cargo xtask bench NAME --help` lists the options of one.");
}

/// An error with what caused it.
fn told(error: &(dyn std::error::Error + 'static)) -> String {
    let mut told = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let because = error.to_string();
        if !told.contains(&because) {
            told = format!("{told}: {because}");
        }
        cause = error.source();
    }
    told
}
