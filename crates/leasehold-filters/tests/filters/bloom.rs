//! Filters: nothing that was added is ever absent, whatever happens to them.

use leasehold_filters::ErrorKind;
use leasehold_filters::bloom::{Answer, Builder, Local, Redis, Rotating};
use leasehold_test_servers::{RedisServer, RedisSettings, Value};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::{Test, ms, secs, server, test, until};

pub(crate) const TESTS: &[Test] = &[
    test!(nothing_that_was_added_is_absent),
    test!(the_error_rate_is_what_was_asked_for),
    test!(a_full_filter_knows_how_many_it_holds),
    test!(threads_add_at_once),
    test!(redis_and_this_process_say_the_same),
    test!(a_question_is_one_bitfield),
    test!(nothing_is_not_asked_for),
    test!(processes_share_a_filter),
    test!(a_filter_that_was_lost_is_no_empty_one),
    test!(who_opens_a_lost_filter_makes_no_empty_one),
    test!(who_knows_a_header_that_was_evicted_finds_the_new_one),
    test!(what_is_added_during_a_rebuild_is_in_the_new_one),
    test!(a_lost_filter_is_rebuilt),
    test!(a_rebuild_that_is_given_up_changes_nothing),
    test!(one_rebuild_at_a_time),
    test!(a_late_writer_leaves_nothing_behind),
    test!(windows_forget_and_know_what_they_do_not_know),
    test!(an_addition_that_arrives_windows_later_is_found),
    test!(what_somebody_adds_whose_clock_is_ahead_is_found),
    test!(who_opens_windows_later_changes_no_bit),
    test!(bad_sizes_are_named),
    test!(what_is_too_large_for_the_server_is_refused),
    test!(what_is_no_filter_is_left_alone),
    test!(while_redis_is_down_nothing_is_absent),
];

const KEY: &str = "{leasehold-bloom:test}";

async fn open(server: &RedisServer) -> Redis {
    builder().create(true).open(&server.url()).await.unwrap()
}

fn builder() -> Builder {
    Redis::builder("test", 1_000, 0.01).redis_limit(secs(10))
}

fn items(range: std::ops::Range<u32>) -> Vec<String> {
    range.map(|item| format!("item {item}")).collect()
}

async fn nothing_that_was_added_is_absent() {
    let filters = (1_u64..2_000, 0.000_001..0.999);
    let added = proptest::collection::vec(any::<Vec<u8>>(), 1..500);
    let property = |((size, rate), added): ((u64, f64), Vec<Vec<u8>>)| {
        let filter = Local::new(size, rate).unwrap();
        for item in &added {
            filter.add(item);
        }
        prop_assert!(added.iter().all(|item| filter.check(item) == Answer::Maybe));
        Ok(())
    };
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::default() });
    runner.run(&(filters, added), property).unwrap();
}

/// The mean over filters of one size, so that one filter's luck does not count.
async fn the_error_rate_is_what_was_asked_for() {
    for (size, rate, filters) in [
        (100, 0.1, 200_u64),
        (1_000, 0.01, 100),
        (1_000, 0.001, 200),
        (100_000, 0.01, 3),
        (50_000, 0.5, 2),
        (50_000, 0.9, 2),
    ] {
        let (mut wrong, mut asked) = (0, 0);
        for salt in 0..filters {
            let filter = Local::new(size, rate).unwrap();
            (0..size).for_each(|item| {
                filter.add(format!("{salt} {item}"));
            });
            // Enough for the chance of the sample to be far below a tenth.
            let request = ((6_000.0 / rate) as u64 / filters).max(2_000);
            for item in 0..request {
                wrong += u64::from(filter.check(format!("{salt} never {item}")) == Answer::Maybe);
            }
            asked += request;
        }
        let measured = wrong as f64 / asked as f64;
        let off = measured / rate - 1.0;
        assert!(off.abs() < 0.1, "{size} items at {rate}: measured {measured}");
    }
}

