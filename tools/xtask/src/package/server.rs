//! The server that a feature needs, which a program of the packed `leasehold-test-servers` starts.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Starts a server, prints its URL, and ends it with the standard input. Prints nothing where it is not installed.
pub(super) const PROGRAM: &str = r#"//! Starts a server.

use std::io::{self, Read, Write};

use leasehold_test_servers::{
    EtcdServer, EtcdSettings, MariaDb, Needs, Postgres, RedisServer, RedisSettings, ZooKeeperServer,
    ZooKeeperSettings,
};

fn main() -> io::Result<()> {
    match std::env::args().nth(1).unwrap_or_default().as_str() {
        "etcd" if !Needs::Etcd.is_skipped() => {
            let server = EtcdServer::start(EtcdSettings::new())?;
            serve(&server.url())
        }
        "mysql" if !Needs::MySql.is_skipped() => serve(&MariaDb::start(&[])?.url()),
        "postgres" if !Needs::Postgres.is_skipped() => serve(&Postgres::start(&[])?.url()),
        "redis" if !Needs::Redis.is_skipped() => {
            let server = RedisServer::start(RedisSettings::new())?;
            serve(&server.url())
        }
        "zookeeper" if !Needs::ZooKeeper.is_skipped() => {
            let server = ZooKeeperServer::start(ZooKeeperSettings::new())?;
            serve(&server.url())
        }
        _ => Ok(()),
    }
}

fn serve(url: &str) -> io::Result<()> {
    println!("{url}");
    io::stdout().flush()?;
    io::stdin().read_to_end(&mut Vec::new()).map(drop)
}
"#;

/// The features that need one.
const FEATURES: [&str; 5] = ["etcd", "mysql", "postgres", "redis", "zookeeper"];

/// Returns true if the store of this feature is a server.
pub(super) fn is_for(feature: &str) -> bool {
    FEATURES.contains(&feature)
}

/// A server that ends with this value.
pub(super) struct Server {
    child: Child,
    pub(super) url: String,
}

impl Server {
    /// Starts the server of a feature by this program. Returns `None` where it is not installed.
    pub(super) fn start(program: &Path, feature: &str) -> Result<Option<Self>, String> {
        let failed = |error| format!("{}: {error}", program.display());
        let mut command = Command::new(program);
        command.arg(feature).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let mut url = String::new();
        if let Some(said) = child.stdout.take() {
            BufReader::new(said).read_line(&mut url).map_err(failed)?;
        }
        if !url.is_empty() {
            return Ok(Some(Self { child, url: url.trim().to_owned() }));
        }
        let status = child.wait().map_err(failed)?;
        match status.success() {
            true => Ok(None),
            false => Err(format!("the server for `{feature}` does not start ({status})")),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_knows_each_feature_with_a_server() {
        for feature in FEATURES {
            assert!(PROGRAM.contains(&format!("\"{feature}\" if ")), "{feature}");
        }
        assert!(!is_for("sqlite"));
    }

    #[test]
    fn a_program_that_prints_nothing_has_no_server() {
        assert!(Server::start(Path::new("true"), "redis").unwrap().is_none());
        let why = Server::start(Path::new("false"), "redis").err().unwrap();
        assert!(why.contains("`redis` does not start"), "{why}");
        let server = Server::start(Path::new("echo"), "redis").unwrap().unwrap();
        assert_eq!(server.url, "redis");
    }
}
