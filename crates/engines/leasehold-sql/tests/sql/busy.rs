//! A SQLite file to which another program writes again and again.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use leasehold_conformance::{Context, Subject, cases};
use leasehold_core::StoreUrl;
use leasehold_core::backend::Backend;
use sqlx::{ConnectOptions, Executor};

use crate::{Test, connect, ms, test};

pub(crate) const TESTS: &[Test] = &[
    test!(readers_and_writers_find_the_gaps_of_a_busy_program, Nothing),
    test!(a_dead_reader_is_noticed_beside_a_busy_program, Nothing),
    test!(a_forced_release_of_readers_is_noticed_beside_a_busy_program, Nothing),
];

/// How long the program holds its lock, and the gap before it does so again.
const WRITES: Duration = Duration::from_millis(150);
const GAP: Duration = Duration::from_millis(15);

/// A program that keeps the file locked but for short gaps. It ends when it is dropped.
struct Busy {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<u64>>,
}

impl Busy {
    fn start(path: &Path) -> Self {
        let (ends, path) = (Arc::new(AtomicBool::new(false)), path.to_owned());
        let ended = ends.clone();
        let write = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&path);
                let mut program = options.busy_timeout(ms(60_000)).connect().await.unwrap();
                let mut times = 0;
                while !ended.load(Ordering::Relaxed) {
                    program.execute(sqlx::raw_sql("BEGIN IMMEDIATE")).await.unwrap();
                    tokio::time::sleep(WRITES).await;
                    program.execute(sqlx::raw_sql("COMMIT")).await.unwrap();
                    tokio::time::sleep(GAP).await;
                    times += 1;
                }
                times
            })
        };
        Self { ends, thread: Some(std::thread::spawn(write)) }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let times = self.thread.take().map(JoinHandle::join);
        println!("the program wrote {times:?} times");
    }
}

/// Runs a case of the conformance suite beside a busy program.
async fn beside_a_busy_program(case: &'static str) {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("locks.db");
    let url = format!("sqlite:{}", path.display());
    connect(&url).await;
    let busy = Busy::start(&path);
    let subject = Subject::new("sqlite", move || {
        let url = StoreUrl::parse(&url).unwrap();
        async move {
            let backend: Arc<dyn Backend> = Arc::new(leasehold_sql::connect(url).await.unwrap());
            backend
        }
    });
    let found = cases().into_iter().find(|one| one.name == case).unwrap();
    let outcome = (found.run)(Context::new(subject, case)).await;
    drop(busy);
    outcome.unwrap();
}

async fn readers_and_writers_find_the_gaps_of_a_busy_program() {
    beside_a_busy_program("a_writer_is_never_beside_a_reader").await;
}

async fn a_dead_reader_is_noticed_beside_a_busy_program() {
    beside_a_busy_program("a_dead_reader_keeps_a_writer_out_for_its_own_ttl").await;
}

async fn a_forced_release_of_readers_is_noticed_beside_a_busy_program() {
    beside_a_busy_program("a_forced_release_ends_all_readers").await;
}
