//! Store URLs: `scheme:place?option=value&...`. `Debug` and `Display` never show a secret.

mod absolute;
mod also;
mod masked;
mod nearest;

use std::collections::HashSet;
use std::fmt;
use std::num::{NonZeroU16, ParseIntError};
use std::time::Duration;

use percent_encoding::percent_decode_str;

pub use also::AlsoUrls;

use crate::{Error, ErrorKind, Result};

/// A parsed store URL. The backend takes the options that it knows; remaining options are an error.
///
/// **Unstable**, as [`backend`](crate::backend) is: it is for authors of engines.
#[derive(Clone)]
pub struct StoreUrl {
    scheme: String,
    place: String,
    options: Vec<UrlOption>,
}

/// An option of a URL that no backend has taken yet.
#[derive(Clone)]
struct UrlOption {
    /// Counted from 1, in the order of the URL.
    number: usize,
    key: String,
    value: String,
    /// It follows an option that holds a secret: with a raw & in that secret, the key is a part of it.
    may_be_secret: bool,
}

impl UrlOption {
    /// The option as an error shows it.
    fn shown(&self) -> String {
        match self.may_be_secret {
            true => format!("option number {}", self.number),
            false => format!("option {:?}", self.key),
        }
    }
}

/// The PEM files that a URL names. **Unstable**, as [`backend`](crate::backend) is: it is for authors of engines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TlsFiles {
    /// The authorities to trust.
    pub authority: Option<String>,
    /// The certificate of the client, and its key.
    pub client: Option<(String, String)>,
}

impl TlsFiles {
    /// Returns true if the URL names no file.
    pub fn is_empty(&self) -> bool {
        self.authority.is_none() && self.client.is_none()
    }
}

impl StoreUrl {
    /// Splits a URL into scheme, place and options.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if there is no scheme, or an option has no value or occurs twice.
    pub fn parse(url: &str) -> Result<Self> {
        let (scheme, rest) = url
            .split_once(':')
            .filter(|(scheme, _)| is_scheme(scheme))
            .ok_or_else(|| Self::invalid(absolute::no_scheme(url)))?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        if query.contains('@') {
            return Err(Self::invalid(
                "an @ after the ?; write ? as %3F in a user or password, and @ as %40 in an option",
            ));
        }
        let mut options: Vec<UrlOption> = Vec::new();
        let (mut keys, mut may_be_secret) = (HashSet::new(), false);
        for (number, pair) in (1..).zip(query.split('&').filter(|pair| !pair.is_empty())) {
            // The text may be a part of a secret, so it is not shown.
            let Some((key, value)) = pair.split_once('=') else {
                return Err(Self::invalid(format!(
                    "option number {number} has no value; write KEY=VALUE"
                )));
            };
            let is_new = keys.insert(key);
            let (key, value) = (key.to_owned(), decode(value)?);
            let option = UrlOption { number, key, value, may_be_secret };
            may_be_secret |= holds_secret(&option.key);
            if !is_new {
                let what = format!("{} occurs twice; write it once", option.shown());
                return Err(Self::invalid(what));
            }
            options.push(option);
        }
        Ok(Self { scheme: scheme.to_ascii_lowercase(), place: place.to_owned(), options })
    }

    /// Returns the scheme, in lower case.
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// Returns the text between the scheme's colon and the question mark, as written. It is still
    /// percent-encoded, since credentials must be split before they are decoded.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Returns the place as a path, percent-decoded. `file:/a`, `file:///a` and `file:a` are
    /// accepted.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if it names a host, or does not decode to UTF-8.
    pub fn path(&self) -> Result<String> {
        let path = match self.place.strip_prefix("//") {
            Some(rest) if rest.starts_with('/') => rest,
            Some(_) => {
                return Err(Self::invalid(format!(
                    "a {}: URL names a local path and no host; remove the host",
                    self.scheme
                )));
            }
            None => &self.place,
        };
        decode(path)
    }

