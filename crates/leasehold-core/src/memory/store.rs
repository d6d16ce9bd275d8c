//! The store of the memory backend: a map that several clients may share.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use leasehold_proto::{AttemptId, ClientId, Now};

use super::entry::Entry;
use crate::backend::{ChangeSource, Changes, Event, EventSink, Mode, SweptTable, ValueSwap};
use crate::clock::Clock;
use crate::{Name, Result, StoreUrl};

/// How long a free lock is remembered, so that `status` can show its last holder.
const RETENTION: Duration = Duration::from_secs(3600);

/// A set of locks in the memory of this process. It is cheap to clone, and clones are the same
/// store.
#[derive(Clone, Debug)]
pub struct MemoryStore(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    clock: Clock,
    place: String,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) records: BTreeMap<Name, Entry>,
    sinks: HashMap<ClientId, EventSink>,
    /// Those who observe a lock.
    watches: SweptTable<Name, ChangeSource>,
    /// The number of records at which idle records are removed.
    sweep_at: usize,
}

impl MemoryStore {
    /// Creates an empty store with the system clock.
    pub fn new() -> Self {
        Self::with_clock(Clock::system())
    }

    /// Creates an empty store whose leases end by this clock.
    pub fn with_clock(clock: Clock) -> Self {
        Self::at("memory:".to_owned(), clock)
    }

    /// Returns the store that a URL names. `memory:` is a new store. `memory:NAME` is a store that
    /// the whole process shares under that name while a client is connected to it.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Invalid`] for an option, since there are none.
    pub fn from_url(url: &StoreUrl) -> Result<Self> {
        static NAMED: OnceLock<Mutex<HashMap<String, Weak<Inner>>>> = OnceLock::new();
        url.finish(&[])?;
        let name = url.path()?;
        if name.is_empty() {
            return Ok(Self::new());
        }
        let mut named =
            NAMED.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        named.retain(|_, store| store.strong_count() > 0);
        if let Some(store) = named.get(&name).and_then(Weak::upgrade) {
            return Ok(Self(store));
        }
        let store = Self::at(format!("memory:{name}"), Clock::system());
        named.insert(name, Arc::downgrade(&store.0));
        Ok(store)
    }

    fn at(place: String, clock: Clock) -> Self {
        Self(Arc::new(Inner { clock, place, state: Mutex::default() }))
    }

    pub(super) fn place(&self) -> &str {
        &self.0.place
    }

