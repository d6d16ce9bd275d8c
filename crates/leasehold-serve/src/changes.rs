//! What changed between two scans of a store.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use leasehold::{AttemptId, Permitted, State, Status};

use crate::history::{Event, What};
use crate::show;

/// Returns the events between two scans, with the names of their locks.
pub(crate) fn between(
    before: &[Arc<Status>],
    after: &[Arc<Status>],
    now_unix_ms: u64,
) -> Vec<(String, Event)> {
    let earlier: HashMap<&str, &Status> =
        before.iter().map(|status| (status.name.as_str(), &**status)).collect();
    let later: HashSet<&str> = after.iter().map(|status| status.name.as_str()).collect();
    let mut events = Vec::new();
    let mut add = |name: &str, new: Vec<Event>| {
        events.extend(new.into_iter().map(|event| (name.to_owned(), event)));
    };
    for status in after {
        let name = status.name.as_str();
        add(name, of(earlier.get(name).copied(), Some(status), now_unix_ms));
    }
    for status in before.iter().filter(|status| !later.contains(status.name.as_str())) {
        add(status.name.as_str(), of(Some(status), None, now_unix_ms));
    }
    events
}

/// Returns the events between two states of a lock or semaphore; `None` if it was not listed.
pub(crate) fn of(before: Option<&Status>, after: Option<&Status>, now_unix_ms: u64) -> Vec<Event> {
    match after.or(before).is_some_and(|status| status.permits.is_some()) {
        true => of_permits(before, after, now_unix_ms),
        false => event(before, after, now_unix_ms).into_iter().collect(),
    }
}

/// Returns the events of a semaphore: each permit that began or ended.
fn of_permits(before: Option<&Status>, after: Option<&Status>, now: u64) -> Vec<Event> {
    let (old, new) = (before.map_or(&[][..], show::permits), after.map_or(&[][..], show::permits));
    let is_in = |all: &[Permitted], one: &Permitted| {
        all.iter().any(|other| other.holder.attempt == one.holder.attempt)
    };
    let of = |what, one: &Permitted| {
        let mut event = Event::new(what, now);
        event.token = Some(one.token.get());
        event.slots = one.slots.clone();
        event
    };
    // A store lists the first hundred permits: with more of them, one may only have left the list.
    let is_whole = |status: Option<&Status>, listed: &[Permitted]| {
        let slots: usize = listed.iter().map(|one| one.slots.len()).sum();
        status.and_then(|status| status.permits.as_ref()).is_none_or(|p| p.held as usize <= slots)
    };
    let mut events = Vec::new();
    if is_whole(after, new) {
        events.extend(old.iter().filter(|one| !is_in(new, one)).map(|one| of(What::Freed, one)));
    }
    if is_whole(before, old) {
        for one in new.iter().filter(|one| !is_in(old, one)) {
            let mut event = of(What::Acquired, one);
            event.who = Some(format!("{}/{}", one.holder.host, one.holder.pid));
            let waited = since(before, one.holder.attempt);
            event.waited_ms = waited.map(|since| now.saturating_sub(since));
            events.push(event);
        }
    }
    let size = |status: Option<&Status>| {
        status.map(|s| (show::waiting(s), s.permits.as_ref().map(|p| (p.limit, p.held))))
    };
    if events.is_empty() && before.is_some() && after.is_some() && size(before) != size(after) {
        events.push(Event::new(What::QueueChanged, now));
    }
    events
}

fn event(before: Option<&Status>, after: Option<&Status>, now: u64) -> Option<Event> {
    let hold = |status: Option<&Status>| {
        let status = status.filter(|status| status.state != State::Free)?;
        Some((status.token, status.holder.as_ref().map(|holder| holder.attempt)))
    };
    let (old, new) = (hold(before), hold(after));
    let what = match (&old, &new) {
        (None, Some(_)) => What::Acquired,
        (Some(_), None) => What::Freed,
        // The readers of a phase have one token, and any of them may be shown as its holder.
        (Some((old, _)), Some((new, _))) if old.is_some() && new.is_some() && old != new => {
            What::HandedOff
        }
        (Some((None, old)), Some((None, new))) if old != new => What::HandedOff,
        _ => {
            let queue = |status: Option<&Status>| status.map(show::waiting);
            let readers = |status: Option<&Status>| status.map(|status| status.readers.len());
            let same = queue(before) == queue(after) && readers(before) == readers(after);
            let listed = before.is_some() && after.is_some();
            return (listed && !same).then(|| Event::new(What::QueueChanged, now));
        }
    };
    let mut event = Event::new(what, now);
    if let Some(before) = before.filter(|_| what != What::Acquired) {
        // Another token in a free lock means that others held it in between.
        let is_known =
            what == What::HandedOff || after.is_none_or(|after| after.token == before.token);
        event.held_ms = before.since_unix_ms.filter(|_| is_known).map(|since| {
            let end = after.and_then(|after| after.since_unix_ms).filter(|_| new.is_some());
            end.unwrap_or(now).saturating_sub(since)
        });
        event.token = before.token.map(|token| token.get());
    }
    if let Some(after) = after.filter(|_| what != What::Freed) {
        event.token = after.token.map(|token| token.get());
        if let Some(since) = after.since_unix_ms {
            event.at_unix_ms = since.min(now);
        }
        let holder = show::holders(after).first().copied();
        event.who = holder.map(|holder| format!("{}/{}", holder.host, holder.pid));
        let waited = holder.and_then(|holder| since(before, holder.attempt));
        event.waited_ms =
            waited.map(|since| after.since_unix_ms.unwrap_or(now).saturating_sub(since));
    }
    Some(event)
}

