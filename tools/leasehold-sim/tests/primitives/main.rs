//! The protocols of the read-write lock and of the semaphore hold in every small run, and the models
//! find each planted bug.

mod read_write;
mod semaphore;

use std::collections::BTreeSet;

use leasehold_proto::client;
use leasehold_sim::primitive_model::{CacheBug, Primitive, Run, Setup, Size};
use stateright::{Checker, HasDiscoveries, Model};

/// Which rule is broken.
#[derive(Clone, Copy)]
enum Bug<B> {
    Record(B),
    Client(client::Bug),
    Cache(CacheBug),
}

/// The search comes upon a state that breaks the promise. Without the bug it does not, as deep as
/// that.
#[track_caller]
fn found<P: Primitive>(bug: Bug<P::Bug>, promise: &'static str, setup: Setup<P>) {
    let planted = match bug {
        Bug::Record(bug) => Setup { record_bug: Some(bug), ..setup },
        Bug::Client(bug) => Setup { client_bug: Some(bug), ..setup },
        Bug::Cache(bug) => Setup { cache_bug: Some(bug), ..setup },
    };
    finds(planted, promise, setup);
}

/// The same for a set-up with bugs and one without.
#[track_caller]
fn finds<P: Primitive>(planted: Setup<P>, promise: &'static str, setup: Setup<P>) {
    let this = || HasDiscoveries::AnyOf(BTreeSet::from([promise]));
    let checker = planted.checker().threads(2).finish_when(this()).spawn_bfs().join();
    let Some(path) = checker.discovery(promise) else {
        panic!("not found in {} states: {planted:?}", checker.unique_state_count());
    };
    let depth = path.into_actions().len() + 1;
    println!("{depth} steps, {} states: {planted:?}", checker.unique_state_count());
    let sound =
        setup.checker().threads(2).target_max_depth(depth).finish_when(this()).spawn_bfs().join();
    if let Some(path) = sound.discovery(promise) {
        panic!("broken without a bug: {setup:?}\n{:#?}", path.into_actions());
    }
}

/// The small runs hold.
#[track_caller]
fn holds<P: Primitive>(runs: &[Run<P>]) {
    let mut broken = Vec::new();
    for run in runs.iter().filter(|run| run.size == Size::Small) {
        let checker = run.setup.checker().threads(2).spawn_bfs().join();
        let (states, depth) = (checker.unique_state_count(), checker.max_depth());
        println!("{}: {states} states, depth {depth}", run.name);
        let found = checker.discoveries();
        for property in run.setup.properties() {
            let path = found.get(property.name);
            if property.expectation.discovery_is_failure() == path.is_some() {
                let actions = path.map(|path| path.clone().into_actions());
                broken.push((run.name, property.name, actions));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}
