//! What can happen to a server.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use leasehold_test_servers::{
    Admin, Certificates, ClockShim, RedisServer, RedisSettings, Value, find, wait,
};

use crate::orphans;

type Test = (&'static str, fn());

pub(crate) const TESTS: &[Test] = &[
    ("server::every_installed_program_starts", every_installed_program_starts),
    ("server::a_stopped_server_answers_when_it_goes_on", a_stopped_server_answers_when_it_goes_on),
    ("server::kill_keeps_what_was_answered", kill_keeps_what_was_answered),
    ("server::restart_empty_forgets", restart_empty_forgets),
    ("server::a_truncated_file_has_lost_its_tail_alone", a_truncated_file_has_lost_its_tail_alone),
    ("server::an_older_copy_of_the_data_comes_back", an_older_copy_of_the_data_comes_back),
    ("server::the_clock_jumps_and_runs_fast", the_clock_jumps_and_runs_fast),
    ("server::tls_wants_a_client_certificate", tls_wants_a_client_certificate),
    ("server::users_and_passwords_count", users_and_passwords_count),
    ("server::a_foreign_server_is_refused", a_foreign_server_is_refused),
    ("server::a_loading_server_says_so", a_loading_server_says_so),
    ("server::a_busy_server_says_so", a_busy_server_says_so),
    ("server::sentinels_make_a_replica_the_master", sentinels_make_a_replica_the_master),
    ("server::a_replica_follows", a_replica_follows),
    ("server::full_memory_refuses_writes", full_memory_refuses_writes),
    ("server::a_server_dies_with_its_process", a_server_dies_with_its_process),
];

fn every_installed_program_starts() {
    assert!(!RedisServer::programs().is_empty());
    for program in RedisServer::programs() {
        let server = RedisServer::start(RedisSettings::new().program(&program)).unwrap();
        assert_eq!(server.admin(&["SET", "a", "1"]).unwrap().text(), "OK");
        let mut tcp = Admin::tcp(server.address()).unwrap();
        assert_eq!(tcp.call(&["GET", "a"]).unwrap().text(), "1");
        assert!(server.info("redis_version").is_ok());
    }
}

fn a_stopped_server_answers_when_it_goes_on() {
    let server = RedisServer::start(RedisSettings::new()).unwrap();
    let mut client = Admin::tcp(server.address()).unwrap();
    server.stop().unwrap();
    client.send(&["INCR", "a"]).unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.pid())).unwrap();
    assert!(stat.contains(") T "), "{stat}");
    server.resume().unwrap();
    assert_eq!(client.receive().unwrap(), Value::Integer(1));
}

fn kill_keeps_what_was_answered() {
    let mut server = RedisServer::start(RedisSettings::new().append_only()).unwrap();
    let (port, pid) = (server.port(), server.pid());
    for _ in 0..100 {
        server.admin(&["INCR", "a"]).unwrap();
    }
    server.kill();
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    assert!(Admin::tcp(server.address()).is_err());
    server.start_again().unwrap();
    assert_eq!(server.port(), port);
    assert_ne!(server.pid(), pid);
    assert_eq!(server.admin(&["GET", "a"]).unwrap().text(), "100");
}

fn restart_empty_forgets() {
    let mut server = RedisServer::start(RedisSettings::new().append_only()).unwrap();
    server.admin(&["SET", "a", "1"]).unwrap();
    server.restart().unwrap();
    assert_eq!(server.admin(&["DBSIZE"]).unwrap(), Value::Integer(1));
    server.restart_empty().unwrap();
    assert_eq!(server.admin(&["DBSIZE"]).unwrap(), Value::Integer(0));
}

fn a_truncated_file_has_lost_its_tail_alone() {
    let mut server = RedisServer::start(RedisSettings::new().append_only()).unwrap();
    server.admin(&["SET", "a", "kept"]).unwrap();
    let kept = server.aof_bytes().unwrap();
    server.admin(&["SET", "b", "lost"]).unwrap();
    server.admin(&["SET", "c", "lost"]).unwrap();
    let all = server.aof_bytes().unwrap();
    assert!(all > kept);
    assert!(server.truncate_aof(1).is_err(), "it is running");
    server.kill();
    server.truncate_aof(all - kept).unwrap();
    server.start_again().unwrap();
    assert_eq!(server.admin(&["GET", "a"]).unwrap().text(), "kept");
    assert_eq!(server.admin(&["DBSIZE"]).unwrap(), Value::Integer(1));
    // One byte is enough for the last command to be lost, and no more than that.
    server.admin(&["SET", "b", "kept"]).unwrap();
    server.admin(&["SET", "c", "lost"]).unwrap();
    server.kill();
    server.truncate_aof(1).unwrap();
    server.start_again().unwrap();
    assert_eq!(server.admin(&["GET", "b"]).unwrap().text(), "kept");
    assert_eq!(server.admin(&["DBSIZE"]).unwrap(), Value::Integer(2));
}

