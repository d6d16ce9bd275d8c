//! Measures what idle clients cost PostgreSQL: commits that notify, without clients, beside idle
//! Leasehold clients, and beside as many listening connections.
//!
//! `cargo run --release -p leasehold-sql --example idle_clients [-- CLIENTS [SECONDS]]` starts its own server, and
//! measures each figure three times for so many seconds.

use std::error::Error;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use leasehold_conformance::Stopwatch;
use leasehold_core::{Client, StoreUrl};
use leasehold_test_servers::Postgres;
use sqlx::{Connection, Executor, PgConnection};

/// The default number of idle clients.
const CLIENTS: usize = 500;
/// The number of connections that commit.
const WORKERS: usize = 4;
/// How many seconds one figure is measured by default.
const SECONDS: f64 = 5.0;
/// How often one figure is measured; the median counts.
const ROUNDS: usize = 3;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Outcome<()> {
    let clients = argument(1, "CLIENTS")?.unwrap_or(CLIENTS);
    let time = Duration::try_from_secs_f64(argument(2, "SECONDS")?.unwrap_or(SECONDS))?;
    let room = format!("max_connections={}", 3 * clients + 50);
    // Commits go to the disk, as they do in production.
    let server = Postgres::start(&[&room, "fsync=on"])?;
    let url = server.url();
    let alone = measure(&url, time).await?;
    println!("{:<42} {alone:>8.0} commits/s", "no other connection");

    let mut idle = Vec::new();
    for _ in 0..clients {
        let backend = leasehold_sql::connect(StoreUrl::parse(&url)?).await?;
        idle.push(Client::new(Arc::new(backend))?);
    }
    let ours = measure(&url, time).await?;
    println!("{:<42} {ours:>8.0} commits/s", format!("{clients} idle Leasehold clients"));
    for client in idle {
        client.close().await;
    }

    let mut listening = Vec::new();
    for number in 0..clients {
        let mut connection = PgConnection::connect(&url).await?;
        connection.execute(format!("LISTEN idle_{number}").as_str()).await?;
        listening.push(connection);
    }
    let before = measure(&url, time).await?;
    println!("{:<42} {before:>8.0} commits/s", format!("{clients} connections that listen"));
    println!("idle clients: {:.2} of the rate alone", ours / alone);
    println!("connections that listen: {:.2} of the rate alone", before / alone);
    Ok(())
}

fn argument<T: FromStr>(at: usize, name: &str) -> Result<Option<T>, String> {
    let text = std::env::args().nth(at);
    text.map(|text| text.parse().map_err(|_| format!("{name}: {text:?} is no number"))).transpose()
}

/// Returns the commits per second, each of which notifies one channel, as a hand-off does.
async fn measure(url: &str, time: Duration) -> Outcome<f64> {
    let mut rates = Vec::new();
    for _ in 0..ROUNDS {
        let mut workers = Vec::new();
        let stopwatch = Stopwatch::start();
        for number in 0..WORKERS {
            let url = url.to_owned();
            workers.push(tokio::spawn(async move { commit(&url, number, time).await }));
        }
        let mut commits = 0;
        for worker in workers {
            commits += worker.await??;
        }
        rates.push(f64::from(commits) / stopwatch.elapsed().as_secs_f64());
    }
    rates.sort_by(f64::total_cmp);
    Ok(rates.get(ROUNDS / 2).copied().unwrap_or_default())
}

async fn commit(url: &str, worker: usize, time: Duration) -> Outcome<u32> {
    let mut connection = PgConnection::connect(url).await?;
    let stopwatch = Stopwatch::start();
    let mut commits = 0;
    while stopwatch.elapsed() < time {
        let notify = format!("SELECT pg_notify('worker_{worker}', '{commits}')");
        connection.execute(notify.as_str()).await?;
        commits += 1;
    }
    Ok(commits)
}
