//! The record of a semaphore: its limit, and the last token of each slot.

use leasehold_core::proto::semaphore::Limit;
use leasehold_core::{Name, Now, Result, Token};
use serde::{Deserialize, Serialize};

use super::directory::{Files, write_record};
use super::os_error::foreign;

/// The version of the record of a semaphore.
pub(crate) const SEMAPHORE: u64 = 2;

/// The state of a semaphore that outlives its permits, stored as JSON in the place of a lock's record.
/// A client from before there were semaphores refuses it as a newer version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SemaphoreRecord {
    version: u64,
    pub(crate) name: String,
    limit: u32,
    pub(crate) limit_version: u64,
    /// How many permits were granted: shows a waiter that one was granted between two looks.
    pub(crate) grants: u64,
    /// The last token of each slot; 0 for a slot that was never used.
    tops: Vec<u64>,
}

impl SemaphoreRecord {
    /// Returns the record of a semaphore that is used for the first time.
    pub(crate) fn new(name: &Name, limit: Limit) -> Self {
        let name = name.as_str().to_owned();
        let (limit, limit_version) = (limit.get(), 1);
        Self { version: SEMAPHORE, name, limit, limit_version, grants: 0, tops: Vec::new() }
    }

    /// Returns what is wrong with a record that was read.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        if Limit::new(self.limit).is_err() {
            return Some("its limit is out of range");
        }
        let beyond = self.tops.iter().any(|top| *top > Token::MAX.get());
        beyond.then_some("a token is out of range")
    }

    /// Replaces the old record, as [`write_record`] does. Only a process in the critical section may
    /// call this.
    pub(crate) fn write(&self, files: &Files) -> Result<()> {
        write_record(self, files)
    }

    /// Returns the limit. It is checked when the record is read.
    pub(crate) fn limit(&self) -> Option<Limit> {
        Limit::new(self.limit).ok()
    }

    /// Changes the limit.
    pub(crate) fn set_limit(&mut self, limit: Limit) {
        self.limit = limit.get();
        self.limit_version = self.limit_version.saturating_add(1);
    }

    /// Returns the largest token of all slots.
    pub(crate) fn top(&self) -> u64 {
        self.tops.iter().copied().max().unwrap_or(0)
    }

    /// Reserves the token of a permit: above every earlier token of each of its slots, and above the
    /// clock's microseconds, so that it grows even if the directory was deleted in between.
    pub(crate) fn grant(&mut self, slots: &[u32], now: Now, files: &Files) -> Result<Token> {
        let used = slots.last().map_or(0, |last| *last as usize + 1).max(self.tops.len());
        self.tops.resize(used, 0);
        let top = slots.iter().map(|slot| self.tops[*slot as usize]).max().unwrap_or(0);
        // A clock beyond the year 2255 is wrong, and must not use up all tokens.
        let clock = Token::new(now.unix_us()).map_or(1, Token::get);
        let token = Token::new((top + 1).max(clock)).ok_or_else(|| {
            foreign(
                &files.record,
                "has the largest possible token; no later holder can get a larger one",
            )
        })?;
        for slot in slots {
            self.tops[*slot as usize] = token.get();
        }
        self.grants = self.grants.saturating_add(1);
        Ok(token)
    }
}
