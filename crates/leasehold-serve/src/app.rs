//! What all requests share: the stores, the leases, who may do what, and what happened.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, PoisonError};

use http::StatusCode;
use leasehold::Error;
use leasehold::clock::Clock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast, watch};

use crate::audit::Audit;
use crate::history::{Event, History, What};
use crate::keeper::stopped;
use crate::leases::Leases;
use crate::moment::{Moment, Validity};
use crate::noted::Noted;
use crate::problem::Problem;
use crate::scan::Scans;
use crate::sessions::Sessions;
use crate::settings::{Listen, Settings};
use crate::slots::Slots;
use crate::store::Store;
use crate::text;
use crate::tokens::{Principal, Roles, Tokens};

/// The events that a viewer may fall behind before it has to ask for the whole state again.
const BEHIND: usize = 1024;

/// The state of a server.
#[derive(Clone, Debug)]
pub(crate) struct App(Arc<State>);

/// The parts of [`App`].
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) clock: Clock,
    pub(crate) stores: Vec<Arc<Shown>>,
    pub(crate) tokens: Option<Tokens>,
    pub(crate) sessions: Sessions,
    /// What a caller without a token may do.
    pub(crate) anonymous: Option<Principal>,
    /// The accepted values of the header Host.
    pub(crate) hosts: Vec<String>,
    /// Cookies are sent over TLS alone.
    pub(crate) is_tls: bool,
    pub(crate) may_force: bool,
    pub(crate) audit: Audit,
    pub(crate) leases: Leases,
    pub(crate) slots: Arc<Slots>,
    pub(crate) history: History,
    pub(crate) live: broadcast::Sender<Arc<Live>>,
    /// The streams of events that there may be: clients of leases need connections too.
    streams: Arc<Semaphore>,
    pub(crate) counters: Counters,
    pub(crate) stopping: watch::Receiver<bool>,
    pub(crate) started_unix_ms: u64,
    pub(crate) repeats: crate::repeats::Repeats,
}

/// A store with its scans.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) store: Store,
    pub(crate) scans: Arc<Scans>,
    pub(crate) noted: Noted,
}

/// An event for viewers.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) store: String,
    pub(crate) name: String,
    pub(crate) json: String,
}

/// What the metrics count.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) connections: AtomicUsize,
    pub(crate) viewers: AtomicUsize,
    pub(crate) responses: Mutex<HashMap<u16, u64>>,
    pub(crate) events: Mutex<HashMap<(String, What), u64>>,
    pub(crate) scans: AtomicU64,
}

impl Deref for App {
    type Target = State;

    fn deref(&self) -> &State {
        &self.0
    }
}

impl App {
    /// Creates the state for checked settings. Nothing is connected yet.
    pub(crate) fn new(
        settings: &Settings,
        clock: Clock,
        stopping: watch::Receiver<bool>,
    ) -> Result<Self, Error> {
        let caller = |name: &str, roles| Some(Principal { name: name.to_owned(), roles });
        let anonymous = match &settings.listen {
            Listen::Unix(_) => caller("socket", Roles::ALL),
            Listen::Tcp(address) if address.ip().is_loopback() => caller("anonymous", Roles::READ),
            Listen::Tcp(_) => None,
        };
        let shown = |setting| {
            let store = Store::new(setting, clock.clone());
            let scans = Arc::new(Scans::new(clock.clone()));
            Arc::new(Shown { store, scans, noted: Noted::default() })
        };
        Ok(Self(Arc::new(State {
            stores: settings.stores.iter().map(shown).collect(),
            tokens: settings.token_file.as_deref().map(Tokens::read).transpose()?,
            sessions: Sessions::new(clock.clone()),
            anonymous,
            hosts: settings.host_names(),
            is_tls: settings.tls_cert.is_some(),
            may_force: settings.allow_force_release,
            audit: Audit::open(settings.audit_file.as_deref())?,
            leases: Leases::new(clock.clone(), stopping.clone()),
            slots: Arc::new(Slots::new(settings.limits)),
            history: History::default(),
            live: broadcast::channel(BEHIND).0,
            streams: Arc::new(Semaphore::new((settings.limits.connections / 2).max(1))),
            counters: Counters::default(),
            stopping,
            started_unix_ms: clock.now().unix_ms(),
            repeats: crate::repeats::Repeats::default(),
            clock,
        })))
    }

    /// Returns the store of this name.
    pub(crate) fn shown(&self, name: &str) -> Result<&Arc<Shown>, Problem> {
        let found = self.stores.iter().find(|shown| shown.store.name == name);
        found.ok_or_else(|| {
            let names: Vec<&str> =
                self.stores.iter().map(|shown| shown.store.name.as_str()).collect();
            let detail = format!("no store has the name {name:?}; there are {}", names.join(", "));
            Problem::new(StatusCode::NOT_FOUND, "unknown_store", detail, "use one of these names")
        })
    }

    /// Connects a store and scans it, until the server ends.
    pub(crate) async fn watch(self, shown: Arc<Shown>) {
        shown.store.connect().await;
        let client = shown.store.connect_to_scan(|error| shown.scans.failed(error)).await;
        loop {
            let scanned = shown.scans.scan(&client).await;
            self.counters.scans.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            if let Some(after) = scanned {
                for (name, event) in shown.noted.scanned(&after) {
                    self.note(&shown.store.name, &name, event);
                }
            }
            shown.scans.pause().await;
        }
    }

    /// Takes a place for a stream of events, until it is dropped.
    pub(crate) fn stream(&self) -> Result<OwnedSemaphorePermit, Problem> {
        self.streams.clone().try_acquire_owned().map_err(|_| {
            Problem::limit(
                "half of the connections of this server (--max-connections) are streams of events, \
                 the most that there may be",
            )
        })
    }

    /// Returns what the client of a request is sent about a validity that ends then.
    pub(crate) fn validity(&self, received: Moment, until: Moment) -> Validity {
        Validity { received, until, now: Moment::now(&self.clock) }
    }

    /// Waits until the server has stopped, and no client relies on it any more.
    pub(crate) async fn finished(&self) {
        stopped(&mut self.stopping.clone()).await;
        self.leases.running.ended().await;
    }

    /// Records an event, and sends it to the viewers.
    pub(crate) fn note(&self, store: &str, name: &str, event: Event) {
        let mut events = self.counters.events.lock().unwrap_or_else(PoisonError::into_inner);
        *events.entry((store.to_owned(), event.what)).or_default() += 1;
        drop(events);
        let json = text::json(&event.json(store, name));
        // Without a viewer there is no receiver.
        let _ =
            self.live.send(Arc::new(Live { store: store.to_owned(), name: name.to_owned(), json }));
        if event.what != What::QueueChanged {
            self.history.add(store, name, event);
        }
    }
}