    pub(super) fn now(&self) -> Now {
        self.0.clock.now()
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl State {
    pub(super) fn attach(&mut self, client: ClientId, sink: EventSink) {
        self.sinks.insert(client, sink);
    }

    pub(super) fn detach(&mut self, client: ClientId) {
        self.sinks.remove(&client);
    }

    /// Runs one step on one record, with a way to push to its clients. A record that does not exist is
    /// created for requests of this mode.
    pub(super) fn with_record<T>(
        &mut self,
        now: Now,
        (name, mode): (&Name, Mode),
        step: impl FnOnce(&mut Entry, &dyn Fn(AttemptId, Event) -> bool) -> T,
    ) -> T {
        self.sweep(now);
        let sinks = &self.sinks;
        let push = |attempt: AttemptId, event: Event| {
            sinks.get(&attempt.client()).is_some_and(|sink| sink.send(event))
        };
        let done = match self.records.get_mut(name) {
            Some(entry) if !entry.is_expired_latch(now) => step(entry, &push),
            _ => {
                let mut entry = Entry::new(mode);
                let done = step(&mut entry, &push);
                self.records.insert(name.clone(), entry);
                done
            }
        };
        if let Some(watched) = self.watches.get(name) {
            watched.mark();
        }
        done
    }

    /// Replaces the value of a name, and marks the change. A latch that has expired leaves the name to others.
    pub(super) fn swap_value(&mut self, now: Now, swap: &ValueSwap) -> Result<bool> {
        self.sweep(now);
        let entry = self.records.entry(swap.name.clone()).or_insert(Entry::Latch(None));
        let swapped = entry.swap_value(now, swap)?;
        if let Some(watched) = self.watches.get(&swap.name).filter(|_| swapped) {
            watched.mark();
        }
        Ok(swapped)
    }

    /// Returns the records of names with this prefix, in order. It reads no other, but for the one behind them.
    pub(super) fn starting_with<'a>(
        &'a self,
        prefix: &'a str,
    ) -> impl Iterator<Item = (&'a Name, &'a Entry)> {
        self.records
            .range::<str, _>((Bound::Included(prefix), Bound::Unbounded))
            .take_while(move |(name, _)| name.as_str().starts_with(prefix))
    }

    /// Returns what each later step on this lock marks.
    pub(super) fn watch(&mut self, name: &Name) -> Changes {
        let watched =
            self.watches.entry_or(name.clone(), ChangeSource::new, ChangeSource::is_observed);
        watched.observe()
    }

    fn sweep(&mut self, now: Now) {
        if self.records.len() >= self.sweep_at.max(1024) {
            self.records.retain(|_, record| !record.is_idle(now, RETENTION));
            self.sweep_at = self.records.len() * 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use leasehold_proto::AttemptId;

    use super::*;
    use crate::backend::{AcquireRequest, Answer, Origin, ReleaseRequest};
    use crate::clock::ManualClock;

    /// Acquires and releases a lock; returns its token.
    fn used(store: &MemoryStore, name: &str, number: u32) -> u64 {
        let name = Name::new(name).unwrap();
        let attempt = AttemptId::new(ClientId::from_bits(1), number, 0);
        let origin = Arc::new(Origin::new("host", 1, None));
        let (mode, ttl) = (Mode::Exclusive, Duration::from_secs(30));
        let (wait, fair, tokens) = (false, true, 1);
        let (request_name, demand) = (name.clone(), None);
        let request = AcquireRequest {
            name: request_name,
            attempt,
            mode,
            demand,
            ttl,
            wait,
            fair,
            tokens,
            origin,
            also: false,
        };
        store.state().with_record(store.now(), (&name.clone(), mode), |record, reach| {
            let answer = record.acquire(store.now(), &request, reach).unwrap();
            let Answer::Granted(grant) = answer else { panic!("{answer:?}") };
            let base = Some(grant.tokens.base());
            let release = ReleaseRequest::new(name, attempt).with_base(base).with_last(base);
            record.release(store.now(), &release, reach).unwrap();
            grant.tokens.base().get()
        })
    }

    #[test]
    fn a_prefix_selects_its_names_in_order_wherever_they_are() {
        let store = MemoryStore::new();
        let names = ["a", "b", "b/1", "b/2", "b0", "c", "é", "éa"];
        for (number, name) in (0..).zip(names) {
            used(&store, name, number);
        }
        let state = store.state();
        for prefix in ["", "a", "b", "b/", "b/2", "b/3", "c", "d", "é", "z", "~"] {
            let found: Vec<&str> =
                state.starting_with(prefix).map(|(name, _)| name.as_str()).collect();
            let expected: Vec<&str> =
                names.into_iter().filter(|name| name.starts_with(prefix)).collect();
            assert_eq!(found, expected, "{prefix:?}");
        }
    }

    #[test]
    fn tokens_grow_over_the_sweep_though_the_clock_was_set_back() {
        let hand = ManualClock::new();
        hand.step_wall(7200);
        let store = MemoryStore::with_clock(hand.clock());
        let first = used(&store, "a", 0);
        hand.step_wall(-7200);
        hand.advance(RETENTION);
        for number in 1..3000 {
            used(&store, &format!("other {number}"), number);
        }
        assert!(used(&store, "a", 3000) > first, "tokens went back");
        hand.advance(2 * RETENTION);
        for number in 3001..10_000 {
            used(&store, &format!("another {number}"), number);
        }
        let kept = store.state().records.contains_key(&Name::new("a").unwrap());
        assert!(!kept, "its tokens are behind the clock");
    }
}
