//! What is played on each engine: an old client beside each kind of hold of this library, and the other way round.

use std::fs;
use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use leasehold_core::{Capability, Client, Lock, ReadGuard, Upgraded, WriteGuard};

use crate::load::an_upgrade_and_a_downgrade_under_load;
use crate::old::{Old, Tried};

/// One scene.
pub(crate) struct Scene {
    pub(crate) name: &'static str,
    /// Its column in the table.
    pub(crate) title: &'static str,
    pub(crate) applies: fn(&Capability) -> bool,
    /// Returns what was seen.
    pub(crate) play: fn(Old) -> Pin<Box<dyn Future<Output = String>>>,
}

macro_rules! scene {
    ($name:ident, $applies:expr, $title:literal) => {
        Scene {
            name: stringify!($name),
            title: $title,
            applies: $applies,
            play: |old| Box::pin($name(old)),
        }
    };
}

pub(crate) const SCENES: &[Scene] = &[
    scene!(an_old_client_waits_for_a_new_one, has_one_format, "beside a lock"),
    scene!(a_new_client_waits_for_an_old_one, has_one_format, "new beside old"),
    scene!(both_wait_in_one_queue, has_one_format, "both wait"),
    scene!(an_old_client_beside_readers, |c| c.shared, "beside readers"),
    scene!(an_old_client_beside_conversions, |c| c.shared, "beside conversions"),
    scene!(an_old_client_beside_a_permit, |c| c.semaphores, "beside a permit"),
    scene!(an_old_client_beside_a_latch, |c| c.latches, "beside a latch"),
    scene!(an_old_client_beside_a_quorum, |c| !has_one_format(c), "beside a quorum"),
    scene!(other_kinds_beside_an_old_holder, has_one_format, "other kinds beside old"),
    scene!(an_upgrade_and_a_downgrade_under_load, has_one_format, "upgrade and downgrade"),
];

/// A quorum has not: the marker of its nodes has another version, and `docs/quorum.md` says how to upgrade.
fn has_one_format(capability: &Capability) -> bool {
    capability.engine != "redlock"
}

const TTL: Duration = Duration::from_secs(30);
const LONG: Duration = Duration::from_secs(150);
/// How long a waiter is given to hold a lock wrongly.
const WATCHED: Duration = Duration::from_millis(700);

async fn connect(old: &Old) -> Client {
    leasehold::connect(&old.url).await.unwrap()
}

/// Waits until the lock has so many waiters, if the store shows them.
async fn waiters(lock: &Lock, many: usize) {
    loop {
        match lock.status().await.unwrap().waiters {
            Some(waiters) if waiters.len() < many => {}
            Some(_) => return,
            // Redlock has no queue.
            None => return tokio::time::sleep(WATCHED).await,
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn an_old_client_waits_for_a_new_one(old: Old) -> String {
    let client = connect(&old).await;
    let lock = client.lock("a").ttl(TTL);
    let guard = lock.acquire_within(LONG).await.unwrap();
    assert_eq!(old.tries("a"), Tried::Waits);
    let mut waiting = old.waiting("a", "echo $LEASEHOLD_TOKEN");
    waiters(&lock, 1).await;
    tokio::time::sleep(WATCHED).await;
    assert!(waiting.runs() && guard.is_valid());
    let before = guard.token().get();
    guard.release().await.unwrap();
    let token = waiting.token();
    assert!(token > before, "{token} after {before}");
    assert!(waiting.ends());
    let next = lock.acquire_within(LONG).await.unwrap();
    assert!(next.token().get() > token);
    next.release().await.unwrap();
    client.close().await;
    "waits".to_owned()
}

async fn a_new_client_waits_for_an_old_one(old: Old) -> String {
    let client = connect(&old).await;
    let lock = client.lock("b").ttl(TTL);
    let (holder, before) = old.holding("b");
    assert!(lock.try_acquire().await.unwrap().is_none(), "two holders");
    let waiting = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire_within(LONG).await }
    });
    waiters(&lock, 1).await;
    tokio::time::sleep(WATCHED).await;
    assert!(!waiting.is_finished(), "two holders");
    assert!(holder.ends());
    let guard = waiting.await.unwrap().unwrap();
    assert!(guard.token().get() > before, "{} after {before}", guard.token());
    guard.release().await.unwrap();
    client.close().await;
    "waits".to_owned()
}

