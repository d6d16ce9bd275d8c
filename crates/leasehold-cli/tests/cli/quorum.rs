//! `leasehold quorum` over real servers.

use leasehold_test_servers::{Needs, RedisServer, RedisSettings, Value as Answer};
use serde_json::Value;

use crate::support::{Done, WorkDir};

/// Servers of our own; `None`, and a word, where none is installed and none is required.
pub(crate) fn servers() -> Option<(Vec<RedisServer>, String)> {
    if Needs::Redis.is_skipped() {
        return None;
    }
    let servers: Vec<RedisServer> =
        (0..3).map(|_| RedisServer::start(RedisSettings::new()).unwrap()).collect();
    let places: Vec<String> = servers.iter().map(|server| server.address().to_string()).collect();
    Some((servers, format!("redlock://{}?max-ttl=6s&node-limit=4s", places.join(","))))
}

fn json(place: &WorkDir, url: &str) -> Value {
    let done = place.run(&["quorum", "status", "--store", url, "--json"]);
    serde_json::from_str(&done.out).unwrap()
}

fn states(status: &Value) -> Vec<&str> {
    status["nodes"].as_array().unwrap().iter().map(|node| node["state"].as_str().unwrap()).collect()
}

#[test]
fn a_quorum_is_set_up_lost_and_set_up_again() {
    let Some((servers, url)) = servers() else { return };
    let place = WorkDir::new();
    let done = place.run(&["run", "--store", &url, "--ttl", "5900ms", "a", "true"]);
    assert_eq!(done.code, 69, "{done:?}");
    let said = "not set up yet: run `leasehold quorum init`";
    assert_eq!(done.err.matches(said).count(), 1, "{done:?}");
    let done = place.run(&["run", "-n", "--store", &url, "--ttl", "5900ms", "a", "true"]);
    assert!(!done.err.contains("waiting for"), "{done:?}");
    assert_eq!(done.err.matches(said).count(), 1, "{done:?}");
    assert!(!done.err.contains("may have lost leases"), "{done:?}");
    let done = place.run(&["quorum", "status", "--store", &url]);
    assert!(done.out.contains("not set up") && !done.out.contains("waits"), "{done:?}");
    assert_eq!(done.err.matches(said).count(), 1, "{done:?}");
    assert!(!done.err.contains("may have lost leases"), "{done:?}");
    let done = place.run(&["quorum", "init", "--store", &url]);
    assert_eq!(done.code, 125, "{done:?}");
    assert!(done.err.contains("no client holds a lock") && done.err.contains("--yes"), "{done:?}");
    assert_eq!(json(&place, &url)["outlook"], "not_set_up");
    let done = place.run(&["quorum", "init", "--yes", "--store", &url]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(done.err.matches("may vote").count(), 3, "{done:?}");
    let run =
        ["run", "--store", &url, "--ttl", "5900ms", "a", "--", "sh", "-c", "echo $LEASEHOLD_TOKEN"];
    let first: u64 = place.run(&run).out.trim().parse().unwrap();

    servers[0].admin(&["FLUSHALL"]).unwrap();
    servers[1].admin(&["FLUSHALL"]).unwrap();
    let done = place.run(&["quorum", "status", "--store", &url]);
    assert_eq!(done.code, 69, "{done:?}");
    assert!(done.err.contains("--after-loss"), "{done:?}");
    let done = place.run(&["quorum", "init", "--after-loss", "--yes", "--store", &url]);
    assert_eq!(done.code, 0, "{done:?}");
    let said = "waiting until no lease can be left, another ";
    assert!(done.err.contains(said) && !done.err.contains('\u{1b}'), "{done:?}");
    assert!(done.err.contains(&servers[0].address().to_string()), "{done:?}");
    let second: u64 = place.run(&run).out.trim().parse().unwrap();
    assert!(second > first);
}

#[test]
fn a_wrong_password_is_blamed_on_its_node_and_no_password_is_shown() {
    if Needs::Redis.is_skipped() {
        return;
    }
    let start = || RedisServer::start(RedisSettings::new().password("s3cret")).unwrap();
    let servers = [start(), start(), start()];
    let nodes = servers.iter().zip(["s3cret", "s3bad", "s3cret"]);
    let nodes: Vec<String> =
        nodes.map(|(server, password)| format!(":{password}@{}", server.address())).collect();
    let url = format!("redlock://{}", nodes.join(","));
    let place = WorkDir::new();
    let done = place.run(&["quorum", "init", "--yes", "--store", &url]);
    assert_eq!(done.code, 69, "{done:?}");
    let step = format!("check the credentials for node {} (", servers[1].address());
    assert!(done.err.contains(&step) && !done.err.contains("s3"), "{done:?}");
    let shown: Vec<String> =
        servers.iter().map(|server| format!("…@{}", server.address())).collect();
    let done = place.run(&["doctor", "--store", &url]);
    let said = format!("redlock://{}: ", shown.join(","));
    assert!(done.out.contains(&said) && !done.out.contains("s3"), "{done:?}");
}

#[test]
fn each_node_of_a_quorum_has_a_password_of_its_own() {
    if Needs::Redis.is_skipped() {
        return;
    }
    let words = ["s3one", "s3,t:w@o", "s3three"];
    let servers =
        words.map(|word| RedisServer::start(RedisSettings::new().password(word)).unwrap());
    let written = ["s3one", "s3%2Ct:w%40o", "s3three"].iter().zip(&servers);
    let nodes: Vec<String> =
        written.map(|(word, server)| format!(":{word}@{}", server.address())).collect();
    let url = format!("redlock://{}?max-ttl=60s", nodes.join(","));
    let shown: Vec<String> =
        servers.iter().map(|server| format!("…@{}", server.address())).collect();
    let shown = format!("redlock://{}", shown.join(","));
    let place = WorkDir::new();
    let no_secret = |done: &Done| assert!(!format!("{done:?}").contains("s3"), "{done:?}");

    let done = place.run(&["quorum", "init", "--yes", "--store", &url]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(states(&json(&place, &url)), ["votes"; 3]);
    let done = place.run(&["run", "-n", "--store", &url, "a", "--", "echo", "ran"]);
    assert_eq!((done.code, done.out.as_str()), (0, "ran\n"), "{done:?}");
    // All three granted it: a majority may be lost, and the third still knows the lock.
    for server in &servers {
        let keys = server.admin(&["DBSIZE"]).unwrap();
        assert!(matches!(keys, Answer::Integer(2..)), "{keys:?}");
    }
    let done = place.run(&["doctor", "--store", &url]);
    assert!(matches!(done.code, 0 | 1), "{done:?}");
    assert!(done.out.contains(&shown), "{shown}: {done:?}");
    no_secret(&done);
    let done = place.run(&["--lang", "zh", "doctor", "--store", &url]);
    assert!(done.out.contains("3 个节点：") && !done.out.contains("3 nodes"), "{done:?}");
    let wrong = url.replace("s3three", "s3bad");
    let done = place.run(&["--lang", "zh", "list", "--store", &wrong]);
    assert!(done.err.contains("请检查节点 127.0.0.1:"), "{done:?}");
    for line in [&["list"][..], &["quorum", "status"], &["doctor"]] {
        let done = place.run(&[line, &["--store", &wrong]].concat());
        let third = servers[2].address().to_string();
        assert!(format!("{done:?}").contains(&third), "{line:?}: {done:?}");
        no_secret(&done);
    }
}

#[test]
fn a_ttl_above_the_longest_of_the_nodes_says_what_to_do() {
    let Some((_servers, url)) = servers() else { return };
    let place = WorkDir::new();
    assert_eq!(place.run(&["quorum", "init", "--yes", "--store", &url]).code, 0);
    for (ttl, value) in [(&[][..], "30s"), (&["--ttl", "7s"], "7s")] {
        let done = place.run(&[&["run", "--store", &url], ttl, &["a", "touch", "ran"]].concat());
        assert_eq!(done.code, 125, "{done:?}");
        for part in [
            &format!("ttl: {value} is more than max-ttl=6s"),
            "use at most 6s (`--ttl 6s`",
            "`leasehold quorum init --after-loss --max-ttl TIME`",
        ] {
            assert!(done.err.contains(part), "{part}: {done:?}");
        }
        assert!(!place.path("ran").exists());
    }
}

#[test]
fn the_status_says_of_each_node_what_it_is() {
    let Some((mut servers, url)) = servers() else { return };
    let place = WorkDir::new();
    assert_eq!(place.run(&["quorum", "init", "--yes", "--store", &url]).code, 0);
    let status = json(&place, &url);
    assert_eq!(states(&status), ["votes"; 3]);
    let node = &status["nodes"][0];
    assert_eq!(node["node"], servers[0].address().to_string());
    assert_eq!(node["process"], servers[0].info("run_id").unwrap());
    assert_eq!(node["max_ttl_ms"], 6000);
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
    // A client would not connect, though two of three vote.
    assert_eq!(done.code, 69, "{done:?}");
    let done = place.run(&["run", "--store", &url, "--ttl", "5900ms", "a", "true"]);
    assert_eq!(done.code, 69, "{done:?}");
    assert!(done.err.contains("maxmemory-policy noeviction"), "{done:?}");
    assert!(!done.err.contains("credentials"), "{done:?}");
}

#[test]
fn what_is_amiss_but_not_refused_is_said_at_once() {
    let Some((servers, url)) = servers() else { return };
    let place = WorkDir::new();
    assert_eq!(place.run(&["quorum", "init", "--yes", "--store", &url]).code, 0);
    // The longest ttl of nodes that are set up is not changed in silence.
    let change = ["quorum", "init", "--yes", "--max-ttl", "9s", "--store", &url];
    let done = place.run(&change);
    assert_eq!(done.code, 69, "{done:?}");
    assert!(
        done.err.contains("is set up with 6s") && done.err.contains("leasehold:node"),
        "{done:?}"
    );
    assert_eq!(place.run(&["quorum", "init", "--yes", "--max-ttl", "6s", "--store", &url]).code, 0);
    for server in &servers {
        server.admin(&["DEL", "leasehold:node"]).unwrap();
    }
    assert_eq!(place.run(&change).code, 0);
    assert_eq!(json(&place, &url)["nodes"][0]["max_ttl_ms"], 9000);
    // One node is out.
    servers[2].admin(&["DEL", "leasehold:node"]).unwrap();
    let run = ["run", "--store", &url, "--ttl", "5900ms", "a", "true"];
    let done = place.run(&run);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.err.contains("cannot vote until a client has run for another"), "{done:?}");
    let done = place.run(&[&["--quiet"][..], &run].concat());
    assert_eq!((done.code, done.err.as_str()), (0, ""), "{done:?}");
    // A lock that was given back is known as such; what is no lock of ours hides no other.
    servers.iter().for_each(|server| drop(server.admin(&["SET", "leasehold:{b}", "x"]).unwrap()));
    let done = place.run(&["status", "--store", &url, "a"]);
    assert_eq!(done.code, 1, "{done:?}");
    assert!(done.out.contains("last token") && !done.out.contains("never held"), "{done:?}");
    let done = place.run(&["list", "--store", &url]);
    assert_eq!((done.code, done.out.lines().count()), (0, 2), "{done:?}");
    let done = place.run(&["list", "--store", &url, "b"]);
    assert_eq!((done.code, done.out.lines().count()), (0, 1), "{done:?}");
    assert_eq!(place.run(&["status", "--store", &url, "b"]).code, 69);
    let done = place.run(&["status", "--store", &url.replace('?', ",?"), "a"]);
    assert!(done.err.contains("host number 4 is empty"), "{done:?}");
}

#[test]
fn a_single_server_that_waits_is_waited_for_as_long_as_was_asked_for() {
    if Needs::Redis.is_skipped() {
        return;
    }
    let place = WorkDir::new();
    let server = RedisServer::start(RedisSettings::new()).unwrap();
    let store = format!("{}?admission=strict&max-ttl=12s&node-limit=4s", server.url());
    let run = |wait| {
        place.run(&["run", "--store", &store, "--ttl", "11s", "-w", wait, "-E", "7", "a", "true"])
    };
    let done = run("1s");
    assert_eq!(done.code, 7, "{done:?}");
    assert!(done.err.contains("when one client has run for another"), "{done:?}");
    assert_eq!(run("2m").code, 0);
}

/// Each command counts the wait anew, so that they must not promise that time alone helps.
#[test]
fn commands_that_do_not_wait_name_what_ends_the_wait_of_a_single_server() {
    if Needs::Redis.is_skipped() {
        return;
    }
    let place = WorkDir::new();
    let server = RedisServer::start(RedisSettings::new()).unwrap();
    let store = format!("{}?admission=strict&max-ttl=2s&node-limit=4s", server.url());
    let run = || place.run(&["run", "-n", "--store", &store, "--ttl", "2s", "a", "true"]);
    for loss in [false, true] {
        for _ in 0..2 {
            let done = run();
            assert_eq!(done.code, 69, "{done:?}");
            for said in [
                "when one client has run for another 3 s",
                "each client counts its own time",
                "run `leasehold quorum init`",
                "`leasehold quorum init --after-loss`",
            ] {
                assert_eq!(done.err.matches(said).count(), 1, "{said}: {done:?}");
            }
            assert!(!done.err.contains("without action"), "{done:?}");
            assert!(!done.err.contains("that it runs"), "{done:?}");
            let done = place.run(&["quorum", "status", "--store", &store]);
            assert_eq!(done.code, 69, "{done:?}");
            // Not a time that never moves.
            assert!(done.out.contains("waits ") && !done.out.contains("waits 2"), "{done:?}");
            assert!(done.err.contains("until a client has run for another 3 s"), "{done:?}");
            assert!(done.err.contains("each client counts its own time"), "{done:?}");
        }
        let init: &[&str] = if loss { &["--after-loss"] } else { &[] };
        let done = place.run(&[&["quorum", "init", "--yes", "--store", &store][..], init].concat());
        assert_eq!(done.code, 0, "{done:?}");
        assert_eq!(run().code, 0);
        server.admin(&["FLUSHALL"]).unwrap();
    }
}

#[test]
fn a_store_that_is_no_quorum_is_refused() {
    let place = WorkDir::new();
    for store in ["file:/tmp/x", "redis://u:s3cret@127.0.0.1:1"] {
        let done = place.run(&["quorum", "status", "--store", store]);
        assert_eq!(done.code, 125, "{done:?}");
        assert!(done.err.contains("is not a quorum") && !done.err.contains("s3cret"), "{done:?}");
    }
}

#[test]
fn a_max_ttl_that_restarted_nodes_do_not_take_is_warned_of() {
    if Needs::Redis.is_skipped() {
        return;
    }
    let mut servers: Vec<RedisServer> =
        (0..3).map(|_| RedisServer::start(RedisSettings::new().append_only()).unwrap()).collect();
    let places: Vec<String> = servers.iter().map(|server| server.address().to_string()).collect();
    let url = format!("redlock://{}?node-limit=4s", places.join(","));
    let place = WorkDir::new();
    let init = |more: &[&str]| {
        place.run(&[&["quorum", "init", "--yes", "--store", &url][..], more].concat())
    };
    assert_eq!(init(&["--max-ttl", "4s"]).code, 0);
    servers.iter_mut().for_each(|server| server.restart().unwrap());
    let done = init(&["--after-loss", "--max-ttl", "2s"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.err.contains("max-ttl=2s has no effect: the nodes grant 4s"), "{done:?}");
}

#[test]
fn another_max_ttl_in_the_url_is_warned_of_and_the_procedure_changes_it() {
    let Some((servers, url)) = servers() else { return };
    let place = WorkDir::new();
    let short = url.replace("max-ttl=6s", "max-ttl=2s");
    assert_eq!(place.run(&["quorum", "init", "--yes", "--store", &short]).code, 0);
    let run = ["run", "--store", &short, "--ttl", "2s", "a", "true"];
    assert_eq!(place.run(&run).code, 0);
    let said = "max-ttl=6s has no effect: the nodes grant 2s";
    for command in [&["quorum", "init", "--yes"][..], &["quorum", "status"]] {
        let done = place.run(&[command, &["--store", &url]].concat());
        assert_eq!(done.code, 0, "{done:?}");
        assert!(done.err.contains(said), "{done:?}");
        assert!(done.err.contains("quorum init --after-loss --max-ttl"), "{done:?}");
    }
    let run = ["run", "--store", &url, "--ttl", "5s", "a", "true"];
    let done = place.run(&run);
    assert!(done.code != 0 && done.err.contains(said), "{done:?}");
    // As it says; there are no clients, and no lease is left after the longest ttl.
    std::thread::sleep(std::time::Duration::from_secs(2));
    servers.iter().for_each(|server| drop(server.admin(&["DEL", "leasehold:node"]).unwrap()));
    let init = ["quorum", "init", "--yes", "--after-loss", "--max-ttl", "6s", "--store", &url];
    assert_eq!(place.run(&init).code, 0);
    let done = place.run(&run);
    assert_eq!((done.code, done.err.as_str()), (0, ""), "{done:?}");
}

/// The longest ttl of each node in milliseconds.
fn max_ttls(status: &Value) -> Vec<u64> {
    let nodes = status["nodes"].as_array().unwrap().iter();
    nodes.map(|node| node["max_ttl_ms"].as_u64().unwrap()).collect()
}

#[test]
fn a_node_that_waits_with_another_max_ttl_gets_that_of_the_majority() {
    let Some((servers, url)) = servers() else { return };
    let place = WorkDir::new();
    let short = url.replace("max-ttl=6s", "max-ttl=2s");
    let init = |more: &[&str]| {
        place.run(&[&["quorum", "init", "--yes", "--store", &short][..], more].concat())
    };
    assert_eq!(init(&[]).code, 0);
    for more in [&[][..], &["--max-ttl", "2s"]] {
        servers[1].admin(&["FLUSHALL"]).unwrap();
        // `quorum status` with the URL of another client writes the marker.
        assert_eq!(max_ttls(&json(&place, &url)), [2000, 6000, 2000]);
        let done = init(more);
        assert_eq!(done.code, 0, "{done:?}");
        assert!(!done.err.contains("longest ttl"), "{done:?}");
        let status = json(&place, &short);
        assert_eq!(states(&status), ["votes"; 3]);
        assert_eq!(max_ttls(&status), [2000; 3]);
    }
}

#[test]
fn a_node_that_votes_with_another_max_ttl_is_named() {
    let Some((servers, url)) = servers() else { return };
    let place = WorkDir::new();
    let short = url.replace("max-ttl=6s", "max-ttl=2s");
    let third = servers[2].address().to_string();
    let alone = format!("redlock://{third}?max-ttl=6s");
    assert_eq!(place.run(&["quorum", "init", "--yes", "--store", &alone]).code, 0);
    let two = short.replace(&format!(",{third}"), "");
    assert_eq!(place.run(&["quorum", "init", "--yes", "--store", &two]).code, 0);
    for command in [&["quorum", "init", "--yes"][..], &["quorum", "status"]] {
        let done = place.run(&[command, &["--store", &short]].concat());
        assert_eq!(done.code, 0, "{done:?}");
        let said =
            format!("a majority grants at least 2s, but node {third} grants 6s; delete the key");
        assert!(done.err.contains(&said), "{done:?}");
    }
}
