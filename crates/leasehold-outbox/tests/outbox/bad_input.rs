//! What is not allowed is named, and changes nothing.

use futures_util::future::BoxFuture;
use leasehold_outbox::{Change, Database, Outbox, Refused, Relay, Transport};
use leasehold_outbox::{ErrorKind, Result};
use sqlx::Pool;

use super::database::{Talk, exec};
use super::recorder::Recorder;
use super::{cache, change, ms, outbox, rows, secs, server, start, until, until_stats};

pub(crate) async fn what_is_missing_or_not_allowed_is_named<E: Talk>(pool: Pool<E>) {
    let redis = server();
    let cache = cache(&redis.url());
    let invalid = |error: leasehold_cache::Error, word: &str| {
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains(word), "{error}");
    };
    for bad in ["", "a b", "a;b", "a.b.c", "1a", "x\" (id INT); --"] {
        invalid(Outbox::named(bad).unwrap_err(), "table");
    }
    let missing = Outbox::named("nowhere").unwrap();
    let mut tx = pool.begin().await.unwrap();
    let error = cache.invalidate_in_tx(&missing, &mut tx, &["a"]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Database, "{error}");
    assert!(error.to_string().contains("nowhere"), "{error}");
    tx.rollback().await.unwrap();
    let relay = Relay::builder(&missing, &pool).to(Recorder::new()).unwrap();
    assert_eq!(relay.once().await.unwrap_err().kind(), ErrorKind::Database);

    let (outbox, builder) = outbox(&pool).await;
    let mut tx = pool.begin().await.unwrap();
    invalid(cache.invalidate_in_tx(&outbox, &mut tx, &[]).await.unwrap_err(), "keys");
    let long = "k".repeat(513);
    invalid(cache.invalidate_in_tx(&outbox, &mut tx, &["a", &long]).await.unwrap_err(), "key");
    invalid(cache.invalidate_in_tx(&outbox, &mut tx, &["a\n"]).await.unwrap_err(), "key");
    tx.commit().await.unwrap();
    assert_eq!(rows(&pool).await, 0);
    change(&pool, &outbox, &cache, &[&"k".repeat(512), "käse 🧀", "'; DROP TABLE x"]).await;
    assert_eq!(rows(&pool).await, 3);

    for (builder, word) in [
        (builder.clone().batch(0), "batch"),
        (builder.clone().batch(1_001), "batch"),
        (builder.clone().poll(ms(9)), "poll"),
        (builder.clone().claim(ms(999)), "claim"),
        (builder.clone().claim(secs(3_601)), "claim"),
        (builder.clone().tries(0), "tries"),
    ] {
        invalid(builder.open(&redis.url()).unwrap_err(), word);
    }
    invalid(builder.open("http://secret@here").unwrap_err(), "redis://");
    for bad in ["", "nonsense", "redis://here", "postgres://", "sqlite:", "mysql://u:secret@h:x/d"]
    {
        let error = Database::open(bad).unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
        invalid(error, "");
    }
}

pub(crate) async fn what_no_cache_has_written_is_parked_and_stands_in_nobodys_way<E: Talk>(
    pool: Pool<E>,
) {
    let redis = server();
    let cache = cache(&redis.url());
    let (outbox, builder) = outbox(&pool).await;
    let bad = [
        ("'no colon'", "'a'", "0"),
        ("'a:b:c'", "'a'", "0"),
        ("'a:{b}'", "'a'", "0"),
        ("'a:b'", "''", "0"),
        ("'a:b'", "'a'", "99999999999"),
    ];
    for (cache, name, hold) in bad {
        let columns = "cache, name, hold_ms, queued_us, due_us, tries";
        let values = format!("{cache}, {name}, {hold}, 0, 0, 0");
        exec(&pool, &format!("INSERT INTO leasehold_cache_outbox ({columns}) VALUES ({values})"))
            .await;
    }
    change(&pool, &outbox, &cache, &["good"]).await;
    let recorder = Recorder::new();
    let relay = builder.to(recorder.clone()).unwrap();
    assert_eq!(relay.once().await.unwrap(), 6);
    assert_eq!(recorder.delivered(), [("good".to_owned(), 1)].into());
    let parked = relay.parked(10).await.unwrap();
    assert_eq!(parked.len(), bad.len());
    assert!(parked.iter().all(|row| row.problem.contains("allowed")), "{parked:?}");
    assert_eq!(relay.parked(2).await.unwrap().len(), 2);
    assert_eq!(relay.stats().parked_rows, bad.len() as u64);
}

/// On SQLite, where any value may lie in any column; and what no clock has said, on all of them.
pub(crate) async fn a_row_with_bad_numbers_holds_nobody_up<E: Talk>(pool: Pool<E>) {
    let redis = server();
    let cache = cache(&redis.url());
    let (outbox, builder) = outbox(&pool).await;
    let least = "-9223372036854775807 - 1";
    let bad: &[&str] = match E::ONE_WRITER {
        true => &["0, 0.5, 0, 0", "0, 0, 0, 'x'", "'x', 0, 0, 0", "0, X'FF', 0, 0"],
        false => &[],
    };
    let columns = "cache, name, hold_ms, queued_us, due_us, tries";
    let insert = format!("INSERT INTO leasehold_cache_outbox ({columns}) VALUES ('a:b', 'c', ");
    exec(&pool, &format!("{insert}0, {least}, 0, 0)")).await;
    for values in bad {
        exec(&pool, &format!("{insert}{values})")).await;
    }
    change(&pool, &outbox, &cache, &["good"]).await;
    let relay = builder.to(Recorder::new()).unwrap();
    let task = start(&relay);
    until_stats("the good are delivered", &relay, |stats| stats.delivered == 2).await;
    until_stats("the bad are parked", &relay, |stats| stats.parked == bad.len() as u64).await;
    task.abort();
    assert_eq!(relay.stats().failures, 0);
    let parked = relay.parked(10).await.unwrap();
    assert!(parked.iter().all(|row| row.problem.contains("not a whole number")), "{parked:?}");
    // A number that cannot be measured is no failure either.
    exec(&pool, &format!("{insert}0, {least}, 9223372036854775807, 0)")).await;
    change(&pool, &outbox, &cache, &["too"]).await;
    assert_eq!(relay.once().await.unwrap(), 1);
}

