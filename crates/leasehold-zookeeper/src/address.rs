//! From a store URL to where and as whom to connect.

use std::fmt;
use std::time::Duration;

use leasehold_core::{Error, ErrorKind, Result, StoreUrl};
use percent_encoding::percent_decode_str;
use rustls::pki_types::ServerName;
use zookeeper_client::{Client, Connector, TlsOptions};

use crate::path::Root;

/// Options that a URL may have.
const OPTIONS: &[&str] =
    &["acl", "password-file", "session", "tls-ca", "tls-cert", "tls-key", "user"];

const PORT: u16 = 2181;
/// What `session` may be, and what it is by default.
const SESSIONS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(3600));
const SESSION: Duration = Duration::from_secs(30);
/// How long a server may be silent at least and at most, in long sessions.
const SILENCE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(3));

/// Where to connect, under which node the locks are, and whom their nodes belong to.
#[derive(Clone)]
pub(crate) struct Address {
    /// Host and port of each server.
    pub(crate) hosts: Vec<(String, u16)>,
    pub(crate) root: Root,
    /// Nodes belong to the user that makes them, and to nobody else.
    pub(crate) own: bool,
    /// For people; without credentials.
    pub(crate) place: String,
    tls: Option<TlsOptions>,
    /// What TLS is made of, for a look of our own at a server.
    pub(crate) pem: Option<Pem>,
    /// What is asked for as the session's time limit.
    pub(crate) session: Duration,
    /// `user:password`.
    login: Option<String>,
}

/// The PEM files of a URL, with TLS.
#[derive(Clone)]
pub(crate) struct Pem {
    /// The certificates of the authority that servers' certificates are of.
    pub(crate) authority: String,
    /// The client's certificate and key.
    pub(crate) client: Option<(String, String)>,
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Address").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Address {
    /// Understands `zookeeper://[user:password@]host[:port],host[:port],...[/chroot]`, and
    /// `zookeepers://` for TLS.
    pub(crate) fn parse(mut url: StoreUrl) -> Result<Self> {
        let (user, password_file) = (url.take("user"), url.take("password-file"));
        let session = url.take_duration("session", SESSIONS)?.unwrap_or(SESSION);
        let acl = url.take("acl");
        let tls = tls(&mut url)?;
        url.finish(OPTIONS)?;
        let place = url.place().strip_prefix("//").unwrap_or_default();
        let (login, rest) = match place.rsplit_once('@') {
            Some((login, rest)) => (Some(login), rest),
            None => (None, place),
        };
        let (hosts, chroot) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let hosts: Vec<(String, u16)> =
            hosts.split(',').map(host_and_port).collect::<Result<_>>()?;
        if tls.is_some() && hosts.iter().any(|(host, _)| ServerName::try_from(&**host).is_err()) {
            return Err(invalid("a host that no certificate can name".into()));
        }
        let login = self::login(login, user, password_file.as_deref())?;
        let own = match acl.as_deref() {
            None => login.is_some(),
            Some("creator") => true,
            Some("open") => false,
            Some(other) => {
                return Err(invalid(format!("acl {other:?}; creator or open is allowed")));
            }
        };
        let place = url.to_string();
        let (tls, pem) = tls.unzip();
        Ok(Self { hosts, root: root(chroot)?, own, place, tls, pem, session, login })
    }

    /// A connection to be made, with a session of this time limit.
    pub(crate) fn connector(&self, session: Duration) -> Connector {
        let mut connector = Client::connector()
            .with_session_timeout(session)
            .with_connection_timeout(silence(session));
        if let Some(login) = &self.login {
            connector = connector.with_auth("digest", login.as_bytes());
        }
        if let Some(tls) = &self.tls {
            connector = connector.with_tls(tls.clone());
        }
        connector
    }

