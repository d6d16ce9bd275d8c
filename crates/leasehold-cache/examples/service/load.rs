//! The built-in load: tasks that read and write, and judge each read by what was written before it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use leasehold_cache::BoxError;
use leasehold_core::clock::Clock;
use leasehold_core::proto::Deadline;
use leasehold_test_servers::RedisServer;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use super::service::Service;
use super::settings::Settings;

/// How long the service is left alone before it is looked at: longer than it goes on with a value that
/// was loaded while Redis was down.
const REST: Duration = Duration::from_millis(1_500);

/// The versions whose writes were over, by product.
struct Judge(Vec<AtomicI64>);

/// Runs the load, and waits until all is at rest; meanwhile kills the server, if the settings say so.
pub(crate) async fn run(
    service: &Arc<Service>,
    settings: &Settings,
    server: Option<&mut RedisServer>,
) -> Result<(), BoxError> {
    let loaded = load(service, settings);
    let kill = async {
        match server {
            Some(server) if settings.kill_redis => kill(server, settings.span() / 4).await,
            _ => Ok(()),
        }
    };
    let ((), killed) = tokio::join!(loaded, kill);
    tokio::time::sleep(REST).await;
    killed
}

/// Kills Redis after two quarters of the time, and starts it again, empty, after a third.
async fn kill(server: &mut RedisServer, quarter: Duration) -> Result<(), BoxError> {
    tokio::time::sleep(quarter * 2).await;
    tokio::task::block_in_place(|| server.kill());
    tokio::time::sleep(quarter).await;
    Ok(tokio::task::block_in_place(|| server.start_again())?)
}

async fn load(service: &Arc<Service>, settings: &Settings) {
    let clock = Clock::system();
    let end = Deadline::after(clock.now(), settings.span());
    let judge = Arc::new(Judge((0..=settings.products).map(|_| AtomicI64::new(0)).collect()));
    let mut tasks = JoinSet::new();
    let readers = settings.readers.max(1);
    for _ in 0..readers {
        let (service, judge, settings) = (service.clone(), judge.clone(), settings.clone());
        let clock = clock.clone();
        tasks.spawn(async move {
            let mut pace = pace(settings.rate, readers);
            while !end.has_passed(clock.now()) {
                pace.tick().await;
                read(&service, &judge, &settings).await;
            }
        });
    }
    if settings.writes > 0 {
        let (service, settings) = (service.clone(), settings.clone());
        tasks.spawn(async move {
            let mut pace = pace(settings.writes, 1);
            while !end.has_passed(clock.now()) {
                pace.tick().await;
                write(&service, &judge, &settings).await;
            }
        });
    }
    while tasks.join_next().await.is_some() {}
}

async fn read(service: &Service, judge: &Judge, settings: &Settings) {
    let at = fastrand::usize(..service.processes());
    let id = match fastrand::u32(..100) < settings.absent {
        true => settings.products + 1 + fastrand::u64(..100_000),
        false => product(settings),
    };
    let malformed = id > settings.products && fastrand::u32(..10) == 0;
    let key = if malformed { format!("x{id}") } else { id.to_string() };
    let written = judge.0.get(id as usize).map(|version| version.load(Ordering::SeqCst));
    let read = service.read(at, &key).await;
    service.reads.fetch_add(1, Ordering::Relaxed);
    match (read, written) {
        (Err(_), _) => drop(service.errors.fetch_add(1, Ordering::Relaxed)),
        (Ok(product), Some(written)) => {
            if product.is_none_or(|product| product.version < written) {
                service.stale.fetch_add(1, Ordering::Relaxed);
            }
        }
        (Ok(_), None) => {}
    }
}

async fn write(service: &Service, judge: &Judge, settings: &Settings) {
    let at = fastrand::usize(..service.processes());
    let (id, price) = (product(settings), fastrand::i64(1..1_000));
    match service.write(at, id, price).await {
        Ok(version) => drop(judge.0[id as usize].fetch_max(version, Ordering::SeqCst)),
        Err(_) => drop(service.errors.fetch_add(1, Ordering::Relaxed)),
    }
}

/// The first one for a fifth; of the others the lower more often.
fn product(settings: &Settings) -> u64 {
    match fastrand::u32(..5) {
        0 => 1,
        _ => 1 + (fastrand::f64().powi(2) * settings.products as f64) as u64 % settings.products,
    }
}

/// So many a second, by so many tasks; who is late does not catch up.
fn pace(rate: u32, tasks: u32) -> tokio::time::Interval {
    let period = Duration::from_secs_f64(f64::from(tasks) / f64::from(rate.max(1)));
    let mut pace = tokio::time::interval(period);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    pace
}
