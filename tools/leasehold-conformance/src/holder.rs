//! A second process that holds a lock, and can be killed, stopped and asked.
//!
//! The test binary plays that process itself: its `main` calls [`played`] first.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::time::Duration;

use leasehold_core::{Client, Error, Guard, Token};

const ROLE: &str = "LEASEHOLD_CONFORMANCE_HOLD";
const READ: &str = "read";
const WRITE: &str = "write";
const CACHE: &str = "cache";
const CACHE_READ: &str = "cache read";

/// Plays the holder when this process was started as one: what `main` then returns. `None` in any
/// other process.
pub fn played<C>(connect: impl FnOnce(String) -> C) -> Option<ExitCode>
where
    C: Future<Output = Result<Client, Error>>,
{
    let role = std::env::var(ROLE).ok()?;
    let [url, name, ttl_ms, mode] = role.split('\n').collect::<Vec<_>>().try_into().ok()?;
    let ttl = Duration::from_millis(ttl_ms.parse().ok()?);
    let played =
        tokio::runtime::Runtime::new().map_err(|error| error.to_string()).and_then(|runtime| {
            let played = async { play(&connect(url.to_owned()).await?, name, ttl, mode).await };
            runtime.block_on(played).map_err(|error: Error| error.to_string())
        });
    match played {
        Ok(()) => Some(ExitCode::SUCCESS),
        Err(error) => {
            eprintln!("{error}");
            Some(ExitCode::FAILURE)
        }
    }
}

/// Acquires with this ttl, says `held TOKEN`, and then answers one line for each line read:
/// `valid` with `true` or `false`, `release` with what came of it, and ends.
async fn play(client: &Client, name: &str, ttl: Duration, mode: &str) -> Result<(), Error> {
    if mode == CACHE || mode == CACHE_READ {
        return play_caching(client, name, ttl, mode).await;
    }
    let released = if mode == READ {
        let guard = client.rw_lock(name).ttl(ttl).read().await?;
        answer(&guard);
        guard.release().await
    } else if let Some((slots, limit)) = mode.split_once(" of ") {
        let number = |text: &str| text.parse().unwrap_or_default();
        let semaphore = client.semaphore(name, number(limit)).ttl(ttl);
        let permit = semaphore.acquire_many(number(slots)).await?;
        answer(&permit);
        permit.release().await
    } else {
        let guard = client.lock(name).ttl(ttl).acquire().await?;
        answer(&guard);
        guard.release().await
    };
    match released {
        Ok(()) => say("released"),
        Err(error) => say(&format!("{:?}", error.kind())),
    }
    Ok(())
}

/// Acquires, releases and caches the lease, says `held TOKEN`, and then answers each line read with the
/// token of another task that takes the lock, or with `taken`.
async fn play_caching(client: &Client, name: &str, ttl: Duration, mode: &str) -> Result<(), Error> {
    let cache = Duration::from_secs(3600);
    let turn = async || match mode == CACHE_READ {
        true => {
            let guard = client.rw_lock(name).ttl(ttl).cache(cache).try_read().await?;
            Ok::<_, Error>(guard.map(|guard| guard.token()))
        }
        false => {
            let guard = client.lock(name).ttl(ttl).cache(cache).try_acquire().await?;
            Ok(guard.map(|guard| guard.token()))
        }
    };
    let told = |token: Option<Token>| token.map_or("taken".to_owned(), |token| token.to_string());
    turn().await?;
    // By now it has handled the beginning of its subscription, which ends what is cached.
    client.settle().await;
    say(&format!("held {}", told(turn().await?)));
    for _ in std::io::stdin().lock().lines() {
        say(&told(turn().await?));
    }
    Ok(())
}

/// Answers questions about a lease until it is to be released.
fn answer(guard: &Guard) {
    say(&format!("held {}", guard.token()));
    for line in std::io::stdin().lock().lines() {
        match line.as_deref() {
            Ok("valid") => say(&guard.is_valid().to_string()),
            _ => break,
        }
    }
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).ok();
}

/// A running holder process; killed when dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    /// The token that it got.
    pub token: u64,
}

