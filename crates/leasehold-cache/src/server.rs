//! Which Redis server is used now: the one of the URL, or the master that sentinels name.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::clock::Clock;
use leasehold_redis::WatchedMaster;
use redis::{Client, RedisError};
use tokio::sync::{Notify, watch};

use crate::{Error, Result};

/// Pauses before sentinels that name no master are asked again: the first and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// Clones speak of the same server.
#[derive(Clone)]
pub(crate) struct Server {
    found: watch::Receiver<Found>,
    /// To ask the sentinels once more.
    again: Arc<Notify>,
}

/// The server, as far as it is known.
pub(crate) struct Found {
    /// One more for each server.
    pub(crate) number: u64,
    /// Or why there is none.
    pub(crate) client: std::result::Result<Client, Arc<str>>,
}

/// Sees to it that connections can be made from here.
pub(crate) fn ready() -> Result<()> {
    if tokio::runtime::Handle::try_current().is_err() {
        return Err(Error::invalid("no tokio runtime here: open it inside one"));
    }
    // With two providers in a build, as the engines of locks bring them, none is the default.
    rustls::crypto::ring::default_provider().install_default().ok();
    Ok(())
}

impl Server {
    /// The server of a URL. Inside a runtime; connects to nothing yet but to sentinels.
    pub(crate) fn open(url: &str, clock: Clock) -> Result<Self> {
        ready()?;
        let again = Arc::<Notify>::default();
        let client = match url.split(':').next().unwrap_or_default() {
            "redis+sentinel" | "rediss+sentinel" => {
                let master = WatchedMaster::parse(url)
                    .map_err(|error| Error::invalid(error.message().to_owned()))?;
                let none = Err("the sentinels were not asked yet".into());
                let (sender, found) = watch::channel(Found { number: 0, client: none });
                tokio::spawn(follow(master, sender, Arc::clone(&again), clock));
                return Ok(Self { found, again });
            }
            "redis+cluster" | "rediss+cluster" => {
                return Err(Error::invalid(
                    "Redis URL: a Cluster; what the cache package keeps is on one server. Name that \
                     by redis://host:port/db, or its sentinels by redis+sentinel://one,two,three/NAME",
                ));
            }
            // The URL may hold a password, and the library's error may repeat it.
            _ => Client::open(url).map_err(|_| {
                Error::invalid(
                    "Redis URL: write redis://host:port/db, rediss://host, unix:/path or \
                     redis+sentinel://one,two,three/NAME",
                )
            })?,
        };
        let (_, found) = watch::channel(Found { number: 1, client: Ok(client) });
        Ok(Self { found, again })
    }

    /// The server by now.
    pub(crate) fn now(&self) -> watch::Ref<'_, Found> {
        self.found.borrow()
    }

    /// Waits until there is one.
    pub(crate) async fn wait(&mut self) -> (u64, Client) {
        loop {
            if let Found { number, client: Ok(client) } = &*self.found.borrow_and_update() {
                return (*number, client.clone());
            }
            self.moved_on().await;
        }
    }

    /// Waits until it is another one than [`wait`](Self::wait) has said.
    pub(crate) async fn moved_on(&mut self) {
        if self.found.changed().await.is_err() {
            std::future::pending().await
        }
    }

    /// It is not the right one, it seems.
    pub(crate) fn doubt(&self) {
        self.again.notify_one();
    }

    /// Why there was none within a time limit.
    pub(crate) fn none(&self) -> RedisError {
        let now = self.now();
        let why = now.client.as_ref().err().map_or("the server is not known yet", |why| why);
        io::Error::new(io::ErrorKind::NotConnected, why).into()
    }
}

/// Asks the sentinels now, and whenever one of them names another master, for as long as anybody wants
/// to know.
async fn follow(
    master: WatchedMaster,
    found: watch::Sender<Found>,
    again: Arc<Notify>,
    clock: Clock,
) {
    let (mut moved, mut pause) = (false, PAUSES.0);
    loop {
        let told = tokio::select! {
            () = found.closed() => return,
            told = master.client() => told,
        };
        let named = told.is_ok();
        match told {
            Ok(client) => {
                let address = client.get_connection_info().addr().clone();
                found.send_if_modified(|found| {
                    let is_known = |known: &Client| *known.get_connection_info().addr() == address;
                    let other = moved || !found.client.as_ref().is_ok_and(is_known);
                    if other {
                        tracing::debug!(%address, "sentinels name the cache's server");
                        *found = Found { number: found.number + 1, client: Ok(client) };
                    }
                    other
                });
                (moved, pause) = (false, PAUSES.0);
            }
            Err(error) => {
                tracing::debug!(%error, "no master for the cache");
                let why: Arc<str> = error.message().into();
                // Nobody waits for another reason, and the server of before may still be there.
                found.send_if_modified(|found| {
                    if let Err(before) = &mut found.client {
                        *before = why;
                    }
                    false
                });
            }
        }
        let later = async {
            match named {
                true => std::future::pending().await,
                false => clock.sleep(pause).await,
            }
        };
        moved |= tokio::select! {
            () = found.closed() => return,
            () = master.moved() => true,
            () = again.notified() => false,
            () = later => {
                pause = (pause * 2).min(PAUSES.1);
                false
            }
        };
    }
}
