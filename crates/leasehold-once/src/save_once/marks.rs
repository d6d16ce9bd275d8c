//! Marks in Redis: the row of a marked key is committed.

use std::time::Duration;

use leasehold_cache_redis::Link;
use redis::{cmd, pipe};

/// The value of a mark; any other value is ignored.
const MARK: &[u8] = b"1";

#[derive(Clone, Debug)]
pub(super) struct Marks {
    link: Link,
    stem: String,
    ttl_ms: u64,
}

impl Marks {
    /// Creates the marks; a `ttl` of zero disables them.
    pub(super) fn new(link: Link, stem: String, ttl: Duration) -> Self {
        Self { link, stem, ttl_ms: ttl.as_millis() as u64 }
    }

    /// Returns which of these keys are marked; none if Redis does not answer.
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

    /// Marks keys whose rows are committed. A missing mark only costs a statement later.
    pub(super) async fn set(&self, keys: Vec<String>) {
        if self.ttl_ms == 0 || keys.is_empty() {
            return;
        }
        let mut set = pipe();
        for key in &keys {
            set.cmd("SET").arg(self.key(key)).arg(MARK).arg("PX").arg(self.ttl_ms).ignore();
        }
        if let Err(error) = self.link.ask_all::<()>(&set).await {
            tracing::debug!(%error, "cannot mark saved rows in Redis");
        }
    }

    fn key(&self, key: &str) -> String {
        format!("{}:{key}", self.stem)
    }
}