fn an_older_copy_of_the_data_comes_back() {
    let mut server = RedisServer::start(RedisSettings::new().append_only()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let copy = directory.path().join("copy");
    for value in ["1", "2"] {
        server.admin(&["SET", "a", value]).unwrap();
        server.save_data(&copy).unwrap();
    }
    server.admin(&["SET", "a", "3"]).unwrap();
    assert!(server.restore_data(&copy).is_err(), "it is running");
    server.kill();
    server.restore_data(&copy).unwrap();
    server.start_again().unwrap();
    assert_eq!(server.admin(&["GET", "a"]).unwrap().text(), "2");
}

fn the_clock_jumps_and_runs_fast() {
    let shim = ClockShim::build().unwrap();
    let server = RedisServer::start(shim.on(RedisSettings::new())).unwrap();
    let off = || {
        let time = server.admin(&["TIME"]).unwrap();
        let part = |at: usize| time.items()[at].integer().unwrap() as f64;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
        part(0) + part(1) / 1e6 - now
    };
    assert!(off().abs() < 5.0, "{}", off());
    server.admin(&["SET", "a", "1", "PX", "600000"]).unwrap();
    shim.set_offset(-3_600.0).unwrap();
    assert!((off() + 3_600.0).abs() < 5.0, "{}", off());
    assert_eq!(server.admin(&["EXISTS", "a"]).unwrap(), Value::Integer(1));
    shim.set_offset(3_600.0).unwrap();
    assert!((off() - 3_600.0).abs() < 5.0, "{}", off());
    assert_eq!(server.admin(&["EXISTS", "a"]).unwrap(), Value::Integer(0));
    shim.set_offset(0.0).unwrap();
    let fast = Instant::now();
    shim.set_rate(1_000.0).unwrap();
    wait("a minute has passed for the server", || off() > 60.0).unwrap();
    let shown = off();
    assert!(shown < fast.elapsed().as_secs_f64() * 1_000.0, "faster than that: {shown}");
    shim.set_rate(1.0).unwrap();
    let stays = off();
    assert!((off() - stays).abs() < 5.0);
}

fn tls_wants_a_client_certificate() {
    let certificates = Certificates::make().unwrap();
    let server = RedisServer::start(RedisSettings::new().tls(&certificates)).unwrap();
    let address = server.tls_address().unwrap().to_string();
    let ca = certificates.authority();
    let (cert, key) = (certificates.client(), certificates.client_key());
    // Says PING, and what came back until a line or the end.
    let ping = |with_certificate: bool| {
        let mut command = Command::new(find("openssl").unwrap());
        command.args(["s_client", "-quiet", "-verify_return_error", "-verify_ip", "127.0.0.1"]);
        command.args(["-connect", &address, "-CAfile"]).arg(&ca);
        if with_certificate {
            command.arg("-cert").arg(&cert).arg("-key").arg(&key);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        child.stdin.as_mut().unwrap().write_all(b"PING\r\n").unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).ok();
        child.kill().ok();
        child.wait().unwrap();
        line
    };
    assert_eq!(ping(true), "+PONG\r\n");
    assert_ne!(ping(false), "+PONG\r\n");
    assert!(server.tls_url().unwrap().starts_with("rediss://127.0.0.1:"));
}

fn users_and_passwords_count() {
    let settings = RedisSettings::new().password("open").user("reader", "on >read ~a* +get");
    let server = RedisServer::start(settings).unwrap();
    server.admin(&["SET", "a", "1"]).unwrap();
    let mut client = Admin::tcp(server.address()).unwrap();
    let error = client.call(&["GET", "a"]).unwrap_err();
    assert!(error.to_string().starts_with("NOAUTH"), "{error}");
    client.call(&["AUTH", "open"]).unwrap();
    client.call(&["GET", "a"]).unwrap();
    client.call(&["AUTH", "reader", "read"]).unwrap();
    client.call(&["GET", "a"]).unwrap();
    let error = client.call(&["SET", "a", "2"]).unwrap_err();
    assert!(error.to_string().starts_with("NOPERM"), "{error}");
    assert!(server.url().starts_with("redis://:open@127.0.0.1:"));
}

fn a_foreign_server_is_refused() {
    let mut ours = RedisServer::start(RedisSettings::new()).unwrap();
    let mut admin = Admin::tcp(ours.address()).unwrap();
    admin.must_be(ours.pid()).unwrap();
    let error = admin.must_be(std::process::id()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    // Another process listens on the port that one of our servers uses.
    let error = RedisServer::start(RedisSettings::new().port(ours.port())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AddrInUse, "{error}");
    // Or takes it while ours is down.
    let port = ours.port();
    ours.kill();
    let theirs = RedisServer::start(RedisSettings::new().port(port)).unwrap();
    assert!(ours.start_again().is_err());
    assert_eq!(ours.pid(), 0);
    assert_eq!(theirs.port(), port);
}

fn a_loading_server_says_so() {
    let mut server = RedisServer::start(RedisSettings::new()).unwrap();
    server.admin(&["SET", "a", "1"]).unwrap();
    let loading = server.restart_loading().unwrap();
    let error = loading.server().admin(&["GET", "a"]).unwrap_err();
    assert!(error.to_string().starts_with("LOADING"), "{error}");
    loading.finish().unwrap();
    assert_eq!(server.admin(&["GET", "a"]).unwrap().text(), "1");
    assert_eq!(server.admin(&["DBSIZE"]).unwrap(), Value::Integer(1));
}

fn a_replica_follows() {
    let master = RedisServer::start(RedisSettings::new().password("open")).unwrap();
    let replica = RedisServer::start(RedisSettings::new().replica_of(&master)).unwrap();
    wait("the link is up", || replica.info("master_link_status").is_ok_and(|v| v == "up")).unwrap();
    let mut admin = master.connect().unwrap();
    admin.call(&["SET", "a", "1"]).unwrap();
    assert_eq!(admin.call(&["WAIT", "1", "5000"]).unwrap(), Value::Integer(1));
    assert_eq!(replica.admin(&["GET", "a"]).unwrap().text(), "1");
    let error = replica.admin(&["SET", "a", "2"]).unwrap_err();
    assert!(error.to_string().starts_with("READONLY"), "{error}");
}

fn a_busy_server_says_so() {
    let server = RedisServer::start(RedisSettings::new()).unwrap();
    let busy = server.make_busy().unwrap();
    let mut client = Admin::tcp(server.address()).unwrap();
    let error = client.call(&["GET", "a"]).unwrap_err();
    assert!(error.to_string().starts_with("BUSY"), "{error}");
    drop(busy);
    assert_eq!(client.call(&["GET", "a"]).unwrap(), Value::Null);
}

fn sentinels_make_a_replica_the_master() {
    let mut master = RedisServer::start(RedisSettings::new()).unwrap();
    let replica = RedisServer::start(RedisSettings::new().replica_of(&master)).unwrap();
    wait("the link is up", || replica.info("master_link_status").is_ok_and(|v| v == "up")).unwrap();
    let sentinel =
        || RedisServer::start(RedisSettings::new().sentinel("main", &master, 2)).unwrap();
    let sentinels = [sentinel(), sentinel(), sentinel()];
    let knows = |sentinel: &RedisServer| {
        let line = sentinel.info("master0").unwrap_or_default();
        line.contains("slaves=1") && line.contains("sentinels=3")
    };
    wait("they know each other", || sentinels.iter().all(knows)).unwrap();
    master.kill();
    // The sentinels end its connections when they promote it.
    let promoted = || replica.info("role").is_ok_and(|role| role == "master");
    wait("the replica is the master", promoted).unwrap();
    let port = replica.port().to_string();
    let told = |sentinel: &RedisServer| {
        let address = sentinel.admin(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main"]);
        address.is_ok_and(|address| address.items()[1].text() == port)
    };
    wait("all sentinels say so", || sentinels.iter().all(told)).unwrap();
}

fn full_memory_refuses_writes() {
    let server = RedisServer::start(RedisSettings::new().max_memory(1, "noeviction")).unwrap();
    let error = server.admin(&["SET", "a", "1"]).unwrap_err();
    assert!(error.to_string().starts_with("OOM"), "{error}");
}

/// A part of [`a_server_dies_with_its_process`]: says the process id of a server, and hangs.
pub(crate) fn play() -> ! {
    let server = std::thread::spawn(|| RedisServer::start(RedisSettings::new()).unwrap());
    // The thread that started it has ended, which must not end the server.
    let server = server.join().unwrap();
    let since = Instant::now();
    while since.elapsed() < Duration::from_millis(200) {
        server.admin(&["PING"]).unwrap();
    }
    println!("{}", server.pid());
    loop {
        std::thread::park();
    }
}

fn a_server_dies_with_its_process() {
    orphans::die_with_their_process("redis", 1);
}
