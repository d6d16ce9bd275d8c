//! The judge sees it when two are inside at once, and who the lock came from.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ::leasehold::{Lock, Semaphore};
use tokio::sync::mpsc::unbounded_channel;

use super::contender::{Job, Wanted, contend};
use super::judge::{Before, Judge, LENGTH, Visit, file_of};
use super::report::Report;
use crate::Result;

/// A broken lock that grants every request at once, with decreasing tokens.
struct Broken(Arc<AtomicU64>);

impl Wanted for Broken {
    type Held = ();

    async fn acquire(&self) -> Result<((), u64)> {
        Ok(((), self.0.fetch_sub(1, Ordering::SeqCst)))
    }

    async fn release(&self, (): ()) -> Result<()> {
        tokio::task::yield_now().await;
        Ok(())
    }
}

fn door() -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), [0; LENGTH]).unwrap();
    file
}

/// Marks once the tasks have begun, and ends when there was time for thousands of turns.
async fn report<W: Wanted>(locks: Vec<W>, file: &Path, hold: Duration, slots: u32) -> Report {
    let (send, mut orders) = unbounded_channel();
    for order in ["begin", "mark"] {
        send.send(order.to_owned()).unwrap();
    }
    tokio::spawn(async move {
        for order in ["enough", "end"] {
            tokio::time::sleep(Duration::from_millis(100)).await;
            send.send(order.to_owned()).unwrap();
        }
    });
    let job = Job { hold, file, process: 1, slots, records: false };
    let report = contend(locks, job, &mut orders).await.unwrap().unwrap();
    serde_json::from_str(&report).unwrap()
}

#[tokio::test]
async fn two_at_once_and_falling_tokens_are_counted() {
    let tokens = Arc::new(AtomicU64::new(1 << 40));
    let file = door();
    let broken = (0..3).map(|_| Broken(tokens.clone())).collect();
    let seen = report(broken, file.path(), Duration::from_millis(1), 1).await;
    assert!(seen.overlaps > 0, "{seen:?}");
    let seen = report(vec![Broken(tokens)], file.path(), Duration::ZERO, 1).await;
    assert!(seen.overlaps == 0 && seen.fallen > 0, "{seen:?}");
}

#[tokio::test]
async fn a_lock_that_works_is_not_blamed() {
    let client = ::leasehold::connect("memory:").await.unwrap();
    let file = door();
    let locks: Vec<Lock> = (0..3).map(|_| client.lock("a")).collect();
    let seen = report(locks, file.path(), Duration::ZERO, 1).await;
    assert_eq!((seen.overlaps, seen.fallen), (0, 0));
    assert!(seen.handoffs > 0 && seen.local == seen.handoffs, "{seen:?}");
    assert_eq!(seen.waits_us.len() as u64, seen.handoffs);
    assert!(seen.counts.len() == 3 && seen.counts.iter().sum::<u64>() >= seen.handoffs);
}

#[tokio::test]
async fn each_slot_of_a_semaphore_has_a_judge_of_its_own() {
    let client = ::leasehold::connect("memory:").await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("judge");
    for slot in 0..2 {
        std::fs::write(file_of(&file, slot), [0; LENGTH]).unwrap();
    }
    let permits = || (0..3).map(|_| client.semaphore("a", 2)).collect::<Vec<Semaphore>>();
    let seen = report(permits(), &file, Duration::from_millis(1), 2).await;
    assert_eq!((seen.overlaps, seen.fallen), (0, 0));
    assert!(seen.handoffs > 0, "{seen:?}");
    // Both slots were in use.
    assert_ne!(std::fs::read(file_of(&file, 1)).unwrap(), [0; LENGTH]);
}

#[test]
fn the_judge_knows_who_was_there_before() {
    let file = door();
    let judge = |process, task| Judge::open(file.path(), process, task).unwrap();
    let (a, b, far, stranger) = (judge(1, 1), judge(1, 2), judge(2, 1), judge(3, 1));
    let alone = |before, token_grew| Visit::Alone { before, token_grew };
    for (who, token, seen) in [
        (&a, 5, alone(Before::Same, true)),
        (&a, 6, alone(Before::Same, true)),
        (&b, 6, alone(Before::Local, false)),
        (&far, 7, alone(Before::Remote, true)),
        (&a, 8, alone(Before::Remote, true)),
    ] {
        assert_eq!(who.enter(token).unwrap(), seen);
        assert_eq!(stranger.enter(token + 1).unwrap(), Visit::Overlap);
        who.leave(seen).unwrap();
    }
}
