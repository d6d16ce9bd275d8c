//! Processes that are killed while they save.

use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use leasehold_once::{SaveOnceBuilder, Table};
use leasehold_test_servers::{Postgres, RedisServer, RedisSettings, Value};

/// Set for a process that saves: `redis|postgres|rows|seed`.
pub(crate) const CHILD: &str = "LEASEHOLD_SAVE_CHILD";

const ROWS: u64 = 10_000;
const KILLED: u64 = 8;

/// Saves all rows, each twice, and tells of those that it was told are saved.
pub(crate) async fn child(settings: String) {
    let mut settings = settings.split('|');
    let mut next = || settings.next().unwrap();
    let (redis, postgres) = (next(), next());
    let (rows, seed): (u64, u64) = (next().parse().unwrap(), next().parse().unwrap());
    let pool = sqlx::PgPool::connect(postgres).await.unwrap();
    let table = Table::new("saved", pool).unwrap();
    let builder = SaveOnceBuilder::new("test").batch(200);
    let once = builder.redis_limit(Duration::from_secs(10)).open(redis, table).unwrap();
    let mut random = fastrand::Rng::with_seed(seed);
    let mut all: Vec<u64> = (0..rows).chain(0..rows).collect();
    random.shuffle(&mut all);
    let mut tasks = tokio::task::JoinSet::new();
    for part in all.chunks(all.len() / 16 + 1) {
        let (once, part) = (once.clone(), part.to_vec());
        tasks.spawn(async move {
            for some in part.chunks(50) {
                let payload = || seed.to_string().into_bytes();
                let rows = some.iter().map(|row| (format!("row {row}"), payload())).collect();
                once.save_many(rows).await.unwrap();
                let told: Vec<String> = some.iter().map(ToString::to_string).collect();
                // Who listens has gone: so shall we.
                println!("{}", told.join(" "));
            }
        });
    }
    tasks.join_all().await;
}

pub(crate) async fn killed_processes_lose_nothing_and_save_nothing_twice() {
    let redis = RedisServer::start(RedisSettings::new()).unwrap();
    let postgres = Postgres::start(&[]).unwrap();
    let pool = sqlx::PgPool::connect(&postgres.url()).await.unwrap();
    Table::new("saved", pool.clone()).unwrap().create().await.unwrap();
    let (redis_url, url) = (redis.url(), postgres.url());
    // Two at a time; each is killed after it has told of some rows, the last two are not.
    let saved = tokio::task::spawn_blocking(move || {
        let mut saved = HashSet::new();
        for round in 0..=KILLED / 2 {
            let pair: Vec<_> = (0..2)
                .map(|one| {
                    let child = format!("{redis_url}|{url}|{ROWS}|{}", round * 2 + one);
                    let last = round == KILLED / 2;
                    let until = if last { usize::MAX } else { fastrand::usize(1..40) };
                    std::thread::spawn(move || told(&child, until))
                })
                .collect();
            for one in pair {
                saved.extend(one.join().unwrap());
            }
        }
        saved
    });
    let saved = saved.await.unwrap();
    assert_eq!(saved.len() as u64, ROWS, "the last two have saved all");
    let (rows, distinct): (i64, i64) =
        sqlx::query_as("SELECT count(*), count(DISTINCT id) FROM saved")
            .fetch_one(&pool)
            .await
            .unwrap();
    assert_eq!((rows, distinct), (ROWS as i64, ROWS as i64), "nothing lost, nothing twice");
    let of_killed: i64 =
        sqlx::query_scalar("SELECT count(*) FROM saved WHERE payload <> $1 AND payload <> $2")
            .bind(KILLED.to_string().into_bytes())
            .bind((KILLED + 1).to_string().into_bytes())
            .fetch_one(&pool)
            .await
            .unwrap();
    assert!(of_killed > 0, "what the killed have saved stays as it was");
    let Value::Integer(marks) = redis.admin(&["DBSIZE"]).unwrap() else { panic!() };
    assert!(marks > 0 && marks <= ROWS as i64, "{marks} marks");
}

/// Runs a process until it has told so many times, kills it, and says which rows it has told of.
fn told(settings: &str, until: usize) -> HashSet<String> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .env(CHILD, settings)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let told = lines.take(until).flat_map(|line| {
        let line = line.unwrap();
        line.split(' ').map(ToOwned::to_owned).collect::<Vec<_>>()
    });
    let told = told.collect();
    if until != usize::MAX {
        child.kill().unwrap();
    }
    let ended = child.wait().unwrap();
    assert!(until != usize::MAX || ended.success(), "{ended}");
    told
}
