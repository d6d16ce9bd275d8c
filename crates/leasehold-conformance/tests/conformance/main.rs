//! Runs the suite: every case against every engine, as one test each.

// A set-up that fails is a failed run.
#![allow(clippy::unwrap_used)]

mod subjects;

use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold_conformance::{Case, Context, Mark, Matrix, Subject, cases, holder};
use libtest_mimic::{Arguments, Failed, Trial};

/// No case takes longer than this; one that does hangs.
const LIMIT: Duration = Duration::from_secs(120);

fn main() -> ExitCode {
    if let Some((url, name)) = holder::role() {
        return play(&url, &name);
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
        let matrix = matrix.lock().unwrap();
        if let Err(error) = matrix.write(&PathBuf::from(path), &cases(), &names) {
            eprintln!("cannot write the matrix: {error}");
            return ExitCode::FAILURE;
        }
    }
    conclusion.exit_code()
}

fn trial(subject: Subject, case: Case, matrix: Arc<Mutex<Matrix>>) -> Trial {
    let name = format!("{}::{}", subject.name, case.name);
    Trial::test(name, move || {
        run(&subject, case)?;
        matrix.lock().unwrap().note(case.name, &subject.name, Mark::Kept);
        Ok(())
    })
}

/// Runs one case in a runtime of its own.
fn run(subject: &Subject, case: Case) -> Result<(), Failed> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let context = Context::new(subject.clone(), case.name);
    let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| {
        runtime.block_on(async { tokio::time::timeout(LIMIT, (case.run)(context)).await })
    }));
    runtime.shutdown_timeout(Duration::from_secs(5));
    match outcome {
        Ok(Ok(Ok(()))) => Ok(()),
        Ok(Ok(Err(error))) => Err(format!("{error}").into()),
        Ok(Err(_)) => Err(format!("not done within {LIMIT:?}").into()),
        Err(_) => Err("it panicked".into()),
    }
}

/// The other side of the cases with two processes.
fn play(url: &str, name: &str) -> ExitCode {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let played = runtime.block_on(async {
        let client = leasehold::connect(url).await?;
        holder::play(client, name, 2_000).await
    });
    match played {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
