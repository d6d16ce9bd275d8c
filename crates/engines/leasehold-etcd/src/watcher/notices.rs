//! Handles the change of a watched key, and the end of a watch.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use leasehold_core::backend::{Event, EventSink};
use leasehold_core::{AttemptId, Name};
use leasehold_etcd_api::{Event as WatchEvent, EventType, WatchResponse};
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
    /// Cancel the watch: it has reported what it was for.
    Cancel(i64),
    /// The stream is broken.
    Broken,
}

impl Ears {
    /// Handles an event, or the end of a watch.
    pub(super) fn hear(&self, response: &WatchResponse, watched: &mut Table) -> Then {
        let refused = response.canceled && !response.cancel_reason.is_empty();
        if refused && response.compact_revision == 0 {
            // The stream uses the login with which it was opened, and that has expired.
            tracing::debug!(reason = %response.cancel_reason, "the server canceled a watch");
            return Then::Broken;
        }
        let reports = watched.get(response.watch_id).is_some_and(|(_, watched)| {
            response.events.iter().any(|event| reports(watched, event))
        });
        if !reports && !response.canceled {
            if response.created {
                self.begun(response, watched);
            }
            return Then::Nothing;
        }
        // The first waiter for a permit asks again after each change.
        if let Some((attempt, watched)) = watched.get(response.watch_id)
            && watched.what == What::Slots
            && !response.canceled
        {
            self.say(ask_again(*attempt, &watched.name));
            return Then::Nothing;
        }
        let Some((attempt, watched)) = watched.take(response.watch_id) else {
            return Then::Nothing;
        };
        match watched.what {
            // Report this also if the watch was refused or began too late: a retry of the acquire
            // is always safe.
            What::Deletion | What::Change | What::Slots => {
                if reports {
                    passed(&self.attempts, attempt, &watched.key);
                }
                self.say(ask_again(attempt, &watched.name));
            }
            What::Own | What::Bound if response.events.iter().any(is_deletion) => {
                if self.attempts.holds(attempt) {
                    self.say(Event::Lost { attempt, base: None });
                }
            }
            What::Own | What::Bound => self.look(attempt, watched),
            // After a refused watch this may be wrong: then tasks of the client do not join the lease for no reason.
            What::Writers => {
                if self.attempts.holds(attempt) {
                    self.say(Event::Wanted { name: watched.name, attempt });
                }
            }
        }
        match response.canceled {
            true => Then::Nothing,
            false => Then::Cancel(response.watch_id),
        }
    }

    /// Handles the start of a watch of a waiter: if there were writes since its key was last
    /// seen, the key may already be deleted or changed.
    fn begun(&self, response: &WatchResponse, watched: &Table) {
        let begun = response.header.map_or(i64::MAX, |header| header.revision);
        let Some((attempt, watched)) = watched.get(response.watch_id) else { return };
        match watched.what {
            _ if watched.revision >= begun => {}
            What::Deletion | What::Change => self.look(*attempt, watched.clone()),
            What::Slots => self.say(ask_again(*attempt, &watched.name)),
            What::Own | What::Bound | What::Writers => {}
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
            let get = |client: leasehold_etcd_api::Client| async move {
                client.get(key.clone(), None).await
            };
            let found = members.call(LOOK, get).await.map(|found| found.value);
            let there = found.as_ref().map(|found| found.kvs.first());
            let say = |event| sink.get().map(|sink| sink.send(event));
            match (watched.what, there) {
                // If it was put again, it is behind us in the queue.
                (What::Deletion, Ok(Some(key))) if key.create_revision <= watched.revision => {}
                (What::Change, Ok(Some(key))) if key.mod_revision <= watched.revision => {}
                // Report this also without an answer: a retry of the acquire is always safe.
                (What::Deletion | What::Change | What::Slots, there) => {
                    if there.is_ok() {
                        passed(&attempts, attempt, key);
                    }
                    say(ask_again(attempt, &watched.name));
                }
                (What::Own | What::Bound, Ok(None)) => {
                    if attempts.holds(attempt) {
                        say(Event::Lost { attempt, base: None });
                    }
                }
                (What::Bound, Ok(Some(key)))
                    if key.create_revision > watched.revision
                        || !attempts.owns(attempt, key.lease) =>
                {
                    if attempts.holds(attempt) {
                        say(Event::Lost { attempt, base: None });
                    }
                }
                (What::Writers, _) => {}
                // Without an answer, the server refuses the next watch too, and the client reads
                // the key again.
                (What::Own | What::Bound, Ok(Some(_)) | Err(_)) => {
                    let header = found.as_ref().ok().and_then(|found| found.header);
                    watched.revision = header.map_or(watched.revision, |header| header.revision);
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

/// The event for the one attempt that watched: others of the client that wait for the name need not ask.
fn ask_again(attempt: AttemptId, name: &Name) -> Event {
    Event::Next { name: name.clone(), attempt, ask_again: Duration::ZERO }
}

/// Returns whether an event is one that the watch is for.
fn reports(watched: &Watched, event: &WatchEvent) -> bool {
    let (is_delete, is_put) = (is_deletion(event), is(event, EventType::Put));
    match watched.what {
        What::Deletion | What::Own => is_delete,
        What::Change | What::Bound => is_delete || is_put,
        What::Slots => {
            is_delete || is_put && event.kv.as_ref().is_some_and(|kv| kv.key == watched.key)
        }
        // A key is changed by a conversion or an extension, too.
        What::Writers => {
            is_put && event.kv.as_ref().is_some_and(|kv| kv.create_revision == kv.mod_revision)
        }
    }
}

/// Returns whether an event is of this kind. Unknown kinds are ignored.
fn is(event: &WatchEvent, kind: EventType) -> bool {
    event.r#type == kind as i32
}

fn is_deletion(event: &WatchEvent) -> bool {
    is(event, EventType::Delete)
}

/// Records that the predecessor's key is deleted, so that the next request reads the queue instead
/// of that key. The attempt may not know yet that it is its predecessor.
fn passed(attempts: &Attempts, attempt: AttemptId, key: &[u8]) {
    attempts.change(attempt, |live| {
        live.before.take_if(|(before, _)| *before == key);
        live.gone = Some(key.to_vec());
    });
}
