//! Locks in the format of `concurrency.Mutex`, beside `etcdctl lock`, etcd's own lock service, and clients without the
//! option.

use std::collections::HashSet;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use leasehold_conformance::holder::Process;
use leasehold_conformance::{Raw, until};
use leasehold_core::backend::{Answer, Event, Renewal, Renewed};
use leasehold_core::{Client, Error, ErrorKind, Forced, LossReason, State, StoreUrl};
use leasehold_etcd_api::{GetOptions, KeyValue};
use leasehold_test_servers::{EtcdServer, Needs};

use crate::{Test, connect, ms, operator, secs, server, test, try_connect, waits, watched};

pub(crate) const TESTS: &[Test] = &[
    test!(etcdctl_and_leasehold_count_together),
    test!(etcdctl_waits_for_us_and_we_for_it),
    test!(the_key_is_what_the_library_writes),
    test!(the_deletion_of_a_key_of_another_library_is_pushed),
    test!(a_lease_that_is_used_twice_is_one_holder_and_ours_never_are),
    test!(a_lock_waits_for_those_with_longer_names),
    test!(a_key_without_a_lease_is_shown_and_never_deleted),
    test!(a_lock_that_another_program_overwrote_is_lost),
    test!(a_renewal_of_a_key_that_another_program_overwrote_is_a_loss),
    test!(a_waiting_key_that_another_program_overwrote_gets_no_lock),
    test!(a_revoked_lease_is_a_lost_lock),
    test!(a_lock_that_another_client_unlocks_is_lost),
    test!(an_extension_keeps_the_key),
    test!(a_forced_release_names_the_key_by_its_token),
    test!(clients_without_the_option_are_refused),
    test!(a_lock_of_clients_without_the_option_is_refused),
    test!(of_a_client_with_and_one_without_the_option_one_is_refused),
    test!(two_prefixes_of_one_name_are_refused),
    test!(what_the_format_cannot_do_is_refused),
];

fn url(server: &EtcdServer) -> String {
    format!("{}?wire=concurrency", server.url())
}

async fn wire(server: &EtcdServer) -> Client {
    connect(&url(server)).await
}

/// Returns the keys that begin with this, in the order of their places.
async fn keys(server: &EtcdServer, prefix: &str) -> Vec<KeyValue> {
    let (operator, all) = (operator(server).await, GetOptions::new().with_prefix());
    let mut keys = operator.get(prefix, Some(all)).await.unwrap().kvs;
    keys.sort_by_key(|kv| kv.create_revision);
    keys
}

/// Returns the text of a key.
fn text(kv: &KeyValue) -> String {
    String::from_utf8(kv.key.clone()).unwrap()
}

/// Waits until so many clients of any library wait for a lock.
async fn queued(client: &Client, name: &str, count: usize) {
    until("they wait", || async {
        let status = client.lock(name).status().await.unwrap();
        status.waiters.map_or(0, |waiters| waiters.len()) + status.more_waiters == count
    })
    .await
    .unwrap();
}

/// A folder with a number, and scripts that `etcdctl lock` runs.
struct Folder {
    folder: tempfile::TempDir,
}

/// Adds one to the number, and prints a line.
const COUNT: &str = r#"#!/bin/sh
cd "$(dirname "$0")" && number=$(cat number) && echo $((number + 1)) >"new.$$" && mv "new.$$" number && echo counted
"#;
/// The same, and holds until a file is there.
const HOLD: &str = r#"#!/bin/sh
cd "$(dirname "$0")" && ./count && while [ ! -e release ]; do sleep 0.1; done
"#;

