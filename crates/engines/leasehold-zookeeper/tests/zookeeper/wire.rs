//! Locks in the formats of other libraries, beside those libraries and beside clients without the option.

mod other_kinds;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use leasehold_conformance::holder::Process;
use leasehold_conformance::until;
use leasehold_core::{Client, Error, ErrorKind, Forced, LossReason, State, Token};
use leasehold_test_servers::{Direction, Needs, Proxy, ZooKeeperServer, ZooKeeperSettings};
use zookeeper_client::{Acls, Client as ZooKeeper, CreateMode};

use other_kinds::{
    a_semaphore_of_kazoo_is_named, nodes_of_another_kind_of_lock_are_named,
    nodes_of_another_library_are_named,
};

use crate::{Test, connect, free, plain, secs, test, try_connect, waiting};

pub(crate) const TESTS: &[Test] = &[
    test!(kazoo_and_leasehold_count_together),
    test!(kazoo_and_leasehold_wake_each_other),
    test!(a_reader_of_kazoo_is_waited_for),
    test!(the_nodes_are_what_the_library_writes),
    test!(a_mutex_of_curator_and_ours_exclude_each_other),
    test!(what_blocks_a_path_of_curator_is_named_and_left_alone),
    test!(nodes_of_another_library_are_named),
    test!(nodes_of_another_kind_of_lock_are_named),
    test!(a_semaphore_of_kazoo_is_named),
    test!(clients_without_the_option_are_refused),
    test!(a_lock_of_clients_without_the_option_is_refused),
    test!(clients_without_the_option_at_the_same_path_are_excluded_or_refused),
    test!(two_formats_of_one_name_are_refused),
    test!(a_mark_that_has_expired_hinders_nobody),
    test!(a_node_whose_creation_was_not_answered_is_found_again),
    test!(parents_that_were_removed_are_created_again),
    test!(the_end_of_a_session_is_a_loss),
    test!(a_forced_release_ends_what_it_names),
    test!(what_a_format_cannot_do_is_refused),
];

const CURATOR: &str = "_c_01234567-89ab-cdef-0123-456789abcdef-lock-";
const KAZOO: &str = "0123456789abcdef0123456789abcdef__lock__";

/// A server whose sessions last over what a machine with much to do makes of a second.
fn patient() -> ZooKeeperServer {
    ZooKeeperServer::start(ZooKeeperSettings::new().line("maxSessionTimeout=60000")).unwrap()
}

fn url(server: &ZooKeeperServer, wire: &str) -> String {
    format!("{}?wire={wire}", server.url())
}

/// A client that knows nothing of locks.
async fn raw(server: &ZooKeeperServer) -> ZooKeeper {
    ZooKeeper::connect(&server.address().to_string()).await.unwrap()
}

/// Creates a node that stays, and those above it.
async fn create(raw: &ZooKeeper, path: &str, data: &[u8]) {
    let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
    let (parent, _) = path.rsplit_once('/').unwrap();
    if !parent.is_empty() {
        raw.mkdir(parent, &options).await.unwrap();
    }
    raw.create(path, data, &options).await.unwrap();
}

/// Creates a node as the other library does, and returns its path.
async fn enter(raw: &ZooKeeper, prefix: &str, data: &[u8]) -> String {
    let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    let (_, number) = raw.create(prefix, data, &options).await.unwrap();
    format!("{prefix}{number}")
}

/// A program of kazoo that adds to the number in a file, as often as its argument says, and prints a line each time.
const COUNT: &str = r"
import os, sys
from kazoo.client import KazooClient
hosts, path, times = sys.argv[1], sys.argv[2], int(sys.argv[3])
client = KazooClient(hosts, timeout=float(sys.argv[4]))
client.start(timeout=60)
for _ in range(times):
    lock = client.Lock('/jobs/counter', 'kazoo')
    lock.acquire()
    with open(path) as file:
        number = int(file.read())
    mine = path + str(os.getpid())
    with open(mine, 'w') as file:
        file.write(str(number + 1))
    os.replace(mine, path)
    print('counted', flush=True)
    lock.release()
client.stop()
";

/// A program of kazoo that holds a lock, and says so, until its input ends.
const HOLD: &str = r"
import sys
from kazoo.client import KazooClient
client = KazooClient(sys.argv[1], timeout=30.0)
client.start(timeout=60)
lock = getattr(client, sys.argv[2])(sys.argv[3], 'kazoo says hello')
lock.acquire()
print('held', flush=True)
sys.stdin.read()
lock.release()
client.stop()
";

