//! How long records of names stay that no client uses, and what tokens do after that.

use std::time::Duration;

use leasehold_conformance::until;
use leasehold_core::doctor::Severity;
use leasehold_core::{Client, StoreUrl};
use leasehold_quorum::Founding;
use leasehold_test_servers::{
    ClockShim, RedisCluster, RedisSentinels, RedisServer, RedisSettings, Value,
};

use crate::side::{Side, release};
use crate::wire::wire;
use crate::{Test, connect, earlier, plain, quorum, secs, test};

pub(crate) const TESTS: &[Test] = &[
    test!(records_stay_for_the_time_in_the_url),
    test!(records_of_sentinels_and_a_cluster_stay_for_the_time_in_the_url),
    test!(records_of_a_quorum_stay_for_the_time_in_the_url),
    test!(notes_about_other_formats_stay_for_the_time_in_the_url),
    test!(each_way_to_write_a_record_keeps_it_as_long),
    test!(a_lock_in_use_keeps_its_record),
    test!(tokens_grow_though_the_clock_goes_back_half_an_hour_once_the_record_is_gone),
    test!(clients_with_other_times_and_earlier_clients_share_a_record),
    test!(the_doctor_reports_records_beside_maxmemory),
];

/// The ttl of all leases here.
const TTL: Duration = Duration::from_secs(20);
/// The option, and its value: neither is the default, nor what earlier clients have.
const TIMES: [(&str, Duration); 2] =
    [("retain=2m", Duration::from_secs(120)), ("retain=90m", Duration::from_secs(5400))];

/// How long each key of locks lives at a server, in ms. Tombstones, names to notify, marks of nodes and of other formats have
/// times of their own.
fn lives(server: &RedisServer) -> Vec<(String, i64)> {
    let Value::Array(keys) = server.admin(&["KEYS", "leasehold:*{*"]).unwrap() else {
        panic!("no list of keys");
    };
    let is_other = |key: &str| {
        key.ends_with(":t")
            || key.ends_with(":w")
            || key.rsplit(':').next().is_some_and(|end| end.len() == 32)
    };
    let keys = keys.iter().map(Value::text).filter(|key| !is_other(key));
    keys.map(|key| {
        let lives = server.admin(&["PTTL", &key]).unwrap().integer().unwrap();
        (key, lives)
    })
    .collect()
}

/// Every key outlives its lease by seven eighths of `retain` at least, and by `retain` at most.
fn all_stay(servers: &[&RedisServer], retain: Duration, what: &str) {
    let all: Vec<(String, i64)> = servers.iter().flat_map(|server| lives(server)).collect();
    assert!(!all.is_empty(), "{what}: no record");
    let ms = |time: Duration| time.as_millis() as i64;
    for (key, lives) in all {
        let allowed = ms(retain * 7 / 8)..=ms(retain + TTL);
        assert!(allowed.contains(&lives), "{what}: {key} for {lives} ms, not {allowed:?}");
    }
}

async fn used(client: &Client) {
    client.lock("a").ttl(TTL).acquire().await.unwrap().release().await.unwrap();
}

async fn records_stay_for_the_time_in_the_url() {
    let server = plain();
    for (option, retain) in TIMES {
        server.admin(&["FLUSHALL"]).unwrap();
        used(&connect(&format!("{}?{option}", server.url())).await).await;
        all_stay(&[&server], retain, option);
    }
    server.admin(&["FLUSHALL"]).unwrap();
    used(&connect(&server.url()).await).await;
    all_stay(&[&server], secs(2400), "the default");
}

