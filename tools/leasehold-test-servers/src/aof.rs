//! The append-only file of a server, and the loss of its tail.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::RedisServer;

/// Whether a file was written anew is looked at so often, with this pause.
const LOOKS: u32 = 12_000;
const LOOK: Duration = Duration::from_millis(5);

impl RedisServer {
    /// Size of the append-only file in bytes: the part that commands are appended to.
    ///
    /// # Errors
    /// Without `append_only`.
    pub fn aof_bytes(&self) -> io::Result<u64> {
        Ok(fs::metadata(self.aof()?)?.len())
    }

    /// What was appended after the first `bytes`: commands in the protocol of Redis.
    ///
    /// # Errors
    /// Without `append_only`.
    pub fn appended_after(&self, bytes: u64) -> io::Result<Vec<u8>> {
        let mut file = fs::read(self.aof()?)?;
        Ok(file.split_off(file.len().min(usize::try_from(bytes).unwrap_or(usize::MAX))))
    }

    /// Cuts `bytes` off the end of the append-only file of a killed server, as a machine does
    /// that loses its power before they are written.
    ///
    /// # Errors
    /// When it is running; without `append_only`.
    pub fn truncate_aof(&self, bytes: u64) -> io::Result<()> {
        if self.pid() != 0 {
            return Err(io::Error::other("kill the server before its file is cut"));
        }
        let file = OpenOptions::new().write(true).open(self.aof()?)?;
        let length = file.metadata()?.len();
        file.set_len(length.saturating_sub(bytes))
    }

    /// Writes the append-only file anew, from what the server has in memory, and waits until it is there.
    ///
    /// # Errors
    /// When the server cannot write, or not within a minute.
    pub fn rewrite_aof(&self) -> io::Result<()> {
        self.admin(&["BGREWRITEAOF"])?;
        for _ in 0..LOOKS {
            let info = self.admin(&["INFO", "persistence"])?.text();
            let says = |line: &str| info.lines().any(|one| one.trim() == line);
            if says("aof_rewrite_in_progress:0") && says("aof_rewrite_scheduled:0") {
                return match says("aof_last_bgrewrite_status:ok") {
                    true => Ok(()),
                    false => Err(io::Error::other("the server cannot write its file anew")),
                };
            }
            std::thread::sleep(LOOK);
        }
        Err(io::Error::other("the server does not write its file anew within a minute"))
    }

    /// The file that commands are appended to: since Redis 7 the manifest's last one of type `i`.
    fn aof(&self) -> io::Result<PathBuf> {
        let directory = self.data().join("appendonlydir");
        let manifest = fs::read_to_string(directory.join("appendonly.aof.manifest"))?;
        let last = manifest.lines().rfind(|line| line.ends_with(" type i"));
        let name = last.and_then(|line| line.split(' ').nth(1));
        name.map(|name| directory.join(name)).ok_or_else(|| io::Error::other("no file is open"))
    }
}