    /// Removes an option and returns its value; `None` if the URL does not have it.
    pub fn take(&mut self, key: &str) -> Option<String> {
        let at = self.options.iter().position(|option| option.key == key)?;
        Some(self.options.remove(at).value)
    }

    /// Removes an option and returns its value, a time from `least` to `most`. A time is a whole
    /// number with ms, s, m or h, such as `60s`, or several of them, the largest unit first:
    /// `2m30s`.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the value is not such a time; the message says what is allowed.
    pub fn take_duration(
        &mut self,
        option: &str,
        (least, most): (Duration, Duration),
    ) -> Result<Option<Duration>> {
        let Some(text) = self.take(option) else { return Ok(None) };
        match duration(&text).filter(|duration| (least..=most).contains(duration)) {
            Some(duration) => Ok(Some(duration)),
            None => Err(Self::invalid(format!(
                "{option} {text:?}; a whole number with ms, s, m or h, such as 60s or 2m30s, is \
                 allowed, {least:?} to {most:?}"
            ))),
        }
    }

    /// Returns true if the URL contains a user, a password, or an option that holds a secret.
    pub fn has_credentials(&self) -> bool {
        self.place.contains('@') || self.options.iter().any(|option| holds_secret(&option.key))
    }

    /// Checks that no option is left. Call it after all known options were removed.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if an option is left; the message names it, the most similar option, and the options in `names`.
    /// It names an option after a secret only by its number.
    pub fn finish(&self, names: &[&str]) -> Result<()> {
        let Some(option) = self.options.first() else { return Ok(()) };
        let known = match names {
            [] => "takes no options".to_owned(),
            names => format!("the options are {}", names.join(", ")),
        };
        let escape = match option.may_be_secret {
            true => " (in a password write & as %26)",
            false => "",
        };
        let shown = option.shown();
        // Not of an option that may be a part of a secret.
        let meant = names.iter().copied().filter(|_| !option.may_be_secret);
        let meant = Self::meant(&option.key, meant);
        Err(Self::invalid(format!("unknown {shown}{escape}{meant}; {}: {known}", self.scheme)))
    }

