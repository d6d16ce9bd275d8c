//! Converts the system's errors: the file, the system's message, and what to do next.

use std::io;
use std::path::Path;

use leasehold_core::{Error, ErrorKind, Retry};
use nix::errno::Errno;

/// Returns an error about `path`; `doing` completes "cannot ...".
///
/// `Refused` if an operator must change something, `Unsupported` if the system lacks a feature,
/// `Unavailable` otherwise. In all cases the operation had no effect: a lock that it acquired
/// before the error is released.
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
            (Refused, "a component of this path is a file; choose another directory")
        }
        Some(Errno::ELOOP) => (Refused, "it is a symbolic link; remove it"),
        Some(Errno::EINVAL | Errno::ENOSYS | Errno::EOPNOTSUPP) => {
            let next = "this kernel or file system does not support open file description locks \
                        (F_OFD_SETLK); choose a directory on a local disk";
            (Unsupported, next)
        }
        Some(Errno::EMFILE) => {
            (Unavailable, "this process has too many open files; raise the limit (ulimit -n)")
        }
        Some(Errno::ENFILE) => (Unavailable, "the system has too many open files"),
        Some(Errno::ENOLCK) => (Unavailable, "the kernel has no room for more file locks"),
        _ => (Unavailable, "check this path and the system's log"),
    };
    let error = Error::new(kind, format!("cannot {doing} {}: {source}; {next}", path.display()))
        .with_source(source);
    match errno {
        // Other programs may free space, so a release is retried.
        Some(Errno::ENOSPC | Errno::EDQUOT) => error.with_retry(Retry::Useful),
        _ => error,
    }
}

/// Returns the error for data that is not of this backend, damaged, or of a newer version.
pub(crate) fn foreign(path: &Path, what: &str) -> Error {
    Error::new(ErrorKind::Foreign, format!("{}: {what}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_worth_another_try_and_a_missing_right_is_not() {
        let of = |errno| failed("write", Path::new("locks"), errno);
        for (errno, retry) in [
            (Errno::ENOSPC, Retry::Useful),
            (Errno::EDQUOT, Retry::Useful),
            (Errno::EACCES, Retry::Useless),
        ] {
            assert_eq!(
                (of(errno).kind(), of(errno).retry()),
                (ErrorKind::Refused, retry),
                "{errno}"
            );
        }
    }
}
