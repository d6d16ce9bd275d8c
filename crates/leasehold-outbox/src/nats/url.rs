//! The URL of a stream: its servers, credentials and names.

use std::time::Duration;

use async_nats::{ConnectOptions, ServerAddr};
use leasehold_core::StoreUrl;

use crate::{Error, Result};

/// The default port of a server.
const PORT: u16 = 4222;

const OPTIONS: [&str; 10] = [
    "credentials",
    "durable",
    "max-age",
    "password-file",
    "replicas",
    "stream",
    "subject",
    "tls-ca",
    "tls-cert",
    "tls-key",
];

/// The parts of a URL.
pub(crate) struct NatsUrl {
    pub(super) servers: Vec<ServerAddr>,
    /// The URL without credentials.
    pub(super) shown: String,
    /// The credentials and connection options.
    pub(super) options: ConnectOptions,
    pub(super) stream: String,
    pub(super) subject: String,
    /// The name under which receivers share their work.
    pub(super) durable: String,
    /// Used when the stream is created.
    pub(super) replicas: usize,
    /// Used when the stream is created.
    pub(super) max_age: Duration,
}

/// Returns true for the URL of a stream.
pub(crate) fn is_nats(url: &str) -> bool {
    let scheme = url.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
    scheme.is_some_and(|scheme| scheme == "nats" || scheme == "tls")
}

impl NatsUrl {
    pub(crate) fn parse(url: &str) -> Result<Self> {
        if !is_nats(url) {
            return Err(Error::invalid("NATS URL: write nats://host:port or tls://host:port"));
        }
        Self::read(url).map_err(|error| {
            // The parser is that of stores.
            let what = error.message().trim_start_matches("store URL: ");
            Error::invalid(format!("NATS URL: {what}"))
        })
    }

    fn read(url: &str) -> leasehold_core::Result<Self> {
        let mut url = StoreUrl::parse(url)?;
        let place = url.place().strip_prefix("//").unwrap_or_default().trim_end_matches('/');
        let (login, hosts) = place.rsplit_once('@').unwrap_or(("", place));
        let (login, hosts) = (login.to_owned(), hosts.to_owned());
        let mut servers = Vec::new();
        for host in hosts.split(',') {
            servers.push(server(url.scheme(), host)?);
        }
        let mut word = |option: &str| {
            let word = url.take(option).unwrap_or_else(|| "leasehold-cache".to_owned());
            let allowed = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
            match !word.is_empty() && word.len() <= 64 && word.chars().all(allowed) {
                true => Ok(word),
                false => Err(StoreUrl::invalid(format!(
                    "{option} {word:?}; 1 to 64 letters, digits, '_' and '-' are allowed"
                ))),
            }
        };
        let (stream, durable) = (word("stream")?, word("durable")?);
        let subject = url.take("subject").unwrap_or_else(|| "leasehold-cache.changes".to_owned());
        check_subject(&subject)?;
        let replicas = match url.take("replicas") {
            None => 1,
            Some(text) => {
                let number = text.parse().ok().filter(|number| (1..=5).contains(number));
                let wrong = || StoreUrl::invalid(format!("replicas {text:?}; 1 to 5 is allowed"));
                number.ok_or_else(wrong)?
            }
        };
        let (minute, hour) = (Duration::from_secs(60), Duration::from_secs(3_600));
        let max_age = url.take_duration("max-age", (minute, 10_000 * hour))?.unwrap_or(24 * hour);
        let options = options(&mut url, &login)?;
        url.finish(&OPTIONS)?;
        let shown = format!("{}://{hosts}", url.scheme());
        Ok(Self { servers, shown, options, stream, subject, durable, replicas, max_age })
    }
}

fn server(scheme: &str, host: &str) -> leasehold_core::Result<ServerAddr> {
    let (name, port) = StoreUrl::host_and_port(host)?;
    if name.is_empty() {
        return Err(StoreUrl::invalid("the host is missing; write nats://host:port"));
    }
    let name = if name.contains(':') { format!("[{name}]") } else { name };
    let address = format!("{scheme}://{name}:{}", port.unwrap_or(PORT));
    address.parse().map_err(|_| StoreUrl::invalid(format!("{host:?} is not host:port")))
}

/// Checks a subject: words with dots between them, without wildcards.
fn check_subject(subject: &str) -> leasehold_core::Result<()> {
    let allowed = |c: char| c.is_ascii_graphic() && !"*>".contains(c);
    let word = |word: &str| !word.is_empty() && word.chars().all(allowed);
    match subject.len() <= 255 && !subject.starts_with('$') && subject.split('.').all(word) {
        true => Ok(()),
        false => Err(StoreUrl::invalid(format!(
            "subject {subject:?}; write words with dots between them, without the wildcards * and >"
        ))),
    }
}