    /// The servers as the client library reads them.
    pub(crate) fn servers(&self) -> String {
        let scheme = if self.tls.is_some() { "tcp+tls" } else { "tcp" };
        let servers = self.hosts.iter().map(|(host, port)| match host.contains(':') {
            true => format!("{scheme}://[{host}]:{port}"),
            false => format!("{scheme}://{host}:{port}"),
        });
        servers.collect::<Vec<_>>().join(",")
    }
}

/// How long a server may be silent, at connecting too, before another is asked: early enough for
/// leases to be renewed there, and for [`keeper::LIMIT`](crate::keeper::LIMIT). The client library
/// pings after 3/8 of it, which is never more than 3/20 of the session.
pub(crate) fn silence(session: Duration) -> Duration {
    (session / 10).clamp(SILENCE.0, SILENCE.1).min(session * 2 / 5)
}

/// `host`, `host:port`, `[::1]:port`.
fn host_and_port(text: &str) -> Result<(String, u16)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest
                .split_once(']')
                .ok_or_else(|| invalid("an address that begins with [ has no ]".into()))?;
            (host, port.strip_prefix(':'))
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let port = match port {
        None => PORT,
        Some(port) => port
            .parse()
            .ok()
            .filter(|port| *port > 0)
            .ok_or_else(|| invalid("a port is not a number from 1 to 65535".into()))?,
    };
    if host.is_empty() {
        return Err(invalid("no host; write zookeeper://one:2181,two:2181,three:2181".into()));
    }
    Ok((host.to_owned(), port))
}

/// The node under which the locks are; `/leasehold` if the URL names none.
fn root(chroot: &str) -> Result<Root> {
    let chroot = match chroot {
        "" => "/leasehold",
        "/" => "",
        chroot => chroot,
    };
    let chroot = decoded(chroot)?;
    let parts = chroot.split('/').skip(1);
    let wrong =
        |part: &str| part.is_empty() || crate::path::escape(part) != part.replace('%', "%25");
    if parts.clone().any(wrong) || parts.clone().next() == Some("zookeeper") {
        return Err(invalid(format!(
            "chroot {chroot:?}; parts between slashes without control characters are allowed, not \
             empty, `.` or `..`, and not zookeeper"
        )));
    }
    Ok(Root(chroot))
}

fn login(
    login: Option<&str>,
    user: Option<String>,
    password_file: Option<&str>,
) -> Result<Option<String>> {
    let (name, password) = login.map_or((None, None), |login| match login.split_once(':') {
        Some((name, password)) => (Some(name), Some(password)),
        None => (Some(login), None),
    });
    let name = match (name.map(decoded).transpose()?, user) {
        (Some(_), Some(_)) => return Err(invalid("a user before the @ and user=; set one".into())),
        (one, other) => one.or(other),
    };
    let password = match (password.map(decoded).transpose()?, password_file) {
        (Some(_), Some(_)) => {
            return Err(invalid("a password and a password-file; set one".into()));
        }
        (given, None) => given,
        (None, Some(file)) => {
            Some(read(file, "password-file")?.trim_end_matches(['\r', '\n']).to_owned())
        }
    };
    match (name, password) {
        (None, None) => Ok(None),
        (Some(name), Some(password)) if !name.is_empty() && !name.contains(':') => {
            Ok(Some(format!("{name}:{password}")))
        }
        (Some(_), Some(_)) => Err(invalid("the user is empty or has a colon".into())),
        _ => Err(invalid("user and password go together; one is missing".into())),
    }
}

fn decoded(text: &str) -> Result<String> {
    let text = percent_decode_str(text).decode_utf8();
    text.map(|text| text.into_owned())
        .map_err(|_| invalid("percent-escapes that are not UTF-8".into()))
}

