//! The command on a Redis server, whose leases end by time.

use std::time::Duration;

use leasehold_conformance::Stopwatch;
use leasehold_test_servers::{
    ClockShim, Needs, Proxy, RedisCluster, RedisSentinels, RedisServer, RedisSettings,
};

use crate::screen::Terminal;
use crate::support::{Done, LEASEHOLD, Running, WorkDir, numbers, runs, until};

/// A server of our own; `None`, and a word, where none is installed and none is required.
pub(crate) fn server(settings: RedisSettings) -> Option<RedisServer> {
    if Needs::Redis.is_skipped() {
        return None;
    }
    Some(RedisServer::start(settings).unwrap())
}

#[test]
fn eight_loops_of_two_hundred_runs_count_to_sixteen_hundred() {
    let Some(server) = server(RedisSettings::new()) else { return };
    crate::counter::count(&WorkDir::new(), &server.url());
}

#[test]
fn a_server_that_stops_costs_the_lock_and_the_command_ends_in_time() {
    let Some(server) = server(RedisSettings::new()) else { return };
    let script = "trap 'sleep 2; echo $LEASEHOLD_DEADLINE_UNIX_MS > told; exit 9' TERM
        touch ready; while :; do sleep 0.01; done";
    let (place, clock, url) = (WorkDir::new(), ClockShim::build().unwrap(), server.url());
    let arguments = ["run", "--store", &url, "--ttl", "20m", "a", "--", "sh", "-c", script];
    let running = Running::new(place.leasehold(&arguments).envs(clock.env()));
    place.until_exists("ready");
    server.stop().unwrap();
    // The loss is reported two minutes before the end of the lease; this is a minute before it: half of
    // that is for the command's answer.
    clock.set_offset(19.0 * 60.0).unwrap();
    let done = running.end();
    server.resume().unwrap();
    assert_eq!(done.code, 76, "{done:?}");
    assert!(place.path("told").exists(), "the command was not asked to end: {done:?}");
    assert!(done.err.lines().any(|line| line.contains("the lock a is lost")), "{done:?}");
}

fn stop(server: &mut RedisServer) {
    server.stop().unwrap();
}

#[test]
fn a_lost_lock_is_not_released_while_the_server_is_away() {
    for end in [stop as fn(&mut RedisServer), RedisServer::kill] {
        let Some(mut server) = server(RedisSettings::new()) else { return };
        let (place, url) = (WorkDir::new(), server.url());
        let script = "echo $$ > pids; touch ready; exec sleep 60";
        let run = ["run", "--store", &url, "--ttl", "3s", "a", "--", "sh", "-c", script];
        let running = place.start(&run);
        place.until_exists("ready");
        end(&mut server);
        let command = numbers(&place.read("pids"))[0];
        until("the command has ended", || !runs(command));
        let stopwatch = Stopwatch::start();
        let done = running.end();
        let took = stopwatch.elapsed();
        assert_eq!(done.code, 76, "{done:?}");
        assert!(done.err.contains("the lock a is lost") && done.err.lines().count() == 1);
        assert!(took < Duration::from_millis(800), "it lingered for {took:?}");
    }
}

#[test]
fn a_restart_with_its_data_is_not_noticed() {
    let settings = RedisSettings::new().append_only().line("appendfsync always");
    let Some(mut server) = server(settings) else { return };
    let place = WorkDir::new();
    let script = "touch ready; while [ ! -e stop ]; do sleep 0.01; done; exit 4";
    let arguments =
        ["run", "--store", &server.url(), "--ttl", "30s", "a", "--", "sh", "-c", script];
    let running = place.start(&arguments);
    place.until_exists("ready");
    server.kill();
    server.start_again().unwrap();
    until("it is held on the new process", || {
        let status = place.run(&["status", "--store", &server.url(), "a"]);
        status.code == 0
    });
    place.write("stop", "");
    assert_eq!(running.end().code, 4);
}

#[test]
fn no_server_is_code_69_and_names_the_next_step() {
    let Some(mut server) = server(RedisSettings::new()) else { return };
    let url = server.url();
    server.kill();
    let done = WorkDir::new().run(&["run", "--store", &url, "a", "true"]);
    assert_eq!(done.code, 69, "{done:?}");
    assert!(done.err.contains("is the server running?"), "{done:?}");
}

