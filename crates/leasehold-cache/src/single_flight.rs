//! Single flight: of the tasks of a process that miss the same key, one loads and all get the
//! result.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};

use crate::{Error, ErrorKind, Result};

/// The result of a flight.
#[derive(Clone, Debug)]
pub(crate) struct Flown<V> {
    /// A value, or that it does not exist.
    pub(crate) outcome: Result<Option<V>>,
    /// Callers that joined before this time, by the steady clock, may use the outcome: it may lack
    /// later writes. Or one of the two constants below.
    pub(crate) for_before_ns: u64,
}

/// Every caller that joined may use it.
pub(crate) const ALL: u64 = u64::MAX;
/// Only the leader may use it, and callers that accept an older value.
pub(crate) const NOBODY: u64 = 0;

type Landing<V> = watch::Receiver<Option<Flown<V>>>;
type ByKey<T> = HashMap<Box<str>, T, foldhash::fast::RandomState>;

/// The current flights, by key.
pub(crate) struct Flights<V>(Arc<Mutex<ByKey<Landing<V>>>>);

impl<V> Clone for Flights<V> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<V> Default for Flights<V> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

/// The role of a caller.
pub(crate) enum Part<V> {
    /// Loads, and reports by [`Lead::land`].
    Lead(Lead<V>, Follow<V>),
    /// Another task loads.
    Follow(Follow<V>),
}

/// A flight that this task leads. If it is dropped without landing, its followers receive an error.
pub(crate) struct Lead<V> {
    flights: Flights<V>,
    key: Box<str>,
    landing: watch::Sender<Option<Flown<V>>>,
}

/// A flight to wait for; another task may lead it.
pub(crate) struct Follow<V>(Landing<V>);

impl<V: Clone> Flights<V> {
    /// Joins the flight of `key`, or starts one.
    pub(crate) fn join(&self, key: &str) -> Part<V> {
        let mut flights = self.lock();
        if let Some(landing) = flights.get(key) {
            return Part::Follow(Follow(landing.clone()));
        }
        let (landing, receiver) = watch::channel(None);
        flights.insert(key.into(), receiver.clone());
        let lead = Lead { flights: self.clone(), key: key.into(), landing };
        Part::Lead(lead, Follow(receiver))
    }

    /// Records that the value has changed: later callers start a new flight.
    pub(crate) fn detach(&self, key: &str) {
        self.lock().remove(key);
    }
}

impl<V> Flights<V> {
    fn lock(&self) -> MutexGuard<'_, ByKey<Landing<V>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<V> Lead<V> {
    /// Sends the outcome to all followers.
    pub(crate) fn land(self, outcome: Result<Option<V>>, for_before_ns: u64) {
        self.close();
        self.landing.send_replace(Some(Flown { outcome, for_before_ns }));
    }

    /// Returns the key that is loaded.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// Later callers do not join this flight.
    pub(crate) fn close(&self) {
        let mut flights = self.flights.lock();
        let ours = |landing: &Landing<V>| landing.same_channel(&self.landing.subscribe());
        if flights.get(&self.key).is_some_and(ours) {
            flights.remove(&self.key);
        }
    }
}

impl<V> Drop for Lead<V> {
    fn drop(&mut self) {
        self.close();
    }
}

impl<V: Clone> Follow<V> {
    /// Waits for the result of the flight.
    pub(crate) async fn landed(mut self) -> Flown<V> {
        let flown = self.0.wait_for(Option::is_some).await.ok().and_then(|flown| flown.clone());
        flown.unwrap_or_else(|| Flown { outcome: Err(gone()), for_before_ns: ALL })
    }
}

fn gone() -> Error {
    Error::new(ErrorKind::Load, "the loader panicked, or its runtime has ended")
}

/// The tasks that wait until another process has filled a key, with their number.
#[derive(Debug, Default)]
pub(crate) struct Wakes(Mutex<ByKey<(usize, Arc<Notify>)>>);

/// The registration of a waiting task; removed when dropped.
#[derive(Debug)]
pub(crate) struct Wake<'a> {
    wakes: &'a Wakes,
    key: &'a str,
    notify: Arc<Notify>,
}

impl Wakes {
    /// Registers a waiting task. Call it before the request to Redis, so that no fill is missed.
    pub(crate) fn register<'a>(&'a self, key: &'a str) -> Wake<'a> {
        let mut wakes = self.lock();
        let (count, notify) = wakes.entry(key.into()).or_default();
        *count += 1;
        Wake { wakes: self, key, notify: notify.clone() }
    }

    /// Wakes the tasks of a key: it was filled, or its lease ended.
    pub(crate) fn wake(&self, key: &str) {
        if let Some((_, notify)) = self.lock().get(key) {
            notify.notify_waiters();
        }
    }

    /// Wakes all tasks: a message may have been missed.
    pub(crate) fn wake_all(&self) {
        for (_, notify) in self.lock().values() {
            notify.notify_waiters();
        }
    }

    fn lock(&self) -> MutexGuard<'_, ByKey<(usize, Arc<Notify>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake<'_> {
    /// Returns a future that ends at the next fill of the key after this call.
    pub(crate) fn next(&self) -> tokio::sync::futures::OwnedNotified {
        self.notify.clone().notified_owned()
    }
}

impl Drop for Wake<'_> {
    fn drop(&mut self) {
        let mut wakes = self.wakes.lock();
        if let Some((count, _)) = wakes.get_mut(self.key) {
            *count -= 1;
            if *count == 0 {
                wakes.remove(self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_leads_and_all_get_what_it_got() {
        let flights = Flights::<u32>::default();
        let Part::Lead(lead, own) = flights.join("k") else { panic!("no task flies yet") };
        let Part::Follow(follow) = flights.join("k") else { panic!("a task flies") };
        lead.land(Ok(Some(7)), ALL);
        assert_eq!(own.landed().await.outcome.unwrap(), Some(7));
        assert_eq!(follow.landed().await.outcome.unwrap(), Some(7));
        assert!(matches!(flights.join("k"), Part::Lead(..)), "it has landed");
    }

    #[tokio::test]
    async fn who_asks_after_a_change_does_not_get_what_was_loaded_before() {
        let flights = Flights::<u32>::default();
        let Part::Lead(old, _) = flights.join("k") else { panic!("no task flies yet") };
        flights.detach("k");
        let Part::Lead(new, own) = flights.join("k") else { panic!("the old one is detached") };
        old.land(Ok(Some(1)), ALL);
        assert!(matches!(flights.join("k"), Part::Follow(_)), "the old one removed the new one");
        new.land(Ok(Some(2)), ALL);
        assert_eq!(own.landed().await.outcome.unwrap(), Some(2));
    }

    #[tokio::test]
    async fn a_flight_that_is_dropped_is_an_error_and_the_next_begins_anew() {
        let flights = Flights::<u32>::default();
        let Part::Lead(lead, own) = flights.join("k") else { panic!("no task flies yet") };
        drop(lead);
        assert_eq!(own.landed().await.outcome.unwrap_err().kind(), ErrorKind::Load);
        assert!(matches!(flights.join("k"), Part::Lead(..)));
    }

    #[test]
    fn wakes_leave_nothing_behind() {
        let wakes = Wakes::default();
        let (one, two) = (wakes.register("k"), wakes.register("k"));
        drop(one);
        assert_eq!(wakes.lock().len(), 1);
        drop(two);
        assert_eq!(wakes.lock().len(), 0);
    }
}
