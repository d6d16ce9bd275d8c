//! Tasks that take permits of a semaphore.

use super::Counter;
use super::hold::{Held, Outcome};
use crate::journal::JournalEntry;
use crate::now;
use crate::workload::LIMIT;

impl Counter {
    /// Takes a permit for some slots, and counts in each.
    pub(super) async fn take_permit(&mut self) -> Outcome {
        let (asked, slots) = (now(), self.weight());
        match self.semaphore.acquire_many(slots).await {
            Ok(permit) => {
                let held = self.looked_at(Held::Permit(permit), slots);
                Ok(Ok(self.hold(asked, held).await?))
            }
            Err(error) => Ok(Err(error)),
        }
    }

    /// The same if they are free.
    pub(super) async fn try_to_take_permit(&mut self) -> std::io::Result<()> {
        let (asked, slots, semaphore) = (now(), self.weight(), self.semaphore.clone());
        let tried = self.tries(semaphore.try_acquire_many(slots)).await;
        let held =
            tried.map(|permit| permit.map(|permit| self.looked_at(Held::Permit(permit), slots)));
        self.tried(asked, held).await
    }

    /// Mostly one slot; now and then several, or all.
    fn weight(&mut self) -> u32 {
        match self.rng.u32(..20) {
            0 => LIMIT,
            1..4 => self.rng.u32(2..LIMIT),
            _ => 1,
        }
    }

    /// Writes down slots that there are not, or too few or too many of them.
    fn looked_at(&self, held: Held, wanted: u32) -> Held {
        if let Held::Permit(permit) = &held {
            let slots = permit.slots();
            let is_wrong = slots.len() != wanted as usize
                || slots.iter().any(|slot| *slot >= LIMIT)
                || slots.windows(2).any(|pair| pair[0] >= pair[1]);
            if is_wrong {
                let token = permit.token();
                let what = format!(
                    "the permit with token {token} for {wanted} of {LIMIT} slots has the slots {slots:?}"
                );
                self.journal.write(&JournalEntry::Wrong(what));
            }
        }
        held
    }
}
