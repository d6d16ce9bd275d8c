//! What happened to each lock since the server started.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

/// The events that are kept for each lock.
const FOR_EACH: usize = 200;

/// The locks whose events are kept; of more, those that changed longest ago are forgotten.
const LOCKS: usize = 10_000;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum What {
    Acquired,
    HandedOff,
    Freed,
    Lost,
    Expired,
    Forced,
    QueueChanged,
}

/// One event of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) at_unix_ms: u64,
    pub(crate) what: What,
    pub(crate) token: Option<u64>,
    /// The slots of the permit, for a semaphore.
    pub(crate) slots: Vec<u32>,
    /// The holder afterwards; for a forced release, the caller.
    pub(crate) who: Option<String>,
    /// How long the earlier holder held it.
    pub(crate) held_ms: Option<u64>,
    /// How long the new holder had waited.
    pub(crate) waited_ms: Option<u64>,
    /// The reason that a caller gave.
    pub(crate) reason: Option<String>,
}

/// The events of all locks of all stores.
#[derive(Debug, Default)]
pub(crate) struct History(Mutex<HashMap<(String, String), VecDeque<Event>>>);

impl What {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Acquired => "acquired",
            Self::HandedOff => "handed_off",
            Self::Freed => "freed",
            Self::Lost => "lost",
            Self::Expired => "expired",
            Self::Forced => "forced",
            Self::QueueChanged => "queue",
        }
    }
}

impl Event {
    pub(crate) fn new(what: What, at_unix_ms: u64) -> Self {
        Self {
            at_unix_ms,
            what,
            token: None,
            slots: Vec::new(),
            who: None,
            held_ms: None,
            waited_ms: None,
            reason: None,
        }
    }

    pub(crate) fn json(&self, store: &str, name: &str) -> Value {
        json!({
            "store": store,
            "name": name,
            "what": self.what.word(),
            "at_unix_ms": self.at_unix_ms,
            "token": self.token,
            "slots": Some(&self.slots).filter(|slots| !slots.is_empty()),
            "who": self.who,
            "held_ms": self.held_ms,
            "waited_ms": self.waited_ms,
            "reason": self.reason,
        })
    }
}

impl History {
    /// Adds an event.
    pub(crate) fn add(&self, store: &str, name: &str, event: Event) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (store.to_owned(), name.to_owned());
        if all.len() >= LOCKS && !all.contains_key(&key) {
            let last = |events: &VecDeque<Event>| events.back().map(|event| event.at_unix_ms);
            let oldest = all.iter().min_by_key(|(_, events)| last(events));
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                all.remove(&oldest);
            }
        }
        let events = all.entry(key).or_default();
        if events.len() == FOR_EACH {
            events.pop_front();
        }
        events.push_back(event);
    }

    /// Returns the events of a lock, oldest first.
    pub(crate) fn of(&self, store: &str, name: &str) -> Vec<Event> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (store.to_owned(), name.to_owned());
        all.get(&key).map(|events| events.iter().cloned().collect()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_keeps_the_last_events_and_the_locks_that_changed_last() {
        let history = History::default();
        for at in 0..FOR_EACH as u64 + 5 {
            history.add("s", "a", Event::new(What::Acquired, at));
        }
        let events = history.of("s", "a");
        assert_eq!((events.len(), events[0].at_unix_ms), (FOR_EACH, 5));
        for n in 0..LOCKS as u64 {
            history.add("s", &format!("b{n}"), Event::new(What::Freed, 1000 + n));
        }
        assert!(history.of("s", "a").is_empty());
        assert_eq!(history.of("s", "b0").len(), 1);
        assert!(history.of("other", "b0").is_empty());
    }
}
