//! The record of a lock: its current or last holder, and the token.

use leasehold_core::{AttemptId, Holder, Name, Now, Result, Token};
use serde::{Deserialize, Serialize};

use super::directory::{Files, write_record};
use super::os_error::foreign;

const VERSION: u64 = 1;

/// The description of a holder, stored as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    version: u64,
    name: String,
    token: u64,
    attempt: String,
    host: String,
    pid: u32,
    /// The inode of the process id namespace, because equal ids in two namespaces are different
    /// processes.
    pid_namespace: Option<u64>,
    since_unix_ms: u64,
    metadata: Option<String>,
    /// Absent for a writer, so that its record is the same as before there were readers. A client of
    /// that time reads the record of a phase as that of a holder, and gets a larger token after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    read: Option<ReadPhase>,
    /// With `wire=flock`: the process that called flock(2), as the kernel names it. The holder may be another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    locker: Option<Locker>,
}

/// A process by its id in a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Locker {
    pub(crate) pid: u32,
    pub(crate) pid_namespace: Option<u64>,
}

/// A phase of readers, which the holder that the record names has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReadPhase {
    /// The latest time of arrival in the queue of a reader that enters although a writer waits.
    pub(crate) entered_until: u64,
}

/// Which readers enter before the writers that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// All that wait, because a writer was the last holder.
    All,
    /// Those that had arrived by this time, because they belong to the last read phase.
    Until(u64),
}

impl Due {
    /// Returns which readers are due after this record.
    pub(crate) fn after(last: Option<&Record>) -> Self {
        match last.map(|record| record.read) {
            Some(None) => Self::All,
            Some(Some(phase)) => Self::Until(phase.entered_until),
            None => Self::Until(0),
        }
    }

    /// Returns true if a reader that arrived at this time is due.
    pub(crate) fn has(self, arrived: u64) -> bool {
        match self {
            Self::All => true,
            Self::Until(until) => arrived <= until,
        }
    }
}

impl Record {
    /// Returns the record of a holder that acquires the lock now, after the holder of `last`.
    pub(crate) fn new(
        name: &Name,
        token: Token,
        holder: &Holder,
        pid_namespace: Option<u64>,
        now: Now,
    ) -> Self {
        Self {
            version: VERSION,
            name: name.as_str().to_owned(),
            token: token.get(),
            attempt: holder.attempt.to_string(),
            host: holder.host.clone(),
            pid: holder.pid,
            pid_namespace,
            since_unix_ms: now.unix_ms(),
            metadata: holder.metadata.clone(),
            read: None,
            locker: None,
        }
    }

    /// Returns the version of the format.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Makes this the record of a read phase that its holder begins.
    pub(crate) fn with_read(self, read: ReadPhase) -> Self {
        Self { read: Some(read), ..self }
    }

    /// Names the process that called flock(2).
    pub(crate) fn with_locker(self, locker: Locker) -> Self {
        Self { locker: Some(locker), ..self }
    }

    /// Returns the process that called flock(2), if the record says so.
    pub(crate) fn locker(&self) -> Option<Locker> {
        self.locker
    }

    /// Returns the read phase, or `None` for a writer.
    pub(crate) fn read_phase(&self) -> Option<ReadPhase> {
        self.read
    }

    /// Returns what is wrong with a record that was read.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        if Token::new(self.token).is_none() {
            return Some("its token is out of range");
        }
        AttemptId::parse(&self.attempt).is_none().then_some("its attempt is not an attempt id")
    }

    /// Replaces the old record, as [`write_record`] does, and returns the token. Only the holder of the lock may call
    /// this.
    pub(crate) fn write(&self, files: &Files) -> Result<Token> {
        write_record(self, files)?;
        self.token().ok_or_else(|| foreign(&files.record, "its token is out of range"))
    }

    /// Returns the name of the lock.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the token of this holder.
    pub(crate) fn token(&self) -> Option<Token> {
        Token::new(self.token)
    }

    /// Returns when this holder acquired the lock, in milliseconds since the Unix epoch.
    pub(crate) fn since_unix_ms(&self) -> u64 {
        self.since_unix_ms
    }

    /// Returns the namespace of the holder's process id.
    pub(crate) fn pid_namespace(&self) -> Option<u64> {
        self.pid_namespace
    }

    /// Returns the holder, for people.
    pub(crate) fn holder(&self) -> Option<Holder> {
        let attempt = AttemptId::parse(&self.attempt)?;
        Some(Holder::new(attempt, self.host.clone(), self.pid, self.metadata.clone()))
    }
}

