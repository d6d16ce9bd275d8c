//! Whether a read-write lock keeps readers and writers apart: a record in a file that a writer changes in two
//! steps. Who reads it in between, or finds it changed at the end, was not kept apart.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The number of the write that has begun (8 bytes, little endian), of the one that has ended (8 bytes), and
/// its token (8 bytes).
pub(crate) const LENGTH: usize = 24;

/// One task's view of the record.
#[derive(Debug)]
pub(crate) struct Record(File);

/// What a task has seen when it entered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entered {
    /// The write that has begun last; that of this task, if it writes.
    write: u64,
    token: u64,
    /// No write was under way.
    whole: bool,
    /// The token is larger than that of the last writer, or there are none.
    pub(crate) token_grew: bool,
}

impl Record {
    /// Opens the file.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        OpenOptions::new().read(true).write(true).open(path).map(Self)
    }

    fn read(&self) -> io::Result<[u64; 3]> {
        let mut bytes = [0; LENGTH];
        self.0.read_exact_at(&mut bytes, 0)?;
        let mut numbers = [0; 3];
        for (number, bytes) in numbers.iter_mut().zip(bytes.chunks_exact(8)) {
            *number = bytes.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte));
        }
        Ok(numbers)
    }

    /// Begins to read; `token` is 0 where there is none.
    pub(crate) fn begin_read(&self, token: u64) -> io::Result<Entered> {
        let [begun, ended, last] = self.read()?;
        let token_grew = token == 0 || token > last;
        Ok(Entered { write: begun, token, whole: begun == ended, token_grew })
    }

    /// Ends to read. Returns false unless the record was whole and stayed as it was.
    pub(crate) fn end_read(&self, entered: Entered) -> io::Result<bool> {
        let [begun, ended, _] = self.read()?;
        Ok(entered.whole && begun == entered.write && ended == begun)
    }

    /// Begins to write.
    pub(crate) fn begin_write(&self, token: u64) -> io::Result<Entered> {
        let read = self.begin_read(token)?;
        let write = read.write + 1;
        self.0.write_all_at(&write.to_le_bytes(), 0)?;
        Ok(Entered { write, ..read })
    }

    /// Ends to write. Returns false unless this was the only writer.
    pub(crate) fn end_write(&self, entered: Entered) -> io::Result<bool> {
        let [begun, ended, _] = self.read()?;
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&entered.write.to_le_bytes());
        bytes[8..].copy_from_slice(&entered.token.to_le_bytes());
        self.0.write_all_at(&bytes, 8)?;
        Ok(entered.whole && begun == entered.write && ended + 1 == begun)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_beside_a_writer_and_a_writer_beside_both_are_seen() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [0; LENGTH]).unwrap();
        let (one, other) = (Record::open(file.path()).unwrap(), Record::open(file.path()).unwrap());
        let write = |record: &Record, token| record.begin_write(token).unwrap();
        let read = |token| other.begin_read(token).unwrap();

        // Kept apart.
        let writing = write(&one, 5);
        assert!(writing.token_grew && one.end_write(writing).unwrap());
        let reading = [read(6), read(6)];
        assert!(
            reading.iter().all(|entered| entered.token_grew && other.end_read(*entered).unwrap())
        );
        assert!(!read(5).token_grew && !read(4).token_grew && read(0).token_grew);

        // A reader while a writer is inside, and a writer while a reader is.
        let writing = write(&one, 7);
        let inside = read(8);
        assert!(!other.end_read(inside).unwrap());
        assert!(one.end_write(writing).unwrap());
        let reading = read(8);
        let writing = write(&one, 9);
        assert!(one.end_write(writing).unwrap() && !other.end_read(reading).unwrap());

        // Two writers: one of them sees it at least.
        let (first, second) = (write(&one, 10), write(&other, 11));
        let ends = [one.end_write(first).unwrap(), other.end_write(second).unwrap()];
        assert!(ends.contains(&false), "{ends:?}");
    }
}
