//! Parses a store URL: where to connect, and with which credentials.

use std::path::PathBuf;
use std::time::Duration;

use leasehold_core::{Error, Result, StoreUrl};
use redis::io::tcp::{TcpSettings, socket2};
use redis::{Client, ConnectionAddr, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo};

use crate::retain;
use crate::tls::Certificates;

/// The options that a URL may have.
pub(crate) const OPTIONS: &[&str] =
    &["db", "password-file", "prefix", "retain", "tls-ca", "tls-cert", "tls-key", "user"];

const KEEPALIVE: Duration = Duration::from_secs(15);
/// If sent data is not acknowledged for this long, the kernel closes the connection.
const USER_TIMEOUT: Duration = Duration::from_secs(10);

/// Where to connect, and the prefix of the keys.
#[derive(Debug)]
pub(crate) struct Address {
    pub(crate) client: Client,
    pub(crate) prefix: String,
    pub(crate) retain: Duration,
    pub(crate) place: String,
}

impl Address {
    /// Parses `redis://[user[:password]@]host[:port][/db]`, `rediss://` and `redis+unix:/path`.
    pub(crate) fn parse(url: StoreUrl) -> Result<Self> {
        Self::parse_with(url, &["admission"])
    }

    /// Does the same after the caller took further options, which are named here.
    pub(crate) fn parse_with(mut url: StoreUrl, options: &[&str]) -> Result<Self> {
        let common = Common::take(&mut url)?;
        Self::server(url, common, &[OPTIONS, options].concat())
    }

    /// Parses the same URLs for data, which needs no pushes and so no right to `HELLO`.
    pub(crate) fn parse_for_data(mut url: StoreUrl) -> Result<Self> {
        let mut options = OPTIONS.to_vec();
        options.retain(|name| !["prefix", "retain"].contains(name));
        let common = Common { protocol: ProtocolVersion::RESP2, ..Common::take(&mut url)? };
        Self::server(url, common, &options)
    }

    fn server(url: StoreUrl, common: Common, options: &[&str]) -> Result<Self> {
        url.finish(options)?;
        let place = url.to_string();
        match url.scheme() {
            "redis+unix" => {
                let addr = ConnectionAddr::Unix(PathBuf::from(
                    url.absolute_path("redis+unix:/run/redis.sock")?,
                ));
                common.address(addr, Login::default(), place)
            }
            scheme => {
                let (addr, login) = network(scheme == "rediss", url.place())?;
                common.address(addr, login, place)
            }
        }
    }

