//! `leasehold doctor`: each thing that hurts locks is named, and nothing else.

mod databases;
mod ensembles;
mod topologies;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use leasehold_test_servers::{ClockShim, Needs, Pattern, Proxy, RedisServer, RedisSettings};
use serde_json::Value;

use crate::support::{Done, WorkDir};

/// The rights that docs/redis.md lists.
const RIGHTS: &str = "on >s3cret ~leasehold:* &leasehold:* -@all +evalsha +script|load +get +mget +set \
    +getrange +setrange +time +publish +pubsub|numsub +subscribe +unsubscribe +exists +pexpire +pttl +zadd +zrem +zrange \
    +zrank +zscore +zremrangebyscore +zcard +unlink +scan +ping +hello +auth +select +client|tracking \
    +client|caching";

/// A server of our own; `None`, and a word, where none is installed and none is required.
fn server(settings: RedisSettings) -> Option<RedisServer> {
    if Needs::Redis.is_skipped() {
        return None;
    }
    Some(RedisServer::start(settings).unwrap())
}

/// As a server for locks should be. Its slow log is off: what a busy machine holds up is not slow.
fn sound() -> RedisSettings {
    RedisSettings::new().append_only().line("slowlog-log-slower-than -1")
}

thread_local! {
    /// By this clock a second takes a thousand: no answer is late because the machine has much to do.
    static CALM: ClockShim = {
        let clock = ClockShim::build().unwrap();
        clock.set_steady_rate(0.001).unwrap();
        clock
    };
}

/// Runs it by the calm clock.
fn calmly(command: &mut Command) -> Done {
    CALM.with(|clock| Done::new(command.envs(clock.env()).output().unwrap()))
}

/// The exit code, and what was found.
#[track_caller]
fn doctor(url: &str) -> (i32, Value) {
    told(calmly(&mut WorkDir::new().leasehold(&["doctor", "--json", "--store", url])))
}

#[track_caller]
fn told(done: Done) -> (i32, Value) {
    let found = serde_json::from_str(&done.out);
    (done.code, found.unwrap_or_else(|error| panic!("{error}: {done:?}")))
}

/// `severity id` of each finding.
fn ids(found: &Value) -> Vec<String> {
    let word = |finding: &Value, key: &str| finding[key].as_str().unwrap().to_owned();
    let all = found["findings"].as_array().unwrap().iter();
    all.map(|one| format!("{} {}", word(one, "severity"), word(one, "id"))).collect()
}

/// This is found, and nothing besides.
#[track_caller]
fn finds(url: &str, code: i32, wanted: &[&str]) -> Value {
    let (got, found) = doctor(url);
    let wanted: Vec<String> = wanted.iter().map(|&one| one.into()).collect();
    assert_eq!((ids(&found), got), (wanted, code), "{found:#}");
    for finding in found["findings"].as_array().unwrap() {
        for part in ["place", "what", "why"] {
            assert!(!finding[part].as_str().unwrap().is_empty(), "{finding}");
        }
    }
    found
}

#[test]
fn a_server_that_falls_silent_is_asked_nothing_more() {
    let Some(server) = server(sound()) else { return };
    let proxy = Proxy::start(&server).unwrap();
    // The connection is silent from this reply on.
    let swallowed = proxy.swallow_reply_to(Pattern::command("TIME"));
    let (_, found) = told(Done::new(
        WorkDir::new().leasehold(&["doctor", "--json", "--store", &proxy.url()]).output().unwrap(),
    ));
    assert!(swallowed.happened());
    assert!(found.to_string().contains("did not answer in 5s"), "{found}");
    let commands = proxy.commands();
    assert!(!commands.contains_key("CONFIG"), "each question waits 5 s: {commands:?}");
}

#[test]
fn a_node_of_a_quorum_that_falls_silent_is_not_connected_to_again() {
    let Some(server) = server(sound()) else { return };
    let proxy = Proxy::start(&server).unwrap();
    let url = format!("{}?admission=strict&max-ttl=1s", proxy.url());
    let swallowed = proxy.swallow_reply_to(Pattern::command("TIME"));
    let (_, found) = told(Done::new(
        WorkDir::new().leasehold(&["doctor", "--json", "--store", &url]).output().unwrap(),
    ));
    assert!(swallowed.happened());
    let unseen = found["unseen"].to_string();
    assert!(unseen.contains("whether the node may vote"), "{found}");
    assert_eq!(proxy.connections_made(), 1, "each connection waits 5 s: {found}");
}

