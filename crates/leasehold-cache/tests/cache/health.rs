//! What an operator sees of Redis' state: warnings, metrics and `check`.

use std::collections::BTreeSet;

use leasehold_cache::bloom::{self, Answer};
use leasehold_cache::{Builder, Cache, ErrorKind, Stats};
use leasehold_conformance as conformance;
use leasehold_test_servers::{RedisServer, RedisSettings, Value};

use super::logs::{listen, warnings};
use super::recorded::recorded;
use super::restarts::{Back, go_back};
use super::{Database, Test, ms, secs, server, test};

pub(crate) const TESTS: &[Test] = &[
    test!(a_refused_password_is_one_warning_and_named_by_check),
    test!(check_finds_nothing_wrong_with_a_server_that_serves),
    test!(check_names_what_the_user_may_not_do),
    test!(an_outage_is_warned_of_once_at_each_change),
    test!(a_server_that_is_slow_after_its_restart_is_never_warned_of_twice_in_a_row),
    test!(a_refused_listener_is_one_warning_while_calls_are_answered),
    test!(metrics_are_recorded_without_a_call_and_documented),
    test!(a_server_that_went_back_to_older_data_is_warned_of_once),
    test!(a_filter_that_went_back_to_older_data_is_warned_of_until_it_is_rebuilt),
];

const K: &str = "k";

fn named(name: &str) -> Builder<str, u64> {
    let builder = Cache::builder(name).jitter(0.0).early(0.0).ttl(secs(600));
    builder.redis_limit(ms(500)).hard_limit(secs(30))
}

async fn a_refused_password_is_one_warning_and_named_by_check() {
    listen();
    let settings = RedisSettings::new().user("app", "on >right ~* &* +@all");
    let (server, database) = (RedisServer::start(settings).unwrap(), Database::default());
    let url = server.url_as("app", "secret-word");
    let cache = named("refused").local_size(0).open(&url).unwrap();
    database.commit(K, 1);
    for _ in 0..50 {
        assert_eq!(database.get(&cache, K).await, Some(1));
    }
    // Nothing is said in the time in which it is tried again.
    tokio::time::sleep(secs(2)).await;
    assert_eq!(database.get(&cache, K).await, Some(1));
    let seen = warnings("cache=\"refused\"");
    assert_eq!(seen.len(), 1, "{seen:?}");
    let check = cache.check().await.unwrap_err();
    assert_eq!(check.kind(), ErrorKind::Unavailable);
    let begin = cache.begin_write(&[K]).await.unwrap_err();
    for text in [seen[0].clone(), check.to_string(), begin.to_string()] {
        assert!(text.contains("wrong user or password"), "{text}");
        assert!(text.contains("redis://app:***@127.0.0.1:"), "{text}");
        assert!(!text.contains("secret-word"), "{text}");
    }
    server.admin(&["ACL", "SETUSER", "app", ">secret-word"]).unwrap();
    conformance::until("it is used", async || {
        database.get(&cache, K).await;
        cache.stats().remote_hits > 0
    })
    .await
    .unwrap();
    cache.check().await.unwrap();
    let seen = warnings("cache=\"refused\"");
    assert!(seen.iter().any(|text| text.contains("answers again")), "{seen:?}");
}

async fn check_finds_nothing_wrong_with_a_server_that_serves() {
    let (server, database) = (server(), Database::default());
    let cache = named("checked").open(&server.url()).unwrap();
    cache.check().await.unwrap();
    let left = server.admin(&["DBSIZE"]).unwrap();
    assert_eq!(left, Value::Integer(0), "a check leaves nothing behind");
    database.commit(K, 1);
    assert_eq!(database.get(&cache, K).await, Some(1));
}

async fn check_names_what_the_user_may_not_do() {
    for (rights, what) in [
        ("on >word ~* +@all resetchannels", "channel"),
        ("on >word ~other* &* +@all", "key"),
        ("on >word ~* &* +@all -evalsha -eval", "eval"),
    ] {
        let server = RedisServer::start(RedisSettings::new().user("few", rights)).unwrap();
        let cache = named("few").open(&server.url_as("few", "word")).unwrap();
        let error = cache.check().await.unwrap_err().to_string();
        assert!(error.contains("may not do this") && error.contains(what), "{rights}: {error}");
    }
}

/// What is warned of when Redis goes away, and when it is back: for calls, and for messages.
const CHANGES: [(&str, &str); 2] =
    [("cannot be used", "answers again"), ("cannot receive", "receiving")];

/// Returns the changes of one kind, in their order: true for an end of an outage. A server that is
/// slow after its start may be away again for a moment, so that their number is not known.
fn changes(cache: &str, (away, back): (&str, &str)) -> Vec<bool> {
    let all = warnings(&format!("cache=\"{cache}\""));
    let change = |text: &String| match (text.contains(away), text.contains(back)) {
        (true, _) => Some(false),
        (_, is_back) => is_back.then_some(true),
    };
    all.iter().filter_map(change).collect()
}

