//! Opens the store of a `file:` URL.

use std::path::Path;

use leasehold_core::clock::Clock;
use leasehold_core::doctor::Diagnosis;
use leasehold_core::{Result, StoreUrl};

use crate::{FileBackend, FlockBackend};

/// The options of a URL with `wire`.
const OPTIONS: &[&str] = &["also", "directory", "suffix", "wire"];

/// The longest suffix, in bytes.
const LONGEST: usize = 32;

/// Opens the directory of a URL: `file:/var/lib/locks` or `file:///var/lib/locks`. Blocks on the file system.
///
/// A relative path is refused: in another working directory the same URL would be another store, and
/// two processes would not exclude each other.
///
/// # Errors
/// [`ErrorKind::Invalid`](leasehold_core::ErrorKind::Invalid) for another scheme, a missing or
/// relative path, a host, or an option, also `wire`; others as [`FileBackend::open`].
pub fn connect(url: &StoreUrl) -> Result<FileBackend> {
    match parse(url)? {
        (path, None) => FileBackend::open(Path::new(&path), Clock::system()),
        (_, Some(_)) => Err(StoreUrl::invalid("wire=flock; connect with connect_with_wire")),
    }
}

/// Opens the directory of a URL with `wire=flock`, such as `file:/run/lock?wire=flock&suffix=.lock`, for locks that exclude
/// the callers of `flock(1)`. Blocks on the file system.
///
/// # Errors
/// [`ErrorKind::Invalid`](leasehold_core::ErrorKind::Invalid) as [`connect`], and if the URL names no `wire`; others as
/// [`FlockBackend::open`].
pub fn connect_with_wire(url: &StoreUrl) -> Result<FlockBackend> {
    match parse(url)? {
        (path, Some(suffix)) => FlockBackend::open(Path::new(&path), &suffix, Clock::system()),
        (_, None) => Err(StoreUrl::invalid("no option wire; connect with connect")),
    }
}

/// Returns true if a URL names a format of locks, so that [`connect_with_wire`] opens it.
pub fn names_a_wire(url: &StoreUrl) -> bool {
    url.clone().take("wire").is_some()
}

/// Returns what can harm locks in the directory of a URL. Creates and changes nothing. Blocks on the
/// file system.
///
/// # Errors
/// [`ErrorKind::Invalid`](leasehold_core::ErrorKind::Invalid) as [`connect`];
/// [`ErrorKind::Unsupported`](leasehold_core::ErrorKind::Unsupported) on systems that the file backend
/// does not support.
pub fn diagnose(url: &StoreUrl) -> Result<Diagnosis> {
    match parse(url)? {
        (path, None) => FileBackend::diagnose(Path::new(&path), &Clock::system()),
        (path, Some(suffix)) => FlockBackend::diagnose(Path::new(&path), &suffix),
    }
}

/// Returns the path of a URL, and with `wire=flock` the suffix of the files.
pub(crate) fn parse(url: &StoreUrl) -> Result<(String, Option<String>)> {
    if url.scheme() != "file" {
        return Err(StoreUrl::invalid(format!("scheme {:?} is not file:", url.scheme())));
    }
    let mut url = url.clone();
    let path = url.absolute_path("file:/var/lib/locks")?;
    let (wire, suffix) = (url.take("wire"), url.take("suffix"));
    url.finish(OPTIONS)?;
    if let Some(other) = wire.as_deref().filter(|wire| *wire != "flock") {
        let meant = StoreUrl::meant(other, ["flock"]);
        return Err(StoreUrl::invalid(format!("wire {other:?}{meant}; flock is allowed")));
    }
    match (wire, suffix) {
        (None, None) => Ok((path, None)),
        (None, Some(_)) => {
            Err(StoreUrl::invalid("suffix belongs to wire=flock; write both, or neither"))
        }
        (Some(_), suffix) => {
            let suffix = suffix.unwrap_or_default();
            if suffix.len() > LONGEST || suffix.chars().any(|c| c.is_control() || "/%~".contains(c))
            {
                return Err(StoreUrl::invalid(format!(
                    "suffix {suffix:?}; up to {LONGEST} bytes without control characters, /, % and ~ are allowed"
                )));
            }
            Ok((path, Some(suffix)))
        }
    }
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
            ("file:/tmp?wire=lockf", "flock is allowed"),
            ("file:/tmp?suffix=.lock", "suffix belongs to wire=flock"),
            ("file:/tmp?wire=flock", "connect_with_wire"),
        ] {
            let error = connect(&StoreUrl::parse(bad).unwrap()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{bad}");
            assert!(error.to_string().contains(part), "{bad}: {error}");
        }
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_files_of_a_wire_have_a_suffix_that_is_part_of_a_name() {
        let place = tempfile::tempdir().unwrap();
        let url = |options| {
            StoreUrl::parse(&format!("file:{}{options}", place.path().display())).unwrap()
        };
        assert!(names_a_wire(&url("?wire=x")) && !names_a_wire(&url("")));
        for (bad, part) in [
            ("", "connect with connect"),
            ("?wire=flock&suffix=/x", "suffix \"/x\""),
            ("?wire=flock&suffix=%25", "suffix \"%\""),
            ("?wire=flock&fsync=no", "fsync"),
        ] {
            let error = connect_with_wire(&url(bad)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{bad}");
            assert!(error.to_string().contains(part), "{bad}: {error}");
        }
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
        connect_with_wire(&url("?wire=flock&suffix=.lock")).unwrap();
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