/// Where the database lets bytes into a text.
pub(crate) async fn a_parked_row_that_is_no_text_is_listed<E: Talk>(pool: Pool<E>) {
    let (_, builder) = outbox(&pool).await;
    let bytes = if E::NAME == "PostgreSQL" { "'c'" } else { "X'FF'" };
    exec(
        &pool,
        &format!(
            "INSERT INTO leasehold_cache_outbox (cache, name, hold_ms, queued_us, due_us, tries) \
             VALUES ('a:b', {bytes}, 0, 0, NULL, 0)"
        ),
    )
    .await;
    let parked = builder.to(Recorder::new()).unwrap().parked(10).await.unwrap();
    assert_eq!((parked.len(), parked[0].cache.as_str()), (1, "a:b"));
}

/// A batch of which it is not known what arrived is not deleted.
pub(crate) async fn a_transport_that_refuses_what_was_not_given_is_no_delivery<E: Talk>(
    pool: Pool<E>,
) {
    struct Beside;
    impl Transport for Beside {
        fn deliver<'a>(&'a self, changes: &'a [Change]) -> BoxFuture<'a, Result<Vec<Refused>>> {
            let refused = Refused::new(changes.len(), "beside");
            Box::pin(std::future::ready(Ok(vec![refused])))
        }
    }
    let redis = server();
    let (outbox, builder) = outbox(&pool).await;
    change(&pool, &outbox, &cache(&redis.url()), &["a", "b"]).await;
    let error = builder.to(Beside).unwrap().once().await.unwrap_err();
    assert!(error.to_string().contains("change 2, but the last index is 1"), "{error}");
    assert_eq!(rows(&pool).await, 2);
}

/// A table with its schema before it, as each of them wants it.
pub(crate) async fn a_table_may_have_its_schema_before_it<E: Talk>(pool: Pool<E>) {
    let schema = match E::NAME {
        "PostgreSQL" => "public".to_owned(),
        "SQLite" => "main".to_owned(),
        _ => pool_schema(&pool).await,
    };
    let outbox = Outbox::named(&format!("{schema}.elsewhere")).unwrap();
    for _ in 0..2 {
        outbox.create(&pool).await.unwrap();
    }
    let redis = server();
    change(&pool, &outbox, &cache(&redis.url()), &["a"]).await;
    let relay = Relay::builder(&outbox, &pool).to(Recorder::new()).unwrap();
    assert_eq!(relay.once().await.unwrap(), 1);
}

/// MySQL's schemas are its databases; these are `test` and a number.
async fn pool_schema<E: Talk>(pool: &Pool<E>) -> String {
    let number = "SELECT CAST(SUBSTRING(DATABASE(), 5) AS SIGNED)";
    format!("test{}", super::database::number(pool, number).await)
}

/// As when the database's clock has stepped back: what is new is due, and its age is a number.
pub(crate) async fn a_row_from_the_future_is_due<E: Talk>(pool: Pool<E>) {
    let redis = server();
    let cache = cache(&redis.url());
    let (outbox, builder) = outbox(&pool).await;
    change(&pool, &outbox, &cache, &["a"]).await;
    let due = "SELECT COUNT(*) FROM leasehold_cache_outbox WHERE due_us = 0";
    assert_eq!(super::database::number(&pool, due).await, 1);
    let later = "UPDATE leasehold_cache_outbox SET queued_us = queued_us + 600000000";
    exec(&pool, later).await;
    let recorder = Recorder::of(0);
    let relay = builder.to(recorder.clone()).unwrap();
    let task = start(&relay);
    until_stats("its age is measured", &relay, |stats| stats.oldest > secs(500)).await;
    recorder.let_through(1);
    until_stats("it is delivered", &relay, |stats| stats.delivered == 1).await;
    task.abort();
}

/// A number that is given twice, as after a restore: only the row that was delivered goes.
pub(crate) async fn a_row_that_has_the_number_of_another_stays<E: Talk>(pool: Pool<E>) {
    let redis = server();
    let (outbox, builder) = outbox(&pool).await;
    change(&pool, &outbox, &cache(&redis.url()), &["a"]).await;
    let recorder = Recorder::of(0);
    let relay = builder.to(recorder.clone()).unwrap();
    let task = start(&relay);
    until("it has arrived", || std::future::ready(recorder.arrived() == 1)).await;
    // Another under its number, which is not due in this test.
    let other = "UPDATE leasehold_cache_outbox SET queued_us = queued_us + 1";
    exec(&pool, other).await;
    recorder.let_through(1);
    until_stats("it is done", &relay, |stats| stats.delivered == 1).await;
    assert_eq!(rows(&pool).await, 1);
    task.abort();
}
