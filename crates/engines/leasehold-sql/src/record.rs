//! One lock as the tables store it.
//!
//! The row of a lock that clients read has an attempt of no client, and its lease lasts as long as
//! that of the last reader. So statements and clients that know no readers take the lock as held.

mod ask;
mod read;
mod readers;
mod write;

use std::time::Duration;

use leasehold_core::proto::read_write::{
    self, Member, Mode, Parts, Phase, STEP, WAITER_LEASE, phases_ahead,
};
use leasehold_core::{AttemptId, ClientId, Now, Result};

pub(crate) use self::ask::{COLUMNS, Question, ask, ask_row, list};
pub(crate) use self::read::Found;
use self::readers::LastRead;
pub(crate) use self::write::KindRow;

use crate::connection::Value;
use crate::error::strange;
use crate::kind::{Kind, RETENTION};

/// A waiter whose client has been silent for this long does not count any more.
pub(crate) const PATIENCE: Duration = WAITER_LEASE;

/// Data that stays with an attempt, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) person: Vec<u8>,
    pub(crate) asked_us: u64,
}

/// A lock that decides about its own steps.
pub(crate) type Machine = read_write::Record<Tag>;

/// What the tables contain about one lock, as far as a step of some attempts needs it.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) now: Now,
    /// The stamp of the last writer; `None` if there is no row.
    pub(crate) stamp: Option<i64>,
    /// [`of_row`](Self::of_row) leaves out the members of a read phase.
    pub(crate) parts: Parts<Tag>,
    /// When the lease of the row ends.
    pub(crate) until_ns: u64,
    pub(crate) since_us: u64,
    /// True if a client may wait.
    pub(crate) has_queue: bool,
    /// Until when ended attempts are remembered.
    pub(crate) ended_us: u64,
    /// The kind that the row was written for last; [`kind`](Self::kind) says whether it has the name.
    written_for: Kind,
    /// The last ticket that was given.
    ticket: u64,
    waiting: Waiting,
    /// The members of the phase that have a row as readers.
    stored: Vec<Member<Tag>>,
    last_read: Option<LastRead>,
}

/// How many clients wait in one mode, and how many dead entries are left.
#[derive(Clone, Copy, Debug, Default)]
struct Queue {
    alive: u64,
    stale: u64,
}

/// How many clients wait.
#[derive(Clone, Debug, Default)]
struct Waiting {
    readers: Queue,
    writers: Queue,
    /// For the step's own attempts that wait: how many waiters of the same mode precede them.
    places: Vec<(AttemptId, u64)>,
}

impl Waiting {
    fn of(&self, mode: Mode) -> Queue {
        match mode {
            Mode::Read => self.readers,
            Mode::Write => self.writers,
        }
    }

    fn of_mut(&mut self, mode: Mode) -> &mut Queue {
        match mode {
            Mode::Read => &mut self.readers,
            Mode::Write => &mut self.writers,
        }
    }
}

pub(crate) fn now(us: u64) -> Now {
    Now { steady_ns: us.saturating_mul(1000), wall_ns: us.saturating_mul(1000) }
}

