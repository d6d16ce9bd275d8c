//! Who has locked a file by flock(2), as the kernel lists it in `/proc/locks`. To try the lock instead would disturb
//! others: a `flock -n` at that moment gives up.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::libc;
use nix::sys::stat::{major, minor};

use super::super::lock_file::is_absent;

/// The inode of the first process id namespace. Others do not list the locks of processes that they do not see.
const ALL_PROCESSES: u64 = 0xEFFF_FFFC;

/// A lock of flock(2) on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flocked {
    /// The process that locked it. It may have ended, if another one has the descriptor too.
    pub(super) pid: u32,
    /// The lock is shared (`flock -s`).
    pub(super) reads: bool,
}

/// Returns the lock on the file, or one of those of readers; `None` if the file is not locked, or does not exist.
pub(super) fn look(path: &Path) -> io::Result<Option<Flocked>> {
    // Such a descriptor locks nothing, and its end is no event for those that wait.
    let file = match OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(path) {
        Err(error) if is_absent(&error) => return Ok(None),
        file => file?,
    };
    let inodes = inodes(&file)?;
    let locks = fs::read_to_string("/proc/locks")?;
    Ok(locks.lines().find_map(|line| flocked(line, &inodes)))
}

/// Returns true if the kernel lists the locks of all processes here.
pub(super) fn sees_all(pid_namespace: Option<u64>) -> bool {
    pid_namespace == Some(ALL_PROCESSES)
}

/// Returns how the list may name the file. It has the device and the inode of the file system below, which
/// a subvolume or an overlay does not show in `stat`.
fn inodes(file: &File) -> io::Result<Vec<String>> {
    let meta = file.metadata()?;
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd()))?;
    let value =
        |key: &str| info.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok());
    // Linux before 5.14 does not say the inode.
    let inode: u64 = value("ino:").unwrap_or_else(|| meta.ino());
    let mount: Option<u64> = value("mnt_id:");
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let mounted = mounts.lines().find_map(|line| device_of(line, mount?));
    let devices = [Some((major(meta.dev()), minor(meta.dev()))), mounted];
    Ok(devices
        .iter()
        .flatten()
        .map(|(major, minor)| format!("{major:02x}:{minor:02x}:{inode}"))
        .collect())
}

/// Returns the device of a line of `mountinfo` about this mount.
fn device_of(line: &str, mount: u64) -> Option<(u64, u64)> {
    let mut words = line.split(' ');
    if words.next()?.parse() != Ok(mount) {
        return None;
    }
    let (major, minor) = words.nth(1)?.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Returns the lock that a line is about, such as `5: FLOCK  ADVISORY  WRITE 10799 fe:00:9986014 0 EOF`. One that waits
/// has an arrow behind the number.
fn flocked(line: &str, inodes: &[String]) -> Option<Flocked> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [_, "FLOCK", _, mode, pid, inode, ..] = words[..] else { return None };
    let is_it = inodes.iter().any(|known| known == inode);
    is_it.then_some(Flocked { pid: pid.parse().ok()?, reads: mode == "READ" })
}

#[cfg(test)]
mod tests {
    use super::super::super::flock_open::open;
    use super::*;

    #[test]
    fn the_list_is_read_as_the_kernel_writes_it() {
        let inodes = ["fe:00:9986014".to_owned()];
        let found = |line| flocked(line, &inodes);
        assert_eq!(
            found("5: FLOCK  ADVISORY  WRITE 10799 fe:00:9986014 0 EOF"),
            Some(Flocked { pid: 10799, reads: false })
        );
        assert_eq!(
            found("15: FLOCK  ADVISORY  READ  7 fe:00:9986014 0 EOF"),
            Some(Flocked { pid: 7, reads: true })
        );
        assert_eq!(found("5: -> FLOCK  ADVISORY  WRITE 1 fe:00:9986014 0 EOF"), None);
        assert_eq!(found("5: OFDLCK ADVISORY  WRITE -1 fe:00:9986014 0 EOF"), None);
        assert_eq!(found("5: FLOCK  ADVISORY  WRITE 1 fe:00:998601 0 EOF"), None);
        let line = "28 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw";
        assert_eq!(device_of(line, 28), Some((254, 0)));
        assert_eq!(device_of(line, 2), None);
    }

    #[test]
    fn a_lock_is_seen_and_not_taken() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        assert_eq!(look(&path).unwrap(), None);
        let (file, other) = (open(&path).unwrap(), open(&path).unwrap());
        assert_eq!(look(&path).unwrap(), None);
        assert!(file.try_lock().unwrap());
        let ours = Flocked { pid: std::process::id(), reads: false };
        assert_eq!(look(&path).unwrap(), Some(ours));
        file.unlock().unwrap();
        assert_eq!(look(&path).unwrap(), None);
        assert!(other.try_lock().unwrap());
    }
}
