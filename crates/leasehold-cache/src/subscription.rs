//! Tracks whether a cache receives invalidations: logs each change once, and sets a gauge.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use leasehold_cache_redis::{Health, is_refusal};
use metrics::Gauge;
use redis::RedisError;

use crate::stats::HEARING;

/// The states of the subscription.
const UNKNOWN: u8 = 0;
const ACTIVE: u8 = 1;
const INACTIVE: u8 = 2;

pub(crate) struct Subscription {
    health: Arc<Health>,
    state: AtomicU8,
    gauge: Gauge,
}

impl Subscription {
    pub(crate) fn new(health: Arc<Health>) -> Self {
        let gauge = metrics::gauge!(HEARING, "cache" => health.consumer().name().to_owned());
        gauge.set(0.0);
        Self { health, state: AtomicU8::new(UNKNOWN), gauge }
    }

    /// Returns true while invalidations are received.
    pub(crate) fn is_active(&self) -> bool {
        self.state.load(Ordering::SeqCst) == ACTIVE
    }

    /// Records whether invalidations are received from now on.
    pub(crate) fn set(&self, is_active: bool) {
        self.gauge.set(f64::from(u8::from(is_active)));
        let now = if is_active { ACTIVE } else { INACTIVE };
        let user = self.health.consumer();
        match (self.state.swap(now, Ordering::SeqCst), is_active) {
            (INACTIVE, true) => user.warn("receiving invalidations again"),
            (ACTIVE, false) => user.warn(
                "cannot receive invalidations: this process keeps no values in memory until it can",
            ),
            _ => {}
        }
    }

    /// Records that the subscription failed; without an error it timed out.
    pub(crate) fn cannot_begin(&self, error: Option<&RedisError>) {
        let is_first = self.state.swap(INACTIVE, Ordering::SeqCst) == UNKNOWN;
        let user = self.health.consumer();
        match error {
            // Calls may go on over an older connection: they alone say whether Redis can be used.
            _ if !is_first => {}
            Some(error) if is_refusal(error) => self.health.failed(error),
            None => user.warn("cannot receive invalidations: no answer from Redis"),
            error => user.warn_of(error, "cannot receive invalidations: cannot subscribe"),
        }
    }
}
