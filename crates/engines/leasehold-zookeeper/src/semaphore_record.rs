//! The record of a semaphore: its limit, and which slots and token each permit has. It is the data of the semaphore's
//! node, and knows nothing of time: a permit lasts as long as its node below it.
//!
//! A client reads the record, then the nodes, and replaces the record if it has not changed since. A permit of the
//! record whose node is not among those is over: the node existed when the record was written, and no other gets its
//! number while the semaphore's node exists.

use std::collections::BTreeMap;

use leasehold_core::backend::{StoredLimit, refused_by_limit};
use leasehold_core::proto::semaphore::{Conflict, Demand, Limit, MAX_LIMIT};
use leasehold_core::{Result, Token};
use serde::{Deserialize, Serialize};

use crate::error::not_a_semaphore;
use crate::path::QueueNode;

/// The most permits that one transaction grants.
const MOST: usize = 128;

/// A node of a holder or a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seat {
    /// The number that the server has added to its name.
    pub(crate) number: i32,
    /// How many slots it asks for.
    pub(crate) slots: u32,
}

impl Seat {
    /// Returns the seats of these nodes, in the order of the queue. The error is the name of a node that asks for no
    /// permit.
    pub(crate) fn all(nodes: &[QueueNode]) -> Result<Vec<Self>, String> {
        let seat = |node: &QueueNode| {
            let slots = node.slots().ok_or_else(|| node.node.clone())?;
            Ok(Self { number: node.number, slots })
        };
        nodes.iter().map(seat).collect()
    }
}

/// A permit of the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Permit {
    pub(crate) token: Token,
    /// Ascending from 0.
    pub(crate) slots: Vec<u32>,
}

/// The state of a semaphore, without its waiters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SemaphoreRecord {
    limit: Limit,
    version: u64,
    /// The last token that was given.
    last: u64,
    permits: BTreeMap<i32, Permit>,
    #[cfg(test)]
    pub(crate) bug: Option<Bug>,
}

/// A planted bug: a rule that the record does not keep.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// Those who fit pass the first one.
    SmallPassesFirst,
    /// Only free slots below the limit count, not the permits above a lowered one.
    OnlyFreeSlotsCount,
    /// Tokens begin again with each permit.
    TokensStay,
    /// A permit whose node has gone keeps its slots.
    GoneKeepTheirs,
}

/// Whether a rule is broken by a test.
macro_rules! breaks {
    ($record:expr, $bug:ident) => {{
        #[cfg(test)]
        let is_broken = $record.bug == Some(Bug::$bug);
        #[cfg(not(test))]
        let is_broken = false;
        is_broken
    }};
}

/// What is stored: short, since each grant writes all of it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    limit: u32,
    version: u64,
    last: u64,
    /// Number, token, and the slots in runs: `0-2,7`.
    permits: Vec<(i32, u64, String)>,
}

/// No token is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UsedUp;

impl SemaphoreRecord {
    /// Creates the record of a new semaphore.
    pub(crate) fn new(limit: Limit) -> Self {
        Self {
            limit,
            version: 1,
            last: 0,
            permits: BTreeMap::new(),
            #[cfg(test)]
            bug: None,
        }
    }

    /// Reads the data of the node at `path`.
    pub(crate) fn read(data: &[u8], path: &str) -> Result<Self> {
        Self::parse(data).ok_or_else(|| not_a_semaphore(path))
    }

    fn parse(data: &[u8]) -> Option<Self> {
        let stored: Stored = serde_json::from_slice(data).ok()?;
        let mut record = Self::new(Limit::new(stored.limit).ok()?);
        (record.version, record.last) = (stored.version, stored.last);
        for (number, token, slots) in stored.permits {
            let permit = Permit { token: Token::new(token)?, slots: from_runs(&slots)? };
            record.permits.insert(number, permit);
        }
        Some(record)
    }

    /// Returns the data of the node.
    pub(crate) fn written(&self) -> Vec<u8> {
        let permits = self.permits.iter();
        let permits = permits.map(|(number, one)| (*number, one.token.get(), runs(&one.slots)));
        let (limit, version, last) = (self.limit.get(), self.version, self.last);
        let stored = Stored { limit, version, last, permits: permits.collect() };
        serde_json::to_vec(&stored).unwrap_or_default()
    }

    pub(crate) fn limit(&self) -> StoredLimit {
        StoredLimit::new(self.limit, self.version)
    }

    /// Returns the permit of the node with this number.
    pub(crate) fn permit(&self, number: i32) -> Option<&Permit> {
        self.permits.get(&number)
    }

    /// Returns the number of the node whose permit has this token.
    pub(crate) fn holder_of(&self, token: Token) -> Option<i32> {
        let mut permits = self.permits.iter();
        permits.find(|(_, permit)| permit.token == token).map(|(number, _)| *number)
    }

