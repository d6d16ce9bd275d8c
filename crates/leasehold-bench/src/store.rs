//! Where the locks of a benchmark are: memory, a temporary directory, a server of our own, or a
//! store by its URL.

use std::fmt;
use std::str::FromStr;

use leasehold::Client;
use leasehold_conformance::kit::{RedisServer, Settings};
use tempfile::TempDir;

use crate::Result;

/// What `--backend` can be.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Store {
    Memory,
    File,
    /// A Redis server that is started for it.
    Redis,
    Url(String),
}

/// A client of a store; a temporary directory or server goes when this is dropped.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) client: Client,
    _directory: Option<TempDir>,
    _server: Option<RedisServer>,
}

impl Store {
    /// The engine's name, as the JSON has it.
    pub(crate) fn backend(&self) -> &str {
        match self {
            Self::Memory => "memory",
            Self::File => "file",
            Self::Redis => "redis",
            Self::Url(url) => url.split(':').next().unwrap_or_default(),
        }
    }

    /// Opens it with a new client.
    pub(crate) async fn open(&self) -> Result<Opened> {
        let mut server = None;
        let (url, directory) = match self {
            Self::Memory => ("memory:".to_owned(), None),
            Self::Redis => (server.insert(redis()?).url(), None),
            Self::File => {
                let directory = directory()?;
                (format!("file:{}", directory.path().join("store").display()), Some(directory))
            }
            Self::Url(url) => (url.clone(), None),
        };
        let client = leasehold::connect(&url).await?;
        Ok(Opened { client, _directory: directory, _server: server })
    }
}

/// A temporary directory.
pub(crate) fn directory() -> Result<TempDir> {
    Ok(tempfile::Builder::new().prefix("leasehold-bench-").tempdir()?)
}

/// A Redis server of our own, without persistence.
pub(crate) fn redis() -> Result<RedisServer> {
    match RedisServer::is_present() {
        true => Ok(RedisServer::start(Settings::new())?),
        false => Err("redis-server is not installed; apt-get install redis-server".into()),
    }
}

impl FromStr for Store {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let known = leasehold::schemes();
        match text.split_once(':') {
            None if text == "memory" => Ok(Self::Memory),
            None if text == "file" => Ok(Self::File),
            None if text == "redis" => Ok(Self::Redis),
            Some((scheme, _)) if known.contains(&scheme) => Ok(Self::Url(text.to_owned())),
            _ => {
                let known: Vec<String> = known.iter().map(|scheme| format!("{scheme}:")).collect();
                Err(format!("allowed are memory, file, redis, or a URL with {}", known.join(", ")))
            }
        }
    }
}

/// As `--backend` takes it, password and all: not for output.
impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory | Self::File | Self::Redis => f.write_str(self.backend()),
            Self::Url(url) => f.write_str(url),
        }
    }
}