impl Folder {
    fn new() -> Self {
        let folder = Self { folder: tempfile::tempdir().unwrap() };
        std::fs::write(folder.path("number"), "0").unwrap();
        for (name, text) in [("count", COUNT), ("hold", HOLD)] {
            std::fs::write(folder.path(name), text).unwrap();
            let executable = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(folder.path(name), executable).unwrap();
        }
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts a process that runs `etcdctl lock` with a script so often.
    fn etcdctl(&self, server: &EtcdServer, lock: &str, script: &str, times: u32) -> Etcdctl {
        let run = format!(
            "for turn in $(seq {times}); do etcdctl --endpoints={} lock --ttl=5 {lock} {} || exit 1; done",
            server.plain_url(),
            self.path(script).display(),
        );
        let mut shell = Command::new("sh");
        shell.args(["-c", &run]).env("ETCDCTL_API", "3").process_group(0);
        let mut child = shell.stdout(Stdio::piped()).spawn().unwrap();
        let lines = child.stdout.take().map(BufReader::new);
        Etcdctl { child, lines }
    }
}

fn read(number: &Path) -> u32 {
    std::fs::read_to_string(number).unwrap().trim().parse().unwrap()
}

/// A process group; killed when dropped.
struct Etcdctl {
    child: Child,
    lines: Option<BufReader<ChildStdout>>,
}

impl Etcdctl {
    /// Waits until it has counted once.
    async fn has_counted(&mut self) {
        let mut lines = self.lines.take().unwrap();
        let read = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            lines.read_line(&mut line).unwrap();
            (line, lines)
        });
        let (line, lines) = read.await.unwrap();
        assert_eq!(line, "counted\n");
        self.lines = Some(lines);
    }

    /// Waits for its end, and returns how often it has counted since.
    async fn counted(mut self) -> u32 {
        let lines = self.lines.take().unwrap();
        let read = tokio::task::spawn_blocking(move || {
            lines.lines().map(Result::unwrap).filter(|line| line == "counted").count()
        });
        let counted = read.await.unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
        counted as u32
    }
}

impl Drop for Etcdctl {
    /// Kills etcdctl and its script: the script would go on by itself.
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            let group = format!("-{}", self.child.id());
            Command::new("kill").args(["-KILL", "--", &group]).status().ok();
            self.child.wait().ok();
        }
    }
}

/// Three processes of `etcdctl lock` and three clients of ours add to a number in a file. One of each is killed while
/// it holds the lock, and one client of ours drops its guards.
async fn etcdctl_and_leasehold_count_together() {
    const THEIRS: u32 = 15;
    const OURS: u32 = 40;
    if Needs::Etcdctl.is_skipped() {
        return;
    }
    let (server, folder) = (server(), Folder::new());
    let mut killed = Process::with_ttl(&url(&server), "counter", secs(3)).unwrap();
    let programs: Vec<Etcdctl> =
        (0..3).map(|_| folder.etcdctl(&server, "counter", "count", THEIRS)).collect();
    let counted = Arc::<AtomicU32>::default();
    let mut ours = Vec::new();
    for number in 0..3 {
        let client = wire(&server).await;
        let (path, counted) = (folder.path("number"), counted.clone());
        ours.push(tokio::spawn(async move {
            let mut last = None;
            for _ in 0..OURS {
                let guard = client.lock("counter").acquire_within(secs(90)).await.unwrap();
                assert!(Some(guard.token()) > last);
                last = Some(guard.token());
                let mine = path.with_extension(number.to_string());
                std::fs::write(&mine, (read(&path) + 1).to_string()).unwrap();
                tokio::task::yield_now().await;
                guard.ensure(secs(0)).unwrap();
                std::fs::rename(&mine, &path).unwrap();
                counted.fetch_add(1, Ordering::Relaxed);
                match number {
                    0 => drop(guard),
                    _ => guard.release().await.unwrap(),
                }
            }
        }));
    }
    killed.kill();
    until("we have counted a few times", || async { counted.load(Ordering::Relaxed) > 5 })
        .await
        .unwrap();
    // It waits among them, counts, and is killed while it holds the lock.
    let mut victim = folder.etcdctl(&server, "counter", "hold", 1);
    victim.has_counted().await;
    drop(victim);
    for task in ours {
        task.await.unwrap();
    }
    let mut all = counted.load(Ordering::Relaxed) + 1;
    for program in programs {
        all += program.counted().await;
    }
    assert_eq!(read(&folder.path("number")), all);
}