async fn records_of_sentinels_and_a_cluster_stay_for_the_time_in_the_url() {
    let sentinels = RedisSentinels::start(RedisSettings::new(), RedisSettings::new()).unwrap();
    let cluster = RedisCluster::start(RedisSettings::new()).unwrap();
    for (option, retain) in TIMES {
        let master = &sentinels.servers[0];
        master.admin(&["FLUSHALL"]).unwrap();
        used(&connect(&format!("{}?{option}", sentinels.url())).await).await;
        all_stay(&[master], retain, option);
        let masters: Vec<&RedisServer> = cluster.nodes[..3].iter().collect();
        masters.iter().for_each(|master| drop(master.admin(&["FLUSHALL"]).unwrap()));
        used(&connect(&format!("{}?{option}", cluster.url())).await).await;
        all_stay(&masters, retain, option);
    }
}

async fn records_of_a_quorum_stay_for_the_time_in_the_url() {
    for (option, retain) in TIMES {
        let servers = [plain(), plain(), plain()];
        let places: Vec<String> = servers.iter().map(|one| one.address().to_string()).collect();
        let url = format!("redlock://{}?max-ttl=60s&node-limit=5s&{option}", places.join(","));
        quorum::init(&url, Founding::Vouched).await;
        let client = quorum::connect(&url).await;
        used(&client).await;
        client.settle().await;
        all_stay(&servers.each_ref(), retain, option);
        // What is noted of an attempt without a lease stays as long.
        let guard = client.lock("b").ttl(TTL).acquire().await.unwrap();
        assert!(client.lock("b").ttl(TTL).try_acquire().await.unwrap().is_none());
        guard.release().await.unwrap();
        client.settle().await;
        all_stay(&servers.each_ref(), retain, option);
        let one = plain();
        let url = format!("{}?admission=strict&max-ttl=60s&node-limit=5s&{option}", one.url());
        quorum::init(&url, Founding::Vouched).await;
        used(&quorum::connect(&url).await).await;
        all_stay(&[&one], retain, "one node");
    }
}

async fn notes_about_other_formats_stay_for_the_time_in_the_url() {
    let server = plain();
    for (option, retain) in TIMES {
        for format in ["wire=set-nx", "wire=redisson", "wire=rueidis&majority=2"] {
            server.admin(&["FLUSHALL"]).unwrap();
            used(&wire(&server, &format!("{format}&{option}")).await).await;
            // The mark for clients without the option ends sooner.
            server.admin(&["DEL", "leasehold:{a}"]).unwrap();
            all_stay(&[&server], retain, format);
        }
        let servers = [plain(), plain(), plain()];
        let places: Vec<String> = servers.iter().map(|one| one.address().to_string()).collect();
        let url = format!("redlock://{}?wire=set-nx&node-limit=5s&{option}", places.join(","));
        let url = StoreUrl::parse(&url).unwrap();
        let backend = leasehold_redis::quorum_with_wire(url).await.unwrap();
        let client = Client::new(std::sync::Arc::new(backend)).unwrap();
        used(&client).await;
        client.settle().await;
        servers.iter().for_each(|one| drop(one.admin(&["DEL", "leasehold:{a}"]).unwrap()));
        all_stay(&servers.each_ref(), retain, "a list of servers");
    }
}

