//! A row of ShedLock's table.

use std::time::Duration;

use leasehold_core::{AttemptId, Error, ErrorKind, Holder, Name, Result, State, Status, Token};

use crate::connection::{Reply, Value};
use crate::error::strange;

/// How far a time may be ahead of the database's clock: that may have been set back a little.
const AHEAD_US: i64 = 10_000_000;

/// A row as [`read`](crate::shedlock_table::ShedLockTable::read) returns it.
#[derive(Debug)]
pub(crate) struct Row {
    now_us: i64,
    until_us: i64,
    at_us: i64,
    pub(crate) by: String,
    pub(crate) name: String,
}

impl Row {
    /// Returns the rows of a reply.
    pub(crate) fn all(reply: Option<&Reply>) -> Result<Vec<Self>> {
        let reply = reply.ok_or_else(|| strange("no rows"))?;
        reply.rows.iter().map(|row| Self::of(row)).collect()
    }

    fn of(values: &[Value]) -> Result<Self> {
        let [now, until, at, by, name] = values else { return Err(strange("a short row")) };
        let text =
            |value: &Value| Ok::<_, Error>(String::from_utf8_lossy(value.bytes()?).into_owned());
        Ok(Self {
            now_us: now.number()?,
            until_us: until.number()?,
            at_us: at.number()?,
            by: text(by)?,
            name: text(name)?,
        })
    }

    /// Returns true while the lock is held.
    pub(crate) fn is_held(&self) -> bool {
        self.until_us > self.now_us
    }

    /// Returns true if this attempt wrote the row.
    pub(crate) fn is_by(&self, attempt: AttemptId) -> bool {
        self.attempt() == Some(attempt)
    }

    fn attempt(&self) -> Option<AttemptId> {
        AttemptId::parse(self.by.strip_prefix("leasehold:")?.get(..32)?)
    }

    pub(crate) fn left(&self) -> Duration {
        Duration::from_micros(u64::try_from(self.until_us.saturating_sub(self.now_us)).unwrap_or(0))
    }

    pub(crate) fn token(&self) -> Result<Token> {
        let token = u64::try_from(self.at_us).ok().and_then(Token::new);
        token.ok_or_else(|| strange("locked_at is out of range"))
    }

    /// Refuses a row that was not written by the database's clock.
    pub(crate) fn check(&self) -> Result<()> {
        if self.at_us <= self.now_us.saturating_add(AHEAD_US) {
            return Ok(());
        }
        let ahead = Duration::from_micros(self.at_us.abs_diff(self.now_us));
        Err(Error::new(
            ErrorKind::Foreign,
            format!(
                "locked_at of this row is {} s ahead of the database's clock: a program uses ShedLock without usingDbTime(), and \
                 its locks do not exclude this client; add usingDbTime() to each program",
                ahead.as_secs()
            ),
        ))
    }

    /// Returns the status of the lock.
    pub(crate) fn status(&self, name: &Name) -> Status {
        let mut status = Status::free(name);
        status.token = self.token().ok();
        status.since_unix_ms = u64::try_from(self.at_us / 1000).ok();
        status.holder = self.attempt().map(|attempt| {
            let (pid, host) =
                self.by.split_once(' ').and_then(|(_, at)| at.split_once('@')).unwrap_or_default();
            Holder::new(attempt, host.to_owned(), pid.parse().unwrap_or(0), None)
        });
        if let Err(error) = self.check() {
            status.note = Some(error.message().to_owned());
        }
        if !self.is_held() {
            return status;
        }
        status.state = State::Held;
        status.remaining = Some(self.left());
        if status.holder.is_none() {
            status.token = None;
            let shown: String = self.by.chars().take(64).collect();
            status.note.get_or_insert(format!("a client of another library holds it: {shown:?}"));
        }
        status
    }
}
