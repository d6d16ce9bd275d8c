//! The receiver: takes messages, applies their changes, and acknowledges them.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_nats::jetstream::{AckKind, Message};
use leasehold_cache_redis::LOG_TARGET;
use leasehold_core::clock::Clock;
use leasehold_core::proto::Deadline;

use super::connection::LIMIT;
use super::message;
use super::pull::Pull;
use super::stats::{Counters, ReceiverStats};
use crate::Result;
use crate::limits::{BatchSettings, GRACE, PAUSES};
use crate::merge::{Merged, merge};
use crate::refusal::{again, reasons, shortened};
use crate::transport::{Change, Transport};

/// How long it waits for a message before it asks again.
const WAIT: Duration = Duration::from_secs(5);

/// Applies the changes of a NATS JetStream stream to a cache.
///
/// Any number of receivers may run at the same time, in one process or in several. Receivers with
/// the same `durable` in their URL share the work. Receivers with another `durable` get every
/// change too: use one `durable` per Redis server.
///
/// Each change is applied at least once. While the Redis server of the cache cannot be reached, the
/// messages wait in the receiver and in the stream, as long as the stream keeps them.
///
/// The receiver records metrics in the crate `metrics`: gauges
/// `leasehold_cache_receiver_oldest_seconds` and `leasehold_cache_receiver_waiting`, counters
/// `leasehold_cache_receiver_applied_total`, `_refused_total`, `_given_up_total` and
/// `_failures_total`.
pub struct Receiver {
    pull: Pull,
    transport: Arc<dyn Transport>,
    settings: BatchSettings,
    counters: Counters,
    clock: Clock,
}

/// A message with its change, or the reason why it has none.
struct Received {
    message: Message,
    change: Result<Change, String>,
}

impl Receiver {
    pub(super) fn new(
        pull: Pull,
        transport: Arc<dyn Transport>,
        settings: BatchSettings,
        clock: Clock,
    ) -> Self {
        Self { pull, transport, settings, counters: Counters::default(), clock }
    }

    /// Returns what the receiver has done so far.
    pub fn stats(&self) -> ReceiverStats {
        self.counters.stats()
    }

