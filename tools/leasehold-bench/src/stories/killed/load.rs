//! Requests that come whether those before are answered or not, a database with few connections, and
//! Redis between them, which is killed.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use leasehold_cache::Cache;
use leasehold_test_servers::{RedisServer, RedisSettings};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use super::Times;
use crate::Result;
use crate::runtime::Flavour;
use crate::stories::aside::Aside;

/// Keys; a tenth of them gets half of the requests.
const KEYS: usize = 10_000;
/// No key ends by itself while it is measured.
const TTL: Duration = Duration::from_secs(300);
/// Connections of the database, how long it reads, and how long a connection is waited for.
const CONNECTIONS: usize = 16;
const READ: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_secs(1);

/// What came in a part of the time.
#[derive(Clone, Debug, Default)]
pub(super) struct Part {
    time: Duration,
    loads: u64,
    errors: u64,
    /// How long each request took that came in it, in order once all is over.
    pub(super) took_us: Vec<u64>,
}

impl Part {
    pub(super) fn answered_per_s(&self) -> f64 {
        (self.took_us.len() as u64 - self.errors) as f64 / self.time.as_secs_f64()
    }

    pub(super) fn loads_per_s(&self) -> f64 {
        self.loads as f64 / self.time.as_secs_f64()
    }

    pub(super) fn error_share(&self) -> f64 {
        self.errors as f64 / self.took_us.len().max(1) as f64
    }
}

/// What was seen, part by part.
#[derive(Clone, Debug)]
pub(super) struct TimeLine {
    pub(super) parts: Vec<Part>,
    each_phase: usize,
}

impl TimeLine {
    /// All parts of a phase together.
    pub(super) fn phase(&self, phase: usize) -> Part {
        let mut all = Part::default();
        for part in &self.parts[phase * self.each_phase..][..self.each_phase] {
            all.time += part.time;
            all.loads += part.loads;
            all.errors += part.errors;
            all.took_us.extend(&part.took_us);
        }
        all.took_us.sort_unstable();
        all
    }
}

/// Where requests and loads are noted, by the time that they came at.
#[derive(Debug)]
struct Notes {
    start: Instant,
    part: Duration,
    parts: Mutex<Vec<Part>>,
}

impl Notes {
    fn note(&self, at: Instant, what: impl FnOnce(&mut Part)) {
        // What came before the start is not counted, and what comes when all is over.
        let Some(after) = at.checked_duration_since(self.start) else { return };
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(part) = parts.get_mut((after.as_nanos() / self.part.as_nanos()) as usize) {
            what(part);
        }
    }
}

/// The database, by its connections.
#[derive(Debug)]
struct Database(Semaphore);

impl Database {
    /// A row, if a connection is free in time.
    async fn read(&self) -> std::result::Result<String, String> {
        let connection = tokio::time::timeout(PATIENCE, self.0.acquire()).await;
        let Ok(Ok(_connection)) = connection else {
            return Err(format!("no connection of the database within {PATIENCE:?}"));
        };
        tokio::time::sleep(READ).await;
        Ok("a row".to_owned())
    }
}

/// One of the two sides.
#[derive(Clone)]
enum Side {
    Ours(Cache<str, String>),
    Aside(Aside),
}

impl Side {
    fn open(name: &str, url: &str) -> Result<Self> {
        if name == "cache-aside" {
            return Ok(Self::Aside(Aside::open(url, TTL)?));
        }
        // As many loads as the database has connections.
        let builder = Cache::builder("bench").ttl(TTL).max_loads(CONNECTIONS);
        Ok(Self::Ours(builder.open(url)?))
    }

    /// Whether there was a value.
    async fn get(
        &self,
        key: &str,
        load: impl Future<Output = std::result::Result<String, String>> + Send + 'static,
    ) -> bool {
        match self {
            Self::Ours(cache) => {
                let load = |_| async { load.await.map(Some) };
                matches!(cache.get(key, load).await, Ok(Some(_)))
            }
            Self::Aside(aside) => aside.get(key, load).await.is_ok(),
        }
    }
}

