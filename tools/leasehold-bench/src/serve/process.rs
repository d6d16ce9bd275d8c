//! A server of `leasehold serve` in a process of its own.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::process::Command;
use std::time::Duration;

use leasehold_serve::{Settings, StoreSetting};
use tempfile::TempDir;

use super::http::{Connection, TOKEN};
use crate::talk::Talk;
use crate::{Result, system};

/// How long the memory of a server is watched for its rest.
const LOOKS: u32 = 50;

/// The process, which ends when it is dropped.
#[derive(Debug)]
pub(super) struct Serving {
    _talk: Talk,
    pub(super) server: Server,
    _folder: TempDir,
}

/// How it is reached and measured.
#[derive(Clone, Debug)]
pub(super) struct Server {
    address: String,
    pub(super) pid: u32,
}

impl Serving {
    /// Starts it on a store, and returns when it listens.
    pub(super) fn start(store: &str) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let tokens = folder.path().join("tokens");
        let mut file = std::fs::File::options();
        let mut file = file.write(true).create_new(true).mode(0o600).open(&tokens)?;
        writeln!(file, "hold bench {TOKEN}")?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("serve-process");
        let mut talk = Talk::start("the server", command)?;
        // Not as an argument: a URL may hold a password.
        talk.say(store)?;
        talk.say(tokens.to_str().ok_or("TMPDIR is not UTF-8")?)?;
        let address = talk.hear()?.trim_start_matches("http://").to_owned();
        let server = Server { address, pid: talk.pid() };
        Ok(Self { _talk: talk, server, _folder: folder })
    }
}

impl Server {
    pub(super) async fn connect(&self) -> Result<Connection> {
        Connection::open(&self.address).await
    }

    /// Waits until it has seen so many locks in its store.
    pub(super) async fn has_scanned(&self, locks: usize) -> Result<()> {
        let mut connection = self.connect().await?;
        for _ in 0..2400 {
            let stores = connection.json("GET /v1/stores").await?;
            let store = &stores["stores"][0];
            if store["locks"] == locks && store["scanned_unix_ms"].is_u64() {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Err(format!("the server did not see {locks} locks").into())
    }

    /// Its memory once it stays the same for a tenth of a second; after a second, whatever it is then.
    pub(super) async fn resident_at_rest(&self) -> Result<u64> {
        let mut last = system::resident_of(self.pid)?;
        let mut same = 0;
        for _ in 0..LOOKS {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let now = system::resident_of(self.pid)?;
            same = if now == last { same + 1 } else { 0 };
            last = now;
            if same == 5 {
                break;
            }
        }
        Ok(last)
    }
}

/// Serves until standard input ends: the process that [`Serving::start`] starts.
pub(crate) fn answer() -> Result<()> {
    system::descriptors()?;
    let line = || {
        let mut line = String::new();
        std::io::stdin().read_line(&mut line)?;
        Ok::<_, std::io::Error>(line.trim().to_owned())
    };
    let (url, tokens) = (line()?, line()?);
    // As the command does.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(leasehold_serve::threads())
        .enable_all()
        .build()?;
    runtime.block_on(async move {
        let mut settings = Settings::new(vec![StoreSetting { name: "main".into(), url }]);
        settings.listen = "127.0.0.1:0".parse()?;
        settings.token_file = Some(tokens.into());
        settings.limits.holds_per_token = settings.limits.holds;
        let server = leasehold_serve::Server::bind(settings).await?;
        println!("{}", server.place());
        let ended = tokio::task::spawn_blocking(line);
        server
            .run(async {
                let _ = ended.await;
            })
            .await;
        Ok(())
    })
}
