//! Handles the messages of other processes, and the gaps in the subscription.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once};

use leasehold_cache_redis::invalidation::{LagHolds, Listener, RecentWrites, listen};
use leasehold_cache_redis::{Consumer, ConsumerKind, Health, Server};
use leasehold_core::clock::Clock;
use leasehold_core::proto::Now;
use redis::RedisError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;

use crate::local_entries::Local;
use crate::owed::Owed;
use crate::remote::Remote;
use crate::settings::{Mode, Settings};
use crate::single_flight::{Flights, Wakes};
use crate::state::State;
use crate::stats::Counters;
use crate::subscription::Subscription;

/// Opens a cache, and starts to receive messages.
pub(crate) fn start<V: Serialize + DeserializeOwned + Clone + Send + Sync + 'static>(
    mut settings: Settings,
    server: Server,
    clock: Clock,
) -> Arc<State<V>> {
    settings.gate = settings.gate.for_one_cache();
    let counters = Arc::new(Counters::new(&settings.name));
    let consumer = Arc::new(Consumer::new(ConsumerKind::Cache, settings.name.as_str(), &server));
    let health = Arc::new(Health::new(Arc::clone(&consumer)));
    let stem = format!("{}:{}", settings.prefix, settings.name);
    let remote = Remote::new(
        server.clone(),
        stem.clone(),
        settings.redis_limit,
        clock.clone(),
        counters.clone(),
        health.clone(),
    );
    let kept = settings.mode == Mode::Eventual && settings.local_size > 0;
    let state = Arc::new(State {
        remote,
        local: kept.then(|| Local::new(settings.local_size)),
        flights: Flights::default(),
        wakes: Wakes::default(),
        subscription: Subscription::new(health),
        connects: AtomicU64::new(0),
        loads: Semaphore::new(settings.max_loads),
        recent: RecentWrites::default(),
        owed: Owed::default(),
        lags: LagHolds::default(),
        counters,
        consumer,
        warned: Once::new(),
        lost: Once::new(),
        clock: clock.clone(),
        server: server.clone(),
        settings,
    });
    tokio::spawn(listen(server, stem, clock, Arc::downgrade(&state)));
    state
}

impl<V: Serialize + DeserializeOwned + Clone + Send + Sync + 'static> Listener for State<V> {
    fn invalidated(&self, key: &str) {
        self.counters.invalidations.add();
        self.forget(key);
        // The process that loads may not fill any more, and so sends no message.
        self.wakes.wake(key);
    }

    fn filled(&self, key: &str) {
        self.wakes.wake(key);
    }

    fn subscribed(self: &Arc<Self>, is_subscribed: bool) {
        self.subscription.set(is_subscribed);
        if let Some(local) = &self.local {
            local.set_subscribed(is_subscribed, self.clock.now());
        }
        self.settings.gate.set_subscribed(is_subscribed, self.settings.write_hold, &self.clock);
        self.wakes.wake_all();
        if is_subscribed {
            self.connects.fetch_add(1, Ordering::SeqCst);
            self.reinvalidate_recent();
        }
    }

    fn cannot_listen(&self, error: Option<RedisError>) {
        self.subscription.cannot_begin(error.as_ref());
    }

    fn answered(&self, asked: Now) {
        self.recent.server_answered(asked);
    }
}