/// One round of one side, on a server of its own.
pub(super) fn sample(
    side: &'static str,
    runtime: Flavour,
    rate: usize,
    times: Times,
) -> Result<TimeLine> {
    let server = RedisServer::start(RedisSettings::new())?;
    runtime.run(measure(server, side, rate, times))
}

async fn measure(
    mut server: RedisServer,
    side: &'static str,
    rate: usize,
    times: Times,
) -> Result<TimeLine> {
    let side = Side::open(side, &server.url())?;
    let database = Arc::new(Database(Semaphore::new(CONNECTIONS)));
    fill(&side, &database).await?;
    let each_phase = times.phase.as_millis().div_ceil(times.part.as_millis()) as usize;
    let part = Part { time: times.part, ..Part::default() };
    let notes = Arc::new(Notes {
        // Connections and memory are warm by then.
        start: Instant::now() + times.phase / 2,
        part: times.part,
        parts: Mutex::new(vec![part; 3 * each_phase]),
    });
    let end = notes.start + times.part * (3 * each_phase) as u32;
    let requests = tokio::spawn(come(side, database, notes.clone(), rate, end));
    let phase = times.part * each_phase as u32;
    tokio::time::sleep_until((notes.start + phase).into()).await;
    // On a thread of its own: what it takes to kill a server keeps no task from running.
    let mut server = tokio::task::spawn_blocking(move || {
        server.kill();
        server
    })
    .await?;
    tokio::time::sleep_until((notes.start + 2 * phase).into()).await;
    let server = tokio::task::spawn_blocking(move || server.start_again().map(|()| server));
    let server = server.await??;
    requests.await??;
    drop(server);
    let parts = std::mem::take(&mut *notes.parts.lock().unwrap_or_else(PoisonError::into_inner));
    let sorted = parts.into_iter().map(|mut part| {
        part.took_us.sort_unstable();
        part
    });
    Ok(TimeLine { parts: sorted.collect(), each_phase })
}

/// Each key once.
async fn fill(side: &Side, database: &Arc<Database>) -> Result<()> {
    let mut tasks = JoinSet::new();
    for part in 0..CONNECTIONS {
        let (side, database) = (side.clone(), database.clone());
        tasks.spawn(async move {
            for key in (part..KEYS).step_by(CONNECTIONS) {
                let database = database.clone();
                if !side.get(&name(key), async move { database.read().await }).await {
                    return Err("the cache cannot be filled");
                }
            }
            Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

fn name(key: usize) -> String {
    format!("product/{key}")
}

/// Lets requests come until the end, and waits for their answers.
async fn come(
    side: Side,
    database: Arc<Database>,
    notes: Arc<Notes>,
    rate: usize,
    end: Instant,
) -> Result<()> {
    let start = Instant::now();
    let mut tick = tokio::time::interval(Duration::from_millis(1));
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut requests = JoinSet::new();
    let mut came = 0;
    while Instant::now() < end {
        tick.tick().await;
        let due = (start.elapsed().as_secs_f64() * rate as f64) as u64;
        for _ in came..due {
            requests.spawn(request(side.clone(), database.clone(), notes.clone()));
        }
        came = due;
        while let Some(done) = requests.try_join_next() {
            done?;
        }
    }
    while let Some(done) = requests.join_next().await {
        done?;
    }
    Ok(())
}

async fn request(side: Side, database: Arc<Database>, notes: Arc<Notes>) {
    let asked = Instant::now();
    // The power with which a tenth gets half.
    let key = (fastrand::f64().powf(3.32) * KEYS as f64) as usize;
    let load = {
        let notes = notes.clone();
        async move {
            notes.note(Instant::now(), |part| part.loads += 1);
            database.read().await
        }
    };
    let well = side.get(&name(key), load).await;
    let took = asked.elapsed().as_micros() as u64;
    notes.note(asked, |part| {
        part.errors += u64::from(!well);
        part.took_us.push(took);
    });
}
