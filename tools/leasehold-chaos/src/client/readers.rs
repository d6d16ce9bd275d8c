//! Tasks that read mostly, and write now and then.

use leasehold::{Upgraded, WriteGuard};

use super::hold::{Held, Outcome};
use super::{Counter, note};
use crate::failure::FailureKind;
use crate::now;

/// One of so many acquires is to write.
const WRITES: u32 = 10;
/// One of so many holds is converted before it ends.
const CONVERTS: u32 = 8;

impl Counter {
    /// Reads, or writes.
    pub(super) async fn read_or_write(&mut self) -> Outcome {
        let asked = now();
        let writes = self.rng.u32(..WRITES) == 0;
        let held = match writes {
            true => self.rw_lock.write().await.map(Held::Write),
            false => self.rw_lock.read().await.map(Held::Read),
        };
        match held {
            Ok(held) => Ok(Ok(self.hold_and_convert(asked, held).await?)),
            Err(error) => Ok(Err(error)),
        }
    }

    /// The same if it is possible at once.
    pub(super) async fn try_to_read_or_write(&mut self) -> std::io::Result<()> {
        let (asked, lock) = (now(), self.rw_lock.clone());
        let tried = match self.rng.u32(..WRITES) {
            0 => self.tries(lock.try_write()).await.map(|guard| guard.map(Held::Write)),
            _ => self.tries(lock.try_read()).await.map(|guard| guard.map(Held::Read)),
        };
        self.tried(asked, tried).await
    }

    /// Uses it, and now and then goes on as the other kind without giving the lock up in between.
    async fn hold_and_convert(&mut self, asked: u64, held: Held) -> std::io::Result<()> {
        self.use_held(asked, &held).await?;
        if self.rng.u32(..CONVERTS) > 0 {
            self.give_back(held).await;
            return Ok(());
        }
        let asked = now();
        match held {
            Held::Write(guard) => self.downgrade(asked, guard).await,
            Held::Read(guard) => match guard.try_upgrade().await {
                Ok(Upgraded::Write(guard)) => self.hold(asked, Held::Write(guard)).await,
                Ok(Upgraded::Refused(guard)) => {
                    self.give_back(Held::Read(guard)).await;
                    Ok(())
                }
                Ok(_) => Ok(()),
                Err(error) => {
                    note(&self.journal, FailureKind::of_attempt(error.kind()), &error);
                    Ok(())
                }
            },
            held => {
                self.give_back(held).await;
                Ok(())
            }
        }
    }

    async fn downgrade(&mut self, asked: u64, guard: WriteGuard) -> std::io::Result<()> {
        match guard.downgrade().await {
            Ok(guard) => self.hold(asked, Held::Read(guard)).await,
            Err(error) => {
                note(&self.journal, FailureKind::of_attempt(error.kind()), &error);
                Ok(())
            }
        }
    }
}
