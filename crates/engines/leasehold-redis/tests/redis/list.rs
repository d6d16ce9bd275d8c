//! Lists the locks of a server that has many keys of other programs.
//!
//! `LEASEHOLD_LIST=100000,1000000` creates that many locks and foreign keys, and prints the times.

use std::time::Duration;

use leasehold_core::clock::Clock;
use leasehold_test_servers::{RedisServer, Value};

use crate::{Test, connect, plain, test};

pub(crate) const TESTS: &[Test] = &[test!(locks_are_listed_in_steps_among_many_foreign_keys)];

/// The default numbers of locks and foreign keys.
const LOCKS: usize = 2_000;
const FOREIGN: usize = 50_000;

async fn locks_are_listed_in_steps_among_many_foreign_keys() {
    let (locks, foreign) = sizes();
    let server = plain();
    let client = connect(&server.url()).await;
    let names: Vec<String> = (0..locks).map(|number| format!("job/{number:07}")).collect();
    for some in names.chunks(1000) {
        let mut tasks = Vec::new();
        for name in some {
            let lock = client.lock(name);
            tasks.push(tokio::spawn(async move { lock.acquire().await?.release().await }));
        }
        for task in tasks {
            task.await.unwrap().unwrap();
        }
    }
    server.admin(&["DEBUG", "POPULATE", &foreign.to_string(), "foreign"]).unwrap();
    // Keys that look like lock keys at first.
    for key in ["leasehold:job", "leasehold:{job}:x", "leasehold:{job", "leasehold:{jo}b}"] {
        server.admin(&["SET", key, "1"]).unwrap();
    }
    server.admin(&["SET", "leasehold:{job/foreign}", "1"]).unwrap();
    server.admin(&["HSET", "leasehold:{job/hash}", "a", "1"]).unwrap();
    server.admin(&["CONFIG", "SET", "slowlog-log-slower-than", "500"]).unwrap();
    server.admin(&["CONFIG", "SET", "slowlog-max-len", "1000"]).unwrap();
    server.admin(&["CONFIG", "RESETSTAT"]).unwrap();
    server.admin(&["SLOWLOG", "RESET"]).unwrap();
    let clock = Clock::system();
    let before = clock.now();
    let listed = client.list("job/", usize::MAX).await.unwrap();
    let took = Duration::from_nanos(clock.now().steady_ns - before.steady_ns);
    let listed: Vec<&str> = listed.iter().map(|status| status.name.as_str()).collect();
    assert_eq!(listed, names);
    let commands = commands(&server);
    assert_eq!(commands.iter().find(|(command, _)| command == "keys"), None, "{commands:?}");
    let calls = |wanted: &str| {
        commands.iter().find(|(command, _)| command == wanted).map_or(0, |(_, calls)| *calls)
    };
    // Few enough keys at a time that other clients do not wait long.
    assert!(calls("scan") * 1000 >= locks + foreign, "{commands:?}");
    assert!(calls("evalsha") * 250 >= locks, "{commands:?}");
    if std::env::var_os("LEASEHOLD_LIST").is_some() {
        println!("{locks} locks among {foreign} keys: listed in {took:?}, {}", longest(&server));
    }
}

fn sizes() -> (usize, usize) {
    let Ok(text) = std::env::var("LEASEHOLD_LIST") else { return (LOCKS, FOREIGN) };
    let (locks, foreign) = text.split_once(',').expect("LEASEHOLD_LIST=LOCKS,KEYS");
    (locks.parse().unwrap(), foreign.parse().unwrap())
}

/// Returns each command that was called, and how often.
fn commands(server: &RedisServer) -> Vec<(String, usize)> {
    let info = server.admin(&["INFO", "commandstats"]).unwrap().text();
    let row = |line: &str| {
        let (command, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        Some((command.to_owned(), rest.split(',').next()?.parse().ok()?))
    };
    info.lines().filter_map(row).collect()
}

/// Returns the slowest SCAN and the slowest script.
fn longest(server: &RedisServer) -> String {
    let log = server.admin(&["SLOWLOG", "GET", "-1"]).unwrap();
    let longest = |command: &str| {
        let of = |entry: &&Value| entry.items()[3].items()[0].text().eq_ignore_ascii_case(command);
        let times = log.items().iter().filter(of).filter_map(|entry| entry.items()[2].integer());
        times.max().unwrap_or(0)
    };
    format!("longest SCAN {} us, longest script {} us", longest("SCAN"), longest("EVALSHA"))
}