/// Old and new clients take turns. Each makes a directory, which fails if another one holds, and writes its token.
async fn both_wait_in_one_queue(old: Old) -> String {
    let place = tempfile::tempdir().unwrap();
    let (held, log) = (place.path().join("held"), place.path().join("log"));
    let client = connect(&old).await;
    let lock = client.lock("c").ttl(TTL);
    let guard = lock.acquire_within(LONG).await.unwrap();
    let script = format!(
        "mkdir {0} && echo $LEASEHOLD_TOKEN >> {1} && sleep 0.1 && rmdir {0}",
        held.display(),
        log.display()
    );
    let (mut olds, mut news) = (Vec::new(), Vec::new());
    for round in 1..=3 {
        olds.push(old.waiting("c", &script));
        waiters(&lock, 2 * round - 1).await;
        let (other, held, log) = (connect(&old).await, held.clone(), log.clone());
        news.push(tokio::spawn(async move { takes_a_turn(&other, &held, &log).await }));
        waiters(&lock, 2 * round).await;
    }
    let mut tokens = vec![guard.token().get()];
    guard.release().await.unwrap();
    for new in news {
        new.await.unwrap();
    }
    for old in olds {
        assert!(old.ends(), "an old client held beside another one");
    }
    let written = fs::read_to_string(&log).unwrap();
    tokens.extend(written.lines().map(|line| line.parse::<u64>().unwrap()));
    assert_eq!(tokens.len(), 7, "{tokens:?}");
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
    client.close().await;
    "one at a time".to_owned()
}

async fn takes_a_turn(client: &Client, held: &Path, log: &Path) {
    let guard = client.lock("c").ttl(TTL).acquire_within(LONG).await.unwrap();
    fs::create_dir(held).expect("a new client held beside another one");
    let before = fs::read_to_string(log).unwrap_or_default();
    fs::write(log, format!("{before}{}\n", guard.token())).unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    fs::remove_dir(held).unwrap();
    guard.release().await.unwrap();
    client.close().await;
}