#[test]
fn a_database_that_the_server_does_not_have_is_named_without_debug_text() {
    let Some(server) = server(RedisSettings::new()) else { return };
    let (place, url) = (WorkDir::new(), server.url());
    let url = url.trim_end_matches('/');
    for url in [format!("{url}/99"), format!("{url}?db=99")] {
        let done = place.run(&["list", "--store", &url]);
        assert_eq!(done.code, 69, "{done:?}");
        for part in ["the server has no database 99", "`databases`", "numbered from 0"] {
            assert!(done.err.contains(part), "{part}: {done:?}");
        }
        assert!(!done.err.contains("ResponseError"), "{done:?}");
    }
}

#[test]
fn a_refused_password_is_named_by_its_source_and_never_shown() {
    let settings = RedisSettings::new().user("app", "on >right ~* &* +@all");
    let Some(server) = server(settings) else { return };
    let place = WorkDir::new();
    let host = server.url().trim_start_matches("redis://").to_owned();
    let file = place.write("password", "s3cret\n");
    let file = file.to_str().unwrap();
    let from_file = format!("redis://app@{host}?password-file={file}");
    let in_url = server.url_as("app", "s3cret");
    let config = place.write("named.toml", &format!("store = \"{in_url}\"\n"));
    let config = config.to_str().unwrap();
    let cases: [(&[&str], Option<&str>, &str); 5] = [
        (&["--store", &in_url], None, "the password in the URL of --store"),
        (&[], Some(&in_url), "the password in the URL of LEASEHOLD_STORE"),
        (&["--config", config], None, "the password in the URL of the config file"),
        (&["--store", &from_file], None, &format!("the password in the file {file:?}")),
        (&["--store", &format!("redis://app@{host}")], None, "the URL of --store has no password"),
    ];
    for (arguments, variable, source) in cases {
        let mut command = place.program(LEASEHOLD);
        variable.map(|url| command.env("LEASEHOLD_STORE", url));
        let done = Done::new(command.args(arguments).arg("list").output().unwrap());
        assert_eq!(done.code, 69, "{done:?}");
        assert!(done.err.contains(source), "{source}: {done:?}");
        assert!(!done.err.contains("s3cret"), "{done:?}");
    }
}

#[test]
fn an_operator_ends_a_lease_by_its_token() {
    let Some(server) = server(RedisSettings::new()) else { return };
    let place = WorkDir::new();
    let url = server.url();
    let arguments =
        ["run", "--store", &url, "--ttl", "9s", "a", "--", "sh", "-c", "touch ready; sleep 60"];
    let running = place.start(&arguments);
    place.until_exists("ready");
    let json = place.run(&["status", "--store", &url, "--json", "a"]).out;
    let status: serde_json::Value = serde_json::from_str(&json).unwrap();
    let token = status["token"].to_string();
    let done = place.run(&["force-release", "--store", &url, "a", "--token", &token]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(running.end().code, 76);
}

#[test]
fn of_a_long_queue_the_first_hundred_are_shown_and_the_rest_counted() {
    let Some(server) = server(RedisSettings::new()) else { return };
    let place = WorkDir::new();
    let url = server.url();
    let mut admin = server.connect().unwrap();
    for number in 1..=123 {
        let tail = format!("{{\"h\":\"host\",\"p\":{number}}}");
        let length = tail.len();
        let member = format!("{number:032x}{:08}{:08}{length:04}{tail}", 30_000, 1);
        let ticket = format!("{}", 1_700_000_000_000_000_u64 + number);
        admin.call(&["ZADD", "leasehold:{a}:q", &ticket, &member]).unwrap();
    }
    let shown = place.run(&["status", "--store", &url, "a"]).out;
    let lines: Vec<_> = shown.lines().map(str::trim).collect();
    assert!(lines.contains(&"and 23 more"), "{shown}");
    assert!(lines.iter().any(|line| line.starts_with("waiters ") && line.ends_with(" 123")));
    assert!(lines.iter().any(|line| line.starts_with("100th  host/100  2023-11-14T")), "{shown}");
    assert!(!shown.contains("host/101"), "{shown}");
    let json = place.run(&["status", "--store", &url, "--json", "a"]).out;
    let status: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (status["waiters"].as_array().unwrap().len(), &status["more_waiters"]),
        (100, &23.into())
    );
}

