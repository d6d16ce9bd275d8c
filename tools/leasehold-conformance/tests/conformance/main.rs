//! Runs the suite: every case against every engine, as one test each.

// A set-up that fails is a failed run.
#![allow(clippy::unwrap_used)]

mod bounds;
mod sql;
mod subjects;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold_conformance::{Case, Context, Mark, Matrix, Subject, cases, holder, runner};
use libtest_mimic::{Arguments, Failed, Trial};

/// No case takes longer than this; one that does hangs.
const LIMIT: Duration = Duration::from_secs(120);

fn main() -> ExitCode {
    if let Some(code) = holder::played(async |url| leasehold::connect(&url).await) {
        return code;
    }
    let arguments = Arguments::from_args();
    let setup = subjects::all();
    let matrix = Arc::new(Mutex::new(Matrix::default()));
    let mut trials = Vec::new();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for subject in &setup.subjects {
        let capability = runtime.block_on(subject.connect()).capability().clone();
        for case in cases() {
            // A promise that the engine does not make is no test of it: its refusals are a case
            // of their own.
            if !(case.applies)(&capability) {
                matrix.lock().unwrap().note(case.name, &subject.name, Mark::Refused);
            } else if case.processes && subject.url.is_none() {
                matrix.lock().unwrap().note(case.name, &subject.name, Mark::Moot);
            } else {
                trials.push(trial(subject.clone(), case, matrix.clone()));
            }
        }
    }
    for name in &setup.missing {
        let trial = Trial::test(format!("{name}::its server is not installed"), || Ok(()));
        trials.push(trial.with_ignored_flag(true));
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    if let Some(path) = std::env::var_os("LEASEHOLD_MATRIX").filter(|_| !conclusion.has_failed()) {
        let names: Vec<String> = setup.subjects.iter().map(|s| s.name.clone()).collect();
        let (path, matrix) = (PathBuf::from(path), matrix.lock().unwrap().clone());
        // A run of some cases knows nothing of the others.
        let matrix = match arguments.filter.is_some() {
            true => matrix.over(&path),
            false => Ok(matrix),
        };
        if let Err(error) = matrix.and_then(|matrix| matrix.write(&path, &cases(), &names)) {
            eprintln!("cannot write the matrix: {error}");
            return ExitCode::FAILURE;
        }
    }
    conclusion.exit_code()
}

fn trial(subject: Subject, case: Case, matrix: Arc<Mutex<Matrix>>) -> Trial {
    let name = format!("{}::{}", subject.name, case.name);
    Trial::test(name.clone(), move || {
        runner::timed(&name, || run(&subject, case))?;
        let mut matrix = matrix.lock().unwrap();
        matrix.note(case.name, &subject.name, Mark::Kept);
        if case.bounded {
            matrix.note_bound(case.name, &subject.name, subject.bound(case.name));
        }
        Ok(())
    })
}

/// Runs one case in a runtime of its own.
fn run(subject: &Subject, case: Case) -> Result<(), Failed> {
    let context = Context::new(subjects::for_case(subject, case.name), case.name);
    runner::in_runtime(LIMIT, || (case.run)(context))?.map_err(|error| error.to_string().into())
}
