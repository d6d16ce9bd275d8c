//! Locks of `wire=flock`, beside flock(1) of util-linux.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::backend::{
    Answer, Backend, Event, EventSink, Events, Renewal, Renewed, Verdict,
};
use leasehold_core::clock::Clock;
use leasehold_core::{AttemptId, Client, ClientId, ErrorKind, State, Token};
use leasehold_file::{FileBackend, FlockBackend};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use rustix::fs::FlockOperation;

use crate::helper::{Helper, say, wait_for_resume};
use crate::kit::{SOON, attempt, name, release, request, until};

/// A backend, and what it says.
struct Flock {
    backend: FlockBackend,
    events: Events,
    dir: PathBuf,
}

impl Flock {
    fn open(dir: &Path) -> Self {
        let backend = FlockBackend::open(dir, "", Clock::system()).unwrap();
        let (sink, events) = EventSink::channel();
        backend.attach(ClientId::from_bits(1), sink);
        Self { backend, events, dir: dir.to_owned() }
    }

    async fn ask(&self, attempt: AttemptId, wait: bool) -> Option<Token> {
        match self.backend.acquire(request("a", attempt, wait)).await.unwrap() {
            Answer::Granted(grant) => Some(grant.tokens.base()),
            Answer::Busy { ask_again } => {
                assert_eq!(ask_again.is_some(), wait);
                None
            }
            other => panic!("{other:?}"),
        }
    }

    async fn hold(&self) -> (AttemptId, Token) {
        let attempt = attempt();
        (attempt, self.ask(attempt, false).await.unwrap())
    }

    async fn end(&self, attempt: AttemptId, base: Option<Token>) -> Verdict {
        self.backend.release(release("a", attempt, base)).await.unwrap().verdict
    }

    async fn renew(&self, attempt: AttemptId, base: Token) -> Renewed {
        let renewal = Renewal::new(name("a"), attempt, base, Duration::from_secs(30));
        self.backend.renew(&[renewal]).await.remove(0).unwrap()
    }

    async fn is_held(&self) -> bool {
        self.backend.status(&name("a")).await.unwrap().state == State::Held
    }

    /// Waits for the thread to say that the lock may be free.
    async fn woken(&mut self) {
        let woken = tokio::time::timeout(SOON, self.events.recv()).await;
        assert!(matches!(woken, Ok(Some(Event::Freed { .. }))), "{woken:?}");
    }

    /// Whether flock(1) finds the lock free.
    fn is_free_to_others(&self) -> bool {
        let tried = Command::new("flock").arg("-n").arg(self.dir.join("a")).arg("true").status();
        tried.unwrap().success()
    }
}

/// A `flock` that holds the file until its standard input ends.
fn flock(options: &[&str], file: &Path) -> Child {
    let mut flock = Command::new("flock");
    flock.args(options).arg(file).args(["sh", "-c", "echo held; read line"]);
    flock.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

/// Waits until it has it.
fn held(mut flock: Child) -> Child {
    let mut said = [0; 5];
    std::io::Read::read_exact(flock.stdout.as_mut().unwrap(), &mut said).unwrap();
    assert_eq!(&said, b"held\n");
    flock
}

fn end(mut flock: Child) {
    drop(flock.stdin.take());
    flock.wait().unwrap();
}

fn client(dir: &Path) -> Client {
    Client::new(Arc::new(FlockBackend::open(dir, "", Clock::system()).unwrap())).unwrap()
}

/// What this program does as another process.
pub(crate) fn play(role: &[&str]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    match *role {
        ["count", dir, counter, times] => {
            runtime.block_on(count(Path::new(dir), Path::new(counter), times.parse().unwrap()));
        }
        ["lock-a-record", file] => lock_a_record(Path::new(file)),
        ["hold-beside-a-child", dir] => runtime.block_on(hold_beside_a_child(Path::new(dir))),
        _ => panic!("no such role: {role:?}"),
    }
}

/// Adds to a plain file, which loses counts as soon as two do it at once.
async fn count(dir: &Path, counter: &Path, times: u32) {
    let client = client(dir);
    for _ in 0..times {
        let guard = client.lock("a").acquire().await.unwrap();
        let before: u64 = fs::read_to_string(counter).unwrap().trim().parse().unwrap();
        let draft = counter.with_extension(std::process::id().to_string());
        fs::write(&draft, (before + 1).to_string()).unwrap();
        fs::rename(&draft, counter).unwrap();
        say(guard.token());
        guard.release().await.unwrap();
    }
}

/// Holds the lock beside a child that was started while it was held.
#[expect(clippy::zombie_processes)] // The test ends it.
async fn hold_beside_a_child(dir: &Path) {
    let client = client(dir);
    let _guard = client.lock("a").acquire().await.unwrap();
    let child = Command::new("sleep").arg("600").stdout(Stdio::null()).spawn().unwrap();
    say(child.id());
    wait_for_resume();
}

/// Locks the file as lockf(3) and Java's `FileChannel` do.
fn lock_a_record(path: &Path) {
    let file = fs::File::options().read(true).write(true).open(path).unwrap();
    let locked = rustix::fs::fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive);
    say(locked.is_ok());
    wait_for_resume();
}

