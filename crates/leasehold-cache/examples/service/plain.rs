//! The usual recipe, to compare with: GET, load, SET; DEL after the commit.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold_cache::BoxError;
use redis::AsyncCommands;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};

use super::shop::{Product, Shop};

const LIMIT: Duration = Duration::from_millis(500);

pub(crate) struct Plain {
    connection: ConnectionManager,
    ttl_ms: u64,
    pub(crate) hits: AtomicU64,
    pub(crate) errors: AtomicU64,
}

impl Plain {
    pub(crate) fn open(url: &str, ttl: Duration) -> Result<Self, BoxError> {
        let config = ConnectionManagerConfig::new()
            .set_connection_timeout(Some(LIMIT))
            .set_response_timeout(Some(LIMIT))
            .set_number_of_retries(0);
        let client = redis::Client::open(url)?;
        let connection = ConnectionManager::new_lazy_with_config(client, config)?;
        let ttl_ms = ttl.as_millis() as u64;
        Ok(Self { connection, ttl_ms, hits: AtomicU64::new(0), errors: AtomicU64::new(0) })
    }

    pub(crate) async fn get(&self, key: &str, shop: &Shop) -> Result<Option<Product>, BoxError> {
        let (mut connection, entry) = (self.connection.clone(), entry(key));
        let found: Option<Vec<u8>> = self.noted(connection.get(&entry).await);
        if let Some(found) = found.and_then(|bytes| serde_json::from_slice(&bytes).ok()) {
            self.hits.fetch_add(1, Ordering::Relaxed);
            return Ok(Some(found));
        }
        let Ok(id) = key.parse() else { return Ok(None) };
        let Some(product) = shop.product(id).await? else { return Ok(None) };
        let bytes = serde_json::to_vec(&product)?;
        self.noted(connection.pset_ex::<_, _, Option<()>>(&entry, bytes, self.ttl_ms).await);
        Ok(Some(product))
    }

    pub(crate) async fn delete(&self, key: &str) {
        let deleted = self.connection.clone().del::<_, Option<u64>>(entry(key)).await;
        self.noted(deleted);
    }

    fn noted<T>(&self, answer: redis::RedisResult<Option<T>>) -> Option<T> {
        answer.unwrap_or_else(|_| {
            self.errors.fetch_add(1, Ordering::Relaxed);
            None
        })
    }
}

fn entry(key: &str) -> String {
    format!("plain:{key}")
}
