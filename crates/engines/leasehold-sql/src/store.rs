//! The tables as the operations use them: single statements, and steps of the record of a
//! read-write lock.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use leasehold_core::clock::Clock;
use leasehold_core::{AttemptId, ClientId, Deadline, Name, Now, Result, random};

use crate::address::Address;
use crate::connection::Reply;
use crate::dialect::Packet;
use crate::error::{Fault, What};
use crate::notifications::Notifications;
use crate::pool::{Lane, Pool};
use crate::record::Record;
use crate::tables::Tables;

/// The longest pause before a step is tried again.
const LONGEST_PAUSE_US: u64 = 30_000;

/// How long missing functions are not used.
const ROUTINES_AGAIN_NS: u64 = 300_000_000_000;

/// The database, by its tables.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) tables: Tables,
    pub(crate) clock: Clock,
    pub(crate) pool: Pool,
    pub(crate) create: bool,
    /// Until when (on the steady clock) the functions of the database are not used.
    pub(crate) no_routines_until: AtomicU64,
    /// The tables can store readers.
    has_readers: AtomicBool,
    /// The tables can store semaphores and latches.
    has_records: AtomicBool,
    /// The tables can store observers.
    has_observers: AtomicBool,
}

/// Two packets with the same effect: one calls a function of the database, if there is one.
pub(crate) struct Ways {
    pub(crate) routine: Option<Packet>,
    pub(crate) plain: Packet,
}

/// What a step is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step<'a> {
    pub(crate) name: &'a Name,
    /// The attempts that take part.
    pub(crate) attempts: &'a [AttemptId],
    /// It concerns a reader, or may begin a read phase: it must know the readers, and the last read
    /// phase.
    pub(crate) readers: bool,
}

/// A completed step.
#[derive(Debug)]
pub(crate) struct Done<A> {
    pub(crate) answer: A,
    pub(crate) record: Record,
    /// The clients that the step must notify.
    pub(crate) told: Notifications,
    /// A round may have been written although its reply was lost.
    pub(crate) repeated: bool,
    /// The step knew the readers.
    pub(crate) readers: bool,
}

impl Store {
    pub(crate) fn new(address: &Address, clock: Clock) -> Self {
        let tables = address.tables.clone();
        Self {
            pool: Pool::new(address.target.clone(), address.pool, clock.clone()),
            tables,
            clock,
            create: address.create,
            no_routines_until: AtomicU64::new(0),
            has_readers: AtomicBool::new(false),
            has_records: AtomicBool::new(false),
            has_observers: AtomicBool::new(false),
        }
    }

    /// Returns true if the tables can store readers, as far as this client knows.
    pub(crate) fn has_readers(&self) -> bool {
        self.has_readers.load(Ordering::Relaxed)
    }

    /// Records whether the tables can store readers.
    pub(crate) fn set_has_readers(&self, has_readers: bool) {
        self.has_readers.store(has_readers, Ordering::Relaxed);
    }

    /// Returns true if the tables can store semaphores and latches, as far as this client knows.
    pub(crate) fn has_records(&self) -> bool {
        self.has_records.load(Ordering::Relaxed)
    }

    /// Records whether the tables can store semaphores and latches.
    pub(crate) fn set_has_records(&self, has_records: bool) {
        self.has_records.store(has_records, Ordering::Relaxed);
    }

    /// Records whether the tables can store observers.
    pub(crate) fn set_has_observers(&self, has_observers: bool) {
        self.has_observers.store(has_observers, Ordering::Relaxed);
    }

    /// Returns true if this client notifies observers.
    pub(crate) fn notifies_observers(&self) -> bool {
        self.has_observers.load(Ordering::Relaxed)
    }

    /// Returns the statement that notifies the observers of a name, if its row has this stamp.
    /// `None` if the engine has no messages.
    pub(crate) fn tell_observers(&self, name: &Name, stamp: i64) -> Option<String> {
        let Tables { dialect, locks, observers, .. } = &self.tables;
        if !self.notifies_observers() {
            return None;
        }
        let (name, clock) = (dialect.bytes(name.as_str().as_bytes()), dialect.now());
        Some(format!(
            "SELECT pg_notify(o.channel, 'C' || encode(o.name, 'hex')) FROM {observers} o \
             WHERE o.name = {name} AND o.until_us > {clock} \
             AND EXISTS (SELECT 1 FROM {locks} WHERE name = {name} AND stamp = {stamp})"
        ))
    }

