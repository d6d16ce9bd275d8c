//! Delivers to Redis: each change as the cache itself would have invalidated it.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use leasehold_core::clock::Clock;
use leasehold_core::proto::Now;
use redis::RedisError;
use tokio::sync::watch;

use super::transport::{Change, Refused, Transport};
use crate::listen::{Listener, listen};
use crate::redrive::{PAGE, PAUSES, Recent};
use crate::remote::{Step, WriteScript};
use crate::server::Server;
use crate::wire::Wire;
use crate::write::token;
use crate::{Error, Result};

/// How long Redis may take for a change, among a batch of others.
const LIMIT: Duration = Duration::from_secs(2);

/// How long ago a server may have forgotten what it had taken: a failover that was noticed late.
const RECENT: Duration = Duration::from_secs(60);

/// Where this listens; no cache does, since it has two colons there.
const STEM: &str = "leasehold-cache.relay";

/// Invalidates in Redis, and tells the processes that keep values themselves.
///
/// A server that takes over may not know of what the one before it had taken. All that was delivered in
/// the minute before that one last answered (10,000 changes at most) is delivered again.
#[derive(Clone)]
pub struct RedisTransport {
    inner: Arc<Inner>,
}

struct Inner {
    wire: Wire,
    script: WriteScript,
    recent: Recent<Change>,
    /// How often the connection was made, or the server was another one.
    connects: watch::Sender<u64>,
    clock: Clock,
}

impl RedisTransport {
    /// To the server of `url`, as [`Builder::open`](crate::Builder::open) takes it. Redis need not be up.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a URL that is not allowed, or outside a
    /// tokio runtime.
    pub fn open(url: &str) -> Result<Self> {
        let clock = Clock::system();
        let server = Server::open(url, clock.clone())?;
        let inner = Arc::new(Inner::new(server.clone(), clock.clone()));
        tokio::spawn(redrive(inner.connects.subscribe(), Arc::downgrade(&inner)));
        tokio::spawn(listen::<Inner>(server, STEM.to_owned(), clock, Arc::downgrade(&inner)));
        Ok(Self { inner })
    }
}

impl Transport for RedisTransport {
    fn deliver<'a>(&'a self, changes: &'a [Change]) -> BoxFuture<'a, Result<Vec<Refused>>> {
        Box::pin(self.inner.deliver(changes))
    }
}

impl Inner {
    fn new(server: Server, clock: Clock) -> Self {
        Self {
            wire: Wire::new(server, LIMIT, clock.clone()),
            script: WriteScript::new(),
            recent: Recent::default(),
            connects: watch::Sender::new(0),
            clock,
        }
    }

    /// What the server may not know of, each change once.
    fn unsure(&self) -> Vec<Change> {
        let unsure: HashSet<Change> = self.recent.take().into_iter().collect();
        unsure.into_iter().collect()
    }

    async fn deliver(&self, changes: &[Change]) -> Result<Vec<Refused>> {
        let before = *self.connects.borrow();
        let refused = self.send(changes).await?;
        self.recent.note(&self.clock, RECENT, changes);
        // Whoever took the recent ones meanwhile did not see these.
        if *self.connects.borrow() != before {
            self.connects.send_modify(|_| ());
        }
        Ok(refused)
    }

    async fn send(&self, changes: &[Change]) -> Result<Vec<Refused>> {
        let token = token();
        let calls = changes.iter().map(|change| {
            let (step, token) = (Step::Committed(change.hold), token.as_str());
            let (connection, script) = (&self.wire, &self.script);
            async move { script.call(connection, &change.cache, &change.key, token, &step).await }
        });
        let (mut refused, mut down) = (Vec::new(), None);
        for (at, done) in join_all(calls).await.into_iter().enumerate() {
            match done {
                Ok(_) => {}
                Err(error) if is_about_the_key(&error) => {
                    refused.push(Refused { at, reason: error.to_string() });
                }
                Err(error) => {
                    if self.wire.failed(&error) {
                        self.connects.send_modify(|connects| *connects += 1);
                    }
                    down = Some(error);
                }
            }
        }
        down.map_or(Ok(refused), |error| Err(Error::redis(error)))
    }
}

impl Listener for Inner {
    fn invalidated(&self, _: &str) {}

    fn filled(&self, _: &str) {}

    fn hears(self: &Arc<Self>, hears: bool) {
        if hears {
            self.connects.send_modify(|connects| *connects += 1);
        }
    }

    fn answered(&self, asked: Now) {
        self.recent.good(asked);
    }
}

/// Whenever the connection was made anew, delivers once more what was delivered a while ago.
async fn redrive(mut connects: watch::Receiver<u64>, inner: Weak<Inner>) {
    while connects.changed().await.is_ok() {
        let Some(inner) = inner.upgrade() else { return };
        let mut pause = PAUSES.0;
        for page in inner.unsure().chunks(PAGE) {
            while let Err(error) = inner.deliver(page).await {
                tracing::debug!(%error, "what was delivered a while ago is not delivered again yet");
                inner.clock.sleep(pause).await;
                pause = (pause * 2).min(PAUSES.1);
            }
        }
    }
}

/// What another key would not have been answered: somebody else's value lies there, or this user may
/// not write it. What a user may not do at all is nothing that a key is parked for.
fn is_about_the_key(error: &RedisError) -> bool {
    let detail = error.detail().unwrap_or_default();
    match error.code() {
        Some("WRONGTYPE") => true,
        Some("NOPERM") => {
            detail.contains("access a key") || detail.contains("access one of the keys")
        }
        // Servers before 7 put what a script's command was answered into the text.
        Some("ERR") => detail.starts_with("Error running script") && detail.contains("WRONGTYPE"),
        _ => false,
    }
}

impl fmt::Debug for RedisTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RedisTransport")
    }
}
