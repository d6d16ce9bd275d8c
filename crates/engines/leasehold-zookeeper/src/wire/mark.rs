//! The mark under the node that clients without the option `wire` use: they are refused, since they would not exclude
//! those of the other library.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_core::{Deadline, Name, Result};
use zookeeper_client::Error as ZkError;

use crate::error::{ROUNDS, from_zk, unsettled, with_other_wire};
use crate::format::Format;
use crate::kind::{self, Kind};
use crate::latch_value::{self, Value};
use crate::path;
use crate::queue::Queue;
use crate::session::Session;
use crate::store::Store;

/// How often a mark is renewed.
const EVERY: Duration = Duration::from_secs(60);
/// How long a mark refuses others after its last renewal, by the clock of the servers.
const LASTS: Duration = Duration::from_secs(300);
/// How many names are remembered; beyond that, names are marked again.
const MOST: usize = 10_000;
/// What each mark begins with; the name of the format follows.
const TEXT: &str = "leasehold wire ";

/// When the marks of names are to be renewed.
#[derive(Debug)]
pub(super) struct Marks {
    store: Arc<Store>,
    due: Mutex<HashMap<Name, Deadline>>,
}

impl Marks {
    pub(super) fn new(store: Arc<Store>) -> Self {
        Self { store, due: Mutex::default() }
    }

    /// Returns true if the mark of a name is to be renewed.
    pub(super) fn is_due(&self, name: &Name) -> bool {
        self.lock().get(name).is_none_or(|until| until.has_passed(self.store.clock.now()))
    }

    /// Has clients without the option refused under this name. Does nothing if it did so a short while ago.
    pub(super) async fn refresh(&self, name: &Name) -> Result<()> {
        if !self.is_due(name) {
            return Ok(());
        }
        let now = self.store.clock.now();
        mark(&self.store, name).await?;
        let mut due = self.lock();
        if due.len() >= MOST {
            due.retain(|_, until| !until.has_passed(now));
        }
        if due.len() >= MOST {
            due.clear();
        }
        due.insert(name.clone(), Deadline::after(now, EVERY));
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Name, Deadline>> {
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes or renews the mark of a name, unless clients use it in another format.
async fn mark(store: &Store, name: &Name) -> Result<()> {
    let session = store.session()?;
    let (lock, native) = (store.lock_path(name), store.address.native.lock(name));
    let path = path::mark(&native);
    let failed = |error| from_zk(error, &path);
    let format = store.format().name().unwrap_or_default();
    let bytes = format!("{TEXT}{format}").into_bytes();
    let ttl_ms = u64::try_from(LASTS.as_millis()).unwrap_or(u64::MAX);
    let data = Value { ttl_ms, bytes: bytes.clone() }.written();
    for _ in 0..ROUNDS {
        let found = latch_value::read_at(&session, &path).await?;
        if let Some(found) = found.as_ref().filter(|found| !found.remaining.is_zero())
            && found.value.bytes != bytes
        {
            let text = String::from_utf8_lossy(&found.value.bytes);
            return Err(with_other_wire(text.strip_prefix(TEXT).unwrap_or(&text), &native));
        }
        // Without the option, the engine has the layout of Curator: at the same path, both exclude each other.
        if store.format() == Format::Curator && lock == native {
            return Ok(());
        }
        let written = match found {
            Some(found) => session.set_value(&path, &data, found.stat.version).await,
            None if lock == native => make_beside(&session, &lock, (&path, &data)).await?,
            None => match kind::make(&session, &native, (Kind::Marked, &path), &data).await? {
                true => Ok(()),
                false => continue,
            },
        };
        match written {
            Ok(()) => return Ok(()),
            Err(ZkError::BadVersion | ZkError::NoNode | ZkError::NodeExists) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Err(unsettled(ROUNDS))
}

/// Creates the mark among the nodes of kazoo's clients, which ignore it. Clients without the option that have come before
/// are found when the queue is read.
async fn make_beside(
    session: &Session,
    lock: &str,
    (path, data): (&str, &[u8]),
) -> Result<Result<(), ZkError>> {
    let listed = session.queue_now(lock).await.map_err(|error| from_zk(error, lock))?;
    let is_there = listed.is_some();
    Queue::new(listed, lock, Format::Kazoo)?;
    if !is_there {
        let made = session.make_parents(lock, Format::Kazoo.parents()).await;
        made.map_err(|(error, path)| from_zk(error, &path))?;
    }
    Ok(session.make_value(path, data).await)
}
