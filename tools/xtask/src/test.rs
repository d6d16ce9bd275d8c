//! `cargo xtask test`: the one command that shows that this tree works on this machine.

mod binaries;
mod cores;
mod job;
mod side_by_side;
mod timings;
mod why;

use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use crate::check;
use crate::needs;
use crate::run::{cargo, open_and_read, root};
use crate::space;
use crate::tally::Tally;
use crate::tidy;
use crate::ui::{self, GREEN, Outcome, RED};
use binaries::Binary;
use cores::Cores;
use job::Job;
use side_by_side::Run;
use timings::Timings;

/// What the command line asks for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    /// Leaves out the tests that start servers, and the lints.
    quick: bool,
    /// Prints the slowest tests and how idle the machine was.
    timings: bool,
    /// What `cargo test` gets instead, if anything.
    cargo: Vec<String>,
}

impl Options {
    fn parse(args: &[String]) -> Result<Self, String> {
        let mut options = Self::default();
        for (index, arg) in args.iter().enumerate() {
            match arg.as_str() {
                "--quick" => options.quick = true,
                "--timings" => options.timings = true,
                "--" => {
                    options.cargo = args[index + 1..].to_vec();
                    break;
                }
                other => {
                    return Err(format!(
                        "unknown option {other:?}; `cargo xtask test` takes --quick, --timings, \
                         or arguments for `cargo test` after --"
                    ));
                }
            }
        }
        if !options.cargo.is_empty() && (options.quick || options.timings) {
            return Err("--quick and --timings run all tests: they go with no arguments for \
                        `cargo test`"
                .into());
        }
        Ok(options)
    }
}

/// All tests, or with arguments for `cargo test` the tests that they name and nothing else.
pub(crate) fn test(args: &[String]) -> Result<bool, String> {
    let options = Options::parse(args)?;
    if !options.quick {
        let start = Instant::now();
        let installed = needs::ensure()?;
        let note = if installed.is_empty() { "all there".into() } else { installed.join(" ") };
        ui::line("needs", start.elapsed(), &Outcome::Good(note));
    }
    if options.cargo.is_empty() { all(&options) } else { some(&options.cargo) }
}

/// Runs `cargo test` with these arguments, in sight. Arguments that match no test are an error: what they
/// were meant to show is not shown.
fn some(args: &[String]) -> Result<bool, String> {
    let mut command = cargo(["test", "--all-features", "--no-fail-fast"]);
    let own = args.iter().take_while(|arg| *arg != "--");
    if !own.into_iter().any(|arg| arg.starts_with("-p") || arg.starts_with("--package")) {
        command.arg("--workspace");
    }
    command.args(args).env("LEASEHOLD_REQUIRE", needs::required());
    let mut tally = Tally::default();
    let held = open_and_read(&mut command, |line| tally.read(line))?;
    if held && has_run_none(args, &tally) {
        return Err(format!(
            "no test ran: `{}` matches none; `cargo xtask test -- -- --list` prints the names of all tests",
            args.join(" ")
        ));
    }
    Ok(held)
}

/// Whether tests were to run, and none has.
fn has_run_none(args: &[String], tally: &Tally) -> bool {
    let runs_none = ["--list", "--no-run", "--help", "-h"];
    let meant = !args.iter().any(|arg| runs_none.contains(&arg.as_str()));
    meant && tally.passed + tally.failed == 0
}