#[cfg(feature = "bench")]
#[test]
fn benchmarks_leave_no_key_behind() {
    let Some(server) = server(RedisSettings::new().password("s3cret")) else { return };
    let place = WorkDir::new();
    let url = server.url();
    assert_eq!(place.run(&["run", "--store", &url, "mine", "true"]).code, 0);
    crate::bench::all_three(&place, &url);
    assert_eq!(records([&server]), ["leasehold:{mine}"]);
}

/// The keys of these servers, but for tombstones of requests that were given up: those refuse late
/// requests, and end by themselves within a minute.
#[cfg(feature = "bench")]
fn records<'a>(servers: impl IntoIterator<Item = &'a RedisServer>) -> Vec<String> {
    let mut records = Vec::new();
    for server in servers {
        for key in server.admin(&["KEYS", "*"]).unwrap().items() {
            let key = key.text();
            if key.ends_with(":t") {
                let left = server.admin(&["PTTL", &key]).unwrap().integer();
                assert!(
                    left.is_some_and(|left| (-2..=60_000).contains(&left) && left != -1),
                    "{key}"
                );
            } else {
                records.push(key);
            }
        }
    }
    records.sort();
    records
}

/// What [`every_command`] leaves.
#[cfg(feature = "bench")]
const SIX: [&str; 6] = [
    "leasehold:{five}",
    "leasehold:{four}",
    "leasehold:{one}",
    "leasehold:{six}",
    "leasehold:{three}",
    "leasehold:{two}",
];

/// Each command once; those that end by themselves.
fn every_command(url: &str) {
    let place = WorkDir::new();
    let at = |arguments: &[&str]| place.run(&[&["--store", url], arguments].concat());
    for name in ["one", "two", "three", "four", "five", "six"] {
        let told = at(&["run", name, "--", "sh", "-c", "echo $LEASEHOLD_NAME $LEASEHOLD_TOKEN"]);
        assert_eq!(told.code, 0, "{told:?}");
        assert!(told.out.starts_with(name), "{told:?}");
    }
    let script = "touch ready; sleep 60";
    let running =
        place.start(&["run", "--store", url, "--ttl", "9s", "one", "--", "sh", "-c", script]);
    place.until_exists("ready");
    let listed = at(&["list", "--json"]);
    assert_eq!(listed.code, 0, "{listed:?}");
    for name in ["one", "two", "three", "four", "five", "six"] {
        assert!(listed.out.contains(&format!("\"{name}\"")), "{listed:?}");
    }
    assert_eq!(at(&["run", "-n", "one", "true"]).code, 1);
    let status: serde_json::Value =
        serde_json::from_str(&at(&["status", "--json", "one"]).out).unwrap();
    let token = status["token"].to_string();
    let done = at(&["force-release", "one", "--token", &token]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(running.end().code, 76);
}

#[test]
fn every_command_works_with_sentinels() {
    let Some(_) = server(RedisSettings::new()) else { return };
    let all = RedisSentinels::start(RedisSettings::new(), RedisSettings::new().patient()).unwrap();
    every_command(&all.url());
    #[cfg(feature = "bench")]
    {
        crate::bench::all_three(&WorkDir::new(), &all.url());
        assert_eq!(records([&all.servers[0]]), SIX);
    }
}

#[test]
fn every_command_works_with_a_cluster() {
    let Some(_) = server(RedisSettings::new()) else { return };
    let cluster = RedisCluster::start(RedisSettings::new().patient()).unwrap();
    every_command(&cluster.url());
    #[cfg(feature = "bench")]
    {
        crate::bench::all_three(&WorkDir::new(), &cluster.url());
        assert_eq!(records(&cluster.nodes[..3]), SIX);
    }
}

#[test]
fn a_long_look_tells_how_far_it_is_on_a_terminal() {
    let Some(server) = server(RedisSettings::new()) else { return };
    let place = WorkDir::new();
    let proxy = Proxy::start(&server).unwrap();
    let look = proxy.hold("SCAN");
    let arguments = ["list", "--store", &proxy.url()];
    let mut terminal = Terminal::with_columns(&place, 120, LEASEHOLD, &arguments);
    terminal.expect(&format!("looking through {}, 1 s so far", proxy.url()));
    terminal.expect("2 s so far");
    assert!(look.is_caught());
    look.release();
    terminal.expect("\r\x1b[2K");
    assert_eq!(terminal.seen().matches("leasehold:").count(), 2, "{:?}", terminal.seen());
    assert_eq!(terminal.end(), 0);
}
