//! An acquire request in progress, and its answers.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::backend::{AcquireRequest, Answer, Grant, Term};
use leasehold_core::{Error, Result, TokenBlock};
use zookeeper_client::Error as ZkError;

use crate::attempts::Lease;
use crate::format::Format;
use crate::path::{LATCH, WIRE};
use crate::session::{Listed, Session};
use crate::store::Store;
use crate::{latch_value, release};

/// A waiter sends its request again after this time. Usually its watch fires earlier, because
/// watches survive reconnects. While the watch exists, the repeated request does not reach the server.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// The same for a permit of a semaphore, whose repeated request reads the whole queue.
const ASK_FOR_PERMIT_AGAIN: Duration = Duration::from_secs(10);

/// An acquire request in progress.
pub(crate) struct Asking<'a> {
    pub(crate) store: &'a Arc<Store>,
    pub(crate) request: &'a AcquireRequest,
    pub(crate) session: Arc<Session>,
    /// The node of the lock, or of the semaphore.
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

    /// Removes what has expired among the nodes of the name. Returns true if it did.
    pub(crate) async fn removed_expired(&self, listed: &Option<Listed>) -> Result<bool> {
        let nodes = listed.as_ref().map(|(nodes, _)| &**nodes).unwrap_or_default();
        let kept = match self.store.format() {
            // The mark is this client's own.
            Format::Kazoo => &[LATCH][..],
            Format::Own | Format::Curator => &[LATCH, WIRE],
        };
        latch_value::removed_expired(&self.session, &self.lock, nodes, kept).await
    }

    pub(crate) fn failed(&self, error: ZkError) -> Error {
        self.store.failed(&self.request.name, error)
    }
}

pub(crate) fn granted(lease: &Lease, term: Term, wanted: bool) -> Answer {
    let grant = grant(lease, term, wanted);
    match lease.slots.is_empty() {
        true => Answer::Granted(grant),
        false => Answer::Permit { grant, slots: lease.slots.clone() },
    }
}

pub(crate) fn grant(lease: &Lease, term: Term, wanted: bool) -> Grant {
    Grant::new(TokenBlock::single(lease.token), term, wanted)
}

pub(crate) fn queued(place: Option<u64>) -> Answer {
    Answer::Queued { place, ask_again: ASK_AGAIN }
}

/// Returns the answer to a waiter for a permit. It reads the semaphore each time that it asks.
pub(crate) fn queued_permit(place: u64) -> Answer {
    Answer::Queued { place: Some(place), ask_again: ASK_FOR_PERMIT_AGAIN }
}
