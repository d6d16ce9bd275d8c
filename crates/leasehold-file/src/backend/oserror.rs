//! From the system's error to ours: which file, what the system said, and what to do next.

use std::io;
use std::path::Path;

use leasehold_core::{Error, ErrorKind};
use nix::errno::Errno;

/// An error about `path`; `doing` completes "cannot ...".
///
/// What the system refuses until somebody changes something is `Refused`, what it has not is
/// `Unsupported`, everything else is `Unavailable`. In all cases the operation has not taken place: a lock that was got on the way
/// is given back.
pub(crate) fn failed(doing: &str, path: &Path, source: impl Into<io::Error>) -> Error {
    use ErrorKind::{Refused, Unavailable, Unsupported};
    let source = source.into();
    let errno = source.raw_os_error().map(Errno::from_raw);
    let (kind, next) = match errno {
        Some(Errno::EACCES | Errno::EPERM) => {
            (Refused, "give this user write access, or choose another directory")
        }
        Some(Errno::EROFS) => (Refused, "the file system is read-only; choose another directory"),
        Some(Errno::ENOSPC) => (Refused, "the disk is full; free some space (or inodes)"),
        Some(Errno::EDQUOT) => (Refused, "the user's quota is used up; free some space"),
        Some(Errno::ENOTDIR | Errno::EEXIST) => {
            (Refused, "something in this path is a file; choose another directory")
        }
        Some(Errno::ELOOP) => (Refused, "it is a symbolic link; remove it"),
        Some(Errno::EINVAL | Errno::ENOSYS | Errno::EOPNOTSUPP) => {
            (Unsupported, "this kernel or file system lacks what locks need (F_OFD_SETLK)")
        }
        Some(Errno::EMFILE) => {
            (Unavailable, "this process has too many open files; raise the limit (ulimit -n)")
        }
        Some(Errno::ENFILE) => (Unavailable, "the system has too many open files"),
        Some(Errno::ENOLCK) => (Unavailable, "the kernel has no room for more file locks"),
        _ => (Unavailable, "see what the system says about this path"),
    };
    Error::new(kind, format!("cannot {doing} {}: {source}; {next}", path.display()))
        .with_source(source)
}

/// What is stored here is not ours, damaged, or newer than this version.
pub(crate) fn foreign(path: &Path, what: &str) -> Error {
    Error::new(ErrorKind::Foreign, format!("{}: {what}", path.display()))
}
