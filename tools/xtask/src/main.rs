//! `cargo xtask`: development tasks for contributors to Leasehold.

#![allow(clippy::disallowed_methods, reason = "it shows how long a task takes")]

mod bench;
mod chaos;
mod check;
mod dist;
mod etcd_api;
mod features;
mod fix;
mod install;
mod interop;
mod lab;
mod matrix;
mod model;
mod needs;
mod old_client;
mod package;
mod run;
mod space;
mod tally;
mod test;
mod tidy;
mod ui;

use std::process::ExitCode;

use run::{cargo, open};

/// One thing that `cargo xtask` can do.
struct Task {
    name: &'static str,
    args: &'static str,
    about: &'static str,
    /// Does it; `Ok(false)` is a failure that has been reported already.
    run: fn(&[String]) -> Result<bool, String>,
}

const TASKS: &[Task] = &[
    Task {
        name: "test",
        args: "[--quick] [--timings] [-- ARGS]",
        about: "everything: what the tests need, the tests, check where it can, tidy; \
                --quick: only tests without servers",
        run: test::test,
    },
    Task {
        name: "check",
        args: "",
        about: "only reads: fmt, clippy, doc, the oldest Rust, deny, package, tidy",
        run: |args| none(args).map(|()| check::check()),
    },
    Task {
        name: "fix",
        args: "",
        about: "writes: fmt, clippy's suggestions, generated documents",
        run: |args| none(args).map(|()| fix::fix()),
    },
    Task {
        name: "features",
        args: "[PACKAGE [FEATURE | none]]",
        about: "checks each package with each of its features alone (all: 20 minutes)",
        run: features::alone,
    },
    Task {
        name: "dist",
        args: "[--program FILE] [TARGET..] | again [TARGET..] | check [PACKAGE]",
        about: "builds what users install: archives, Debian packages, checksums, list of libraries (target/dist); \
                again: in another folder, and compares; check: installs the package in an empty Debian",
        run: dist::dist,
    },
    Task {
        name: "package",
        args: "[all | FEATURE..]",
        about: "packs the crates, and builds a new project against the packages with each of these features; \
                all: with each feature, and the command",
        run: package::package,
    },
    Task {
        name: "tidy",
        args: "",
        about: "the rules of this repository that no other tool knows",
        run: |args| none(args).map(|()| tidy::step()),
    },
    Task {
        name: "errors",
        args: "",
        about: "writes docs/errors.md, the list of error messages, from the sources",
        run: |args| none(args).and_then(|()| tidy::errors::write()).map(|()| true),
    },
    Task {
        name: "etcd-api",
        args: "",
        about: "writes the code of etcd's API (crates/engines/leasehold-etcd-api) from its proto files, without protoc",
        run: |args| none(args).and_then(|()| etcd_api::write()),
    },
    Task {
        name: "articles",
        args: "",
        about: "writes the tables of docs/articles.md and docs/zh/articles.md from docs/articles.tsv",
        run: |args| none(args).and_then(|()| tidy::articles::write()).map(|()| true),
    },
    Task {
        name: "book",
        args: "[--build | --port PORT]",
        about: "builds the documentation as a book in two languages, and serves it on this machine",
        run: |args| open(cargo(["run", "-q", "-p", "leasehold-book", "--"]).args(args)),
    },
    Task {
        name: "graph",
        args: "",
        about: "draws which crate and which module uses which (docs/pictures)",
        run: |args| none(args).and_then(|()| tidy::circles::write()).map(|()| true),
    },
    Task {
        name: "matrix",
        args: "[--check | CASE]",
        about: "runs the conformance suite, or a case of it, and writes (or compares) docs/guarantees.md",
        run: matrix::matrix,
    },
    Task {
        name: "old-client",
        args: "[FILTER]",
        about: "runs the command of an earlier revision beside this library, and writes what was seen to decisions/0039",
        run: old_client::old_client,
    },
    Task {
        name: "lab",
        args: "[--check]",
        about: "simulates locks under faults and writes (or compares) \
                docs/evidence/simulated.md (minutes)",
        run: lab::lab,
    },
    Task {
        name: "stories",
        args: "",
        about: "writes what the lab tells and draws into docs: docs/lab.md, docs/zh/lab.md, \
                docs/pictures/lab-*.svg",
        run: |args| none(args).and_then(|()| lab::stories()).map(|()| true),
    },
    Task {
        name: "model",
        args: "[--full] [--run TEXT] [hand-off|read-write|semaphore|quorum|file]",
        about: "explores the protocols exhaustively (minutes; --full: more, with gigabytes)",
        run: model::model,
    },
    Task {
        name: "bench",
        args: "NAME [--quick] [--svg FILE] [--json FILE]",
        about: "builds and runs one benchmark",
        run: bench::bench,
    },
    Task {
        name: "interop",
        args: "[--program FILE] [--seconds S] [--scenes compete,leases,wakes,moves] [--peers NAME.. | --locks LOCK,..]",
        about: "lets real clients of other libraries share locks with ours, and writes the tables of docs/interop.md",
        run: interop::interop,
    },
    Task {
        name: "chaos",
        args: "[--engine NAME] [--minutes M] [--faults FAULT,..] [--seed N] [--json]",
        about: "stops, kills and robs real servers and clients, and checks what they saw",
        run: chaos::chaos,
    },
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some((name, rest)) = args.split_first() else {
        help();
        return ExitCode::SUCCESS;
    };
    if matches!(name.as_str(), "help" | "-h" | "--help") {
        help();
        return ExitCode::SUCCESS;
    }
    let Some(task) = TASKS.iter().find(|task| task.name == name) else {
        eprintln!("xtask: no task `{name}`; `cargo xtask` lists them");
        return ExitCode::from(2);
    };
    match (task.run)(rest) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("xtask {name}: {message}");
            ExitCode::FAILURE
        }
    }
}

fn help() {
    println!("cargo xtask TASK\n");
    for task in TASKS {
        println!("  {:<8} {}", task.name, task.about);
        if !task.args.is_empty() {
            println!("           cargo xtask {} {}", task.name, task.args);
        }
    }
}

fn none(args: &[String]) -> Result<(), String> {
    match args.first() {
        None => Ok(()),
        Some(arg) => Err(format!("takes no arguments, got `{arg}`")),
    }
}