fn python(server: &ZooKeeperServer, program: &str, words: &[&str]) -> Child {
    let mut python = Command::new("/usr/bin/python3");
    python.args(["-c", program, &server.address().to_string()]).args(words);
    python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

/// Three programs of kazoo, and three clients and a program of ours. One of the programs of each side is killed; that of
/// kazoo may have counted without saying so, at most once.
async fn kazoo_and_leasehold_count_together() {
    const TIMES: u32 = 30;
    if Needs::Kazoo.is_skipped() {
        return;
    }
    let server = patient();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("number");
    std::fs::write(&path, "0").unwrap();
    let (text, times) = (path.display().to_string(), TIMES.to_string());
    let count = |session| python(&server, COUNT, &[&text, &times, session]);
    // Its session ends soon after it was killed.
    let mut programs = vec![count("6"), count("40"), count("40")];
    let counted = Arc::<AtomicU32>::default();
    let mut ours = Vec::new();
    for number in 0..3 {
        let client = connect(&url(&server, "kazoo")).await;
        let (path, counted) = (path.clone(), counted.clone());
        ours.push(tokio::spawn(async move {
            for _ in 0..TIMES {
                let guard = client.lock("jobs/counter").acquire_within(secs(100)).await.unwrap();
                let number_then = read(&path);
                let mine = path.with_extension(number.to_string());
                std::fs::write(&mine, (number_then + 1).to_string()).unwrap();
                tokio::task::yield_now().await;
                guard.ensure(secs(0)).unwrap();
                std::fs::rename(&mine, &path).unwrap();
                counted.fetch_add(1, Ordering::Relaxed);
                guard.release().await.unwrap();
            }
        }));
    }
    until("we have counted a few times", || async { counted.load(Ordering::Relaxed) > 5 })
        .await
        .unwrap();
    programs[0].kill().unwrap();
    let place = format!("{}?wire=kazoo&session=6s", server.url());
    let held = tokio::task::spawn_blocking(move || Process::start(&place, "jobs/counter"));
    drop(held.await.unwrap().unwrap());
    for task in ours {
        task.await.unwrap();
    }
    let said = tokio::task::spawn_blocking(move || {
        let ends = programs.into_iter().map(|program| program.wait_with_output().unwrap());
        ends.map(|end| String::from_utf8(end.stdout).unwrap().lines().count() as u32).sum::<u32>()
    });
    let theirs = said.await.unwrap();
    assert!(theirs >= 2 * TIMES, "kazoo has counted {theirs} times");
    let (all, number) = (theirs + counted.load(Ordering::Relaxed), read(&path));
    assert!(number == all || number == all + 1, "{number} is stored, {all} were counted");
}

fn read(path: &Path) -> u32 {
    std::fs::read_to_string(path).unwrap().parse().unwrap()
}

/// A program of kazoo that wants a lock, or holds it.
struct Kazoo(Child);

impl Kazoo {
    fn start(server: &ZooKeeperServer, kind: &str, path: &str) -> Self {
        Self(python(server, HOLD, &[kind, path]))
    }

    /// Waits until it holds.
    async fn held(self) -> Self {
        let held = tokio::task::spawn_blocking(move || {
            let Self(mut child) = self;
            let mut line = String::new();
            BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
            assert_eq!(line.trim(), "held");
            Self(child)
        });
        held.await.unwrap()
    }

    /// Has it release the lock, and end.
    async fn release(self) {
        let ended = tokio::task::spawn_blocking(move || {
            let Self(mut child) = self;
            child.stdin.take().unwrap().flush().unwrap();
            child.wait().unwrap()
        });
        assert!(ended.await.unwrap().success());
    }
}

async fn kazoo_and_leasehold_wake_each_other() {
    if Needs::Kazoo.is_skipped() {
        return;
    }
    let server = patient();
    let client = connect(&url(&server, "kazoo")).await;
    let lock = client.lock("jobs/a");
    for _ in 0..3 {
        let theirs = Kazoo::start(&server, "Lock", "/jobs/a").held().await;
        let status = lock.status().await.unwrap();
        assert!(status.note.unwrap().contains("kazoo says hello"));
        assert!(lock.try_acquire().await.unwrap().is_none(), "two hold it");
        let next = lock.clone();
        let next = tokio::spawn(async move { next.acquire_within(secs(60)).await });
        waiting(&client, "jobs/a", 1).await;
        theirs.release().await;
        let guard = next.await.unwrap().unwrap();
        let theirs = Kazoo::start(&server, "Lock", "/jobs/a");
        waiting(&client, "jobs/a", 1).await;
        guard.release().await.unwrap();
        theirs.held().await.release().await;
    }
    free(&client, "jobs/a").await;
}

async fn a_reader_of_kazoo_is_waited_for() {
    if Needs::Kazoo.is_skipped() {
        return;
    }
    let server = patient();
    let client = connect(&url(&server, "kazoo")).await;
    let lock = client.lock("jobs/a");
    let reads = Kazoo::start(&server, "ReadLock", "/jobs/a").held().await;
    assert!(lock.try_acquire().await.unwrap().is_none(), "it was not waited for");
    let next = lock.clone();
    let next = tokio::spawn(async move { next.acquire_within(secs(60)).await });
    waiting(&client, "jobs/a", 1).await;
    reads.release().await;
    next.await.unwrap().unwrap().release().await.unwrap();
}

async fn the_nodes_are_what_the_library_writes() {
    let server = plain();
    let raw = raw(&server).await;
    for wire in ["curator", "kazoo"] {
        let login = format!("zookeeper://app:secret@{}?wire={wire}", server.address());
        let client = connect(&login).await;
        let guard = client.lock(format!("{wire}/jobs/a")).acquire().await.unwrap();
        let parent = format!("/{wire}/jobs/a");
        let nodes = raw.list_children(&parent).await.unwrap();
        let is_named = match wire {
            "curator" => nodes[0].starts_with("_c_") && nodes[0].ends_with("-lock-0000000000"),
            _ => nodes[0].len() == 50 && nodes[0].ends_with("__lock__0000000000"),
        };
        assert!(nodes.len() == 1 && is_named, "{nodes:?}");
        // Every client may read them.
        let (data, stat) = raw.get_data(&format!("{parent}/{}", nodes[0])).await.unwrap();
        assert!(str::from_utf8(&data).unwrap().contains("pid"));
        assert_eq!(guard.token().get(), stat.czxid as u64);
        guard.release().await.unwrap();
        assert!(raw.list_children(&parent).await.unwrap().is_empty());
    }
}

async fn a_mutex_of_curator_and_ours_exclude_each_other() {
    let server = plain();
    let client = connect(&url(&server, "curator")).await;
    let lock = client.lock("locks/job");
    let raw = raw(&server).await;
    let guard = lock.acquire().await.unwrap();
    let theirs = enter(&raw, &format!("/locks/job/{CURATOR}"), b"10.0.0.7").await;
    waiting(&client, "locks/job", 1).await;
    assert_eq!(lock.status().await.unwrap().token, Some(guard.token()));
    guard.release().await.unwrap();
    let status = lock.status().await.unwrap();
    assert_eq!(status.state, State::Held);
    assert!(status.note.unwrap().contains("another library holds it: \"10.0.0.7\""));
    assert!(lock.try_acquire().await.unwrap().is_none(), "two hold it");
    let next = lock.clone();
    let next = tokio::spawn(async move { next.acquire_within(secs(60)).await });
    waiting(&client, "locks/job", 1).await;
    // A revoker writes into the node of the holder.
    raw.set_data(&theirs, b"__REVOKE__", None).await.unwrap();
    assert!(lock.try_acquire().await.unwrap().is_none(), "two hold it");
    waiting(&client, "locks/job", 1).await;
    raw.delete(&theirs, None).await.unwrap();
    next.await.unwrap().unwrap().release().await.unwrap();
    free(&client, "locks/job").await;
}

async fn what_blocks_a_path_of_curator_is_named_and_left_alone() {
    let server = plain();
    let client = connect(&url(&server, "curator")).await;
    let lock = client.lock("locks/job");
    let raw = raw(&server).await;
    let guard = lock.acquire().await.unwrap();
    // Curator ignores what comes behind all numbers.
    create(&raw, "/locks/job/config", b"").await;
    assert_eq!(lock.status().await.unwrap().note, None);
    create(&raw, "/locks/job/!config", b"").await;
    let status = lock.status().await.unwrap();
    assert_eq!((status.state, status.token), (State::Held, Some(guard.token())));
    assert!(status.note.unwrap().contains("/locks/job/!config"));
    let next = lock.clone();
    let next = tokio::spawn(async move { next.acquire_within(secs(100)).await });
    waiting(&client, "locks/job", 1).await;
    guard.release().await.unwrap();
    until("the blocking node is shown", || async {
        let status = lock.status().await.unwrap();
        let is_named = status.note.is_some_and(|note| note.contains("/locks/job/!config"));
        is_named && (status.state, status.token) == (State::Held, None)
    })
    .await
    .unwrap();
    let first = raw.list_children("/locks/job").await.unwrap();
    let waits = first.iter().find(|node| node.contains("lock-")).unwrap();
    let stat = raw.check_stat(&format!("/locks/job/{waits}")).await.unwrap().unwrap();
    let token = Token::new(stat.czxid as u64).unwrap();
    assert_eq!(lock.force_release(token).await.unwrap(), Forced::NotHeld);
    assert!(lock.try_acquire().await.unwrap().is_none(), "Curator would have waited");
    assert!(!next.is_finished());
    raw.delete("/locks/job/!config", None).await.unwrap();
    next.await.unwrap().unwrap().release().await.unwrap();
    lock.try_acquire().await.unwrap().unwrap().release().await.unwrap();
}

fn is_foreign(error: &Error, part: &str) {
    assert_eq!(error.kind(), ErrorKind::Foreign, "{error}");
    assert!(error.to_string().contains(part), "{error}");
    let next = ["give all clients the same option", "give it the option also"];
    assert!(next.iter().any(|next| error.to_string().contains(next)), "{error}");
}

async fn clients_without_the_option_are_refused() {
    let server = plain();
    let native = connect(&server.url()).await;
    // Its free lock does not hinder.
    native.lock("locks/a").acquire().await.unwrap().release().await.unwrap();
    for (wire, name) in [("kazoo", "locks/a"), ("curator", "locks/b")] {
        let client = connect(&url(&server, wire)).await;
        let guard = client.lock(name).acquire().await.unwrap();
        for _ in 0..2 {
            let lock = native.lock(name);
            is_foreign(&lock.try_acquire().await.unwrap_err(), "option wire");
            is_foreign(&lock.acquire_within(secs(60)).await.unwrap_err(), "option wire");
            is_foreign(&lock.status().await.unwrap_err(), "option wire");
        }
        let read = native.rw_lock(name).try_read().await;
        is_foreign(&read.unwrap_err(), "option wire");
        let permit = native.semaphore(name, 2).try_acquire().await;
        is_foreign(&permit.unwrap_err(), "option wire");
        is_foreign(&native.latch(name, 2).state().await.unwrap_err(), "option wire");
        guard.release().await.unwrap();
        is_foreign(&native.lock(name).try_acquire().await.unwrap_err(), "option wire");
        assert!(native.list("", 10).await.unwrap().is_empty());
    }
}

async fn a_lock_of_clients_without_the_option_is_refused() {
    let server = plain();
    let native = connect(&server.url()).await;
    let raw = raw(&server).await;
    let guard = native.lock("locks/a").acquire().await.unwrap();
    for wire in ["kazoo", "curator"] {
        let client = connect(&url(&server, wire)).await;
        let error = client.lock("locks/a").try_acquire().await.unwrap_err();
        is_foreign(&error, "without the option wire");
        let error = client.lock("locks/a").acquire_within(secs(60)).await.unwrap_err();
        is_foreign(&error, "without the option wire");
        assert!(raw.check_stat("/locks").await.unwrap().is_none(), "something was written");
    }
    guard.ensure(secs(0)).unwrap();
    guard.release().await.unwrap();
}

/// The engine's own layout is that of Curator.
async fn clients_without_the_option_at_the_same_path_are_excluded_or_refused() {
    let server = plain();
    let place = server.url() + "/locks";
    let native = connect(&place).await;
    let curator = connect(&format!("{place}?wire=curator")).await;
    for (holder, other) in [(&native, &curator), (&curator, &native)] {
        let guard = holder.lock("a").acquire().await.unwrap();
        assert!(other.lock("a").try_acquire().await.unwrap().is_none(), "two hold it");
        let lock = other.lock("a");
        let next = tokio::spawn(async move { lock.acquire_within(secs(60)).await });
        waiting(holder, "a", 1).await;
        let token = guard.token();
        guard.release().await.unwrap();
        let next = next.await.unwrap().unwrap();
        assert!(next.token() > token);
        next.release().await.unwrap();
    }
    // A reader that becomes a writer stores its token.
    let reader = native.rw_lock("a").read().await.unwrap();
    let lock = curator.lock("a");
    assert!(lock.try_acquire().await.unwrap().is_none(), "it was not waited for");
    let token = reader.token();
    let next = tokio::spawn(async move { lock.acquire_within(secs(60)).await });
    waiting(&native, "a", 1).await;
    reader.release().await.unwrap();
    let next = next.await.unwrap().unwrap();
    assert!(next.token() > token, "{} after {token}", next.token());
    next.release().await.unwrap();
    // That of kazoo is another one.
    let kazoo = connect(&format!("{place}?wire=kazoo")).await;
    let guard = native.lock("b").acquire().await.unwrap();
    let error = kazoo.lock("b").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Foreign, "{error}");
    guard.release().await.unwrap();
    let guard = kazoo.lock("c").acquire().await.unwrap();
    is_foreign(&curator.lock("c").try_acquire().await.unwrap_err(), "wire=kazoo");
    guard.release().await.unwrap();
    is_foreign(&native.lock("c").try_acquire().await.unwrap_err(), "option wire");
    kazoo.lock("c").acquire().await.unwrap().release().await.unwrap();
}

