//! Waits between two looks at a lock that is followed: for an interval, or until the store pushes a
//! change.

use std::time::Duration;

use leasehold::{LockChanges, Name};
use tokio::time::sleep;

use crate::failure::Failure;
use crate::store::Store;

/// The shortest pause between two looks, for a lock that changes often.
const SHORTEST: Duration = Duration::from_millis(50);

/// What a command follows. A single lock has pushes, if the store can push.
#[derive(Default)]
pub(crate) struct Followed(Option<Pushed>);

struct Pushed {
    name: Name,
    changes: LockChanges,
    /// Nothing was looked at since the store was asked for pushes.
    is_new: bool,
}

impl Followed {
    /// Follows this lock, or none.
    pub(crate) fn follow(&mut self, store: &Store, name: Option<&Name>) -> Result<(), Failure> {
        let Some(name) = name else {
            self.0 = None;
            return Ok(());
        };
        if self.0.as_ref().is_none_or(|pushed| pushed.name != *name) {
            let (name, changes) = (name.clone(), store.changes(name.as_str())?);
            self.0 = Some(Pushed { name, changes, is_new: true });
        }
        Ok(())
    }

    /// Waits until the next look is due.
    pub(crate) async fn next_look(&mut self, interval: Duration) {
        let Some(Pushed { changes, is_new, .. }) = &mut self.0 else {
            return sleep(interval).await;
        };
        sleep(interval.min(SHORTEST)).await;
        if !std::mem::take(is_new) {
            changes.within(interval.saturating_sub(SHORTEST)).await;
        }
    }
}