async fn etcdctl_waits_for_us_and_we_for_it() {
    if Needs::Etcdctl.is_skipped() {
        return;
    }
    let (server, folder) = (server(), Folder::new());
    let client = wire(&server).await;
    let guard = client.lock("a/b").ttl(secs(3_600)).acquire().await.unwrap();
    let mut etcdctl = folder.etcdctl(&server, "a/b", "hold", 1);
    queued(&client, "a/b", 1).await;
    assert_eq!(read(&folder.path("number")), 0);
    guard.release().await.unwrap();
    etcdctl.has_counted().await;
    let status = client.lock("a/b").status().await.unwrap();
    let [held] = &*keys(&server, "a/b/").await else { panic!("{status:?}") };
    assert_eq!(status.state, State::Held);
    assert_eq!(status.token.unwrap().get(), held.create_revision as u64);
    let note = status.note.unwrap();
    assert!(note.contains("another library") && note.contains(&text(held)), "{note}");
    assert!(client.lock("a/b").try_acquire().await.unwrap().is_none());
    let lock = client.lock("a/b");
    let waiting = tokio::spawn(async move { lock.acquire_within(secs(90)).await });
    queued(&client, "a/b", 1).await;
    std::fs::write(folder.path("release"), "").unwrap();
    let guard = waiting.await.unwrap().unwrap();
    assert!(guard.token().get() > held.create_revision as u64);
    guard.release().await.unwrap();
    assert_eq!(etcdctl.counted().await, 0);
}

/// The form is that of Go's `Mutex`, byte for byte, also where a name begins with a slash.
async fn the_key_is_what_the_library_writes() {
    let server = server();
    for (options, name, prefix) in
        [("", "a/b", "a/b/"), ("", "/n/", "/n//"), ("&key-prefix=locks/", "a", "locks/a/")]
    {
        let client = connect(&format!("{}{options}", url(&server))).await;
        let guard = client.lock(name).acquire().await.unwrap();
        let [key] = &*keys(&server, prefix).await else { panic!("not one key below {prefix}") };
        assert_eq!(text(key), format!("{prefix}{:x}", key.lease));
        assert_ne!(key.lease, 0);
        assert_eq!(key.create_revision as u64, guard.token().get());
        let status = client.lock(name).status().await.unwrap();
        assert_eq!((status.token, status.note), (Some(guard.token()), None));
        assert_eq!(status.holder.unwrap().pid, std::process::id());
        guard.release().await.unwrap();
        assert!(keys(&server, prefix).await.is_empty());
    }
}

async fn the_deletion_of_a_key_of_another_library_is_pushed() {
    let server = server();
    let (lease, etcd) = (lease(&server, 600).await, operator(&server).await);
    let key = etcd.lock("a", lease).await.unwrap().key;
    let mut raw = raw_wire(&server, 1).await;
    // It does not ask again by itself.
    let request = waits(&mut raw, secs(3_600));
    let answer = raw.backend.acquire(request.clone()).await.unwrap();
    assert!(matches!(answer, Answer::Queued { place: Some(0), .. }), "{answer:?}");
    watched(&server, 1).await;
    etcd.unlock(key).await.unwrap();
    let told = raw.events.recv().await;
    let is_told = |attempt| attempt == request.attempt;
    assert!(matches!(told, Some(Event::Next { attempt, .. }) if is_told(attempt)), "{told:?}");
    let answer = raw.backend.acquire(request).await.unwrap();
    assert!(matches!(answer, Answer::Granted(_)), "{answer:?}");
}

/// A backend without the client before it.
async fn raw_wire(server: &EtcdServer, client: u64) -> Raw {
    let url = StoreUrl::parse(&url(server)).unwrap();
    Raw::attach(Arc::new(leasehold_etcd::connect_with_wire(url).await.unwrap()), client)
}

/// Grants a lease of an operator.
async fn lease(server: &EtcdServer, secs: i64) -> i64 {
    operator(server).await.lease_grant(0, secs).await.unwrap().id
}

/// etcd's own lock service names a key by its lease, so its second caller with the same lease holds at once.
async fn a_lease_that_is_used_twice_is_one_holder_and_ours_never_are() {
    let server = server();
    let lease = lease(&server, 600).await;
    let etcd = operator(&server).await;
    let lock = || {
        let etcd = etcd.clone();
        async move { etcd.lock("a", lease).await.unwrap().key }
    };
    let (first, second) = (lock().await, lock().await);
    assert_eq!(first, second);
    // Three attempts of one client have three leases: all wait for them, and one for the other.
    let mut raw = raw_wire(&server, 1).await;
    for place in 0..3 {
        let request = waits(&mut raw, secs(60));
        let answer = raw.backend.acquire(request).await.unwrap();
        assert!(
            matches!(answer, Answer::Queued { place: Some(at), .. } if at == place),
            "{answer:?}"
        );
    }
    let own = keys(&server, "a/").await;
    assert!(own.iter().all(|kv| text(kv) == format!("a/{:x}", kv.lease)), "{own:?}");
    let leases: HashSet<i64> = own.iter().map(|kv| kv.lease).collect();
    assert_eq!(leases.len(), 4);
    etcd.unlock(first).await.unwrap();
}