#[test]
fn a_server_that_is_far_is_named() {
    let Some(server) = server(sound()) else { return };
    let proxy = Proxy::start(&server).unwrap();
    proxy.set_latency(Duration::from_millis(60));
    let (code, found) = told(WorkDir::new().run(&["doctor", "--json", "--store", &proxy.url()]));
    assert_eq!((code, ids(&found)), (1, vec!["warning far".to_owned()]), "{found:#}");
}

#[test]
fn a_sound_server_is_0_and_keeps_no_trace() {
    let Some(server) = server(sound()) else { return };
    let found = finds(&server.url(), 0, &[]);
    assert_eq!(found["worst"], Value::Null);
    assert!(found["unseen"].as_array().unwrap().is_empty(), "{found:#}");
    assert_eq!(server.admin(&["DBSIZE"]).unwrap().integer(), Some(0));
    let says = |options: &[&str]| {
        let url = server.url();
        let arguments = [&["doctor", &url][..], options].concat();
        let done = calmly(&mut WorkDir::new().leasehold(&arguments));
        assert_eq!(done.code, 0, "{done:?}");
        done.out
    };
    assert!(says(&[]).contains("0 problems, 0 warnings"));
    assert_eq!(says(&["-q"]), "");
}

#[test]
fn an_eviction_policy_is_a_problem() {
    let Some(server) = server(sound().max_memory(64 << 20, "volatile-lru")) else { return };
    let found = finds(&server.url(), 2, &["problem eviction"]);
    assert!(found["findings"][0]["change"].as_str().unwrap().contains("noeviction"));
}

#[test]
fn a_server_that_saves_nothing_or_not_at_once_is_named() {
    let Some(server) = server(RedisSettings::new()) else { return };
    // With commands that do not wait alone, the recommended option needs an operator after each loss.
    let names_init = |found: &Value, number: usize| {
        let change = found["findings"][number]["change"].as_str().unwrap();
        assert!(change.contains("leasehold run -n"), "{change}");
        assert!(change.contains("leasehold quorum init"), "{change}");
    };
    names_init(&finds(&server.url(), 1, &["warning persistence"]), 0);
    let url = format!("{}?admission=strict", server.url());
    names_init(&finds(&url, 2, &["problem no-votes", "note persistence"]), 0);
    for (policy, code, wanted) in
        [("everysec", 0, "note appendfsync"), ("no", 1, "warning appendfsync")]
    {
        server.admin(&["CONFIG", "SET", "appendonly", "yes"]).unwrap();
        server.admin(&["CONFIG", "SET", "appendfsync", policy]).unwrap();
        finds(&server.url(), code, &[wanted]);
    }
}

#[test]
fn a_replica_is_a_problem_and_so_is_its_masters_lack_of_others() {
    let Some(master) = server(sound()) else { return };
    let replica = RedisServer::start(sound().replica_of(&master)).unwrap();
    let (code, found) = doctor(&replica.url());
    assert_eq!(code, 2);
    assert!(ids(&found).contains(&"problem replica".to_owned()), "{found:#}");
    assert!(found["findings"][0]["change"].as_str().unwrap().contains("name"), "{found:#}");
    drop(replica);
    master.admin(&["CONFIG", "SET", "min-replicas-to-write", "2"]).unwrap();
    let (code, found) = doctor(&master.url());
    assert_eq!(code, 2);
    assert!(ids(&found).contains(&"problem min-replicas".to_owned()), "{found:#}");
}

