//! Saves the rows of one share of the keys, one batch at a time.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::{Shared, Store, StoreError};
use crate::{BoxError, Error, ErrorKind, Result};

/// How many rejected rows of a batch are searched for. After that the rest of the batch fails, and
/// may be tried again.
const MOST_WRONG: usize = 16;

/// The most bytes of keys and rows in one statement, unless it is one row: databases refuse much
/// larger statements (MySQL from 16 MB, by default).
const MOST_BYTES: usize = 1 << 20;

/// Rows that a caller waits for.
pub(super) struct Call<R> {
    pub(super) rows: Vec<(String, R)>,
    pub(super) answer: oneshot::Sender<Result<()>>,
}

/// The keys that were not saved, and the reason.
#[derive(Default)]
struct Failed {
    /// The database rejects these rows.
    wrong: Keys,
    /// The database may accept these rows later.
    away: Keys,
}

#[derive(Default)]
struct Keys {
    keys: HashSet<String>,
    /// The error of the first of them.
    error: Option<Error>,
}

/// Runs until all senders are dropped.
pub(super) async fn work<S: Store>(
    shared: Arc<Shared>,
    store: Arc<S>,
    mut calls: mpsc::Receiver<Call<S::Row>>,
) {
    let mut marking: Option<JoinHandle<()>> = None;
    while let Some(first) = calls.recv().await {
        // All that has come while the last batch was saved.
        let mut count = first.rows.len();
        let mut together = vec![first];
        while count < shared.batch {
            let Ok(next) = calls.try_recv() else { break };
            count += next.rows.len();
            together.push(next);
        }
        let (failed, saved) = save(&shared, &*store, &together).await;
        for call in together {
            // That all but some are saved is said only where it is so.
            let of = |failed: &Keys| failed.of(call.rows.iter().map(|(key, _)| key.as_str()));
            let error = of(&failed.away).or_else(|| of(&failed.wrong));
            // A caller that is gone needs no answer.
            let _ = call.answer.send(error.map_or(Ok(()), Err));
        }
        // One at a time, so that a slow Redis holds no more than one batch of them.
        if let Some(marking) = marking.take() {
            let _ = marking.await;
        }
        let marks = shared.marks.clone();
        marking = Some(tokio::spawn(async move { marks.set(saved).await }));
    }
}

/// Saves the rows that are not saved yet. Returns the keys that failed, and the keys that were
/// saved now.
async fn save<S: Store>(
    shared: &Shared,
    store: &S,
    calls: &[Call<S::Row>],
) -> (Failed, Vec<String>) {
    let all = calls.iter().flat_map(|call| &call.rows);
    let mut rows: Vec<(&str, &S::Row)> = all.map(|(key, row)| (key.as_str(), row)).collect();
    // In one order everywhere, so that no two batches wait for each other's rows. The first of a key
    // stays the first.
    rows.sort_by_key(|(key, _)| *key);
    let handed = rows.len();
    rows.dedup_by_key(|(key, _)| *key);
    rows.retain(|(key, _)| shared.local.get(*key).is_none());
    add(&shared.counters.local, handed - rows.len());
    let keys: Vec<&str> = rows.iter().map(|(key, _)| *key).collect();
    let mut marked = shared.marks.read(&keys).await.into_iter();
    let before = rows.len();
    rows.retain(|(key, _)| {
        let marked = marked.next().unwrap_or(false);
        if marked {
            shared.local.insert((*key).into(), ());
        }
        !marked
    });
    add(&shared.counters.marked, before - rows.len());
    let mut failed = Failed::default();
    let mut rest = &rows[..];
    while !rest.is_empty() {
        let (batch, after) = rest.split_at(first_batch::<S>(rest, shared.batch));
        insert(shared, store, batch, &mut failed).await;
        rest = after;
    }
    let saved: Vec<String> =
        rows.iter().filter(|(key, _)| !failed.has(key)).map(|(key, _)| (*key).to_owned()).collect();
    // After the commit, and never before: what is known here is never asked for again.
    for key in &saved {
        shared.local.insert(key.as_str().into(), ());
    }
    (failed, saved)
}

/// Returns how many of these rows go into one statement, at least one.
fn first_batch<S: Store>(rows: &[(&str, &S::Row)], most: usize) -> usize {
    let mut left = MOST_BYTES;
    let fits = rows.iter().take(most).take_while(|(key, row)| {
        let rest = left.checked_sub(key.len().saturating_add(S::size(row)));
        left = rest.unwrap_or(0);
        rest.is_some()
    });
    fits.count().max(1)
}

/// Saves a batch; if the database rejects a row, saves all others.
async fn insert<S: Store>(
    shared: &Shared,
    store: &S,
    batch: &[(&str, &S::Row)],
    failed: &mut Failed,
) {
    let mut parts = vec![batch];
    let mut wrong = 0;
    while let Some(part) = parts.pop() {
        if wrong == MOST_WRONG {
            let said = failed.wrong.error.as_ref().map(ToString::to_string).unwrap_or_default();
            let error = format!("stopped after {MOST_WRONG} rejected rows; first: {said}");
            failed.add(shared, part, ErrorKind::Unavailable, error.into());
            continue;
        }
        add(&shared.counters.attempts, part.len());
        add(&shared.counters.batches, 1);
        let (kind, error) = match store.insert(part).await {
            Ok(()) => continue,
            Err(StoreError::Row(_)) if part.len() > 1 => {
                let (one, other) = part.split_at(part.len() / 2);
                parts.extend([other, one]);
                continue;
            }
            Err(StoreError::Row(error)) => {
                wrong += 1;
                (ErrorKind::Invalid, error)
            }
            Err(StoreError::Unavailable(error)) => (ErrorKind::Unavailable, error),
        };
        failed.add(shared, part, kind, error);
    }
}

impl Failed {
    fn has(&self, key: &str) -> bool {
        self.wrong.keys.contains(key) || self.away.keys.contains(key)
    }

    fn add<R>(&mut self, shared: &Shared, part: &[(&str, &R)], kind: ErrorKind, error: BoxError) {
        add(&shared.counters.failed, part.len());
        let failed = if kind == ErrorKind::Invalid { &mut self.wrong } else { &mut self.away };
        failed.keys.extend(part.iter().map(|(key, _)| (*key).to_owned()));
        failed.error.get_or_insert_with(|| not_saved(kind, part[0].0, error));
    }
}

/// Returns the error of a batch: its first key, and the error of the store.
fn not_saved(kind: ErrorKind, key: &str, error: BoxError) -> Error {
    Error::new(kind, format!("rows were not saved, first {key:?}: {error}")).with_source(error)
}

impl Keys {
    /// Returns the error if it concerns one of these keys.
    fn of<'a>(&self, mut keys: impl Iterator<Item = &'a str>) -> Option<Error> {
        self.error.clone().filter(|_| keys.any(|key| self.keys.contains(key)))
    }
}

fn add(counter: &AtomicU64, rows: usize) {
    counter.fetch_add(rows as u64, Ordering::Relaxed);
}