/// Returns since when an attempt waited.
fn since(before: Option<&Status>, attempt: AttemptId) -> Option<u64> {
    let waiters = before?.waiters.as_ref()?;
    let waiter = waiters.iter().find(|waiter| waiter.holder.attempt == attempt)?;
    Some(waiter.since_unix_ms)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use leasehold::{Client, Name};

    use super::*;

    async fn scan(client: &Client) -> Vec<Arc<Status>> {
        client.list("", 100).await.unwrap().into_iter().map(Arc::new).collect()
    }

    fn words(events: &[(String, Event)]) -> Vec<(&str, &str)> {
        events.iter().map(|(name, event)| (name.as_str(), event.what.word())).collect()
    }

    #[tokio::test]
    async fn acquiring_waiting_handing_off_and_releasing_are_seen() {
        let one = leasehold::connect("memory:changes").await.unwrap();
        let other = leasehold::connect("memory:changes").await.unwrap();
        let nothing = scan(&one).await;
        let guard = one.lock("a").acquire().await.unwrap();
        let held = scan(&one).await;
        let seen = between(&nothing, &held, 1);
        assert_eq!(words(&seen), [("a", "acquired")]);
        assert_eq!(seen[0].1.token, Some(guard.token().get()));

        let waiter = tokio::spawn(async move { other.lock("a").acquire().await });
        let mut queued = scan(&one).await;
        while show::waiting(&queued[0]) != Some(1) {
            tokio::time::sleep(Duration::from_millis(1)).await;
            queued = scan(&one).await;
        }
        assert_eq!(words(&between(&held, &queued, 2)), [("a", "queue")]);
        guard.release().await.unwrap();
        let guard = waiter.await.unwrap().unwrap();
        let handed = scan(&one).await;
        let seen = between(&queued, &handed, u64::MAX);
        assert_eq!(words(&seen), [("a", "handed_off")]);
        assert!(seen[0].1.waited_ms.is_some() && seen[0].1.held_ms.is_some());
        assert_eq!(between(&handed, &scan(&one).await, 3), []);
        guard.release().await.unwrap();
        assert_eq!(words(&between(&handed, &scan(&one).await, 4)), [("a", "freed")]);
        let mut missed = (*handed[0]).clone();
        missed.token = Some(leasehold::Token::MAX);
        let missed = between(&[Arc::new(missed)], &scan(&one).await, 5);
        assert_eq!((words(&missed)[0].1, missed[0].1.held_ms), ("freed", None));
        let never_held = Arc::new(Status::free(&Name::new("b").unwrap()));
        assert_eq!(between(&[], &[never_held], 5), []);
    }

    #[tokio::test]
    async fn each_permit_that_begins_or_ends_is_seen_with_its_slots() {
        let client = leasehold::connect("memory:").await.unwrap();
        let gpus = client.semaphore("gpu", 3);
        let nothing = scan(&client).await;
        let (one, two) = (gpus.acquire().await.unwrap(), gpus.acquire_many(2).await.unwrap());
        let held = scan(&client).await;
        let seen = between(&nothing, &held, 1);
        assert_eq!(words(&seen), [("gpu", "acquired"), ("gpu", "acquired")]);
        assert_eq!((&seen[0].1.slots[..], &seen[1].1.slots[..]), (&[0][..], &[1, 2][..]));
        assert_eq!(seen[1].1.token, Some(two.token().get()));
        let waits = gpus.clone();
        let waiter = tokio::spawn(async move { waits.acquire().await });
        let mut queued = scan(&client).await;
        while show::waiting(&queued[0]) != Some(1) {
            tokio::time::sleep(Duration::from_millis(1)).await;
            queued = scan(&client).await;
        }
        assert_eq!(words(&between(&held, &queued, 2)), [("gpu", "queue")]);
        one.release().await.unwrap();
        let three = waiter.await.unwrap().unwrap();
        let seen = between(&queued, &scan(&client).await, u64::MAX);
        assert_eq!(words(&seen), [("gpu", "freed"), ("gpu", "acquired")]);
        assert!(seen[1].1.waited_ms.is_some() && seen[1].1.slots == [0]);
        // A list that is cut at its length does not show what has ended.
        let mut cut = (*held[0]).clone();
        cut.permits.as_mut().unwrap().holders.pop();
        assert_eq!(words(&between(&held, &[Arc::new(cut)], 3)), []);
        drop((two, three));
    }
}
