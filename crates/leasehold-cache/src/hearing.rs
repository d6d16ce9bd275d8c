//! Whether a cache hears invalidations: one warning at each change of that, and a gauge.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use metrics::Gauge;
use redis::RedisError;

use crate::health::{Health, is_refusal};
use crate::stats::HEARING;

/// What is known of invalidations: nothing yet, that they are heard, that they are not.
const UNKNOWN: u8 = 0;
const HEARS: u8 = 1;
const DEAF: u8 = 2;

pub(crate) struct Hearing {
    health: Arc<Health>,
    state: AtomicU8,
    gauge: Gauge,
}

impl Hearing {
    pub(crate) fn new(health: Arc<Health>) -> Self {
        let gauge = metrics::gauge!(HEARING, "cache" => health.user().name.clone());
        gauge.set(0.0);
        Self { health, state: AtomicU8::new(UNKNOWN), gauge }
    }

    /// Whether they are heard now.
    pub(crate) fn is_on(&self) -> bool {
        self.state.load(Ordering::SeqCst) == HEARS
    }

    /// They are heard from now on, or are not.
    pub(crate) fn set(&self, hears: bool) {
        self.gauge.set(f64::from(u8::from(hears)));
        let now = if hears { HEARS } else { DEAF };
        let user = self.health.user();
        match (self.state.swap(now, Ordering::SeqCst), hears) {
            (DEAF, true) => user.warn("invalidations are heard again"),
            (HEARS, false) => user
                .warn("invalidations are not heard: this process keeps no values until they are"),
            _ => {}
        }
    }

    /// Listening could not begin; without an error it was not answered.
    pub(crate) fn cannot_begin(&self, error: Option<&RedisError>) {
        let is_first = self.state.swap(DEAF, Ordering::SeqCst) == UNKNOWN;
        let user = self.health.user();
        match error {
            // Calls may go on over an older connection: they alone say whether Redis can be used.
            _ if !is_first => {}
            Some(error) if is_refusal(error) => self.health.failed(error),
            None => user.warn("invalidations are not heard: no answer"),
            error => user.warn_of(error, "invalidations are not heard: cannot listen"),
        }
    }
}
