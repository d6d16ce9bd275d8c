//! What a task does while it has the lock, or its part of it.

use std::pin::pin;
use std::sync::atomic::Ordering;
use std::time::Duration;

use leasehold::{Error, ErrorKind, Guard, LossReason, Permit, ReadGuard, WriteGuard};

use super::abandon::{Abandon, panic_with};
use super::{Counter, LONG, LONGEST_TRY, LOOK, STEP, deadline, note, wall_clock};
use crate::failure::FailureKind;
use crate::journal::{HoldEnd, JournalEntry};
use crate::part::Part;
use crate::{MS, now};

/// What a task has got.
#[derive(Debug)]
pub(super) enum Held {
    Lock(Guard),
    Read(ReadGuard),
    Write(WriteGuard),
    Permit(Permit),
}

impl Held {
    pub(super) fn guard(&self) -> &Guard {
        match self {
            Self::Lock(guard) => guard,
            Self::Read(guard) => guard,
            Self::Write(guard) => guard,
            Self::Permit(permit) => permit,
        }
    }

    pub(super) fn part(&self) -> Part {
        match self {
            Self::Lock(_) | Self::Write(_) => Part::Whole,
            Self::Read(_) => Part::Read,
            Self::Permit(permit) => Part::of_slots(permit.slots()),
        }
    }

    async fn release(self) -> leasehold::Result<()> {
        match self {
            Self::Lock(guard) => guard.release().await,
            Self::Read(guard) => guard.release().await,
            Self::Write(guard) => guard.release().await,
            Self::Permit(permit) => permit.release().await,
        }
    }
}

/// The outcome of one attempt, and of writing it down.
pub(super) type Outcome = std::io::Result<Result<(), Error>>;

impl Counter {
    /// Gets the lock and counts under it.
    pub(super) async fn count(&mut self) -> Outcome {
        let asked = now();
        match self.lock.acquire().await {
            Ok(guard) => Ok(Ok(self.hold(asked, Held::Lock(guard)).await?)),
            Err(error) => Ok(Err(error)),
        }
    }

    /// Gets the lock only if it is free.
    pub(super) async fn try_once(&mut self) -> std::io::Result<()> {
        let (asked, lock) = (now(), self.lock.clone());
        let tried = self.tries(lock.try_acquire()).await;
        self.tried(asked, tried.map(|guard| guard.map(Held::Lock))).await
    }

    /// Waits for a try, which must not take long.
    pub(super) async fn tries<T>(&self, trying: impl Future<Output = T>) -> T {
        let (mut trying, mut looks) = (pin!(trying), 0);
        let outcome = loop {
            tokio::select! {
                biased;
                outcome = &mut trying => break outcome,
                () = tokio::time::sleep(LOOK) => looks += 1,
            }
        };
        // Looks are not made while the process is stopped.
        if LOOK * looks > LONGEST_TRY {
            let what = format!("a try took longer than {looks} looks of {LOOK:?}");
            self.journal.write(&JournalEntry::Wrong(what));
        }
        outcome
    }

    /// Uses what a try has given, if anything.
    pub(super) async fn tried(
        &mut self,
        asked: u64,
        tried: leasehold::Result<Option<Held>>,
    ) -> std::io::Result<()> {
        match tried {
            Ok(Some(held)) => self.hold(asked, held).await,
            Ok(None) => Ok(()),
            Err(error) => {
                note(&self.journal, FailureKind::of_attempt(error.kind()), &error);
                Ok(())
            }
        }
    }

    /// Uses what it has got, and gives it back in some way.
    pub(super) async fn hold(&mut self, asked: u64, held: Held) -> std::io::Result<()> {
        self.use_held(asked, &held).await?;
        self.give_back(held).await;
        Ok(())
    }

    /// Reads, works, and writes unless it has only a read.
    pub(super) async fn use_held(&mut self, asked: u64, held: &Held) -> std::io::Result<()> {
        let (guard, part) = (held.guard(), held.part());
        let hold = self.begins(asked, guard, part);
        let entered = self.gates.enter(part)?;
        if entered.met {
            self.journal.write(&JournalEntry::Met { hold, at: now() });
        }
        let token = guard.token().get();
        let resources = self.files.open_for(part)?;
        let seen = resources.read(self.number, token)?;
        // Mostly shorter than a hand-off, now and then beyond several renewals.
        let work = match self.rng.u32(..1000) {
            _ if self.keep.exists() && std::fs::remove_file(&self.keep).is_ok() => LONG,
            0..3 => self.rng.u64(200..2000),
            3..30 => self.rng.u64(10..100),
            _ => self.rng.u64(..4),
        };
        self.work(hold, guard, now() + work * MS).await;
        if guard.is_valid() && part != Part::Read {
            // No lock can know of a pause from here on.
            if self.rng.u32(..4) == 0 {
                tokio::time::sleep(Duration::from_millis(self.rng.u64(1..10))).await;
            }
            resources.write(self.number, token, &seen)?;
        }
        let at = now();
        let end = match guard.is_valid() {
            true => HoldEnd::Valid,
            false if guard.lost().await == LossReason::Expired => HoldEnd::Expired,
            false => HoldEnd::Told,
        };
        self.journal.write(&JournalEntry::Ended { hold, at, end, deadline: deadline(guard) });
        drop(entered);
        self.journal.write(&JournalEntry::Left { hold, at: now() });
        Ok(())
    }

    /// Releases it, mostly.
    pub(super) async fn give_back(&mut self, held: Held) {
        let abandon = Abandon::of_hold(&mut self.rng);
        if let Some(abandon) = abandon {
            self.journal.write(&abandon.line());
        }
        match abandon {
            Some(Abandon::Panic) => panic_with(held).await,
            Some(_) => drop(held),
            None => self.release(held).await,
        }
    }

    /// Writes down that the lock is held from now on; the number of the hold.
    pub(super) fn begins(&self, asked: u64, guard: &Guard, part: Part) -> u64 {
        let (got, token) = (now(), guard.token().get());
        let hold = self.holds.fetch_add(1, Ordering::Relaxed);
        let (deadline, attempt) = (deadline(guard), guard.attempt().to_string());
        self.journal.write(&JournalEntry::Held {
            hold,
            asked,
            got,
            token,
            deadline,
            attempt,
            part,
        });
        hold
    }

    async fn release(&self, held: Held) {
        if let Err(error) = held.release().await
            && error.kind() != ErrorKind::Lost
        {
            // What passes is tried again in the background.
            match FailureKind::of(error.kind()) {
                Some(FailureKind::Away) => {}
                told => note(&self.journal, told, &error),
            }
        }
    }

    /// Works until then, or until the loss is reported.
    async fn work(&self, hold: u64, guard: &Guard, until: u64) {
        let mut lost = pin!(guard.lost());
        let (mut was_valid, clock) = (true, wall_clock());
        while now() < until {
            tokio::select! {
                biased;
                _ = &mut lost => return,
                () = tokio::time::sleep(LOOK) => {}
            }
            let at = now();
            let is_valid = guard.is_valid();
            if is_valid {
                self.journal.write(&JournalEntry::Valid { hold, at, deadline: deadline(guard) });
            } else if !was_valid && wall_clock().abs_diff(clock) < STEP {
                let token = guard.token();
                let what =
                    format!("the guard with token {token} ended without a report of its loss");
                self.journal.write(&JournalEntry::Wrong(what));
            }
            was_valid = is_valid;
        }
    }
}