async fn an_old_client_beside_readers(old: Old) -> String {
    let client = connect(&old).await;
    let lock = client.rw_lock("d").ttl(TTL);
    let (one, two) = (lock.read().await.unwrap(), lock.read().await.unwrap());
    let tried = old.tries("d");
    assert!(!matches!(tried, Tried::Held(_)), "a writer beside readers");
    let mut waiting = old.waiting("d", "echo $LEASEHOLD_TOKEN");
    match tried {
        Tried::Waits => waiters(&client.lock("d"), 1).await,
        _ => {
            while waiting.runs() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
    assert!(one.is_valid() && two.is_valid());
    let before = one.token().get();
    one.release().await.unwrap();
    two.release().await.unwrap();
    if tried == Tried::Waits {
        let token = waiting.token();
        assert!(token > before, "{token} after {before}");
    }
    assert_eq!(waiting.ends(), tried == Tried::Waits);
    // The lock is as before once no client reads.
    let token = loop {
        match old.tries("d") {
            Tried::Held(token) => break token,
            Tried::Waits | Tried::Refuses => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    };
    assert!(token > before, "{token} after {before}");
    client.close().await;
    named(tried)
}

/// A writer becomes a reader while an old client waits, which also keeps it from becoming a writer again.
async fn an_old_client_beside_conversions(old: Old) -> String {
    let client = connect(&old).await;
    let lock = client.rw_lock("i").ttl(TTL);
    let read = upgraded(lock.read().await.unwrap()).await.downgrade().await.unwrap();
    let write = upgraded(read).await;
    assert_eq!(old.tries("i"), Tried::Waits);
    let mut waiting = old.waiting("i", "echo $LEASEHOLD_TOKEN");
    waiters(&client.lock("i"), 1).await;
    let read = write.downgrade().await.unwrap();
    tokio::time::sleep(WATCHED).await;
    let tried = old.tries("i");
    assert!(!matches!(tried, Tried::Held(_)), "a writer beside a reader");
    let still_waits = waiting.runs();
    let read = match read.try_upgrade().await.unwrap() {
        Upgraded::Refused(read) => read,
        _ => panic!("a writer beside a client that waits"),
    };
    assert!(read.is_valid());
    let last = read.token().get();
    read.release().await.unwrap();
    if still_waits {
        let token = waiting.token();
        assert!(token > last, "{token} after {last}");
    }
    assert_eq!(waiting.ends(), still_waits);
    client.close().await;
    named(if still_waits { Tried::Waits } else { Tried::Refuses })
}

async fn upgraded(read: ReadGuard) -> WriteGuard {
    match read.try_upgrade().await.unwrap() {
        Upgraded::Write(write) => write,
        _ => panic!("the only reader could not upgrade"),
    }
}

async fn an_old_client_beside_a_permit(old: Old) -> String {
    let client = connect(&old).await;
    let semaphore = client.semaphore("e", 2).ttl(TTL);
    let permit = semaphore.acquire().await.unwrap();
    let tried = old.tries("e");
    // Where it is not refused, it stays in the queue.
    let waiting = old.waiting("e", "echo $LEASEHOLD_TOKEN");
    tokio::time::sleep(WATCHED).await;
    let second = semaphore.acquire().await.unwrap();
    let seen = [tried, old.tries("e")];
    assert_eq!(semaphore.status().await.unwrap().permits.unwrap().held, 2);
    assert!(permit.is_valid() && second.is_valid());
    permit.release().await.unwrap();
    let beside_the_second = old.tries("e");
    second.release().await.unwrap();
    for tried in seen.into_iter().chain([beside_the_second, old.tries("e")]) {
        assert!(!matches!(tried, Tried::Held(_)), "it took a semaphore as a lock: {tried:?}");
    }
    semaphore.set_limit(3).await.unwrap();
    let all = client.semaphore("e", 3).ttl(TTL).acquire_many(3).await.unwrap();
    assert!(waiting.has_not_held(), "it took a semaphore as a lock");
    all.release().await.unwrap();
    client.close().await;
    named(tried)
}

async fn an_old_client_beside_a_quorum(old: Old) -> String {
    let client = connect(&old).await;
    let lock = client.lock("h").ttl(Duration::from_secs(9));
    let guard = lock.acquire_within(LONG).await.unwrap();
    let tried = old.tries("h");
    assert!(!matches!(tried, Tried::Held(_)), "two holders");
    let before = guard.deadline();
    while guard.deadline() == before {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let token = guard.token();
    guard.release().await.unwrap();
    let tried_again = old.tries("h");
    assert!(!matches!(tried_again, Tried::Held(_)), "it votes by rules that no other client knows");
    let guard = lock.acquire_within(LONG).await.unwrap();
    assert!(guard.token() > token);
    guard.release().await.unwrap();
    client.close().await;
    named(tried)
}

async fn an_old_client_beside_a_latch(old: Old) -> String {
    let client = connect(&old).await;
    let latch = client.latch("f", 2);
    latch.count_down("one").await.unwrap();
    let before = latch.state().await.unwrap();
    let tried = old.tries("f");
    assert!(!matches!(tried, Tried::Held(_)), "it took a latch as a lock");
    // Where it is not refused, it stays in the queue.
    let waiting = old.waiting("f", "echo $LEASEHOLD_TOKEN");
    tokio::time::sleep(WATCHED).await;
    assert_eq!(latch.state().await.unwrap(), before);
    assert_eq!(latch.count_down("two").await.unwrap(), 0);
    let tried_again = old.tries("f");
    assert!(!matches!(tried_again, Tried::Held(_)), "it took a latch as a lock");
    assert!(waiting.has_not_held(), "it took a latch as a lock");
    latch.wait().await.unwrap();
    client.close().await;
    named(tried)
}

async fn other_kinds_beside_an_old_holder(old: Old) -> String {
    let client = connect(&old).await;
    let capability = client.capability().clone();
    let (holder, before) = old.holding("g");
    let mut seen = Vec::new();
    if capability.shared {
        let read = client.rw_lock("g").ttl(TTL).try_read().await;
        assert!(!matches!(read, Ok(Some(_))), "it reads beside an old holder");
        seen.push(if read.is_ok() { "readers wait" } else { "readers are refused" });
    }
    if capability.semaphores {
        let permit = client.semaphore("g", 2).try_acquire().await;
        assert!(permit.is_err(), "a permit beside an old holder: {permit:?}");
        seen.push("permits are refused");
    }
    if capability.latches {
        client.latch("g", 1).count_down("one").await.expect_err("a latch beside an old holder");
        seen.push("latches are refused");
    }
    assert!(client.lock("g").ttl(TTL).try_acquire().await.unwrap().is_none());
    assert!(holder.ends(), "the old holder was disturbed");
    let guard = client.lock("g").ttl(TTL).acquire_within(LONG).await.unwrap();
    assert!(guard.token().get() > before);
    guard.release().await.unwrap();
    client.close().await;
    if seen.is_empty() { "-".to_owned() } else { seen.join(", ") }
}

fn named(tried: Tried) -> String {
    match tried {
        Tried::Held(_) => "**takes the lock beside it**".to_owned(),
        Tried::Waits => "waits".to_owned(),
        Tried::Refuses => "refuses".to_owned(),
    }
}
