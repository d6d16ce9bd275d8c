//! Handles the deletion of a watched key, and the end of a watch.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use etcd_client::{EventType, WatchResponse};
use leasehold_core::AttemptId;
use leasehold_core::backend::{Event, EventSink};
use tokio::sync::mpsc;

use super::WatchOrder;
use super::table::{Table, Watched, What};
use crate::attempts::Attempts;
use crate::members::Members;

/// How long the read of a key may take.
const LOOK: Duration = Duration::from_secs(5);

/// Handles the server's messages and forwards events to the sink.
pub(super) struct Ears {
    pub(super) members: Members,
    pub(super) attempts: Attempts,
    pub(super) sink: Arc<OnceLock<EventSink>>,
    /// Orders for watches that must be created again.
    pub(super) again: mpsc::WeakUnboundedSender<WatchOrder>,
}

/// What to do after a message of the server.
pub(super) enum Then {
    Nothing,
    /// Cancel the watch: its key is deleted.
    Cancel(i64),
    /// The stream is broken.
    Broken,
}

impl Ears {
    /// Handles an event, or the end of a watch.
    pub(super) fn hear(&self, response: &WatchResponse, watched: &mut Table) -> Then {
        let refused = response.canceled() && !response.cancel_reason().is_empty();
        if refused && response.compact_revision() == 0 {
            // The stream uses the login with which it was opened, and that has expired.
            tracing::debug!(reason = response.cancel_reason(), "the server canceled a watch");
            return Then::Broken;
        }
        let gone = response.events().iter().any(|event| {
            // Ignore unknown kinds of events.
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
            // Report this also if the watch was refused or began too late: a retry of the acquire
            // is always safe.
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

    /// Handles the start of a watch of the predecessor: if there were writes since its key was last
    /// seen, the key may already be deleted.
    fn begun(&self, response: &WatchResponse, watched: &Table) {
        let begun = response.header().map_or(i64::MAX, |header| header.revision());
        if let Some((attempt, watched)) = watched.get(response.watch_id())
            && watched.what == What::Before
            && watched.revision < begun
        {
            self.look(*attempt, watched.clone());
        }
    }

    /// Reads a key whose deletion may have been missed. If it is the attempt's own and exists, it is
    /// watched from that revision on.
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
                // If it was put again, it is behind us in the queue.
                (What::Before, Ok(Some(key))) if key.create_revision() <= watched.revision => {}
                // Report this also without an answer: a retry of the acquire is always safe.
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
                // Without an answer, the server refuses the next watch too, and the client reads
                // the key again.
                (What::Own, Ok(Some(_)) | Err(_)) => {
                    let header = found.as_ref().ok().and_then(|found| found.header());
                    watched.revision = header.map_or(watched.revision, |header| header.revision());
                    again.upgrade().map(|orders| orders.send(WatchOrder::Watch(attempt, watched)));
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

/// Records that the predecessor's key is deleted, so that the next request reads the queue instead
/// of that key.
fn passed(attempts: &Attempts, attempt: AttemptId, key: &[u8]) {
    attempts.change(attempt, |live| {
        live.before.take_if(|(before, _)| *before == key);
    });
}
