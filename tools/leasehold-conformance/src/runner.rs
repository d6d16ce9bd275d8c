//! Runs the tests of a binary that has a `main` of its own (`harness = false`), each in a runtime
//! of its own.

use std::fs::OpenOptions;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Trial};

pub use leasehold_test_servers::Needs;

/// A row of a table of tests; [`test!`](crate::test!) makes it.
#[derive(Clone, Copy, Debug)]
pub struct Test {
    /// Its name, without its group's.
    pub name: &'static str,
    /// What it needs beside what all tests of the binary do; without it the test is ignored.
    pub needs: Needs,
    /// The steps. A panic is a failure.
    pub run: fn() -> Pin<Box<dyn Future<Output = ()>>>,
}

/// A [`Test`](crate::runner::Test) from an async function: `test!(a_promise)`, or with what it needs,
/// `test!(a_promise, Postgres)`.
#[macro_export]
macro_rules! test {
    ($name:ident) => {
        $crate::test!($name, Nothing)
    };
    ($name:ident, $needs:ident) => {
        $crate::runner::Test {
            name: stringify!($name),
            needs: $crate::runner::Needs::$needs,
            run: || ::std::boxed::Box::pin($name()),
        }
    };
}

/// Runs groups of tests as the command line says, each as `GROUP::NAME`; one that takes longer
/// than `limit` has failed. All are ignored where what they need is missing.
pub fn run(needs: Needs, limit: Duration, groups: &[(&str, &[Test])]) -> ExitCode {
    let arguments = Arguments::from_args();
    let all_missing = needs.is_missing();
    let mut trials = Vec::new();
    for (group, tests) in groups {
        for test in *tests {
            let is_missing = all_missing || test.needs.is_missing();
            let trial = trial(format!("{group}::{}", test.name), limit, test.run);
            trials.push(trial.with_ignored_flag(is_missing));
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// One test, for binaries that make their list themselves.
pub fn trial<F>(
    name: impl Into<String>,
    limit: Duration,
    test: impl FnOnce() -> F + Send + 'static,
) -> Trial
where
    F: Future<Output = ()>,
{
    let name = name.into();
    Trial::test(name.clone(), move || Ok(timed(&name, || in_runtime(limit, test))?))
}

/// Runs a test; where `LEASEHOLD_TEST_TIMES` names a file, a line `MILLISECONDS NAME` is added to it.
/// `cargo xtask test --timings` asks for that.
pub fn timed<T>(name: &str, test: impl FnOnce() -> T) -> T {
    let Some(path) = std::env::var_os("LEASEHOLD_TEST_TIMES") else {
        return test();
    };
    let start = Instant::now();
    let done = test();
    let line = format!("{} {name}\n", start.elapsed().as_millis());
    let file = OpenOptions::new().create(true).append(true).open(&path);
    if let Err(error) = file.and_then(|mut file| file.write_all(line.as_bytes())) {
        eprintln!("cannot note the time of {name} in {}: {error}", path.display());
    }
    done
}

/// Runs a future in a runtime of its own with two threads, which is gone afterwards, also when the
/// future has panicked.
///
/// # Errors
/// When the future takes longer than `limit`, or there can be no runtime.
pub fn in_runtime<F: Future>(
    limit: Duration,
    make: impl FnOnce() -> F,
) -> Result<F::Output, String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| format!("no runtime: {error}"))?;
    let limited = async { tokio::time::timeout(limit, make()).await };
    let done = catch_unwind(AssertUnwindSafe(|| runtime.block_on(limited)));
    // A blocking call that never ends would keep the runtime for ever.
    runtime.shutdown_timeout(Duration::from_secs(5));
    let done = done.unwrap_or_else(|panic| resume_unwind(panic));
    done.map_err(|_| format!("not done within {limit:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn what_takes_too_long_has_failed() {
        let limit = Duration::from_millis(1);
        let error = in_runtime(limit, std::future::pending::<()>).unwrap_err();
        assert_eq!(error, "not done within 1ms");
        assert_eq!(in_runtime(LONG, || async { 5 }), Ok(5));
    }

    #[test]
    fn a_panic_goes_through() {
        let run = || in_runtime(LONG, || async { panic!("as it is") });
        let panic = catch_unwind(run).unwrap_err();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"as it is"));
    }
}