async fn a_lock_waits_for_those_with_longer_names() {
    let server = server();
    let client = wire(&server).await;
    let longer = client.lock("a/b").acquire().await.unwrap();
    assert!(client.lock("a").try_acquire().await.unwrap().is_none());
    let status = client.lock("a").status().await.unwrap();
    assert!(status.note.unwrap().contains("\"a/b/"), "the note names the key");
    let error = client.lock("a").force_release(longer.token()).await.unwrap_err();
    assert!(error.to_string().contains("longer name"), "{error}");
    longer.ensure(secs(0)).unwrap();
    client.lock("ab").acquire().await.unwrap().release().await.unwrap();
    let lock = client.lock("a");
    let waiting = tokio::spawn(async move { lock.acquire_within(secs(60)).await });
    queued(&client, "a", 1).await;
    longer.release().await.unwrap();
    let shorter = waiting.await.unwrap().unwrap();
    // The other way round they do not wait.
    client.lock("a/b").try_acquire().await.unwrap().unwrap().release().await.unwrap();
    shorter.release().await.unwrap();
    let error = client.lock("leasehold").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "its mark would be in its own queue: {error}");
}

async fn a_key_without_a_lease_is_shown_and_never_deleted() {
    let server = server();
    let client = wire(&server).await;
    let operator = operator(&server).await;
    operator.put("a/left", "", None).await.unwrap();
    assert!(client.lock("a").try_acquire().await.unwrap().is_none());
    let lock = client.lock("a").ttl(secs(2));
    let waiting = tokio::spawn(async move { lock.acquire_within(secs(90)).await });
    queued(&client, "a", 1).await;
    let status = client.lock("a").status().await.unwrap();
    assert_eq!((status.state, status.remaining), (State::Held, None));
    let note = status.note.unwrap();
    for part in ["\"a/left\"", "no lease", "etcdctl del"] {
        assert!(note.contains(part), "{note}");
    }
    // The waiter has asked again since, and has left it alone.
    let asked = || server.metric_of("grpc_server_handled_total", "grpc_method=\"Txn\"").unwrap();
    let before = asked();
    until("the waiter asks again", || async { asked() >= before + 2.0 }).await.unwrap();
    assert_eq!(text(&keys(&server, "a/").await[0]), "a/left");
    operator.delete("a/left").await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

async fn a_lock_that_another_program_overwrote_is_lost() {
    let server = server();
    let client = wire(&server).await;
    let guard = client.lock("a").ttl(secs(3_600)).acquire().await.unwrap();
    watched(&server, 1).await;
    let key = text(&keys(&server, "a/").await[0]);
    operator(&server).await.put(&*key, "theirs", None).await.unwrap();
    // No renewal is due for twenty minutes.
    assert_eq!(guard.lost().await, LossReason::NotOwner);
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    let [kept] = &*keys(&server, "a/").await else { panic!("their key was deleted") };
    assert_eq!((&*kept.value, kept.lease), (&b"theirs"[..], 0));
    assert!(client.lock("a").try_acquire().await.unwrap().is_none());
}

/// A raw backend has no watch that tells it: renewals, short and long, see it by themselves.
async fn a_renewal_of_a_key_that_another_program_overwrote_is_a_loss() {
    let server = server();
    let mut raw = raw_wire(&server, 1).await;
    let request = waits(&mut raw, secs(5));
    let Answer::Granted(grant) = raw.backend.acquire(request.clone()).await.unwrap() else {
        panic!("not granted");
    };
    let renewal =
        |ttl| Renewal::new(request.name.clone(), request.attempt, grant.tokens.base(), secs(ttl));
    let renew = async |ttl| raw.backend.renew(&[renewal(ttl)]).await.remove(0).unwrap();
    assert_eq!(renew(5).await, Renewed::Renewed);
    assert_eq!(renew(60).await, Renewed::Renewed);
    assert_eq!(renew(60).await, Renewed::Renewed);
    let key = text(&keys(&server, "a/").await[0]);
    operator(&server).await.put(&*key, "theirs", None).await.unwrap();
    for ttl in [60, 600] {
        assert_eq!(renew(ttl).await, Renewed::Lost, "{ttl} s");
    }
    assert_eq!(keys(&server, "a/").await[0].lease, 0, "it was moved back");
}

async fn a_waiting_key_that_another_program_overwrote_gets_no_lock() {
    let server = server();
    let client = wire(&server).await;
    let guard = client.lock("a").acquire().await.unwrap();
    let lock = client.lock("a").ttl(secs(2));
    let waiting = tokio::spawn(async move { lock.acquire_within(secs(90)).await });
    queued(&client, "a", 1).await;
    let operator = operator(&server).await;
    let key = text(&keys(&server, "a/").await[1]);
    operator.put(&*key, "theirs", None).await.unwrap();
    guard.release().await.unwrap();
    // It waits for that key now, with another one.
    until("it waits again", || async {
        let keys = keys(&server, "a/").await;
        keys.len() == 2 && text(&keys[0]) == key
    })
    .await
    .unwrap();
    operator.delete(&*key).await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

async fn a_revoked_lease_is_a_lost_lock() {
    let server = server();
    let client = wire(&server).await;
    let guard = client.lock("a").ttl(secs(3_600)).acquire().await.unwrap();
    watched(&server, 1).await;
    let lease = keys(&server, "a/").await[0].lease;
    operator(&server).await.lease_revoke(lease).await.unwrap();
    assert_eq!(guard.lost().await, LossReason::NotOwner);
    client.lock("a").acquire_within(secs(60)).await.unwrap().release().await.unwrap();
}

/// etcd's lock service deletes whatever key a client names, also ours.
async fn a_lock_that_another_client_unlocks_is_lost() {
    let server = server();
    let client = wire(&server).await;
    let guard = client.lock("a").ttl(secs(3_600)).acquire().await.unwrap();
    watched(&server, 1).await;
    let key = text(&keys(&server, "a/").await[0]);
    operator(&server).await.unlock(key).await.unwrap();
    assert_eq!(guard.lost().await, LossReason::NotOwner);
    client.lock("a").acquire_within(secs(60)).await.unwrap().release().await.unwrap();
}

async fn an_extension_keeps_the_key() {
    let server = server();
    let client = wire(&server).await;
    let guard = client.lock("a").lease(secs(20)).acquire().await.unwrap();
    watched(&server, 1).await;
    let before = keys(&server, "a/").await.remove(0);
    for time in [60, 120] {
        guard.extend(secs(time)).await.unwrap();
        let after = keys(&server, "a/").await.remove(0);
        assert_eq!(text(&after), text(&before));
        assert_eq!(after.create_revision, before.create_revision);
        assert_ne!(after.lease, before.lease);
    }
    // The watch has seen these changes, and still sees a foreign one.
    guard.ensure(secs(60)).unwrap();
    watched(&server, 1).await;
    operator(&server).await.put(text(&before), "theirs", None).await.unwrap();
    assert_eq!(guard.lost().await, LossReason::NotOwner);
}

async fn a_forced_release_names_the_key_by_its_token() {
    let server = server();
    let client = wire(&server).await;
    let lease = lease(&server, 600).await;
    operator(&server).await.lock("a", lease).await.unwrap();
    let lock = client.lock("a");
    let token = lock.status().await.unwrap().token.unwrap();
    let later = leasehold_core::Token::new(token.get() + 1).unwrap();
    assert_eq!(lock.force_release(later).await.unwrap(), Forced::Other(token));
    assert_eq!(lock.force_release(token).await.unwrap(), Forced::Ended);
    assert_eq!(lock.force_release(token).await.unwrap(), Forced::NotHeld);
    let guard = lock.acquire().await.unwrap();
    assert_eq!(lock.force_release(guard.token()).await.unwrap(), Forced::Ended);
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
}

async fn clients_without_the_option_are_refused() {
    let server = server();
    let (native, client) = (connect(&server.url()).await, wire(&server).await);
    // Its free lock does not hinder.
    native.lock("a").acquire().await.unwrap().release().await.unwrap();
    let guard = client.lock("a").lease(secs(600)).acquire().await.unwrap();
    for round in 0..2 {
        let errors = [
            native.lock("a").try_acquire().await.unwrap_err(),
            native.lock("a").acquire().await.unwrap_err(),
            native.rw_lock("a").read().await.unwrap_err(),
            native.lock("a").status().await.unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::Foreign, "{round}: {error}");
            assert!(error.to_string().contains("option wire"), "{error}");
        }
    }
    assert!(native.list("", 10).await.unwrap().is_empty());
    native.lock("b").acquire().await.unwrap().release().await.unwrap();
    // The mark outlives the lock.
    let operator = operator(&server).await;
    let mark = operator.get("leasehold/a\nwire", None).await.unwrap().kvs[0].lease;
    let left = operator.lease_time_to_live(mark).await.unwrap().granted_ttl;
    assert!(left > 600, "{left} s");
    guard.release().await.unwrap();
    native.lock("a").try_acquire().await.unwrap_err();
    // When it has expired.
    operator.lease_revoke(mark).await.unwrap();
    native.lock("a").acquire().await.unwrap().release().await.unwrap();
}

async fn a_lock_of_clients_without_the_option_is_refused() {
    let server = server();
    let (native, client) = (connect(&server.url()).await, wire(&server).await);
    let guard = native.lock("a").acquire().await.unwrap();
    let error = client.lock("a").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Foreign, "{error}");
    assert!(error.to_string().contains("without the option wire"), "{error}");
    assert!(keys(&server, "a/").await.is_empty());
    guard.ensure(secs(0)).unwrap();
    guard.release().await.unwrap();
    client.lock("a").acquire().await.unwrap().release().await.unwrap();
}

