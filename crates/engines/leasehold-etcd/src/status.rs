//! The status of a lock for people: its holder and its waiters.

use std::time::Duration;

use etcd_client::{GetOptions, GetResponse, KeyValue, SortOrder, SortTarget};
use futures_util::StreamExt;
use leasehold_core::backend::{AcquireRequest, Origin};
use leasehold_core::{
    AttemptId, Error, ErrorKind, Holder, Name, Result, State, Status, Token, Waiter,
};
use serde::{Deserialize, Serialize};

use crate::engine::{Engine, LIMIT};

/// The number of waiters that are named; the others are only counted.
const NAMED: usize = 100;
/// The number of keys in one answer.
const PAGE: i64 = 500;
/// The number of locks whose leases are read at once.
const AT_ONCE: usize = 32;

/// The value of a key, stored as JSON.
#[derive(Debug, Deserialize, Serialize)]
struct StoredHolder {
    host: String,
    pid: u32,
    /// When the attempt asked for the lock, by its client's clock, in milliseconds since the Unix
    /// epoch.
    since: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metadata: Option<String>,
}

/// Returns the value of an attempt's key.
pub(crate) fn write(request: &AcquireRequest, unix_ms: u64) -> Vec<u8> {
    let holder = request.origin.holder(request.attempt);
    let Holder { host, pid, metadata, .. } = holder;
    let stored = StoredHolder { host, pid, since: unix_ms, metadata };
    serde_json::to_vec(&stored).unwrap_or_default()
}

/// A holder or waiter.
struct Entry {
    created: i64,
    lease: i64,
    holder: Option<(Holder, u64)>,
}

impl Entry {
    fn read(kv: &KeyValue, attempt: AttemptId) -> Self {
        let holder = serde_json::from_slice(kv.value()).ok().map(|stored: StoredHolder| {
            let StoredHolder { host, pid, since, metadata } = stored;
            (Origin::new(host, pid, metadata).holder(attempt), since)
        });
        Self { created: kv.create_revision(), lease: kv.lease(), holder }
    }
}

/// Returns the status of one lock.
pub(crate) async fn status(engine: &Engine, name: &Name) -> Result<Status> {
    let (first, end) = engine.keys.lock(name);
    let limit = 1 + NAMED as i64;
    let options = GetOptions::new()
        .with_range(end)
        .with_sort(SortTarget::Create, SortOrder::Ascend)
        .with_limit(limit);
    let found = get(engine, first, options).await?;
    let entries = found.kvs().iter().map(|kv| {
        let (_, attempt) = engine.keys.read(kv.key()).ok_or_else(|| foreign(kv.key()))?;
        Ok(Entry::read(kv, attempt))
    });
    let entries = entries.collect::<Result<Vec<Entry>>>()?;
    let all = usize::try_from(found.count()).unwrap_or(entries.len());
    Ok(describe(engine, name.clone(), entries, all).await)
}

/// Returns key and create revision of a lock's holder.
pub(crate) async fn first(engine: &Engine, name: &Name) -> Result<Option<(Vec<u8>, i64)>> {
    let (first, end) = engine.keys.lock(name);
    let options = GetOptions::new()
        .with_range(end)
        .with_sort(SortTarget::Create, SortOrder::Ascend)
        .with_keys_only()
        .with_limit(1);
    let found = get(engine, first, options).await?;
    let Some(kv) = found.kvs().first() else { return Ok(None) };
    engine.keys.read(kv.key()).ok_or_else(|| foreign(kv.key()))?;
    Ok(Some((kv.key().to_vec(), kv.create_revision())))
}

/// Returns the error for a key in a lock's queue that this engine did not write. It blocks the
/// queue, and no client deletes it.
fn foreign(key: &[u8]) -> Error {
    let key = String::from_utf8_lossy(key);
    let what = format!(
        "the key {key:?} is in the queue of the lock but was not written by leasehold; delete it, or choose \
         another prefix"
    );
    Error::new(ErrorKind::Foreign, what)
}

/// Lists the locks whose names start with `names`, in order, at most `limit`.
pub(crate) async fn list(engine: &Engine, names: &str, limit: usize) -> Result<Vec<Status>> {
    let (mut from, end) = engine.keys.locks(names);
    let mut locks: Vec<(Name, Vec<Entry>)> = Vec::new();
    loop {
        let options = GetOptions::new().with_range(end.clone()).with_limit(PAGE);
        let found = get(engine, from, options).await?;
        for kv in found.kvs() {
            // Keys of other programs below our prefix are not locks.
            let Some((name, attempt)) = engine.keys.read(kv.key()) else { continue };
            let entry = Entry::read(kv, attempt);
            match locks.last_mut() {
                Some((last, entries)) if *last == name => entries.push(entry),
                _ => locks.push((name, vec![entry])),
            }
        }
        match found.kvs().last() {
            // The keys of a lock are contiguous: if one more lock is found, those before it are complete.
            Some(last) if found.more() && locks.len() <= limit => {
                from = last.key().to_vec();
                from.push(0);
            }
            _ => break,
        }
    }
    locks.truncate(limit);
    let each = locks.into_iter().map(|(name, mut entries)| async move {
        entries.sort_by_key(|entry| entry.created);
        let all = entries.len();
        entries.truncate(1 + NAMED);
        describe(engine, name, entries, all).await
    });
    Ok(futures_util::stream::iter(each).buffered(AT_ONCE).collect().await)
}

async fn describe(engine: &Engine, name: Name, entries: Vec<Entry>, all: usize) -> Status {
    let more_waiters = all.saturating_sub(entries.len());
    let mut entries = entries.into_iter();
    let mut status = Status::free(&name);
    status.more_waiters = more_waiters;
    if let Some(holder) = entries.next() {
        status.state = State::Held;
        status.token = u64::try_from(holder.created).ok().and_then(Token::new);
        status.remaining = remaining(engine, holder.lease).await;
        match holder.holder {
            Some((named, since)) => {
                (status.holder, status.since_unix_ms) = (Some(named), Some(since));
            }
            None => status.note = Some("the holder's key does not describe its holder".to_owned()),
        }
    }
    let waiter = |entry: Entry| {
        let (holder, since_unix_ms) = entry.holder?;
        Some(Waiter::new(holder, since_unix_ms))
    };
    status.waiters = Some(entries.filter_map(waiter).collect());
    status
}

/// Returns the remaining time of a lease; `None` if it is unknown.
async fn remaining(engine: &Engine, lease: i64) -> Option<Duration> {
    let request = |client: etcd_client::Client| async move {
        client.lease_client().time_to_live(lease, None).await
    };
    let left = engine.members.call(LIMIT, request).await.ok()?.value.ttl();
    Some(Duration::from_secs(u64::try_from(left).unwrap_or(0)))
}

async fn get(engine: &Engine, first: Vec<u8>, options: GetOptions) -> Result<GetResponse> {
    let request = |client: etcd_client::Client| {
        let (first, options) = (first.clone(), options.clone());
        async move { client.kv_client().get(first, Some(options)).await }
    };
    Ok(engine.members.call(LIMIT, request).await?.value)
}
