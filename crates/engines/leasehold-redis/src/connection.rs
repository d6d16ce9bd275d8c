//! Connects to a Redis server within a time limit.

use std::time::Duration;

use leasehold_core::Result;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, PushInfo};
use tokio::sync::mpsc::UnboundedSender;

use crate::command::within;
use crate::error::of_database;
use crate::push_support::{has_no_resp3, speaking_resp2};

/// Connects with the protocol of the client. Commands on the connection have no time limit of their
/// own. `pushes` gets what the server pushes.
pub(crate) async fn connect_to(
    client: &Client,
    limit: Duration,
    pushes: Option<UnboundedSender<PushInfo>>,
) -> Result<MultiplexedConnection> {
    let config =
        AsyncConnectionConfig::new().set_connection_timeout(Some(limit)).set_response_timeout(None);
    let config = match pushes {
        Some(pushes) => config.set_push_sender(pushes),
        None => config,
    };
    within(limit, client.get_multiplexed_async_connection_with_config(&config)).await
}

/// Connects with RESP3, or with RESP2 to a server that does not speak RESP3. Returns true in the
/// second case: the server cannot push.
pub(crate) async fn connect_with_any_protocol(
    client: &Client,
    limit: Duration,
    pushes: UnboundedSender<PushInfo>,
) -> Result<(MultiplexedConnection, bool)> {
    match connect_to(client, limit, Some(pushes)).await {
        Err(error) if has_no_resp3(&error) => {
            let client = speaking_resp2(client)?;
            let connection = connect_to(&client, limit, None).await;
            Ok((connection.map_err(|error| of_database(error, &client))?, true))
        }
        connection => Ok((connection.map_err(|error| of_database(error, client))?, false)),
    }
}
