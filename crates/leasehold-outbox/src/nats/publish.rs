//! Publishes changes to a stream. A change is delivered when the stream has acknowledged it.

use std::error::Error as _;
use std::fmt;
use std::sync::Arc;

use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::{self, Context, ErrorCode};
use futures_util::future::{BoxFuture, join_all};

use super::connection::{LIMIT, NatsConnection};
use super::message;
use super::stream;
use crate::transport::{Change, Refused, Transport};
use crate::{Error, Result};

/// Publishes changes to a stream of NATS JetStream, from which a [`Receiver`](super::Receiver)
/// applies them.
///
/// Each message is the JSON object `{"cache":"prefix:name","key":"42","hold_ms":0}`, with the
/// [`id`](Change::id) of the change as `Nats-Msg-Id`. The stream drops a message with a known id if
/// it arrives within the stream's `duplicate_window` (2 minutes).
///
/// The URL is `nats://[user:password@ or token@]host[:4222][,host...]`, or `tls://…`, with the options
///
/// | option | default |
/// |---|---|
/// | `stream` | `leasehold-cache` |
/// | `subject` | `leasehold-cache.changes` |
/// | `durable`: the name under which receivers share their work | `leasehold-cache` |
/// | `credentials=FILE`, a file that `nsc` writes | none |
/// | `password-file=FILE` | none |
/// | `tls-ca=FILE`, `tls-cert=FILE`, `tls-key=FILE` | the system's authorities, no certificate |
/// | `replicas`, when the stream is created, 1 to 5 | 1 |
/// | `max-age`, when the stream is created: how long it keeps a change, 1 min to 10,000 h | 24 h |
#[derive(Clone)]
pub struct NatsTransport {
    connection: Arc<NatsConnection>,
}

impl NatsTransport {
    /// Opens the transport to the stream of `url`, without connecting to it. The server may be
    /// down.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a URL that cannot be parsed, or
    /// outside a tokio runtime.
    pub fn open(url: &str) -> Result<Self> {
        Ok(Self { connection: Arc::new(NatsConnection::open(url)?) })
    }

    /// Creates the stream on disk, unless it exists. A full stream refuses new messages and drops
    /// none.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) with the error of the server;
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if a stream of this name exists that does
    /// not accept the subject, or acknowledges no messages.
    pub async fn create(&self) -> Result<()> {
        stream::create(&self.connection).await
    }

    /// Returns the stream that [`create`](Self::create) creates, as JSON for `nats stream add
    /// --config`.
    pub fn stream(&self) -> String {
        stream::text(&self.connection.url)
    }

    async fn publish(&self, changes: &[Change]) -> Result<Vec<Refused>> {
        let (number, context) = self.connection.get().await?;
        let sent = changes.iter().map(|change| self.send(&context, change));
        let (mut refused, mut down) = (Vec::new(), None);
        for (at, answer) in join_all(sent).await.into_iter().enumerate() {
            match answer {
                Ok(()) => {}
                Err(error) if is_about_the_message(&error) => {
                    refused.push(Refused::new(at, format!("NATS: {error}")));
                }
                Err(error) => down = Some(error),
            }
        }
        match down {
            None => Ok(refused),
            Some(error) => Err(self.explained(number, &context, &error).await),
        }
    }

    async fn send(&self, context: &Context, change: &Change) -> Result<(), PublishError> {
        let other = |error| PublishError::with_source(PublishErrorKind::Other, error);
        let mut message = PublishMessage::build()
            .payload(message::write(change).map_err(other)?.into())
            // A stream of another program may have taken the subject.
            .expected_stream(&self.connection.url.stream);
        if change.id != 0 {
            message = message.message_id(format!("{:032x}", change.id));
        }
        context.send_publish(self.connection.url.subject.clone(), message).await?.await.map(drop)
    }

    async fn explained(&self, number: u64, context: &Context, error: &PublishError) -> Error {
        match (error.kind(), code(error)) {
            (PublishErrorKind::StreamNotFound, _) => self.connection.no_stream(context).await,
            (_, Some(ErrorCode::STREAM_NOT_MATCH)) => self.connection.failed(format!(
                "the subject {:?} belongs to another stream than {:?}; use another subject",
                self.connection.url.subject, self.connection.url.stream
            )),
            (_, Some(_)) => self.connection.failed(error),
            // Whether it is there at all is seen by a new connection.
            (kind, None) => {
                self.connection.drop_it(number).await;
                match kind {
                    PublishErrorKind::TimedOut => {
                        self.connection.failed(format!("no acknowledgement after {LIMIT:?}"))
                    }
                    _ => self.connection.failed(error),
                }
            }
        }
    }
}

impl Transport for NatsTransport {
    fn deliver<'a>(&'a self, changes: &'a [Change]) -> BoxFuture<'a, Result<Vec<Refused>>> {
        Box::pin(self.publish(changes))
    }
}

/// Returns the error code that JetStream itself has sent.
fn code(error: &PublishError) -> Option<ErrorCode> {
    Some(error.source()?.downcast_ref::<jetstream::Error>()?.error_code())
}

/// Returns true if only this message is refused, for example because its key is too long.
fn is_about_the_message(error: &PublishError) -> bool {
    let too_long =
        [ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM, ErrorCode::STREAM_HEADER_EXCEEDS_MAXIMUM];
    error.kind() == PublishErrorKind::MaxPayloadExceeded
        || code(error).is_some_and(|code| too_long.contains(&code))
}

impl fmt::Debug for NatsTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NatsTransport").field(&self.connection.url.shown).finish()
    }
}
