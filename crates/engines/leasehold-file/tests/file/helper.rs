//! This very test program as another process: it holds, counts or crashes, and reports by line.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::Client;
use leasehold_core::backend::{Answer, Backend, ValueSwap};
use leasehold_core::clock::{Clock, ManualClock};
use leasehold_file::FileBackend;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::kit::{Kit, attempt, inline, release, request};

const ROLE: &str = "LEASEHOLD_FILE_ROLE";

/// Another process; killed when dropped.
pub(crate) struct Helper {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: BufReader<ChildStdout>,
}

/// The command that runs this program in a role, with words that the role understands.
pub(crate) fn command(wrapper: &[&str], role: &[&str]) -> Command {
    let exe = std::env::current_exe().unwrap();
    let mut words = wrapper.iter().map(|word| (*word).to_owned());
    let mut command = match words.next() {
        Some(program) => {
            let mut command = Command::new(program);
            command.args(words).arg(exe);
            command
        }
        None => Command::new(exe),
    };
    command
        .args(["helper::as_another_process", "--exact", "--nocapture"])
        .arg("--test-threads=1")
        .env(ROLE, role.join("\n"))
        // The loader looks into each of its folders, as many as the build has: calls that are counted.
        .env_remove("LD_LIBRARY_PATH")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command
}

impl Helper {
    pub(crate) fn start(role: &[&str]) -> Self {
        Self::wrapped(&[], role)
    }

    pub(crate) fn wrapped(wrapper: &[&str], role: &[&str]) -> Self {
        let mut child = command(wrapper, role).spawn().unwrap();
        let stdin = child.stdin.take();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdin, lines }
    }

    /// Holds `lock` until told to let go; returns when it has it, with the token.
    pub(crate) fn holding(dir: &Path, lock: &str) -> (Self, u64) {
        let mut helper = Self::start(&["hold", dir.to_str().unwrap(), lock]);
        let token = helper.next().unwrap().parse().unwrap();
        (helper, token)
    }

    /// The next line that it reports; `None` when it has ended.
    pub(crate) fn next(&mut self) -> Option<String> {
        let mut line = String::new();
        loop {
            line.clear();
            if self.lines.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            if let Some((_, said)) = line.split_once("@ ") {
                return Some(said.trim_end().to_owned());
            }
        }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
    }

    /// Stops it, all its threads.
    pub(crate) fn stop(&self) {
        self.signal(Signal::SIGSTOP);
        let stopped = waitpid(self.pid(), Some(WaitPidFlag::WUNTRACED)).unwrap();
        assert!(matches!(stopped, WaitStatus::Stopped(..)), "{stopped:?}");
    }

    /// Waits for its end; true when that was SIGKILL.
    pub(crate) fn was_killed(mut self) -> bool {
        self.child.wait().unwrap().signal() == Some(Signal::SIGKILL as i32)
    }

    /// Lets it go on.
    pub(crate) fn resume(&mut self) {
        self.stdin = None;
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn say(what: impl std::fmt::Display) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "@ {what}").unwrap();
    out.flush().unwrap();
}

pub(crate) fn wait_for_resume() {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
}

/// A client of the store in this directory.
pub(crate) fn client(dir: &Path) -> Client {
    Client::new(Arc::new(FileBackend::open(dir, Clock::system()).unwrap())).unwrap()
}

