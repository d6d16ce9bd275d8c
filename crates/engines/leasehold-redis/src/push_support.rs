//! Servers, or proxies in front of them, that cannot push: no RESP3, or no SUBSCRIBE. Waiters then
//! poll.

use leasehold_core::{Error, ErrorKind, Result};
use redis::aio::MultiplexedConnection;
use redis::{Client, ProtocolVersion, RedisError};

use crate::command::send;

/// A channel that no client publishes to, for a test subscription.
const NOBODY: &str = "leasehold:c:0000000000000000";

/// Returns true for an error that means that the server does not speak RESP3.
pub(crate) fn has_no_resp3(error: &Error) -> bool {
    let source = std::error::Error::source(error);
    let Some(answer) = source.and_then(|source| source.downcast_ref::<RedisError>()) else {
        return false;
    };
    let text = answer.to_string().to_lowercase();
    answer.kind() == redis::ErrorKind::RESP3NotSupported
        || text.contains("noproto")
        || text.contains("unknown command") && text.contains("hello")
}

/// Returns a client of the same server that speaks RESP2.
pub(crate) fn speaking_resp2(client: &Client) -> Result<Client> {
    let info = client.get_connection_info().clone();
    let redis = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP2);
    Client::open(info.set_redis_settings(redis)).map_err(crate::error::from_redis)
}

/// What a server without HELLO reports about itself, as far as the user may ask.
#[derive(Debug, Default)]
pub(crate) struct Info {
    pub(crate) version: Option<String>,
    pub(crate) mode: Option<String>,
    pub(crate) role: Option<String>,
}

impl Info {
    pub(crate) async fn of(connection: &mut MultiplexedConnection) -> Self {
        let Ok(answer) = send(connection, &redis::cmd("INFO")).await else {
            return Self::default();
        };
        let text: String = redis::from_redis_value(answer).unwrap_or_default();
        let field = |name: &str| {
            let mut fields = text.lines().filter_map(|line| line.split_once(':'));
            fields.find(|(known, _)| *known == name).map(|(_, value)| value.trim().to_owned())
        };
        let role = field("role").map(|role| role.replace("slave", "replica"));
        Self { version: field("redis_version"), mode: field("redis_mode"), role }
    }
}

/// Returns whether a connection may subscribe. A refusal means no; any other failure is an error.
pub(crate) async fn may_subscribe(connection: &mut MultiplexedConnection) -> Result<bool> {
    let subscribed = connection.subscribe(NOBODY).await;
    match subscribed {
        Ok(()) => {
            // An additional channel does no harm.
            connection.unsubscribe(NOBODY).await.ok();
            Ok(true)
        }
        Err(error) if is_refusal(&error) => {
            tracing::warn!(%error, "this server cannot send pushes; waiters poll");
            Ok(false)
        }
        Err(error) => Err(crate::error::from_redis(error)),
    }
}

/// Returns true if the server (or the client library, with RESP2) refused.
pub(crate) fn is_refusal(error: &RedisError) -> bool {
    let denied = crate::error::from_redis(error.clone()).kind() == ErrorKind::Refused;
    let text = error.to_string().to_lowercase();
    denied
        || text.contains("unknown command")
        || text.contains("resp3")
        || text.contains("not allowed")
}
