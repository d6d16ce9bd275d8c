//! Redis comes back with an older filter: it does not say that what was added since is absent.

use leasehold_cache::bloom::{Answer, Builder, Redis, Rotating};
use leasehold_conformance as conformance;
use leasehold_test_servers::{RedisServer, RedisSettings};

use super::restarts::{Back, Pair, go_back};
use super::{Database, Test, quiet, secs, server, test};

pub(crate) const TESTS: &[Test] = &[
    test!(a_filter_from_a_snapshot_answers_unavailable_until_it_is_rebuilt),
    test!(a_filter_from_a_shortened_file_answers_unavailable_until_it_is_rebuilt),
    test!(a_filter_on_a_demoted_server_answers_unavailable_within_seconds),
    test!(a_rebuild_that_a_restart_has_cut_is_not_swapped_in),
    test!(a_rebuild_after_a_restart_takes_additions_of_all_processes),
    test!(a_filter_of_a_window_forgets_what_was_before_a_restart_and_does_not_deny_it),
];

fn builder() -> Builder {
    Redis::builder("test", 1_000, 0.001).redis_limit(secs(10))
}

/// Waits until the filter's connection is back; asks for an item that was never added.
async fn is_back(filter: &Redis) {
    let back = conformance::until("Redis is reached", async || filter.add("back").await.is_ok());
    back.await.unwrap();
}

async fn a_filter_from_a_snapshot_answers_unavailable_until_it_is_rebuilt() {
    doubted(server(), Back::Snapshot).await;
}

async fn a_filter_from_a_shortened_file_answers_unavailable_until_it_is_rebuilt() {
    let server = RedisServer::start(RedisSettings::new().append_only()).unwrap();
    doubted(server, Back::ShortenedFile).await;
}

async fn doubted(mut server: RedisServer, back: Back) {
    let filter = builder().create(true).open(&server.url()).await.unwrap();
    let database = Database::default();
    filter.add("a").await.unwrap();
    go_back(&mut server, back, async || {
        filter.add("b").await.unwrap();
        database.commit("b", 7);
        assert_eq!(filter.check_many(&["b", "c"]).await, [Answer::Maybe, Answer::Absent]);
    })
    .await;
    is_back(&filter).await;
    let opened = builder().open(&server.url()).await.unwrap();
    let created = builder().create(true).open(&server.url()).await.unwrap();
    for filter in [&filter, &opened, &created] {
        assert_eq!(filter.check_many(&["a", "b", "c"]).await, [Answer::Unavailable; 3]);
    }
    let cache = quiet().filter(filter.clone()).open(&server.url()).unwrap();
    assert_eq!(database.get(&cache, "b").await, Some(7));
    // The way back.
    let rebuild = opened.rebuild(1_000, 0.001).await.unwrap();
    rebuild.add_many(&["a", "b"]).await.unwrap();
    assert_eq!(filter.check("b").await, Answer::Unavailable);
    rebuild.swap().await.unwrap();
    for filter in [&filter, &opened, &created] {
        let answers = filter.check_many(&["a", "b", "c"]).await;
        assert_eq!(answers, [Answer::Maybe, Answer::Maybe, Answer::Absent]);
    }
    // And again.
    go_back(&mut server, back, async || filter.add("d").await.unwrap()).await;
    is_back(&filter).await;
    assert_eq!(filter.check("d").await, Answer::Unavailable);
}

async fn a_filter_on_a_demoted_server_answers_unavailable_within_seconds() {
    let pair = Pair::start();
    let filter = builder().create(true).open(&pair.name.url()).await.unwrap();
    filter.add("a").await.unwrap();
    conformance::until("the replica has it", async || {
        pair.new.info("master_repl_offset").unwrap() == pair.old.info("master_repl_offset").unwrap()
    })
    .await
    .unwrap();
    pair.fail_over(async || filter.add("b").await.unwrap()).await;
    conformance::until("the other server is noticed", async || {
        filter.check("b").await == Answer::Unavailable
    })
    .await
    .unwrap();
}

async fn a_rebuild_that_a_restart_has_cut_is_not_swapped_in() {
    let mut server = server();
    let filter = builder().create(true).open(&server.url()).await.unwrap();
    let rebuild = filter.rebuild(1_000, 0.001).await.unwrap();
    rebuild.add_many(&["a"]).await.unwrap();
    go_back(&mut server, Back::Snapshot, async || rebuild.add_many(&["b"]).await.unwrap()).await;
    is_back(&filter).await;
    assert!(rebuild.add_many(&["c"]).await.is_err(), "what it had is not whole");
    assert!(rebuild.swap().await.is_err());
    assert_eq!(filter.check("b").await, Answer::Unavailable);
    // Another takes its place at once.
    let again = filter.rebuild(1_000, 0.001).await.unwrap();
    again.add_many(&["a", "b"]).await.unwrap();
    again.swap().await.unwrap();
    assert_eq!(filter.check_many(&["b", "c"]).await, [Answer::Maybe, Answer::Absent]);
}

async fn a_rebuild_after_a_restart_takes_additions_of_all_processes() {
    let mut server = server();
    let (one, other) = (
        builder().create(true).open(&server.url()).await.unwrap(),
        builder().create(true).open(&server.url()).await.unwrap(),
    );
    go_back(&mut server, Back::Snapshot, async || one.add("a").await.unwrap()).await;
    is_back(&one).await;
    is_back(&other).await;
    let rebuild = one.rebuild(1_000, 0.001).await.unwrap();
    rebuild.add_many(&["a"]).await.unwrap();
    // It does not know of the rebuild.
    other.add("b").await.unwrap();
    rebuild.swap().await.unwrap();
    for filter in [&one, &other] {
        let answers = filter.check_many(&["a", "b", "c"]).await;
        assert_eq!(answers, [Answer::Maybe, Answer::Maybe, Answer::Absent]);
    }
}

async fn a_filter_of_a_window_forgets_what_was_before_a_restart_and_does_not_deny_it() {
    let mut server = server();
    let window = secs(3);
    let builder = || Rotating::builder("test", 100, 0.001, window).redis_limit(secs(10));
    let filter = builder().open(&server.url()).await.unwrap();
    // It knows what was added in the last window.
    conformance::until("it has watched for a window", async || {
        filter.check("x").await == Answer::Absent
    })
    .await
    .unwrap();
    go_back(&mut server, Back::Snapshot, async || filter.add("a").await.unwrap()).await;
    for filter in [&filter, &builder().open(&server.url()).await.unwrap()] {
        assert_ne!(filter.check("a").await, Answer::Absent);
    }
    conformance::until("it has watched for a window again", async || {
        filter.check("x").await == Answer::Absent
    })
    .await
    .unwrap();
    filter.add("b").await.unwrap();
    assert_eq!(filter.check("b").await, Answer::Maybe);
}