async fn each_way_to_write_a_record_keeps_it_as_long() {
    let server = plain();
    for (option, retain) in TIMES {
        server.admin(&["FLUSHALL"]).unwrap();
        let url = format!("{}?{option}", server.url());
        let mut side = Side::connect(&url).await;
        // A renewal beyond what the key was made for.
        let mut request = side.request(Duration::from_millis(500));
        let grant = side.granted(&request).await;
        server.admin(&["PEXPIRE", "leasehold:{a}", "60000"]).unwrap();
        server.admin(&["SETRANGE", "leasehold:{a}", "2", &"0".repeat(16)]).unwrap();
        request.ttl = TTL;
        side.renew(&request, grant).await.unwrap();
        all_stay(&[&server], retain, "renewed");
        // A waiter, which gets the lock as an offer.
        let waiter = side.request(TTL);
        side.queued(&waiter).await;
        all_stay(&[&server], retain, "queued");
        side.release(&release(&request, grant)).await.unwrap();
        all_stay(&[&server], retain, "offered");
        let grant = side.granted(&waiter).await;
        side.release(&release(&waiter, grant)).await.unwrap();
        all_stay(&[&server], retain, "released");
        // Readers, with a writer behind them, and permits.
        let client = connect(&url).await;
        let reads = client.rw_lock("read").ttl(TTL).read().await.unwrap();
        let writer = client.rw_lock("read").ttl(TTL);
        let writing = tokio::spawn(async move { writer.write().await });
        let queued =
            || async { server.admin(&["EXISTS", "leasehold:{read}:q"]).unwrap().integer() };
        until("the writer waits", || async { queued().await == Some(1) }).await.unwrap();
        all_stay(&[&server], retain, "read");
        reads.release().await.unwrap();
        writing.await.unwrap().unwrap().release().await.unwrap();
        let permits = client.semaphore("permits", 2).ttl(TTL);
        let permit = permits.acquire().await.unwrap();
        all_stay(&[&server], retain, "a permit");
        permit.release().await.unwrap();
        all_stay(&[&server], retain, "all");
    }
}

/// Most leases write only their own fields, and leave the end of the key as it is.
async fn a_lock_in_use_keeps_its_record() {
    let shim = ClockShim::build().unwrap();
    let server = RedisServer::start(shim.on(RedisSettings::new())).unwrap();
    let (option, retain) = TIMES[0];
    let client = connect(&format!("{}?{option}", server.url())).await;
    let record = || server.admin(&["GETRANGE", "leasehold:{a}", "18", "33"]).unwrap().text();
    used(&client).await;
    let before = record();
    for offset in 1..=50 {
        shim.set_offset(f64::from(offset) * 7.0).unwrap();
        used(&client).await;
        all_stay(&[&server], retain, "in use");
        assert_eq!(record(), before, "the record is another one, {offset}");
    }
}

async fn tokens_grow_though_the_clock_goes_back_half_an_hour_once_the_record_is_gone() {
    let shim = ClockShim::build().unwrap();
    let server = RedisServer::start(shim.on(RedisSettings::new())).unwrap();
    let native = connect(&server.url()).await;
    let foreign = wire(&server, "wire=set-nx").await;
    let mut offset = 0.0;
    for kind in ["lock", "readers", "permits", "set-nx"] {
        let token = || async {
            match kind {
                "lock" => native.lock(kind).ttl(TTL).acquire().await.unwrap().token().get(),
                "readers" => native.rw_lock(kind).ttl(TTL).read().await.unwrap().token().get(),
                "permits" => {
                    native.semaphore(kind, 1).ttl(TTL).acquire().await.unwrap().token().get()
                }
                _ => foreign.lock(kind).ttl(TTL).acquire().await.unwrap().token().get(),
            }
        };
        let record = match kind {
            "set-nx" => format!("leasehold:wire:{{{kind}}}:{kind}"),
            _ => format!("leasehold:{{{kind}}}"),
        };
        let is_there = || server.admin(&["EXISTS", &record]).unwrap().integer() == Some(1);
        let before = token().await;
        native.settle().await;
        foreign.settle().await;
        // From the first minute on when nothing is known any more.
        while is_there() {
            offset += 60.0;
            shim.set_offset(offset).unwrap();
        }
        offset -= 1800.0;
        shim.set_offset(offset).unwrap();
        assert!(!is_there(), "{kind}");
        assert!(token().await > before, "the token of {kind} has fallen");
        native.settle().await;
        foreign.settle().await;
    }
}