    /// Parses `redlock://[user[:password]@]host[:port],host[:port],...[/db]`, and `redlocks://` for
    /// TLS. A user and password before the first host apply to all hosts without their own.
    pub(crate) fn parse_all(mut url: StoreUrl, options: &[&str]) -> Result<Vec<Self>> {
        let common = Common::take(&mut url)?;
        url.finish(&[OPTIONS, options].concat())?;
        let tls = url.scheme() == "redlocks";
        let (places, db) = split_db(url.place());
        let places = places.strip_prefix("//").ok_or_else(|| {
            invalid("the hosts are missing; write redlock://one:6379,two:6379,three:6379".into())
        })?;
        let mut nodes: Vec<(String, ConnectionAddr, Login)> = Vec::new();
        for (at, text) in places.split(',').enumerate() {
            if text.is_empty() {
                return Err(invalid(format!(
                    "host number {} is empty; remove the extra comma",
                    at + 1
                )));
            }
            let (addr, mut login) = network(tls, &format!("//{text}"))?;
            if login.db.is_some() {
                return Err(invalid(
                    "the database is not after the last host; write it there, once".into(),
                ));
            }
            let first_has_password =
                nodes.first().is_some_and(|(.., first)| first.password.is_some());
            if first_has_password && login.user.is_some() && login.password.is_none() {
                return Err(invalid(format!(
                    "host number {} has a user without a password; in a password write @ as %40 and \
                     a comma as %2C",
                    at + 1
                )));
            }
            let place = shown(&addr);
            if let Some(at) = nodes.iter().position(|(known, ..)| *known == place) {
                let (at, again) = (at + 1, nodes.len() + 1);
                return Err(invalid(format!(
                    "host number {again} is the same as number {at}, {place}; each node must be an \
                     independent server"
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

/// Writes a host and port in one normal form.
fn shown(addr: &ConnectionAddr) -> String {
    match addr {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
            let host = host.to_lowercase();
            if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
        }
        other => other.to_string(),
    }
}

/// Splits off the database after the last host, if there is one.
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

/// The options that apply to each server that a URL names.
#[derive(Clone)]
pub(crate) struct Common {
    pub(crate) prefix: String,
    pub(crate) retain: Duration,
    pub(crate) user: Option<String>,
    pub(crate) password_file: Option<String>,
    pub(crate) db: Option<String>,
    pub(crate) certificates: Option<Certificates>,
    pub(crate) protocol: ProtocolVersion,
}

impl Common {
    pub(crate) fn take(url: &mut StoreUrl) -> Result<Self> {
        let prefix = url.take("prefix").unwrap_or_else(|| "leasehold".to_owned());
        if prefix.is_empty() || prefix.contains(['{', '}']) {
            return Err(invalid(format!(
                "prefix {prefix:?}; it must not be empty or contain braces"
            )));
        }
        let retain = retain::take(url)?;
        let certificates = Certificates::take(url)?;
        let (user, db) = (url.take("user"), url.take("db"));
        let password_file = url.take("password-file");
        let protocol = ProtocolVersion::RESP3;
        Ok(Self { prefix, retain, user, password_file, db, certificates, protocol })
    }

    pub(crate) fn address(
        &self,
        addr: ConnectionAddr,
        login: Login,
        place: String,
    ) -> Result<Address> {
        let mut redis = RedisConnectionInfo::default()
            .set_protocol(self.protocol)
            .set_lib_name("leasehold", env!("CARGO_PKG_VERSION"))
            .set_db(database(login.db.as_ref().or(self.db.as_ref()))?);
        let user = self.user.as_ref().or(login.user.as_ref());
        if let Some(user) = user {
            redis = redis.set_username(user);
        }
        let password = StoreUrl::password(self.password_file.as_deref(), login.password)?;
        // Without a password the client sends no AUTH, and the server treats it as the default
        // user. A user without a password (`nopass`) may send any.
        if let Some(password) = password.or_else(|| user.map(|_| String::new())) {
            redis = redis.set_password(password);
        }
        let keepalive = socket2::TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE);
        let tcp = TcpSettings::default().set_nodelay(true).set_keepalive(keepalive);
        #[cfg(target_os = "linux")]
        let tcp = tcp.set_user_timeout(USER_TIMEOUT);
        let info = addr
            .into_connection_info()
            .map_err(|error| invalid("cannot be parsed".into()).with_source(error))?
            .set_tcp_settings(tcp)
            .set_redis_settings(redis);
        let client = match &self.certificates {
            Some(certificates) => certificates.client(info),
            None => Client::open(info),
        };
        let client = client.map_err(|error| {
            invalid(format!("cannot be used: {}", error.detail().unwrap_or("TLS settings")))
        })?;
        Ok(Address { client, prefix: self.prefix.clone(), retain: self.retain, place })
    }
}

#[derive(Clone, Default)]
pub(crate) struct Login {
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) db: Option<String>,
}

impl Login {
    /// Parses `user[:password]`.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let (user, password) = StoreUrl::login(text)?;
        Ok(Self { user, password, db: None })
    }
}

/// Parses `//[user[:password]@]host[:port][/db]`.
fn network(tls: bool, place: &str) -> Result<(ConnectionAddr, Login)> {
    let rest = place
        .strip_prefix("//")
        .ok_or_else(|| invalid("the host is missing; write redis://host:6379".into()))?;
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

/// Parses `host`, `host:port`, `[::1]:port`.
pub(crate) fn host_and_port(text: &str, default: u16) -> Result<(String, u16)> {
    match StoreUrl::host_and_port(text)? {
        (host, _) if host.is_empty() => {
            Err(invalid("the host is missing; write redis://host:6379".into()))
        }
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
        for named in ["redis://u@h", "redis://h?user=u", "redis+unix:/run/redis.sock?user=u"] {
            let address = parse(named).unwrap();
            let redis = address.client.get_connection_info().redis_settings().clone();
            assert_eq!((redis.username(), redis.password()), (Some("u"), Some("")), "{named}");
        }
    }

    #[test]
    fn wrong_ones_name_the_part_and_never_the_password() {
        for (url, part) in [
            ("redis:localhost", "host is missing"),
            ("redis://", "host is missing"),
            ("redis://h:port", "port"),
            ("redis://h/x", "database"),
            ("redis+unix:redis.sock", "/redis.sock"),
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