/// Not a test of anything: what the other tests run as another process.
#[test]
fn as_another_process() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let words: Vec<&str> = role.split('\n').collect();
    match words[..] {
        ["hold", dir, lock] => hold(Path::new(dir), lock),
        ["read", dir, lock] => read(Path::new(dir), lock),
        ["read-and-write", dir, lock, witness] => {
            read_and_write(Path::new(dir), lock, Path::new(witness));
        }
        ["permit", dir, semaphore, slots, limit] => {
            permit(Path::new(dir), semaphore, slots.parse().unwrap(), limit.parse().unwrap());
        }
        ["permits", dir, semaphore, limit, witness, times] => {
            let (limit, times) = (limit.parse().unwrap(), times.parse().unwrap());
            permits(Path::new(dir), semaphore, limit, Path::new(witness), times);
        }
        ["hold-with-child", dir, lock] => hold_with_child(Path::new(dir), lock),
        ["open", dir] => open(Path::new(dir)),
        ["count-down", dir, latch, party] => count_down(Path::new(dir), latch, party),
        ["count", dir, lock, counter, times] => {
            count(Path::new(dir), lock, Path::new(counter), times.parse().unwrap());
        }
        ["contend", dir, lock, tasks, times] => {
            contend(Path::new(dir), lock, tasks.parse().unwrap(), times.parse().unwrap());
        }
        ["hold-often", dir, lock, witness, times] => {
            hold_often(Path::new(dir), lock, Path::new(witness), times.parse().unwrap());
        }
        ["forget-often", dir, names] => forget_often(Path::new(dir), names),
        ["steps", dir, latch, times] => steps(Path::new(dir), latch, times.parse().unwrap()),
        ["flock", ref role @ ..] => crate::wire::play(role),
        ["pairs", dir, lock, times] => pairs(Path::new(dir), lock, times.parse().unwrap()),
        _ => panic!("no such role: {role}"),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn hold(dir: &Path, lock: &str) {
    let kit = Kit::open(dir);
    let (attempt, token) = kit.lock(lock).await;
    say(token);
    wait_for_resume();
    say(format!("{:?}", kit.release(lock, attempt, token).await));
}

#[tokio::main(flavor = "current_thread")]
async fn read(dir: &Path, lock: &str) {
    let kit = Kit::open(dir);
    let (attempt, token) = kit.read(lock).await;
    say(token);
    wait_for_resume();
    say(format!("{:?}", kit.release(lock, attempt, token).await));
}

/// Holds so many slots until it is resumed. Says its slots and its token.
#[tokio::main(flavor = "current_thread")]
async fn permit(dir: &Path, semaphore: &str, slots: u32, limit: u32) {
    let permit = client(dir).semaphore(semaphore, limit).acquire_many(slots).await.unwrap();
    say(format!("{:?} {}", permit.slots(), permit.token()));
    wait_for_resume();
    say(format!("{:?}", permit.release().await.map_err(|error| error.kind())));
}

/// Acquires permits of one to three slots that many times. Says for each slot its number, its token, and whether this process
/// had it alone: `witness` has a file for each slot, which its holder locks.
#[tokio::main(flavor = "current_thread")]
async fn permits(dir: &Path, semaphore: &str, limit: u32, witness: &Path, times: u32) {
    let semaphore = client(dir).semaphore(semaphore, limit);
    for round in 0..times {
        let many = 1 + (std::process::id() + round) % 3;
        let permit = semaphore.acquire_many(many).await.unwrap();
        let mut witnesses = Vec::new();
        for slot in permit.slots() {
            let file = std::fs::File::open(witness.join(slot.to_string())).unwrap();
            let locked = Flock::lock(file, FlockArg::LockExclusiveNonblock);
            say(format!("{slot} {} {}", permit.token(), locked.is_ok()));
            witnesses.extend(locked);
        }
        tokio::time::sleep(Duration::from_micros(300)).await;
        drop(witnesses);
        permit.release().await.unwrap();
    }
}

/// Reads and writes until it is killed. Says for each hold its mode and token, and whether it was alone:
/// a reader also locks two witness files to read, and a writer exclusively.
///
/// The kernel ends a process by closing its files one after the other. The lock file is between the
/// two others, so that one of them is free when the lock is, and only live holders lock both.
#[tokio::main(flavor = "current_thread")]
async fn read_and_write(dir: &Path, lock: &str, witness: &Path) {
    let open = || std::fs::File::open(witness).unwrap();
    let first = open();
    let between: Vec<_> = (0..100).map(|_| open()).collect();
    let last = std::fs::File::open(witness.with_extension("last")).unwrap();
    drop(between);
    let mut witnesses = Some([first, last]);
    let kit = Kit::open(dir);
    for round in 0_u32.. {
        let writes = (std::process::id() + round).is_multiple_of(3);
        let ((attempt, token), mode, how) = match writes {
            true => (kit.lock(lock).await, "write", FlockArg::LockExclusiveNonblock),
            false => (kit.read(lock).await, "read", FlockArg::LockSharedNonblock),
        };
        let locked = witnesses.take().unwrap().map(|file| Flock::lock(file, how));
        let alone = locked.iter().any(Result::is_ok);
        say(format!("{mode} {token} {alone}"));
        tokio::time::sleep(Duration::from_micros(300)).await;
        witnesses = Some(locked.map(|locked| match locked {
            Ok(locked) => locked.unlock().unwrap_or_else(|(_, error)| panic!("{error}")),
            Err((file, _)) => file,
        }));
        kit.release(lock, attempt, token).await;
    }
}

/// A child that outlives this process, and is not waited for, has the lock's descriptor as its standard input.
#[expect(clippy::zombie_processes)]
#[tokio::main(flavor = "current_thread")]
async fn hold_with_child(dir: &Path, lock: &str) {
    let kit = Kit::open(dir);
    let (attempt, token) = kit.lock(lock).await;
    let descriptor = kit.backend.descriptor(attempt).unwrap();
    let sleeper = Command::new("sleep")
        .arg("60")
        .stdin(Stdio::from(descriptor))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    say(token);
    say(sleeper.id());
    wait_for_resume();
    say(format!("{:?}", kit.release(lock, attempt, token).await));
}

/// Counts a latch down as one party after the other, until it is killed. Says each party when it is counted.
#[tokio::main(flavor = "current_thread")]
async fn count_down(dir: &Path, latch: &str, party: &str) {
    let latch = client(dir).latch(latch, 1_000);
    for number in 0_u32.. {
        let party = format!("{party}/{number}");
        latch.count_down(&party).await.unwrap();
        say(party);
    }
}

fn open(dir: &Path) {
    match FileBackend::open(dir, Clock::system()) {
        Ok(_) => say("ok"),
        Err(error) => say(format!("{:?}: {error}", error.kind())),
    }
}

/// Adds to a plain file, which loses counts as soon as two do it at once.
#[tokio::main(flavor = "current_thread")]
async fn count(dir: &Path, lock: &str, counter: &Path, times: u32) {
    let kit = Kit::open(dir);
    for _ in 0..times {
        let (attempt, token) = kit.lock(lock).await;
        let before: u64 = std::fs::read_to_string(counter).unwrap().parse().unwrap();
        std::fs::write(counter, (before + 1).to_string()).unwrap();
        say(format!("{before} {token}"));
        kit.release(lock, attempt, token).await;
    }
}

/// Tries to hold `lock` so many times, and says each time that it does whether another process held it too, and the last
/// token before its own: `witness` is a file that a holder keeps locked and writes its token to.
#[tokio::main(flavor = "current_thread")]
async fn hold_often(dir: &Path, lock: &str, witness: &Path, times: u32) {
    let kit = Kit::open(dir);
    for _ in 0..times {
        let attempt = attempt();
        let token = match kit.ask(lock, attempt, false).await {
            Ok(Answer::Granted(grant)) => grant.tokens.base(),
            Ok(_) => continue,
            Err(error) => return say(error),
        };
        let before = std::fs::read_to_string(witness).unwrap();
        let file = std::fs::File::options().write(true).open(witness).unwrap();
        let locked = Flock::lock(file, FlockArg::LockExclusiveNonblock);
        if locked.is_ok() {
            std::fs::write(witness, token.to_string()).unwrap();
        }
        // Long enough for another process to acquire the lock if it can.
        std::thread::sleep(Duration::from_micros(200));
        say(format!("{} {before} {token}", locked.is_ok()));
        drop(locked);
        kit.release(lock, attempt, token).await;
    }
}

/// Forgets free locks until the test ends it; prints their number.
fn forget_often(dir: &Path, names: &str) {
    let backend = FileBackend::open(dir, Clock::system()).unwrap();
    let waiter = std::thread::spawn(wait_for_resume);
    let mut forgotten = 0;
    while !waiter.is_finished() {
        forgotten += backend.forget(names).unwrap();
    }
    say(forgotten);
}

/// Acquires and releases in one thread, so that its system calls can be counted.
fn pairs(dir: &Path, lock: &str, times: u32) {
    crate::crash::mark();
    let backend = FileBackend::open(dir, Clock::system()).unwrap();
    for _ in 0..times {
        let attempt = attempt();
        let Answer::Granted(grant) =
            inline(backend.acquire(request(lock, attempt, false))).unwrap()
        else {
            panic!("another client holds the lock");
        };
        let token = grant.tokens.base();
        say(token);
        inline(backend.release(release(lock, attempt, Some(token)))).unwrap();
    }
}

/// Adds one to the value of a latch that many times in one thread, so that its system calls can be counted.
fn steps(dir: &Path, latch: &str, times: u32) {
    crate::crash::mark();
    let backend = FileBackend::open(dir, Clock::system()).unwrap();
    for _ in 0..times {
        let name = crate::kit::name(latch);
        let seen = inline(backend.value(&name)).unwrap();
        let value: u64 = String::from_utf8_lossy(seen.as_ref().unwrap()).parse().unwrap();
        let next = (value + 1).to_string();
        let swap = ValueSwap::new(name, seen, next.clone().into_bytes(), Duration::from_secs(3600));
        assert!(inline(backend.swap_value(swap)).unwrap());
        say(next);
        // It may be killed after it has said so, too.
        assert!(inline(backend.value(&crate::kit::name(latch))).unwrap().is_some());
    }
}

/// Runs tasks that acquire and release the lock that many times. Each prints the last token when it
/// joined the queue, and the token that it got.
#[tokio::main(flavor = "current_thread")]
async fn contend(dir: &Path, lock: &str, tasks: u32, times: u32) {
    // Its clock does not advance, so no slow waiter is passed.
    let kit = Kit::with_clock(dir, ManualClock::new().clock());
    let lock: std::sync::Arc<str> = lock.into();
    let tasks = (0..tasks).map(|task| {
        let (kit, lock) = (kit.clone(), lock.clone());
        tokio::spawn(async move {
            for _ in 0..times {
                let attempt = attempt();
                kit.ask(&lock, attempt, true).await.unwrap();
                let last = loop {
                    match kit.status(&lock).await.token {
                        Some(token) => break token,
                        // The holder is still writing its record.
                        None => tokio::time::sleep(Duration::from_millis(1)).await,
                    }
                };
                let token = kit.lock_as(&lock, attempt).await;
                say(format!("{task} {last} {token}"));
                kit.release(&lock, attempt, token).await;
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
}