async fn a_full_filter_knows_how_many_it_holds() {
    let (server, size) = (server(), 20_000);
    let filter = Local::new(size, 0.01).unwrap();
    let shared = Redis::builder("test", size, 0.01).redis_limit(secs(10));
    let shared = shared.create(true).open(&server.url()).await.unwrap();
    assert_eq!((filter.stats().items, filter.stats().fill), (0.0, 0.0));
    let items = items(0..size as u32);
    items.iter().for_each(|item| {
        filter.add(item);
    });
    shared.add_many(&items).await.unwrap();
    let stats = filter.stats();
    assert_eq!(shared.stats().await.unwrap(), stats);
    assert!((stats.items / size as f64 - 1.0).abs() < 0.02, "{stats:?}");
    assert!((stats.fill - 0.5).abs() < 0.03, "{stats:?}");
    assert!((stats.error_rate / 0.01 - 1.0).abs() < 0.1, "{stats:?}");
}

async fn threads_add_at_once() {
    let filter = Local::new(40_000, 0.001).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let filter = &filter;
            scope.spawn(move || {
                for item in 0..10_000 {
                    filter.add(format!("{thread} {item}"));
                    assert_eq!(filter.check(format!("{thread} {item}")), Answer::Maybe);
                }
            });
        }
    });
    for thread in 0..4 {
        for item in 0..10_000 {
            assert_eq!(filter.check(format!("{thread} {item}")), Answer::Maybe);
        }
    }
}

async fn redis_and_this_process_say_the_same() {
    let server = server();
    let (shared, own) = (open(&server).await, Local::new(1_000, 0.01).unwrap());
    let added = items(0..1_000);
    shared.add_many(&added).await.unwrap();
    added.iter().for_each(|item| {
        own.add(item);
    });
    let all = items(0..20_000);
    let answers = shared.check_many(&all).await;
    let wrong = answers.iter().zip(&all).filter(|(answer, item)| **answer != own.check(item));
    assert_eq!(wrong.count(), 0);
    assert!(answers[..1_000].iter().all(|answer| *answer == Answer::Maybe));
    let errors = answers[1_000..].iter().filter(|answer| **answer != Answer::Absent).count();
    assert!((100..280).contains(&errors), "{errors} of 19,000 at 1 %");
}

async fn a_question_is_one_bitfield() {
    let server = server();
    let filter = open(&server).await;
    let calls = |command: &str| {
        let stats = server.info(&format!("cmdstat_{command}")).unwrap_or_default();
        let calls = stats.split(['=', ',']).nth(1).and_then(|calls| calls.parse::<u64>().ok());
        calls.unwrap_or(0)
    };
    // Connections ask for the server's run, once a second.
    let all = || {
        let info = server.admin(&["INFO", "everything"]).unwrap().text();
        let count = |line: &str| {
            let rest = info.lines().find_map(|said| said.strip_prefix(line)).unwrap();
            rest.split(',').next().unwrap().parse::<u64>().unwrap()
        };
        count("total_commands_processed:") - count("cmdstat_info:calls=")
    };
    filter.check("warm").await;
    let fields = || (calls("bitfield_ro"), calls("bitfield"));
    let (asked, added) = fields();
    // What asks for the figures is counted too.
    let before = all();
    let own = all() - before;
    let before = all();
    for _ in 0..10 {
        assert_eq!(filter.check("a").await, Answer::Absent);
    }
    filter.add("a").await.unwrap();
    assert_eq!(filter.check_many(&items(0..200)).await.len(), 200);
    assert_eq!(all() - before - own, 12);
    assert_eq!(fields(), (asked + 11, added + 1));
}

async fn nothing_is_not_asked_for() {
    let server = server();
    let filter = open(&server).await;
    let nothing: [&str; 0] = [];
    let rebuild = filter.rebuild(1_000, 0.01).await.unwrap();
    // More often than Redis may fail before it is left alone.
    for _ in 0..10 {
        assert!(filter.check_many(&nothing).await.is_empty());
        filter.add_many(&nothing).await.unwrap();
        rebuild.add_many(&nothing).await.unwrap();
    }
    assert_eq!(filter.check("a").await, Answer::Absent);
}

