//! One node: its data, and what it does atomically at each request.

use core::time::Duration;
use std::collections::BTreeMap;

use super::{AHEAD, Look, Marker, NodeReply, Op, ProcessId, RETENTION, Refusal, Survey, TOMBSTONE};
use crate::{AttemptId, Now, Token};

/// An independent node with locks of names `K`.
///
/// Everything except the process id is data, and may be lost. The order of the checks in each step
/// is part of the contract: tests compare the scripts of servers with it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node<K> {
    process: ProcessId,
    marker: Option<Marker>,
    /// At least the highest counter that any lock on this node ever had.
    high: u64,
    /// The high-water mark when this process was admitted. Counters below it are older data.
    floor: u64,
    locks: BTreeMap<K, Record>,
}

/// The holder of a lock on one node, for display and tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    /// The attempt that holds the lock.
    pub attempt: AttemptId,
    /// The counter of the lock.
    pub counter: Token,
    /// How long the lease lasts unless it is renewed.
    pub remaining: Duration,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Record {
    /// 0: no counter; the node remembers only an ended attempt.
    counter: u64,
    /// The holder of the lock, until this point of the steady clock.
    lease: Option<(AttemptId, u64)>,
    /// The attempt that was ended last, and whether it held the lock then.
    ended: Option<(AttemptId, bool)>,
    /// Attempts that were ended without a lease, and until when they are refused: their acquire may
    /// still be on its way.
    tombstones: BTreeMap<AttemptId, u64>,
    /// When the node drops the record.
    forget_ns: u64,
}

/// What a node knows of the counters of all its locks.
#[derive(Clone, Copy, Debug)]
struct Marks {
    high: u64,
    floor: u64,
}

impl<K: Ord + Clone> Node<K> {
    /// Creates a node without data.
    pub fn new(process: ProcessId) -> Self {
        Self { process, marker: None, high: 0, floor: 0, locks: BTreeMap::new() }
    }

    /// Restarts the node as another process with the same data.
    pub fn restart(&mut self, process: ProcessId) {
        self.process = process;
    }

    /// Drops all data (`FLUSHALL`, an empty restart).
    pub fn forget(&mut self) {
        *self = Self::new(self.process);
    }

    /// Returns what any client may ask.
    pub fn look(&self) -> Look {
        let voted = self.high > 0 || self.marker.is_some_and(|marker| marker.admitted);
        Look { process: self.process, marker: self.marker, voted }
    }

    /// Returns whether this node has ever voted, as far as its data shows.
    pub fn survey(&self) -> Survey {
        let look = self.look();
        Survey { look, voted: look.voted || !self.locks.is_empty() }
    }

    /// Returns the holder of a lock.
    pub fn lease(&self, now: Now, lock: &K) -> Option<Lease> {
        let record = self.locks.get(lock).filter(|record| record.forget_ns > now.steady_ns)?;
        let (attempt, until) = record.holder(now)?;
        let remaining = Duration::from_nanos(until - now.steady_ns);
        Some(Lease { attempt, counter: Token::new(record.counter)?, remaining })
    }

    /// Returns the counter of a lock, while the node remembers it.
    pub fn counter(&self, now: Now, lock: &K) -> Option<Token> {
        let record = self.locks.get(lock).filter(|record| record.forget_ns > now.steady_ns)?;
        Token::new(record.counter)
    }

    /// Returns the high-water mark and the longest ttl. Only an admitted node answers.
    pub fn high(&self, process: ProcessId) -> Result<(u64, Duration), Refusal> {
        self.admitted(process).map(|marker| (self.high, marker.max_ttl))
    }

    /// Makes a node wait that has lost its marker, or whose marker names another process. A node
    /// that already waits or is admitted does not change. Returns the node's current marker.
    pub fn propose(
        &mut self,
        process: ProcessId,
        nonce: u64,
        max_ttl: Duration,
    ) -> Result<Marker, Refusal> {
        self.meant(process)?;
        let fresh = Marker { process, nonce, max_ttl, admitted: false };
        Ok(*self.marker.insert(self.look().current().unwrap_or(fresh)))
    }

