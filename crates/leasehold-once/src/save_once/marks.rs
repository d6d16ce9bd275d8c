//! Marks in Redis that say of keys that their rows are committed.

use std::time::Duration;

use leasehold_cache_redis::Link;
use redis::{cmd, pipe};

/// What a mark holds; anything else under its key is none.
const MARK: &[u8] = b"1";

#[derive(Clone, Debug)]
pub(super) struct Marks {
    link: Link,
    stem: String,
    ttl_ms: u64,
}

impl Marks {
    /// Zero is no marks at all.
    pub(super) fn new(link: Link, stem: String, ttl: Duration) -> Self {
        Self { link, stem, ttl_ms: ttl.as_millis() as u64 }
    }

    /// Which of these keys are marked. None is, when Redis cannot say.
    pub(super) async fn read(&self, keys: &[&str]) -> Vec<bool> {
        if self.ttl_ms == 0 || keys.is_empty() {
            return vec![false; keys.len()];
        }
        let mut read = cmd("MGET");
        keys.iter().for_each(|key| {
            read.arg(self.key(key));
        });
        let read: Vec<Option<Vec<u8>>> = self.link.ask(&read).await.unwrap_or_default();
        let mut read = read.into_iter();
        keys.iter().map(|_| read.next().flatten().is_some_and(|mark| mark == MARK)).collect()
    }

    /// Marks keys whose rows are committed. One that is not set costs an attempt later.
    pub(super) async fn set(&self, keys: Vec<String>) {
        if self.ttl_ms == 0 || keys.is_empty() {
            return;
        }
        let mut set = pipe();
        for key in &keys {
            set.cmd("SET").arg(self.key(key)).arg(MARK).arg("PX").arg(self.ttl_ms).ignore();
        }
        if let Err(error) = self.link.ask_all::<()>(&set).await {
            tracing::debug!(%error, "saved rows are not marked");
        }
    }

    fn key(&self, key: &str) -> String {
        format!("{}:{key}", self.stem)
    }
}
