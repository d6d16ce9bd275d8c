//! The status of a name for people: the holders and waiters of a lock or a semaphore, or a latch.

use std::time::Duration;

use futures_util::StreamExt;
use leasehold_core::{
    Error, ErrorKind, Name, Permits, Permitted, Result, State, Status, Token, Waiter,
};
use leasehold_etcd_api::{GetOptions, KeyValue, RangeResponse, SortOrder, SortTarget, Txn, TxnOp};

use crate::asking::used_with_wire;
use crate::engine::{Engine, LIMIT};
use crate::entry::Entry;
use crate::key::{Part, Range};
use crate::limit::StoredLimit;
use crate::record::Record;

/// The number of waiters that are named, of readers, and of permits; the others are only counted.
const NAMED: usize = 100;
/// The number of keys in one answer.
const PAGE: i64 = 500;
/// The number of names, or of permits, whose leases are read at once.
const AT_ONCE: usize = 32;

/// What is stored under a name.
#[derive(Debug, Default)]
pub(crate) struct Stored {
    /// The queue of a lock, in its order, perhaps not to its end.
    pub(crate) queue: Vec<Entry>,
    /// How many entries the queue has.
    pub(crate) queued: usize,
    pub(crate) record: Record,
    latch: Option<KeyValue>,
    /// Clients with the option `wire` have used the name lately.
    is_marked: bool,
    limit: Option<StoredLimit>,
    /// The permits and waiters of a semaphore, in the order of their places.
    pub(crate) permits: Vec<Entry>,
    /// Why a list could not read all of it.
    unreadable: Option<Error>,
}

impl Stored {
    fn add(&mut self, engine: &Engine, part: Part, kv: &KeyValue) -> Result<()> {
        match part {
            Part::Queued(..) => self.queue.extend(Entry::read(&engine.keys, kv)),
            Part::Permit(_) => self.permits.extend(Entry::read(&engine.keys, kv)),
            Part::Latch => self.latch = Some(kv.clone()),
            Part::Limit => self.limit = Some(StoredLimit::read(kv)?),
            Part::Phase => self.record = Record::read(Some(kv))?,
            Part::Wire => self.is_marked = true,
        }
        Ok(())
    }

    /// Returns true if nothing is stored but the token of earlier readers.
    fn is_free(&self) -> bool {
        let idle = self.queue.is_empty() && self.permits.is_empty();
        idle && self.latch.is_none() && self.limit.is_none() && self.unreadable.is_none()
    }

    /// Returns how many entries hold the lock, and their token. Beside another kind, only clients of revision c26c1cc are in
    /// the queue, and they wait.
    pub(crate) fn holders(&self) -> Option<(usize, Token)> {
        if self.limit.is_some() || self.latch.is_some() || !self.permits.is_empty() {
            return None;
        }
        let first = self.queue.first()?;
        if !first.reads() {
            let own = u64::try_from(first.created).ok().and_then(Token::new);
            return Some((1, self.record.token_of(first.created).or(own)?));
        }
        let token = self.record.token_of(first.created)?;
        let reads = |entry: &&Entry| entry.reads() && self.record.token_of(entry.created).is_some();
        Some((self.queue.iter().take_while(reads).count(), token))
    }
}

/// Reads what is stored under a name, as of one moment.
pub(crate) async fn read(engine: &Engine, name: &Name) -> Result<Stored> {
    let sorted = |(first, end): Range, limit: i64| {
        let options = GetOptions::new()
            .with_range(end)
            .with_sort(SortTarget::Create, SortOrder::Ascend)
            .with_limit(limit);
        TxnOp::get(first, Some(options))
    };
    let keys = &engine.keys;
    let gets = [
        sorted(keys.lock(name), PAGE),
        sorted(keys.other_kinds(name), 0),
        TxnOp::get(keys.phase(name), None),
    ];
    let answer = engine.txn(LIMIT, Txn::new().and_then(gets)).await?;
    let mut stored = Stored::default();
    for op in 0..answer.responses.len() {
        let Some(found) = answer.range(op) else { continue };
        if op == 0 {
            stored.queued = usize::try_from(found.count).unwrap_or(0);
        }
        for kv in &found.kvs {
            let (_, part) = keys.read(&kv.key).ok_or_else(|| foreign(&kv.key))?;
            stored.add(engine, part, kv)?;
        }
    }
    match stored.is_marked && stored.is_free() {
        true => Err(used_with_wire(name)),
        false => Ok(stored),
    }
}

/// Returns the status of one name.
pub(crate) async fn status(engine: &Engine, name: &Name) -> Result<Status> {
    let stored = read(engine, name).await?;
    Ok(describe(engine, name.clone(), stored).await)
}

/// Returns the error for a key below a name that this engine did not write. It blocks the
/// queue, and no client deletes it.
fn foreign(key: &[u8]) -> Error {
    let key = String::from_utf8_lossy(key);
    let what = format!(
        "the key {key:?} is in the queue of the lock but was not written by leasehold; delete it, or choose \
         another prefix"
    );
    Error::new(ErrorKind::Foreign, what)
}