    /// Applies changes until `stop` is ready. Then it finishes its current batch, for 5 seconds at
    /// most, and returns the messages that it could not apply. After a failure it retries without
    /// limit, with pauses of up to 5 seconds.
    pub async fn run(&self, stop: impl Future<Output = ()>) {
        let (mut stop, mut pause, mut held) = (pin!(stop), PAUSES.0, Vec::new());
        loop {
            let done = if held.is_empty() {
                tokio::select! {
                    biased;
                    () = &mut stop => return,
                    taken = self.take(WAIT) => taken.map(|taken| held = taken),
                }
            } else {
                let done = {
                    let mut apply = pin!(self.apply(&held));
                    tokio::select! {
                        biased;
                        () = &mut stop => {
                            let until = Deadline::after(self.clock.now(), GRACE);
                            if !matches!(self.clock.within(Some(until), apply).await, Some(Ok(()))) {
                                give_back(&held).await;
                            }
                            return;
                        }
                        done = &mut apply => done,
                    }
                };
                done.map(|()| held.clear())
            };
            let Err(error) = done else {
                pause = PAUSES.0;
                self.counters.well();
                continue;
            };
            if self.counters.failed(error.to_string()) {
                tracing::warn!(target: LOG_TARGET, %error, "the receiver cannot apply changes; \
                                                            retrying");
            }
            tokio::select! {
                () = &mut stop => return give_back(&held).await,
                () = self.clock.sleep(pause.min(self.settings.claim / 4)) => {}
            }
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    /// Applies the changes that are in the stream now, and returns the number of messages.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) if NATS or the Redis server of the
    /// cache cannot be reached; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the consumer
    /// exists with unsuitable settings. Messages that were not applied stay in the stream.
    pub async fn once(&self) -> Result<u64> {
        let mut all = 0;
        loop {
            let taken = self.noted(self.take(Duration::ZERO).await)?;
            if taken.is_empty() {
                self.counters.well();
                return Ok(all);
            }
            let applied = self.apply(&taken).await;
            if applied.is_err() {
                give_back(&taken).await;
            }
            self.noted(applied)?;
            all += taken.len() as u64;
        }
    }

    fn noted<T>(&self, done: Result<T>) -> Result<T> {
        done.inspect_err(|error| {
            self.counters.failed(error.to_string());
        })
    }

    async fn take(&self, wait: Duration) -> Result<Vec<Received>> {
        let BatchSettings { batch, claim, .. } = self.settings;
        let messages = self.pull.take(batch, wait, claim).await?;
        let received = messages.into_iter().map(|message| {
            let change = message::read(&message.payload);
            Received { message, change }
        });
        let received: Vec<Received> = received.collect();
        let behind = received.last().and_then(|received| received.message.info().ok());
        self.counters.behind(behind.map_or(0, |info| info.pending));
        Ok(received)
    }

    /// Applies messages, acknowledges the applied ones, and refuses the others. Returns an error if
    /// none was applied.
    async fn apply(&self, held: &[Received]) -> Result<()> {
        self.counters.oldest(self.oldest(held));
        let good = held.iter().filter_map(|received| received.change.as_ref().ok());
        let Merged { changes, places } = merge(good);
        let delivered = match changes.is_empty() {
            true => Ok(Vec::new()),
            false => self.transport.deliver(&changes).await,
        };
        let refused = match delivered.and_then(|refused| reasons(refused, changes.len())) {
            Ok(refused) => refused,
            Err(error) => {
                // They stay with this one, which goes on trying.
                tell(held, &vec![AckKind::Progress; held.len()]).await;
                return Err(error);
            }
        };
        let mut places = places.into_iter();
        let verdicts: Vec<AckKind> = held
            .iter()
            .map(|received| match &received.change {
                Err(problem) => self.given_up(received, problem),
                Ok(_) => match places.next().and_then(|place| refused.get(&place)) {
                    None => AckKind::Ack,
                    Some(reason) => self.refused(received, reason),
                },
            })
            .collect();
        tell(held, &verdicts).await;
        let count = |so: fn(&AckKind) -> bool| verdicts.iter().filter(|kind| so(kind)).count();
        let applied = count(|kind| matches!(kind, AckKind::Ack));
        let given_up = count(|kind| matches!(kind, AckKind::Term));
        self.counters.batch(applied, held.len() - applied, given_up);
        self.counters.oldest(Duration::ZERO);
        Ok(())
    }

    fn refused(&self, received: &Received, reason: &str) -> AckKind {
        let before = received.message.info().map_or(1, |info| info.delivered) - 1;
        match again(before, self.settings.tries) {
            Some(pause) => AckKind::Nak(Some(pause)),
            None => self.given_up(received, reason),
        }
    }

    fn given_up(&self, received: &Received, reason: &str) -> AckKind {
        let sequence = received.message.info().map_or(0, |info| info.stream_sequence);
        let reason = shortened(reason);
        tracing::warn!(target: LOG_TARGET, sequence, reason, "a message of the stream was dropped");
        AckKind::Term
    }

    /// Returns how long ago the oldest of these messages was published.
    fn oldest(&self, held: &[Received]) -> Duration {
        let now = Duration::from_millis(self.clock.now().unix_ms());
        let age = |received: &Received| {
            let sent: SystemTime = received.message.info().ok()?.published.into();
            Some(now.saturating_sub(sent.duration_since(UNIX_EPOCH).ok()?))
        };
        held.iter().filter_map(age).max().unwrap_or_default()
    }
}

/// Returns messages to the stream; other receivers get them at once.
async fn give_back(held: &[Received]) {
    tell(held, &vec![AckKind::Nak(None); held.len()]).await;
}

/// Sends acknowledgements. A lost one does no harm: the stream delivers the message again.
async fn tell(held: &[Received], what: &[AckKind]) {
    let Some(first) = held.first() else { return };
    let said = async {
        for (Received { message, .. }, what) in held.iter().zip(what) {
            if let Err(error) = message.ack_with(*what).await {
                return tracing::debug!(%error, "cannot acknowledge messages");
            }
        }
        if let Err(error) = first.message.context.client().flush().await {
            tracing::debug!(%error, "cannot acknowledge messages");
        }
    };
    if tokio::time::timeout(LIMIT, said).await.is_err() {
        tracing::debug!("timed out acknowledging messages");
    }
}

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("settings", &self.settings).finish_non_exhaustive()
    }
}
