//! A fleet that is upgraded, and downgraded again, while all of its clients want one lock.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold_core::Client;

use crate::old::Old;

/// How many old and new clients there are, one stage after the other.
const STAGES: [(usize, usize); 5] = [(4, 0), (2, 2), (0, 4), (2, 2), (4, 0)];
/// How long a stage lasts.
const STAGE: Duration = Duration::from_millis(1500);
/// On etcd, a waiter that was killed leaves the queue after this time.
const TTL: Duration = Duration::from_secs(10);
/// How long a client waits for one turn.
const WAIT: Duration = Duration::from_secs(150);

/// In each turn a client makes a directory, which fails if another client holds the lock, and writes its token. A client
/// that leaves ends its turn first, as in an upgrade. Beside old and new clients another old one is killed.
pub(crate) async fn an_upgrade_and_a_downgrade_under_load(old: Old) -> String {
    let place = tempfile::tempdir().unwrap();
    let turns = Turns { held: place.path().join("held"), log: place.path().join("log") };
    let old = Arc::new(old);
    let mut done = 0;
    for (stage, (olds, news)) in STAGES.into_iter().enumerate() {
        let ends = Arc::new(AtomicBool::new(false));
        let mut clients = Vec::new();
        for _ in 0..olds {
            let (old, turns, ends) = (Arc::clone(&old), turns.clone(), Arc::clone(&ends));
            clients.push(tokio::task::spawn_blocking(move || turns.of_old(&old, &ends)));
        }
        for _ in 0..news {
            let client = leasehold::connect(&old.url).await.unwrap();
            let (turns, ends) = (turns.clone(), Arc::clone(&ends));
            clients.push(tokio::spawn(async move { turns.of_new(&client, &ends).await }));
        }
        tokio::time::sleep(STAGE).await;
        if olds > 0 && news > 0 {
            // It waits or holds the lock, or still connects.
            let mut killed = old.waiting_with_ttl("j", "sleep 5", TTL);
            tokio::time::sleep(STAGE / 5).await;
            assert!(killed.runs());
            drop(killed);
        }
        ends.store(true, Ordering::SeqCst);
        for client in clients {
            client.await.expect("a client held beside another one, or failed");
        }
        let tokens = turns.tokens();
        assert!(tokens.len() > done, "no client had a turn in stage {stage}");
        assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
        done = tokens.len();
    }
    println!("{done} turns on {}", old.url.split(':').next().unwrap_or_default());
    "one at a time".to_owned()
}

/// What the clients do under the lock.
#[derive(Clone)]
struct Turns {
    held: PathBuf,
    log: PathBuf,
}

impl Turns {
    fn script(&self) -> String {
        let (held, log) = (self.held.display(), self.log.display());
        format!("mkdir {held} && echo $LEASEHOLD_TOKEN >> {log} && rmdir {held}")
    }

    fn of_old(&self, old: &Old, ends: &AtomicBool) {
        while !ends.load(Ordering::SeqCst) {
            assert!(old.waiting_with_ttl("j", &self.script(), TTL).ends());
        }
    }

    async fn of_new(&self, client: &Client, ends: &AtomicBool) {
        while !ends.load(Ordering::SeqCst) {
            let guard = client.lock("j").ttl(TTL).acquire_within(WAIT).await.unwrap();
            fs::create_dir(&self.held).unwrap();
            append(&self.log, &format!("{}\n", guard.token()));
            fs::remove_dir(&self.held).unwrap();
            guard.release().await.unwrap();
        }
        client.close().await;
    }

    /// Returns the tokens of all turns, in their order.
    fn tokens(&self) -> Vec<u64> {
        let written = fs::read_to_string(&self.log).unwrap_or_default();
        written.lines().map(|line| line.parse().unwrap()).collect()
    }
}

fn append(path: &Path, line: &str) {
    use std::io::Write;
    let mut file = fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
    file.write_all(line.as_bytes()).unwrap();
}
