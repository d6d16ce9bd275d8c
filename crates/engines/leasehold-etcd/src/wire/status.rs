//! The status of a lock in the format of other libraries, and its forced release.

use leasehold_core::{Error, ErrorKind, Forced, Name, Result, State, Status, Token, Waiter};
use leasehold_etcd_api::{GetOptions, KeyValue, SortOrder, SortTarget};

use crate::engine::{Engine, LIMIT};
use crate::entry::read_named;
use crate::status::{get, remaining};
use crate::transaction::{delete, token};

/// The number of waiters that are named; the others are only counted.
const NAMED: usize = 100;
/// The number of keys that are read.
const READ: i64 = 500;

/// Reads the first keys of the queue, and how many it has.
async fn read(engine: &Engine, name: &Name, most: i64) -> Result<(Vec<KeyValue>, usize)> {
    let (first, end) = engine.keys.lock(name);
    let options = GetOptions::new()
        .with_range(end)
        .with_sort(SortTarget::Create, SortOrder::Ascend)
        .with_limit(most);
    let found = get(engine, first, options).await?;
    let count = usize::try_from(found.count).unwrap_or(0);
    Ok((found.kvs, count))
}

/// Returns the status of one name.
pub(super) async fn status(engine: &Engine, name: &Name) -> Result<Status> {
    let (queue, count) = read(engine, name, READ).await?;
    let mut status = Status::free(name);
    status.waiters = Some(Vec::new());
    let Some((first, waiting)) = queue.split_first() else { return Ok(status) };
    status.state = State::Held;
    status.token = token(first.create_revision).ok();
    status.remaining = remaining(engine, first.lease).await;
    if let Some((holder, since)) = read_named(&first.value) {
        (status.holder, status.since_unix_ms) = (Some(holder), Some(since));
    }
    status.note = note(engine, name, &queue);
    let named = waiting.iter().filter_map(|kv| read_named(&kv.value)).take(NAMED);
    let waiters: Vec<_> = named.map(|(holder, since)| Waiter::new(holder, since)).collect();
    // Clients of other libraries wait too, but their keys do not name them.
    status.more_waiters = count.saturating_sub(1 + waiters.len());
    status.waiters = Some(waiters);
    Ok(status)
}

/// Describes what is unusual about a queue. A key without a lease comes first: it blocks the lock until it is deleted.
fn note(engine: &Engine, name: &Name, queue: &[KeyValue]) -> Option<String> {
    let shown = |kv: &KeyValue| String::from_utf8_lossy(&kv.key).into_owned();
    if let Some(stray) = queue.iter().find(|kv| kv.lease == 0) {
        let key = shown(stray);
        return Some(format!(
            "the key {key:?} has no lease, so the lock is not free before it is deleted; if no client uses that key, \
             delete it with etcdctl del"
        ));
    }
    let first = queue.first()?;
    if is_nested(engine, name, first) {
        let key = shown(first);
        return Some(format!(
            "the lock waits for the key {key:?} of a lock whose name begins with this name and a slash"
        ));
    }
    let (end, shown) = ("", shown(first));
    read_named(&first.value)
        .is_none()
        .then(|| format!("a client of another library holds it{end}: {shown:?}"))
}

/// Returns true if the key belongs to a lock with a longer name.
fn is_nested(engine: &Engine, name: &Name, kv: &KeyValue) -> bool {
    let (first, _) = engine.keys.lock(name);
    kv.key.strip_prefix(&*first).is_some_and(|rest| rest.contains(&b'/'))
}

/// Deletes the first key of the queue if this is its token, whichever library wrote it.
pub(super) async fn force_release(engine: &Engine, name: &Name, wanted: Token) -> Result<Forced> {
    loop {
        let (queue, _) = read(engine, name, 1).await?;
        let Some(first) = queue.first() else { return Ok(Forced::NotHeld) };
        let current = token(first.create_revision)?;
        if current != wanted {
            return Ok(Forced::Other(current));
        }
        if is_nested(engine, name, first) {
            let key = String::from_utf8_lossy(&first.key);
            return Err(Error::new(
                ErrorKind::Foreign,
                format!(
                    "the key {key:?} is that of a lock with a longer name, for which this one waits; name that lock"
                ),
            ));
        }
        let deleted = engine.txn_called(LIMIT, delete(&first.key, current.get())).await?;
        if deleted.value.succeeded || deleted.again {
            return Ok(Forced::Ended);
        }
    }
}
