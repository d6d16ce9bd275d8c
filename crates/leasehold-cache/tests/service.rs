//! The example service on a real Redis, briefly: with all defences, with none, and with Redis killed.

#![allow(clippy::unwrap_used)]
#![allow(dead_code, reason = "the example prints, too")]

#[path = "../examples/service/load.rs"]
mod load;
#[path = "../examples/service/plain.rs"]
mod plain;
#[path = "../examples/service/report.rs"]
mod report;
#[path = "../examples/service/routes.rs"]
mod routes;
#[path = "../examples/service/service.rs"]
mod service;
#[path = "../examples/service/settings.rs"]
mod settings;
#[path = "../examples/service/shop.rs"]
mod shop;

use std::sync::Arc;

use clap::Parser;
use leasehold_test_servers::{Needs, RedisServer};
use report::Counts;
use service::Service;
use settings::Settings;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A short load in which little ends by time: what reaches the database is what a defence lets through.
const BRIEF: [&str; 16] = [
    "service",
    "--load",
    "--seconds",
    "4",
    "--ttl",
    "60",
    "--products",
    "20",
    "--readers",
    "32",
    "--rate",
    "2000",
    "--absent",
    "20",
    "--writes",
    "5",
];

/// Runs the load; what was counted, and how many values are stale at rest.
async fn run(more: &[&str]) -> (Counts, usize) {
    let settings = Settings::parse_from(BRIEF.iter().chain(more));
    let (directory, mut server) = (
        tempfile::tempdir().unwrap(),
        RedisServer::start(leasehold_test_servers::RedisSettings::new()).unwrap(),
    );
    let file = directory.path().join("shop.db");
    let service = Service::open(&settings, &file, &server.url()).await.unwrap();
    let service = Arc::new(service);
    let working = async {
        load::run(&service, &settings, Some(&mut server)).await.unwrap();
        let counts = service.counts();
        (counts, service.stale_at_rest().await.unwrap())
    };
    tokio::select! {
        done = working => done,
        () = service.relay() => panic!("the relay has ended"),
    }
}

/// How many reads there are for one that reaches the database.
fn reads_for_a_load(counts: Counts) -> f64 {
    counts.reads as f64 / counts.loads.max(1) as f64
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_its_defences_the_database_is_asked_far_less_often() {
    if Needs::Redis.is_skipped() {
        return;
    }
    let (all, stale) = run(&[]).await;
    let (none, _) = run(&["--plain"]).await;
    println!("all: {all:?}\nnone: {none:?}");
    assert_eq!((stale, all.errors, none.errors), (0, 0, 0));
    assert!(all.local > 0 && all.redis > 0 && all.turned_away > 0, "{all:?}");
    assert_eq!((none.local, none.turned_away, none.bypasses), (0, 0, 0));
    assert!(none.redis > 0, "{none:?}");
    // A fifth of what is asked for does not exist.
    assert!(reads_for_a_load(none) < 7.0, "{none:?}");
    assert!(reads_for_a_load(all) > 3.0 * reads_for_a_load(none), "{all:?}, {none:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_defence_that_is_left_out_is_not_there() {
    if Needs::Redis.is_skipped() {
        return;
    }
    let (counts, stale) = run(&["--without", "local,filter,form,outbox,jitter,early"]).await;
    println!("{counts:?}");
    assert_eq!((counts.local, counts.turned_away, stale), (0, 0, 0));
    assert!(counts.redis > 0, "{counts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_redis_killed_in_the_middle_reads_go_on_and_nothing_is_stale_at_rest() {
    if Needs::Redis.is_skipped() {
        return;
    }
    let (counts, stale) = run(&["--kill-redis"]).await;
    println!("{counts:?}");
    assert_eq!((stale, counts.errors), (0, 0));
    assert!(counts.bypasses > 0 && counts.redis_errors > 0, "{counts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_product_is_written_and_read_over_http() {
    if Needs::Redis.is_skipped() {
        return;
    }
    let settings = Settings::parse_from(["service", "--products", "3", "--query", "0"]);
    let (directory, server) = (
        tempfile::tempdir().unwrap(),
        RedisServer::start(leasehold_test_servers::RedisSettings::new()).unwrap(),
    );
    let file = directory.path().join("shop.db");
    let service = Arc::new(Service::open(&settings, &file, &server.url()).await.unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move {
        axum::serve(listener, routes::router(service)).await.unwrap();
    });
    let send = async |request: &str, body: &str| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let length = body.len();
        let head = format!("{request} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n");
        let text = format!("{head}content-length: {length}\r\n\r\n{body}");
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    assert!(send("GET /products/2", "").await.ends_with(r#"{"id":2,"price":100,"version":1}"#));
    assert!(send("PUT /products/2", "250").await.ends_with(r#"{"version":2}"#));
    assert!(send("PUT /products/2", "much").await.starts_with("HTTP/1.1 400"));
    for absent in ["GET /products/9", "GET /products/none"] {
        assert!(send(absent, "").await.starts_with("HTTP/1.1 404"), "{absent}");
    }
    assert!(send("PUT /products/9", "1").await.ends_with(r#"{"version":1}"#));
    for (path, price) in [("GET /products/2", "250"), ("GET /products/9", "1")] {
        leasehold_conformance::until("the price is seen", async || {
            send(path, "").await.contains(&format!(r#""price":{price}"#))
        })
        .await
        .unwrap();
    }
    assert!(send("GET /stats", "").await.contains(r#""loads":"#));
    serving.abort();
}
