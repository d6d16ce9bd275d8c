//! The path of a store on this machine, which must be absolute.

use std::env;
use std::path::Path;

use super::StoreUrl;
use crate::Result;

impl StoreUrl {
    /// Returns the place as an absolute path, percent-decoded. A relative path is refused, because
    /// it depends on the working directory: two processes with the same URL could use different
    /// stores and would not exclude each other. `example` is a URL that the error shows.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the path is missing or relative,
    /// contains a zero byte, or as [`path`](Self::path). For a relative path the error shows the
    /// absolute path.
    pub fn absolute_path(&self, example: &str) -> Result<String> {
        let path = self.path()?;
        let scheme = self.scheme();
        if path.is_empty() {
            return Err(Self::invalid(format!("{scheme}: needs a path, as in {example}")));
        }
        if path.contains('\0') {
            return Err(Self::invalid("the path contains a zero byte"));
        }
        match Path::new(&path).is_absolute() {
            true => Ok(path),
            false => Err(Self::invalid(relative(scheme, &path, example))),
        }
    }

    /// Checks that an option names a file by an absolute path, so that the URL means the same in every
    /// directory.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the path is relative. The error shows the
    /// absolute path.
    pub fn check_file(option: &str, path: &str) -> Result<()> {
        if Path::new(path).is_absolute() {
            return Ok(());
        }
        let (why, absolute) = resolve(path);
        let instead = absolute.unwrap_or_else(|| "an absolute path".to_owned());
        Err(Self::invalid(format!("{option} {path:?}: {why}; write {instead}")))
    }
}

/// Explains why a relative path is refused, and what to write instead.
fn relative(scheme: &str, path: &str, example: &str) -> String {
    let (why, absolute) = resolve(path);
    let instead = match absolute {
        Some(path) => format!("{scheme}:{}", path.replace('%', "%25").replace('?', "%3F")),
        None => format!("an absolute path, as in {example}"),
    };
    format!("{scheme}:{path}: {why}; write {instead}")
}

/// Returns why a path is not absolute, and the absolute one if it is known.
fn resolve(path: &str) -> (&'static str, Option<String>) {
    let (why, absolute) = match path.strip_prefix('~') {
        // Only a shell knows the home directory of another user.
        Some(rest) => {
            let home = env::home_dir().filter(|_| rest.is_empty() || rest.starts_with('/'));
            ("`~` is not expanded here", home.map(|home| home.join(rest.trim_start_matches('/'))))
        }
        None => {
            let why = "the path is relative, and would depend on the working directory";
            (why, std::path::absolute(path).ok())
        }
    };
    let absolute = absolute.filter(|path| path.is_absolute());
    (why, absolute.and_then(|path| path.into_os_string().into_string().ok()))
}

/// Explains that a URL has no scheme. If it can only be a path, it names the URL of that directory.
/// Any other text may contain a password and is not shown.
pub(super) fn no_scheme(text: &str) -> String {
    let is_word = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-/".contains(&b));
    let is_path = text.starts_with(['/', '.', '~']) || (is_word && !text.is_empty());
    if !is_path || text.starts_with("//") || text.contains(['@', '?', '#']) {
        return "the scheme is missing; write one first, as in file:/var/lib/locks or memory:"
            .to_owned();
    }
    let escaped = text.replace('%', "%25");
    match Path::new(text).is_absolute() {
        true => format!("{text:?} has no scheme; for a directory write file:{escaped}"),
        false => format!(
            "{text:?} has no scheme; for a server write one such as redis://host:6379, for a \
             directory: {}",
            relative("file", text, "file:/var/lib/locks")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    const EXAMPLE: &str = "sqlite:/var/lib/locks.db";

    #[test]
    fn a_path_without_a_scheme_names_the_url_to_write() {
        let here = env::current_dir().unwrap();
        let here = here.to_str().unwrap();
        for (path, part) in [
            ("/a b/100%", "write file:/a b/100%25".to_owned()),
            ("/a:b", "write file:/a:b".to_owned()),
            ("locks", format!("working directory; write file:{here}/locks")),
            ("../x", format!("write file:{here}/../x")),
        ] {
            let error = StoreUrl::parse(path).unwrap_err().to_string();
            assert!(error.contains("no scheme") && error.contains(&part), "{path}: {error}");
        }
        for secret in ["//u:s3@h", "/u:s3@h", ":s3@h", "s3 s3", "s3?x=1", "//s3", "1s3:x", ""] {
            let error = StoreUrl::parse(secret).unwrap_err().to_string();
            assert!(
                error.contains("scheme is missing") && !error.contains("s3"),
                "{secret}: {error}"
            );
        }
    }

    #[test]
    fn a_path_that_is_not_absolute_is_refused_with_the_absolute_one() {
        let here = env::current_dir().unwrap();
        let here = here.to_str().unwrap();
        for (bad, part) in [
            ("sqlite:no-such/l.db", format!("write sqlite:{here}/no-such/l.db")),
            ("sqlite:100%25", format!("write sqlite:{here}/100%25")),
            ("sqlite:~/no-such", "`~`".to_owned()),
            ("sqlite:~another/x", format!("an absolute path, as in {EXAMPLE}")),
            ("sqlite:", format!("needs a path, as in {EXAMPLE}")),
            ("sqlite:/tmp%00x", "zero byte".to_owned()),
        ] {
            let error = StoreUrl::parse(bad).unwrap().absolute_path(EXAMPLE).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{bad}");
            assert!(error.to_string().contains(&part), "{bad}: {error}");
        }
        let absolute = StoreUrl::parse("sqlite:///a%20b").unwrap().absolute_path(EXAMPLE);
        assert_eq!(absolute.unwrap(), "/a b");
    }
}
