//! Parses a store URL into members, credentials and key prefix.

use std::fmt;
use std::time::Duration;

use leasehold_core::{Error, Result, StoreUrl};

use crate::wire::Format;

/// The options that a URL may have.
const OPTIONS: &[&str] = &[
    "also",
    "connect-timeout",
    "key-prefix",
    "password-file",
    "tls-ca",
    "tls-cert",
    "tls-key",
    "user",
    "wire",
];
/// The range and default of the option `connect-timeout`.
const CONNECTS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(60));
const CONNECT: Duration = Duration::from_secs(2);
const DEFAULT_PREFIX: &str = "leasehold";
const DEFAULT_PORT: u16 = 2379;
/// The longest prefix, in bytes.
const MAX_PREFIX: usize = 256;

/// The members, the credentials and the key prefix.
pub(crate) struct Address {
    /// `http://host:port` or `https://host:port`, one for each member.
    pub(crate) members: Vec<String>,
    /// User and password.
    pub(crate) login: Option<(String, String)>,
    pub(crate) tls: Tls,
    pub(crate) prefix: String,
    /// How long a member may take to accept a connection.
    pub(crate) connect: Duration,
    /// The address for messages, without credentials.
    pub(crate) place: String,
    /// The format of another library.
    pub(crate) wire: Option<Format>,
}

/// The contents of the PEM files; empty without TLS.
#[derive(Default)]
pub(crate) struct Tls {
    pub(crate) authority: Option<Vec<u8>>,
    /// Certificate and key.
    pub(crate) client: Option<(Vec<u8>, Vec<u8>)>,
}

impl Address {
    /// Parses `etcd://[user[:password]@]host[:port],host[:port],...[/prefix]`, or `etcds://` for TLS.
    pub(crate) fn parse(mut url: StoreUrl) -> Result<Self> {
        let secure = url.scheme() == "etcds";
        if secure && cfg!(not(feature = "tls")) {
            return Err(StoreUrl::needs_feature("scheme \"etcds\"", "tls"));
        }
        let tls = Tls::take(&mut url)?;
        if !secure && (tls.authority.is_some() || tls.client.is_some()) {
            return Err(invalid("tls-ca, tls-cert and tls-key need the scheme etcds:"));
        }
        let connect = url.take_duration("connect-timeout", CONNECTS)?.unwrap_or(CONNECT);
        let wire = Format::take(&mut url)?;
        let place = url.place().strip_prefix("//").ok_or_else(no_host)?.to_owned();
        let (login, rest) = match place.rsplit_once('@') {
            Some((login, rest)) => (Some(login), rest),
            None => (None, &*place),
        };
        let login = url.take_login(login)?;
        url.finish(OPTIONS)?;
        let (hosts, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let scheme = if secure { "https" } else { "http" };
        let mut members: Vec<String> = Vec::new();
        for host in hosts.split(',') {
            let (host, port) = host_and_port(host)?;
            let member = format!("{scheme}://{host}:{port}");
            if members.contains(&member) {
                return Err(invalid(format!(
                    "the host {host}:{port} occurs twice; name each member once"
                )));
            }
            members.push(member);
        }
        let (prefix, place) = (self::prefix(prefix)?, url.to_string());
        Ok(Self { members, login, tls, prefix, connect, place, wire })
    }

    /// Returns the time to add to a limit that is made for fast connections: none for those of the
    /// default or less.
    pub(crate) fn extra_time(&self) -> Duration {
        if self.connect > CONNECT { self.connect } else { Duration::ZERO }
    }
}

impl Tls {
    fn take(url: &mut StoreUrl) -> Result<Self> {
        let files = url.take_tls()?;
        let client = match files.client {
            None => None,
            Some((cert, key)) => Some((pem(&cert, "tls-cert")?, pem(&key, "tls-key")?)),
        };
        let authority = files.authority.map(|ca| pem(&ca, "tls-ca")).transpose()?;
        Ok(Self { authority, client })
    }
}

/// Checks the prefix of the keys.
fn prefix(text: &str) -> Result<String> {
    let prefix = StoreUrl::decoded(text)?.unwrap_or_default();
    let prefix = prefix.trim_end_matches('/');
    if prefix.len() > MAX_PREFIX || prefix.chars().any(char::is_control) {
        return Err(invalid(format!(
            "the prefix after the hosts has {} bytes; up to {MAX_PREFIX} without control \
             characters are allowed",
            prefix.len()
        )));
    }
    Ok(if prefix.is_empty() { DEFAULT_PREFIX } else { prefix }.to_owned())
}

/// Parses `host`, `host:port` or `[::1]:port`; returns the host in lower case.
fn host_and_port(text: &str) -> Result<(String, u16)> {
    let (host, port) = StoreUrl::host_and_port(text)?;
    if host.is_empty() {
        return Err(no_host());
    }
    if !host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._:".contains(&b)) {
        return Err(invalid("a host may have only letters, digits, dots and dashes"));
    }
    let host = if text.starts_with('[') { format!("[{host}]") } else { host };
    Ok((host.to_ascii_lowercase(), port.unwrap_or(DEFAULT_PORT)))
}