async fn an_outage_is_warned_of_once_at_each_change() {
    listen();
    let (mut server, database) = (server(), Database::default());
    let cache = named("outage").down_ttl(ms(0)).open(&server.url()).unwrap();
    let read = async || {
        database.get(&cache, K).await;
    };
    database.kept(&cache, K).await;
    assert_eq!(warnings("cache=\"outage\""), Vec::<String>::new());
    let all_are = |is_back: bool| {
        CHANGES.iter().all(|kind| changes("outage", *kind).last() == Some(&is_back))
    };
    let seen = || warnings("cache=\"outage\"");
    for round in 1..=2 {
        server.kill();
        conformance::until("it is warned of", async || {
            read().await;
            all_are(false)
        })
        .await
        .unwrap();
        let told = seen();
        for _ in 0..20 {
            read().await;
        }
        // Nothing more is said while the outage lasts.
        tokio::time::sleep(secs(1)).await;
        assert_eq!(seen(), told);
        server.restart().unwrap();
        let restarts = || seen().iter().filter(|one| one.contains("was restarted")).count();
        conformance::until("so is its end", async || {
            read().await;
            all_are(true) && restarts() == round
        })
        .await
        .unwrap();
        for kind in CHANGES {
            let changes = changes("outage", kind);
            let alternate = changes.windows(2).all(|two| two[0] != two[1]);
            assert!(!changes[0] && alternate && changes.len() >= 2 * round, "{:?}", seen());
        }
    }
}

/// Silence of the server right after its restart interrupts the messages again.
async fn a_server_that_is_slow_after_its_restart_is_never_warned_of_twice_in_a_row() {
    listen();
    let (mut server, database) = (server(), Database::default());
    let cache = named("slow-start").down_ttl(ms(0)).open(&server.url()).unwrap();
    let [_, messages] = CHANGES;
    let seen = || changes("slow-start", messages);
    let until = async |what: &str, is_back: bool, times: usize| {
        conformance::until(what, async || {
            database.get(&cache, K).await;
            seen().last() == Some(&is_back) && seen().len() >= times
        })
        .await
        .unwrap();
    };
    database.kept(&cache, K).await;
    server.kill();
    until("the outage", false, 1).await;
    server.restart().unwrap();
    until("its end", true, 2).await;
    server.stop().unwrap();
    until("the silence", false, 3).await;
    server.resume().unwrap();
    until("the end of both", true, 4).await;
    for kind in CHANGES {
        let changes = changes("slow-start", kind);
        let alternate = changes.windows(2).all(|two| two[0] != two[1]);
        assert!(alternate && changes.first() == Some(&false), "{kind:?}: {changes:?}");
    }
}

async fn a_refused_listener_is_one_warning_while_calls_are_answered() {
    listen();
    let settings = RedisSettings::new().user("app", "on >word ~* &* +@all");
    let (server, database) = (RedisServer::start(settings).unwrap(), Database::default());
    let cache = named("deaf").local_size(0).open(&server.url_as("app", "word")).unwrap();
    database.commit(K, 1);
    conformance::until("it hears and reads", async || {
        database.get(&cache, K).await;
        let channels = server.admin(&["PUBSUB", "CHANNELS"]).unwrap();
        channels != Value::Array(Vec::new()) && cache.stats().remote_hits > 0
    })
    .await
    .unwrap();
    // Connections that are open stay; a new one is refused.
    server.admin(&["ACL", "SETUSER", "app", "resetpass", ">another"]).unwrap();
    server.admin(&["CLIENT", "KILL", "TYPE", "pubsub"]).unwrap();
    let refused = || {
        let Value::Bytes(stats) = server.admin(&["INFO", "errorstats"]).unwrap() else { return 0 };
        let stats = String::from_utf8_lossy(&stats).into_owned();
        let count = stats.split_once("errorstat_WRONGPASS:count=").map(|(_, rest)| rest.trim());
        let digits = count.map(|count| count.split(|c: char| !c.is_ascii_digit()).next());
        digits.flatten().map_or(0, |digits| digits.parse::<u32>().unwrap())
    };
    let hits = cache.stats().remote_hits;
    conformance::until("it has tried again several times", async || {
        database.get(&cache, K).await;
        refused() >= 5
    })
    .await
    .unwrap();
    assert!(cache.stats().remote_hits > hits, "calls are answered");
    let seen = warnings("cache=\"deaf\"");
    assert!(matches!(&seen[..], [one] if one.contains("cannot receive")), "{seen:?}");
}

