//! Watching keys for a client, those before its own in a line and its own: what the operations ask for.

mod heard;
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
use crate::members::Members;

/// What the task is to do.
enum Order {
    Watch(AttemptId, Watched),
    Leave(AttemptId),
}

/// Watches keys; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Watcher {
    orders: mpsc::UnboundedSender<Order>,
    sink: Arc<OnceLock<EventSink>>,
}

impl Watcher {
    /// Starts the task, in the runtime where this is called; it ends with the last clone.
    pub(crate) fn start(members: Members, attempts: Attempts, clock: Clock) -> Self {
        let (orders, receiver) = mpsc::unbounded_channel();
        let sink = Arc::new(OnceLock::new());
        let again = orders.downgrade();
        let ears = heard::Ears { members, attempts, sink: sink.clone(), again };
        tokio::spawn(task::Task::new(ears, clock, receiver).run());
        Self { orders, sink }
    }

    /// Where the events go.
    pub(crate) fn attach(&self, sink: EventSink) {
        self.sink.set(sink).ok();
    }

    /// Tells when the key before this attempt goes, which was there at this revision.
    pub(crate) fn follow(&self, attempt: AttemptId, name: &Name, key: Vec<u8>, revision: i64) {
        let watched = Watched { name: name.clone(), key, revision, what: What::Before };
        self.order(Order::Watch(attempt, watched));
    }

    /// Tells when the attempt's own key goes, once it has been held for a second.
    pub(crate) fn guard(&self, attempt: AttemptId, name: &Name, key: Vec<u8>, revision: i64) {
        let watched = Watched { name: name.clone(), key, revision, what: What::Own };
        self.order(Order::Watch(attempt, watched));
    }

    /// Nothing is to be told of this attempt any more.
    pub(crate) fn leave(&self, attempt: AttemptId) {
        self.order(Order::Leave(attempt));
    }

    fn order(&self, order: Order) {
        // Without a runtime there is nobody to tell.
        self.orders.send(order).ok();
    }
}
