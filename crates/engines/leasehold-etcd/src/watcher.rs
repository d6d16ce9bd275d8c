//! The interface to the task that watches keys for a client: the client's own keys, and those that its attempts
//! wait for.

mod notices;
mod stream;
mod table;
mod task;

use std::sync::{Arc, OnceLock};

use leasehold_core::backend::EventSink;
use leasehold_core::clock::Clock;
use leasehold_core::{AttemptId, Name};
use tokio::sync::mpsc;

use self::table::{Watched, What};
use crate::attempts::Attempts;
use crate::key::Range;
use crate::members::Members;

/// An order to the task.
enum WatchOrder {
    Watch(AttemptId, Watched),
    Leave(AttemptId),
}

/// What wakes an attempt that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// The key is deleted.
    Deletion,
    /// The key is deleted or changed.
    Change,
    /// A key in the range up to this end is deleted, or the first key of the range is changed.
    Slots(Vec<u8>),
}

/// Watches keys; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Watcher {
    orders: mpsc::UnboundedSender<WatchOrder>,
    sink: Arc<OnceLock<EventSink>>,
}

impl Watcher {
    /// Starts the task in the current runtime; it ends when the last clone is dropped.
    pub(crate) fn start(members: Members, attempts: Attempts, clock: Clock) -> Self {
        let (orders, receiver) = mpsc::unbounded_channel();
        let sink = Arc::new(OnceLock::new());
        let again = orders.downgrade();
        let ears = notices::Ears { members, attempts, sink: sink.clone(), again };
        tokio::spawn(task::WatchTask::new(ears, clock, receiver).run());
        Self { orders, sink }
    }

    /// Sets the sink of the events.
    pub(crate) fn attach(&self, sink: EventSink) {
        self.sink.set(sink).ok();
    }

    /// Reports when the key that this attempt waits for has changed; it existed at this revision.
    pub(crate) fn follow(
        &self,
        attempt: AttemptId,
        name: &Name,
        key: Vec<u8>,
        revision: i64,
        wait: Wait,
    ) {
        let (what, end) = match wait {
            Wait::Deletion => (What::Deletion, None),
            Wait::Change => (What::Change, None),
            Wait::Slots(end) => (What::Slots, Some(end)),
        };
        let watched = Watched { name: name.clone(), key, end, revision, what };
        self.order(WatchOrder::Watch(attempt, watched));
    }

    /// Reports when the attempt's own key is deleted, after it has been held for a second; if other programs write
    /// it too, also when it is under another lease.
    pub(crate) fn guard(
        &self,
        attempt: AttemptId,
        name: &Name,
        key: Vec<u8>,
        revision: i64,
        by_others: bool,
    ) {
        let (end, what) = (None, if by_others { What::Bound } else { What::Own });
        let watched = Watched { name: name.clone(), key, end, revision, what };
        self.order(WatchOrder::Watch(attempt, watched));
    }

    /// Reports when a writer enters the queue, once, if the reader holds for a tenth of a second.
    pub(crate) fn expect_writer(
        &self,
        attempt: AttemptId,
        name: &Name,
        (key, end): Range,
        revision: i64,
    ) {
        let (end, what) = (Some(end), What::Writers);
        let watched = Watched { name: name.clone(), key, end, revision, what };
        self.order(WatchOrder::Watch(attempt, watched));
    }

    /// Stops all reports about this attempt.
    pub(crate) fn leave(&self, attempt: AttemptId) {
        self.order(WatchOrder::Leave(attempt));
    }

    fn order(&self, order: WatchOrder) {
        // Without a runtime the task has ended.
        self.orders.send(order).ok();
    }
}