/// A shell that adds to the number in a file while it holds the lock by flock(1), and says so. It is a process group.
fn count_in_shell(file: &Path, counter: &Path, times: u32) -> Child {
    let script = r#"
        file=$1 counter=$2 times=$3
        while [ "$times" -gt 0 ]; do
            flock "$file" sh -c 'read n < "$1"; echo $((n + 1)) > "$1.$$"; mv "$1.$$" "$1"; echo counted' sh "$counter"
            times=$((times - 1))
        done"#;
    let mut shell = Command::new("sh");
    shell.args(["-c", script, "sh"]).arg(file).arg(counter).arg(times.to_string());
    shell.process_group(0).stdout(Stdio::piped()).spawn().unwrap()
}

/// Three programs of each kind, one of which is killed. Those may have counted without saying so, at most once each.
#[test]
fn shells_and_leasehold_count_together() {
    const TIMES: u32 = 60;
    let dir = tempfile::tempdir().unwrap();
    let counter = dir.path().join("counter");
    fs::write(&counter, "0\n").unwrap();
    let file = dir.path().join("a");
    let (path, times) = (dir.path().to_str().unwrap(), TIMES.to_string());
    let role = ["flock", "count", path, counter.to_str().unwrap(), &times];
    let shells: Vec<Child> = (0..3).map(|_| count_in_shell(&file, &counter, TIMES)).collect();
    let mut ours: Vec<Helper> = (0..3).map(|_| Helper::start(&role)).collect();
    let mut tokens = vec![Vec::<u64>::new(); 3];
    for _ in 0..5 {
        tokens[0].extend(ours[0].next().map(|said| said.parse::<u64>().unwrap()));
    }
    killpg(Pid::from_raw(shells[0].id() as i32), Signal::SIGKILL).unwrap();
    ours[0].signal(Signal::SIGKILL);
    for (helper, tokens) in ours.iter_mut().zip(&mut tokens) {
        while let Some(said) = helper.next() {
            tokens.push(said.parse().unwrap());
        }
    }
    let mut said = 0;
    for shell in shells {
        let out = shell.wait_with_output().unwrap().stdout;
        said += String::from_utf8(out).unwrap().lines().count();
    }
    assert!(said >= 2 * TIMES as usize, "two shells have counted");
    for tokens in &tokens {
        assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
    }
    assert!(tokens[1..].iter().all(|tokens| tokens.len() == TIMES as usize));
    let mut all: Vec<u64> = tokens.concat();
    let ours = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), ours, "a token came twice");
    let number: usize = fs::read_to_string(&counter).unwrap().trim().parse().unwrap();
    let counted = ours + said;
    assert!(
        (counted..=counted + 2).contains(&number),
        "{number} is stored, {counted} were counted"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_of_ours_has_the_lock_as_soon_as_flock_ends() {
    let dir = tempfile::tempdir().unwrap();
    let mut ours = Flock::open(dir.path());
    for signal in [None, Some(Signal::SIGKILL)] {
        let theirs = held(flock(&[], &dir.path().join("a")));
        let waits = attempt();
        assert_eq!(ours.ask(waits, true).await, None);
        match signal {
            None => end(theirs),
            Some(signal) => {
                // Its child has the descriptor too, until its standard input ends.
                kill(Pid::from_raw(theirs.id() as i32), signal).unwrap();
                end(theirs);
            }
        }
        ours.woken().await;
        // Before it has asked.
        assert!(!ours.is_free_to_others());
        let token = ours.ask(waits, true).await.unwrap();
        assert_eq!(ours.ask(waits, true).await, Some(token), "it has it already");
        assert_eq!(ours.end(waits, Some(token)).await, Verdict::Released);
        assert!(ours.is_free_to_others());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flock_that_waits_has_the_lock_as_soon_as_ours_is_released() {
    let dir = tempfile::tempdir().unwrap();
    let ours = Flock::open(dir.path());
    let (holds, token) = ours.hold().await;
    assert!(!ours.is_free_to_others());
    let theirs = flock(&[], &dir.path().join("a"));
    let blocked = format!(" {} ", theirs.id());
    until("flock waits", SOON, async || {
        let locks = fs::read_to_string("/proc/locks").unwrap();
        locks.lines().any(|line| line.contains("-> FLOCK") && line.contains(&blocked)).then_some(())
    })
    .await;
    assert_eq!(ours.end(holds, Some(token)).await, Verdict::Released);
    let theirs = tokio::task::spawn_blocking(|| held(theirs)).await.unwrap();
    assert_eq!(ours.ask(attempt(), false).await, None);
    end(theirs);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shared_flock_is_waited_for_and_status_says_who_holds() {
    let dir = tempfile::tempdir().unwrap();
    let mut ours = Flock::open(dir.path());
    let two = [&["-s"][..], &["-s"]].map(|options| held(flock(options, &dir.path().join("a"))));
    let waits = attempt();
    assert_eq!(ours.ask(waits, true).await, None);
    let status = ours.backend.status(&name("a")).await.unwrap();
    assert_eq!((status.state, &status.holder, status.token), (State::Held, &None, None));
    let note = status.note.unwrap();
    assert!(note.contains("to read") && note.contains("no client of Leasehold"), "{note}");
    assert!(two.iter().any(|one| note.contains(&one.id().to_string())), "{note}");
    let [one, other] = two;
    end(one);
    assert_eq!(ours.ask(waits, true).await, None);
    end(other);
    ours.woken().await;
    let token = ours.ask(waits, true).await.unwrap();
    let status = ours.backend.status(&name("a")).await.unwrap();
    assert_eq!((status.token, status.holder.unwrap().attempt), (Some(token), waits));
    ours.end(waits, Some(token)).await;
    assert!(!ours.is_held().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_ends_takes_nothing_later() {
    let dir = tempfile::tempdir().unwrap();
    let mut ours = Flock::open(dir.path());
    for woken in [false, true] {
        let theirs = held(flock(&[], &dir.path().join("a")));
        let waits = attempt();
        assert_eq!(ours.ask(waits, true).await, None);
        if woken {
            end(theirs);
            // The thread has locked it for the attempt, which does not ask any more.
            ours.woken().await;
            assert_eq!(ours.end(waits, None).await, Verdict::Gone);
        } else {
            assert_eq!(ours.end(waits, None).await, Verdict::Gone);
            end(theirs);
        }
        assert!(ours.is_free_to_others());
        let answer = ours.backend.acquire(request("a", waits, true)).await.unwrap();
        assert_eq!(answer, Answer::Ended);
        assert!(ours.is_free_to_others() && ours.events.try_recv().is_none());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_is_passed_over_to_the_next_when_it_ends() {
    let dir = tempfile::tempdir().unwrap();
    let mut ours = Flock::open(dir.path());
    let theirs = held(flock(&[], &dir.path().join("a")));
    let (first, second) = (attempt(), attempt());
    for waits in [first, second] {
        assert_eq!(ours.ask(waits, true).await, None);
    }
    end(theirs);
    ours.woken().await;
    assert_eq!(ours.end(first, None).await, Verdict::Gone);
    // The end of the first one's file wakes the second.
    ours.woken().await;
    let token = ours.ask(second, true).await.unwrap();
    assert_eq!(ours.end(second, Some(token)).await, Verdict::Released);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_renamed_or_removed_is_a_lost_lock() {
    let dir = tempfile::tempdir().unwrap();
    let (file, other) = (dir.path().join("a"), dir.path().join("b"));
    let ours = Flock::open(dir.path());
    for round in 0..3 {
        let (holds, token) = ours.hold().await;
        assert_eq!(ours.renew(holds, token).await, Renewed::Renewed);
        match round {
            0 => fs::remove_file(&file).unwrap(),
            1 => fs::rename(&file, &other).unwrap(),
            _ => fs::rename(&other, &file).unwrap(),
        }
        if round == 2 {
            assert!(ours.is_free_to_others(), "it is another file");
        }
        assert_eq!(ours.renew(holds, token).await, Renewed::Lost, "round {round}");
        // The next one has the file that is there now.
        let (next, later) = ours.hold().await;
        assert!(later > token);
        assert_eq!(ours.end(holds, Some(token)).await, Verdict::Lost);
        assert_eq!(ours.renew(next, later).await, Renewed::Renewed);
        assert_eq!(ours.end(next, Some(later)).await, Verdict::Released);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_acquires_the_file_that_replaces_the_one_that_is_held() {
    let dir = tempfile::tempdir().unwrap();
    let (file, other) = (dir.path().join("a"), dir.path().join("b"));
    let mut ours = Flock::open(dir.path());
    let old = held(flock(&[], &file));
    let waits = attempt();
    assert_eq!(ours.ask(waits, true).await, None);
    let new = held(flock(&[], &other));
    fs::rename(&other, &file).unwrap();
    end(old);
    assert_eq!(ours.ask(waits, true).await, None, "the new file is locked");
    while ours.events.try_recv().is_some() {}
    end(new);
    ours.woken().await;
    let token = ours.ask(waits, true).await.unwrap();
    assert_eq!(ours.renew(waits, token).await, Renewed::Renewed);
    ours.end(waits, Some(token)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_file_itself_stays_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a");
    fs::write(&file, "theirs").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let before = fs::metadata(&file).unwrap();
    let ours = Flock::open(dir.path());
    let mut last = None;
    for _ in 0..5 {
        let (holds, token) = ours.hold().await;
        assert!(Some(token) > last, "{last:?} then {token}");
        last = Some(token);
        ours.end(holds, Some(token)).await;
    }
    let after = fs::metadata(&file).unwrap();
    assert_eq!(fs::read(&file).unwrap(), b"theirs");
    assert_eq!((before.ino(), before.mode()), (after.ino(), after.mode()));
    assert_eq!(before.modified().unwrap(), after.modified().unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn children_do_not_keep_the_lock_of_a_holder_that_was_killed() {
    let dir = tempfile::tempdir().unwrap();
    let mut holder = Helper::start(&["flock", "hold-beside-a-child", dir.path().to_str().unwrap()]);
    let child = Pid::from_raw(holder.next().unwrap().parse().unwrap());
    let ours = Flock::open(dir.path());
    assert_eq!(ours.ask(attempt(), false).await, None);
    holder.stop();
    let note = ours.backend.status(&name("a")).await.unwrap().note.unwrap();
    assert!(note.contains("SIGSTOP"), "{note}");
    assert_eq!(ours.ask(attempt(), false).await, None, "no time ends it");
    holder.signal(Signal::SIGKILL);
    assert!(holder.was_killed());
    kill(child, None).unwrap();
    assert!(ours.is_free_to_others(), "the child has the descriptor");
    kill(child, Signal::SIGKILL).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_of_flock_keeps_the_lock_and_ours_waits_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut ours = Flock::open(dir.path());
    let script = "sleep 600 > /dev/null 2>&1 & echo $!";
    let said = Command::new("flock").arg(dir.path().join("a")).args(["sh", "-c", script]).output();
    let child = String::from_utf8(said.unwrap().stdout).unwrap().trim().parse().unwrap();
    let waits = attempt();
    assert_eq!(ours.ask(waits, true).await, None);
    kill(Pid::from_raw(child), Signal::SIGKILL).unwrap();
    ours.woken().await;
    assert!(ours.ask(waits, true).await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_of_fcntl_exclude_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let ours = Flock::open(dir.path());
    let (holds, token) = ours.hold().await;
    let file = dir.path().join("a");
    let mut other = Helper::start(&["flock", "lock-a-record", file.to_str().unwrap()]);
    assert_eq!(other.next().unwrap(), "true", "it has its lock beside ours");
    ours.end(holds, Some(token)).await;
    let theirs = held(flock(&[], &file));
    end(theirs);
    let (holds, token) = ours.hold().await;
    ours.end(holds, Some(token)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_suffix_names_the_file_and_the_record_belongs_to_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let open = |suffix| {
        Client::new(Arc::new(FlockBackend::open(dir.path(), suffix, Clock::system()).unwrap()))
    };
    let (plain, suffixed) = (open("").unwrap(), open(".lock").unwrap());
    let guard = suffixed.lock("job/1").acquire().await.unwrap();
    assert!(plain.lock("job/1").try_acquire().await.unwrap().is_some());
    assert!(plain.lock("job%2F1.lock").try_acquire().await.unwrap().is_some(), "% is escaped");
    let tried =
        Command::new("flock").arg("-n").arg(dir.path().join("job%2F1.lock")).arg("true").status();
    assert_eq!(tried.unwrap().code(), Some(1));
    guard.release().await.unwrap();
    let first = suffixed.lock("a").acquire().await.unwrap();
    assert!(plain.lock("a.lock").try_acquire().await.unwrap().is_none());
    let token = first.token();
    first.release().await.unwrap();
    assert!(plain.lock("a.lock").acquire().await.unwrap().token() > token);
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_with_and_without_the_option_refuse_each_others_directory() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("wire")).unwrap();
    let open = |name: &str| FlockBackend::open(&dir.path().join(name), "", Clock::system());
    let native = |name: &str| FileBackend::open(&dir.path().join(name), Clock::system());
    open("wire").unwrap();
    let error = native("wire").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Foreign, "{error}");
    assert!(error.to_string().contains("clients with the option wire=flock"), "{error}");
    native("native").unwrap();
    let error = open("native").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Foreign, "{error}");
    assert!(error.to_string().contains("without the option wire"), "{error}");
    assert!(!dir.path().join("native/.leasehold-flock").exists());
    native("native").unwrap();
    open("wire").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_flock_cannot_do_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let error = FlockBackend::open(&dir.path().join("none"), "", Clock::system()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert!(error.to_string().contains("is no directory"), "{error}");
    let client = client(dir.path());
    for error in [
        client.rw_lock("a").try_read().await.unwrap_err(),
        client.semaphore("a", 2).try_acquire().await.unwrap_err(),
        client.latch("a", 2).state().await.unwrap_err(),
        client.list("", 10).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    }
    let guard = client.lock("a").acquire().await.unwrap();
    let error = client.lock("a").force_release(guard.token()).await.unwrap_err();
    let pid = std::process::id().to_string();
    assert!(error.to_string().contains(&pid), "{error}");
}
