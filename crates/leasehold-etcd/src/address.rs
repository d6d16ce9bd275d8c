//! From a store URL to where and as whom to connect.

use leasehold_core::{Error, ErrorKind, Result, StoreUrl};
use percent_encoding::percent_decode_str;

/// Options that a URL may have.
const OPTIONS: &[&str] = &["password-file", "tls-ca", "tls-cert", "tls-key", "user"];
const DEFAULT_PREFIX: &str = "leasehold";
const DEFAULT_PORT: u16 = 2379;
/// Longest prefix in bytes.
const MAX_PREFIX: usize = 256;

/// Where to connect, as whom, and what the keys begin with.
pub(crate) struct Address {
    /// `http://host:port` or `https://host:port`, one for each member.
    pub(crate) members: Vec<String>,
    /// User and password.
    pub(crate) login: Option<(String, String)>,
    pub(crate) tls: Tls,
    pub(crate) prefix: String,
    /// For people; without credentials.
    pub(crate) place: String,
}

/// PEM files, read; empty without TLS.
#[derive(Default)]
pub(crate) struct Tls {
    pub(crate) authority: Option<Vec<u8>>,
    /// Certificate and key.
    pub(crate) client: Option<(Vec<u8>, Vec<u8>)>,
}

impl Address {
    /// Understands `etcd://[user[:password]@]host[:port],host[:port],...[/prefix]`, and `etcds://`
    /// for TLS.
    pub(crate) fn parse(mut url: StoreUrl) -> Result<Self> {
        let secure = url.scheme() == "etcds";
        let tls = Tls::take(&mut url)?;
        if !secure && (tls.authority.is_some() || tls.client.is_some()) {
            return Err(invalid("tls-ca, tls-cert and tls-key go with etcds:"));
        }
        let (user, file) = (url.take("user"), url.take("password-file"));
        url.finish(OPTIONS)?;
        let rest = url.place().strip_prefix("//").ok_or_else(no_host)?;
        let (login, rest) = match rest.rsplit_once('@') {
            Some((login, rest)) => (Some(login), rest),
            None => (None, rest),
        };
        let (hosts, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let scheme = if secure { "https" } else { "http" };
        let mut members: Vec<String> = Vec::new();
        for host in hosts.split(',') {
            let (host, port) = host_and_port(host)?;
            let member = format!("{scheme}://{host}:{port}");
            if members.contains(&member) {
                return Err(invalid(format!("the host {host}:{port} stands twice")));
            }
            members.push(member);
        }
        let login = self::login(login, user, file.as_deref())?;
        let (prefix, place) = (self::prefix(prefix)?, url.to_string());
        Ok(Self { members, login, tls, prefix, place })
    }
}

impl Tls {
    fn take(url: &mut StoreUrl) -> Result<Self> {
        let (ca, cert, key) = (url.take("tls-ca"), url.take("tls-cert"), url.take("tls-key"));
        let client = match (cert, key) {
            (None, None) => None,
            (Some(cert), Some(key)) => Some((pem(&cert, "tls-cert")?, pem(&key, "tls-key")?)),
            _ => return Err(invalid("tls-cert and tls-key go together; one is missing")),
        };
        let authority = ca.map(|ca| pem(&ca, "tls-ca")).transpose()?;
        Ok(Self { authority, client })
    }
}

/// Who logs in, if anybody does.
fn login(
    text: Option<&str>,
    option: Option<String>,
    file: Option<&str>,
) -> Result<Option<(String, String)>> {
    let (user, password) = text.map_or(("", ""), |text| text.split_once(':').unwrap_or((text, "")));
    let (user, password) = (decoded(user)?, decoded(password)?);
    let user = match option {
        Some(option) if user.is_empty() || user == option => option,
        Some(_) => return Err(invalid("two users: one before the @, one as option user")),
        None => user,
    };
    let password = match file {
        Some(_) if !password.is_empty() => {
            return Err(invalid("a password and a password-file; set one"));
        }
        Some(file) => {
            let text = String::from_utf8(read(file, "password-file")?)
                .map_err(|_| invalid(format!("password-file {file:?} is not UTF-8")))?;
            text.trim_end_matches(['\r', '\n']).to_owned()
        }
        None => password,
    };
    match (user.is_empty(), password.is_empty()) {
        (true, true) => Ok(None),
        (true, false) => Err(invalid("a password without a user; write etcd://user:password@host")),
        (false, true) => Err(invalid(
            "a user without a password; write user:password, or add password-file. A user that is \
             known by its certificate is not named",
        )),
        (false, false) => Ok(Some((user, password))),
    }
}

/// What the keys begin with.
fn prefix(text: &str) -> Result<String> {
    let prefix = decoded(text)?;
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

/// `host`, `host:port`, `[::1]:port`; the host in lower case.
fn host_and_port(text: &str) -> Result<(String, u16)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest
                .split_once(']')
                .ok_or_else(|| invalid("an address that begins with [ has no ]"))?;
            (format!("[{host}]"), port.strip_prefix(':'))
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host.to_owned(), Some(port)),
            None => (text.to_owned(), None),
        },
    };
    let port = match port {
        None => DEFAULT_PORT,
        Some(port) => port
            .parse()
            .ok()
            .filter(|port| *port > 0)
            .ok_or_else(|| invalid("the port is not a number from 1 to 65535"))?,
    };
    if host.is_empty() {
        return Err(no_host());
    }
    let inside = host.trim_start_matches('[').trim_end_matches(']');
    if !inside.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._:".contains(&b)) {
        return Err(invalid("a host has other characters than letters, digits, dots and dashes"));
    }
    Ok((host.to_ascii_lowercase(), port))
}

fn decoded(text: &str) -> Result<String> {
    let text = percent_decode_str(text).decode_utf8();
    text.map(|text| text.into_owned())
        .map_err(|_| invalid("user, password or prefix has percent-escapes that are not UTF-8"))
}

fn pem(path: &str, option: &str) -> Result<Vec<u8>> {
    let text = read(path, option)?;
    let begins = text.windows(11).any(|part| part == b"-----BEGIN ");
    begins.then_some(text).ok_or_else(|| {
        invalid(format!("{option} {path:?} is not PEM: it has no line that starts with -----BEGIN"))
    })
}

fn read(path: &str, option: &str) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| {
        invalid(format!("{option} {path:?} cannot be read: {error}")).with_source(error)
    })
}

fn no_host() -> Error {
    invalid("no host; write etcd://host:2379, or etcd://one,two,three")
}

fn invalid(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Invalid, format!("store URL: {}", what.into()))
}

#[cfg(test)]
mod tests {
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
    fn wrong_ones_name_the_part_and_never_the_password() {
        for (url, part) in [
            ("etcd:localhost", "no host"),
            ("etcd://", "no host"),
            ("etcd://h,", "no host"),
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
            ("etcd://u:s3cret@h?user=v", "two users"),
            ("etcd://u@h", "without a password"),
            ("etcd://:s3cret@h", "without a user"),
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
