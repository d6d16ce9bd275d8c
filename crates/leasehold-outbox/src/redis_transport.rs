//! Delivers to Redis: invalidates each change as the cache itself does.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Once, Weak};
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use leasehold_cache_redis::invalidation::{
    LOST_HOLD, LagHolds, Listener, PAGE, PAUSES, RecentWrites, Step, WriteScript,
    end_holds_when_over, listen,
};
use leasehold_cache_redis::{Connection, Consumer, ConsumerKind, Server, draw_token};
use leasehold_core::clock::Clock;
use leasehold_core::proto::Now;
use redis::RedisError;
use tokio::sync::watch;

use crate::Result;
use crate::transport::{Change, Refused, Transport};

/// How long Redis may take for one change of a batch.
const LIMIT: Duration = Duration::from_secs(2);

/// The writes of this time may be lost in a failover that was noticed late.
const RECENT: Duration = Duration::from_secs(60);

/// The channel on which the relay listens; no cache has it, since it has two colons there.
const STEM: &str = "leasehold-cache.relay";

/// Invalidates keys in Redis, and notifies the processes that keep values in memory.
///
/// After a failover the new server may lack recent changes. So the changes of the last minute
/// before the old server last answered (10,000 at most) are delivered again.
#[derive(Clone)]
pub struct RedisTransport {
    inner: Arc<Inner>,
}

struct Inner {
    connection: Connection,
    user: Arc<Consumer>,
    script: WriteScript,
    recent: RecentWrites<Change>,
    /// The holds to end when the replicas have caught up, with their tokens.
    lags: LagHolds<(Change, String)>,
    /// Set when the warning about a lost hold was logged.
    lost: Once,
    /// Increases with each new connection or server.
    connects: watch::Sender<u64>,
    clock: Clock,
}

impl RedisTransport {
    /// Opens the transport to the Redis server of `url`; see `Builder::open` of a cache for its
    /// form. Redis may be down.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a URL that is not allowed, or outside a
    /// tokio runtime.
    pub fn open(url: &str) -> Result<Self> {
        let clock = Clock::system();
        let server = Server::open(url, clock.clone())?;
        let inner = Arc::new(Inner::new(server.clone(), clock.clone()));
        tokio::spawn(redeliver(inner.connects.subscribe(), Arc::downgrade(&inner)));
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
        let user = Arc::new(Consumer::new(ConsumerKind::Relay, STEM, &server));
        Self {
            connection: Connection::new(server, LIMIT, clock.clone(), Arc::clone(&user)),
            user,
            lost: Once::new(),
            script: WriteScript::new(),
            recent: RecentWrites::default(),
            lags: LagHolds::default(),
            connects: watch::Sender::new(0),
            clock,
        }
    }

    /// Returns the changes that the server may lack, each once.
    fn unsure(&self) -> Vec<Change> {
        let unsure: HashSet<Change> = self.recent.take().into_iter().collect();
        unsure.into_iter().collect()
    }

    async fn deliver(self: &Arc<Self>, changes: &[Change]) -> Result<Vec<Refused>> {
        let before = *self.connects.borrow();
        let refused = self.send(changes).await?;
        // Of those that are the same, however they came, one is enough.
        let recent: Vec<_> = changes.iter().map(|one| Change { id: 0, ..one.clone() }).collect();
        self.recent.note(&self.clock, RECENT, &recent);
        // A task that took the recent changes meanwhile did not see these.
        if *self.connects.borrow() != before {
            self.connects.send_modify(|_| ());
        }
        Ok(refused)
    }

    async fn send(self: &Arc<Self>, changes: &[Change]) -> Result<Vec<Refused>> {
        let token = draw_token();
        let calls = changes.iter().map(|change| {
            let (step, token) = (Step::Committed(change.hold), token.as_str());
            let (connection, script) = (&self.connection, &self.script);
            async move { script.call(connection, &change.cache, &change.key, token, &step).await }
        });
        let (mut refused, mut down) = (Vec::new(), None);
        for (at, done) in join_all(calls).await.into_iter().enumerate() {
            match done {
                Ok(_) => self.hold_for_lag(&changes[at], &token),
                Err(error) if is_about_the_key(&error) => {
                    refused.push(Refused::new(at, error.to_string()));
                }
                Err(error) => {
                    down = Some(error);
                }
            }
        }
        down.map_or(Ok(refused), |error| Err(self.user.error(error)))
    }

    /// Ends the hold of a change when the replicas have caught up.
    fn hold_for_lag(self: &Arc<Self>, change: &Change, token: &str) {
        let (now, hold) = (self.clock.now(), std::iter::once((change.clone(), token.to_owned())));
        if !change.hold.is_zero() && self.lags.add(now, change.hold, hold) {
            let (this, clock) = (Arc::downgrade(self), self.clock.clone());
            tokio::spawn(end_holds_when_over(this, clock, |inner| &inner.lags, Self::end_lags));
        }
    }

    /// Ends holds. If a hold was lost, removes what was filled meanwhile. Failed changes are among
    /// the recent ones, which are delivered again.
    async fn end_lags(self: Arc<Self>, holds: Vec<(Change, String)>) {
        let (connection, script) = (&self.connection, &self.script);
        let ends = holds.iter().map(|(change, token)| async move {
            script.call(connection, &change.cache, &change.key, token, &Step::Settled).await
        });
        for ended in join_all(ends).await {
            match ended {
                Ok(false) => {}
                Ok(true) => self.lost.call_once(|| self.user.warn(LOST_HOLD)),
                Err(error) => {
                    tracing::debug!(%error, "cannot end a hold of the relay; it expires");
                }
            }
        }
    }
}

impl Listener for Inner {
    fn invalidated(&self, _: &str) {}

    fn filled(&self, _: &str) {}

    fn subscribed(self: &Arc<Self>, is_subscribed: bool) {
        if is_subscribed {
            self.connects.send_modify(|connects| *connects += 1);
        }
    }

    fn cannot_listen(&self, error: Option<RedisError>) {
        tracing::debug!(?error, "the relay cannot receive invalidations");
    }

    fn answered(&self, asked: Now) {
        self.recent.server_answered(asked);
    }
}

/// Delivers recent changes again after each new connection.
async fn redeliver(mut connects: watch::Receiver<u64>, inner: Weak<Inner>) {
    while connects.changed().await.is_ok() {
        let Some(inner) = inner.upgrade() else { return };
        let mut pause = PAUSES.0;
        for page in inner.unsure().chunks(PAGE) {
            while let Err(error) = inner.deliver(page).await {
                tracing::debug!(%error, "cannot deliver recent changes again yet; retrying");
                inner.clock.sleep(pause).await;
                pause = (pause * 2).min(PAUSES.1);
            }
        }
    }
}

/// Returns true if only this key is refused: it holds foreign data, or the user may not write it.
/// An error for every key, such as a forbidden command, parks no row.
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
