//! What the end of a key, or of a watch, means for who has it watched.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use etcd_client::{EventType, WatchResponse};
use leasehold_core::AttemptId;
use leasehold_core::backend::{Event, EventSink};
use tokio::sync::mpsc;

use super::Order;
use super::table::{Table, Watched, What};
use crate::attempts::Attempts;
use crate::members::Members;

/// How long a look at a key may take.
const LOOK: Duration = Duration::from_secs(5);

/// Who listens, and whom it tells.
pub(super) struct Ears {
    pub(super) members: Members,
    pub(super) attempts: Attempts,
    pub(super) sink: Arc<OnceLock<EventSink>>,
    /// For what is to be watched again.
    pub(super) again: mpsc::WeakUnboundedSender<Order>,
}

/// What is to be done after a word of the server.
pub(super) enum Then {
    Nothing,
    /// The watch is to be ended: it outlives its key.
    Cancel(i64),
    /// The stream is of no use any more.
    Broken,
}

impl Ears {
    /// An event, or the end of a watch.
    pub(super) fn hear(&self, response: &WatchResponse, watched: &mut Table) -> Then {
        let refused = response.canceled() && !response.cancel_reason().is_empty();
        if refused && response.compact_revision() == 0 {
            // The stream stands open with the login that it was opened with, which has expired.
            tracing::debug!(reason = response.cancel_reason(), "the server ends a watch");
            return Then::Broken;
        }
        let gone = response.events().iter().any(|event| {
            // A kind that is not known is not ours to judge.
            matches!(event.0.r#type, kind if kind == EventType::Delete as i32)
        });
        if !gone && !response.canceled() {
            if response.created() {
                self.begun(response, watched);
            }
            return Then::Nothing;
        }
        let Some((attempt, watched)) = watched.take(response.watch_id()) else {
            return Then::Nothing;
        };
        match watched.what {
            // Also when the watch was refused or came too late: asking is always right.
            What::Before => {
                if gone {
                    passed(&self.attempts, attempt, &watched.key);
                }
                self.say(Event::Freed { name: watched.name });
            }
            What::Own if gone => {
                if self.attempts.holds(attempt) {
                    self.say(Event::Lost { attempt, base: None });
                }
            }
            What::Own => self.look(attempt, watched),
        }
        match response.canceled() {
            true => Then::Nothing,
            false => Then::Cancel(response.watch_id()),
        }
    }

    /// A watch of the one before has begun: if anything was written since its key was last seen, it may
    /// have gone before.
    fn begun(&self, response: &WatchResponse, watched: &Table) {
        let begun = response.header().map_or(i64::MAX, |header| header.revision());
        if let Some((attempt, watched)) = watched.get(response.watch_id())
            && watched.what == What::Before
            && watched.revision < begun
        {
            self.look(*attempt, watched.clone());
        }
    }

    /// Looks at a key that may have gone unseen. An own one that is there is watched from there on.
    fn look(&self, attempt: AttemptId, mut watched: Watched) {
        let (members, attempts, sink) =
            (self.members.clone(), self.attempts.clone(), self.sink.clone());
        let again = self.again.clone();
        tokio::spawn(async move {
            let key = &watched.key;
            let get = |client: etcd_client::Client| async move {
                client.kv_client().get(key.clone(), None).await
            };
            let found = members.call(LOOK, get).await.map(|found| found.value);
            let there = found.as_ref().map(|found| found.kvs().first());
            let say = |event| sink.get().map(|sink| sink.send(event));
            match (watched.what, there) {
                // If it was put again, it is behind us now.
                (What::Before, Ok(Some(key))) if key.create_revision() <= watched.revision => {}
                // Also without an answer: asking is always right.
                (What::Before, there) => {
                    if there.is_ok() {
                        passed(&attempts, attempt, key);
                    }
                    say(Event::Freed { name: watched.name });
                }
                (What::Own, Ok(None)) => {
                    if attempts.holds(attempt) {
                        say(Event::Lost { attempt, base: None });
                    }
                }
                // Without an answer the watch is refused again, and the key looked at again.
                (What::Own, Ok(Some(_)) | Err(_)) => {
                    let header = found.as_ref().ok().and_then(|found| found.header());
                    watched.revision = header.map_or(watched.revision, |header| header.revision());
                    again.upgrade().map(|orders| orders.send(Order::Watch(attempt, watched)));
                }
            }
        });
    }

    pub(super) fn say(&self, event: Event) {
        if let Some(sink) = self.sink.get() {
            sink.send(event);
        }
    }
}

/// The one before an attempt has gone: there is no need to look for it again.
fn passed(attempts: &Attempts, attempt: AttemptId, key: &[u8]) {
    attempts.change(attempt, |live| {
        live.before.take_if(|(before, _)| *before == key);
    });
}