/// Builds all tests and runs them side by side, then lints and tidy.
fn all(options: &Options) -> Result<bool, String> {
    ui::line("space", Duration::ZERO, &space::outcome());
    let start = Instant::now();
    let binaries = binaries::build()?;
    ui::line("build", start.elapsed(), &Outcome::Good(format!("{} test programs", binaries.len())));

    let cores = Cores::now();
    let timings = options.timings.then(Timings::create).transpose()?;
    // One program more than there are cores, with two tests at a time per core: most tests wait.
    let count = thread::available_parallelism().map_or(2, usize::from);
    let jobs = jobs(binaries, count * 2, options, timings.as_ref());
    let start = Instant::now();
    let mut run = side_by_side::run(jobs, count + 1)?;
    run.tally.failures.sort();
    ui::line("tests", start.elapsed(), &outcome(&run, &cores));
    if let Some(timings) = timings {
        timings.print(&root().join(side_by_side::OUTPUT));
    }

    let mut held = run.failed.is_empty() && run.tally.failed == 0;
    if !options.quick {
        match check::no_lints_here() {
            None if held => held &= check::lints(),
            None => ui::line("lints", Duration::ZERO, &Outcome::Left("the tests failed".into())),
            Some(why) => ui::line("lints", Duration::ZERO, &Outcome::Left(why)),
        }
    }
    held &= tidy::step();
    let tally = &run.tally;
    held &= tally.passed > 0;
    let verdict = if held { ui::paint(GREEN, "all good") } else { ui::paint(RED, "not good") };
    println!(
        "\n{verdict}: {} tests passed, {} failed, {} ignored",
        tally.passed, tally.failed, tally.ignored
    );
    Ok(held)
}

/// A job for each test program, and one for the examples in the documentation.
fn jobs(
    binaries: Vec<Binary>,
    threads: usize,
    options: &Options,
    timings: Option<&Timings>,
) -> Vec<Job> {
    let mut jobs = Vec::new();
    for binary in binaries {
        let mut job = Job::of(&binary, threads);
        if let Some(timings) = timings {
            timings.ask(&mut job, &binary.executable);
        }
        jobs.push(job);
    }
    // The compiler is what takes long in them, so they are left out of the quick run.
    if !options.quick {
        let mut doc = cargo(["test", "--doc", "--workspace", "--all-features", "--no-fail-fast"]);
        doc.stdin(Stdio::null());
        jobs.push(Job::new("doc", doc));
    }
    for job in &mut jobs {
        if options.quick {
            job.command.env("LEASEHOLD_SERVERS", "none");
        } else {
            job.command.env("LEASEHOLD_REQUIRE", needs::required());
        }
    }
    jobs
}

/// The line of the tests: how idle the machine was, or what failed and how to run it again.
fn outcome(run: &Run, cores: &Cores) -> Outcome {
    if run.failed.is_empty() {
        return Outcome::Good(cores.note());
    }
    let names = run.tally.failures.iter().map(|name| format!("    {name}\n"));
    let logs = run.failed.iter().map(|log| format!("    {}\n", log.display()));
    Outcome::Bad(format!(
        "  failed:\n{}  all that they printed:\n{}  once more: cargo xtask test -- --test PROGRAM -- TEST",
        names.collect::<String>(),
        logs.collect::<String>()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(args: &[&str]) -> Result<Options, String> {
        Options::parse(&args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn options_stand_before_what_cargo_gets() {
        assert_eq!(parsed(&[]), Ok(Options::default()));
        let quick = Options { quick: true, timings: true, ..Options::default() };
        assert_eq!(parsed(&["--quick", "--timings"]), Ok(quick));
        let cargo = vec!["-p".to_owned(), "xtask".to_owned(), "--".to_owned(), "-q".to_owned()];
        let some = Options { cargo, ..Options::default() };
        assert_eq!(parsed(&["--", "-p", "xtask", "--", "-q"]), Ok(some));
    }

    #[test]
    fn arguments_that_match_no_test_are_an_error() {
        let none = |args: &[&str], lines: &[&str]| {
            let mut tally = Tally::default();
            lines.iter().for_each(|line| tally.read(line));
            has_run_none(&args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>(), &tally)
        };
        let nothing =
            "test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 163 filtered out";
        let one = "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 162 filtered out";
        assert!(none(&["--test", "redis", "--", "mistyped"], &[nothing, nothing]));
        assert!(none(&["mistyped"], &[]));
        assert!(!none(&["typed"], &[nothing, one]));
        for list in [&["--", "--list"][..], &["--no-run"]] {
            assert!(!none(list, &[]));
        }
    }

    #[test]
    fn what_it_does_not_know_is_refused() {
        assert!(parsed(&["--fast"]).unwrap_err().contains("\"--fast\""));
        assert!(parsed(&["--quick", "--", "-p", "xtask"]).is_err());
    }
}