/// Returns the token of the next holder: larger than the last one and than the clock's
/// microseconds, so that it grows even if the directory was deleted in between.
///
/// At least 2: the kernel would merge a lock on byte 1 with the one on byte 0, and the token could
/// not be read.
pub(crate) fn next_token(last: Option<&Record>, now: Now, files: &Files) -> Result<Token> {
    let after = last.map_or(2, |record| record.token.saturating_add(1));
    // A clock beyond the year 2255 is wrong, and must not use up all tokens.
    let clock = Token::new(now.unix_us()).map_or(2, Token::get);
    Token::new(after.max(clock)).ok_or_else(|| {
        foreign(
            &files.record,
            "has the largest possible token; no later holder can get a larger one",
        )
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use leasehold_core::ErrorKind;
    use leasehold_core::proto::ClientId;

    use super::*;

    fn record(token: u64) -> Record {
        let attempt = AttemptId::new(ClientId::from_bits(1), 2, 3);
        let holder = Holder::new(attempt, "here".into(), 7, None);
        let name = Name::new("a").unwrap();
        Record::new(&name, Token::new(token).unwrap(), &holder, None, Now::default())
    }

    fn files(dir: &Path) -> Files {
        let file = |suffix: &str| dir.join(format!("a.{suffix}"));
        let (lock, record, draft) = (file("lock"), file("json"), file("tmp"));
        let (queue, readers, slots) = (file("wait"), file("readers"), file("slots"));
        Files { lock, record, draft, queue, readers, slots }
    }

    #[test]
    fn tokens_grow_whatever_the_clock_does() {
        let files = files(Path::new("/nowhere"));
        let at_us = |us: u64| Now { steady_ns: 0, wall_ns: us * 1000 };
        let next = |last: Option<u64>, us: u64| {
            next_token(last.map(record).as_ref(), at_us(us), &files).map(Token::get)
        };
        assert_eq!(next(None, 5_000).unwrap(), 5_000);
        assert_eq!(next(Some(9_000), 5_000).unwrap(), 9_001, "the clock went back");
        assert_eq!(next(Some(9_000), 1 << 53).unwrap(), 9_001, "the clock is mad");
        assert_eq!(next(None, 0).unwrap(), 2);
        assert_eq!(next(Some(1), 0).unwrap(), 2);
        let error = next(Some(Token::MAX.get()), 5_000).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Foreign);
    }

    #[test]
    fn a_client_from_before_there_were_readers_reads_the_record_of_a_phase() {
        /// The record of revision c26c1cc.
        #[derive(Deserialize, Serialize)]
        struct Before {
            version: u64,
            name: String,
            token: u64,
            attempt: String,
            host: String,
            pid: u32,
            pid_namespace: Option<u64>,
            since_unix_ms: u64,
            metadata: Option<String>,
        }
        let phase = record(5).with_read(ReadPhase { entered_until: 9 });
        let read: Before = serde_json::from_slice(&serde_json::to_vec(&phase).unwrap()).unwrap();
        assert_eq!((read.version, read.token), (1, 5));
        let written = serde_json::to_vec(&read).unwrap();
        assert_eq!(
            written,
            serde_json::to_vec(&record(5)).unwrap(),
            "a writer's record has changed"
        );
        let last: Record = serde_json::from_slice(&written).unwrap();
        assert_eq!(Due::after(Some(&last)), Due::All);
        assert_eq!(Due::after(Some(&phase)), Due::Until(9));
    }

    #[test]
    fn a_record_is_read_as_it_was_written_and_only_for_its_own_lock() {
        let dir = tempfile::tempdir().unwrap();
        let files = files(dir.path());
        record(5).write(&files).unwrap();
        assert!(!files.draft.exists());
        let read = Record::read(&files.record, &Name::new("a").unwrap()).unwrap();
        assert_eq!(read, Some(record(5)));
        let error = Record::read(&files.record, &Name::new("b").unwrap()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Foreign);
    }
}