async fn two_formats_of_one_name_are_refused() {
    let server = plain();
    let kazoo = connect(&url(&server, "kazoo")).await;
    kazoo.lock("locks/a").acquire().await.unwrap().release().await.unwrap();
    let curator = connect(&url(&server, "curator")).await;
    is_foreign(&curator.lock("locks/a").try_acquire().await.unwrap_err(), "wire=kazoo");
    curator.lock("locks/b").acquire().await.unwrap().release().await.unwrap();
    is_foreign(&kazoo.lock("locks/b").try_acquire().await.unwrap_err(), "wire=curator");
}

async fn a_mark_that_has_expired_hinders_nobody() {
    let server = plain();
    let raw = raw(&server).await;
    let native = connect(&server.url()).await;
    let curator = connect(&url(&server, "curator")).await;
    for name in ["a", "b", "c"] {
        // One millisecond.
        let path = format!("/leasehold/locks%2F{name}/wire");
        create(&raw, &path, b"leasehold value 1 1\nleasehold wire kazoo").await;
    }
    until("it has expired", || async {
        native.lock("locks/a").status().await.is_ok_and(|status| status.state == State::Free)
    })
    .await
    .unwrap();
    native.lock("locks/a").acquire().await.unwrap().release().await.unwrap();
    curator.lock("locks/b").acquire().await.unwrap().release().await.unwrap();
    is_foreign(&native.lock("locks/b").try_acquire().await.unwrap_err(), "option wire");
    let url = leasehold_core::StoreUrl::parse(&server.url()).unwrap();
    assert_eq!(leasehold_zookeeper::forget(url, "locks/").await.unwrap(), 2);
    let left = raw.list_children("/leasehold").await.unwrap();
    assert_eq!(
        left,
        ["locks%2Fb"],
        "a mark that refuses clients was removed, or one that does not is left"
    );
}