/// Lists the names that start with `names`, in order, at most `limit`. A name with a record that cannot be read has a note.
pub(crate) async fn list(engine: &Engine, names: &str, limit: usize) -> Result<Vec<Status>> {
    let (mut from, end) = engine.keys.names(names);
    let mut found: Vec<(Name, Stored)> = Vec::new();
    loop {
        let options = GetOptions::new().with_range(end.clone()).with_limit(PAGE);
        let page = get(engine, from, options).await?;
        for kv in &page.kvs {
            // Keys of other programs below our prefix are not locks.
            let Some((name, part)) = engine.keys.read(&kv.key) else { continue };
            if found.last().is_none_or(|(last, _)| *last != name) {
                found.pop_if(|(_, stored)| stored.is_free());
                found.push((name, Stored::default()));
            }
            if let Some((_, stored)) = found.last_mut()
                && let Err(error) = stored.add(engine, part, kv)
            {
                stored.unreadable = Some(error);
            }
        }
        match page.kvs.last() {
            // The keys of a name are contiguous: if one more name is found, those before it are complete.
            Some(last) if page.more && found.len() <= limit => {
                from = last.key.clone();
                from.push(0);
            }
            _ => break,
        }
    }
    found.retain(|(_, stored)| !stored.is_free());
    found.truncate(limit);
    let each = found.into_iter().map(|(name, mut stored)| async move {
        stored.queue.sort_by_key(|entry| entry.created);
        stored.permits.sort_by_key(|entry| entry.created);
        stored.queued = stored.queue.len();
        describe(engine, name, stored).await
    });
    Ok(futures_util::stream::iter(each).buffered(AT_ONCE).collect().await)
}

async fn describe(engine: &Engine, name: Name, stored: Stored) -> Status {
    if let Some(error) = &stored.unreadable {
        return Status::unknown(&name, error);
    }
    if stored.limit.is_some() || !stored.permits.is_empty() {
        return describe_semaphore(engine, name, stored).await;
    }
    if let Some(latch) = &stored.latch {
        let remaining = remaining(engine, latch.lease).await;
        let mut status = Status::of_latch(&name, &latch.value, remaining);
        status.waiters = Some(Vec::new());
        return status;
    }
    let mut status = Status::free(&name);
    let holders = stored.holders();
    let holding = holders.map_or(0, |(holding, _)| holding);
    let (holding, waiting) = stored.queue.split_at(holding);
    if let (Some(first), Some((_, token))) = (holding.first(), holders) {
        status.state = if first.reads() { State::Shared } else { State::Held };
        status.token = Some(token);
        status.remaining = remaining(engine, first.lease).await;
        match &first.shown {
            Some((named, since)) => {
                (status.holder, status.since_unix_ms) = (Some(named.clone()), Some(*since));
            }
            None => status.note = Some("the holder's key does not describe its holder".to_owned()),
        }
        if first.reads() {
            let readers = holding.iter().take(NAMED).filter_map(|entry| entry.shown.as_ref());
            status.readers = readers.map(|(holder, _)| holder.clone()).collect();
        }
    }
    let shown = waiting.iter().take(NAMED);
    status.more_waiters = stored.queued.saturating_sub(holding.len() + shown.len());
    status.waiters = Some(shown.filter_map(waiter).collect());
    status
}

fn waiter(entry: &Entry) -> Option<Waiter> {
    let (holder, since_unix_ms) = entry.shown.clone()?;
    Some(Waiter::new(holder, since_unix_ms).with_shared(entry.reads()))
}

async fn describe_semaphore(engine: &Engine, name: Name, stored: Stored) -> Status {
    let mut status = Status::free(&name);
    let limit = stored.limit.map_or((0, 0), |limit| (limit.limit.get(), limit.version));
    let mut permits = Permits::new(limit.0, limit.1);
    let (mut holding, waiting): (Vec<Entry>, Vec<Entry>) =
        stored.permits.into_iter().partition(|entry| !entry.slots.is_empty());
    permits.held = holding.iter().map(|entry| entry.slots.len() as u32).sum();
    holding.sort_by(|one, other| one.slots.cmp(&other.slots));
    let named = holding.into_iter().take(NAMED).map(|entry| async move {
        let token = u64::try_from(entry.created).ok().and_then(Token::new)?;
        let remaining = remaining(engine, entry.lease).await;
        let (holder, _) = entry.shown?;
        Some(Permitted::new(holder, entry.slots, token, remaining))
    });
    let named: Vec<_> = futures_util::stream::iter(named).buffered(AT_ONCE).collect().await;
    permits.holders = named.into_iter().flatten().collect();
    status.state = if permits.held > 0 { State::Permits } else { State::Free };
    status.holder = permits.holders.first().map(|one| one.holder.clone());
    status.permits = Some(permits);
    let shown = waiting.iter().take(NAMED);
    status.more_waiters = waiting.len().saturating_sub(shown.len());
    let waiters = shown.filter_map(|entry| Some(waiter(entry)?.with_slots(entry.wants)));
    status.waiters = Some(waiters.collect());
    status
}

/// Returns the remaining time of a lease; `None` if it is unknown.
pub(crate) async fn remaining(engine: &Engine, lease: i64) -> Option<Duration> {
    if lease == 0 {
        return None;
    }
    let request =
        |client: leasehold_etcd_api::Client| async move { client.lease_time_to_live(lease).await };
    let left = engine.members.call(LIMIT, request).await.ok()?.value.ttl;
    Some(Duration::from_secs(u64::try_from(left).unwrap_or(0)))
}

/// Reads a range of keys.
pub(crate) async fn get(
    engine: &Engine,
    first: Vec<u8>,
    options: GetOptions,
) -> Result<RangeResponse> {
    let request = |client: leasehold_etcd_api::Client| {
        let (first, options) = (first.clone(), options.clone());
        async move { client.get(first, Some(options)).await }
    };
    Ok(engine.members.call(LIMIT, request).await?.value)
}
