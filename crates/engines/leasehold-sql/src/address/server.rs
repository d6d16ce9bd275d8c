//! Parses the server of a URL: where it is, and with which credentials to connect.

use leasehold_core::{Error, Result, StoreUrl, TlsFiles};

use super::invalid;

/// Where a server is, and with which credentials to connect.
#[derive(Default)]
pub(super) struct Server {
    pub(super) host: String,
    pub(super) port: Option<u16>,
    pub(super) socket: Option<String>,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    pub(super) database: Option<String>,
    pub(super) tls: Option<String>,
    pub(super) authority: Option<String>,
    pub(super) identity: Option<(String, String)>,
}

impl Server {
    pub(super) fn take(url: &mut StoreUrl, example: &str) -> Result<Self> {
        let none = || invalid(format!("the host is missing; write {example}"));
        // If other engines add a second provider to the build, neither is the default.
        #[cfg(feature = "tls")]
        rustls::crypto::ring::default_provider().install_default().ok();
        let socket = url.take("socket");
        let rest = url.place().strip_prefix("//").ok_or_else(none)?;
        let (login, rest) = match rest.rsplit_once('@') {
            Some((login, rest)) => (login, rest),
            None => ("", rest),
        };
        let (place, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, password) = StoreUrl::login(login)?;
        let database = StoreUrl::decoded(database)?;
        let (host, port) = StoreUrl::host_and_port(place)?;
        if host.is_empty() && socket.is_none() {
            return Err(none());
        }
        if database.is_none() {
            return Err(invalid(format!("the database is missing; write {example}")));
        }
        let password = StoreUrl::password(url.take("password-file").as_deref(), password)?;
        let TlsFiles { authority, client: identity, .. } = url.take_tls()?;
        if let Some((cert, key)) = &identity {
            readable(cert, "tls-cert")?;
            readable(key, "tls-key")?;
        }
        let (authority, option) = match authority {
            Some(authority) => (Some(authority), "tls-ca"),
            None => (url.take("sslrootcert"), "sslrootcert"),
        };
        if let Some(authority) = &authority {
            readable(authority, option)?;
        }
        // `sslmode` uses the names of libpq.
        let tls = match (url.take("tls"), url.take("sslmode").as_deref()) {
            (None, Some("disable")) => Some("off".to_owned()),
            (None, Some("allow")) => Some("prefer".to_owned()),
            (None, Some("verify-full")) => Some("verify".to_owned()),
            (None, Some(mode)) => Some(mode.to_owned()),
            (Some(_), Some(_)) => {
                return Err(invalid("tls and sslmode are both set; keep one".into()));
            }
            (tls, None) => tls,
        };
        if tls.as_deref() == Some("off") && (authority.is_some() || identity.is_some()) {
            return Err(invalid(
                "tls=off is set together with certificates; remove one of them".into(),
            ));
        }
        // These modes do not check the authority, but a user who names one wants that check.
        if matches!(tls.as_deref(), Some("prefer" | "require")) && authority.is_some() {
            return Err(invalid("tls-ca needs tls=verify-ca or tls=verify".into()));
        }
        #[cfg(not(feature = "tls"))]
        if authority.is_some()
            || identity.is_some()
            || matches!(tls.as_deref(), Some("require" | "verify-ca" | "verify"))
        {
            return Err(StoreUrl::needs_feature("TLS", "tls"));
        }
        let user = url.take("user").or(user);
        Ok(Self { host, port, socket, user, password, database, tls, authority, identity })
    }

    /// Returns the TLS mode. An authority or an own identity in the URL implies `verify`.
    pub(super) fn tls(&self) -> &str {
        match &self.tls {
            Some(tls) => tls,
            None if self.authority.is_some() || self.identity.is_some() => "verify",
            None => "prefer",
        }
    }
}

/// Builds the client options with everything that the URL says about the server. Each engine has
/// its own type for them; only the name of the authority differs.
macro_rules! at {
    ($server:expr, $options:expr, $authority:ident) => {{
        let mut options = $options.host(&$server.host);
        if let Some(socket) = &$server.socket {
            options = options.socket(socket);
        }
        if let Some(user) = &$server.user {
            options = options.username(user);
        }
        if let Some(password) = &$server.password {
            options = options.password(password);
        }
        if let Some(database) = &$server.database {
            options = options.database(database);
        }
        if let Some(authority) = &$server.authority {
            options = options.$authority(authority);
        }
        if let Some((cert, key)) = &$server.identity {
            options = options.ssl_client_cert(cert).ssl_client_key(key);
        }
        options
    }};
}
pub(super) use at;

pub(super) fn wrong_tls(tls: &str) -> Error {
    invalid(format!("tls={tls:?}; off, prefer, require, verify-ca or verify is allowed"))
}

fn readable(path: &str, option: &str) -> Result<()> {
    StoreUrl::check_file(option, path)?;
    match std::fs::File::open(path) {
        Ok(_) => Ok(()),
        Err(error) => {
            let what = format!("{option} {path:?} cannot be read: {error}");
            Err(invalid(what).with_source(error))
        }
    }
}
