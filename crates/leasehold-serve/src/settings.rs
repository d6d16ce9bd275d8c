//! What the server is given when it starts, and which combinations it refuses.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use leasehold::{Error, ErrorKind, StoreUrl};

/// The settings of a server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// The stores that it shows, at least one.
    pub stores: Vec<StoreSetting>,
    /// Where it listens. Default: `127.0.0.1:7411`.
    pub listen: Listen,
    /// The host names by which clients reach it, beside those of the address.
    pub hosts: Vec<String>,
    /// The file of tokens and roles. Without it, only a unix socket allows changes.
    pub token_file: Option<PathBuf>,
    /// The certificate chain in PEM.
    pub tls_cert: Option<PathBuf>,
    /// The private key in PEM.
    pub tls_key: Option<PathBuf>,
    /// Allows forced releases to callers with the role `force`. Default: false.
    pub allow_force_release: bool,
    /// The file to which forced releases are written. Default: standard error.
    pub audit_file: Option<PathBuf>,
    /// What the server accepts at most.
    pub limits: Limits,
}

/// A store by the name that users see.
#[derive(Clone, Debug)]
pub struct StoreSetting {
    /// Its name in URLs: letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// The URL of the store.
    pub url: String,
}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// An address and a port.
    Tcp(SocketAddr),
    /// The path of a unix socket, which only its owner may use.
    Unix(PathBuf),
}

/// What a server accepts at most.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Open connections. Default: 4,096.
    pub connections: usize,
    /// Leases and waiting requests together. Default: 4,096.
    pub holds: usize,
    /// Leases and waiting requests of one token. Default: 1,024.
    pub holds_per_token: usize,
    /// Requests that wait for one lock. Default: 1,024.
    pub queue: usize,
    /// Bytes of a request's body. Default: 16 KiB.
    pub body: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { connections: 4096, holds: 4096, holds_per_token: 1024, queue: 1024, body: 16 << 10 }
    }
}

impl Settings {
    /// Creates the default settings for these stores.
    pub fn new(stores: Vec<StoreSetting>) -> Self {
        Self {
            stores,
            listen: Listen::Tcp(SocketAddr::from(([127, 0, 0, 1], 7411))),
            hosts: Vec::new(),
            token_file: None,
            tls_cert: None,
            tls_key: None,
            allow_force_release: false,
            audit_file: None,
            limits: Limits::default(),
        }
    }

    /// Refuses settings that contradict each other, or that would let other machines in.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let Some(_) = self.stores.first() else {
            return Err(invalid("no store is named; name one: --store NAME=URL".into()));
        };
        for (index, store) in self.stores.iter().enumerate() {
            if self.stores[..index].iter().any(|other| other.name == store.name) {
                let name = &store.name;
                return Err(invalid(format!(
                    "--store: two stores have the name {name:?}; name each: --store NAME=URL"
                )));
            }
            StoreUrl::parse(&store.url)?;
        }
        if self.hosts.iter().any(String::is_empty) {
            let what = "--host: the name is empty; write one, or leave the option out";
            return Err(invalid(what.into()));
        }
        if self.tls_cert.is_some() != self.tls_key.is_some() {
            let what = "--tls-cert and --tls-key belong together; give both";
            return Err(invalid(what.into()));
        }
        match &self.listen {
            Listen::Unix(path) if self.tls_cert.is_some() => Err(invalid(format!(
                "--tls-cert: the unix socket {} needs no TLS; leave it out",
                path.display()
            ))),
            Listen::Tcp(address) if !address.ip().is_loopback() => self.check_remote(*address),
            _ => Ok(()),
        }
    }

    fn check_remote(&self, address: SocketAddr) -> Result<(), Error> {
        let mut missing = Vec::new();
        if self.token_file.is_none() {
            missing.push("--token-file");
        }
        if self.tls_cert.is_none() {
            missing.push("--tls-cert and --tls-key");
        }
        if address.ip().is_unspecified() && self.hosts.is_empty() {
            missing.push("--host NAME");
        }
        if missing.is_empty() {
            return Ok(());
        }
        Err(invalid(format!(
            "--listen {address}: other machines can reach this address; give {} too, or listen on \
             127.0.0.1 or a unix socket",
            missing.join(", ")
        )))
    }

    /// Returns the values of the header Host that the server accepts, without a port.
    pub(crate) fn host_names(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.hosts.iter().map(|host| host.to_ascii_lowercase()).collect();
        let is_local = match &self.listen {
            // A browser can reach it too, by way of `ssh -L`.
            Listen::Unix(_) => true,
            Listen::Tcp(address) => {
                names.push(match address.ip() {
                    IpAddr::V4(ip) => ip.to_string(),
                    IpAddr::V6(ip) => format!("[{ip}]"),
                });
                address.ip().is_loopback()
            }
        };
        if is_local {
            names.extend(["localhost", "127.0.0.1", "[::1]"].map(str::to_owned));
        }
        names
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return match path.starts_with('/') {
                true => Ok(Self::Unix(path.into())),
                false => Err(format!("{text:?}: write an absolute path: unix:/run/leasehold.sock")),
            };
        }
        // No name is looked up, so that what the server listens on depends on nothing else.
        let address = match text.strip_prefix("localhost:") {
            Some(port) => format!("127.0.0.1:{port}"),
            None => text.to_owned(),
        };
        address.parse().map(Self::Tcp).map_err(|_| {
            format!(
                "{text:?}: write an address and a port, such as 127.0.0.1:7411 or localhost:7411, or \
                 unix:PATH; other names are not looked up"
            )
        })
    }
}

