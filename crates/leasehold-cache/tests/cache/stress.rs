//! Readers and writers at random: at rest, no cache says anything but the database.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold_cache::{Cache, Mode, Source, Write};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::process::{self, Work};
use super::trouble::{Trouble, Troubled};
use super::{Test, ms, quiet, test, until};

pub(crate) const TESTS: &[Test] = &[
    test!(nothing_stale_at_rest),
    test!(nothing_stale_at_rest_behind_replicas),
    test!(nothing_stale_at_rest_with_killed_writers),
    test!(nothing_stale_at_rest_with_restarts),
    test!(nothing_stale_at_rest_with_snapshots),
    test!(nothing_stale_at_rest_with_shortened_files),
    test!(nothing_stale_at_rest_with_demotions),
    test!(nothing_stale_at_rest_with_loaders_that_panic_and_are_killed),
    test!(nothing_stale_at_rest_with_noeviction),
    test!(nothing_stale_at_rest_with_allkeys_lru),
    test!(nothing_stale_at_rest_with_allkeys_lfu),
    test!(nothing_stale_at_rest_with_allkeys_random),
    test!(nothing_stale_at_rest_with_volatile_lru),
    test!(nothing_stale_at_rest_with_volatile_lfu),
    test!(nothing_stale_at_rest_with_volatile_random),
    test!(nothing_stale_at_rest_with_volatile_ttl),
    test!(strong_readers_see_what_was_committed_before_they_asked),
    test!(strong_readers_see_what_was_committed_before_a_snapshot_came_back),
];

const KEYS: usize = 8;
const READERS: usize = 12;
const WRITERS: usize = 3;

/// One row with its history, so that a replica can be read as it was a while ago.
#[derive(Debug, Default)]
struct Row {
    history: Mutex<Vec<(Instant, u64)>>,
    /// The last value whose writer was told that all is done.
    told: AtomicU64,
}

impl Row {
    fn commit(&self) -> u64 {
        let mut history = self.history.lock().unwrap();
        let value = history.last().map_or(0, |(_, value)| *value) + 1;
        history.push((Instant::now(), value));
        value
    }

    fn now(&self) -> u64 {
        self.history.lock().unwrap().last().map_or(0, |(_, value)| *value)
    }

    fn a_while_ago(&self, lag: Duration) -> u64 {
        let history = self.history.lock().unwrap();
        history.iter().rev().find(|(at, _)| at.elapsed() >= lag).map_or(0, |(_, value)| *value)
    }

    fn told(&self) -> u64 {
        self.told.load(Ordering::SeqCst)
    }
}

/// What happens meanwhile.
#[derive(Clone, Copy, Default)]
struct Plan {
    lag: Duration,
    kills: bool,
    /// Loaders panic, and processes are killed while they load.
    bad_loaders: bool,
    redis: Trouble,
    mode: Mode,
}

async fn nothing_stale_at_rest() {
    run(Plan::default()).await;
}

async fn nothing_stale_at_rest_behind_replicas() {
    run(Plan { lag: ms(50), ..Plan::default() }).await;
}

async fn nothing_stale_at_rest_with_killed_writers() {
    run(Plan { kills: true, ..Plan::default() }).await;
}

async fn nothing_stale_at_rest_with_restarts() {
    run(Plan { redis: Trouble::Empty, ..Plan::default() }).await;
}

/// With each of these troubles, with and without replicas that are behind.
async fn both(redis: Trouble) {
    for lag in [ms(0), ms(50)] {
        run(Plan { redis, lag, ..Plan::default() }).await;
    }
}

async fn nothing_stale_at_rest_with_snapshots() {
    both(Trouble::Snapshot).await;
}

async fn nothing_stale_at_rest_with_shortened_files() {
    both(Trouble::ShortenedFile).await;
}

async fn nothing_stale_at_rest_with_demotions() {
    both(Trouble::Demoted).await;
}

async fn nothing_stale_at_rest_with_loaders_that_panic_and_are_killed() {
    for lag in [ms(0), ms(50)] {
        run(Plan { bad_loaders: true, lag, ..Plan::default() }).await;
    }
}

macro_rules! with_policies {
    ($($test:ident $policy:literal)*) => {
        $(async fn $test() {
            both(Trouble::Evicts($policy)).await;
        })*
    };
}
with_policies! {
    nothing_stale_at_rest_with_noeviction "noeviction"
    nothing_stale_at_rest_with_allkeys_lru "allkeys-lru"
    nothing_stale_at_rest_with_allkeys_lfu "allkeys-lfu"
    nothing_stale_at_rest_with_allkeys_random "allkeys-random"
    nothing_stale_at_rest_with_volatile_lru "volatile-lru"
    nothing_stale_at_rest_with_volatile_lfu "volatile-lfu"
    nothing_stale_at_rest_with_volatile_random "volatile-random"
    nothing_stale_at_rest_with_volatile_ttl "volatile-ttl"
}

async fn strong_readers_see_what_was_committed_before_they_asked() {
    run(Plan { lag: ms(50), mode: Mode::Strong, ..Plan::default() }).await;
}

