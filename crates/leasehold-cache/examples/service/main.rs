//! A shop's product pages behind the cache, with and without each of its defences, under a load.
//!
//! `cargo run --release -p leasehold-cache --features sqlite --example service -- --load`
//!
//! On a SQLite file that goes at the end, and a Redis server of its own that is started and ended with
//! it, unless `--database` and `--redis` name others. `--help` lists the rest; `docs/cache.md` shows
//! what it prints.

mod load;
mod plain;
mod report;
mod routes;
mod service;
mod settings;
mod shop;

use std::sync::Arc;

use clap::Parser;
use leasehold_cache::BoxError;
use leasehold_test_servers::RedisServer;
use report::Report;
use service::Service;
use settings::Settings;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let settings = Settings::parse();
    let directory = tempfile::tempdir()?;
    let file = settings.database.clone().unwrap_or_else(|| directory.path().join("shop.db"));
    let mut own = None;
    let redis = match &settings.redis {
        Some(url) => url.clone(),
        None => own.insert(RedisServer::start(leasehold_test_servers::RedisSettings::new())?).url(),
    };
    let service = Arc::new(Service::open(&settings, &file, &redis).await?);
    let listener = TcpListener::bind(settings.listen).await?;
    eprintln!("http://{}/products/1, on {redis}, {}", listener.local_addr()?, settings.ways());
    let report = Report::new(settings.json);
    let working = async {
        if !settings.load {
            tokio::select! {
                told = tokio::signal::ctrl_c() => return Ok(told?),
                () = report.live(&service) => {}
            }
        }
        tokio::select! {
            done = load::run(&service, &settings, own.as_mut()) => done?,
            () = report.live(&service) => {}
        }
        let counts = service.counts();
        report.summary(counts, service.stale_at_rest().await?);
        Ok(())
    };
    tokio::select! {
        done = working => done,
        done = axum::serve(listener, routes::router(Arc::clone(&service))) => Ok(done?),
        () = service.relay() => Ok(()),
    }
}