async fn a_server_that_went_back_to_older_data_is_warned_of_once() {
    listen();
    let (mut server, database) = (server(), Database::default());
    let cache = named("went-back").open(&server.url()).unwrap();
    database.commit(K, 1);
    database.kept(&cache, K).await;
    go_back(&mut server, Back::Snapshot, async || cache.invalidate(&[K]).await.unwrap()).await;
    let seen = async || {
        database.get(&cache, K).await;
        // Beside it are those of the outage.
        let seen = warnings("cache=\"went-back\"");
        seen.into_iter().filter(|text| text.contains("was restarted")).collect::<Vec<_>>()
    };
    conformance::until("it is warned of", async || !seen().await.is_empty()).await.unwrap();
    // The value from before was seen, and is not used.
    conformance::until("it is used", async || cache.invalidate(&[K]).await.is_ok()).await.unwrap();
    let seen = seen().await;
    assert_eq!(seen.len(), 1, "{seen:?}");
    for part in [
        "Redis was restarted or failed over",
        "it may have lost data that it had acknowledged",
        &format!("url=\"{}", server.url()),
    ] {
        assert!(seen[0].contains(part), "{part}: {seen:?}");
    }
}

async fn a_filter_that_went_back_to_older_data_is_warned_of_until_it_is_rebuilt() {
    listen();
    let mut server = server();
    let filter = bloom::Redis::builder("went-back", 100, 0.01).redis_limit(secs(10)).create(true);
    let filter = filter.open(&server.url()).await.unwrap();
    let of_filter = || warnings("filter=\"{leasehold-bloom:went-back}\"");
    let doubts =
        || of_filter().into_iter().filter(|text| text.contains("rebuilt")).collect::<Vec<_>>();
    for round in 1..=2 {
        go_back(&mut server, Back::Snapshot, async || filter.add("a").await.unwrap()).await;
        conformance::until("it is warned of", async || {
            assert_ne!(filter.check("a").await, Answer::Absent);
            doubts().len() == round
        })
        .await
        .unwrap();
        for _ in 0..20 {
            assert_eq!(filter.check("a").await, Answer::Unavailable);
        }
        let rebuild = filter.rebuild(100, 0.01).await.unwrap();
        rebuild.add_many(&["a"]).await.unwrap();
        rebuild.swap().await.unwrap();
        assert_eq!(filter.check("a").await, Answer::Maybe);
        assert_eq!(doubts().len(), round, "{:?}", doubts());
    }
    for part in [
        "Redis was restarted or failed over",
        "the filter may lack the latest additions; it answers Unavailable until it is rebuilt \
         (Redis::rebuild)",
        &format!("url=\"{}", server.url()),
    ] {
        assert!(doubts()[0].contains(part), "{part}: {:?}", doubts());
    }
}

/// Rows of the tables in docs/observing.md that are about caches.
fn documented() -> BTreeSet<(String, String)> {
    let rows = include_str!("../../../../docs/observing.md").lines();
    let cells = rows.filter_map(|row| row.strip_prefix("| `")?.split_once("` | "));
    let rows = cells.map(|(name, rest)| (name.to_owned(), rest.split(' ').next().unwrap_or("")));
    let of_caches = rows.filter(|(name, _)| name.starts_with("leasehold_cache_"));
    let of_caches =
        of_caches.filter(|(name, _)| !name.contains("_outbox_") && !name.contains("_receiver_"));
    of_caches.map(|(name, kind)| (name, kind.to_owned())).collect()
}

async fn metrics_are_recorded_without_a_call_and_documented() {
    let known: BTreeSet<_> = Stats::METRICS
        .iter()
        .map(|(name, kind)| ((*name).to_owned(), (*kind).to_owned()))
        .collect();
    assert_eq!(documented(), known);
    listen();
    let up = recorded(async || {
        let (server, database) = (server(), Database::default());
        let cache = named("metrics-up").open(&server.url()).unwrap();
        database.commit(K, 1);
        database.kept(&cache, K).await;
        (cache.stats(), server)
    });
    let (up, (stats, _server)) = up.await;
    let named_so = |(name, _): &(String, String)| format!("{name}{{cache=\"metrics-up\"}}");
    let names: BTreeSet<_> = up.keys().cloned().collect();
    assert_eq!(names, known.iter().map(named_so).collect());
    let value = |name: &str| up[&format!("leasehold_cache_{name}{{cache=\"metrics-up\"}}")];
    assert_eq!((value("hearing"), value("breaker_open")), (1.0, 0.0));
    assert_eq!(value("loads_total") as u64, stats.loads);
    assert_eq!(value("local_hits_total") as u64, stats.local_hits);
    assert!(stats.loads > 0);

    let down = recorded(async || {
        let (mut server, database) = (server(), Database::default());
        let cache = named("metrics-down").down_ttl(ms(0)).open(&server.url()).unwrap();
        database.commit(K, 1);
        database.kept(&cache, K).await;
        server.kill();
        let warned = |part: &str| {
            let seen = warnings("cache=\"metrics-down\"");
            seen.iter().any(|text| text.contains(part))
        };
        conformance::until("it is warned of", async || {
            database.get(&cache, K).await;
            warned("cannot be used") && warned("cannot receive")
        })
        .await
        .unwrap();
    });
    let (down, ()) = down.await;
    let value = |name: &str| down[&format!("leasehold_cache_{name}{{cache=\"metrics-down\"}}")];
    assert_eq!((value("hearing"), value("breaker_open")), (0.0, 1.0));
}