async fn strong_readers_see_what_was_committed_before_a_snapshot_came_back() {
    run(Plan { redis: Trouble::Snapshot, mode: Mode::Strong, ..Plan::default() }).await;
}

async fn run(plan: Plan) {
    let mut troubled = Troubled::start(plan.redis);
    let url = troubled.url();
    let open = |at: usize| -> Cache<str, u64> {
        let builder =
            quiet().mode(plan.mode).write_hold(ms(500)).lease(ms(500)).redis_limit(ms(400));
        // Half of the processes keep values themselves. Replicas are a little better than promised.
        let builder = builder
            .local_size((at % 2) * 100)
            .replica_lag(plan.lag + ms(10) * u32::from(!plan.lag.is_zero()));
        builder.open(&url).unwrap()
    };
    let caches: Arc<Vec<_>> = Arc::new((0..4).map(open).collect());
    let rows: Arc<Vec<Row>> = Arc::new((0..KEYS).map(|_| Row::default()).collect());
    let (over, reads) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut tasks = JoinSet::new();
    for reader in 0..READERS {
        let (caches, rows, over, reads) =
            (caches.clone(), rows.clone(), over.clone(), reads.clone());
        tasks.spawn(async move {
            while !over.load(Ordering::SeqCst) {
                let key = fastrand::usize(..KEYS);
                let least = rows[key].told();
                let seen = read(&caches[reader % caches.len()], &rows, key, plan).await;
                reads.fetch_add(1, Ordering::SeqCst);
                if plan.mode == Mode::Strong {
                    assert!(seen >= Some(least), "{seen:?} after {least} was committed");
                }
            }
        });
    }
    for writer in 0..WRITERS {
        let (caches, rows, over) = (caches.clone(), rows.clone(), over.clone());
        tasks.spawn(async move {
            while !over.load(Ordering::SeqCst) {
                write(&caches[writer % caches.len()], &rows, plan).await;
                tokio::time::sleep(ms(fastrand::u64(0..3))).await;
            }
        });
    }
    for _ in 0..3 {
        if plan.bad_loaders {
            process::start(Work::Load, url.clone()).await.kill();
        }
        troubled.trouble().await;
    }
    until("there is something to see", || reads.load(Ordering::SeqCst) > 100).await;
    over.store(true, Ordering::SeqCst);
    tasks.join_all().await;
    if plan.bad_loaders {
        // No client writes any more, which would end the leases of the dead too.
        let keys: Vec<String> = (0..KEYS).map(|key| format!("key {key}")).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        caches[0].invalidate(&keys).await.unwrap();
        process::start(Work::Load, url.clone()).await.kill();
    }
    // No client calls for as long as docs/cache.md states. Holds of the killed and the replicas'
    // lag pass, what is under way ends, and what could not be sent while Redis was down is tried
    // again.
    troubled.end();
    tokio::time::sleep(ms(if plan.redis == Trouble::None { 1_500 } else { 4_000 }) + plan.lag)
        .await;
    for (at, cache) in caches.iter().enumerate() {
        for key in 0..KEYS {
            let quiet = Plan { bad_loaders: false, ..plan };
            let seen = read(cache, &rows, key, quiet).await;
            assert_eq!(seen, Some(rows[key].now()), "process {at}, key {key}: {:?}", cache.stats());
        }
    }
}

async fn read(
    cache: &Cache<str, u64>,
    rows: &Arc<Vec<Row>>,
    key: usize,
    plan: Plan,
) -> Option<u64> {
    let (rows, lag) = (rows.clone(), plan.lag);
    let load = move |load: leasehold_cache::Load| async move {
        assert!(!plan.bad_loaders || fastrand::u8(..20) > 0, "this loader panics");
        let value = match load.source {
            Source::Any => rows[key].a_while_ago(lag),
            _ => rows[key].now(),
        };
        tokio::time::sleep(ms(fastrand::u64(0..4))).await;
        Ok::<_, String>(Some(value))
    };
    cache.get(&format!("key {key}"), load).await.ok().flatten()
}

/// One write, in one of the ways that there are; a killed writer stops anywhere.
async fn write(cache: &Cache<str, u64>, rows: &[Row], plan: Plan) {
    let key = fastrand::usize(..KEYS);
    let text = format!("key {key}");
    let Ok(write) = cache.begin_write(&[text.as_str()]).await else { return };
    if plan.kills && fastrand::u8(..20) == 0 {
        return killed(write);
    }
    tokio::time::sleep(ms(fastrand::u64(0..3))).await;
    // A program looks before it commits.
    if write.remaining() < ms(200) {
        let _ = write.rolled_back().await;
        return;
    }
    let value = rows[key].commit();
    if plan.kills && fastrand::u8(..20) == 0 {
        return killed(write);
    }
    let done = match fastrand::u8(..3) {
        0 => write.committed_with(&[Some(value)]).await.map(drop),
        _ => write.committed().await,
    };
    if done.is_ok() {
        rows[key].told.fetch_max(value, Ordering::SeqCst);
    }
}

/// Nothing ends the write of a process that is killed; one that is cancelled drops it.
fn killed(write: Write<u64>) {
    if fastrand::bool() {
        std::mem::forget(write);
    }
}