fn tls(url: &mut StoreUrl) -> Result<Option<(TlsOptions, Pem)>> {
    let (ca, cert, key) = (url.take("tls-ca"), url.take("tls-cert"), url.take("tls-key"));
    if url.scheme() != "zookeepers" {
        return match ca.or(cert).or(key) {
            Some(_) => Err(invalid("tls-ca, tls-cert and tls-key go with zookeepers:".into())),
            None => Ok(None),
        };
    }
    // With two providers in a build, as other engines bring them, none is the default.
    rustls::crypto::ring::default_provider().install_default().ok();
    let ca = ca.ok_or_else(|| {
        invalid("zookeepers: needs tls-ca=FILE, the certificate of the servers' authority".into())
    })?;
    let unusable =
        |option: &str, file: &str| invalid(format!("{option} {file:?} is no such PEM file"));
    let authority = read(&ca, "tls-ca")?;
    let options = TlsOptions::new().with_pem_ca(&authority);
    let options = options.map_err(|_| unusable("tls-ca", &ca))?;
    match (cert, key) {
        (None, None) => Ok(Some((options, Pem { authority, client: None }))),
        (Some(cert), Some(key)) => {
            let client = (read(&cert, "tls-cert")?, read(&key, "tls-key")?);
            let options = options.with_pem_identity(&client.0, &client.1);
            let options = options.map_err(|_| unusable("tls-cert or tls-key", &cert))?;
            Ok(Some((options, Pem { authority, client: Some(client) })))
        }
        _ => Err(invalid("tls-cert and tls-key go together; one is missing".into())),
    }
}

fn read(path: &str, option: &str) -> Result<String> {
    std::fs::read_to_string(path).map_err(|error| {
        invalid(format!("{option} {path:?} cannot be read: {error}")).with_source(error)
    })
}

fn invalid(what: String) -> Error {
    Error::new(ErrorKind::Invalid, format!("store URL: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Address> {
        Address::parse(StoreUrl::parse(url)?)
    }

    #[test]
    fn the_usual_urls_are_understood() {
        let address =
            parse("zookeeper://u:p%40s@one,[::1]:7000,three:2182/a/b?session=10s").unwrap();
        assert_eq!(address.servers(), "tcp://one:2181,tcp://[::1]:7000,tcp://three:2182");
        assert_eq!((address.root.path(), address.own), ("/a/b", true));
        assert_eq!(address.login.as_deref(), Some("u:p@s"));
        assert_eq!(address.session, Duration::from_secs(10));
        assert!(!format!("{address:?}").contains("p@s"), "{address:?}");
        let plain = parse("zookeeper://one").unwrap();
        assert_eq!((plain.root.path(), plain.own, plain.session), ("/leasehold", false, SESSION));
        assert_eq!(parse("zookeeper://one/").unwrap().root.path(), "/");
        assert!(!parse("zookeeper://u:p@one?acl=open").unwrap().own);
    }

    #[test]
    fn wrong_ones_name_the_part_and_never_the_password() {
        for (url, part) in [
            ("zookeeper:one", "no host"),
            ("zookeeper://one,,two", "no host"),
            ("zookeeper://one:port", "port"),
            ("zookeeper://one:0", "port"),
            ("zookeeper://one/a/", "chroot"),
            ("zookeeper://one/a//b", "chroot"),
            ("zookeeper://one/a/../b", "chroot"),
            ("zookeeper://one/zookeeper", "chroot"),
            ("zookeeper://one?session=5", "session"),
            ("zookeeper://one?session=10ms", "session"),
            ("zookeeper://one?acl=all", "acl"),
            ("zookeeper://one?tls-ca=/nope", "zookeepers:"),
            ("zookeepers://one", "tls-ca"),
            ("zookeepers://one?tls-ca=/nope", "tls-ca"),
            ("zookeepers://one?tls-ca=/dev/null", "tls-ca"),
            ("zookeeper://u@one", "go together"),
            ("zookeeper://:s3cret@one", "the user is empty"),
            ("zookeeper://u:s3cret@one?user=u", "set one"),
            ("zookeeper://u:s3cret@one?password-file=/dev/null", "password-file"),
            ("zookeeper://u:s3cret@one?x=1", "\"x\""),
            ("zookeeper://u@one?password-file=/nope/s3", "cannot be read"),
        ] {
            let error = parse(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{url}");
            assert!(error.to_string().contains(part), "{url}: {error}");
            assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
        }
    }
}
