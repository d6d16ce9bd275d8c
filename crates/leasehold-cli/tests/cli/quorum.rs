//! `leasehold quorum` over real servers.

use leasehold_conformance::kit::{RedisServer, Settings, required};
use serde_json::Value;

use crate::support::Place;

/// Servers of our own; `None`, and a word, where none is installed and none is required.
fn servers() -> Option<(Vec<RedisServer>, String)> {
    if !RedisServer::is_present() && !required("redis") {
        eprintln!("SKIPPED: redis-server is not installed");
        return None;
    }
    let servers: Vec<RedisServer> =
        (0..3).map(|_| RedisServer::start(Settings::new()).unwrap()).collect();
    let places: Vec<String> = servers.iter().map(|server| server.address().to_string()).collect();
    Some((servers, format!("redlock://{}?max-ttl=1s&node-limit=500ms", places.join(","))))
}

fn json(place: &Place, url: &str) -> Value {
    let done = place.run(&["quorum", "status", "--store", url, "--json"]);
    serde_json::from_str(&done.out).unwrap()
}

fn states(status: &Value) -> Vec<&str> {
    status["nodes"].as_array().unwrap().iter().map(|node| node["state"].as_str().unwrap()).collect()
}

#[test]
fn a_quorum_is_set_up_lost_and_set_up_again() {
    let Some((servers, url)) = servers() else { return };
    let place = Place::new();
    let done = place.run(&["run", "--store", &url, "--ttl", "900ms", "a", "true"]);
    assert_eq!(done.code, 69, "{done:?}");
    assert!(done.err.contains("leasehold quorum init"), "{done:?}");
    let done = place.run(&["quorum", "init", "--store", &url]);
    assert_eq!(done.code, 125, "{done:?}");
    assert!(done.err.contains("nobody holds a lock") && done.err.contains("--yes"), "{done:?}");
    assert_eq!(json(&place, &url)["outlook"], "forgotten");
    let done = place.run(&["quorum", "init", "--yes", "--store", &url]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(done.err.matches("may vote").count(), 3, "{done:?}");
    let run =
        ["run", "--store", &url, "--ttl", "900ms", "a", "--", "sh", "-c", "echo $LEASEHOLD_TOKEN"];
    let first: u64 = place.run(&run).out.trim().parse().unwrap();

    servers[0].admin(&["FLUSHALL"]).unwrap();
    servers[1].admin(&["FLUSHALL"]).unwrap();
    let done = place.run(&["quorum", "status", "--store", &url]);
    assert_eq!(done.code, 69, "{done:?}");
    assert!(done.err.contains("--after-loss"), "{done:?}");
    let done = place.run(&["quorum", "init", "--after-loss", "--yes", "--store", &url]);
    assert_eq!(done.code, 0, "{done:?}");
    let second: u64 = place.run(&run).out.trim().parse().unwrap();
    assert!(second > first);
}

#[test]
fn the_status_says_of_each_node_what_it_is() {
    let Some((mut servers, url)) = servers() else { return };
    let place = Place::new();
    assert_eq!(place.run(&["quorum", "init", "--yes", "--store", &url]).code, 0);
    let status = json(&place, &url);
    assert_eq!(states(&status), ["votes"; 3]);
    let node = &status["nodes"][0];
    assert_eq!(node["node"], servers[0].address().to_string());
    assert_eq!(node["process"], servers[0].info("run_id").unwrap());
    assert_eq!(node["max_ttl_ms"], 1000);
    assert!(node["high"].as_u64().unwrap() > 0);
    assert!(node["clock_ahead_ms"].as_i64().unwrap().abs() < 10_000);
    let done = place.run(&["quorum", "status", "--store", &url]);
    assert_eq!((done.code, done.out.lines().count()), (0, 4), "{done:?}");
    assert!(done.out.starts_with("NODE") && done.out.contains("votes"), "{done:?}");

    servers[1].kill();
    servers[2].admin(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).unwrap();
    let status = json(&place, &url);
    assert_eq!(states(&status), ["votes", "silent", "unfit"]);
    let done = place.run(&["quorum", "status", "--store", &url]);
    assert!(done.err.contains("maxmemory-policy noeviction"), "{done:?}");
    let done = place.run(&["run", "--store", &url, "--ttl", "900ms", "a", "true"]);
    assert_eq!(done.code, 69, "{done:?}");
    assert!(done.err.contains("maxmemory-policy noeviction"), "{done:?}");
}

#[test]
fn a_store_that_is_no_quorum_is_refused() {
    let place = Place::new();
    for store in ["file:/tmp/x", "redis://u:s3cret@127.0.0.1:1"] {
        let done = place.run(&["quorum", "status", "--store", store]);
        assert_eq!(done.code, 125, "{done:?}");
        assert!(done.err.contains("is no quorum") && !done.err.contains("s3cret"), "{done:?}");
    }
}
