//! Where the locks of a benchmark are: memory, a temporary directory, or a store by its URL.

use std::fmt;
use std::str::FromStr;

use leasehold::Client;
use tempfile::TempDir;

use crate::Result;

/// What `--backend` can be.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Store {
    Memory,
    File,
    Url(String),
}

/// A client of a store; a temporary directory goes when this is dropped.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) client: Client,
    _directory: Option<TempDir>,
}

impl Store {
    /// The engine's name, as the JSON has it.
    pub(crate) fn backend(&self) -> &str {
        match self {
            Self::Memory => "memory",
            Self::File => "file",
            Self::Url(url) => url.split(':').next().unwrap_or_default(),
        }
    }

    /// Opens it with a new client.
    pub(crate) async fn open(&self) -> Result<Opened> {
        let (url, directory) = match self {
            Self::Memory => ("memory:".to_owned(), None),
            Self::File => {
                let directory = directory()?;
                (format!("file:{}", directory.path().join("store").display()), Some(directory))
            }
            Self::Url(url) => (url.clone(), None),
        };
        Ok(Opened { client: leasehold::connect(&url).await?, _directory: directory })
    }
}

/// A temporary directory.
pub(crate) fn directory() -> Result<TempDir> {
    Ok(tempfile::Builder::new().prefix("leasehold-bench-").tempdir()?)
}

impl FromStr for Store {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let known = leasehold::schemes();
        match text.split_once(':') {
            None if text == "memory" => Ok(Self::Memory),
            None if text == "file" => Ok(Self::File),
            Some((scheme, _)) if known.contains(&scheme) => Ok(Self::Url(text.to_owned())),
            _ => {
                let known: Vec<String> = known.iter().map(|scheme| format!("{scheme}:")).collect();
                Err(format!("allowed are memory, file, or a URL with {}", known.join(", ")))
            }
        }
    }
}

/// As `--backend` takes it, password and all: not for output.
impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory | Self::File => f.write_str(self.backend()),
            Self::Url(url) => f.write_str(url),
        }
    }
}
