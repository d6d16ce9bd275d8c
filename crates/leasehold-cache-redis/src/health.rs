//! Tracks whether Redis answers its consumer: logs each change once, and sets a gauge.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use metrics::Gauge;
use redis::{ErrorKind, RedisError};

use crate::consumer::Consumer;

/// The gauge that is 1 while the circuit breaker of Redis is open, else 0.
pub const BREAKER_OPEN: &str = "leasehold_cache_breaker_open";

/// Whether the server answers its consumer. Each change is logged once.
#[derive(Debug)]
pub struct Health {
    consumer: Arc<Consumer>,
    down: AtomicBool,
    breaker: Gauge,
}

impl Health {
    /// Creates the state of a server that answers, and sets the gauge [`BREAKER_OPEN`] to 0.
    pub fn new(consumer: Arc<Consumer>) -> Self {
        let breaker = metrics::gauge!(BREAKER_OPEN, consumer.kind.label() => consumer.name.clone());
        breaker.set(0.0);
        Self { consumer, down: AtomicBool::new(false), breaker }
    }

    /// Returns the consumer.
    pub fn consumer(&self) -> &Arc<Consumer> {
        &self.consumer
    }

    /// Records that a call was answered.
    pub(crate) fn answers(&self) {
        if self.down.load(Ordering::Relaxed) && self.down.swap(false, Ordering::SeqCst) {
            self.consumer.warn("Redis answers again");
        }
    }

    /// Records that a call failed.
    pub fn failed(&self, error: &RedisError) {
        if is_refusal(error) {
            self.goes_down(error);
        }
    }

    /// Records that the breaker has opened, for this error, or has closed.
    pub(crate) fn breaker(&self, open: bool, error: Option<&RedisError>) {
        self.breaker.set(f64::from(u8::from(open)));
        if let Some(error) = error.filter(|_| open) {
            self.goes_down(error);
        }
    }

    fn goes_down(&self, error: &RedisError) {
        if self.down.swap(true, Ordering::SeqCst) {
            return;
        }
        let meanwhile = self.consumer.kind.meanwhile();
        self.consumer.warn_of(Some(error), &format!("Redis cannot be used: {meanwhile}"));
    }
}

/// Returns whether the server refused the user or the password.
pub fn is_refusal(error: &RedisError) -> bool {
    error.kind() == ErrorKind::AuthenticationFailed
        || matches!(error.code(), Some("NOAUTH" | "WRONGPASS"))
}
