//! Store URLs: `scheme:place?option=value&...`, with every secret kept out of `Debug` and `Display`.

use std::fmt;

use percent_encoding::percent_decode_str;

use crate::{Error, ErrorKind, Result};

/// A parsed store URL. The backend takes the options it knows; what is left over is an error.
#[derive(Clone)]
pub struct StoreUrl {
    scheme: String,
    place: String,
    options: Vec<(String, String)>,
}

impl StoreUrl {
    /// Splits a URL into scheme, place and options.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] when there is no scheme, or an option has no value or stands twice.
    pub fn parse(url: &str) -> Result<Self> {
        let invalid = |what: String| Error::new(ErrorKind::Invalid, format!("store URL: {what}"));
        let (scheme, rest) =
            url.split_once(':').filter(|(scheme, _)| is_scheme(scheme)).ok_or_else(|| {
                invalid(
                    "no scheme; it starts with one, as in file:/var/lib/locks or memory:".into(),
                )
            })?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        if query.contains('@') {
            return Err(invalid("an @ among the options; in a user or password write ? as %3F, in an option @ as %40".into()));
        }
        let mut options: Vec<(String, String)> = Vec::new();
        for (number, pair) in query.split('&').filter(|pair| !pair.is_empty()).enumerate() {
            // What stands there may be a part of a secret, so it is not shown.
            let Some((key, value)) = pair.split_once('=') else {
                let number = number + 1;
                return Err(invalid(format!(
                    "option number {number} has no value; write KEY=VALUE"
                )));
            };
            if options.iter().any(|(known, _)| known == key) {
                return Err(invalid(format!("option {key:?} stands twice")));
            }
            options.push((key.to_owned(), decode(value)?));
        }
        Ok(Self { scheme: scheme.to_ascii_lowercase(), place: place.to_owned(), options })
    }

    /// The scheme, in lower case.
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// What stands between the scheme's colon and the question mark, as written (still encoded,
    /// since it may hold credentials whose parts must be split first).
    pub fn place(&self) -> &str {
        &self.place
    }

    /// The place as a path, percent-decoded: `file:/a`, `file:///a` and `file:a` are understood.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] when it names a host, or does not decode to UTF-8.
    pub fn path(&self) -> Result<String> {
        let path = match self.place.strip_prefix("//") {
            Some(rest) if rest.starts_with('/') => rest,
            Some(_) => {
                return Err(Error::new(
                    ErrorKind::Invalid,
                    format!(
                        "store URL: a host in a {}: URL; only a local path is allowed",
                        self.scheme
                    ),
                ));
            }
            None => &self.place,
        };
        decode(path)
    }

    /// Takes an option out; `None` when it is not there.
    pub fn take(&mut self, key: &str) -> Option<String> {
        let at = self.options.iter().position(|(known, _)| known == key)?;
        Some(self.options.remove(at).1)
    }

    /// True when a user or password, or an option that holds a secret, stands in the URL.
    pub fn has_credentials(&self) -> bool {
        let secret = |key: &str| {
            (key.contains("password") || key.contains("secret")) && !key.ends_with("file")
        };
        self.place.contains('@') || self.options.iter().any(|(key, _)| secret(key))
    }

    /// To be called when all known options were taken.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] when one is left, naming it and those that `known` lists.
    pub fn finish(&self, known: &[&str]) -> Result<()> {
        let Some((key, _)) = self.options.first() else { return Ok(()) };
        let known = match known {
            [] => "takes no options".to_owned(),
            known => format!("knows {}", known.join(", ")),
        };
        Err(Error::new(
            ErrorKind::Invalid,
            format!("store URL: unknown option {key:?}; {}: {known}", self.scheme),
        ))
    }
}

impl fmt::Display for StoreUrl {
    /// The URL without users and passwords, and without the options.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let local = matches!(self.scheme.as_str(), "file" | "memory");
        let shown = match self.place.rfind('@').filter(|_| !local || self.place.starts_with("//")) {
            Some(at) => format!("…{}", &self.place[at..]),
            None => self.place.clone(),
        };
        write!(f, "{}:{shown}", self.scheme)
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreUrl({self})")
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
}

fn decode(text: &str) -> Result<String> {
    percent_decode_str(text).decode_utf8().map(Into::into).map_err(|error| {
        Error::new(ErrorKind::Invalid, "store URL: percent-escapes that are not UTF-8")
            .with_source(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_understood_with_and_without_slashes() {
        for (url, path) in
            [("file:/a/b", "/a/b"), ("file:///a%20b", "/a b"), ("FILE:rel", "rel"), ("memory:", "")]
        {
            assert_eq!(StoreUrl::parse(url).unwrap().path().unwrap(), path);
        }
        assert!(StoreUrl::parse("file://host/a").unwrap().path().is_err());
    }

    #[test]
    fn a_password_is_never_shown() {
        let url = StoreUrl::parse("redis://user:s3cret@host:6379/0?password=s3cret").unwrap();
        assert!(!format!("{url} {url:?}").contains("s3cret"));
        assert_eq!(url.to_string(), "redis:…@host:6379/0");
        for (url, has) in [
            ("redlock://one:1,u:s3/cr,et@two:2,three:3/", true),
            ("redis://host/?sentinel-password=s3cret", true),
            ("redis://host/?password-file=/run/secret", false),
            ("file:/var/lib/locks", false),
            ("redis:u:s3cret@host", true),
            ("file://u:s3cret@host/x", true),
        ] {
            let url = StoreUrl::parse(url).unwrap();
            assert_eq!(url.has_credentials(), has, "{url:?}");
            assert!(!url.to_string().contains("s3"), "{url:?}");
        }
    }

    #[test]
    fn errors_show_no_part_of_a_password() {
        for url in
            ["redis://u:a?s3cret@host", "redis://host?password=a&s3cret", "file://u:s3cret@h/x"]
        {
            let error = StoreUrl::parse(url).and_then(|url| url.path()).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn bad_urls_name_the_part() {
        for (bad, part) in [
            ("", "scheme"),
            ("/tmp/x", "scheme"),
            ("file:/a?x", "number 1"),
            ("file:/a?x=1&x=2", "twice"),
            ("file:/a?x=%ff", "UTF-8"),
        ] {
            let error = StoreUrl::parse(bad).unwrap_err().to_string();
            assert!(error.contains(part), "{bad}: {error}");
        }
        let mut url = StoreUrl::parse("file:/a?b=1&c=2").unwrap();
        assert_eq!(url.take("b").as_deref(), Some("1"));
        assert!(url.finish(&["b"]).unwrap_err().to_string().contains("knows b"));
    }
}
