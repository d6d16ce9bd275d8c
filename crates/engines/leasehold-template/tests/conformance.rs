//! The suite that every engine passes, with the cases that this one's capabilities choose.

// A set-up that fails is a failed run.
#![allow(clippy::unwrap_used)]

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use leasehold_conformance::{Bound, Context, Subject, cases, runner};
use leasehold_core::backend::Backend;
use leasehold_template::{KeyValueStore, TemplateBackend};
use libtest_mimic::{Arguments, Trial};

const LIMIT: Duration = Duration::from_secs(120);

fn main() -> ExitCode {
    let store = KeyValueStore::default();
    let connect = move || {
        let backend: Arc<dyn Backend> = Arc::new(TemplateBackend::new(store.clone()));
        std::future::ready(backend)
    };
    // Without pushes, a holder learns of a forced release at its next renewal.
    let subject = Subject::new("template", connect)
        .with_bounds([("a_forced_release_is_noticed", Bound::Renewal)]);
    let capability = tokio::runtime::Runtime::new().unwrap().block_on(subject.connect());
    let capability = capability.capability().clone();
    // Other processes cannot reach a store that is in the memory of this one.
    let cases = cases().into_iter().filter(|case| (case.applies)(&capability) && !case.processes);
    let trial = |case: leasehold_conformance::Case| {
        let subject = subject.clone();
        Trial::test(case.name, move || {
            let context = Context::new(subject.clone(), case.name);
            let done = runner::in_runtime(LIMIT, || (case.run)(context))?;
            done.map_err(|error| error.to_string().into())
        })
    };
    libtest_mimic::run(&Arguments::from_args(), cases.map(trial).collect()).exit_code()
}
