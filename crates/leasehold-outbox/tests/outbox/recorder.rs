//! A transport that writes down what it gets.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use leasehold_outbox::Result;
use leasehold_outbox::{Change, Refused, Transport};
use tokio::sync::Semaphore;

/// Clones share everything.
#[derive(Clone, Debug)]
pub(crate) struct Recorder(Arc<State>);

#[derive(Debug)]
struct State {
    delivered: Mutex<Vec<Change>>,
    /// A batch takes one after it has arrived, before the relay gets the answer.
    gate: Semaphore,
}

impl Recorder {
    /// Takes everything.
    pub(crate) fn new() -> Self {
        Self::of(Semaphore::MAX_PERMITS)
    }

    /// Says of so many batches that they have arrived; of the next when it is let through.
    pub(crate) fn of(batches: usize) -> Self {
        Self(Arc::new(State { delivered: Mutex::default(), gate: Semaphore::new(batches) }))
    }

    pub(crate) fn let_through(&self, batches: usize) {
        self.0.gate.add_permits(batches);
    }

    /// Changes that have arrived.
    pub(crate) fn arrived(&self) -> usize {
        self.0.delivered.lock().unwrap().len()
    }

    /// How often each key was delivered.
    pub(crate) fn delivered(&self) -> HashMap<String, usize> {
        let mut count = HashMap::new();
        for change in self.0.delivered.lock().unwrap().iter() {
            *count.entry(change.key.clone()).or_default() += 1;
        }
        count
    }
}

impl Transport for Recorder {
    fn deliver<'a>(&'a self, changes: &'a [Change]) -> BoxFuture<'a, Result<Vec<Refused>>> {
        Box::pin(async move {
            self.0.delivered.lock().unwrap().extend_from_slice(changes);
            self.0.gate.acquire().await.unwrap().forget();
            Ok(Vec::new())
        })
    }
}