/// Returns the credentials: a user, a token (a user without a password, as in NATS), or a
/// credentials file.
fn options(url: &mut StoreUrl, login: &str) -> leasehold_core::Result<ConnectOptions> {
    let (user, password) = StoreUrl::login(login)?;
    let password = StoreUrl::password(url.take("password-file").as_deref(), password)?;
    let mut options = ConnectOptions::new().require_tls(url.scheme() == "tls");
    match (user, password, url.take("credentials")) {
        (None, None, None) => {}
        (Some(user), Some(password), None) => options = options.user_and_password(user, password),
        (Some(token), None, None) | (None, Some(token), None) => options = options.token(token),
        (None, None, Some(path)) => {
            let wrong = || {
                StoreUrl::invalid(format!("credentials {path:?} is not a NATS credentials file"))
            };
            let text = String::from_utf8(StoreUrl::read("credentials", &path)?);
            let text = text.map_err(|_| wrong())?;
            options = options.credentials(&text).map_err(|_| wrong())?;
        }
        _ => {
            return Err(StoreUrl::invalid(
                "credentials and a user or password are both set; set one",
            ));
        }
    }
    if let Some(path) = url.take("tls-ca") {
        StoreUrl::read("tls-ca", &path)?;
        options = options.add_root_certificates(path.into());
    }
    match (url.take("tls-cert"), url.take("tls-key")) {
        (None, None) => Ok(options),
        (Some(cert), Some(key)) => {
            StoreUrl::read("tls-cert", &cert)?;
            StoreUrl::read("tls-key", &key)?;
            Ok(options.add_client_certificate(cert.into(), key.into()))
        }
        _ => Err(StoreUrl::invalid("only one of tls-cert and tls-key is set; set both")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_has_its_default() {
        let url = NatsUrl::parse("nats://broker").unwrap();
        assert_eq!(url.shown, "nats://broker");
        assert_eq!(url.servers, ["nats://broker:4222".parse().unwrap()]);
        let named = (&*url.stream, &*url.subject, &*url.durable);
        assert_eq!(named, ("leasehold-cache", "leasehold-cache.changes", "leasehold-cache"));
        assert_eq!((url.replicas, url.max_age.as_secs()), (1, 86_400));
        let url = "TLS://u:p@a:1,[::1]:2/?stream=s&subject=a.b&durable=d&replicas=3&max-age=2h";
        let url = NatsUrl::parse(url).unwrap();
        assert_eq!(url.shown, "tls://a:1,[::1]:2");
        let servers: Vec<_> = url.servers.iter().map(|server| server.as_url_str()).collect();
        assert_eq!(servers, ["tls://a:1", "tls://[::1]:2"]);
        assert_eq!((&*url.stream, &*url.subject, &*url.durable), ("s", "a.b", "d"));
        assert_eq!((url.replicas, url.max_age.as_secs()), (3, 7_200));
    }

    #[test]
    fn what_is_not_allowed_is_named_and_no_secret_is() {
        for (url, says) in [
            ("redis://secret@h", "nats://host:port"),
            ("secret", "nats://host:port"),
            ("nats:", "host is missing"),
            ("nats://u:secret@", "host is missing"),
            ("nats://u:secret@h:x", "port"),
            ("nats://u:secret@h h", "is not host:port"),
            ("nats://h,", "host is missing"),
            ("nats://h?stream=a.b", "stream"),
            ("nats://h?durable=", "durable"),
            ("nats://h?subject=a..b", "subject"),
            ("nats://h?subject=a.*", "subject"),
            ("nats://h?subject=$JS.x", "subject"),
            ("nats://h?replicas=6", "replicas"),
            ("nats://h?max-age=1s", "max-age"),
            ("nats://h?colour=secret", "unknown option \"colour\""),
            ("nats://u:secret@h?credentials=/x", "set one"),
            ("nats://h?credentials=/dev/null/nowhere", "/dev/null/nowhere"),
            ("nats://h?credentials=/dev/null", "is not a NATS credentials file"),
            ("nats://h?tls-cert=/dev/null", "set both"),
            ("nats://h?tls-ca=/dev/null/nowhere", "/dev/null/nowhere"),
            ("nats://u:secret@h?password-file=/dev/null/nowhere", "set one"),
        ] {
            let error = NatsUrl::parse(url).err().unwrap_or_else(|| panic!("{url} is taken"));
            let text = error.to_string();
            assert!(text.starts_with("NATS URL: ") && text.contains(says), "{url}: {text}");
            assert!(!text.contains("secret"), "{url}: {text}");
        }
    }
}
