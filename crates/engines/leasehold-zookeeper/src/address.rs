//! Parses a store URL into servers, credentials and root node.

use std::fmt;
use std::time::Duration;

use leasehold_core::{Error, Name, Result, StoreUrl};
use zookeeper_client::{Client, Connector};

use crate::format::Format;
use crate::path::{self, Root};
use crate::tls::Tls;

/// The options that a URL may have.
const OPTIONS: &[&str] =
    &["acl", "also", "password-file", "session", "tls-ca", "tls-cert", "tls-key", "user", "wire"];

const PORT: u16 = 2181;
/// The range and default of the option `session`.
const SESSIONS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(3600));
const SESSION: Duration = Duration::from_secs(30);
/// The limits of the time for which a server may be silent.
const SILENCE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(3));

/// The servers, the root node of the locks, and the access rights of new nodes.
#[derive(Clone)]
pub(crate) struct Address {
    /// Host and port of each server.
    pub(crate) hosts: Vec<(String, u16)>,
    pub(crate) root: Root,
    /// The root node of clients whose URL is the same, but for the option `wire`.
    pub(crate) native: Root,
    pub(crate) format: Format,
    /// True if only the user that creates a node has access to it.
    pub(crate) own: bool,
    /// The address for messages, without credentials.
    pub(crate) place: String,
    pub(crate) tls: Option<Tls>,
    /// The requested session timeout.
    pub(crate) session: Duration,
    /// `user:password`.
    login: Option<String>,
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Address").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Address {
    /// Parses `zookeeper://[user:password@]host[:port],host[:port],...[/chroot]`, or `zookeepers://`
    /// for TLS.
    pub(crate) fn parse(mut url: StoreUrl) -> Result<Self> {
        let login = login(&mut url)?;
        let session = url.take_duration("session", SESSIONS)?.unwrap_or(SESSION);
        let acl = url.take("acl");
        let format = Format::take(&mut url)?;
        let tls = Tls::take(&mut url)?;
        url.finish(OPTIONS)?;
        let place = url.place().strip_prefix("//").unwrap_or_default();
        let rest = place.rsplit_once('@').map_or(place, |(_, rest)| rest);
        let (hosts, chroot) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let hosts: Vec<(String, u16)> =
            hosts.split(',').map(host_and_port).collect::<Result<_>>()?;
        if let Some(tls) = &tls {
            hosts.iter().try_for_each(|(host, _)| tls.check_host(host))?;
        }
        let own = match acl.as_deref() {
            // The clients of another library must be able to read the nodes.
            None => login.is_some() && format == Format::Own,
            Some("creator") => true,
            Some("open") => false,
            Some(other) => {
                return Err(invalid(format!("acl {other:?}; creator and open are allowed")));
            }
        };
        let place = url.to_string();
        let native = root(chroot)?;
        let root = match (format, chroot) {
            (Format::Curator | Format::Kazoo, "") => Root(String::new()),
            _ => native.clone(),
        };
        Ok(Self { hosts, root, native, format, own, place, tls, session, login })
    }

    /// Returns the node of a lock.
    pub(crate) fn lock(&self, name: &Name) -> String {
        self.format.lock(&self.root, name)
    }

    /// Returns the connector for a session with this timeout.
    pub(crate) fn connector(&self, session: Duration) -> Connector {
        let mut connector = Client::connector()
            .with_session_timeout(session)
            .with_connection_timeout(silence(session));
        if let Some(login) = &self.login {
            connector = connector.with_auth("digest", login.as_bytes());
        }
        if let Some(tls) = &self.tls {
            connector = tls.secure(connector);
        }
        connector
    }

    /// Returns the servers in the format of the client library.
    pub(crate) fn servers(&self) -> String {
        let scheme = if self.tls.is_some() { "tcp+tls" } else { "tcp" };
        let servers = self.hosts.iter().map(|(host, port)| match host.contains(':') {
            true => format!("{scheme}://[{host}]:{port}"),
            false => format!("{scheme}://{host}:{port}"),
        });
        servers.collect::<Vec<_>>().join(",")
    }
}

