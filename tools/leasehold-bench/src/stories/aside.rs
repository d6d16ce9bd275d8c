//! Cache-aside as it is usually written: `GET`, load what is missing, `SET` with a time to live.

use std::time::Duration;

use redis::AsyncCommands;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};

use crate::Result;

/// Goes past Redis when that fails, as fast as our own cache does. Clones share the connection.
#[derive(Clone)]
pub(super) struct Aside {
    connection: ConnectionManager,
    ttl_ms: u64,
}

impl Aside {
    pub(super) fn open(url: &str, ttl: Duration) -> Result<Self> {
        // The connection that ours has: it fails immediately while no server listens.
        let limit = Some(Duration::from_millis(500));
        let config = ConnectionManagerConfig::new()
            .set_connection_timeout(limit)
            .set_response_timeout(limit)
            .set_number_of_retries(0);
        let client = redis::Client::open(url)?;
        let connection = ConnectionManager::new_lazy_with_config(client, config)?;
        Ok(Self { connection, ttl_ms: ttl.as_millis() as u64 })
    }

    pub(super) async fn get<E>(
        &self,
        key: &str,
        load: impl Future<Output = std::result::Result<String, E>>,
    ) -> std::result::Result<String, E> {
        let mut connection = self.connection.clone();
        if let Ok(Some(value)) = connection.get::<_, Option<String>>(key).await {
            return Ok(value);
        }
        let value = load.await?;
        // What is not stored is loaded again.
        let _ = connection.pset_ex::<_, _, ()>(key, &value, self.ttl_ms).await;
        Ok(value)
    }
}
