//! Pulls messages of a stream in batches, from a durable consumer that is created if it is missing.

use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::consumer::pull::{Batch, Config};
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, PullConsumer};
use async_nats::jetstream::stream::{ConsumerError, ConsumerErrorKind};
use async_nats::jetstream::{Context, ErrorCode, Message};
use futures_util::StreamExt;
use tokio::sync::Mutex;

use super::connection::{LIMIT, NatsConnection};
use crate::{Error, Result};

/// The most unacknowledged messages of all receivers together. Refused messages count too, and must
/// not block the others.
const UNACKNOWLEDGED: i64 = 10_000;

#[derive(Debug)]
pub(super) struct Pull {
    connection: NatsConnection,
    /// With the number of its connection.
    consumer: Mutex<Option<(u64, PullConsumer)>>,
}

impl Pull {
    pub(super) fn new(connection: NatsConnection) -> Self {
        Self { connection, consumer: Mutex::default() }
    }

    /// Takes at most `most` messages; if there is none, waits for one. No other receiver gets them
    /// for `claim`.
    pub(super) async fn take(
        &self,
        most: usize,
        wait: Duration,
        claim: Duration,
    ) -> Result<Vec<Message>> {
        let (number, context) = self.connection.get().await?;
        let taken = self.take_from(number, &context, (most, wait, claim)).await;
        let lost = context.client().connection_state() != State::Connected;
        match taken {
            Ok(messages) if messages.is_empty() && lost => {
                Err(self.connection.failed("not connected"))
            }
            Ok(messages) => Ok(messages),
            Err(error) => {
                // It may be gone, or another by now.
                *self.consumer.lock().await = None;
                self.connection.drop_it(number).await;
                Err(error)
            }
        }
    }

    async fn take_from(
        &self,
        number: u64,
        context: &Context,
        (most, wait, claim): (usize, Duration, Duration),
    ) -> Result<Vec<Message>> {
        let consumer = self.consumer(number, context, claim).await?;
        let there = |most| consumer.fetch().max_messages(most).messages();
        let taken = self.all(there(most).await, LIMIT).await?;
        if !taken.is_empty() || wait.is_zero() {
            return Ok(taken);
        }
        let first = consumer.batch().max_messages(1).expires(wait).messages().await;
        let mut taken = self.all(first, wait + LIMIT).await?;
        if !taken.is_empty() && most > 1 {
            // These are in hand: what fails now is seen the next time.
            taken.extend(self.all(there(most - 1).await, LIMIT).await.unwrap_or_default());
        }
        Ok(taken)
    }

    /// Reads the messages of a request. An error after the first message is left to the next
    /// request.
    async fn all<E: std::fmt::Display>(
        &self,
        batch: Result<Batch, E>,
        limit: Duration,
    ) -> Result<Vec<Message>> {
        let mut batch = batch.map_err(|error| self.connection.failed(error))?;
        let mut taken = Vec::new();
        loop {
            match tokio::time::timeout(limit, batch.next()).await {
                Ok(None) => return Ok(taken),
                Ok(Some(Ok(message))) => taken.push(message),
                _ if !taken.is_empty() => return Ok(taken),
                Ok(Some(Err(error))) => return Err(self.connection.failed(error)),
                Err(_) => {
                    return Err(self.connection.failed(format!("no answer after {limit:?}")));
                }
            }
        }
    }

    async fn consumer(
        &self,
        number: u64,
        context: &Context,
        claim: Duration,
    ) -> Result<PullConsumer> {
        let mut known = self.consumer.lock().await;
        if let Some((_, consumer)) = known.as_ref().filter(|(of, _)| *of == number) {
            return Ok(consumer.clone());
        }
        let (durable, stream) = (&self.connection.url.durable, &self.connection.url.stream);
        let consumer = match context.get_consumer_from_stream(durable, stream).await {
            Err(error) if has_code(&error, ErrorCode::CONSUMER_NOT_FOUND) => {
                let config = self.config(claim);
                context.create_consumer_on_stream(config, stream).await
            }
            found => found,
        };
        let consumer: PullConsumer = match consumer {
            Ok(consumer) => consumer,
            Err(error) => return Err(self.explained(context, &error).await),
        };
        if consumer.cached_info().config.ack_policy != AckPolicy::Explicit {
            let what = "does not require acknowledgements; recreate it with ack_policy explicit";
            return Err(Error::invalid(format!("the consumer {durable:?} {what}")));
        }
        *known = Some((number, consumer.clone()));
        Ok(consumer)
    }

    fn config(&self, claim: Duration) -> Config {
        Config {
            durable_name: Some(self.connection.url.durable.clone()),
            description: Some("applies invalidations to a cache".into()),
            // A consumer that is made later makes old changes again, which does no harm.
            deliver_policy: DeliverPolicy::All,
            ack_policy: AckPolicy::Explicit,
            ack_wait: claim,
            max_ack_pending: UNACKNOWLEDGED,
            filter_subject: self.connection.url.subject.clone(),
            ..Config::default()
        }
    }

    async fn explained(&self, context: &Context, error: &ConsumerError) -> Error {
        let durable = &self.connection.url.durable;
        match error.kind() {
            _ if has_code(error, ErrorCode::STREAM_NOT_FOUND) => {
                self.connection.no_stream(context).await
            }
            ConsumerErrorKind::Request => self.connection.no_stream(context).await,
            ConsumerErrorKind::InvalidConsumerType => Error::invalid(format!(
                "the consumer {durable:?} is a push consumer; recreate it without a deliver_subject"
            )),
            ConsumerErrorKind::JetStream(said) => self.connection.failed(said),
            _ => self.connection.failed(error),
        }
    }
}

fn has_code(error: &ConsumerError, code: ErrorCode) -> bool {
    matches!(error.kind(), ConsumerErrorKind::JetStream(said) if said.error_code() == code)
}
