//! Reads `NAME.json`: the record of a lock, of a semaphore, or of a latch.

use std::path::Path;

use leasehold_core::backend::{is_a_latch, is_a_lock, is_a_semaphore, is_no_latch};
use leasehold_core::{Name, Result};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::directory::{Directory, read_small};
use super::escape::{escape, unescape};
use super::latch_record::{LATCH, LatchRecord};
use super::lock_file::is_absent;
use super::os_error::{failed, foreign};
use super::record::Record;
use super::semaphore_record::{SEMAPHORE, SemaphoreRecord};

/// A record of any kind.
#[derive(Debug)]
pub(crate) enum StoredRecord {
    Lock(Record),
    Semaphore(SemaphoreRecord),
    Latch(LatchRecord),
}

/// What tells the kinds apart.
#[derive(Deserialize)]
struct Versioned {
    version: u64,
    /// Only of a semaphore.
    limit: Option<IgnoredAny>,
    /// Only of a latch.
    latch: Option<IgnoredAny>,
}

impl Versioned {
    fn is_newer(&self) -> bool {
        let known = match self.version {
            SEMAPHORE => self.limit.is_some(),
            LATCH => self.latch.is_some(),
            version => version < SEMAPHORE,
        };
        !known
    }
}

impl StoredRecord {
    /// Reads the record of a name; `None` if there is none.
    ///
    /// A record that is damaged, newer, or of another name is an error and is not changed.
    pub(crate) fn read(path: &Path, name: &Name) -> Result<Option<Self>> {
        let Some(stored) = Self::read_any(path)? else { return Ok(None) };
        if stored.name() != name.as_str() {
            return Err(foreign(
                path,
                &format!("is the record of another lock, {:?}; move it away", stored.name()),
            ));
        }
        Ok(Some(stored))
    }

    /// Reads the record of any name.
    pub(crate) fn read_any(path: &Path) -> Result<Option<Self>> {
        let bytes = match read_small(path) {
            Ok(bytes) => bytes,
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => return Err(failed("read", path, error)),
        };
        Self::of_bytes(path, &bytes).map(Some)
    }

    /// Reads the bytes of the record at this path.
    pub(crate) fn of_bytes(path: &Path, bytes: &[u8]) -> Result<Self> {
        let stored = match serde_json::from_slice::<Record>(bytes) {
            Ok(record) if record.version() < SEMAPHORE => Self::Lock(record),
            _ => Self::of_versioned(path, bytes)?,
        };
        let fault = match &stored {
            Self::Lock(record) => record.fault(),
            Self::Semaphore(record) => record.fault(),
            Self::Latch(_) => None,
        };
        match fault {
            Some(why) => Err(damaged(path, why)),
            None => Ok(stored),
        }
    }

    /// Returns true if a newer version has written the record at this path.
    pub(crate) fn is_of_newer_version(path: &Path) -> bool {
        let bytes = read_small(path).unwrap_or_default();
        serde_json::from_slice::<Versioned>(&bytes).is_ok_and(|kind| kind.is_newer())
    }

    /// Reads a record that is not known to be that of a lock.
    fn of_versioned(path: &Path, bytes: &[u8]) -> Result<Self> {
        let kind: Versioned = parse(path, bytes)?;
        Ok(match (kind.version, kind.limit.is_some(), kind.latch.is_some()) {
            (0..SEMAPHORE, ..) => Self::Lock(parse(path, bytes)?),
            (SEMAPHORE, true, _) => Self::Semaphore(parse(path, bytes)?),
            (LATCH, _, true) => Self::Latch(parse(path, bytes)?),
            (version, ..) => {
                return Err(foreign(
                    path,
                    &format!(
                        "record version {version}, written by a newer leasehold (this one knows version \
                         {LATCH}); upgrade this one or choose another directory"
                    ),
                ));
            }
        })
    }

    /// Returns the name of the lock whose files have this stem. The stem of a long name is cut, so
    /// the name is in the record. `None` if that record is missing or unreadable, or if the files
    /// do not belong to a lock.
    pub(crate) fn name_of(directory: &Directory, stem: &str) -> Option<Name> {
        unescape(stem).or_else(|| {
            let stored = Self::read_any(&directory.record_of(stem)).ok()??;
            let name = stored.name();
            Name::new(name).ok().filter(|name| escape(name) == stem)
        })
    }

    /// Returns the name that the record belongs to.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Lock(record) => record.name(),
            Self::Semaphore(record) => &record.name,
            Self::Latch(record) => &record.name,
        }
    }
}

impl Record {
    /// Reads a lock's record; `None` if there is none. That of a semaphore or a latch is an error.
    pub(crate) fn read(path: &Path, name: &Name) -> Result<Option<Self>> {
        match StoredRecord::read(path, name)? {
            None => Ok(None),
            Some(StoredRecord::Lock(record)) => Ok(Some(record)),
            Some(StoredRecord::Semaphore(_)) => Err(is_a_semaphore()),
            Some(StoredRecord::Latch(_)) => Err(is_a_latch()),
        }
    }
}

impl SemaphoreRecord {
    /// Reads a semaphore's record; `None` if there is none. That of a lock or a latch is an error.
    pub(crate) fn read(path: &Path, name: &Name) -> Result<Option<Self>> {
        match StoredRecord::read(path, name)? {
            None => Ok(None),
            Some(StoredRecord::Semaphore(record)) => Ok(Some(record)),
            Some(StoredRecord::Lock(_)) => Err(is_a_lock()),
            Some(StoredRecord::Latch(_)) => Err(is_a_latch()),
        }
    }
}

impl LatchRecord {
    /// Reads the record of a latch; `None` if there is none. That of a lock or a semaphore is an error.
    pub(crate) fn read(path: &Path, name: &Name) -> Result<Option<Self>> {
        match StoredRecord::read(path, name)? {
            None => Ok(None),
            Some(StoredRecord::Latch(record)) => Ok(Some(record)),
            Some(StoredRecord::Lock(_) | StoredRecord::Semaphore(_)) => Err(is_no_latch()),
        }
    }
}

fn parse<T: DeserializeOwned>(path: &Path, bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|error| damaged(path, &error.to_string()))
}

fn damaged(path: &Path, why: &str) -> leasehold_core::Error {
    foreign(
        path,
        &format!(
            "is damaged ({why}) and was not changed; restore it, or remove it: the next \
             token is then taken from the clock"
        ),
    )
}