    /// Returns an error for a demand that does not fit the stored limit. `is_new`: the client has not waited before,
    /// and must expect the same limit.
    pub(crate) fn check(&self, demand: Demand, is_new: bool) -> Result<()> {
        match is_new && demand.limit() != self.limit || demand.slots() > self.limit.get() {
            true => Err(refused_by_limit(self.limit, demand)),
            false => Ok(()),
        }
    }

    /// Removes the permits whose nodes have gone, and gives slots to those who wait, in the order of `seats`. A waiter
    /// that does not fit is never passed, except by a limit below what it asks for: its client is refused. All tokens
    /// are above `floor`, the transaction that created the semaphore's node, and above those of the record. Returns the
    /// numbers of the new permits.
    ///
    /// # Errors
    /// [`UsedUp`] if no token is left.
    pub(crate) fn serve(&mut self, seats: &[Seat], floor: i64) -> Result<Vec<i32>, UsedUp> {
        if !breaks!(self, GoneKeepTheirs) {
            let there: std::collections::HashSet<i32> =
                seats.iter().map(|seat| seat.number).collect();
            self.permits.retain(|number, _| there.contains(number));
        }
        let mut used = vec![false; MAX_LIMIT as usize];
        let mut held = 0;
        for slot in self.permits.values().flat_map(|permit| &permit.slots) {
            held += 1;
            if let Some(used) = used.get_mut(*slot as usize) {
                *used = true;
            }
        }
        let limit = self.limit.get();
        let below = used.iter().take(limit as usize).enumerate();
        let mut free = below.filter(|(_, used)| !**used).map(|(slot, _)| slot as u32).peekable();
        let mut left = free.clone().count() as u32;
        let mut granted = Vec::new();
        for seat in seats {
            let count = seat.slots;
            if count == 0 || count > limit || self.permits.contains_key(&seat.number) {
                continue;
            }
            let room = limit.checked_sub(held).is_some_and(|room| count <= room);
            if !(room || breaks!(self, OnlyFreeSlotsCount)) || count > left {
                if breaks!(self, SmallPassesFirst) {
                    continue;
                }
                break;
            }
            if granted.len() == MOST {
                break;
            }
            let token = self.next_token(floor)?;
            let slots: Vec<u32> = free.by_ref().take(count as usize).collect();
            (held, left) = (held + count, left - count);
            if !breaks!(self, TokensStay) {
                self.last = token.get();
            }
            self.permits.insert(seat.number, Permit { token, slots });
            granted.push(seat.number);
        }
        Ok(granted)
    }

    /// Returns the number of the node that the one with this number waits behind: the last one before it that waits,
    /// too, and is not refused by the limit.
    pub(crate) fn behind(&self, seats: &[Seat], number: i32) -> Option<i32> {
        let waits =
            |seat: &&Seat| seat.slots <= self.limit.get() && self.permit(seat.number).is_none();
        let before = seats.iter().take_while(|seat| seat.number != number);
        before.filter(waits).last().map(|seat| seat.number)
    }

    /// Changes the limit if it has this version, or if this is a repeat of the last change. Returns whether it changed.
    ///
    /// # Errors
    /// [`Conflict`] if the version is outdated.
    pub(crate) fn set_limit(&mut self, version: u64, limit: Limit) -> Result<bool, Conflict> {
        if version.checked_add(1) == Some(self.version) && self.limit == limit {
            return Ok(false);
        }
        if version != self.version {
            return Err(Conflict { limit: Some(self.limit), version: self.version });
        }
        (self.limit, self.version) = (limit, version.saturating_add(1));
        Ok(true)
    }

    fn next_token(&self, floor: i64) -> Result<Token, UsedUp> {
        let floor = u64::try_from(floor).map_err(|_| UsedUp)?;
        Token::new(self.last.max(floor).saturating_add(1)).ok_or(UsedUp)
    }
}

/// Writes slots as runs of successive ones.
fn runs(slots: &[u32]) -> String {
    let mut text = String::new();
    let mut rest = slots;
    while let Some(first) = rest.first() {
        let run = rest.iter().zip(*first..).take_while(|(slot, next)| **slot == *next).count();
        let last = first + run as u32 - 1;
        let comma = if text.is_empty() { "" } else { "," };
        text += &match run {
            1 => format!("{comma}{first}"),
            _ => format!("{comma}{first}-{last}"),
        };
        rest = rest.get(run..).unwrap_or_default();
    }
    text
}

/// Reads what [`runs`] writes; `None` for anything else, and for slots that no semaphore has.
fn from_runs(text: &str) -> Option<Vec<u32>> {
    let mut slots: Vec<u32> = Vec::new();
    for run in text.split(',') {
        let (first, last) = run.split_once('-').unwrap_or((run, run));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        let follows = slots.last().is_none_or(|before| first > *before);
        if !follows || last < first || last >= MAX_LIMIT {
            return None;
        }
        slots.extend(first..=last);
    }
    Some(slots)
}

#[cfg(test)]
#[path = "semaphore_record_tests.rs"]
mod tests;
