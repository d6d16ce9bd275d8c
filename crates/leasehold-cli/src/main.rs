//! The `leasehold` command.

mod advice;
#[cfg(feature = "bench")]
mod bench;
#[cfg(feature = "cache")]
mod cache;
mod cli;
mod command;
mod completions;
mod config;
mod doctor;
mod duration;
mod failure;
mod features;
mod folders;
mod follow;
mod force_release;
mod help;
#[cfg(test)]
mod hostile;
mod human;
mod init;
mod ipc;
#[cfg(feature = "lab")]
mod lab;
mod lang;
mod latch;
mod leader;
mod limit;
mod list;
mod live;
mod locate;
mod manual;
mod mistaken;
mod number;
mod on_lost;
mod output;
mod process_group;
mod quorum;
mod run;
mod sanitize;
#[cfg(feature = "serve")]
mod serve;
mod show;
mod signals;
mod stage;
mod status;
mod store;
mod supervise;
mod table;
mod terminal;
mod timer;
mod watch;

use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, Parser};

use crate::cli::{Cli, Command};
use crate::config::RunConfig;
use crate::failure::{Failure, code};
use crate::lang::Lang;
use crate::output::Voice;
use crate::run::options::RunOptions;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next() {
        Some(first) if first == supervise::SUBCOMMAND => return supervise::main(arguments).into(),
        Some(first) if first == stage::SUBCOMMAND => return stage::main(arguments).into(),
        Some(first) if first == run::end::SUBCOMMAND => {
            let signal = arguments.next().and_then(|word| word.into_string().ok());
            return run::end::main(signal.as_deref()).into();
        }
        _ => {}
    }
    let parsed = Cli::try_parse();
    let spoken = Lang::decide(match &parsed {
        Ok(cli) => cli.globals.lang,
        Err(_) => Lang::named_in(std::env::args_os().skip(1)),
    });
    if let Some(failure) = mistaken::missing_name(&std::env::args_os().collect::<Vec<_>>(), &parsed)
    {
        output::failure(&failure);
        output::finish(None);
        return failure.code.into();
    }
    let parsed = parsed.map_err(|error| match spoken {
        Lang::English => error,
        Lang::Chinese => in_chinese().unwrap_or(error),
    });
    let (code, last_words) = match parsed.map_err(mistaken::with_own_tips) {
        Ok(cli) => {
            let last_words = last_words(&cli.command);
            let code = execute(cli).unwrap_or_else(|failure| {
                output::failure(&failure);
                failure.code
            });
            (code, last_words)
        }
        Err(error) => (usage(&error), None),
    };
    output::finish(last_words);
    code.into()
}

/// Returns the same help, or the same error, in Chinese.
fn in_chinese() -> Option<clap::Error> {
    lang::in_chinese(Cli::command()).try_get_matches().err()
}

/// Returns how long messages may take to be written at the end. An unattended subcommand must end,
/// even if its stderr is blocked; the others wait for their reader.
fn last_words(command: &Command) -> Option<Duration> {
    match command {
        Command::Run(_) | Command::Elect(_) => Some(run::LAST_WORDS),
        #[cfg(feature = "cache")]
        Command::Cache(_) => Some(run::LAST_WORDS),
        _ => None,
    }
}

fn execute(cli: Cli) -> Result<u8, Failure> {
    let globals = cli.globals;
    let voice = Voice { quiet: globals.quiet, verbose: globals.verbose };
    // Use one thread: the signal mask of the thread that starts the command becomes the command's
    // mask. Only the thread that writes messages runs besides it.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::own(format!("cannot start: {error}")))?;
    match cli.command {
        Command::Run(args) => {
            let options = |config: &RunConfig| RunOptions::new(args, config);
            let done = runtime.block_on(run::run(options, &globals, voice));
            // A name lookup may still run, which cannot be interrupted.
            runtime.shutdown_background();
            done
        }
        Command::Elect(args) => {
            let options = |config: &RunConfig| RunOptions::of_candidate(args, config);
            let done = runtime.block_on(run::run(options, &globals, voice));
            runtime.shutdown_background();
            done
        }
        Command::Leader(args) => runtime.block_on(leader::leader(&args, &globals, voice)),
        Command::List(args) => runtime.block_on(list::list(&args, &globals)),
        Command::Status(args) => runtime.block_on(status::status(&args, &globals)),
        Command::Limit(args) => runtime.block_on(limit::limit(&args, &globals, voice)),
        Command::Latch(args) => runtime.block_on(latch::latch(&args, &globals, voice)),
        Command::Watch(args) => runtime.block_on(watch::watch(&args, &globals, voice)),
        Command::ForceRelease(args) => {
            runtime.block_on(force_release::force_release(&args, &globals, voice))
        }
        Command::Init(args) => runtime.block_on(init::init(&args, &globals, voice)),
        Command::Quorum(command) => runtime.block_on(quorum::quorum(&command, &globals, voice)),
        Command::Doctor(args) => runtime.block_on(doctor::doctor(&args, &globals)),
        #[cfg(feature = "bench")]
        Command::Bench(args) => bench::bench(args, &globals, runtime),
        #[cfg(feature = "cache")]
        Command::Cache(command) => runtime.block_on(cache::cache(&command, &globals, voice)),
        #[cfg(feature = "serve")]
        Command::Serve(args) => serve::serve(*args, &globals, voice),
        #[cfg(feature = "lab")]
        Command::Lab(args) => lab::lab(&args, voice, lang::lang()),
        Command::Completions(args) => completions::completions(args.shell),
        Command::Man(args) => manual::man(args.command.as_deref(), args.dir.as_deref()),
    }
}

/// Prints help and version to stdout; wrong usage is an error of `leasehold`, not clap's 2.
fn usage(error: &clap::Error) -> u8 {
    if !error.use_stderr() {
        let _ = error.print();
        return 0;
    }
    let text = lang::usage(error);
    let failure = match features::of_subcommand(error) {
        None => Failure::own(text),
        Some(feature) => {
            let what = lang::text!(
                "the subcommand {:?} needs the feature {:?}, which this build does not have",
                "子命令 {:?} 需要 feature {:?}，当前构建没有它",
                feature,
                feature
            );
            Failure::own(what).next(features::install(&[feature]))
        }
    };
    output::failure(&failure);
    code::OWN
}
