//! An acquire request in progress, and its answers.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::backend::{AcquireRequest, Answer, Grant, Term};
use leasehold_core::{Error, TokenBlock};
use zookeeper_client::Error as ZkError;

use crate::attempts::Lease;
use crate::release;
use crate::session::Session;
use crate::store::Store;

/// A waiter sends its request again after this time. Usually its watch fires earlier, because
/// watches survive reconnects. While the watch exists, the repeated request does not reach the server.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// An acquire request in progress.
pub(crate) struct Asking<'a> {
    pub(crate) store: &'a Arc<Store>,
    pub(crate) request: &'a AcquireRequest,
    pub(crate) session: Arc<Session>,
    /// The node of the lock.
    pub(crate) lock: String,
}

/// The result of one read of the queue.
pub(crate) enum Look {
    Answer(Answer),
    /// The queue has changed: read it again.
    Again,
}

impl Asking<'_> {
    /// Deletes the node of an attempt that does not wait, and forgets the attempt.
    pub(crate) async fn leave(&self) {
        release::leave(self.store, &self.request.name, self.request.attempt).await;
    }

    pub(crate) fn failed(&self, error: ZkError) -> Error {
        self.store.failed(&self.request.name, error)
    }
}

pub(crate) fn granted(lease: &Lease, term: Term, wanted: bool) -> Answer {
    Answer::Granted(grant(lease, term, wanted))
}

pub(crate) fn grant(lease: &Lease, term: Term, wanted: bool) -> Grant {
    Grant::new(TokenBlock::single(lease.token), term, wanted)
}

pub(crate) fn queued(place: Option<u64>) -> Answer {
    Answer::Queued { place, ask_again: ASK_AGAIN }
}