    /// Returns the name that a mistyped one most likely means, if few letters differ.
    pub fn nearest<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
        nearest::nearest(typed, names)
    }

    /// Returns the question of an error for a mistyped name, with a blank before it; empty if no
    /// name is similar.
    pub fn meant<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> String {
        match nearest::nearest(typed, names) {
            Some(name) => format!(" (did you mean {name:?}?)"),
            None => String::new(),
        }
    }

    /// Creates the error for an invalid URL; `what` names the part, and never contains a secret.
    pub fn invalid(what: impl fmt::Display) -> Error {
        Error::new(ErrorKind::Invalid, format!("store URL: {what}"))
    }

    /// Creates the error for a part of a URL that needs a feature which this build does not have.
    pub fn needs_feature(what: impl fmt::Display, feature: &str) -> Error {
        Self::invalid(format!(
            "{what} needs the feature {feature:?}, which this build does not have"
        ))
    }

    /// Splits a part of a place: `host`, `host:port` or `[::1]:port`. The host may be empty.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for an unclosed bracket, or an invalid port.
    pub fn host_and_port(text: &str) -> Result<(String, Option<u16>)> {
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest
                    .split_once(']')
                    .ok_or_else(|| Self::invalid("an address begins with [ but has no ]"))?;
                let wrong = || Self::invalid("the text after ] is not :PORT");
                let port = (!port.is_empty()).then(|| port.strip_prefix(':').ok_or_else(wrong));
                (host, port.transpose()?)
            }
            None => match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        let wrong = |_: ParseIntError| Self::invalid("the port is not a number from 1 to 65535");
        let port = port.map(|port| port.parse::<NonZeroU16>().map_err(wrong)).transpose()?;
        Ok((host.to_owned(), port.map(NonZeroU16::get)))
    }

    /// Returns a part of a place, percent-decoded; `None` if it is empty.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if it does not decode to UTF-8. The message does not show the part,
    /// which may be a secret.
    pub fn decoded(text: &str) -> Result<Option<String>> {
        match text.is_empty() {
            true => Ok(None),
            false => decode(text).map(Some),
        }
    }

    /// Returns user and password of `user[:password]`, percent-decoded.
    ///
    /// # Errors
    /// As [`decoded`](Self::decoded).
    pub fn login(text: &str) -> Result<(Option<String>, Option<String>)> {
        let (user, password) = text.split_once(':').unwrap_or((text, ""));
        Ok((Self::decoded(user)?, Self::decoded(password)?))
    }

    /// Returns user and password, both or none: from `text`, which is the part before the `@`, or
    /// from the options `user` and `password-file`.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if one is missing or occurs twice; others as
    /// [`password`](Self::password).
    pub fn take_login(&mut self, text: Option<&str>) -> Result<Option<(String, String)>> {
        let (user, password) = Self::login(text.unwrap_or_default())?;
        let user = match (user, self.take("user")) {
            (Some(one), Some(other)) if one != other => {
                return Err(Self::invalid(
                    "the user is set twice, before the @ and in the option user; keep one",
                ));
            }
            (one, other) => one.or(other).filter(|user| !user.is_empty()),
        };
        let password = Self::password(self.take("password-file").as_deref(), password)?;
        match (user, password.filter(|password| !password.is_empty())) {
            (None, None) => Ok(None),
            (Some(user), Some(password)) => Ok(Some((user, password))),
            (None, Some(_)) => Err(Self::invalid(
                "the password has no user; write user:password before the @, or add the option \
                 user",
            )),
            (Some(_), None) => Err(Self::invalid(
                "the user has no password; write user:password, or add password-file. If a \
                 certificate identifies the user, remove the user",
            )),
        }
    }

    /// Returns the password of the URL, or of the file that its option `password-file` names,
    /// without the last line end.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if both are set, or the file cannot be read or is not UTF-8.
    pub fn password(file: Option<&str>, given: Option<String>) -> Result<Option<String>> {
        let Some(file) = file else { return Ok(given) };
        if given.is_some() {
            return Err(Self::invalid("a password and password-file are both set; set one"));
        }
        let text = String::from_utf8(Self::read("password-file", file)?)
            .map_err(|_| Self::invalid(format!("password-file {file:?} is not UTF-8")))?;
        Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
    }

    /// Removes the options `tls-ca`, `tls-cert` and `tls-key`, and returns their values.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if one of the last two is missing.
    pub fn take_tls(&mut self) -> Result<TlsFiles> {
        let authority = self.take("tls-ca");
        let client = match (self.take("tls-cert"), self.take("tls-key")) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some((certificate, key)),
            _ => {
                return Err(Self::invalid("only one of tls-cert and tls-key is set; set both"));
            }
        };
        Ok(TlsFiles { authority, client })
    }

    /// Reads the file that an option names.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if it cannot be read; others as [`check_file`](Self::check_file).
    pub fn read(option: &str, path: &str) -> Result<Vec<u8>> {
        Self::check_file(option, path)?;
        std::fs::read(path).map_err(|error| {
            Self::invalid(format!("{option} {path:?} cannot be read: {error}")).with_source(error)
        })
    }
}