async fn clients_with_other_times_and_earlier_clients_share_a_record() {
    let server = plain();
    let mut clients = Vec::new();
    for option in ["?retain=2m", "", "?retain=720h"] {
        clients.push(connect(&format!("{}{option}", server.url())).await);
    }
    let run = |script: String, arguments: &[&str]| {
        let words = [&["EVAL", &script, "1", "leasehold:{a}"], arguments].concat();
        server.admin(&words).unwrap().text()
    };
    let mut last = 0;
    let mut grows = |token: u64| {
        assert!(token > last, "the token has fallen");
        last = token;
        // The shortest time at least, though another client wrote the record last.
        for (key, lives) in lives(&server) {
            assert!(lives >= 105_000, "{key} for {lives} ms");
        }
    };
    let mut number = 0;
    for order in [[0, 3, 1], [3, 2, 0], [2, 0, 3], [1, 3, 2], [0, 1, 2]] {
        for at in order {
            let Some(client) = clients.get(at) else {
                number += 1;
                let attempt = format!("{number:032}");
                let answer = run(earlier::acquire(), &[&attempt, "300030000000000010002{}"]);
                let base = answer.get(1..17).unwrap().to_owned();
                assert!(answer.starts_with(['A', 'G']), "{answer}");
                let lease = format!("{attempt}{base}");
                assert_eq!(run(earlier::renew(), &[&lease, "00030000"]), "R");
                grows(base.parse().unwrap());
                assert_eq!(run(earlier::release(), &[&format!("H0{lease}{base}")]), "R");
                continue;
            };
            let guard = client.lock("a").ttl(TTL).acquire().await.unwrap();
            grows(guard.token().get());
            guard.release().await.unwrap();
        }
    }
}

/// Returns what the doctor says about records, with its severity.
async fn reported(url: &str) -> Option<(Severity, String)> {
    let found = leasehold_redis::diagnose(StoreUrl::parse(url).unwrap()).await.unwrap();
    assert!(found.unseen.is_empty(), "{:?}", found.unseen);
    let of_records = found.findings.into_iter().find(|finding| finding.id == "records");
    of_records.map(|finding| (finding.severity, finding.what))
}

async fn the_doctor_reports_records_beside_maxmemory() {
    let server = plain();
    let client = connect(&server.url()).await;
    used(&client).await;
    assert_eq!(reported(&server.url()).await, None, "one record is not worth a line");
    // Copies of a record, under as many names, and as many keys of another program.
    let fill = "local r, n = redis.call('GET', 'leasehold:{a}'), ARGV[2]
        for i = 1, n do redis.call('SET', ARGV[1] .. i .. '}', r, 'PX', 600000) end";
    let filled = |start: &str, count: &str| {
        drop(server.admin(&["EVAL", fill, "0", start, count]).unwrap());
    };
    filled("leasehold:{", "2000");
    let (severity, what) = reported(&server.url()).await.unwrap();
    assert_eq!(severity, Severity::Note);
    assert!(
        what.starts_with("about 2001 records") && what.contains("maxmemory is not set"),
        "{what}"
    );
    // The rest of many keys is estimated.
    filled("other:{", "40000");
    filled("leasehold:{", "20000");
    server.admin(&["CONFIG", "SET", "maxmemory", "1gb"]).unwrap();
    let (severity, what) = reported(&server.url()).await.unwrap();
    assert_eq!(severity, Severity::Note);
    let count: u64 = what.split(' ').nth(1).unwrap().parse().unwrap();
    assert!((16_000..24_000).contains(&count) && what.contains("of 1024 MiB"), "{what}");
    server.admin(&["CONFIG", "SET", "maxmemory", "8mb"]).unwrap();
    assert_eq!(reported(&server.url()).await.unwrap().0, Severity::Warning);
    // Notes about locks in other formats count in their own way.
    server.admin(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
    server.admin(&["FLUSHALL"]).unwrap();
    used(&connect(&server.url()).await).await;
    filled("leasehold:wire:{", "1500");
    assert_eq!(reported(&server.url()).await, None);
    let (_, what) = reported(&format!("{}?wire=set-nx", server.url())).await.unwrap();
    assert!(what.starts_with("about 1500 records"), "{what}");
}