impl Process {
    /// Starts a holder with a ttl of 2 s and waits until it holds.
    ///
    /// # Errors
    /// When it cannot be started or does not get the lock.
    pub fn start(url: &str, name: &str) -> Result<Self, String> {
        Self::with_ttl(url, name, Duration::from_secs(2))
    }

    /// The same with another ttl.
    ///
    /// # Errors
    /// When it cannot be started or does not get the lock.
    pub fn with_ttl(url: &str, name: &str, ttl: Duration) -> Result<Self, String> {
        Self::waiting(url, name, ttl)?.holding()
    }

    /// Starts a process that reads with this ttl and waits until it does.
    ///
    /// # Errors
    /// When it cannot be started or does not get the lock.
    pub fn reading(url: &str, name: &str, ttl: Duration) -> Result<Self, String> {
        Self::begin(url, name, ttl, READ)?.holding()
    }

    /// Starts a process that holds so many slots of a semaphore with this limit and ttl.
    ///
    /// # Errors
    /// When it cannot be started or does not get the permit.
    pub fn with_slots(
        url: &str,
        name: &str,
        ttl: Duration,
        (slots, limit): (u32, u32),
    ) -> Result<Self, String> {
        Self::begin(url, name, ttl, &format!("{slots} of {limit}"))?.holding()
    }

    /// Starts a process that caches a lease with this ttl, and waits until it does.
    ///
    /// # Errors
    /// When it cannot be started or does not get the lock.
    pub fn caching(url: &str, name: &str, ttl: Duration) -> Result<Self, String> {
        Self::begin(url, name, ttl, CACHE)?.holding()
    }

    /// The same with a read lease.
    ///
    /// # Errors
    /// When it cannot be started or does not get the lock.
    pub fn caching_read(url: &str, name: &str, ttl: Duration) -> Result<Self, String> {
        Self::begin(url, name, ttl, CACHE_READ)?.holding()
    }

    /// Waits until it holds.
    fn holding(mut self) -> Result<Self, String> {
        let line = self.line()?;
        let token = line.strip_prefix("held ").and_then(|token| token.parse().ok());
        self.token = token.ok_or(format!("the holder said {line:?}"))?;
        Ok(self)
    }

    /// Starts a process that waits for the lock, and returns at once; its token is 0.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn waiting(url: &str, name: &str, ttl: Duration) -> Result<Self, String> {
        Self::begin(url, name, ttl, WRITE)
    }

    fn begin(url: &str, name: &str, ttl: Duration, mode: &str) -> Result<Self, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut child = Command::new(program)
            .env(ROLE, format!("{url}\n{name}\n{}\n{mode}", ttl.as_millis()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (Some(stdin), Some(stdout)) = (stdin, stdout) else { return Err("no pipes".into()) };
        Ok(Self { child, stdin, stdout: BufReader::new(stdout), token: 0 })
    }

    /// Asks a question and returns the answer.
    ///
    /// # Errors
    /// When the process has gone.
    pub fn ask(&mut self, question: &str) -> Result<String, String> {
        writeln!(self.stdin, "{question}").map_err(|error| error.to_string())?;
        self.line()
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills it with SIGKILL and returns when it is gone.
    pub fn kill(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }

    /// Stops it (SIGSTOP), and returns when the system says that it is stopped.
    #[cfg(unix)]
    pub fn stop(&self) {
        self.signal(nix::sys::signal::Signal::SIGSTOP);
        let stat = format!("/proc/{}/stat", self.pid());
        let stopped = || {
            let stat = std::fs::read_to_string(&stat).unwrap_or_default();
            stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('T'))
        };
        while !stopped() {
            std::thread::yield_now();
        }
    }

    /// Lets it go on (SIGCONT).
    #[cfg(unix)]
    pub fn resume(&self) {
        self.signal(nix::sys::signal::Signal::SIGCONT);
    }

    #[cfg(unix)]
    fn signal(&self, signal: nix::sys::signal::Signal) {
        let pid = nix::unistd::Pid::from_raw(self.pid() as i32);
        nix::sys::signal::kill(pid, signal).ok();
    }

    fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        match self.stdout.read_line(&mut line) {
            Ok(0) => Err("the holder process has ended".into()),
            Ok(_) => Ok(line.trim_end().to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