impl fmt::Display for StoreUrl {
    /// Writes the URL without users and passwords, and without the options.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let local = matches!(self.scheme.as_str(), "file" | "memory" | "sqlite");
        let many = matches!(self.scheme.as_str(), "redlock" | "redlocks");
        if let Some(nodes) = many.then(|| masked::nodes(&self.place)).flatten() {
            return write!(f, "{}://{}", self.scheme, nodes.join(","));
        }
        // A comma may be a part of an unescaped password, so only the text after the last @ is shown.
        let slashes = if self.place.starts_with("//") { "//" } else { "" };
        let shown = match self.place.rfind('@').filter(|_| !local || self.place.starts_with("//")) {
            Some(at) => format!("{slashes}…{}", &self.place[at..]),
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

/// Parses whole numbers with units, the largest unit first.
fn duration(text: &str) -> Option<Duration> {
    let mut units = [("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)].into_iter();
    let (mut rest, mut sum) = (text, Duration::ZERO);
    while !rest.is_empty() {
        let (number, after) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?);
        let end = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        // A unit that was passed does not come again.
        let (_, each) = units.find(|(name, _)| *name == unit)?;
        let part = Duration::from_millis(u64::from(number.parse::<u32>().ok()?) * each);
        (rest, sum) = (after, sum.checked_add(part)?);
    }
    (!text.is_empty()).then_some(sum)
}

/// Whether the value of an option is a secret.
fn holds_secret(key: &str) -> bool {
    (key.contains("password") || key.contains("secret")) && !key.ends_with("file")
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
}

fn decode(text: &str) -> Result<String> {
    percent_decode_str(text).decode_utf8().map(Into::into).map_err(|error| {
        StoreUrl::invalid("percent-escapes do not decode to UTF-8").with_source(error)
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
        assert_eq!(url.to_string(), "redis://…@host:6379/0");
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
    fn a_key_that_may_be_a_part_of_a_password_is_never_shown() {
        for url in [
            "redis://h?sentinel-password=a&s3cret=1",
            "redis://h?prefix=p&sentinel-password=a&s3cret=1&s3cret=2",
        ] {
            let parsed = StoreUrl::parse(url).and_then(|mut url| {
                assert_eq!(url.take("sentinel-password").as_deref(), Some("a"));
                url.take("prefix");
                url.finish(&["prefix"])
            });
            let error = parsed.unwrap_err();
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{error}");
            assert!(error.to_string().contains("option number"), "{error}");
        }
        let error = StoreUrl::parse("redis://u:s3cret@h?x=1").unwrap().finish(&[]).unwrap_err();
        assert!(error.to_string().contains("unknown option \"x\""), "{error}");
    }

    #[test]
    fn parts_of_a_place_are_taken_apart() {
        let one = |host: &str, port| (host.to_owned(), port);
        for (text, parts) in [
            ("host", one("host", None)),
            ("host:1", one("host", Some(1))),
            ("[::1]:99", one("::1", Some(99))),
            ("[::1]", one("::1", None)),
            ("", one("", None)),
        ] {
            assert_eq!(StoreUrl::host_and_port(text).unwrap(), parts);
        }
        for text in ["h:", "h:0", "h:x", "h:65536", "[::1", "[::1]6380", "[::1]x:1"] {
            assert!(StoreUrl::host_and_port(text).is_err(), "{text}");
        }
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(StoreUrl::login("u:p%40s:s/").unwrap(), (some("u"), some("p@s:s/")));
        assert_eq!(StoreUrl::login(":p").unwrap(), (None, some("p")));
        assert_eq!(StoreUrl::login("").unwrap(), (None, None));
        let error = StoreUrl::login("u:s3cret%ff").unwrap_err();
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
    }

    #[test]
    fn user_and_password_go_together_and_so_do_certificate_and_key() {
        let take = |text, options: &str| {
            StoreUrl::parse(&format!("x://h?{options}")).unwrap().take_login(text)
        };
        let both = Some(("u".to_owned(), "p@s:s".to_owned()));
        assert_eq!(take(Some("u:p%40s:s"), "").unwrap(), both);
        assert_eq!(take(Some(":p%40s:s"), "user=u").unwrap(), both);
        assert_eq!(take(Some("u:p%40s:s"), "user=u").unwrap(), both);
        assert_eq!(take(None, "").unwrap(), None);
        for (text, options, part) in [
            (Some("u:s3cret"), "user=v", "set twice"),
            (Some("u"), "", "user has no password"),
            (None, "user=u", "user has no password"),
            (Some(":s3cret"), "", "password has no user"),
            (Some("u:s3cret"), "password-file=/dev/null", "set one"),
        ] {
            let error = take(text, options).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
            assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
        }
        let tls = |options: &str| StoreUrl::parse(&format!("x://h?{options}")).unwrap().take_tls();
        assert!(tls("").unwrap().is_empty());
        let client = Some(("b".to_owned(), "c".to_owned()));
        let all = TlsFiles { authority: Some("a".into()), client };
        assert_eq!(tls("tls-key=c&tls-ca=a&tls-cert=b").unwrap(), all);
        for one in ["tls-cert=b", "tls-ca=a&tls-key=c"] {
            assert!(tls(one).unwrap_err().to_string().contains("only one of"), "{one}");
        }
    }

    #[test]
    fn a_password_stands_in_the_url_or_in_a_file() {
        let file = std::env::temp_dir().join(format!("leasehold-password-{}", std::process::id()));
        let path = file.to_str().unwrap();
        std::fs::write(&file, "s3 cret\r\n").unwrap();
        let password = StoreUrl::password(Some(path), None).unwrap();
        assert!(StoreUrl::password(Some(path), Some("x".into())).is_err());
        std::fs::write(&file, b"s3\xff").unwrap();
        let error = StoreUrl::password(Some(path), None).unwrap_err();
        std::fs::remove_file(&file).unwrap();
        assert_eq!(password.as_deref(), Some("s3 cret"));
        assert!(!format!("{error} {error:?}").contains("s3"), "{error:?}");
        assert!(StoreUrl::password(Some("/nope"), None).is_err());
        let here = std::env::current_dir().unwrap();
        let error = StoreUrl::password(Some("secret"), None).unwrap_err().to_string();
        let instead = format!("working directory; write {}/secret", here.display());
        assert!(error.contains("password-file \"secret\"") && error.contains(&instead), "{error}");
        let error = StoreUrl::read("tls-ca", "~/ca.pem").unwrap_err().to_string();
        assert!(error.contains("tls-ca \"~/ca.pem\": `~` is not expanded"), "{error}");
        assert_eq!(StoreUrl::password(None, Some("x".into())).unwrap().as_deref(), Some("x"));
    }

    #[test]
    fn a_time_may_have_several_units() {
        let within = (Duration::from_millis(10), Duration::from_secs(86_400));
        let take = |text: &str| {
            StoreUrl::parse(&format!("x://h?t={text}")).unwrap().take_duration("t", within)
        };
        for (text, ms) in [("60s", 60_000), ("50ms", 50), ("2m30s", 150_000), ("1h5ms", 3_600_005)]
        {
            assert_eq!(take(text).unwrap(), Some(Duration::from_millis(ms)), "{text}");
        }
        for text in
            ["", "5", "2m30", "30s2m", "1m1m", "1.5m", "-1s", "9ms", "24h1ms", "99999999999h"]
        {
            assert!(take(text).unwrap_err().to_string().contains("is allowed"), "{text}");
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
        assert!(url.finish(&["b"]).unwrap_err().to_string().contains("the options are b"));
    }

    #[test]
    fn a_similar_option_is_suggested_unless_it_may_be_a_part_of_a_secret() {
        let names = ["db", "password-file", "prefix"];
        let error = |url| StoreUrl::parse(url).unwrap().finish(&names).unwrap_err().to_string();
        let told = error("redis://h?prefx=a");
        assert!(
            told.contains("unknown option \"prefx\" (did you mean \"prefix\"?); redis:"),
            "{told}"
        );
        assert!(error("redis://h?pasword-file=a").contains("did you mean \"password-file\"?"));
        assert!(!error("redis://h?timeout=1").contains("did you mean"));
        let mut url = StoreUrl::parse("redis://h?sentinel-password=a&prefx=1").unwrap();
        url.take("sentinel-password");
        let error = url.finish(&names).unwrap_err().to_string();
        assert!(error.contains("option number 2") && !error.contains("did you mean"), "{error}");
    }
}
