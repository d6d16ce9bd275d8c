//! The task that keeps a session: it reports the session's state, and opens a new one when it ends.

use std::sync::{Arc, Weak};
use std::time::Duration;

use leasehold_core::backend::Event;
use leasehold_core::clock::Clock;
use leasehold_core::proto::Backoff;
use leasehold_core::{Deadline, Error, ErrorKind, Result};
use zookeeper_client::{Error as ZkError, SessionState, StateWatcher};

use crate::address::Address;
use crate::connect_failure;
use crate::session::Session;
use crate::store::Store;

/// The first and the longest pause between two attempts to open a session. A session that lasts as
/// long as the longest pause resets the pause.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
/// The minimum interval between two diagnoses: each one opens a connection to every server.
const DIAGNOSE: Duration = Duration::from_secs(60);
/// How long one attempt may take.
pub(crate) const LIMIT: Duration = Duration::from_secs(5);

/// Opens a session, or returns an error with the diagnosis.
pub(crate) async fn open(address: &Address, clock: &Clock, number: u64) -> Result<Session> {
    match try_open(address, clock, number).await {
        Ok(session) => Ok(session),
        Err(error) => Err(connect_failure::explain(address, error).await),
    }
}

/// Opens a session within the time limit; the error is `None` after a timeout.
pub(crate) async fn try_open(
    address: &Address,
    clock: &Clock,
    number: u64,
) -> Result<Session, Option<ZkError>> {
    let limit = Deadline::after(clock.now(), LIMIT);
    let opened = clock.within(Some(limit), Session::open(address, clock.clone(), number)).await;
    opened.ok_or(None)?.map_err(Some)
}

/// Runs until the store is dropped.
pub(crate) async fn run(store: Weak<Store>, mut states: StateWatcher, mut number: u64) {
    let mut pauses = Backoff::new(PAUSES.0, PAUSES.1);
    let Some(mut opened) = store.upgrade().map(|store| store.clock.now()) else { return };
    loop {
        let state = states.changed().await;
        let Some(store) = store.upgrade() else { return };
        match state {
            SessionState::Disconnected => store.tell(Event::Broken),
            SessionState::SyncConnected | SessionState::ConnectedReadOnly => {
                // Another server may lead now, with another clock.
                if let Ok(session) = store.session() {
                    session.forget_time();
                }
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

/// Reports that a session has ended and that its leases are lost.
fn end(store: &Store, number: u64) {
    store.replace(None);
    store.tell(Event::Broken);
    let lost = store.book().lose_session(store.clock.now(), number);
    for attempt in lost {
        store.tell(Event::Lost { attempt, base: None });
    }
}

/// What is needed to open a session again.
struct Again {
    address: Address,
    clock: Clock,
    term: Duration,
}

impl Again {
    async fn pause(&self, pauses: &mut Backoff) {
        self.clock.sleep(pauses.next(fastrand::u64(..)).max(PAUSES.0)).await;
    }

    /// Opens sessions until one is as long as the promised leases need; `None` if the store is dropped.
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
                    let why = connect_failure::explain(address, error).await;
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
                // Keep the last reported reason.
                Err(None) => {}
                Err(Some(error)) => {
                    tracing::debug!(place = %store.address.place, %error, "cannot open a session; \
                                                                           retrying");
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
            "the servers now grant sessions of only {:?}, too short for the current leases of {term:?}; \
             raise maxSessionTimeout again, or restart this program",
            session.timeout()
        ),
    )
}
