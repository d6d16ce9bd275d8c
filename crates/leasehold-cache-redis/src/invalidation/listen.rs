//! Receives the writes and fills of other processes, on a separate connection.

use std::sync::{Arc, Weak};
use std::time::Duration;

use leasehold_core::clock::Clock;
use leasehold_core::proto::Now;
use redis::aio::{PubSubSink, PubSubStream};
use redis::{Msg, RedisError};

use super::channel;
use crate::consumer::LOG_TARGET;
use crate::server::Server;

/// How often a ping is sent, so that a dead connection is noticed within twice this time.
const PING: Duration = Duration::from_secs(1);
/// The first and the longest pause between attempts to connect.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// Receives the messages of a cache. When the last reference to it is dropped, [`listen`] ends.
pub trait Listener: Send + Sync + 'static {
    /// Another process has written, or is about to write, the value of this key.
    fn invalidated(&self, key: &str);
    /// Another process has filled this key, or abandoned its load.
    fn filled(&self, key: &str);
    /// From now on every message is received (true), or none (false), until the next call.
    fn subscribed(self: &Arc<Self>, is_subscribed: bool);
    /// No message is received. The connection failed with `error`, or without an error it timed
    /// out.
    fn cannot_listen(&self, error: Option<RedisError>);
    /// The server has answered a ping that was sent at this time.
    fn answered(&self, asked: Now);
}

/// Receives the messages of the cache with this stem, for as long as the listener exists.
pub async fn listen<L: Listener>(mut server: Server, stem: String, clock: Clock, to: Weak<L>) {
    let mut pause = PAUSES.0;
    while to.strong_count() > 0 {
        match tokio::time::timeout(PING, subscribe(&mut server, &stem)).await {
            Ok(Ok((sink, stream))) => {
                pause = PAUSES.0;
                let Some(listener) = to.upgrade() else { return };
                listener.subscribed(true);
                drop(listener);
                tokio::select! {
                    () = hear(sink, stream, &clock, &to) => {}
                    () = server.moved_on() => tracing::debug!("the cache listens to another server"),
                }
                if let Some(listener) = to.upgrade() {
                    listener.subscribed(false);
                }
            }
            failed => {
                let Some(listener) = to.upgrade() else { return };
                listener.cannot_listen(failed.ok().and_then(Result::err));
            }
        }
        clock.sleep(pause).await;
        pause = (pause * 2).min(PAUSES.1);
    }
}

async fn subscribe(
    server: &mut Server,
    stem: &str,
) -> Result<(PubSubSink, PubSubStream), RedisError> {
    let (_, client) = server.wait().await;
    let (mut sink, stream) = client.get_async_pubsub().await?.split();
    sink.subscribe(channel(stem)).await?;
    Ok((sink, stream))
}

/// Checks whether messages can be received now.
///
/// # Errors
/// The error of the connection or of the subscription.
pub async fn try_to_listen(mut server: Server, stem: &str) -> Result<(), RedisError> {
    let listens = tokio::time::timeout(PING * 2, subscribe(&mut server, stem)).await;
    listens.map_err(|_| server.none()).and_then(|subscribed| subscribed.map(drop))
}

/// Passes messages on until the connection ends or does not answer.
async fn hear<L: Listener>(
    mut sink: PubSubSink,
    mut stream: PubSubStream,
    clock: &Clock,
    to: &Weak<L>,
) {
    use futures_util::StreamExt;
    let pings = async {
        loop {
            clock.sleep(PING).await;
            let asked = clock.now();
            let pong = tokio::time::timeout(PING, sink.ping::<redis::Value>()).await;
            let (Ok(Ok(_)), Some(listener)) = (pong, to.upgrade()) else { return };
            listener.answered(asked);
        }
    };
    let messages = async {
        while let Some(message) = stream.next().await {
            let Some(listener) = to.upgrade() else { return };
            tell(&listener, &message);
        }
    };
    tokio::select! {
        () = pings => {}
        () = messages => {}
    }
}

fn tell<L: Listener>(listener: &Arc<L>, message: &Msg) {
    let text = std::str::from_utf8(message.get_payload_bytes()).ok();
    match text.and_then(|text| text.split_at_checked(1)) {
        Some(("I", key)) => listener.invalidated(key),
        Some(("F", key)) => listener.filled(key),
        _ => {
            tracing::warn!(target: LOG_TARGET, "unknown invalidation message; check that all \
                                                processes have the same version")
        }
    }
}