async fn a_node_whose_creation_was_not_answered_is_found_again() {
    let server = patient();
    for wire in ["curator", "kazoo"] {
        let proxy = Proxy::opaque(server.address()).unwrap();
        let place = format!("zookeeper://{}/{wire}?session=20s&wire={wire}", proxy.address());
        let client = connect(&place).await;
        let direct = connect(&format!("{}/{wire}?wire={wire}", server.url())).await;
        client.lock("a").acquire().await.unwrap().release().await.unwrap();
        proxy.cut(Direction::ServerToClient);
        let lock = client.lock("a");
        let asking = tokio::spawn(async move { lock.acquire_within(secs(60)).await });
        until("the node is there", || async {
            direct.lock("a").status().await.is_ok_and(|status| status.state == State::Held)
        })
        .await
        .unwrap();
        let token = direct.lock("a").status().await.unwrap().token;
        proxy.kill_connections();
        proxy.heal();
        let guard = asking.await.unwrap().unwrap();
        assert_eq!(Some(guard.token()), token, "another node was made");
        waiting(&direct, "a", 0).await;
        guard.release().await.unwrap();
        free(&direct, "a").await;
    }
}

async fn parents_that_were_removed_are_created_again() {
    let settings = ZooKeeperSettings::new().containers_every_ms(50);
    let server = ZooKeeperServer::start(settings).unwrap();
    let raw = raw(&server).await;
    let mut last = 0;
    let curator = connect(&url(&server, "curator")).await;
    let kazoo = connect(&url(&server, "kazoo")).await;
    for _ in 0..3 {
        for (client, name) in [(&curator, "one/a"), (&kazoo, "two/a")] {
            let guard = client.lock(name).acquire().await.unwrap();
            assert!(guard.token().get() > last, "tokens went back with the nodes");
            last = guard.token().get();
            guard.release().await.unwrap();
        }
        until("the server has removed the containers", || async {
            raw.check_stat("/one").await.unwrap().is_none()
        })
        .await
        .unwrap();
        // Those of kazoo stay.
        raw.delete("/two/a", None).await.unwrap();
        raw.delete("/two", None).await.unwrap();
    }
}

