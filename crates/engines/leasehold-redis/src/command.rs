//! Sends one command over a connection.

use std::time::Duration;

use leasehold_core::{Error, ErrorKind, Result};
use redis::Value;
use redis::aio::MultiplexedConnection;

use crate::error::from_redis;

/// Sends one command; an error answer of the server is an error.
pub(crate) async fn send(
    connection: &mut MultiplexedConnection,
    command: &redis::Cmd,
) -> redis::RedisResult<Value> {
    connection.send_packed_command(command).await?.extract_error()
}

/// Sends a request with a time limit.
pub(crate) async fn within<T>(
    limit: Duration,
    request: impl Future<Output = redis::RedisResult<T>>,
) -> Result<T> {
    match tokio::time::timeout(limit, request).await {
        Ok(answer) => answer.map_err(from_redis),
        Err(_elapsed) => Err(Error::new(
            ErrorKind::Unavailable,
            format!("the server did not answer in {limit:?}"),
        )),
    }
}

/// Returns the command that lets a connection ask for reports. Only reads after CACHING are reported: the server remembers
/// no other keys of this connection.
pub(crate) fn tracking() -> redis::Cmd {
    let mut command = redis::cmd("CLIENT");
    command.arg("TRACKING").arg("ON").arg("OPTIN");
    command
}