async fn processes_share_a_filter() {
    let server = server();
    let (one, other) = (open(&server).await, open(&server).await);
    one.add("a").await.unwrap();
    assert_eq!(other.check("a").await, Answer::Maybe);
    assert_eq!(other.check("b").await, Answer::Absent);
    let keys = server.admin(&["DBSIZE"]).unwrap();
    assert_eq!(keys, Value::Integer(2), "the loser of the first two has left nothing");
}

async fn a_filter_that_was_lost_is_no_empty_one() {
    let server = server();
    let filter = open(&server).await;
    filter.add("a").await.unwrap();
    server.admin(&["FLUSHALL"]).unwrap();
    for item in ["a", "b"] {
        assert_eq!(filter.check(item).await, Answer::Unavailable);
    }
    assert_eq!(filter.add("c").await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(filter.check("c").await, Answer::Unavailable);
    assert_eq!(server.admin(&["DBSIZE"]).unwrap(), Value::Integer(0), "and nothing is made of it");
}

async fn who_opens_a_lost_filter_makes_no_empty_one() {
    let server = server();
    open(&server).await.add("a").await.unwrap();
    server.admin(&["FLUSHALL"]).unwrap();
    let (one, other) = (
        builder().open(&server.url()).await.unwrap(),
        builder().open(&server.url()).await.unwrap(),
    );
    for filter in [&one, &other] {
        assert_eq!(filter.check("a").await, Answer::Unavailable);
        assert_eq!(filter.add("b").await.unwrap_err().kind(), ErrorKind::Unavailable);
    }
    assert_eq!(server.admin(&["DBSIZE"]).unwrap(), Value::Integer(0));
    let rebuild = one.rebuild(1_000, 0.01).await.unwrap();
    rebuild.add_many(&["a"]).await.unwrap();
    rebuild.swap().await.unwrap();
    assert_eq!(other.check_many(&["a", "b"]).await, [Answer::Maybe, Answer::Absent]);
}

async fn who_knows_a_header_that_was_evicted_finds_the_new_one() {
    let server = server();
    let rotating = Rotating::builder("test", 100, 0.001, secs(30 * 86_400));
    let rotating = rotating.redis_limit(secs(10)).open(&server.url()).await.unwrap();
    rotating.add("a").await.unwrap();
    let count = |pattern: &str| match server.admin(&["KEYS", pattern]).unwrap() {
        Value::Array(keys) => keys.len(),
        other => panic!("{other:?}"),
    };
    let shards = || count(&format!("{KEY}:????????????????:?"));
    let first = open(&server).await;
    first.add("a").await.unwrap();

    server.admin(&["DEL", KEY]).unwrap();
    let created = open(&server).await;
    first.add("b").await.unwrap();
    assert_eq!(created.check("b").await, Answer::Maybe);
    assert_eq!(shards(), 1);

    server.admin(&["DEL", KEY]).unwrap();
    let rebuilt = builder().open(&server.url()).await.unwrap();
    let rebuild = rebuilt.rebuild(1_000, 0.01).await.unwrap();
    // It knows of neither the loss nor the rebuild.
    first.add("c").await.unwrap();
    rebuild.swap().await.unwrap();
    first.add("d").await.unwrap();
    for filter in [&rebuilt, &created, &first] {
        assert_eq!(filter.check_many(&["c", "d"]).await, [Answer::Maybe; 2]);
        assert_eq!(filter.check("b").await, Answer::Absent);
    }
    assert_eq!(shards(), 1);
    assert_eq!(count("*:window:*"), 2, "another filter of the same name");
    assert_eq!(rotating.check("a").await, Answer::Maybe);
}

async fn what_is_added_during_a_rebuild_is_in_the_new_one() {
    let server = server();
    // One knows of the rebuild, the other does not.
    let (one, other) = (open(&server).await, open(&server).await);
    one.add_many(&items(0..100)).await.unwrap();
    assert_eq!(other.check("item 1").await, Answer::Maybe);
    let rebuild = one.rebuild(50_000, 0.001).await.unwrap();
    rebuild.add_many(&items(0..50)).await.unwrap();
    assert_eq!(rebuild.progress(), (50, 50_000));
    other.add("late").await.unwrap();
    one.add("later").await.unwrap();
    assert_eq!(other.check("item 99").await, Answer::Maybe, "the old one goes on");
    rebuild.swap().await.unwrap();
    for filter in [&one, &other, &open_larger(&server).await] {
        let there = filter.check_many(&["late", "later", "item 1", "item 49"]).await;
        assert_eq!(there, [Answer::Maybe; 4]);
        assert_eq!(filter.check("item 99").await, Answer::Absent);
    }
    other.add("after").await.unwrap();
    assert_eq!(one.check("after").await, Answer::Maybe);
    assert_eq!(server.admin(&["DBSIZE"]).unwrap(), Value::Integer(2));
    assert_eq!(server.admin(&["HLEN", KEY]).unwrap(), Value::Integer(3));
}

async fn open_larger(server: &RedisServer) -> Redis {
    let builder = Redis::builder("test", 50_000, 0.001).redis_limit(secs(10));
    builder.open(&server.url()).await.unwrap()
}

async fn a_lost_filter_is_rebuilt() {
    let server = server();
    let (filter, other) = (open(&server).await, open(&server).await);
    server.admin(&["FLUSHALL"]).unwrap();
    let rebuild = filter.rebuild(1_000, 0.01).await.unwrap();
    assert_eq!(other.check("a").await, Answer::Unavailable);
    other.add("a").await.unwrap();
    assert_eq!(other.check("a").await, Answer::Unavailable);
    rebuild.swap().await.unwrap();
    assert_eq!(other.check("a").await, Answer::Maybe);
    assert_eq!(other.check("b").await, Answer::Absent);
}

async fn a_rebuild_that_is_given_up_changes_nothing() {
    let server = server();
    let (filter, other) = (open(&server).await, open(&server).await);
    filter.add("a").await.unwrap();
    let rebuild = filter.rebuild(10, 0.1).await.unwrap();
    drop(rebuild);
    until("the new one is gone", || server.admin(&["HLEN", KEY]).unwrap() == Value::Integer(3))
        .await;
    other.add("b").await.unwrap();
    assert_eq!(
        other.check_many(&["a", "b", "c"]).await,
        [Answer::Maybe, Answer::Maybe, Answer::Absent]
    );

    // Its process is killed, and what it made passes away.
    let killed = filter.rebuild(10, 0.1).await.unwrap();
    let Value::Bytes(next) = server.admin(&["HGET", KEY, "next"]).unwrap() else { panic!() };
    let shard = format!("{KEY}:{}:0", String::from_utf8_lossy(&next[..16]));
    server.admin(&["DEL", &shard]).unwrap();
    let error = killed.add_many(&["x"]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    other.add("d").await.unwrap();
    assert_eq!(other.check("d").await, Answer::Maybe);
    assert_eq!(server.admin(&["HEXISTS", KEY, "next"]).unwrap(), Value::Integer(0));
    assert_eq!(killed.swap().await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(other.check("a").await, Answer::Maybe);
    assert_eq!(server.admin(&["DBSIZE"]).unwrap(), Value::Integer(2));
}

async fn one_rebuild_at_a_time() {
    let server = server();
    let (filter, other) = (open(&server).await, open(&server).await);
    let rebuild = filter.rebuild(1_000, 0.01).await.unwrap();
    let error = other.rebuild(1_000, 0.01).await.unwrap_err();
    assert!(error.to_string().contains("another rebuild"), "{error}");
    rebuild.add_many(&["a"]).await.unwrap();
    rebuild.swap().await.unwrap();
    assert_eq!(other.check("a").await, Answer::Maybe);
    other.rebuild(1_000, 0.01).await.unwrap().swap().await.unwrap();
    assert_eq!(filter.check("a").await, Answer::Absent);
}

async fn a_late_writer_leaves_nothing_behind() {
    let server = server();
    let (filter, late) = (open(&server).await, open(&server).await);
    filter.rebuild(1_000, 0.01).await.unwrap().swap().await.unwrap();
    // It still knows the old one.
    late.add("a").await.unwrap();
    assert_eq!(filter.check("a").await, Answer::Maybe);
    assert_eq!(server.admin(&["DBSIZE"]).unwrap(), Value::Integer(2));
}

async fn windows_forget_and_know_what_they_do_not_know() {
    let server = server();
    let window = ms(1_500);
    let builder = || Rotating::builder("test", 100, 0.001, window).redis_limit(secs(10));
    let (one, other) = (
        builder().open(&server.url()).await.unwrap(),
        builder().open(&server.url()).await.unwrap(),
    );
    one.add("early").await.unwrap();
    assert_eq!(other.check("early").await, Answer::Maybe);
    assert_eq!(other.check("never").await, Answer::Unavailable, "who knows what was before");
    let absent = async |filter: &Rotating, item: &'static str| {
        let forgotten = || async { filter.check(item).await == Answer::Absent };
        leasehold_conformance::until("it is forgotten", forgotten).await.unwrap();
    };
    // By then it has watched for a whole window, and has forgotten.
    absent(&one, "never").await;
    absent(&other, "early").await;
    one.add("late").await.unwrap();
    assert_eq!(other.check("late").await, Answer::Maybe);
    absent(&other, "late").await;
    server.admin(&["FLUSHALL"]).unwrap();
    assert_eq!(one.check("late").await, Answer::Unavailable);
    one.add("again").await.unwrap();
    assert_eq!(other.check("again").await, Answer::Maybe);
    let other_size = Rotating::builder("test", 1_000, 0.001, window).open(&server.url()).await;
    assert_eq!(other_size.unwrap_err().kind(), ErrorKind::Foreign);
}

async fn an_addition_that_arrives_windows_later_is_found() {
    let (server, window) = (server(), ms(500));
    let filter = Rotating::builder("test", 100, 0.001, window).redis_limit(secs(10));
    let filter = filter.open(&server.url()).await.unwrap();
    for round in 0..20 {
        let item = format!("item {round}");
        server.admin(&["CLIENT", "PAUSE", "1600", "ALL"]).unwrap();
        filter.add(&item).await.unwrap();
        let added = std::time::Instant::now();
        let answer = filter.check(&item).await;
        // It is promised for one window.
        if added.elapsed() < window {
            assert_eq!(answer, Answer::Maybe);
            return;
        }
    }
    panic!("this machine takes longer than a window for a question");
}

/// A filter whose window is not over while a test runs, and the shards of this window and the next.
async fn still_window(server: &RedisServer) -> (Rotating, String, String) {
    let (window, now) = (secs(30 * 86_400), std::time::SystemTime::now());
    let filter = Rotating::builder("test", 100, 0.001, window).redis_limit(secs(10));
    let filter = filter.open(&server.url()).await.unwrap();
    let now = now.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() / window.as_secs();
    let shard = |window: u64| {
        let keys = server.admin(&["KEYS", &format!("{KEY}:window:{window:016x}-*:0")]).unwrap();
        assert_eq!(keys.items().len(), 1);
        keys.items()[0].text()
    };
    let shards = (shard(now), shard(now + 1));
    (filter, shards.0, shards.1)
}

async fn what_somebody_adds_whose_clock_is_ahead_is_found() {
    let server = server();
    let (filter, now, next) = still_window(&server).await;
    filter.add("a").await.unwrap();
    // As if it had been added to the next window.
    let moved = "local bits = redis.call('GETRANGE', KEYS[1], 8, -1) \
        redis.call('SETRANGE', KEYS[2], 8, bits) \
        redis.call('SETRANGE', KEYS[1], 8, string.rep('\\0', #bits)) return #bits";
    let bytes = server.admin(&["EVAL", moved, "2", &now, &next]).unwrap();
    assert!(matches!(bytes, Value::Integer(bytes) if bytes > 0), "{bytes:?}");
    assert_eq!(filter.check("a").await, Answer::Maybe);
    assert_eq!(filter.check("b").await, Answer::Unavailable);
}

async fn who_opens_windows_later_changes_no_bit() {
    let server = server();
    let (_filter, now, _) = still_window(&server).await;
    let all = "redis.call('SETRANGE', KEYS[1], 8, \
        string.rep('\\255', redis.call('STRLEN', KEYS[1]) - 8)) return redis.call('BITCOUNT', KEYS[1])";
    let bits = server.admin(&["EVAL", all, "1", &now]).unwrap();
    assert!(matches!(bits, Value::Integer(bits) if bits > 1_000), "{bits:?}");
    still_window(&server).await;
    assert_eq!(server.admin(&["BITCOUNT", &now]).unwrap(), bits);
}

async fn bad_sizes_are_named() {
    let server = server();
    for rate in [0.0, 1.0, -0.5, 2.0, f64::NAN] {
        let errors = [
            Local::new(10, rate).unwrap_err(),
            Redis::builder("test", 10, rate).open(&server.url()).await.unwrap_err(),
            Rotating::builder("test", 10, rate, secs(1)).open(&server.url()).await.unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().starts_with("error_rate is"), "{error}");
        }
    }
    assert!(Local::new(0, 0.1).unwrap_err().to_string().starts_with("items"));
    assert!(Local::new(u64::MAX, 0.1).unwrap_err().to_string().starts_with("items"));
    let error = Redis::builder("a}b", 10, 0.1).open(&server.url()).await.unwrap_err();
    assert!(error.to_string().starts_with("name"), "{error}");
    let window = Rotating::builder("test", 10, 0.1, ms(0)).open(&server.url()).await;
    assert!(window.unwrap_err().to_string().starts_with("window"));
    assert_eq!(server.admin(&["DBSIZE"]).unwrap(), Value::Integer(0));
}

async fn what_is_too_large_for_the_server_is_refused() {
    let settings =
        RedisSettings::new().line("proto-max-bulk-len 1mb").max_memory(32 << 20, "noeviction");
    let server = RedisServer::start(settings).unwrap();
    for (items, part) in
        [(1 << 40, "are allowed"), (2_000_000, "proto-max-bulk-len"), (u64::MAX, "are allowed")]
    {
        let error = Redis::builder("test", items, 0.01).open(&server.url()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains(part), "{error}");
        assert!(error.to_string().starts_with(&format!("items is {items}")), "{error}");
    }
    server.admin(&["CONFIG", "SET", "proto-max-bulk-len", "512mb"]).unwrap();
    let error = Redis::builder("test", 100_000_000, 0.01).open(&server.url()).await.unwrap_err();
    assert!(error.to_string().contains("the server has"), "{error}");
    assert_eq!(server.admin(&["DBSIZE"]).unwrap(), Value::Integer(0));
    // And what is not may be used, in several strings of the longest that there are.
    open(&server).await.add("a").await.unwrap();
}

async fn what_is_no_filter_is_left_alone() {
    let server = server();
    let epoch = "current";
    for (make, part) in [
        (vec!["SET", KEY, "foreign"], "another type"),
        (vec!["HSET", KEY, "a", "b"], "version"),
        (vec!["HSET", KEY, "v", "2", epoch, "x"], "version"),
        (vec!["HSET", KEY, "v", "1", epoch, "1 2 3 4"], "current"),
        (vec!["HSET", KEY, "v", "1", epoch, "0000000000000001 100 99999999 7"], "current"),
    ] {
        server.admin(&["DEL", KEY]).unwrap();
        server.admin(&make).unwrap();
        let before = server.admin(&["DUMP", KEY]).unwrap();
        let error = Redis::builder("test", 10, 0.1).open(&server.url()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Foreign, "{make:?}: {error}");
        assert!(error.to_string().contains(part) && error.to_string().contains(KEY), "{error}");
        assert_eq!(server.admin(&["DUMP", KEY]).unwrap(), before);
    }
    server.admin(&["DEL", KEY]).unwrap();
    drop(open(&server).await);
    let error = Redis::builder("test", 1_001, 0.01).open(&server.url()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Foreign);
    assert!(error.to_string().contains("rebuild it"), "{error}");
    assert_eq!(server.admin(&["DBSIZE"]).unwrap(), Value::Integer(2));
}

async fn while_redis_is_down_nothing_is_absent() {
    let mut server = server();
    let filter = open(&server).await;
    server.kill();
    assert_eq!(filter.check("a").await, Answer::Unavailable);
    let error = filter.add("a").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}
