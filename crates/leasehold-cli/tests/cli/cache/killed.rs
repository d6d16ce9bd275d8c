//! Relays and receivers that are killed, as processes, while rows come in: none is lost.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use leasehold_test_servers::{Needs, Postgres, Proxy, RedisServer, RedisSettings};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::support::{WorkDir, until};

/// Rows that come in at a time.
const PAGE: usize = 20;

/// How often each command is killed.
const KILLS: usize = 6;

/// So long what is delivered is on its way: most of the time of a batch, and when it is killed.
const WAY: Duration = Duration::from_millis(40);

/// Entries in the cache, and then the rows that say that they are old, until told to stop; how many.
fn load(database: &Postgres, redis: &RedisServer, stop: &AtomicBool) -> usize {
    let mut count = 0;
    while !stop.load(Ordering::SeqCst) {
        let keys = count..count + PAGE;
        let mut entries = vec!["MSET".to_owned()];
        for key in keys.clone() {
            entries.extend([format!("{{leasehold-cache:users:{key}}}"), "old".to_owned()]);
        }
        redis.admin(&entries).unwrap();
        let row = "'leasehold-cache:users', key::text, 0, \
                   (EXTRACT(epoch FROM clock_timestamp()) * 1000000)::bigint, 0, 0";
        let (first, last) = (keys.start, keys.end - 1);
        let insert = format!(
            "INSERT INTO leasehold_cache_outbox (cache, name, hold_ms, queued_us, due_us, tries) \
             SELECT {row} FROM generate_series({first}, {last}) key"
        );
        database.sql(&insert).unwrap();
        count += PAGE;
    }
    count
}

/// Entries that no process has invalidated.
fn entries(redis: &RedisServer) -> usize {
    match redis.admin(&["KEYS", "{leasehold-cache:users:*}"]).unwrap() {
        leasehold_test_servers::Value::Array(keys) => keys.len(),
        other => panic!("{other:?}"),
    }
}

fn rows(database: &Postgres) -> usize {
    database.sql("SELECT COUNT(*) FROM leasehold_cache_outbox").unwrap().parse().unwrap()
}

/// What a command has said last of this count.
fn count(place: &WorkDir, out: &str, of: &str) -> u64 {
    let said = place.read(out);
    // The last line may not be written to its end yet.
    let whole = said.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let last: Option<Value> = whole.lines().last().and_then(|line| serde_json::from_str(line).ok());
    last.and_then(|last| last[of].as_u64()).unwrap_or(0)
}

/// Runs all of these, each with the count by which it says what it has done, under load; each is killed
/// as soon as it has done something, and started anew, `KILLS` times. After that they get `ease`, and
/// must end their work.
fn kill_under_load(
    place: &WorkDir,
    database: &Postgres,
    redis: &RedisServer,
    commands: &[(&[&str], &str)],
    ease: impl FnOnce(),
) {
    let (stop, started) = (AtomicBool::new(false), AtomicUsize::new(0));
    let start = |at: usize| {
        let often = ["--json", "--interval", "5ms", "--claim", "1s", "--batch", "10"];
        let out = format!("out-{}", started.fetch_add(1, Ordering::SeqCst));
        (place.start_to(&out, &[commands[at].0, &often].concat()), out)
    };
    let (loaded, running) = thread::scope(|scope| {
        let loading = scope.spawn(|| load(database, redis, &stop));
        // Also when something fails here, or the scope would wait for ever.
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut running: Vec<_> = (0..commands.len()).map(start).collect();
            for _ in 0..KILLS {
                for (at, (_, of)) in commands.iter().enumerate() {
                    let (process, out) = &running[at];
                    until("it has done something", || count(place, out, of) > 0);
                    process.send(Signal::SIGKILL);
                    running[at] = start(at);
                }
            }
            running
        }));
        stop.store(true, Ordering::SeqCst);
        let loaded = loading.join().unwrap();
        (loaded, ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    assert!(loaded > PAGE, "{loaded}");
    ease();
    until("the outbox is empty", || rows(database) == 0);
    if let [_] = commands {
        assert_eq!(entries(redis), 0, "a row was deleted before it was delivered");
    }
    until("every entry is invalidated", || entries(redis) == 0);
    for (process, _) in running {
        process.send(Signal::SIGTERM);
        let done = process.end();
        assert_eq!(done.code, 0, "{done:?}");
    }
}

fn start() -> (WorkDir, Postgres, RedisServer, Proxy) {
    let (place, database) = (WorkDir::new(), Postgres::start(&[]).unwrap());
    let redis = RedisServer::start(RedisSettings::new()).unwrap();
    let done = place.run(&["cache", "init", "--database", &database.url()]);
    assert_eq!(done.code, 0, "{done:?}");
    let proxy = Proxy::start(redis.address()).unwrap();
    proxy.set_latency(WAY);
    (place, database, redis, proxy)
}

#[test]
fn relays_to_redis_that_are_killed_under_load_lose_no_row() {
    if Needs::Postgres.is_skipped() || Needs::Redis.is_skipped() {
        return;
    }
    let (place, database, redis, proxy) = start();
    let (url, store) = (database.url(), proxy.url());
    let relay = ["--store", &store, "cache", "relay", "--database", &url];
    let ease = || proxy.set_latency(Duration::ZERO);
    kill_under_load(&place, &database, &redis, &[(&relay, "delivered")], ease);
}

/// The relay on one side of the stream, and the receiver on the other.
#[cfg(feature = "nats")]
#[test]
fn relays_and_receivers_of_a_stream_that_are_killed_under_load_lose_no_row() {
    use leasehold_test_servers::{NatsServer, NatsSettings};

    if Needs::Postgres.is_skipped() || Needs::Redis.is_skipped() || Needs::Nats.is_skipped() {
        return;
    }
    let (place, database, redis, proxy) = start();
    let nats = NatsServer::start(NatsSettings::new()).unwrap();
    let between = Proxy::opaque(nats.address()).unwrap();
    // What is no protocol of Redis goes on in small pieces, each after this.
    between.set_latency(WAY / 10);
    let done = place.run(&["cache", "init", "--to", &nats.url()]);
    assert_eq!(done.code, 0, "{done:?}");
    let (url, store, broker) =
        (database.url(), proxy.url(), format!("nats://{}", between.address()));
    let relay = ["cache", "relay", "--database", &url, "--to", &broker];
    let apply = ["--store", &store, "cache", "apply", "--from", &broker];
    let commands: [(&[&str], &str); 2] = [(&relay, "delivered"), (&apply, "applied")];
    kill_under_load(&place, &database, &redis, &commands, || {
        proxy.set_latency(Duration::ZERO);
        between.set_latency(Duration::ZERO);
    });
}
