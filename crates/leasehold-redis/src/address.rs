//! From a store URL to where and as whom to connect.

use std::path::PathBuf;
use std::time::Duration;

use leasehold_core::{Error, Result, StoreUrl};
use redis::io::tcp::{TcpSettings, socket2};
use redis::{
    Client, ClientTlsConfig, ConnectionAddr, IntoConnectionInfo, ProtocolVersion,
    RedisConnectionInfo, TlsCertificates,
};

/// Options that a URL may have.
pub(crate) const OPTIONS: &[&str] =
    &["db", "password-file", "prefix", "tls-ca", "tls-cert", "tls-key", "user"];

const KEEPALIVE: Duration = Duration::from_secs(15);
/// Unacknowledged data for this long means that the other side is gone.
const USER_TIMEOUT: Duration = Duration::from_secs(10);

/// Where to connect, and what the keys begin with.
#[derive(Debug)]
pub(crate) struct Address {
    pub(crate) client: Client,
    pub(crate) prefix: String,
    pub(crate) place: String,
}

impl Address {
    /// Understands `redis://[user[:password]@]host[:port][/db]`, `rediss://` and
    /// `redis+unix:/path`.
    pub(crate) fn parse(url: StoreUrl) -> Result<Self> {
        Self::parse_with(url, &["admission"])
    }

    /// The same, when somebody else has taken further options, that are named here.
    pub(crate) fn parse_with(mut url: StoreUrl, options: &[&str]) -> Result<Self> {
        let common = Common::take(&mut url)?;
        url.finish(&[OPTIONS, options].concat())?;
        let place = url.to_string();
        match url.scheme() {
            "redis+unix" => {
                let addr = ConnectionAddr::Unix(PathBuf::from(url.path()?));
                common.address(addr, Login::default(), place)
            }
            scheme => {
                let (addr, login) = network(scheme == "rediss", url.place())?;
                common.address(addr, login, place)
            }
        }
    }

    /// Understands `redlock://[user[:password]@]host[:port],host[:port],...[/db]`, and `redlocks://`
    /// for TLS. A user and password before the first stand for all that have none of their own.
    pub(crate) fn parse_all(mut url: StoreUrl, options: &[&str]) -> Result<Vec<Self>> {
        let common = Common::take(&mut url)?;
        url.finish(&[OPTIONS, options].concat())?;
        let tls = url.scheme() == "redlocks";
        let (places, db) = split_db(url.place());
        let places = places.strip_prefix("//").ok_or_else(|| {
            invalid("no hosts; write redlock://one:6379,two:6379,three:6379".into())
        })?;
        let mut nodes: Vec<(String, ConnectionAddr, Login)> = Vec::new();
        for (at, text) in places.split(',').enumerate() {
            if text.is_empty() {
                return Err(invalid(format!("host number {} is empty; a comma too many?", at + 1)));
            }
            let (addr, mut login) = network(tls, &format!("//{text}"))?;
            if login.db.is_some() {
                return Err(invalid("a database stands after the last host, for all".into()));
            }
            let place = shown(&addr);
            if let Some(at) = nodes.iter().position(|(known, ..)| *known == place) {
                let (at, again) = (at + 1, nodes.len() + 1);
                return Err(invalid(format!(
                    "host number {again} is the same as number {at}, {place}; each node must be a \
                     server of its own"
                )));
            }
            if let (None, None, Some((.., first))) = (&login.user, &login.password, nodes.first()) {
                login = first.clone();
            }
            login.db = db.map(str::to_owned);
            nodes.push((place, addr, login));
        }
        nodes.into_iter().map(|(place, addr, login)| common.address(addr, login, place)).collect()
    }
}

/// Whether connections of this scheme use TLS.
pub(crate) fn is_tls(scheme: &str) -> bool {
    scheme.starts_with("rediss") || scheme == "redlocks"
}

/// A host and port in one way of writing.
fn shown(addr: &ConnectionAddr) -> String {
    match addr {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
            let host = host.to_lowercase();
            if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
        }
        other => other.to_string(),
    }
}

/// The database after the last host, if there is one.
pub(crate) fn split_db(place: &str) -> (&str, Option<&str>) {
    let from = place.rfind('@').map_or(2, |at| at + 1);
    match place.get(from..).and_then(|last| last.find('/')) {
        Some(at) => {
            let (places, db) = place.split_at(from + at);
            (places, db.get(1..).filter(|db| !db.is_empty()))
        }
        None => (place, None),
    }
}

/// What the options say, for each server that a URL names.
#[derive(Clone)]
pub(crate) struct Common {
    pub(crate) prefix: String,
    pub(crate) user: Option<String>,
    pub(crate) password_file: Option<String>,
    pub(crate) db: Option<String>,
    pub(crate) certificates: Option<TlsCertificates>,
}

impl Common {
    pub(crate) fn take(url: &mut StoreUrl) -> Result<Self> {
        let prefix = url.take("prefix").unwrap_or_else(|| "leasehold".to_owned());
        if prefix.is_empty() || prefix.contains(['{', '}']) {
            return Err(invalid(format!("prefix {prefix:?}; braces and nothing are not allowed")));
        }
        let certificates = certificates(url)?;
        let tls = is_tls(url.scheme());
        if tls {
            // With two providers in a build, as other engines bring them, none is the default.
            rustls::crypto::ring::default_provider().install_default().ok();
        }
        if certificates.is_some() && !tls {
            return Err(invalid(
                "tls-ca, tls-cert and tls-key go with rediss: and redlocks:".into(),
            ));
        }
        let (user, db) = (url.take("user"), url.take("db"));
        let password_file = url.take("password-file");
        Ok(Self { prefix, user, password_file, db, certificates })
    }