impl FromStr for StoreSetting {
    type Err = String;

    /// Parses `NAME=URL`, or a URL, whose scheme is then the name.
    fn from_str(text: &str) -> Result<Self, String> {
        let is_name = |name: &str| {
            let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            !name.is_empty() && name.len() <= 64 && name.chars().all(allowed)
        };
        let (name, url) = match text.split_once('=') {
            Some((name, url)) if is_name(name) => (name.to_owned(), url),
            _ => {
                let scheme = text.split(':').next().unwrap_or_default();
                (scheme.replace('+', "-"), text)
            }
        };
        if !is_name(&name) {
            return Err("write [NAME=]URL; a name has letters, digits, -, _ and .".to_owned());
        }
        Ok(Self { name, url: url.to_owned() })
    }
}

fn invalid(what: String) -> Error {
    Error::new(ErrorKind::Invalid, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(listen: &str) -> Settings {
        let mut settings = Settings::new(vec!["memory:".parse().unwrap()]);
        settings.listen = listen.parse().unwrap();
        settings
    }

    #[test]
    fn localhost_is_a_loopback_address_and_other_names_are_refused_with_what_to_write() {
        let listen = |text: &str| text.parse::<Listen>();
        assert_eq!(listen("localhost:7411"), listen("127.0.0.1:7411"));
        assert!(listen("localhost:7411").is_ok());
        for wrong in ["localhost", "localhost:", "localhost:x", "localhost.evil:1", "db:1", ":1"] {
            let error = listen(wrong).unwrap_err();
            assert!(error.contains("localhost:7411") && error.contains("unix:PATH"), "{error}");
        }
    }

    fn refusal(settings: &Settings) -> String {
        settings.check().map_or_else(|error| error.to_string(), |()| String::new())
    }

    #[test]
    fn an_address_that_others_can_reach_needs_tokens_and_tls() {
        for local in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "unix:/a"] {
            assert_eq!(refusal(&of(local)), "", "{local}");
        }
        for remote in ["0.0.0.0:1", "192.0.2.1:1", "[::]:1", "[2001:db8::1]:1"] {
            let mut settings = of(remote);
            assert!(refusal(&settings).contains("--token-file"), "{remote}");
            settings.token_file = Some("t".into());
            assert!(refusal(&settings).contains("--tls-cert"), "{remote}");
            settings.tls_cert = Some("c".into());
            assert!(refusal(&settings).contains("together"), "{remote}");
            settings.tls_key = Some("k".into());
            settings.hosts = vec!["locks.example.org".into()];
            assert_eq!(refusal(&settings), "", "{remote}");
            settings.token_file = None;
            assert!(refusal(&settings).contains("--token-file"), "{remote}");
        }
    }

    #[test]
    fn stores_have_names_of_their_own() {
        let store = |text: &str| text.parse::<StoreSetting>().map(|store| (store.name, store.url));
        assert_eq!(store("main=redis://h"), Ok(("main".into(), "redis://h".into())));
        assert_eq!(store("memory:"), Ok(("memory".into(), "memory:".into())));
        let with_option = "redis+sentinel://h/m?a=b";
        assert_eq!(store(with_option), Ok(("redis-sentinel".into(), with_option.into())));
        assert!(store("").is_err() && store("a b").is_err());
        let mut settings = of("127.0.0.1:1");
        settings.stores.push("memory:".parse().unwrap());
        assert!(refusal(&settings).contains("two stores"));
        settings.stores[1].name = "other".into();
        assert_eq!(refusal(&settings), "");
        settings.stores[1].url = "nothing:".into();
        assert_eq!(refusal(&settings), "");
        settings.stores[1].url = "no url".into();
        assert_ne!(refusal(&settings), "");
    }
}
