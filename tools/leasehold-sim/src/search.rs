//! Searches a model for states that break one promise.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::hash::Hash;

use stateright::{Checker, HasDiscoveries, Model};

/// Returns true if a state that breaks the promise can be reached. It searches breadth first, and stops
/// at the first such state.
pub fn breaks<M>(model: M, promise: &'static str) -> bool
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + PartialEq + Hash + Send + Sync,
    M::Action: Clone + Debug + PartialEq,
{
    let this = HasDiscoveries::AnyOf(BTreeSet::from([promise]));
    let checker = model.checker().threads(2).finish_when(this).spawn_bfs().join();
    checker.discovery(promise).is_some()
}
