//! Opens the store of a `file:` URL.

use std::path::Path;

use leasehold_core::clock::Clock;
use leasehold_core::doctor::Diagnosis;
use leasehold_core::{Result, StoreUrl};

use crate::FileBackend;

/// Opens the directory of a URL: `file:/var/lib/locks` or `file:///var/lib/locks`. There are no
/// options. Blocks on the file system.
///
/// A relative path is refused: in another working directory the same URL would be another store, and
/// two processes would not exclude each other.
///
/// # Errors
/// [`ErrorKind::Invalid`](leasehold_core::ErrorKind::Invalid) for another scheme, a missing or
/// relative path, a host, or an option; others as [`FileBackend::open`].
pub fn connect(url: &StoreUrl) -> Result<FileBackend> {
    FileBackend::open(Path::new(&path(url)?), Clock::system())
}

/// Returns what can harm locks in the directory of a URL. Creates and changes nothing. Blocks on the
/// file system.
///
/// # Errors
/// [`ErrorKind::Invalid`](leasehold_core::ErrorKind::Invalid) as [`connect`];
/// [`ErrorKind::Unsupported`](leasehold_core::ErrorKind::Unsupported) on systems that the file backend
/// does not support.
pub fn diagnose(url: &StoreUrl) -> Result<Diagnosis> {
    FileBackend::diagnose(Path::new(&path(url)?), &Clock::system())
}

fn path(url: &StoreUrl) -> Result<String> {
    if url.scheme() != "file" {
        return Err(StoreUrl::invalid(format!("scheme {:?} is not file:", url.scheme())));
    }
    let path = url.absolute_path("file:/var/lib/locks")?;
    url.finish(&[])?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use leasehold_core::ErrorKind;

    use super::*;

    #[test]
    fn a_bad_url_names_the_part_and_touches_nothing() {
        let place = tempfile::tempdir().unwrap();
        let below = format!("file:{}/at/all?fsync=no", place.path().display());
        for (bad, part) in [
            ("redis:/x", "redis"),
            ("file:", "needs a path"),
            ("file://host/x", "host"),
            (below.as_str(), "fsync"),
            ("file:/tmp%00x", "zero byte"),
        ] {
            let error = connect(&StoreUrl::parse(bad).unwrap()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{bad}");
            assert!(error.to_string().contains(part), "{bad}: {error}");
        }
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_path_that_is_not_absolute_is_refused_and_nothing_is_made() {
        for bad in ["file:no-such/locks", "file:~/no-such"] {
            let error = connect(&StoreUrl::parse(bad).unwrap()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{bad}");
        }
        assert!(!Path::new("no-such").exists() && !Path::new("~").exists());
    }
}