    /// Does the same as [`propose`](Self::propose) at a first start, and also replaces a marker
    /// that waits with another `max_ttl`. Any client that connects before the operator writes such
    /// a marker.
    pub fn propose_first(
        &mut self,
        process: ProcessId,
        nonce: u64,
        max_ttl: Duration,
    ) -> Result<Marker, Refusal> {
        self.meant(process)?;
        let waits = |marker: &Marker| !marker.admitted && marker.max_ttl != max_ttl;
        if self.look().current().as_ref().is_some_and(waits) {
            self.marker = None;
        }
        self.propose(process, nonce, max_ttl)
    }

    /// Admits the node, if it has waited without interruption since this nonce was proposed. Its
    /// counters start above `floor`. Returns the node's current marker.
    pub fn admit(
        &mut self,
        process: ProcessId,
        nonce: u64,
        floor: u64,
    ) -> Result<Option<Marker>, Refusal> {
        self.meant(process)?;
        if let Some(marker) = &mut self.marker
            && marker.process == process
            && marker.nonce == nonce
        {
            self.high = self.high.max(floor);
            if !marker.admitted {
                self.floor = self.high;
            }
            marker.admitted = true;
        }
        Ok(self.look().current())
    }

    /// Removes the record of a free lock, if its last grant was at least a minute ago, and returns
    /// whether it did (`leasehold::forget`). After that minute, no request of an attempt that the
    /// record refuses can arrive. The high-water mark keeps the next tokens of the lock above the
    /// granted ones.
    pub fn remove(&mut self, now: Now, lock: &K) -> bool {
        let unused = |record: &Record| {
            let used = record.forget_ns.saturating_sub(RETENTION.as_nanos() as u64);
            record.holder(now).is_none() && after_ns(used, TOMBSTONE) < now.steady_ns
        };
        let removed = self.locks.get(lock).is_some_and(unused);
        if removed {
            self.locks.remove(lock);
        }
        removed
    }

    /// Carries out one step of an attempt. `now` is the clock of the node; `process` is the process
    /// that the client addresses.
    pub fn handle(&mut self, now: Now, process: ProcessId, lock: &K, op: Op) -> NodeReply {
        let marker = match self.admitted(process) {
            Ok(marker) => marker,
            Err(refusal) => return NodeReply::Refused(refusal),
        };
        if let Op::Acquire { ttl, .. } | Op::Renew { ttl, .. } = op
            && ttl > marker.max_ttl
        {
            return NodeReply::Refused(Refusal::TtlTooLong { max_ttl: marker.max_ttl });
        }
        let record = match self.locks.get_mut(lock) {
            Some(record) => record,
            None => self.locks.entry(lock.clone()).or_default(),
        };
        if record.forget_ns <= now.steady_ns {
            *record = Record::default();
        }
        let marks = Marks { high: self.high, floor: self.floor };
        let reply = match op {
            Op::Acquire { attempt, ttl, proposal } => {
                record.acquire(now, marks, attempt, ttl, proposal)
            }
            Op::Commit { attempt, from, token } => record.commit(now, attempt, from, token),
            Op::Renew { attempt, ttl, token, heal } => {
                record.renew(now, marks, attempt, ttl, token, heal)
            }
            Op::Release { attempt } => record.release(now, attempt),
        };
        self.high = self.high.max(record.counter);
        if *record == Record::default() {
            self.locks.remove(lock);
        }
        reply
    }

    fn meant(&self, process: ProcessId) -> Result<(), Refusal> {
        (process == self.process).then_some(()).ok_or(Refusal::Stranger)
    }

    fn admitted(&self, process: ProcessId) -> Result<Marker, Refusal> {
        self.meant(process)?;
        let marker = self.look().current().filter(|marker| marker.admitted);
        marker.ok_or(Refusal::NotAdmitted)
    }
}

