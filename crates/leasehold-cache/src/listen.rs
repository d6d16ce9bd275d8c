//! Hears what others have written or filled, on a connection of its own.

use std::sync::{Arc, Weak};
use std::time::Duration;

use leasehold_core::clock::Clock;
use leasehold_core::proto::Now;
use redis::aio::{PubSubSink, PubSubStream};
use redis::{Msg, RedisError};

use crate::remote::channel;
use crate::server::Server;

/// How often the connection is tried, so that a dead one is noticed within twice this.
const PING: Duration = Duration::from_secs(1);
/// Pauses between attempts to connect: the first and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// Receives the messages. If it is dropped, the listening ends.
pub(crate) trait Listener: Send + Sync + 'static {
    /// Another process has written, or is about to write, the value of this key.
    fn invalidated(&self, key: &str);
    /// Another process has filled this key, or given it up.
    fn filled(&self, key: &str);
    /// From now on all is heard; or nothing is, until told otherwise.
    fn hears(self: &Arc<Self>, hears: bool);
    /// Nothing is heard: a connection could not be made, or without an error was not made in time.
    fn cannot_listen(&self, error: Option<RedisError>);
    /// The server that is listened to has answered what it was asked then.
    fn answered(&self, asked: Now);
}

/// Listens for as long as the listener exists.
pub(crate) async fn listen<L: Listener>(
    mut server: Server,
    stem: String,
    clock: Clock,
    to: Weak<L>,
) {
    let mut pause = PAUSES.0;
    while to.strong_count() > 0 {
        match tokio::time::timeout(PING, subscribe(&mut server, &stem)).await {
            Ok(Ok((sink, stream))) => {
                pause = PAUSES.0;
                let Some(listener) = to.upgrade() else { return };
                listener.hears(true);
                drop(listener);
                tokio::select! {
                    () = hear(sink, stream, &clock, &to) => {}
                    () = server.moved_on() => tracing::debug!("the cache listens to another server"),
                }
                if let Some(listener) = to.upgrade() {
                    listener.hears(false);
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

/// Whether it is possible to listen now.
pub(crate) async fn try_to_listen(mut server: Server, stem: &str) -> Result<(), RedisError> {
    let listens = tokio::time::timeout(PING * 2, subscribe(&mut server, stem)).await;
    listens.map_err(|_| server.none()).and_then(|subscribed| subscribed.map(drop))
}

/// Passes on what comes, until the connection ends or does not answer.
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
        _ => tracing::warn!("the cache heard something that it does not understand"),
    }
}
