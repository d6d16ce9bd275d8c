//! Reads and changes the limit of a semaphore.

use leasehold_core::backend::{LimitChange, LimitChanged, StoredLimit};
use leasehold_core::proto::semaphore::Conflict;
use leasehold_core::{Name, Result};

use crate::error::{ROUNDS, unsettled};
use crate::kind::{self, Kind};
use crate::path;
use crate::permits::Semaphore;
use crate::semaphore_record::SemaphoreRecord;
use crate::session::Stored;
use crate::store::Store;

/// Returns the stored limit; `None` if there is none.
pub(crate) async fn limit(store: &Store, name: &Name) -> Result<Option<StoredLimit>> {
    let session = store.session()?;
    let lock = store.lock_path(name);
    for _ in 0..ROUNDS {
        if let Some(semaphore) = Semaphore::now(&session, &path::semaphore(&lock)).await? {
            return Ok(Some(semaphore.record.limit()));
        }
        match kind::now(&session, &lock).await? {
            Kind::Semaphore => {}
            kind => return kind.no_semaphore(&lock).map(|()| None),
        }
    }
    Err(unsettled(ROUNDS))
}

/// Changes the limit, and gives slots to those who fit then.
pub(crate) async fn set_limit(store: &Store, change: &LimitChange) -> Result<LimitChanged> {
    let session = store.session()?;
    let lock = store.lock_path(&change.name);
    let path = path::semaphore(&lock);
    for _ in 0..ROUNDS {
        let Some(mut semaphore) = Semaphore::now(&session, &path).await? else {
            if change.version != 0 {
                kind::now(&session, &lock).await?.no_semaphore(&lock)?;
                return Ok(LimitChanged::Conflict(Conflict { limit: None, version: 0 }));
            }
            let record = SemaphoreRecord::new(change.limit).written();
            match kind::make(&session, &lock, (Kind::Semaphore, &path), &record).await? {
                true => return Ok(LimitChanged::Changed(1)),
                false => continue,
            }
        };
        match semaphore.record.set_limit(change.version, change.limit) {
            Err(conflict) => return Ok(LimitChanged::Conflict(conflict)),
            Ok(false) => return Ok(LimitChanged::Changed(semaphore.record.limit().version)),
            Ok(true) => {}
        }
        let granted = semaphore.serve(&path)?;
        let stored = semaphore.store(&session, &path, &granted, None).await;
        match stored.map_err(|error| store.failed(&change.name, error))? {
            Stored::Done(_) => {
                return Ok(LimitChanged::Changed(semaphore.record.limit().version));
            }
            Stored::Changed | Stored::Gone => {}
        }
    }
    Err(unsettled(ROUNDS))
}
