//! Creates the stream, and checks an existing one.

use async_nats::jetstream::context::CreateStreamErrorKind;
use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType};

use super::connection::NatsConnection;
use super::url::NatsUrl;
use crate::{Error, Result};

pub(super) fn text(url: &NatsUrl) -> String {
    serde_json::to_string_pretty(&config(url)).unwrap_or_default()
}

pub(super) async fn create(connection: &NatsConnection) -> Result<()> {
    let (_, context) = connection.get().await?;
    let NatsUrl { stream, subject, .. } = &connection.url;
    let made = context.get_or_create_stream(config(&connection.url)).await;
    let made = made.map_err(|error| match error.kind() {
        CreateStreamErrorKind::JetStreamUnavailable => {
            connection.failed("JetStream is not enabled")
        }
        CreateStreamErrorKind::JetStream(said) => connection.failed(said),
        _ => connection.failed(error),
    })?;
    if made.cached_info().config.no_ack {
        let what = "has no_ack, so deliveries cannot be confirmed; turn no_ack off";
        return Err(Error::invalid(format!("the stream {stream:?} {what}")));
    }
    // What stands for what among its subjects is the server's to say.
    if context.stream_by_subject(subject.as_str()).await.is_ok_and(|taker| taker == *stream) {
        return Ok(());
    }
    let takes = made.cached_info().config.subjects.join(", ");
    Err(Error::invalid(format!(
        "the stream {stream:?} accepts {takes}, not the subject {subject:?}"
    )))
}

fn config(url: &NatsUrl) -> Config {
    Config {
        name: url.stream.clone(),
        description: Some("invalidations of caches".into()),
        subjects: vec![url.subject.clone()],
        // Every durable consumer sees all of them.
        retention: RetentionPolicy::Limits,
        max_age: url.max_age,
        // If an operator sets a limit, the relay must notice it, and the oldest messages must not
        // be lost.
        discard: DiscardPolicy::New,
        storage: StorageType::File,
        num_replicas: url.replicas,
        max_bytes: -1,
        max_messages: -1,
        max_messages_per_subject: -1,
        max_consumers: -1,
        ..Config::default()
    }
}
