//! Whether Redis is there for its user: one warning at each change of that, and a gauge.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use metrics::Gauge;
use redis::{ErrorKind, RedisError};

use crate::stats::BREAKER_OPEN;
use crate::user::User;

pub(crate) struct Health {
    user: Arc<User>,
    down: AtomicBool,
    breaker: Gauge,
}

impl Health {
    pub(crate) fn new(user: Arc<User>) -> Self {
        let breaker = metrics::gauge!(BREAKER_OPEN, user.kind.label() => user.name.clone());
        breaker.set(0.0);
        Self { user, down: AtomicBool::new(false), breaker }
    }

    pub(crate) fn user(&self) -> &Arc<User> {
        &self.user
    }

    /// A call was answered.
    pub(crate) fn answers(&self) {
        if self.down.load(Ordering::Relaxed) && self.down.swap(false, Ordering::SeqCst) {
            self.user.warn("Redis answers again, and is used");
        }
    }

    /// A call failed.
    pub(crate) fn failed(&self, error: &RedisError) {
        if is_refusal(error) {
            self.goes_down(error);
        }
    }

    /// The breaker has opened, for this error, or has closed.
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
        let meanwhile = self.user.kind.meanwhile();
        self.user.warn_of(Some(error), &format!("Redis cannot be used: {meanwhile}"));
    }
}

/// Whether the server has refused the user or the password.
pub(crate) fn is_refusal(error: &RedisError) -> bool {
    error.kind() == ErrorKind::AuthenticationFailed
        || matches!(error.code(), Some("NOAUTH" | "WRONGPASS"))
}
