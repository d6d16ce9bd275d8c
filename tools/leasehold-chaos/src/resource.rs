//! What the lock protects: a number that is read, and written back one larger, with or without a
//! fence. It is a file of records, one for each read and write in the order in which they came; the
//! last one says how things stand, so that a process killed in the midst leaves all or nothing.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

use crate::now;

/// The numbers of a record, eight bytes each.
const WORDS: usize = 7;
const BYTES: usize = 8 * WORDS;
/// Bytes of a record.
pub(crate) const RECORD: u64 = BYTES as u64;

/// One read or write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Visit {
    pub(crate) at: u64,
    /// The number of the client's process.
    pub(crate) client: u64,
    pub(crate) token: u64,
    pub(crate) writes: bool,
    /// False: refused.
    pub(crate) taken: bool,
    /// The number, from here on.
    pub(crate) value: u64,
    /// The highest token so far.
    pub(crate) highest: u64,
}

impl Visit {
    fn bytes(&self) -> Vec<u8> {
        let flags = [self.writes, self.taken].map(u64::from);
        [self.at, self.client, self.token, flags[0], flags[1], self.value, self.highest]
            .map(u64::to_le_bytes)
            .concat()
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        let mut words = bytes
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()));
        let mut word = || words.next().unwrap_or_default();
        let [at, client, token, writes, taken] = [word(), word(), word(), word(), word()];
        let (writes, taken) = (writes == 1, taken == 1);
        Self { at, client, token, writes, taken, value: word(), highest: word() }
    }
}

/// The file, opened once: its lock belongs to this opening alone.
#[derive(Debug)]
pub(crate) struct Resource {
    file: File,
    fenced: bool,
}

impl Resource {
    /// Opens the file, and makes it if it is not there.
    pub(crate) fn open(path: &Path, fenced: bool) -> io::Result<Self> {
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        Ok(Self { file, fenced })
    }

    /// The number; `None` when the fence has seen a later token. It takes note of who reads, since
    /// a client that writes what was read must not be overtaken.
    pub(crate) fn read(&self, client: u32, token: u64) -> io::Result<Option<u64>> {
        let visit = self.visit(client, token, None)?;
        Ok(visit.taken.then_some(visit.value))
    }

    /// Writes the number. False when the fence has refused.
    pub(crate) fn write(&self, client: u32, token: u64, value: u64) -> io::Result<bool> {
        Ok(self.visit(client, token, Some(value))?.taken)
    }

    /// Does something while no client is in the midst of a visit.
    pub(crate) fn while_nobody_visits<T>(
        &self,
        action: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        flock(&self.file, FlockOperation::LockExclusive)?;
        let done = action();
        flock(&self.file, FlockOperation::Unlock)?;
        done
    }

    /// Who came last.
    pub(crate) fn last(&self) -> io::Result<Visit> {
        self.while_nobody_visits(|| Ok(self.end()?.1))
    }

    /// Everything that has happened to a resource.
    pub(crate) fn history(path: &Path) -> io::Result<Vec<Visit>> {
        Ok(std::fs::read(path)?.chunks_exact(BYTES).map(Visit::from_bytes).collect())
    }

    fn visit(&self, client: u32, token: u64, value: Option<u64>) -> io::Result<Visit> {
        self.while_nobody_visits(|| {
            let (end, last) = self.end()?;
            let taken = !self.fenced || token >= last.highest;
            let visit = Visit {
                at: now(),
                client: client.into(),
                token,
                writes: value.is_some(),
                taken,
                value: value.filter(|_| taken).unwrap_or(last.value),
                highest: last.highest.max(token),
            };
            self.file.write_all_at(&visit.bytes(), end)?;
            Ok(visit)
        })
    }

    /// Where the next record goes, and the last one.
    fn end(&self) -> io::Result<(u64, Visit)> {
        let length = self.file.metadata()?.len() / RECORD * RECORD;
        if length == 0 {
            return Ok((0, Visit::default()));
        }
        let mut bytes = [0; BYTES];
        self.file.read_exact_at(&mut bytes, length - RECORD)?;
        Ok((length, Visit::from_bytes(&bytes)))
    }
}

/// The resources that a hold visits.
#[derive(Debug)]
pub(crate) struct Resources {
    /// Those in which it counts.
    counted: Vec<Resource>,
    /// One that permits of all slots only read.
    noted: Option<Resource>,
}

impl Resources {
    pub(crate) fn new(counted: Vec<Resource>, noted: Option<Resource>) -> Self {
        Self { counted, noted }
    }

    /// Reads the numbers.
    pub(crate) fn read(&self, client: u32, token: u64) -> io::Result<Vec<Option<u64>>> {
        if let Some(noted) = &self.noted {
            noted.read(client, token)?;
        }
        self.counted.iter().map(|one| one.read(client, token)).collect()
    }

    /// Writes the numbers that were read, each one larger.
    pub(crate) fn write(&self, client: u32, token: u64, seen: &[Option<u64>]) -> io::Result<()> {
        for (seen, resource) in seen.iter().zip(&self.counted) {
            if let Some(value) = seen {
                resource.write(client, token, value + 1)?;
            }
        }
        Ok(())
    }
}

/// Does something while no client is in the midst of a visit of any of them.
pub(crate) fn while_nobody_visits_any<T>(
    resources: &[Resource],
    action: &mut dyn FnMut() -> io::Result<T>,
) -> io::Result<T> {
    match resources.split_first() {
        Some((one, rest)) => one.while_nobody_visits(|| while_nobody_visits_any(rest, action)),
        None => action(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_refuses_whom_it_has_seen_overtaken_and_the_other_nobody() {
        let folder = tempfile::tempdir().unwrap();
        for fenced in [true, false] {
            let path = folder.path().join(fenced.to_string());
            let one = Resource::open(&path, fenced).unwrap();
            let other = Resource::open(&path, fenced).unwrap();
            assert_eq!(one.read(1, 33).unwrap(), Some(0));
            assert_eq!(other.read(2, 34).unwrap(), Some(0));
            assert!(other.write(2, 34, 1).unwrap());
            assert_eq!(one.write(1, 33, 1).unwrap(), !fenced);
            assert_eq!(one.read(1, 33).unwrap().is_some(), !fenced);
            let last = one.last().unwrap();
            assert_eq!((last.client, last.value, last.highest), (1, 1, 34));
            let history = Resource::history(&path).unwrap();
            assert_eq!(history.len(), 5);
            assert_eq!(history[4], last);
        }
    }
}