pub(crate) fn us(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Returns the attempt in the row of a lock that clients read. No client has its id.
pub(crate) fn nobody() -> AttemptId {
    AttemptId::from_bytes([0; 16])
}

/// Returns the number of a client in a column.
pub(crate) fn client_number(client: ClientId) -> i64 {
    let bytes = AttemptId::new(client, 0, 0).to_bytes();
    let mut first = [0; 8];
    first.copy_from_slice(&bytes[..8]);
    i64::from_be_bytes(first)
}

/// Parses an attempt in a column.
pub(crate) fn attempt(value: &Value) -> Result<AttemptId> {
    let bytes = <[u8; 16]>::try_from(value.bytes()?);
    bytes.map(AttemptId::from_bytes).map_err(|_| strange("an attempt of another length"))
}

impl Record {
    /// Parses the reply to [`ask_row`]; it contains no queue and no readers.
    pub(crate) fn of_row(row: &[Value]) -> Result<Self> {
        let [clock, stamp, fields @ ..] = row else { return Err(strange("a short row")) };
        let mut record = Self {
            now: now(clock.unsigned()?),
            stamp: None,
            parts: Parts::default(),
            until_ns: 0,
            since_us: 0,
            has_queue: false,
            ended_us: 0,
            written_for: Kind::Lock,
            ticket: 0,
            waiting: Waiting::default(),
            stored: Vec::new(),
            last_read: None,
        };
        if *stamp == Value::Null {
            return Ok(record);
        }
        let [state, owner, person, base, top, lost, until, since, confirmed, line, ended, ticket] =
            fields
        else {
            return Err(strange("a short row"));
        };
        record.stamp = Some(stamp.number()?);
        record.until_ns = until.unsigned()?.saturating_mul(1000);
        record.since_us = since.unsigned()?;
        record.has_queue = line.number()? != 0;
        record.ended_us = ended.unsigned()?;
        record.ticket = ticket.unsigned()?;
        let owner = match owner.bytes()? {
            [] => None,
            _ => Some(attempt(owner)?).filter(|owner| *owner != nobody()),
        };
        let tag = Tag { person: person.bytes()?.to_vec(), asked_us: record.since_us };
        let parts = &mut record.parts;
        let state = state.number()?;
        record.written_for = Kind::of_state(state);
        parts.phase = match (state, owner) {
            _ if record.written_for != Kind::Lock => Phase::Free,
            (0, _) => Phase::Free,
            (1, None) => Phase::Read,
            (1, Some(_)) => Phase::Write,
            (2, _) => Phase::Kept,
            (other, _) => return Err(strange(&format!("state {other}"))),
        };
        parts.turn = if parts.phase == Phase::Read { Mode::Write } else { Mode::Read };
        parts.last = owner.map(|owner| (owner, tag));
        if let (Phase::Write | Phase::Kept, Some((attempt, tag))) = (parts.phase, &parts.last) {
            let (confirmed, tag) = (confirmed.number()? != 0, tag.clone());
            let member = Member { attempt: *attempt, until_ns: record.until_ns, confirmed, tag };
            parts.members = vec![member];
        }
        parts.base = base.unsigned()?;
        parts.top = top.unsigned()?;
        parts.lost = lost.unsigned()?;
        Ok(record)
    }

    /// Returns which kind has the name now; `None` if any kind may take it.
    pub(crate) fn kind(&self) -> Option<Kind> {
        self.stamp?;
        let now_us = self.now.unix_us();
        let lasts = |until_us: u64| until_us > now_us;
        let until_us = self.until_ns / 1000;
        let kept = match self.written_for {
            // A lock whose row the next sweep removes.
            Kind::Lock => {
                let until_us = until_us.saturating_add(us(RETENTION));
                self.has_queue || lasts(until_us) || lasts(self.ended_us)
            }
            Kind::Semaphore | Kind::Latch => lasts(until_us),
        };
        kept.then_some(self.written_for)
    }

    /// Returns the kind that has the name now, if it is not a lock.
    pub(crate) fn other_kind(&self) -> Option<Kind> {
        self.kind().filter(|kind| *kind != Kind::Lock)
    }

    /// Returns how long the lease of the row lasts.
    pub(crate) fn remaining(&self) -> Duration {
        match self.parts.phase {
            Phase::Free => Duration::ZERO,
            _ => Duration::from_nanos(self.until_ns.saturating_sub(self.now.steady_ns)),
        }
    }

    /// Returns the attempt that holds the lock alone, or has kept it.
    pub(crate) fn owner(&self) -> Option<&Member<Tag>> {
        self.parts.members.first().filter(|_| self.parts.phase != Phase::Read)
    }

    /// Returns how many phases precede that of an attempt; a new attempt is the last.
    pub(crate) fn place(&self, attempt: AttemptId, mode: Mode) -> u64 {
        let known = self.waiting.places.iter().find(|(known, _)| *known == attempt);
        let ahead =
            known.map_or(self.waiting.of(mode).alive.saturating_sub(1), |(_, place)| *place);
        let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let others = count(self.waiting.of(mode.other()).alive);
        phases_ahead(mode, self.parts.turn, count(ahead), others, STEP) as u64
    }
}