async fn of_a_client_with_and_one_without_the_option_one_is_refused() {
    let server = server();
    let (native, client) = (connect(&server.url()).await, wire(&server).await);
    // How often the client without the option, and the one with it, was refused.
    let mut refusals = [0, 0];
    for number in 0..2_000 {
        if number >= 100 && refusals.iter().all(|count| *count > 0) {
            return;
        }
        let name = number.to_string();
        let (one, two) = (native.lock(&name), client.lock(&name));
        let (one, two) = tokio::join!(one.try_acquire(), async {
            // Either may be the first.
            tokio::time::sleep(ms(number % 10)).await;
            two.try_acquire().await
        });
        let (held, refused) = match (one, two) {
            (Err(refused), Ok(held)) => {
                refusals[0] += 1;
                (held, refused)
            }
            (Ok(held), Err(refused)) => {
                refusals[1] += 1;
                (held, refused)
            }
            both => panic!("{name}: {both:?}"),
        };
        assert_eq!(refused.kind(), ErrorKind::Foreign, "{refused}");
        held.unwrap().release().await.unwrap();
    }
    panic!("the same one was the first each time: {refusals:?}");
}

async fn two_prefixes_of_one_name_are_refused() {
    let server = server();
    let first = wire(&server).await;
    first.lock("a").acquire().await.unwrap().release().await.unwrap();
    let other = connect(&format!("{}&key-prefix=locks/", url(&server))).await;
    let error = other.lock("a").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Foreign, "{error}");
    assert!(error.to_string().contains("wire=concurrency"), "{error}");
    // A client that comes later finds the mark too, and agrees with it.
    wire(&server).await.lock("a").acquire().await.unwrap().release().await.unwrap();
}

async fn what_the_format_cannot_do_is_refused() {
    let server = server();
    let client = wire(&server).await;
    let refused = |error: Error| {
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    };
    refused(client.rw_lock("a").try_read().await.unwrap_err());
    refused(client.semaphore("a", 2).try_acquire().await.unwrap_err());
    refused(client.latch("a", 2).state().await.unwrap_err());
    refused(client.list("", 10).await.unwrap_err());
    let error = try_connect(&format!("{}?wire=session", server.url())).await.unwrap_err();
    assert!(error.to_string().contains("concurrency is allowed"), "{error}");
    let plain = StoreUrl::parse(&url(&server)).unwrap();
    let error = leasehold_etcd::connect(plain).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
}
