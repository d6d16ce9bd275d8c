//! Runs the command of an earlier revision beside this library on every engine: each excludes the other.
//!
//! `cargo xtask old-client` builds that command, and names it in `LEASEHOLD_OLD_CLIENT`. Without it the tests are
//! ignored.

// A set-up that fails is a failed run.
#![allow(clippy::unwrap_used)]

#[path = "../conformance/bounds.rs"]
mod bounds;
mod load;
mod old;
mod scenes;
#[path = "../conformance/sql.rs"]
mod sql;
#[path = "../conformance/subjects.rs"]
mod subjects;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold_conformance::runner;
use libtest_mimic::{Arguments, Trial};

use crate::old::Old;
use crate::scenes::{SCENES, Scene};

/// No scene takes longer than this.
const LIMIT: Duration = Duration::from_secs(180);

/// What was seen, by engine and scene.
type Table = Arc<Mutex<BTreeMap<(String, &'static str), String>>>;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let Some(binary) = std::env::var_os("LEASEHOLD_OLD_CLIENT").map(PathBuf::from) else {
        let trial = Trial::test("run it with `cargo xtask old-client`", || Ok(()));
        return libtest_mimic::run(&arguments, vec![trial.with_ignored_flag(true)]).exit_code();
    };
    let setup = subjects::all();
    let table = Table::default();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut trials = Vec::new();
    let mut engines = Vec::new();
    // It knows neither of these options.
    let is_known = |url: &String| !url.contains("wire=") && !url.contains("also=");
    for subject in setup.subjects.iter().filter(|s| s.url.as_ref().is_some_and(is_known)) {
        let capability = runtime.block_on(subject.connect()).capability().clone();
        engines.push(subject.name.clone());
        for scene in SCENES.iter().filter(|scene| (scene.applies)(&capability)) {
            let url = subjects::for_case(subject, scene.name).url.unwrap();
            let old = Old::new(binary.clone(), url);
            trials.push(trial(subject.name.clone(), scene, old, table.clone()));
        }
    }
    for name in &setup.missing {
        let trial = Trial::test(format!("{name}::its server is not installed"), || Ok(()));
        trials.push(trial.with_ignored_flag(true));
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    let path = std::env::var_os("LEASEHOLD_OLD_TABLE").filter(|_| !conclusion.has_failed());
    if let Some(path) = path.filter(|_| arguments.filter.is_none()) {
        let text = written(&engines, &table.lock().unwrap());
        if let Err(error) = std::fs::write(&path, text) {
            eprintln!("cannot write {}: {error}", path.display());
            return ExitCode::FAILURE;
        }
    }
    conclusion.exit_code()
}

fn trial(engine: String, scene: &'static Scene, old: Old, table: Table) -> Trial {
    let name = format!("{engine}::{}", scene.name);
    Trial::test(name.clone(), move || {
        let played = runner::timed(&name, || runner::in_runtime(LIMIT, || (scene.play)(old)))?;
        table.lock().unwrap().insert((engine, scene.name), played);
        Ok(())
    })
}

/// Returns the table as Markdown: a row for each engine, a column for each scene.
fn written(engines: &[String], table: &BTreeMap<(String, &'static str), String>) -> String {
    let titles: Vec<&str> = SCENES.iter().map(|scene| scene.title).collect();
    let mut text =
        format!("| store | {} |\n|{}\n", titles.join(" | "), "---|".repeat(titles.len() + 1));
    for engine in engines {
        let seen = SCENES.iter().map(|scene| {
            let seen = table.get(&(engine.clone(), scene.name));
            seen.map_or("-", String::as_str)
        });
        text += &format!("| {engine} | {} |\n", seen.collect::<Vec<_>>().join(" | "));
    }
    text
}
