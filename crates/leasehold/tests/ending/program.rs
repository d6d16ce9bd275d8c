//! The programs that the tests run, each by its role, and the tests' side of them.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use leasehold_conformance::Stopwatch;

const ROLE: &str = "LEASEHOLD_ENDING_ROLE";
const URL: &str = "LEASEHOLD_ENDING_URL";
/// Guards of a program that has many.
pub(crate) const MANY: usize = 100;
/// A lock that is left to its ttl is seen as taken.
const TTL: Duration = Duration::from_secs(50);

/// Plays a role, if this process was started for one.
pub(crate) fn is_asked_for() -> bool {
    let (Ok(role), Ok(url)) = (std::env::var(ROLE), std::env::var(URL)) else { return false };
    play(&role, &url).unwrap();
    true
}

/// A program as the examples have it: it drops its guard and returns from `main`.
fn play(role: &str, url: &str) -> leasehold::Result<()> {
    let mut threads = tokio::runtime::Builder::new_multi_thread();
    let mut one = tokio::runtime::Builder::new_current_thread();
    let threads = threads.enable_all();
    let one = one.enable_all();
    match role {
        "close" => threads.build().unwrap().block_on(work(url, true)),
        "drop" => threads.build().unwrap().block_on(work(url, false)),
        "drop on one thread" => one.build().unwrap().block_on(work(url, false)),
        "minimum hold" => one.build().unwrap().block_on(minimum_hold(url)),
        "stopped" => threads.build().unwrap().block_on(stopped(url)),
        "unfinished" => one.build().unwrap().block_on(unfinished(url)),
        "outlive" => {
            let guards = one.build().unwrap().block_on(many(url))?;
            drop(guards);
            Ok(())
        }
        "two" => one.build().unwrap().block_on(two(url)),
        "blocking" => {
            let client = leasehold::blocking::connect(url)?;
            drop(client.lock("job").ttl(TTL).acquire()?);
            // What a killed process would do: nothing runs any more.
            std::process::exit(0);
        }
        "blocking many" => blocking_many(url),
        "blocking again" => blocking_again(url),
        _ => unreachable!("{role}"),
    }
}

/// Tells the test that it is so far, and waits for its word.
fn meet() {
    println!("ready");
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

async fn work(url: &str, close: bool) -> leasehold::Result<()> {
    let client = leasehold::connect(url).await?;
    let guard = client.lock("job").ttl(TTL).acquire().await?;
    drop(guard);
    if close {
        client.close().await;
    }
    Ok(())
}

async fn minimum_hold(url: &str) -> leasehold::Result<()> {
    let client = leasehold::connect(url).await?;
    drop(client.lock("job").ttl(TTL).min_hold(TTL / 2).acquire().await?);
    Ok(())
}

/// The server stops while the lock is held.
async fn stopped(url: &str) -> leasehold::Result<()> {
    let client = leasehold::connect(url).await?;
    let guard = client.lock("job").ttl(TTL).acquire().await?;
    meet();
    drop(guard);
    Ok(())
}

async fn many(url: &str) -> leasehold::Result<Vec<leasehold::Guard>> {
    let client = leasehold::connect(url).await?;
    let mut guards = Vec::new();
    for number in 0..MANY {
        guards.push(client.lock(format!("job/{number}")).ttl(TTL).acquire().await?);
    }
    Ok(guards)
}

/// The runtime ends while each guard's release waits for its answer.
async fn unfinished(url: &str) -> leasehold::Result<()> {
    let guards = many(url).await?;
    drop(guards);
    tokio::task::yield_now().await;
    Ok(())
}

async fn two(url: &str) -> leasehold::Result<()> {
    let client = leasehold::connect(url).await?;
    let first = client.lock("first").ttl(TTL).acquire().await?;
    let second = client.lock("second").ttl(TTL).acquire().await?;
    meet();
    drop(first);
    drop(second);
    Ok(())
}

fn blocking_many(url: &str) -> leasehold::Result<()> {
    let client = leasehold::blocking::connect(url)?;
    let lock = |number| client.lock(format!("job/{number}")).ttl(TTL).acquire();
    let guards: Vec<_> = (0..MANY).map(lock).collect::<Result<_, _>>()?;
    meet();
    let waits = |guard| {
        let stopwatch = Stopwatch::start();
        drop(guard);
        stopwatch.elapsed() >= Duration::from_millis(500)
    };
    let waited = guards.into_iter().filter_map(|guard| waits(guard).then_some(())).count();
    assert!(waited <= 2, "{waited} drops waited for the server");
    std::process::exit(0);
}

/// Drops a guard at a stopped server, and another one when the server has gone on.
fn blocking_again(url: &str) -> leasehold::Result<()> {
    let client = leasehold::blocking::connect(url)?;
    let guard = client.lock("first").ttl(TTL).acquire()?;
    meet();
    drop(guard);
    meet();
    drop(client.lock("job").ttl(TTL).acquire()?);
    std::process::exit(0);
}

pub(crate) fn program(role: &str, url: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(ROLE, role).env(URL, url);
    command
}

/// A program that meets the test; it is killed with this.
pub(crate) struct Meeting(Child, BufReader<ChildStdout>);

impl Meeting {
    pub(crate) fn start(role: &str, url: &str) -> Self {
        let mut program = program(role, url);
        let mut child = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self(child, out)
    }

    /// Waits until the program waits for the test.
    pub(crate) fn until_ready(&mut self) {
        let mut line = String::new();
        self.1.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
    }

    pub(crate) fn resume(&mut self) {
        self.0.stdin.as_ref().unwrap().write_all(b"\n").unwrap();
    }

    /// Waits for the program's end, for so long that only one that hangs is not there yet.
    pub(crate) fn until_ended(mut self) {
        for _ in 0..2_000 {
            if let Some(ended) = self.0.try_wait().unwrap() {
                assert!(ended.success(), "{ended}");
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the program hangs at a silent server");
    }
}

impl Drop for Meeting {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}
