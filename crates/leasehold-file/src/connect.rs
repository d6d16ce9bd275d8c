//! From a `file:` URL to a backend.

use std::env;
use std::path::Path;

use leasehold_core::clock::Clock;
use leasehold_core::doctor::Examined;
use leasehold_core::{Error, ErrorKind, Result, StoreUrl};

use crate::FileBackend;

/// Opens the directory that a URL names: `file:/var/lib/locks` or `file:///var/lib/locks`. A
/// relative path is refused: the same URL would be another store in another directory, and two
/// processes that read it there would not exclude each other. There are no options. Blocks on the
/// file system.
///
/// # Errors
/// [`ErrorKind::Invalid`] for another scheme, a missing or relative path, a host, or an option;
/// else as [`FileBackend::open`].
pub fn connect(url: &StoreUrl) -> Result<FileBackend> {
    FileBackend::open(Path::new(&path(url)?), Clock::system())
}

/// Says what can hurt locks in the directory that a URL names; makes and changes nothing. Blocks on
/// the file system.
///
/// # Errors
/// [`ErrorKind::Invalid`] as [`connect`]; [`ErrorKind::Unsupported`] on systems that the file
/// backend does not work on.
pub fn examine(url: &StoreUrl) -> Result<Examined> {
    FileBackend::examine(Path::new(&path(url)?), &Clock::system())
}

fn path(url: &StoreUrl) -> Result<String> {
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
    if !Path::new(&path).is_absolute() {
        return Err(invalid(relative(&path)));
    }
    Ok(path)
}

/// Why a path that does not start at the root is refused, and what to write instead.
fn relative(path: &str) -> String {
    let (why, absolute) = match path.strip_prefix('~') {
        // Where somebody else's home is, only a shell knows.
        Some(rest) => {
            let home = env::home_dir().filter(|_| rest.is_empty() || rest.starts_with('/'));
            ("`~` means nothing here", home.map(|home| home.join(rest.trim_start_matches('/'))))
        }
        None => {
            let why = "the path is relative, and would be another one in another directory";
            (why, std::path::absolute(path).ok())
        }
    };
    let absolute = absolute.filter(|path| path.is_absolute());
    let instead = match absolute.as_deref().and_then(Path::to_str) {
        Some(path) => format!("file:{}", path.replace('%', "%25").replace('?', "%3F")),
        None => "an absolute path, as in file:/var/lib/locks".to_owned(),
    };
    format!("file:{path}: {why}; write {instead}")
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

    #[test]
    fn a_path_that_is_not_absolute_is_refused_with_the_absolute_one() {
        let here = env::current_dir().unwrap();
        let here = here.to_str().unwrap();
        for (bad, part) in [
            ("file:no-such/locks", format!("write file:{here}/no-such/locks")),
            ("file:100%25", format!("write file:{here}/100%25")),
            ("file:~/no-such", "`~`".to_owned()),
            ("file:~somebody/x", "an absolute path, as in file:/var/lib/locks".to_owned()),
        ] {
            let error = connect(&StoreUrl::parse(bad).unwrap()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{bad}");
            assert!(error.to_string().contains(&part), "{bad}: {error}");
        }
        assert!(!Path::new("no-such").exists() && !Path::new("~").exists());
    }
}