#[test]
fn a_clock_five_seconds_off_is_a_warning() {
    let Some(server) = server(sound()) else { return };
    drop(server);
    let shim = ClockShim::build().unwrap();
    let server = RedisServer::start(shim.on(sound())).unwrap();
    for (offset, says) in
        [(5.0, "5.0 s ahead of the local clock"), (-5.0, "5.0 s behind the local clock")]
    {
        shim.set_offset(offset).unwrap();
        let found = finds(&server.url(), 1, &["warning clock"]);
        assert!(found["findings"][0]["what"].as_str().unwrap().contains(says), "{found:#}");
    }
    shim.set_offset(0.3).unwrap();
    finds(&server.url(), 0, &[]);
}

#[test]
fn each_right_that_is_missing_is_named_and_what_could_not_be_seen() {
    let settings = sound()
        .user("app", RIGHTS)
        .user("blind", &RIGHTS.replace("+pubsub|numsub ", ""))
        .user("deaf", &RIGHTS.replace("+subscribe ", ""))
        .user("exclusive", &RIGHTS.replace("+zcard +unlink ", ""))
        .user("late", &RIGHTS.replace("+client|tracking", ""))
        .user("alone", &RIGHTS.replace("+zadd ", ""))
        .user("elsewhere", &RIGHTS.replace("~leasehold:*", "~app:*"));
    let Some(server) = server(settings) else { return };
    let url = |user: &str| server.url().replace("redis://", &format!("redis://{user}:s3cret@"));
    let unseen = |found: &Value| found["unseen"].as_array().unwrap().len();
    let found = finds(&url("app"), 0, &[]);
    assert!(unseen(&found) >= 3, "{found:#}");
    assert!(found.to_string().contains("allow +info") && !found.to_string().contains("s3cret"));
    let found = finds(&url("deaf"), 1, &["warning right-to-push"]);
    assert!(found["findings"][0]["what"].as_str().unwrap().contains("SUBSCRIBE"), "{found:#}");
    finds(&url("blind"), 1, &["warning right-to-count"]);
    finds(&url("exclusive"), 1, &["warning right-to-share"]);
    finds(&url("late"), 1, &["warning right-to-observe"]);
    finds(&url("alone"), 2, &["problem right-to-queue"]);
    let elsewhere = ["problem right-to-record", "problem right-to-queue", "warning right-to-share"];
    finds(&url("elsewhere"), 2, &elsewhere);
    let wrong = server.url().replace("redis://", "redis://app:wr0ng@");
    let found = finds(&wrong, 2, &["problem refused"]);
    assert!(!found.to_string().contains("wr0ng"));
}

#[test]
fn what_connect_refuses_is_a_finding() {
    let Some(node) = server(sound().cluster()) else { return };
    let (code, found) = doctor(&node.url());
    assert_eq!(
        (code, ids(&found).contains(&"problem cluster-node".into())),
        (2, true),
        "{found:#}"
    );
    let master = RedisServer::start(sound()).unwrap();
    let sentinel = RedisServer::start(RedisSettings::new().sentinel("main", &master, 1)).unwrap();
    let (code, found) = doctor(&sentinel.url());
    assert_eq!((code, ids(&found).contains(&"problem sentinel".into())), (2, true), "{found:#}");
}

