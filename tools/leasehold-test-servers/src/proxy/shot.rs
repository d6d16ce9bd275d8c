//! What a test holds of a fault that is meant for one request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::state::Shared;

/// Whether a rule has been applied.
#[derive(Clone, Debug)]
pub struct Shot(Arc<AtomicBool>);

impl Shot {
    pub(super) fn new(happened: Arc<AtomicBool>) -> Self {
        Self(happened)
    }

    /// Whether a request has matched.
    pub fn happened(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// A request that is held back, or will be. Dropped, it is held for ever.
#[derive(Debug)]
#[must_use = "the request is held until it is released"]
pub struct Held {
    caught: Shot,
    released: Arc<AtomicBool>,
    shared: Arc<Shared>,
}

impl Held {
    pub(super) fn new(caught: Shot, released: Arc<AtomicBool>, shared: Arc<Shared>) -> Self {
        Self { caught, released, shared }
    }

    /// Whether a request has matched.
    pub fn is_caught(&self) -> bool {
        self.caught.happened()
    }

    /// Lets it go to the server, also when its client has gone, unless the connection was killed.
    pub fn release(self) {
        self.released.store(true, Ordering::SeqCst);
        self.shared.change(|_| ());
    }
}
