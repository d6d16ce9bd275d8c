//! From a `file:` URL to a backend.

use std::path::Path;

use leasehold_core::clock::Clock;
use leasehold_core::{Error, ErrorKind, Result, StoreUrl};

use crate::FileBackend;

/// Opens the directory that a URL names: `file:/var/lib/locks`, `file:///var/lib/locks`, or
/// `file:locks` below the current directory. There are no options. Blocks on the file system.
///
/// # Errors
/// [`ErrorKind::Invalid`] for another scheme, a missing path, a host, or an option; else as
/// [`FileBackend::open`].
pub fn connect(url: &StoreUrl) -> Result<FileBackend> {
    let invalid = |what: String| Error::new(ErrorKind::Invalid, format!("store URL: {what}"));
    if url.scheme() != "file" {
        return Err(invalid(format!("scheme {:?} where file: is expected", url.scheme())));
    }
    let path = url.path()?;
    url.finish(&[])?;
    if path.is_empty() {
        return Err(invalid("file: needs a directory, as in file:/var/lib/locks".into()));
    }
    if path.contains('\0') {
        return Err(invalid("the path has a zero byte".into()));
    }
    FileBackend::open(Path::new(&path), Clock::system())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_url_names_the_part_and_touches_nothing() {
        for (bad, part) in [
            ("redis:/x", "redis"),
            ("file:", "needs a directory"),
            ("file://host/x", "host"),
            ("file:/nowhere/at/all?fsync=no", "fsync"),
            ("file:/nowhere%00x", "zero byte"),
        ] {
            let error = connect(&StoreUrl::parse(bad).unwrap()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{bad}");
            assert!(error.to_string().contains(part), "{bad}: {error}");
        }
        assert!(!Path::new("/nowhere").exists());
    }
}