#[test]
fn a_full_a_slow_and_a_busy_server_are_named() {
    let Some(server) = server(sound()) else { return };
    server.admin(&["CONFIG", "SET", "slowlog-log-slower-than", "10000"]).unwrap();
    server.admin(&["DEBUG", "SLEEP", "2"]).unwrap();
    let found = finds(&server.url(), 1, &["warning slow-commands"]);
    assert!(found["findings"][0]["what"].as_str().unwrap().contains("DEBUG with"), "{found:#}");
    server.admin(&["CONFIG", "SET", "slowlog-log-slower-than", "-1"]).unwrap();
    server.admin(&["SLOWLOG", "RESET"]).unwrap();
    server.admin(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    finds(&server.url(), 2, &["problem commands-fail", "warning memory"]);
    server.admin(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
    let busy = server.make_busy().unwrap();
    let found = finds(&server.url(), 2, &["problem commands-fail"]);
    assert!(found["findings"][0]["what"].as_str().unwrap().contains("busy"), "{found:#}");
    assert!(found["unseen"].to_string().contains("busy"), "{found:#}");
    drop(busy);
}

#[test]
fn nobody_there_is_69_and_a_wrong_url_125() {
    let Some(mut server) = server(sound()) else { return };
    let url = server.url();
    server.kill();
    let place = WorkDir::new();
    assert_eq!(place.run(&["doctor", "--store", &url]).code, 69);
    assert_eq!(place.run(&["doctor", "nonsense:"]).code, 125);
    let done = place.run(&["doctor", "memory:"]);
    assert_eq!(done.code, 2, "{done:?}");
    assert!(done.out.contains("[one-process]"), "{done:?}");
}

#[test]
fn a_quorum_is_looked_at_as_a_whole() {
    let Some(first) = server(sound()) else { return };
    let others = [0, 1].map(|_| RedisServer::start(sound()).unwrap());
    let servers = [&first, &others[0], &others[1]];
    let places = servers.map(|server| server.address().to_string()).join(",");
    let url = format!("redlock://{places}?max-ttl=6s&node-limit=4s");
    finds(&url, 2, &["problem no-votes", "warning one-host"]);
    assert_eq!(WorkDir::new().run(&["quorum", "init", "--yes", "--store", &url]).code, 0);
    finds(&url, 1, &["warning one-host"]);
    others[0].admin(&["FLUSHALL"]).unwrap();
    finds(&url, 1, &["warning one-host", "warning node-out"]);
    let twins = format!("redlock://{places},localhost:{}?node-limit=4s", first.port());
    let (code, found) = doctor(&twins);
    assert_eq!((code, ids(&found).contains(&"problem twin".into())), (2, true), "{found:#}");
    drop(others);
    let (code, found) = doctor(&url);
    assert_eq!((code, ids(&found).contains(&"problem no-majority".into())), (2, true), "{found:#}");
}

/// A small file system; unmounted when dropped.
struct Small(tempfile::TempDir);

impl Small {
    fn mount() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=32m", "leasehold-test"]).arg(dir.path());
        mount.output().is_ok_and(|output| output.status.success()).then_some(Self(dir))
    }

    /// Writes a file of this size, or as much of it as there is room for.
    fn fill(&self, bytes: usize) {
        let _ = fs::write(self.0.path().join("filler"), vec![0; bytes]);
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_is_a_problem_and_a_nearly_full_one_a_warning() {
    let Some(small) = Small::mount() else {
        return eprintln!("SKIPPED: mounting a small tmpfs needs root");
    };
    let place = WorkDir::new();
    let path = small.0.path().display();
    // Of SQLite itself the text depends on which of its files cannot grow.
    let urls = [
        (format!("file:{path}/locks"), "disk is full"),
        (format!("sqlite:{path}/locks.db"), "no space left; free some space"),
    ];
    for (url, full) in urls {
        let room = || {
            let (code, found) = doctor(&url);
            (code, ids(&found).into_iter().find(|id| id.ends_with(" room")))
        };
        let run = ["run", "--store", &url, "a", "true"];
        small.fill(1);
        assert_eq!(place.run(&run).code, 0);
        assert_eq!(room(), (0, None));
        small.fill(30 << 20);
        assert_eq!(place.run(&run).code, 0);
        assert_eq!(room(), (1, Some("warning room".to_owned())));
        small.fill(64 << 20);
        let done = place.run(&run);
        assert!(done.code == 69 && done.err.contains(full), "{done:?}");
        assert_eq!(room(), (2, Some("problem room".to_owned())));
    }
}

#[test]
fn a_directory_is_looked_at_and_left_as_it_is() {
    let place = WorkDir::new();
    let store = place.store();
    let shown = |code: i32| {
        let done = place.run(&["doctor"]);
        assert_eq!(done.code, code, "{done:?}");
        done.out
    };
    assert!(shown(0).contains("[absent]"));
    assert!(!place.path("store").exists());
    assert_eq!(place.run(&["run", "a", "true"]).code, 0);
    assert!(shown(0).contains(&format!("{store}: 0 problems, 0 warnings")));
    fs::set_permissions(place.path("store"), fs::Permissions::from_mode(0o755)).unwrap();
    assert!(shown(1).contains("[mode]"));
    place.write("store/locks/a.json", "{");
    assert!(shown(2).contains("[damaged]"));
}