impl Record {
    fn acquire(
        &mut self,
        now: Now,
        marks: Marks,
        attempt: AttemptId,
        ttl: Duration,
        proposal: Token,
    ) -> NodeReply {
        if let Some(refused) = self.refuses(now, attempt) {
            return refused;
        }
        if self.holder(now).is_some() {
            return Token::new(self.counter).map_or(NodeReply::Unknown, NodeReply::Granted);
        }
        let ahead = now.unix_us().saturating_add(AHEAD.as_micros() as u64);
        if proposal.get() > ahead {
            return NodeReply::Refused(Refusal::ClockAhead);
        }
        let next = self.floor(marks).saturating_add(1).max(proposal.get());
        let Some(value) = Token::new(next) else { return NodeReply::Refused(Refusal::UsedUp) };
        self.counter = next;
        self.grant(now, attempt, ttl);
        NodeReply::Granted(value)
    }

    fn commit(&mut self, now: Now, attempt: AttemptId, from: Token, token: Token) -> NodeReply {
        let owns = self.holder(now).is_some_and(|(owner, _)| owner == attempt);
        let untouched = self.counter == from.get() || self.counter == token.get();
        if !owns || !untouched || token < from {
            return NodeReply::Moved;
        }
        self.counter = token.get();
        NodeReply::Committed
    }

    fn renew(
        &mut self,
        now: Now,
        marks: Marks,
        attempt: AttemptId,
        ttl: Duration,
        token: Token,
        heal: bool,
    ) -> NodeReply {
        if let Some(refused) = self.refuses(now, attempt) {
            return refused;
        }
        let held = self.holder(now).is_some();
        if !held && !heal {
            return NodeReply::Missing;
        }
        // If the counter was lost, later tokens than this one may be lost too.
        self.counter = self.floor(marks).max(token.get());
        self.grant(now, attempt, ttl);
        if held { NodeReply::Renewed } else { NodeReply::Healed }
    }

    /// Ends the attempt. This never changes the counter.
    fn release(&mut self, now: Now, attempt: AttemptId) -> NodeReply {
        let before = self.ended.filter(|(ended, _)| *ended == attempt);
        let owns = self.holder(now).is_some_and(|(owner, _)| owner == attempt);
        let held = before.map_or(owns, |(_, held)| held);
        if owns {
            self.lease = None;
        }
        self.ended = Some((attempt, held));
        if !held {
            // Not at each release, since there may be many.
            if self.tombstones.len().is_power_of_two() {
                self.tombstones.retain(|_, until| *until > now.steady_ns);
            }
            self.tombstones.insert(attempt, after(now, TOMBSTONE));
        }
        self.forget_ns = self.forget_ns.max(after(now, RETENTION));
        if held { NodeReply::Released } else { NodeReply::NotHeld }
    }

    /// Returns the reply if the attempt was ended, or another attempt holds the lock.
    fn refuses(&self, now: Now, attempt: AttemptId) -> Option<NodeReply> {
        let dead = self.tombstones.get(&attempt).is_some_and(|until| *until > now.steady_ns);
        if dead || self.ended.is_some_and(|(ended, _)| ended == attempt) {
            return Some(NodeReply::Ended);
        }
        let (_, until) = self.holder(now).filter(|(owner, _)| *owner != attempt)?;
        let remaining = Duration::from_nanos(until - now.steady_ns);
        Token::new(self.counter).map(|counter| NodeReply::Busy { counter, remaining })
    }

    fn holder(&self, now: Now) -> Option<(AttemptId, u64)> {
        self.lease.filter(|(_, until)| *until > now.steady_ns)
    }

    /// Returns the value that a new counter must exceed.
    fn floor(&self, marks: Marks) -> u64 {
        if self.counter == 0 { marks.high } else { self.counter.max(marks.floor) }
    }

    fn grant(&mut self, now: Now, attempt: AttemptId, ttl: Duration) {
        let until = after(now, ttl);
        self.lease = Some((attempt, until));
        self.forget_ns = after(now, ttl.saturating_add(RETENTION));
    }
}

fn after(now: Now, time: Duration) -> u64 {
    after_ns(now.steady_ns, time)
}

fn after_ns(steady_ns: u64, time: Duration) -> u64 {
    steady_ns.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
#[path = "node_tests.rs"]
mod tests;
