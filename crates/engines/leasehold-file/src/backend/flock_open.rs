//! Opens the file that callers of flock(2) lock, as flock(1) does.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::errno::Errno;
use nix::libc;

use super::lock_file::{LockFile, is_absent};

/// How often the file is opened again because other processes create and remove it.
const ROUNDS: usize = 16;

/// Opens the file, and creates it if it does not exist. Links are followed, but nothing is created at their end: others
/// may have put them into a shared directory.
///
/// An exclusive lock needs no right to write, except on network file systems.
pub(crate) fn open(path: &Path) -> io::Result<LockFile> {
    let mut options = OpenOptions::new();
    options.read(true).mode(0o666).custom_flags(libc::O_NOCTTY | libc::O_NONBLOCK);
    let mut writes = options.clone();
    writes.write(true);
    for _ in 0..ROUNDS {
        let opened = match writes.open(path) {
            Err(error) if is_absent(&error) => match writes.clone().create_new(true).open(path) {
                // Another process has created it, or it is a link.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    match leads_nowhere(path) {
                        true => return Err(Errno::ELOOP.into()),
                        false => continue,
                    }
                }
                created => created,
            },
            Err(error) if is_only_readable(&error) => options.open(path),
            opened => opened,
        };
        return opened.map(LockFile::whole);
    }
    Err(io::Error::other("another process removed this file repeatedly"))
}

fn leads_nowhere(path: &Path) -> bool {
    path.is_symlink() && !path.exists()
}

fn is_only_readable(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error().map(Errno::from_raw),
        Some(Errno::EACCES | Errno::EPERM | Errno::EROFS | Errno::EISDIR | Errno::ETXTBSY)
    )
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn files_that_others_may_only_read_links_and_directories_can_be_locked() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("read"), "theirs").unwrap();
        fs::set_permissions(path("read"), fs::Permissions::from_mode(0o444)).unwrap();
        fs::create_dir(path("directory")).unwrap();
        std::os::unix::fs::symlink(path("read"), path("link")).unwrap();
        for name in ["new", "read", "directory"] {
            let file = open(&path(name)).unwrap();
            assert!(file.try_lock().unwrap() && file.is_at(&path(name)).unwrap(), "{name}");
        }
        let (file, link) = (open(&path("read")).unwrap(), open(&path("link")).unwrap());
        assert!(file.try_lock().unwrap() && !link.try_lock().unwrap());
        assert!(link.is_at(&path("link")).unwrap());
        assert_eq!(fs::read(path("read")).unwrap(), b"theirs");
    }

    #[test]
    fn nothing_is_created_at_the_end_of_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let (link, end) = (dir.path().join("link"), dir.path().join("end"));
        std::os::unix::fs::symlink(&end, &link).unwrap();
        assert_eq!(open(&link).unwrap_err().raw_os_error(), Some(Errno::ELOOP as i32));
        assert!(!end.exists());
    }
}
