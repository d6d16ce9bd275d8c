//! A connection that is made at its first use, and replaced when it is lost.

use std::fmt;
use std::future::ready;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::context::{ContextBuilder, GetStreamErrorKind};
use async_nats::jetstream::{Context, ErrorCode};
use async_nats::{ConnectOptions, Event};

use super::url::NatsUrl;
use crate::{Error, ErrorKind, Result};

/// How long a server may take to reply or to connect.
pub(super) const LIMIT: Duration = Duration::from_secs(2);
/// The same limit for all servers of a URL together.
const ALL: Duration = Duration::from_secs(5);
/// How often a ping is sent, so that a dead connection is noticed within three times this.
const PING: Duration = Duration::from_secs(1);

pub(super) struct NatsConnection {
    pub(super) url: NatsUrl,
    options: ConnectOptions,
    /// The last complaint of the server, which arrives separately from the replies.
    said: Arc<Mutex<Option<String>>>,
    current: tokio::sync::Mutex<(u64, Option<Context>)>,
}

impl NatsConnection {
    /// Creates the connection without connecting.
    pub(super) fn open(url: &str) -> Result<Self> {
        leasehold_cache_redis::ready()?;
        let url = NatsUrl::parse(url)?;
        let said = Arc::new(Mutex::default());
        let hears = Arc::clone(&said);
        let options = url
            .options
            .clone()
            .name("leasehold-cache")
            .connection_timeout(LIMIT)
            .request_timeout(Some(LIMIT))
            .ping_interval(PING)
            // One round; after that it is we who connect, and say what is in the way.
            .max_reconnects(url.servers.len())
            .ignore_discovered_servers()
            .event_callback(move |event| {
                if let Event::ServerError(error) = event {
                    *hears.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
                }
                ready(())
            });
        Ok(Self { url, options, said, current: tokio::sync::Mutex::default() })
    }

    /// Returns the connection and its number.
    pub(super) async fn get(&self) -> Result<(u64, Context)> {
        let mut current = self.current.lock().await;
        let is_connected =
            |context: &&Context| context.client().connection_state() == State::Connected;
        if let Some(context) = current.1.as_ref().filter(is_connected) {
            return Ok((current.0, context.clone()));
        }
        current.1 = None;
        *self.said.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let connect = self.options.clone().connect(&self.url.servers);
        let client = match tokio::time::timeout(ALL, connect).await {
            Ok(Ok(client)) => client,
            Ok(Err(error)) => return Err(self.failed(error)),
            Err(_) => return Err(self.failed(format!("no answer after {ALL:?}"))),
        };
        let context = ContextBuilder::new().timeout(LIMIT).build(client);
        *current = (current.0 + 1, Some(context.clone()));
        Ok((current.0, context))
    }

    /// Drops this connection: the next call connects again.
    pub(super) async fn drop_it(&self, number: u64) {
        let mut current = self.current.lock().await;
        if current.0 == number {
            current.1 = None;
        }
    }

    /// Returns the error for a failure, with the server's URL and its last complaint.
    pub(super) fn failed(&self, what: impl fmt::Display) -> Error {
        let mut text = format!("{}: {what}", self.url.shown);
        if let Some(said) = &*self.said.lock().unwrap_or_else(PoisonError::into_inner) {
            text.push_str(&format!("; the server says {said}"));
        }
        Error::new(ErrorKind::Unavailable, text)
    }

    /// Finds the reason why no stream accepted the subject, or no server answered for the stream.
    pub(super) async fn no_stream(&self, context: &Context) -> Error {
        let (stream, subject) = (&self.url.stream, &self.url.subject);
        let error = match context.get_stream(stream).await {
            Ok(_) => {
                let what = format!("the stream {stream:?} does not accept the subject {subject:?}");
                return self.failed(what);
            }
            Err(error) => error,
        };
        match error.kind() {
            GetStreamErrorKind::JetStream(said)
                if said.error_code() == ErrorCode::STREAM_NOT_FOUND =>
            {
                self.failed(format!(
                    "there is no stream {stream:?}; create it: leasehold cache init --to {}",
                    self.url.shown
                ))
            }
            GetStreamErrorKind::JetStream(said) => self.failed(said),
            _ => self.failed(format!("cannot use JetStream: {error}")),
        }
    }
}

impl fmt::Debug for NatsConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NatsConnection").field(&self.url.shown).finish()
    }
}
