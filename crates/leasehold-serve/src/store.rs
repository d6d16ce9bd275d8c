//! A store: its connection, which is made again while it fails, and its diagnosis.

use std::sync::Arc;
use std::time::Duration;

use leasehold::clock::Clock;
use leasehold::doctor::{Diagnosis, diagnose};
use leasehold::{Client, Deadline, Error, ErrorKind, StoreUrl};
use tokio::sync::{Mutex, watch};

use crate::settings::StoreSetting;

/// The first and the longest pause between two attempts to connect.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(10));

/// How long a request waits for a connection that is being made.
const PATIENCE: Duration = Duration::from_secs(3);

/// How long a diagnosis is shown before another one is made.
const DIAGNOSIS_LASTS: Duration = Duration::from_secs(60);

/// A store that this server shows.
#[derive(Debug)]
pub(crate) struct Store {
    /// Its name in URLs.
    pub(crate) name: String,
    /// Where it is, without credentials.
    pub(crate) place: String,
    url: String,
    clock: Clock,
    connection: watch::Sender<Connection>,
    diagnosis: Mutex<Option<Diagnosed>>,
}

/// A diagnosis, and until when it is shown.
type Diagnosed = (Deadline, Result<Arc<Diagnosis>, Error>);

#[derive(Clone, Debug)]
enum Connection {
    Connecting,
    Up(Client),
    Down(Error),
}

impl Store {
    /// Creates the store; [`connect`](Self::connect) connects it.
    pub(crate) fn new(setting: &StoreSetting, clock: Clock) -> Self {
        let place = StoreUrl::parse(&setting.url).map_or_else(|_| String::new(), |u| u.to_string());
        Self {
            name: setting.name.clone(),
            place,
            url: setting.url.clone(),
            clock,
            connection: watch::channel(Connection::Connecting).0,
            diagnosis: Mutex::default(),
        }
    }

    /// Connects, and tries again until it has succeeded.
    pub(crate) async fn connect(&self) {
        let mut pause = PAUSES.0;
        loop {
            match leasehold::connect(&self.url).await {
                Ok(client) => {
                    self.connection.send_replace(Connection::Up(client));
                    return;
                }
                Err(error) => self.connection.send_replace(Connection::Down(error)),
            };
            self.clock.sleep(pause).await;
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    /// Returns the client, or why there is none. While the first attempt to connect lasts, it waits.
    pub(crate) async fn client(&self) -> Result<Client, Error> {
        let mut connection = self.connection.subscribe();
        let known = connection.wait_for(|now| !matches!(now, Connection::Connecting));
        let known = tokio::time::timeout(PATIENCE, known).await;
        let known = known.ok().and_then(Result::ok).map(|known| known.clone());
        match known {
            Some(Connection::Up(client)) => Ok(client),
            Some(Connection::Down(error)) => Err(error),
            _ => Err(Error::new(ErrorKind::Unavailable, "the store did not answer yet")),
        }
    }

    /// Returns a client of its own for scans: the answer to a large one must not delay the renewals
    /// of leases. Until there is one, `failed` gets each reason.
    pub(crate) async fn connect_to_scan(&self, failed: impl Fn(Error)) -> Client {
        let mut pause = PAUSES.0;
        loop {
            match leasehold::connect(&self.url).await {
                Ok(client) => return client,
                Err(error) => failed(error),
            }
            self.clock.sleep(pause).await;
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    /// Returns the client if there is one now.
    pub(crate) fn connected_now(&self) -> Option<Client> {
        match &*self.connection.borrow() {
            Connection::Up(client) => Some(client.clone()),
            _ => None,
        }
    }

    /// Returns why there is no connection, if it is known.
    pub(crate) fn fault(&self) -> Option<Error> {
        match &*self.connection.borrow() {
            Connection::Down(error) => Some(error.clone()),
            _ => None,
        }
    }

    /// Returns what can harm locks there. It is checked at most once a minute.
    pub(crate) async fn diagnosis(&self) -> Result<Arc<Diagnosis>, Error> {
        let mut last = self.diagnosis.lock().await;
        if let Some((until, result)) = &*last
            && !until.has_passed(self.clock.now())
        {
            return result.clone();
        }
        let result = diagnose(&self.url).await.map(Arc::new);
        let until = Deadline::after(self.clock.now(), DIAGNOSIS_LASTS);
        *last = Some((until, result.clone()));
        result
    }
}