/// Returns how long a server may be silent, also while connecting, before the client switches to
/// another: early enough to renew leases there, and for [`session_keeper::LIMIT`](crate::session_keeper::LIMIT).
/// The client library pings after 3/8 of it, which is at most 3/20 of the session.
pub(crate) fn silence(session: Duration) -> Duration {
    (session / 10).clamp(SILENCE.0, SILENCE.1).min(session * 2 / 5)
}

/// Parses `host`, `host:port` or `[::1]:port`.
fn host_and_port(text: &str) -> Result<(String, u16)> {
    match StoreUrl::host_and_port(text)? {
        (host, _) if host.is_empty() => {
            Err(invalid("the host is missing; write zookeeper://one:2181,two:2181,three:2181"))
        }
        (host, port) => Ok((host, port.unwrap_or(PORT))),
    }
}

/// Parses the root node of the locks; `/leasehold` if the URL names none.
fn root(chroot: &str) -> Result<Root> {
    let chroot = match chroot {
        "" => "/leasehold",
        "/" => "",
        chroot => chroot,
    };
    let chroot = StoreUrl::decoded(chroot)?.unwrap_or_default();
    let parts = chroot.split('/').skip(1);
    let wrong = |part: &str| !path::is_part(part);
    if parts.clone().any(wrong) || parts.clone().next() == Some("zookeeper") {
        return Err(invalid(format!(
            "chroot {chroot:?}; the parts between slashes must not be empty, `.`, `..` or \
             `zookeeper`, and must not have control characters"
        )));
    }
    Ok(Root(chroot))
}

fn login(url: &mut StoreUrl) -> Result<Option<String>> {
    let place = url.place().to_owned();
    let text = place.strip_prefix("//").and_then(|place| place.rsplit_once('@'));
    match url.take_login(text.map(|(login, _)| login))? {
        Some((user, _)) if user.contains(':') => {
            Err(invalid("the user name must not contain a colon"))
        }
        login => Ok(login.map(|(user, password)| format!("{user}:{password}"))),
    }
}

pub(crate) fn invalid(what: impl fmt::Display) -> Error {
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
    fn with_a_wire_names_are_paths_from_the_top_and_nodes_are_for_all() {
        let name = Name::new("locks/job").unwrap();
        for (url, lock, native) in [
            ("zookeeper://u:p@one?wire=curator", "/locks/job", "/leasehold/locks%2Fjob"),
            ("zookeeper://u:p@one/app?wire=kazoo", "/app/locks/job", "/app/locks%2Fjob"),
        ] {
            let address = parse(url).unwrap();
            assert_eq!((&*address.lock(&name), &*address.native.lock(&name)), (lock, native));
            assert!(!address.own, "{url}");
        }
        assert!(parse("zookeeper://u:p@one?wire=kazoo&acl=creator").unwrap().own);
    }

    #[cfg(feature = "tls")]
    #[test]
    fn over_tls_an_authority_that_can_be_read_is_required() {
        for query in ["", "?tls-ca=/nope", "?tls-ca=/dev/null"] {
            let error = parse(&format!("zookeepers://one{query}")).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{query}");
            assert!(error.to_string().contains("tls-ca"), "{query}: {error}");
        }
    }

    #[test]
    fn wrong_ones_name_the_part_and_never_the_password() {
        for (url, part) in [
            ("zookeeper:one", "host is missing"),
            ("zookeeper://one,,two", "host is missing"),
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
            ("zookeeper://u@one", "user has no password"),
            ("zookeeper://:s3cret@one", "password has no user"),
            ("zookeeper://u%3Av:s3cret@one", "colon"),
            ("zookeeper://u:s3cret@one?user=v", "set twice"),
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
