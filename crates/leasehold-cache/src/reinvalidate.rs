//! The steps of writes in Redis, and how they are repeated: failed steps, and after a lost
//! connection also all recent steps, which the new server may lack.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use leasehold_cache_redis::draw_token;
use leasehold_cache_redis::invalidation::{LOST_HOLD, PAUSES, Step, end_holds_when_over};
use leasehold_core::proto::Deadline;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::state::{LagHold, State};
use crate::{Error, ErrorKind, Result};

impl<V: Serialize + DeserializeOwned + Clone + Send + Sync + 'static> State<V> {
    /// Runs one step for many keys, in Redis and then in this process. Returns how many new entries
    /// were stored. Failed invalidations are repeated in the background.
    pub(crate) async fn step<'s>(
        self: &Arc<Self>,
        keys: &[String],
        token: &str,
        step: impl Fn(usize) -> Step<'s>,
    ) -> Result<usize> {
        let begins = matches!(step(0), Step::Begin(_));
        if !begins {
            self.recent.note(&self.clock, self.settings.write_hold, keys);
        }
        let lag = match step(0) {
            Step::Committed(lag) | Step::CommittedWith(lag, ..) => lag,
            Step::Begin(_) | Step::Settled => Duration::ZERO,
        };
        let (filled, failed, error) = self.try_step(keys, token, step).await;
        self.hold_for_lag(&made(keys, &failed), token, lag);
        let Some(error) = error else { return Ok(filled) };
        let what = format!(
            "cannot invalidate {} of {} keys, first {}: {error}; retrying in the background",
            failed.len(),
            keys.len(),
            failed[0]
        );
        match begins {
            // The caller does not get the token that ends these holds.
            true => self.end_holds(keys.to_vec(), token.to_owned()),
            false => self.reinvalidate(failed),
        }
        Err(Error::new(ErrorKind::Unavailable, what))
    }

    /// Runs one step once. Returns how many new entries were stored, and which keys failed with
    /// which error.
    pub(crate) async fn try_step<'s>(
        &self,
        keys: &[String],
        token: &str,
        step: impl Fn(usize) -> Step<'s>,
    ) -> (usize, Vec<String>, Option<Error>) {
        let calls = keys.iter().enumerate().map(|(at, key)| {
            let step = step(at);
            async move { self.remote.write(key, token, &step).await }
        });
        let done = futures_util::future::join_all(calls).await;
        let (mut filled, mut failed, mut why) = (0, Vec::new(), None);
        for (key, done) in keys.iter().zip(done) {
            self.forget(key);
            match done {
                Ok(taken) => filled += usize::from(taken),
                Err(error) => {
                    failed.push(key.clone());
                    why.get_or_insert(error);
                }
            }
        }
        (filled, failed, why)
    }

    /// Invalidates recently invalidated keys once more.
    pub(crate) fn reinvalidate_recent(self: &Arc<Self>) {
        let keys = self.recent.take();
        if !keys.is_empty() {
            self.reinvalidate(keys);
        }
    }

    /// Repeats the invalidation of these keys until it succeeds, the cache is dropped, or their
    /// entries must have expired.
    pub(crate) fn reinvalidate(self: &Arc<Self>, keys: Vec<String>) {
        let settings = &self.settings;
        let longest = (settings.ttl + settings.stale_for).max(settings.null_ttl);
        let until = Deadline::after(self.clock.now(), longest);
        if !self.owed.add(keys, until) {
            return;
        }
        let (state, clock) = (Arc::downgrade(self), self.clock.clone());
        tokio::spawn(async move {
            let (token, mut pause) = (draw_token(), PAUSES.0);
            while let Some(state) = state.upgrade() {
                let page = state.owed.page(clock.now());
                if page.is_empty() {
                    return;
                }
                let keys: Vec<String> = page.iter().map(|(key, _)| key.clone()).collect();
                let lag = state.settings.replica_lag;
                let connects = state.connects.load(Ordering::SeqCst);
                let (_, failed, _) = state.try_step(&keys, &token, |_| Step::Committed(lag)).await;
                let made = made(&keys, &failed);
                state.hold_for_lag(&made, &token, lag);
                state.recent.note(&clock, state.settings.write_hold, &made);
                // A task that took the recent entries meanwhile did not see these.
                if state.connects.load(Ordering::SeqCst) == connects {
                    state.owed.done(&page, &failed);
                }
                drop(state);
                if !failed.is_empty() {
                    clock.sleep(pause).await;
                    pause = (pause * 2).min(PAUSES.1);
                }
            }
        });
    }

    /// Ends holds whose token is lost, if Redis can be reached: a `begin` without a reply may have
    /// been executed.
    pub(crate) fn end_holds(self: &Arc<Self>, keys: Vec<String>, token: String) {
        let state = Arc::downgrade(self);
        let clock = self.clock.clone();
        let end = Deadline::after(clock.now(), self.settings.write_hold);
        tokio::spawn(async move {
            let (mut keys, mut pause) = (keys, PAUSES.0);
            while let Some(state) = state.upgrade().filter(|_| !end.has_passed(clock.now())) {
                let step = |_| Step::Committed(Duration::ZERO);
                (_, keys, _) = state.try_step(&keys, &token, step).await;
                if keys.is_empty() {
                    return;
                }
                drop(state);
                clock.sleep(pause).await;
                pause = (pause * 2).min(PAUSES.1);
            }
        });
    }

    /// Ends the holds of these keys when the replicas have caught up.
    pub(crate) fn hold_for_lag(self: &Arc<Self>, keys: &[String], token: &str, lag: Duration) {
        let holds = keys.iter().map(|key| (key.clone(), token.to_owned()));
        if !lag.is_zero() && self.lags.add(self.clock.now(), lag, holds) {
            let (this, clock) = (Arc::downgrade(self), self.clock.clone());
            tokio::spawn(end_holds_when_over(this, clock, |state| &state.lags, Self::end_lags));
        }
    }

    /// Ends holds. If a hold was lost, removes what was filled meanwhile.
    async fn end_lags(self: Arc<Self>, holds: Vec<LagHold>) {
        let ends = holds
            .iter()
            .map(|(key, token)| async { self.remote.write(key, token, &Step::Settled).await });
        let ended = futures_util::future::join_all(ends).await;
        let mut failed = Vec::new();
        for ((key, _), ended) in holds.iter().zip(ended) {
            match ended {
                Ok(false) => {}
                Ok(true) => {
                    self.counters.lost_holds.add();
                    self.lost.call_once(|| self.consumer.warn(LOST_HOLD));
                    self.forget(key);
                }
                Err(_) => failed.push(key.clone()),
            }
        }
        if !failed.is_empty() {
            self.reinvalidate(failed);
        }
    }
}

/// Returns the keys that have not failed.
fn made(keys: &[String], failed: &[String]) -> Vec<String> {
    keys.iter().filter(|key| !failed.contains(key)).cloned().collect()
}
