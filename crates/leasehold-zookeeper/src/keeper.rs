//! The task that keeps a session: it tells what becomes of it, and opens another when it has ended.

use std::sync::{Arc, Weak};
use std::time::Duration;

use leasehold_core::backend::Event;
use leasehold_core::clock::Clock;
use leasehold_core::proto::Backoff;
use leasehold_core::{Deadline, Error, ErrorKind, Result};
use zookeeper_client::{Error as ZkError, SessionState, StateWatcher};

use crate::address::Address;
use crate::diagnose;
use crate::session::Session;
use crate::store::Store;

/// First and longest pause between two tries to open a session. One that lasts as long as the longest
/// has proven itself.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
/// Why no session can be had is looked at no more often: it costs each server a connection.
const DIAGNOSE: Duration = Duration::from_secs(60);
/// How long one try may take.
pub(crate) const LIMIT: Duration = Duration::from_secs(5);

/// Opens a session, or says what is wrong.
pub(crate) async fn open(address: &Address, clock: &Clock, number: u64) -> Result<Session> {
    match try_open(address, clock, number).await {
        Ok(session) => Ok(session),
        Err(error) => Err(diagnose::explain(address, error).await),
    }
}

/// Opens a session in time; no error of the library when the time was up.
async fn try_open(
    address: &Address,
    clock: &Clock,
    number: u64,
) -> Result<Session, Option<ZkError>> {
    let limit = Deadline::after(clock.now(), LIMIT);
    let opened = clock.within(Some(limit), Session::open(address, clock.clone(), number)).await;
    opened.ok_or(None)?.map_err(Some)
}

/// Runs until the store is gone.
pub(crate) async fn run(store: Weak<Store>, mut states: StateWatcher, mut number: u64) {
    let mut pauses = Backoff::new(PAUSES.0, PAUSES.1);
    let Some(mut opened) = store.upgrade().map(|store| store.clock.now()) else { return };
    loop {
        let state = states.changed().await;
        let Some(store) = store.upgrade() else { return };
        match state {
            SessionState::Disconnected => store.tell(Event::Broken),
            SessionState::SyncConnected | SessionState::ConnectedReadOnly => {
                store.book().disarm_all();
                store.tell(Event::Reset);
                store.bell.notify_one();
            }
            SessionState::Expired | SessionState::AuthFailed | SessionState::Closed => {
                tracing::debug!(place = %store.address.place, ?state, "the session has ended");
                end(&store, number);
                number += 1;
                let clock = store.clock.clone();
                let lasted = clock.now().steady_ns.saturating_sub(opened.steady_ns);
                let lasted = Duration::from_nanos(lasted);
                pauses.lasted(lasted);
                let weak = Arc::downgrade(&store);
                let again = Again { address: store.address.clone(), clock, term: store.term };
                drop(store);
                if lasted < PAUSES.1 {
                    again.pause(&mut pauses).await;
                }
                let Some(watcher) = again.open(&weak, number, &mut pauses).await else { return };
                (states, opened) = (watcher, again.clock.now());
            }
        }
    }
}

/// A session has ended, and all that it held.
fn end(store: &Store, number: u64) {
    store.replace(None);
    store.tell(Event::Broken);
    let lost = store.book().lose_session(store.clock.now(), number);
    for attempt in lost {
        store.tell(Event::Lost { attempt, base: None });
    }
}

/// What a session is opened with again.
struct Again {
    address: Address,
    clock: Clock,
    term: Duration,
}

impl Again {
    async fn pause(&self, pauses: &mut Backoff) {
        self.clock.sleep(pauses.next(fastrand::u64(..)).max(PAUSES.0)).await;
    }

    /// Opens sessions until one lasts as long as what was promised; `None` when nobody wants it.
    async fn open(
        &self,
        store: &Weak<Store>,
        number: u64,
        pauses: &mut Backoff,
    ) -> Option<StateWatcher> {
        let Self { address, clock, term } = self;
        let mut diagnose_at = clock.now().steady_ns;
        loop {
            let opened = match try_open(address, clock, number).await {
                Ok(session) if session.term() >= *term => Ok(session),
                Ok(session) => Err(Some(shorter(&session, *term))),
                Err(error) if clock.now().steady_ns >= diagnose_at => {
                    let why = diagnose::explain(address, error).await;
                    diagnose_at = Deadline::after(clock.now(), DIAGNOSE).steady_ns();
                    Err(Some(why))
                }
                Err(_) => Err(None),
            };
            let store = store.upgrade()?;
            match opened {
                Ok(session) => {
                    let states = session.states();
                    store.replace(Some(session));
                    store.book().disarm_all();
                    store.tell(Event::Reset);
                    store.bell.notify_one();
                    return Some(states);
                }
                // What was said last still stands.
                Err(None) => {}
                Err(Some(error)) => {
                    tracing::debug!(place = %store.address.place, %error, "no session, trying again");
                    store.note_failure(&error);
                }
            }
            drop(store);
            self.pause(pauses).await;
        }
    }
}

fn shorter(session: &Session, term: Duration) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!(
            "the servers now give sessions of {:?} only, too short for leases of {term:?} that were \
             promised; raise maxSessionTimeout again, or start this program anew",
            session.timeout()
        ),
    )
}