    pub(crate) fn address(
        &self,
        addr: ConnectionAddr,
        login: Login,
        place: String,
    ) -> Result<Address> {
        let mut redis = RedisConnectionInfo::default()
            .set_protocol(ProtocolVersion::RESP3)
            .set_lib_name("leasehold", env!("CARGO_PKG_VERSION"))
            .set_db(database(login.db.as_ref().or(self.db.as_ref()))?);
        if let Some(user) = self.user.as_ref().or(login.user.as_ref()) {
            redis = redis.set_username(user);
        }
        if let Some(password) = StoreUrl::password(self.password_file.as_deref(), login.password)? {
            redis = redis.set_password(password);
        }
        let keepalive = socket2::TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE);
        let tcp = TcpSettings::default().set_nodelay(true).set_keepalive(keepalive);
        #[cfg(target_os = "linux")]
        let tcp = tcp.set_user_timeout(USER_TIMEOUT);
        let info = addr
            .into_connection_info()
            .map_err(|error| invalid("cannot be understood".into()).with_source(error))?
            .set_tcp_settings(tcp)
            .set_redis_settings(redis);
        let client = match &self.certificates {
            Some(certificates) => Client::build_with_tls(info, certificates.clone()),
            None => Client::open(info),
        };
        let client = client.map_err(|error| {
            invalid(format!("cannot be used: {}", error.detail().unwrap_or("TLS settings")))
        })?;
        Ok(Address { client, prefix: self.prefix.clone(), place })
    }
}

#[derive(Clone, Default)]
pub(crate) struct Login {
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) db: Option<String>,
}

impl Login {
    /// `user[:password]`.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let (user, password) = StoreUrl::login(text)?;
        Ok(Self { user, password, db: None })
    }
}

/// `//[user[:password]@]host[:port][/db]`.
fn network(tls: bool, place: &str) -> Result<(ConnectionAddr, Login)> {
    let rest = place
        .strip_prefix("//")
        .ok_or_else(|| invalid("no host; write redis://host:6379".into()))?;
    let (login, rest) = match rest.rsplit_once('@') {
        Some((login, rest)) => (Some(login), rest),
        None => (None, rest),
    };
    let (host, db) = rest.split_once('/').unwrap_or((rest, ""));
    let login = login.map(Login::parse).transpose()?.unwrap_or_default();
    let (host, port) = host_and_port(host, 6379)?;
    let addr = match tls {
        true => ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None },
        false => ConnectionAddr::Tcp(host, port),
    };
    Ok((addr, Login { db: (!db.is_empty()).then(|| db.to_owned()), ..login }))
}

/// `host`, `host:port`, `[::1]:port`.
pub(crate) fn host_and_port(text: &str, default: u16) -> Result<(String, u16)> {
    match StoreUrl::host_and_port(text)? {
        (host, _) if host.is_empty() => Err(invalid("no host; write redis://host:6379".into())),
        (host, port) => Ok((host, port.unwrap_or(default))),
    }
}

fn database(db: Option<&String>) -> Result<i64> {
    match db {
        None => Ok(0),
        Some(db) => db
            .parse()
            .ok()
            .filter(|db| (0..=i64::from(u16::MAX)).contains(db))
            .ok_or_else(|| invalid(format!("database {db:?}; a number from 0 is allowed"))),
    }
}

fn certificates(url: &mut StoreUrl) -> Result<Option<TlsCertificates>> {
    let files = url.take_tls()?;
    if files.is_empty() {
        return Ok(None);
    }
    let root_cert = files.authority.map(|ca| StoreUrl::read("tls-ca", &ca)).transpose()?;
    let client_tls = match files.client {
        None => None,
        Some((cert, key)) => Some(ClientTlsConfig {
            client_cert: StoreUrl::read("tls-cert", &cert)?,
            client_key: StoreUrl::read("tls-key", &key)?,
        }),
    };
    Ok(Some(TlsCertificates { client_tls, root_cert }))
}

pub(crate) fn invalid(what: String) -> Error {
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
        for url in [
            "redis://localhost",
            "redis://u:p%40ss@127.0.0.1:6380/3",
            "redis://:pass@[::1]:6379",
            "redis+unix:/run/redis.sock?db=2&user=u",
        ] {
            parse(url).unwrap();
        }
        let address = parse("redis://u:p%40s:s/@127.0.0.1:6380/3?prefix=app").unwrap();
        let redis = address.client.get_connection_info().redis_settings().clone();
        assert_eq!((redis.username(), redis.password()), (Some("u"), Some("p@s:s/")));
        assert_eq!((redis.db(), address.prefix.as_str()), (3, "app"));
    }

    #[test]
    fn wrong_ones_name_the_part_and_never_the_password() {
        for (url, part) in [
            ("redis:localhost", "no host"),
            ("redis://", "no host"),
            ("redis://h:port", "port"),
            ("redis://h/x", "database"),
            ("redis://h?prefix={", "prefix"),
            ("redis://h?tls-ca=/nope", "tls-ca"),
            ("rediss://h?tls-cert=/dev/null", "tls-cert and tls-key"),
            ("redis://u:s3cret@h?password-file=/dev/null", "password-file"),
            ("redis://u:s3cret@h?password-file=/nope&x=1", "\"x\""),
            ("redis://h?password-file=/nope/s3", "cannot be read"),
        ] {
            let error = parse(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{url}");
            assert!(error.to_string().contains(part), "{url}: {error}");
            assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
        }
    }
}