fn pem(path: &str, option: &str) -> Result<Vec<u8>> {
    let text = StoreUrl::read(option, path)?;
    let begins = text.windows(11).any(|part| part == b"-----BEGIN ");
    begins.then_some(text).ok_or_else(|| {
        invalid(format!("{option} {path:?} is not PEM: it has no line that starts with -----BEGIN"))
    })
}

fn no_host() -> Error {
    invalid("the host is missing; write etcd://host:2379, or etcd://one,two,three")
}

fn invalid(what: impl fmt::Display) -> Error {
    StoreUrl::invalid(what)
}

#[cfg(test)]
mod tests {
    use leasehold_core::ErrorKind;

    use super::*;

    fn parse(url: &str) -> Result<Address> {
        Address::parse(StoreUrl::parse(url)?)
    }

    #[test]
    fn the_usual_urls_are_understood() {
        let address = parse("etcd://u:p%40s:s@One:2379,two,[::1]:99/app/locks/").unwrap();
        assert_eq!(address.members, ["http://one:2379", "http://two:2379", "http://[::1]:99"]);
        assert_eq!(address.login, Some(("u".into(), "p@s:s".into())));
        assert_eq!(address.prefix, "app/locks");
        assert!(!address.place.contains("p%40s"), "{}", address.place);
        let address = parse("etcds://h").unwrap();
        assert_eq!(
            (address.members[0].as_str(), address.prefix.as_str()),
            ("https://h:2379", "leasehold")
        );
        assert_eq!(address.login, None);
    }

    #[test]
    fn connect_timeout_has_a_range() {
        let connect = |value: &str| {
            parse(&format!("etcd://h?connect-timeout={value}")).map(|address| address.connect)
        };
        assert_eq!(parse("etcd://h").unwrap().connect, Duration::from_secs(2));
        for (value, ms) in [("100ms", 100), ("2s", 2000), ("1s500ms", 1500), ("1m", 60_000)] {
            assert_eq!(connect(value).unwrap(), Duration::from_millis(ms), "{value}");
        }
        for value in ["", "2", "0s", "99ms", "1m1ms", "1.5s", "fast"] {
            let error = connect(value).unwrap_err().to_string();
            let named = format!("connect-timeout {value:?}; ");
            assert!(error.contains(&named) && error.contains("100ms to 60s"), "{error}");
        }
    }

    #[test]
    fn wrong_ones_name_the_part_and_never_the_password() {
        for (url, part) in [
            ("etcd:localhost", "host is missing"),
            ("etcd://", "host is missing"),
            ("etcd://h,", "host is missing"),
            ("etcd://h,h:2379", "twice"),
            ("etcd://h:port", "port"),
            ("etcd://h:0", "port"),
            ("etcd://h h", "host"),
            ("etcd://h/a%0Ab", "prefix"),
            ("etcd://h?prefix=x", "\"prefix\""),
            ("etcd://h?tls-ca=/dev/null", "tls-ca"),
            ("etcds://h?tls-ca=/nope", "tls-ca"),
            ("etcds://h?tls-ca=/dev/null", "not PEM"),
            ("etcds://h?tls-cert=/dev/null", "tls-cert and tls-key"),
            ("etcd://u:s3cret@h?user=v", "set twice"),
            ("etcd://u@h", "user has no password"),
            ("etcd://:s3cret@h", "password has no user"),
            ("etcd://u:s3cret@h?password-file=/dev/null", "password-file"),
            ("etcd://u@h?password-file=/nope/s3", "cannot be read"),
        ] {
            let error = parse(url).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{url}");
            assert!(error.to_string().contains(part), "{url}: {error}");
            assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
        }
    }
}