async fn the_end_of_a_session_is_a_loss() {
    let server = plain();
    tokio::join!(lose_session(&server, "curator"), lose_session(&server, "kazoo"));
}

async fn lose_session(server: &ZooKeeperServer, wire: &str) {
    let proxy = Proxy::opaque(server.address()).unwrap();
    let place = format!("zookeeper://{}/{wire}?session=20s&wire={wire}", proxy.address());
    let client = connect(&place).await;
    let direct = connect(&format!("{}/{wire}?wire={wire}", server.url())).await;
    let guard = client.lock("a").acquire().await.unwrap();
    proxy.cut_all();
    assert_eq!(guard.lost().await, LossReason::Expired);
    let status = direct.lock("a").status().await.unwrap();
    assert_eq!(status.token, Some(guard.token()), "told too late");
    let next = direct.lock("a").acquire_within(secs(60)).await.unwrap();
    assert!(next.token() > guard.token());
    proxy.kill_connections();
    proxy.heal();
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    next.ensure(secs(0)).unwrap();
    next.release().await.unwrap();
}

async fn a_forced_release_ends_what_it_names() {
    let server = plain();
    let raw = raw(&server).await;
    for (wire, node) in [("curator", CURATOR), ("kazoo", KAZOO)] {
        let client = connect(&url(&server, wire)).await;
        let lock = client.lock(format!("{wire}/a"));
        let guard = lock.acquire().await.unwrap();
        let status = lock.status().await.unwrap();
        assert_eq!(status.token, Some(guard.token()));
        assert_eq!(status.holder.unwrap().pid, std::process::id());
        let other = Token::new(guard.token().get() + 1).unwrap();
        assert_eq!(lock.force_release(other).await.unwrap(), Forced::Other(guard.token()));
        assert_eq!(lock.force_release(guard.token()).await.unwrap(), Forced::Ended);
        assert_eq!(lock.force_release(guard.token()).await.unwrap(), Forced::NotHeld);
        guard.release().await.unwrap_err();
        enter(&raw, &format!("/{wire}/a/{node}"), b"theirs").await;
        let theirs = lock.status().await.unwrap().token.unwrap();
        assert_eq!(lock.force_release(theirs).await.unwrap(), Forced::Ended);
        lock.acquire().await.unwrap().release().await.unwrap();
    }
}

async fn what_a_format_cannot_do_is_refused() {
    let server = plain();
    let client = connect(&url(&server, "kazoo")).await;
    let refused = |error: Error| assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    refused(client.rw_lock("a").try_read().await.unwrap_err());
    refused(client.semaphore("a", 2).try_acquire().await.unwrap_err());
    refused(client.latch("a", 2).state().await.unwrap_err());
    refused(client.list("", 10).await.unwrap_err());
    let place = leasehold_core::StoreUrl::parse(&url(&server, "kazoo")).unwrap();
    refused(leasehold_zookeeper::forget(place, "a").await.unwrap_err());
    let error = try_connect(&format!("{}?wire=curater", server.url())).await.unwrap_err();
    assert!(
        error.to_string().contains("did you mean \"curator\"")
            || error.to_string().contains("curator or kazoo"),
        "{error}"
    );
}