    /// Returns the end of a time limit that begins now.
    pub(crate) fn within(&self, limit: Duration) -> Deadline {
        Deadline::after(self.clock.now(), limit)
    }

    /// Returns a number that no other process writes, not even a copy of this process.
    pub(crate) fn stamp(&self) -> i64 {
        (random::fresh() >> 1) as i64
    }

    /// Returns the channel on which a client is notified.
    pub(crate) fn channel(&self, client: ClientId) -> String {
        format!("{}{client}", self.tables.channels())
    }

    /// Sends a packet until no conflict in the database stops it.
    pub(crate) async fn run(
        &self,
        lane: Lane,
        packet: &Packet,
        until: Deadline,
    ) -> Result<Vec<Reply>, Fault> {
        self.run_open(lane, packet, until, &mut false).await
    }

    /// Does the same; sets `open` if the packet may have been carried out without a reply.
    pub(crate) async fn run_open(
        &self,
        lane: Lane,
        packet: &Packet,
        until: Deadline,
        open: &mut bool,
    ) -> Result<Vec<Reply>, Fault> {
        for round in 0.. {
            match self.pool.run(lane, packet, until, open).await {
                Err(fault) if fault.what == What::Conflict && !self.is_over(until) => {
                    self.pause(round).await;
                }
                done => return done,
            }
        }
        Err(Fault::late())
    }

    /// Sends one of two packets: the plain packet if the function is missing, not allowed or newer than the tables,
    /// and for a while after that.
    pub(crate) async fn run_either(
        &self,
        ways: &Ways,
        until: Deadline,
        open: &mut bool,
    ) -> Result<Vec<Reply>, Fault> {
        let known = ways.routine.as_ref().filter(|_| self.uses_routines());
        let Some(routine) = known else {
            return self.run_open(Lane::Usual, &ways.plain, until, open).await;
        };
        let fault = match self.run_open(Lane::Usual, routine, until, open).await {
            // The function may read a table that older tables do not have.
            Err(fault) if matches!(fault.what, What::NoRoutine | What::NoTable) => fault,
            done => return done,
        };
        // Nothing was done; if this is refused too, the function was not the cause.
        let done = self.run_open(Lane::Usual, &ways.plain, until, open).await;
        if done.is_ok() {
            let is_missing = fault.what == What::NoRoutine;
            let made = is_missing && self.create && self.make_routines(until).await;
            if !made {
                let again = (self.clock.now().steady_ns).saturating_add(ROUTINES_AGAIN_NS);
                if self.no_routines_until.swap(again, Ordering::Relaxed) == 0 {
                    let error = fault.error;
                    tracing::info!(%error, "the database functions are missing; create them: \
                                            leasehold init");
                }
            }
        }
        done
    }

    /// Returns false for a while after a function was missing.
    pub(crate) fn uses_routines(&self) -> bool {
        self.no_routines_until.load(Ordering::Relaxed) <= self.clock.now().steady_ns
    }

    pub(crate) fn is_over(&self, until: Deadline) -> bool {
        until.has_passed(self.clock.now())
    }

    /// Waits for a random time that grows with the rounds. There is no pause after the first round,
    /// which a single other client may have won.
    pub(crate) async fn pause(&self, round: u32) {
        let Some(before) = round.checked_sub(1) else { return };
        let longest = (500_u64 << before.min(10)).min(LONGEST_PAUSE_US);
        let pause = self.stamp().unsigned_abs() % longest;
        self.clock.sleep(Duration::from_micros(pause)).await;
    }
}

impl Store {
    /// Returns the messages of the server for other clients, each with its channel. `now` is the time of the step
    /// by the database's clock.
    pub(crate) fn words(&self, told: &Notifications, now: Now) -> Vec<(String, String)> {
        match self.tables.dialect.notifies() {
            true => told
                .words(now.unix_us())
                .map(|(client, word)| (self.channel(client), word))
                .collect(),
            false => Vec::new(),
        }
    }
}
